"""Whether this region takes over another's state, from whom, and how far it is; without any IO.

    IDLE ── a link needs it, and nobody else brings what lacks ──> COPYING ── all staged ──> MERGING
      ^                                                               │ failed                 │
      │<───────────── after a pause, perhaps from another peer ───────┘                        │
      └──────────── SAVING: a checkpoint has what came of it <── merged, in one record ────────┘

A peer's log may begin behind what this region lacks (``links/beginning.py``).  Other peers may
still have that in their logs, so nothing is copied as long as what lacks comes, and not before they
had their chance.

A region that recovers hears from all others what they have of its effects.  The dots of what nobody
has may then stand for other effects (``links/peer_runs.py``).  A state that was copied before may
have what was lost.  So it is dropped, and another one is copied, if

  * a peer began to recover meanwhile, and the state has more of its effects than there are here;
  * the sender did: others may have asked it since, and it may have less than the state;
  * the state has more effects of this region than it has itself, and it issues effects.

While a state is copied, nothing of what peers send is applied, so the state that is merged into is
one that only this region's own clients change.  They read and write on.

Whoever copies and merges (``bootstrapper.py``) asks ``wanted`` and says what came of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.region.tick import Tick

# How long effects of an origin must not have come before a state is taken over for them: other
# peers relay after ``inbox_wait_ms_max``, as a multiple of that.
PATIENCE: Final = Size(2, least=1)
# How long it waits after a failure before it tries again.
RETRY_MS: Final = Size(2_000, least=1)


class Phase(StrEnum):
    """Where it stands; the words are in INFO and ``status``."""

    IDLE = "idle"
    COPYING = "copying"
    MERGING = "merging"
    SAVING = "saving"


@dataclass(slots=True)
class CopyProgress:
    """How far a copy is; who copies writes it, and others look at it.

    Attributes:
        vv: the version vector of the state that is copied; empty while it is not known.
        images_done, bytes_done: what is staged, of earlier calls as well.
        images, bytes: of all of the state; 0 while it is not known.
        rate: bytes in a second, over this call.
        on_begun: called when it is known what is copied.
    """

    vv: VersionVector = field(default_factory=dict)
    images_done: int = 0
    bytes_done: int = 0
    images: int = 0
    bytes: int = 0
    rate: float = 0.0
    on_begun: Callable[[], None] = lambda: None

    def begin(self, vv: VersionVector, *, images: int, bytes: int) -> None:  # noqa: A002
        """It is known what is copied; peers are to hear of it."""
        self.vv, self.images, self.bytes = dict(vv), images, bytes
        self.on_begun()

    @property
    def percent(self) -> int | None:
        """How much is staged, rounded down; None: that is not known."""
        return 100 * self.bytes_done // self.bytes if self.bytes else None

    @property
    def seconds_left(self) -> int | None:
        """How long the rest takes at this rate; None: that is not known."""
        if not self.bytes or self.rate <= 0:
            return None
        return round((self.bytes - self.bytes_done) / self.rate)


class Bootstrap:
    """The state that this region takes over, if it does.

    Attributes:
        phase: see the module's text.
        source: the region whose state it is; None while idle.
        progress: how far the copy is.
        began_ms: when it began.
        count: how many states were taken over since the start.
        failures: how many attempts failed since the start.
        failure: why the last attempt failed; empty if it did not.
        saved_seq: a checkpoint that covers this record has all that was merged.
        held: whose effects were held since the state that is staged was begun, and who was removed.
    """

    def __init__(self, tick: Tick, vv: Callable[[], VersionVector], *, patience_ms: int) -> None:
        """A region that starts.

        Args:
            vv: what is applied here.
            patience_ms: how long another peer may take to bring what one cannot.
        """
        self.phase = Phase.IDLE
        self.source: RegionId | None = None
        self.progress = CopyProgress()
        self.began_ms = Millis(0)
        self.count = 0
        self.failures = 0
        self.failure = ""
        self.saved_seq = 0
        self.held: set[RegionId] = set()
        self._tick = tick
        self._vv = vv
        self._patience_ms = patience_ms
        # By origin that a peer has cut from its log: since when none of its effects came, and how
        # many are applied here.
        self._lacking: dict[RegionId, tuple[Millis, int]] = {}
        self._retry_at: Millis | None = None
        self._tried: list[RegionId] = []

    @property
    def holds_links(self) -> bool:
        """Whether nothing is applied of what peers send."""
        return self.phase in (Phase.COPYING, Phase.MERGING)

    @property
    def needs_staging(self) -> bool:
        """Whether what is staged must be kept, and no backup can be made of this folder."""
        return self.phase is not Phase.IDLE

    @property
    def announced_vv(self) -> VersionVector | None:
        """What this region will have when it is done: nobody need keep log for it up to there."""
        return (self.progress.vv or None) if self.phase is not Phase.IDLE else None

    # --- When ---------------------------------------------------------------------------------

    def wanted(
        self,
        lacking: Mapping[RegionId, Collection[RegionId]],
        linked: Iterable[RegionId],
        now: Millis,
        *,
        held: RegionId | None = None,
    ) -> RegionId | None:
        """From whom to take a state over now; None: from nobody.

        Args:
            lacking: by peer the origins whose effects lack here, and that it has cut from its log.
            linked: peers that are up.
            held: a peer that recovers, if one does.
        """
        vv = self._vv()
        before, self._lacking = self._lacking, {}
        for origin in sorted({origin for origins in lacking.values() for origin in origins}):
            n = vv.get(origin, 0)
            since, n_then = before.get(origin, (now, n))
            # A clock that is set back makes nobody wait for longer.
            self._lacking[origin] = (since if n == n_then and since <= now else now, n)
        if self.phase is not Phase.IDLE:
            return None
        if self._retry_at is not None and self._retry_at - RETRY_MS.value <= now < self._retry_at:
            return None
        if not any(now - since >= self._patience_ms for since, _ in self._lacking.values()):
            return None
        if held is not None:
            self.failure = f"region {held} recovers, and is waited for"
            return None
        cut_off = sorted(peer for peer, origins in lacking.items() if origins)
        return self._next_of([*cut_off, *(peer for peer in sorted(linked) if peer not in cut_off)])

    def _next_of(self, candidates: Sequence[RegionId]) -> RegionId:
        """Each in turn, so that one that refuses does not stand in the way of the others."""
        left = [peer for peer in candidates if peer not in self._tried]
        if not left:
            self._tried.clear()
            left = list(candidates)
        return left[0]

    # --- What became of it --------------------------------------------------------------------

    def note_begun(self, source: RegionId, now: Millis, *, anew: bool = True) -> None:
        """A copy begins, or goes on with what is staged."""
        assert self.phase is Phase.IDLE
        if anew:
            self.held.clear()
        self.phase = Phase.COPYING
        self.source, self.began_ms = source, now
        self.progress = CopyProgress(on_begun=self._tick.open)
        self._tick.notice("info", "bootstrap: the state of a peer is copied", peer=source)
        self._tick.open()

    def note_failed(self, reason: str, now: Millis) -> None:
        """Nothing was merged; it is tried again after a pause."""
        if self.source is not None:
            self._tried.append(self.source)
        if reason != self.failure:
            self._tick.notice("warning", "bootstrap failed", peer=self.source, reason=reason)
        self._end()
        self.failures += 1
        self.failure = reason
        self._retry_at = Millis(now + RETRY_MS.value)

    def note_staged(self, source: RegionId, vv: VersionVector) -> None:
        """All is staged, read back and durable: it may be merged."""
        self.phase, self.source = Phase.MERGING, source
        self.progress.vv = dict(vv)
        self._tick.open()

    def note_merged(self, seq: int) -> None:
        """Record ``seq`` says that the staged state was merged, now or before a restart."""
        # After a restart it was counted by the process that merged it.
        self.count += self.phase is Phase.MERGING
        self._tick.notice("info", "bootstrap: the state is merged", peer=self.source, record=seq)
        self.phase, self.saved_seq = Phase.SAVING, seq
        self.failure = ""
        self._tried.clear()
        self._lacking.clear()
        self._retry_at = None
        self._tick.open()

    def note_saved(self) -> None:
        """A checkpoint has it, and the staging is gone."""
        assert self.phase is Phase.SAVING
        self._tick.notice("info", "bootstrap: done", peer=self.source)
        self._end()

    def _end(self) -> None:
        self.phase, self.source = Phase.IDLE, None
        self._tick.open()

    def is_of_use(self, merged: Merged) -> bool:
        """Whether a staged state has anything that lacks here."""
        return not covers(self._vv(), merged.vv)

    def lost_by(self, merged: Merged, issuing: RegionId | None) -> RegionId | None:
        """A region that may have lost effects that a staged state has; None: it may be merged.

        Args:
            issuing: this region, if it issues effects; None while it recovers: it may get back what
                it lost.
        """
        if merged.source in self.held:
            return merged.source
        vv = self._vv()
        suspects = self.held if issuing is None else {*self.held, issuing}
        lost = [region for region in suspects if merged.vv.get(region, 0) > vv.get(region, 0)]
        return min(lost, default=None)

    def note_removed(self, peer: RegionId) -> None:
        """It is no peer any more: a state that was copied before may have effects of it that the
        others never get."""
        self.held.add(peer)

    # --- For people ---------------------------------------------------------------------------

    def told(self, region: RegionId) -> str:
        """A sentence without its full stop: what it does, and how far it is; empty: nothing.

        Args:
            region: this one.
        """
        progress = self.progress
        match self.phase:
            case Phase.IDLE:
                return ""
            case Phase.COPYING:
                about = f"region {region} gets the state of region {self.source}"
                if progress.percent is None:
                    return f"{about}: it waits for the first images"
                left = progress.seconds_left
                return (
                    f"{about}: {progress.percent} % of {_mebibytes(progress.bytes)} MiB, "
                    f"{_mebibytes(progress.rate)} MiB/s"
                    + ("" if left is None else f", {left} s left")
                )
            case Phase.MERGING:
                return f"region {region} merges the state of region {self.source} into its own"
            case Phase.SAVING:
                whose = "another region" if self.source is None else f"region {self.source}"
                return (
                    f"region {region} has merged the state of {whose}, and writes a checkpoint "
                    "that has it"
                )
            case _:
                assert_never(self.phase)

    def told_failure(self) -> str:
        """Why the last attempt failed, and what happens next, as a sentence; empty: it did not."""
        if not self.failure:
            return ""
        return f"the last attempt failed, and is repeated by itself: {self.failure}"


def _mebibytes(size: float) -> str:
    return f"{size / (1 << 20):.1f}"
