"""Peers that recover: nothing of their effects is taken from them until all have answered them.

A peer whose folder proves nothing asks every member which of its effects are there (``rules`` 18).
Before this region answers, it drops what it holds unapplied of that peer's effects, whether it came
from the peer itself or by relays.  Otherwise

    R2 answers "I have 5", then takes 6 from what an earlier run of R1 had sent;
    R1, told of 5, uses the dot 6 for something else.

So its effects are *held* from the moment in which this region hears of the start: everything that
was on its way is dropped, and its own link is not asked for them.  Other regions may relay them:
they send only what a power cut cannot take back, so their answers count it.  The hold ends when the
peer says that all have answered; the effects that it has to take back are known then.
"""

from typing import NamedTuple

from crdtstream.core.ids import RegionId
from crdtstream.region.events import HeldChanged
from crdtstream.region.tick import Tick


class PeerRun(NamedTuple):
    """A region, and one run of its node."""

    region: RegionId
    run_id: int


class PeerRuns:
    """Regions whose effects are held, each with the run of its node for which they are."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._held: dict[RegionId, int] = {}

    def is_held(self, region: RegionId) -> bool:
        return region in self._held

    def note_start(self, region: RegionId, run_id: int, *, recovering: bool) -> None:
        """Note that the peer opened a link, or welcomed one: this is its run from here on."""
        if not recovering:
            self._release(region)
        elif self._held.get(region) != run_id:
            self._held[region] = run_id
            self._tick.post(HeldChanged(region))

    def note(self, region: RegionId, run_id: int, *, recovering: bool) -> None:
        """Note the state of a run of the peer; a late word of an earlier run is ignored."""
        if recovering:
            self.note_start(region, run_id, recovering=True)
        elif self._held.get(region) == run_id:
            self._release(region)

    def forget(self, region: RegionId) -> None:
        """Forget a region that is no peer any more."""
        self._release(region)

    def _release(self, region: RegionId) -> None:
        if self._held.pop(region, None) is not None:
            self._tick.post(HeldChanged(region))
