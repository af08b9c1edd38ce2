"""Programs that renew certificates replace a node's files, and the node looks after each step.

Nobody asks it to: it polls.  Half of a change is never used, the reason is known meanwhile, and the
whole change is used without help.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from crdtstream.certificates import files, node_files
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.files import FileRead
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import RegionId
from tests.certificates.making import Made, make, make_authority
from tests.certificates.renewing import (
    Certbot,
    Kubernetes,
    Renewing,
    SpiffeHelper,
    SpiffeHelperByRename,
    StepRekey,
    StepRenew,
)
from tests.certificates.test_watching import watched
from tests.patience import until

ONE = Wanted(RegionId(1), "crdb")
PROGRAMS = (Kubernetes, StepRenew, StepRekey, SpiffeHelper, SpiffeHelperByRename, Certbot)


def two_leaves(program: type[Renewing]) -> tuple[Made, Made]:
    """A certificate, and the one by which the program replaces it."""
    if not issubclass(program, StepRenew):
        return make(make_authority()), make(make_authority(name="the next CA"))
    between = make_authority(make_authority(), "an intermediate CA")
    first = make(between)
    return first, make(between, key=first.key if program is StepRenew else None)


@pytest.mark.parametrize("program", PROGRAMS)
async def test_half_of_a_renewal_is_never_used_and_the_whole_is(
    program: type[Renewing], tmp_path: Path
) -> None:
    first, second = two_leaves(program)
    renewing = program(tmp_path)
    renewing.begin(first)
    certificates = await Certificates.open(renewing.paths, ONE)
    former = certificates.current
    async with watched(certificates) as watching:
        refused = 0
        for words in renewing.replace(second):
            if words:
                await until(_is_refused(certificates, words, refused), f"refused: {words}")
                refused = certificates.reload_failures
                assert certificates.current is former
                assert certificates.trouble is not None
        await until(lambda: certificates.current.certificates == second.pem + second.between)
        await until(lambda: certificates.fault is None)
        assert not watching.done()
    # From the first set to the second, and to nothing between them.
    assert (certificates.current.version, certificates.reloads) == (2, 1)
    assert certificates.current.key == second.key_pem
    assert second.root.pem in certificates.current.ca
    assert certificates.trouble is None


def _is_refused(certificates: Certificates, words: str, before: int) -> Callable[[], bool]:
    """True after a look at other files than before, which it refused for this reason."""
    return lambda: (
        certificates.reload_failures > before
        and certificates.fault is not None
        and words in certificates.fault
    )


@pytest.mark.parametrize("at", range(3))
async def test_a_folder_that_is_swapped_during_a_look_is_read_again(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the swap the node has read some of its files, and the rest is of the new folder."""
    first, second = two_leaves(Kubernetes)
    renewing = Kubernetes(tmp_path)
    renewing.begin(first)
    certificates = await Certificates.open(renewing.paths, ONE)
    read, steps, reads = files.read_file, renewing.replace(second), 0

    def read_and_swap(path: Path) -> FileRead:
        nonlocal reads
        found = read(path)
        if reads == at:
            list(steps)
        reads += 1
        return found

    for module in (files, node_files):
        monkeypatch.setattr(module, "read_file", read_and_swap)
    assert await certificates.reload() is None
    assert certificates.current.certificates == second.pem
    assert (certificates.reloads, certificates.reload_failures) == (1, 0)
