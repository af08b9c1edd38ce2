"""Causal stability: from when on nothing concurrent to an effect can still arrive (``rules`` 3).

An effect is causally stable here if every member is known to have it durably, and everything that
the member had issued by then has been applied here.  The second half matters:

    R2 issues create C, not having seen destroy D; then it applies D and says so to R1.
    R1 hears that before C itself.  Every region has D - yet C, which did not observe it, is still
    on its way.  Dropping D's tombstone now would let C's group live at R1 only.

So a version vector heard from region r counts only once its own component, VV_r[r], is covered
here: from then on every effect of r that still comes was issued after r had all that VV names.

A region may lose effects that others have heard of, and number new ones in their place.  Then its
earlier vectors say nothing about the new ones, and other regions lack new ones that they seem to
have:

    R1 issues 1:7 and says so; R3 has it, too.  Both are put back to before, and 1:7 is D now.
    R2 has D, and R1; but R3 lacks it, and may issue a create that has not observed it.

Members may change.  A new one counts at once, so less may be stable than before.  What was dropped
by then is dropped; the caller that adds a member answers for that (``has``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crdtstream.core.clock import MutableVersionVector, VersionVector, capped, covers, join, meet
from crdtstream.core.ids import RegionId


@dataclass(slots=True)
class Heard:
    """Version vectors that one member has sent.

    Always so: ``newest`` covers ``waiting``, and that ``counted``.

    Attributes:
        counted: the last version vector that counts.
        waiting: the next one to count; kept although newer ones are known, because under a steady
            stream of effects the newest would always be ahead of us.
        newest: the last one heard.
        floor: what each effect of the member has observed, whatever vector it sends.
    """

    counted: VersionVector = field(default_factory=dict)
    waiting: VersionVector = field(default_factory=dict)
    newest: VersionVector = field(default_factory=dict)
    floor: VersionVector = field(default_factory=dict)


class StabilityTracker:
    """The durable version vectors of the other members, and what follows from them."""

    __slots__ = ("_heard", "_region")

    def __init__(self, region: RegionId, members: Iterable[RegionId]) -> None:
        self._region = region
        self._heard: dict[RegionId, Heard] = {}
        self.count(members)

    def count(
        self, members: Iterable[RegionId], *, has: Mapping[RegionId, VersionVector] | None = None
    ) -> None:
        """Set the members whose version vectors decide from now on.

        Args:
            has: of new ones, what every effect that they will issue has observed.
        """
        before, has = self._heard, has or {}
        self._heard = {}
        for member in sorted(set(members) - {self._region}):
            heard = before.get(member)
            if heard is None:
                vv = dict(has.get(member, {}))
                heard = Heard(vv, vv, vv, vv)
            self._heard[member] = heard

    def learn(self, region: RegionId, durable_vv: VersionVector) -> None:
        """A member's durable version vector; it only grows.  Others are ignored."""
        heard = self._heard.get(region)
        if heard is None:
            return
        newest = dict(durable_vv)
        join(newest, heard.floor)
        if heard.waiting == heard.newest == heard.counted:
            heard.waiting = newest
        assert covers(newest, heard.newest), "a member has less than it said before"
        assert covers(newest, heard.waiting)
        assert covers(heard.waiting, heard.counted)
        heard.newest = newest

    def note_ends(self, ends: Mapping[RegionId, int]) -> None:
        """Note that effects beyond these ends, already heard of, do not count (``rules`` 18).

        A region itself says again what it has, once it numbers effects again.
        """
        for region, heard in self._heard.items():
            heard.floor = floor = capped(heard.floor, ends)
            if region in ends:
                heard.counted = heard.waiting = heard.newest = floor
            else:
                heard.counted = capped(heard.counted, ends)
                heard.waiting = capped(heard.waiting, ends)
                heard.newest = capped(heard.newest, ends)
            assert covers(heard.waiting, heard.counted)
            assert covers(heard.newest, heard.waiting)

    def stable(self, own_vv: VersionVector) -> MutableVersionVector:
        """Version vector of what is causally stable, given what is durably applied here."""
        for region, heard in self._heard.items():
            _count(region, heard, own_vv)
        return meet([own_vv, *(heard.counted for heard in self._heard.values())])

    def heard(self) -> Mapping[RegionId, VersionVector]:
        """The newest version vector of each member."""
        return {region: heard.newest for region, heard in self._heard.items()}


def _count(region: RegionId, heard: Heard, own_vv: VersionVector) -> None:
    """Let count whatever may."""
    reached = own_vv.get(region, 0)
    if heard.newest.get(region, 0) <= reached:
        heard.counted = heard.waiting = heard.newest
    elif heard.waiting.get(region, 0) <= reached:
        heard.counted = heard.waiting
        heard.waiting = heard.newest
