"""A region that starts takes no writes until it has what its peers had when it came back.

    starts ──> asks: each peer's Welcome says what it has; at most ``answer_ms_max``
           ──> behind: all that is pulled; as long as something comes at least each ``stall_ms_max``
           ──> level: takes writes, and is never held back again

Nobody waits for somebody who waits: effects are sent whether or not their region takes writes, so
three regions that start at once bring each other level.  A peer that does not answer, or that says
something that cannot be had, holds nothing back beyond these bounds: a lone survivor starts.

It is about being current, not about dots: those are ``links/readiness.py``'s.  A region whose
folder proves nothing asks there first, and without bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crdtstream.core.clock import MutableVersionVector, VersionVector, join
from crdtstream.core.clock import missing as missing_of
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.peers import Peers, PeersChange

OFF: Final = 0


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a run of a peer had when this region came back."""

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
        vv: Callable[[], VersionVector],
        *,
        now: Millis,
        is_held: Callable[[RegionId], bool],
        answer_ms_max: int,
        stall_ms_max: int,
        rests: Callable[[], bool] = bool,
    ) -> None:
        """A node that starts.

        Args:
            vv: what is applied here.
            is_held: whether a region's effects are held back, because it recovers.
            answer_ms_max: how long it waits for peers to answer; ``OFF``: it is level at once.
            stall_ms_max: how long it waits for the next effect that lacks.
            rests: whether this region applies nothing for a while, whatever comes.
        """
        self._region = peers.here
        self._peers = peers
        self._vv = vv
        self._is_held = is_held
        self._rests = rests
        self._answer_ms_max = answer_ms_max
        self._stall_ms_max = stall_ms_max
        self._answers: dict[RegionId, _Answer] = {}
        self._asks_until = Millis(now + answer_ms_max)
        self._lacked: int | None = None
        self._moved_ms = now
        self.gave_up = False
        self.cut_off = ""
        self.is_level = answer_ms_max == OFF or not peers.active
        peers.on_change.append(self._follow)

    def _follow(self, change: PeersChange) -> None:
        for peer in change.removed:
            self._answers.pop(peer, None)

    def note_answer(self, peer: RegionId, run_id: int, vv: VersionVector) -> None:
        """A peer said what it has; of each of its runs, only the first time counts."""
        if self.is_level:
            return
        before = self._answers.get(peer)
        # A new run may have lost what the one before had not made durable.
        if before is None or before.run_id != run_id:
            self._answers[peer] = _Answer(run_id, vv)
            self._lacked = None

    def wait_again(self, now: Millis) -> None:
        """The region recovers: only when it has done so does the time count."""
        self._asks_until = Millis(now + self._answer_ms_max)
        self._moved_ms = now

    def look(self, now: Millis) -> bool:
        """See whether it is level by now; returns whether anything has changed."""
        if self.is_level:
            return False
        # A clock that is set back makes nobody wait for longer.
        self._asks_until = min(self._asks_until, Millis(now + self._answer_ms_max))
        self._moved_ms = min(self._moved_ms, now)
        lacked = self.missing
        has_moved = self._lacked is None or lacked < self._lacked
        if has_moved or self._rests():
            self._moved_ms = now
        changed = lacked != self._lacked
        self._lacked = lacked
        if not lacked:
            self.is_level = not self._unanswered or now >= self._asks_until
        elif now >= self._moved_ms + self._stall_ms_max:
            self.is_level = self.gave_up = True
        return changed or self.is_level

    @property
    def is_asking(self) -> bool:
        """Whether it waits for peers to answer, and knows of nothing that lacks."""
        return not (self.is_level or self.missing)

    @property
    def missing(self) -> int:
        """How many effects lack here that peers had when this region came back."""
        goal: MutableVersionVector = {}
        for answer in self._answers.values():
            join(goal, answer.vv)
        # Effects of a region that recovers are not taken until all have answered it, and that may
        # take for ever.
        wanted = {origin: n for origin, n in goal.items() if not self._is_held(origin)}
        return missing_of(self._vv(), wanted)

    @property
    def _unanswered(self) -> frozenset[RegionId]:
        return self._peers.active.difference(self._answers)

    @property
    def deadline(self) -> Millis | None:
        """When ``look`` is to be called if nothing else happens; None: never."""
        if self.is_level:
            return None
        if self._lacked:
            return Millis(self._moved_ms + self._stall_ms_max)
        return self._asks_until

    @property
    def obstacle(self) -> str | None:
        """Why writes are refused now; None if they are not."""
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
