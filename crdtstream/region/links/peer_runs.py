"""Peers that recover: nothing of their effects is taken from them until all have answered them.

A peer whose folder proves nothing asks every member which of its effects are there (``rules`` 18).
Before this region answers, it forgets what it holds unapplied of that peer's effects, from its
links to it and to whoever relays them: otherwise

    R2 answers "I have 5", then takes 6 from what an earlier run of R1 had sent;
    R1, told of 5, gives the dot 6 to something else.

So its effects are *held* from the moment in which this region hears of the start: everything that
was on its way is dropped, and its own link is not asked for them.  Others may relay them: they send
only what a power cut cannot take back, so their answers count it.  The hold ends when the peer says
that all have answered; what it has to take back is settled then.
"""

from collections.abc import Callable, Iterable

from crdtstream.core.ids import RegionId


class PeerRuns:
    """Whose effects are held, and for which run of their node."""

    def __init__(self) -> None:
        self._held: dict[RegionId, int] = {}
        self._watchers: list[Callable[[RegionId], None]] = []

    def watch(self, watchers: Iterable[Callable[[RegionId], None]]) -> None:
        """Call these with a region when its effects begin to be held, or may be taken again."""
        self._watchers += watchers

    def is_held(self, region: RegionId) -> bool:
        return region in self._held

    def note_start(self, region: RegionId, run_id: int, *, recovering: bool) -> None:
        """The peer opened a link, or welcomed one: this is its run from here on."""
        if not recovering:
            self._release(region)
        elif self._held.get(region) != run_id:
            self._held[region] = run_id
            self._tell(region)

    def note(self, region: RegionId, run_id: int, *, recovering: bool) -> None:
        """How a run of the peer is doing; what an earlier run told late counts for nothing."""
        if recovering:
            self.note_start(region, run_id, recovering=True)
        elif self._held.get(region) == run_id:
            self._release(region)

    def forget(self, region: RegionId) -> None:
        """It is no peer any more."""
        self._release(region)

    def _release(self, region: RegionId) -> None:
        if self._held.pop(region, None) is not None:
            self._tell(region)

    def _tell(self, region: RegionId) -> None:
        for watcher in self._watchers:
            watcher(region)
