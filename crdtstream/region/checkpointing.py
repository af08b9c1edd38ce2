"""Checkpoints: when one is due, and what is known of the last ones; without any IO.

due   the log has grown by ``log_bytes`` since the last one, or ``interval_s`` has passed and
      something was written since; or one is asked for (BGSAVE), or the folder is full

The log may have hardly grown, and a restart may still take long: 3 million entries of one shape are
16 MiB of packed batches.  So one is also due

when  a restart would take ``REPLAY_US_MAX`` to replay the log, and checkpoints take a tenth of the
      time at most
or    it would take ``REPLAY_US_QUIET``, and nothing was written for ``QUIET_MS``: then the data can
      leave memory, too

Links must not outrun a checkpoint: a restart would read all that they bring meanwhile.  So while
one is late, they rest for ``LATE_REST_MS`` after each run of batches.  They never stop: a
checkpoint of many streams may take minutes.
"""

from collections.abc import Callable
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.size import Size
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.events import Signal
from crdtstream.region.tick import Tick

LOG_BYTES_DEFAULT: Final = 16 << 20
# With less, one checkpoint would follow the other: the smallest one writes some ten kilobytes.
LOG_BYTES_LEAST: Final = 64 << 10
INTERVAL_S_DEFAULT: Final = 300
REPLAY_US_MAX: Final = Size(500_000, least=0)
REPLAY_US_QUIET: Final = Size(50_000, least=0)
QUIET_MS: Final = Size(15_000, least=1)
# After a checkpoint, replay time causes no other one for this many times as long as it took.
REST: Final = Size(9, least=0)
# A checkpoint is late when the log has grown to this many times the size that makes one due: a
# restart would have to read all that.
LATE: Final = Size(2, least=1)
# A run of batches takes some 4 ms (``links.RUN_NS``), so links get a tenth of the time.
LATE_REST_MS: Final = Size(40, least=1)


def refusal_of_log_bytes(log_bytes: int) -> str | None:
    """Reason why ``Checkpointing.log_bytes`` cannot be this small; None: it can."""
    if not log_bytes or log_bytes >= LOG_BYTES_LEAST:
        return None
    return (
        f"one checkpoint would follow the other without end: set at least {LOG_BYTES_LEAST}, or 0 "
        "if the log's growth is to be no reason for one"
    )


class Checkpointing:
    """The checkpoints of one region, as reported by their writer.

    Attributes:
        log_bytes, interval_s: when one is due; 0: the log's growth, or time, is no reason.
        on_wanted: called when one is asked for.
        grown_bytes: growth of the log since the cut of the last one.
        grown_us: time that a restart would take to replay that, estimated.
        seq: the last record that a verified one covers; 0: none.
        written_ms: when it was written, by this region's clock; 0: none.
        began_ms: when the one under way began; None: none is.
        size_bytes: of the images in the folder.
        took_ms: time that the last one took.
        count, failures: number that were written, and number that failed, since the start.
        failure: why the last one was not written; empty if it was.
        longest_turn_us: the longest that one held the event loop since the start.
        is_supported: something writes checkpoints here.
    """

    def __init__(self, tick: Tick, deadlines: Deadlines, *, now: Millis) -> None:
        self.log_bytes = LOG_BYTES_DEFAULT
        self.interval_s = INTERVAL_S_DEFAULT
        self.on_wanted: Callable[[], None] = _nobody_asks
        self.grown_bytes = self.grown_us = 0
        self.seq = 0
        self.written_ms = 0
        self.began_ms: Millis | None = None
        self.size_bytes = 0
        self.took_ms = 0
        self.count = 0
        self.failures = 0
        self.failure = ""
        self.longest_turn_us = 0
        self.is_supported = False
        self._tick = tick
        self._started_ms = now
        # The last record of the log at the last look, and the time since when it is the last.
        self._last_seq, self._last_ms = 0, now
        self._is_wanted = False
        # When links may apply the next run of batches; not set: now.
        self._rest = deadlines.new()

    def want(self) -> None:
        """Ask for one.  If one is under way another follows, as it may not have all."""
        self._is_wanted = True
        self.on_wanted()

    def want_an_end(self) -> None:
        """Ask for the outcome of one; the one under way will do."""
        if self.began_ms is None and not self._is_wanted:
            self.want()

    @property
    def is_coming(self) -> bool:
        """True if one is under way or asked for, and the last one did not fail."""
        is_coming = self._is_wanted or self.began_ms is not None
        return self.is_supported and is_coming and not self.failure

    @property
    def is_under_way(self) -> bool:
        """True if one has begun, or was asked for and is about to.

        Once one was asked for, it counts as under way.  One that is tried again after a failure
        does not, until it has begun.
        """
        return self.began_ms is not None or self.is_coming

    @property
    def is_late(self) -> bool:
        """True if a restart would read much more of the log than it should."""
        return 0 < LATE.value * self.log_bytes < self.grown_bytes

    @property
    def holds_links(self) -> bool:
        """True if batches of peers wait a little, so that they cannot outrun the one under way."""
        return self._rest.at is not None and self._slows_links

    @property
    def _slows_links(self) -> bool:
        return self.is_late and self.is_coming

    def note_applied(self, now: Millis) -> None:
        """Note that links applied a run of batches."""
        if self._slows_links:
            self._rest.set(Millis(now + LATE_REST_MS.value))

    def pass_time(self, now: Millis) -> None:
        rests_until = self._rest.at
        # A clock that was set back makes no rest longer.
        if rests_until is not None and not rests_until - LATE_REST_MS.value <= now < rests_until:
            self._rest.set(None)

    def is_due(self, now: Millis, *, seq: int, grown_bytes: int) -> bool:
        """True if one is to begin now.

        Args:
            seq: the last record of the log.
            grown_bytes: size of the log behind the last checkpoint.
        """
        if seq != self._last_seq or now < self._last_ms:
            self._last_seq, self._last_ms = seq, now
        if self.began_ms is not None:
            return False
        if self._is_wanted:
            return True
        if seq <= self.seq:
            return False
        if self.log_bytes and (grown_bytes >= self.log_bytes or self._takes_long_to_replay(now)):
            return True
        since_ms = self.since_ms
        # A clock that was set back must not put it off for ever.
        return bool(self.interval_s) and not since_ms <= now < since_ms + self.interval_s * 1000

    def _takes_long_to_replay(self, now: Millis) -> bool:
        """True if a restart would take too long."""
        if self.written_ms <= now < self.written_ms + REST.value * self.took_ms:
            return False
        is_quiet = now >= self._last_ms + QUIET_MS.value
        return self.grown_us >= (REPLAY_US_QUIET.value if is_quiet else REPLAY_US_MAX.value)

    @property
    def since_ms(self) -> int:
        """Time at which the last one was written; without one, the start of the node."""
        return self.written_ms or self._started_ms

    def note_begun(self, now: Millis) -> None:
        """Note that one begins."""
        assert self.began_ms is None, "one after the other"
        self.began_ms = now
        self._is_wanted = False

    def note_written(self, seq: int, now: Millis, *, size_bytes: int) -> None:
        """Note that it is written and verified, and covers the log up to ``seq``."""
        assert self.began_ms is not None
        assert seq >= self.seq
        self.took_ms = max(0, now - self.began_ms)
        self.began_ms = None
        self.seq, self.written_ms, self.size_bytes = seq, now, size_bytes
        self.count += 1
        self.failure = ""
        self._tick.post(Signal.CHECKPOINT_ENDED)
        self._tick.open()

    def note_failed(self, reason: str) -> None:
        """Note that it could not be written; the one before counts, and another is due."""
        self.began_ms = None
        self._is_wanted = True
        self.failures += 1
        self.failure = reason
        self._tick.notice("error", "a checkpoint could not be written", reason=reason)
        self._tick.post(Signal.CHECKPOINT_ENDED)

    def note_found(self, seq: int, written_ms: int, *, size_bytes: int) -> None:
        """Note the one from which the node started."""
        self.seq, self.written_ms, self.size_bytes = seq, written_ms, size_bytes


def _nobody_asks() -> None:
    pass
