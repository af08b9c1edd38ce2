"""Taking over another region's state: when, from which region, how far it is; without any IO.

    IDLE ── a link needs it, and no other brings what lacks ──> COPYING ── all staged ──> MERGING
      ^                                                               │ failed                 │
      │<───────────── after a pause, perhaps from another peer ───────┘                        │
      └──────────── SAVING: a checkpoint has what came of it <── merged, in one record ────────┘

A peer's log may begin behind what this region lacks (``beginning.py``).  Other peers may still have
that in their logs.  So nothing is copied while what lacks still comes, and not before the other
peers had their chance.

A region that recovers hears from all others what they have of its effects.  The dots that none of
them has may then be used for other effects (``peer_runs.py``).  A state that was copied before may
have what was lost.  So it is dropped, and another one is copied, if

  * a peer has begun to recover since then, and the state has more of its effects than are here;
  * the sender has: others may have asked it since, and it may have less than the state;
  * the state has more effects of this region than it has itself, and it issues effects.

While a state is copied, nothing that peers send is applied.  So only this region's own clients
change the state that is merged into.  They continue to read and write.

``engine/bootstrapper.py`` copies and merges: it asks ``wanted`` and reports the outcome.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from crdtstream.core.clock import Versioned, VersionVector, covers
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.region.tick import Tick

# Time for which no effects of an origin must have come before a state is taken over for them, as a
# multiple of ``inbox_wait_ms_max``: other peers relay after that.
PATIENCE: Final = Size(2, least=1)
# Pause after a failure before it tries again.
RETRY_MS: Final = Size(2_000, least=1)


class Phase(StrEnum):
    """Phase of a bootstrap; INFO and ``status`` show these words."""

    IDLE = "idle"
    COPYING = "copying"
    MERGING = "merging"
    SAVING = "saving"


@dataclass(slots=True)
class CopyProgress:
    """Progress of a copy; the copier writes it, and others read it.

    Attributes:
        tick: the open tick of the region that gets it.
        vv: the version vector of the state that is copied; empty while it is not known.
        images_done, bytes_done: what is staged, of earlier calls as well.
        images, bytes: of all of the state; 0 while it is not known.
        rate: bytes in a second, over this call.
        images_before: what was staged when this call began.
        is_resumed: it goes on with what an earlier call staged.
    """

    tick: Tick = field(repr=False)
    vv: VersionVector = field(default_factory=dict)
    images_done: int = 0
    bytes_done: int = 0
    images: int = 0
    bytes: int = 0
    rate: float = 0.0
    images_before: int = 0
    is_resumed: bool = False

    def begin(self, vv: VersionVector, *, images: int, bytes: int) -> None:  # noqa: A002
        """Note that it is known what is copied; peers are to hear of it."""
        self.vv, self.images, self.bytes = dict(vv), images, bytes
        self.tick.open()

    @property
    def has_moved(self) -> bool:
        """True if anything has come in this call."""
        return self.images_done > self.images_before

    @property
    def percent(self) -> int | None:
        """Percentage that is staged, rounded down; None: unknown."""
        return 100 * self.bytes_done // self.bytes if self.bytes else None

    @property
    def seconds_left(self) -> int | None:
        """Time that the rest takes at this rate; None: unknown."""
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
        count: number of states that were taken over since the start.
        failures: number of attempts that failed since the start.
        failure: reason why the last attempt failed; empty if it did not.
        saved_seq: a checkpoint that covers this record has all that was merged.
        held: regions whose effects were held, or that were removed, since the staged state was
            begun.
        is_lent: the staging is used by a repair.
    """

    def __init__(self, tick: Tick, applied: Versioned, *, patience_ms: int) -> None:
        """A region that starts.

        Args:
            applied: what is applied here.
            patience_ms: time that another peer may take to bring what one cannot.
        """
        self.phase = Phase.IDLE
        self.source: RegionId | None = None
        self.progress = CopyProgress(tick)
        self.began_ms = Millis(0)
        self.count = 0
        self.failures = 0
        self.failure = ""
        self.saved_seq = 0
        self.held: set[RegionId] = set()
        self.is_lent = False
        self._tick = tick
        self._applied = applied
        self._patience_ms = patience_ms
        # Per origin that a peer has cut from its log: the time since when none of its effects came,
        # and how many of them are applied here.
        self._lacking: dict[RegionId, tuple[Millis, int]] = {}
        self._retry_at: Millis | None = None
        self._tried: list[RegionId] = []
        # The peer whose copy broke and can be continued.
        self._broken: RegionId | None = None

    @property
    def holds_links(self) -> bool:
        """True if nothing that peers send is applied."""
        return self.phase in (Phase.COPYING, Phase.MERGING)

    @property
    def needs_staging(self) -> bool:
        """True if what is staged must be kept, and no backup can be made of this folder."""
        return self.phase is not Phase.IDLE or self.is_lent

    @property
    def announced_vv(self) -> VersionVector | None:
        """Effects that this region will have when it is done: it needs no peer's log up to them."""
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
        """Peer from which to take over a state now; None: none.

        Args:
            lacking: by peer the origins whose effects lack here and that this peer has cut from its
                log.
            linked: peers that are up.
            held: a peer that recovers, if one does.
        """
        vv = self._applied.vv
        before, self._lacking = self._lacking, {}
        for origin in sorted({origin for origins in lacking.values() for origin in origins}):
            n = vv.get(origin, 0)
            since, n_then = before.get(origin, (now, n))
            # If the clock was set back, no wait gets longer by that.
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
        """The peer whose copy broke on its way; otherwise each in turn, so that a peer that refuses
        does not block the others."""
        if self._broken is not None and self._broken in candidates:
            return self._broken
        left = [peer for peer in candidates if peer not in self._tried]
        if not left:
            self._tried.clear()
            left = list(candidates)
        return left[0]

    # --- What became of it --------------------------------------------------------------------

    def note_begun(self, source: RegionId, now: Millis, *, is_new: bool = True) -> None:
        """Note that a copy begins, or continues with what is staged."""
        assert self.phase is Phase.IDLE
        if is_new:
            self.held.clear()
        self.phase = Phase.COPYING
        self.source, self.began_ms = source, now
        self.progress = CopyProgress(self._tick)
        self._tick.notice("info", "bootstrap: the state of a peer is copied", peer=source)
        self._tick.open()

    def note_failed(self, reason: str, now: Millis) -> None:
        """Note that nothing was merged; it is tried again after a pause."""
        # Asking another peer loses what is staged.  But a peer whose copy failed twice from its
        # beginning would fail again.
        progress, source = self.progress, self.source
        goes_on = progress.is_resumed or source != self._broken
        has_broken = self.phase is Phase.COPYING and progress.has_moved
        self._broken = source if has_broken and goes_on else None
        if source is not None:
            self._tried.append(source)
        if reason != self.failure:
            self._tick.notice("warning", "bootstrap failed", peer=self.source, reason=reason)
        self._end()
        self.failures += 1
        self.failure = reason
        self._retry_at = Millis(now + RETRY_MS.value)

    def note_staged(self, source: RegionId, vv: VersionVector) -> None:
        """Note that all is staged, read back and durable: it may be merged."""
        self.phase, self.source = Phase.MERGING, source
        self.progress.vv = dict(vv)
        self._tick.open()

    def note_merged(self, seq: int) -> None:
        """Note record ``seq``: the staged state was merged, now or before a restart."""
        # After a restart it was counted by the process that merged it.
        self.count += self.phase is Phase.MERGING
        self._tick.notice("info", "bootstrap: the state is merged", peer=self.source, record=seq)
        self.phase, self.saved_seq = Phase.SAVING, seq
        self.failure = ""
        self._tried.clear()
        self._broken = None
        self._lacking.clear()
        self._retry_at = None
        self._tick.open()

    def note_repaired(self, seq: int, source: RegionId) -> None:
        """Note record ``seq``: a staged key was taken over; a checkpoint is to have it."""
        self.phase, self.source, self.saved_seq = Phase.SAVING, source, seq
        self._tick.open()

    @property
    def is_saving(self) -> bool:
        """True if a checkpoint has yet to contain what is staged."""
        return self.phase is Phase.SAVING

    def note_saved(self) -> None:
        """Note that a checkpoint has it, and that the staging was removed."""
        assert self.phase is Phase.SAVING
        self._tick.notice("info", "bootstrap: done", peer=self.source)
        self._end()

    def _end(self) -> None:
        self.phase, self.source = Phase.IDLE, None
        self._tick.open()

    def is_of_use(self, merged: Merged) -> bool:
        """True if a staged state has anything that lacks here."""
        return not covers(self._applied.vv, merged.vv)

    def lost_by(self, merged: Merged, issuing: RegionId | None) -> RegionId | None:
        """A region that may have lost effects that a staged state has; None: it may be merged.

        Args:
            issuing: this region, if it issues effects; None while it recovers: it may get back what
                it lost.
        """
        if merged.source in self.held:
            return merged.source
        vv = self._applied.vv
        suspects = self.held if issuing is None else {*self.held, issuing}
        lost = [region for region in suspects if merged.vv.get(region, 0) > vv.get(region, 0)]
        return min(lost, default=None)

    def note_removed(self, peer: RegionId) -> None:
        """Note that a region is no peer any more: a state that was copied before may have effects
        of it that the others never get."""
        self.held.add(peer)

    # --- For people ---------------------------------------------------------------------------

    def told(self, region: RegionId) -> str:
        """A sentence without its full stop on the activity and its progress; empty: none.

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
        """A sentence on why the last attempt failed, and what is next; empty: it did not fail."""
        if not self.failure:
            return ""
        return f"the last attempt failed, and is repeated by itself: {self.failure}"


def _mebibytes(size: float) -> str:
    return f"{size / (1 << 20):.1f}"
