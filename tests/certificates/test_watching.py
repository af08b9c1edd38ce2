"""Certificates of a running node: a good change is used, a bad one is not, and is counted once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from crdtstream.certificates import watching
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.node_files import Paths, Stamped
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import RegionId
from tests.certificates.making import DAY, NOW, make, make_authority
from tests.certificates.node_folder import NodeFolder
from tests.patience import seconds, until

SECONDS_MAX = 20


@pytest.fixture
def node(tmp_path: Path) -> NodeFolder:
    found = NodeFolder(tmp_path)
    found.put_all(make(make_authority()))
    return found


async def opened(node: NodeFolder) -> Certificates:
    return await Certificates.open(node.paths, Wanted(RegionId(1), "crdb"))


@asynccontextmanager
async def watched(certificates: Certificates) -> AsyncIterator[asyncio.Task[None]]:
    """The task that looks at the files, which goes on whatever it finds."""
    watching.POLL_SECONDS.value = 0.01
    task = asyncio.create_task(certificates.run())
    try:
        yield task
    finally:
        watching.POLL_SECONDS.value = watching.POLL_SECONDS.default
        task.cancel()


async def test_a_changed_certificate_is_used_within_a_poll(node: NodeFolder) -> None:
    certificates = await opened(node)
    first = certificates.current
    leaf = make(make_authority())
    async with watched(certificates):
        node.put_all(leaf)
        await until(lambda: certificates.current.certificates == leaf.pem)
    assert certificates.current.key == leaf.key_pem
    assert certificates.current.version > first.version
    assert certificates.current.ca_version > first.ca_version
    assert certificates.fault is None


async def test_another_leaf_of_the_same_authority_changes_no_authority(node: NodeFolder) -> None:
    root = make_authority()
    node.put_all(make(root))
    certificates = await opened(node)
    node.put_all(make(root))
    assert await certificates.reload() is None
    assert (certificates.current.version, certificates.current.ca_version) == (2, 1)
    node.put("ca.pem", root.pem + make_authority(name="the next one").pem)
    assert await certificates.reload() is None
    assert (certificates.current.version, certificates.current.ca_version) == (3, 3)


async def test_a_wish_to_reload_that_came_early_is_granted(node: NodeFolder) -> None:
    certificates = await opened(node)
    asked = asyncio.Event()
    asked.set()
    node.put_all(make(make_authority()))
    task = asyncio.create_task(certificates.reload_at(asked))
    await until(lambda: certificates.reloads == 1)
    node.put_all(make(make_authority()))
    asked.set()
    await until(lambda: certificates.reloads == 2)
    task.cancel()


async def test_halfway_through_a_change_the_former_set_goes_on(node: NodeFolder) -> None:
    """S9: key and certificate are two files, and the node looks between the two renames."""
    certificates = await opened(node)
    former, leaf = certificates.current, make(make_authority())
    node.put("ca.pem", leaf.root.pem)
    node.put("key.pem", leaf.key_pem)
    with capture_logs() as lines:
        for _ in range(3):
            fault = await certificates.reload()
    assert certificates.current is former
    assert fault is not None
    assert "key of another certificate" in fault
    # Once, not at each look.
    assert certificates.reload_failures == 1
    assert [line["log_level"] for line in lines] == ["error"]
    assert "key of another certificate" in lines[0]["reason"]

    node.put("cert.pem", leaf.pem)
    assert await certificates.reload() is None
    assert certificates.current.certificates == leaf.pem
    assert (certificates.reloads, certificates.reload_failures) == (1, 1)


async def test_half_of_a_bundle_is_not_used_while_it_is_written(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut between two authorities, it is a good bundle of one."""
    certificates = await opened(node)
    former = certificates.current.ca
    further = [make_authority(name=name).pem for name in ("2nd", "3rd", "4th", "5th")]
    rest = iter(further)
    of = Stamped.of

    def look(paths: Paths) -> Stamped:
        """Looks at the files, and somebody writes on right after the look."""
        found = of(paths)
        with (node.folder / "ca.pem").open("ab") as file:
            file.write(next(rest, b""))
        return found

    monkeypatch.setattr(watching, "Stamped", SimpleNamespace(of=look))
    async with watched(certificates):
        await until(lambda: certificates.reloads > 0)
    assert certificates.current.ca == former + b"".join(further)


async def test_files_that_never_stay_the_same_are_read_anyway(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = await opened(node)
    leaf = make(make_authority())
    node.put_all(leaf)
    monkeypatch.setattr(watching, "Stamped", SimpleNamespace(of=lambda _paths: object()))
    async with watched(certificates):
        await until(lambda: certificates.current.certificates == leaf.pem)


async def test_an_operator_does_not_wait_until_files_stay_the_same(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch has noticed a change, and looks again in a second; here, never."""
    certificates = await opened(node)
    leaf, notices = make(make_authority()), asyncio.Event()
    slept = 0

    async def sleep(_seconds: float) -> None:
        nonlocal slept
        slept += 1
        if slept > 1:
            notices.set()
            await asyncio.Event().wait()

    node.put_all(leaf)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    task = asyncio.create_task(certificates.run())
    await asyncio.wait_for(notices.wait(), seconds())
    assert await asyncio.wait_for(certificates.reload(), seconds()) is None
    assert certificates.current.certificates == leaf.pem
    task.cancel()


async def test_files_that_become_good_by_themselves_are_used(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate for tomorrow is refused today; tomorrow no file has changed."""
    certificates = await opened(node)
    leaf = make(make_authority(), begins=NOW + DAY, ends=NOW + 3 * DAY)
    node.put_all(leaf)
    fault = await certificates.reload()
    assert fault is not None
    assert "not yet valid" in fault
    monkeypatch.setattr(watching, "_now", lambda: NOW + 1.5 * DAY)
    async with watched(certificates):
        await until(lambda: certificates.fault is None)
    assert certificates.current.certificates == leaf.pem


async def test_files_written_again_with_the_same_content_are_no_new_set(node: NodeFolder) -> None:
    certificates = await opened(node)
    node.put("cert.pem", node.paths.certificate.read_bytes())
    assert await certificates.reload() is None
    assert (certificates.current.version, certificates.reloads) == (1, 0)


async def test_files_that_did_not_change_are_not_read(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = await opened(node)
    reads: list[object] = []
    looks: list[object] = []
    of = Stamped.of

    def look(paths: Paths) -> Stamped:
        looks.append(paths)
        return of(paths)

    monkeypatch.setattr(watching, "read_set", lambda *given: reads.append(given))
    monkeypatch.setattr(Stamped, "of", look)
    async with watched(certificates):
        await until(lambda: len(looks) > 3)
    assert reads == []


async def test_the_last_fifth_of_a_life_is_near_its_end(
    node: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.put_all(make(make_authority(), begins=NOW, ends=NOW + 10 * DAY))
    certificates = await opened(node)
    for days, is_near in ((7.9, False), (8.1, True), (11, True)):
        monkeypatch.setattr(watching, "_now", lambda days=days: NOW + days * DAY)
        assert certificates.is_near_end is is_near
    assert certificates.seconds_left == -DAY.total_seconds()
