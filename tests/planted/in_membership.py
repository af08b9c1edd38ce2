"""Slips in the members: how they are decided, what a removed region leaves, which one inherits."""

from collections.abc import Sequence
from typing import Any, Final

from crdtstream.commands.beyond_redis.version_vectors import refuse_lost
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import Change
from crdtstream.core.membership.deciding import Deciding
from crdtstream.region.links.routes import Routes
from crdtstream.region.members.known_members import KnownMembers
from crdtstream.region.members.membership import Membership
from crdtstream.region.members.sealing import Sealing
from tests.planted.bug import Bug, Patch, everywhere

# The first seeds in which members change begin here (``sim/making.py``).
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
    """H3: effects of it that one member has reach the others only if something waits for them."""

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


def _a_second_removal_waits_for_the_effect_of_the_first() -> Sequence[Patch]:
    """V5: two regions are gone for good, and all that are left recover."""
    return [(Deciding, "_is_next", lambda *_: False), (Deciding, "gone_on", lambda self: self)]


def _lost_effects_are_waited_for() -> Sequence[Patch]:
    """M17: a token of a removed region is taken for one of effects that are still to come."""
    return everywhere(refuse_lost, lambda *_: None)


def _a_seal_is_final_while_others_lack_something() -> Sequence[Patch]:
    return [(Sealing, "are_all_level", True)]


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
        seed=FIRST + 20,
    ),
    Bug(
        "who-joins-is-told-the-cuts",
        "a region that joins lacks the last effects of a removed one",
        _who_joins_is_told_the_cuts,
        frozenset({"I21"}),
        seed=FIRST + 20,
    ),
    Bug(
        "a-removed-region-takes-writes",
        "clients write into a region that no other one hears",
        _a_removed_region_takes_writes,
        frozenset({"I21"}),
        seed=FIRST + 10,
    ),
    Bug(
        "a-second-removal-waits-for-the-effect-of-the-first",
        "two regions are gone, all others wait for them, and neither can be removed",
        _a_second_removal_waits_for_the_effect_of_the_first,
        frozenset({"liveness"}),
        seed=FIRST,
    ),
    Bug(
        "lost-effects-are-waited-for",
        "a client that failed over from a removed region waits for ever",
        _lost_effects_are_waited_for,
        frozenset({"I22"}),
        seed=FIRST,
    ),
    Bug(
        "a-seal-is-final-while-others-lack-something",
        "a region that was removed with care takes acknowledged writes with it",
        _a_seal_is_final_while_others_lack_something,
        frozenset({"I21"}),
        seed=FIRST + 40,
    ),
)
