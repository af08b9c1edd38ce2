"""Catching up: a region that starts takes no writes until it has what its peers had at its start.

    starts ──> asks: each peer's Welcome says what it has; at most ``answer_ms_max``
           ──> behind: all that is pulled; as long as something comes at least each ``stall_ms_max``
           ──> level: takes writes, and is never held back again

No deadlock is possible: effects are sent even while their region takes no writes, so three regions
that start at once bring each other level.  A peer that does not answer, or that reports something
that cannot be had, delays the start by no more than these bounds: a lone survivor starts.

It is about being current, not about dots: those are decided by ``readiness.py``.  A region whose
folder proves nothing asks there first, and without bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from crdtstream.core.clock import MutableVersionVector, Versioned, VersionVector, capped, join
from crdtstream.core.clock import missing as missing_of
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.holding import HoldsLinks
from crdtstream.region.peer_runs import PeerRuns
from crdtstream.region.peers import Peers, PeersChange

OFF: Final = 0


@dataclass(frozen=True, slots=True)
class _Answer:
    """Effects that a run of a peer had when this region started again."""

    run_id: int
    vv: VersionVector


class CatchingUp:
    """The way of one node from its start to being level with its peers.

    Attributes:
        is_level: nothing holds it back any more.
        gave_up: it is level only because nothing more came.
        cut_off: which effects peers cannot send, as they cut them from their logs, and what to do;
            empty: none.
    """

    def __init__(
        self,
        peers: Peers,
        applied: Versioned,
        peer_runs: PeerRuns,
        deadlines: Deadlines,
        *,
        now: Millis,
        holding: HoldsLinks,
        answer_ms_max: int,
        stall_ms_max: int,
    ) -> None:
        """A node that starts.

        Args:
            applied: what is applied here.
            peer_runs: the regions whose effects are held back, because they recover.
            answer_ms_max: time that it waits for peers to answer; ``OFF``: it is level at once.
            stall_ms_max: time that it waits for the next effect that lacks.
            holding: whether this region applies nothing for a time, whatever comes.
        """
        self._region = peers.here
        self._peers = peers
        self._applied = applied
        self._peer_runs = peer_runs
        self._holding = holding
        self._answer_ms_max = answer_ms_max
        self._stall_ms_max = stall_ms_max
        self._answers: dict[RegionId, _Answer] = {}
        self._asks_until = Millis(now + answer_ms_max)
        self._lacked: int | None = None
        self._moved_ms = now
        self.gave_up = False
        self.cut_off = ""
        self.is_level = answer_ms_max == OFF or not peers.active
        self._deadline = deadlines.new()
        self._set_deadline()

    def follow_peers(self, change: PeersChange) -> None:
        for peer in change.removed:
            self._answers.pop(peer, None)

    def note_answer(self, peer: RegionId, run_id: int, vv: VersionVector) -> None:
        """Note what a peer has, as it said; for each of its runs, only the first time counts."""
        if self.is_level:
            return
        before = self._answers.get(peer)
        # A new run may have lost what the one before had not made durable.
        if before is None or before.run_id != run_id:
            self._answers[peer] = _Answer(run_id, vv)
            self._lacked = None
            self._set_deadline()

    def note_ends(self, ends: Mapping[RegionId, int]) -> None:
        """Note that effects beyond these ends do not count: they are not waited for."""
        for peer, answer in self._answers.items():
            self._answers[peer] = replace(answer, vv=capped(answer.vv, ends))

    def wait_again(self, now: Millis) -> None:
        """Note that the region recovers: the time counts only once it has done so."""
        self._asks_until = Millis(now + self._answer_ms_max)
        self._moved_ms = now
        self._set_deadline()

    def look(self, now: Millis) -> bool:
        """Check if it is level by now; return True if anything has changed."""
        if self.is_level:
            return False
        # If the clock was set back, no wait gets longer by that.
        self._asks_until = min(self._asks_until, Millis(now + self._answer_ms_max))
        self._moved_ms = min(self._moved_ms, now)
        lacked = self.missing
        has_moved = self._lacked is None or lacked < self._lacked
        if has_moved or self._holding.holds_links:
            self._moved_ms = now
        changed = lacked != self._lacked
        self._lacked = lacked
        if not lacked:
            self.is_level = not self._unanswered or now >= self._asks_until
        elif now >= self._moved_ms + self._stall_ms_max:
            self.is_level = self.gave_up = True
        self._set_deadline()
        return changed or self.is_level

    @property
    def is_asking(self) -> bool:
        """True if it waits for peers to answer, and knows of nothing that lacks."""
        return not (self.is_level or self.missing)

    @property
    def missing(self) -> int:
        """Number of effects that peers had when this region started again, and that lack here."""
        goal: MutableVersionVector = {}
        for answer in self._answers.values():
            join(goal, answer.vv)
        # Effects of a region that recovers are not taken until all have answered it.  That may
        # never happen.
        wanted = {origin: n for origin, n in goal.items() if not self._peer_runs.is_held(origin)}
        return missing_of(self._applied.vv, wanted)

    @property
    def _unanswered(self) -> frozenset[RegionId]:
        return self._peers.active.difference(self._answers)

    def _set_deadline(self) -> None:
        """Have ``look`` called in time if nothing else happens."""
        if self.is_level:
            self._deadline.set(None)
        elif self._lacked:
            self._deadline.set(Millis(self._moved_ms + self._stall_ms_max))
        else:
            self._deadline.set(self._asks_until)

    @property
    def obstacle(self) -> str | None:
        """Reason why writes are refused now; None if they are not."""
        if self.is_level:
            return None
        region, lacked = self._region, self.missing
        if lacked:
            effects = "1 effect" if lacked == 1 else f"{lacked} effects"
            if self.cut_off:
                return f"region {region} came back and lacks {effects}: {self.cut_off}"
            return (
                f"region {region} came back behind its peers and catches up: {effects} that they "
                "had then are still to come; try again in a moment, or write in another region"
            )
        if not self._unanswered:
            return f"region {region} starts; try again in a moment"
        asked = ", ".join(str(peer) for peer in sorted(self._unanswered))
        return (
            f"region {region} starts and asks region {asked} what it missed; try again in a moment"
        )
