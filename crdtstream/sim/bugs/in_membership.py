"""Slips in who is a member: how that is decided, what a removed region leaves, who inherits."""

from collections.abc import Sequence
from typing import Any, Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.changes import Change
from crdtstream.core.membership.deciding import Deciding
from crdtstream.region.known_members import KnownMembers
from crdtstream.region.links.routes import Routes
from crdtstream.region.membership import Membership
from crdtstream.sim.bugs.bug import Bug, Patch

# Of the first seeds in which members change (``sim/making.py``).
FIRST: Final = 3_000_000_000


def _half_is_enough() -> Sequence[Patch]:
    """One less than more than half of all must agree."""

    def quorum(
        self: Deciding, change: Change, survivors: tuple[RegionId, ...]
    ) -> tuple[tuple[RegionId, ...], int]:
        asked, needed = right(self, change, survivors)
        return asked, max(1, needed - 1)

    right = Deciding._quorum
    return [(Deciding, "_quorum", quorum)]


def _nobody_is_asked_for_a_removed_region() -> Sequence[Patch]:
    """H3: what one member has of it the others get when something waits for it, or never."""

    def wanted(self: Routes, peer: RegionId, now: Millis) -> frozenset[RegionId]:
        return right(self, peer, now) - self._peers.leaving

    right = Routes.wanted
    return [(Routes, "wanted", wanted)]


def _who_joins_is_told_the_cuts() -> Sequence[Patch]:
    return [(Membership, "told", property(lambda self: self.known))]


def _a_removed_region_takes_writes() -> Sequence[Patch]:
    def obstacle(self: KnownMembers) -> str | None:
        told: str | None = right.__get__(self)
        return None if told is not None and " was removed " in told else told

    right: Any = KnownMembers.__dict__["obstacle"]
    return [(KnownMembers, "obstacle", property(obstacle))]


IN_MEMBERSHIP: Final = (
    Bug(
        "half-is-enough",
        "two parts of a database decide each without the other, or a number is given twice",
        _half_is_enough,
        frozenset({"I20"}),
        seed=FIRST,
    ),
    Bug(
        "nobody-is-asked-for-a-removed-region",
        "the last effects of a removed region stay in one region, and nothing is stable any more",
        _nobody_is_asked_for_a_removed_region,
        frozenset({"liveness"}),
        seed=FIRST,
    ),
    Bug(
        "who-joins-is-told-the-cuts",
        "a region that joins lacks the last effects of a removed one",
        _who_joins_is_told_the_cuts,
        frozenset({"I21"}),
        seed=FIRST,
    ),
    Bug(
        "a-removed-region-takes-writes",
        "clients write into a region that no other one hears",
        _a_removed_region_takes_writes,
        frozenset({"I21"}),
        seed=FIRST,
    ),
)
