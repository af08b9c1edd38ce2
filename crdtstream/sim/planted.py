"""Planting bugs, to see that the simulator notices them.

Each is a slip that somebody could make, at the place where it would be made (``bugs``).
``planted`` puts one into the running program and takes it out again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crdtstream import compiled
from crdtstream.sim.bugs.in_bootstraps import IN_BOOTSTRAPS
from crdtstream.sim.bugs.in_membership import IN_MEMBERSHIP
from crdtstream.sim.bugs.in_region import IN_REGION
from crdtstream.sim.bugs.in_state import IN_STATE

BUGS: Final = {bug.name: bug for bug in (*IN_STATE, *IN_REGION, *IN_BOOTSTRAPS, *IN_MEMBERSHIP)}


class CompiledError(Exception):
    """A bug cannot be planted in compiled code, which calls its functions without looking them
    up."""


def require_sources() -> None:
    """Goes on where a planted bug has an effect.

    Raises:
        CompiledError: the program is compiled.
    """
    if compiled.is_compiled():
        raise CompiledError(
            f"a bug can be planted only where the sources run: set {compiled.PURE}=1"
        )


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have the bug of this name in the program.

    Raises:
        KeyError: there is none.
        CompiledError: the program is compiled.
    """
    patches = BUGS[name].patches()
    require_sources()
    before = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    try:
        for owner, attribute, wrong in patches:
            setattr(owner, attribute, wrong)
        yield
    finally:
        for owner, attribute, right in before:
            setattr(owner, attribute, right)
