"""Planting bugs: into the running program, for a while or as long as it lives."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from crdtstream import compiled
from crdtstream.sim import seeds
from tests.planted.bug import Bug, NodeBug, Patch
from tests.planted.in_bootstraps import IN_BOOTSTRAPS
from tests.planted.in_incarnations import IN_INCARNATIONS
from tests.planted.in_membership import IN_MEMBERSHIP
from tests.planted.in_nodes import IN_NODES
from tests.planted.in_region import IN_REGION
from tests.planted.in_state import IN_STATE

# Bugs that the simulator must notice.
BUGS: Final = {
    bug.name: bug
    for bug in (*IN_STATE, *IN_REGION, *IN_BOOTSTRAPS, *IN_MEMBERSHIP, *IN_INCARNATIONS)
}
# Bugs that drills must notice.
NODE_BUGS: Final = {bug.name: bug for bug in IN_NODES}


class CompiledError(Exception):
    """A bug cannot be planted in compiled code, which does not look its functions up."""


def plant(bug: Bug | NodeBug) -> None:
    """Plant a bug in this process, for its whole life.

    Raises:
        CompiledError: the program is compiled.
    """
    _require_sources()
    _put(bug.patches())


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug in this process and in those that share seeds with it; then take it out again.

    Args:
        name: of one that the simulator must notice.

    Raises:
        KeyError: it does not exist.
        CompiledError: the program is compiled.
    """
    bug = BUGS[name]
    _require_sources()
    others: Patch = (seeds, "begin_process", partial(_begin_process, name))
    with replaced([*bug.patches(), others]):
        yield


@contextmanager
def replaced(patches: Sequence[Patch]) -> Iterator[None]:
    """Replace attributes by others, and restore them at the end."""
    before = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    try:
        _put(patches)
        yield
    finally:
        _put(before)


def _put(patches: Sequence[Patch]) -> None:
    for owner, attribute, value in patches:
        setattr(owner, attribute, value)


def _begin_process(name: str) -> None:
    """Begin as the simulator begins in a process, with a bug."""
    plant(BUGS[name])
    gc.freeze()


def _require_sources() -> None:
    """Return where a bug has an effect.

    Raises:
        CompiledError: the program is compiled.
    """
    if compiled.is_compiled():
        raise CompiledError(
            f"a bug can be planted only where the sources run: set {compiled.PURE}=1"
        )
