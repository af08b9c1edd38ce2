"""Acks and heartbeats of a link: when they are sent, and how many bytes acks report as taken."""

from typing import Final

from crdtstream.core.size import Seconds, Size
from crdtstream.region.beats import beat_within
from crdtstream.region.limits import RegionLimits

# Time for which acks are gathered: each costs both ends as much as a hundred entries.  The time is
# shorter if a client waits for one, and after this many bytes an ack leaves at once.
ACK_SECONDS_MIN: Final = Seconds(0.02, least=0)
ACK_SECONDS_AWAITED: Final = Seconds(0.001, least=0)
ACK_BYTES_MAX: Final = Size(256 << 10, least=1)
# Number of acks that only keep a link alive within the silence that ends it; and at least one is
# sent in this time.
ACKS_WITHIN_SILENCE: Final = 2
ACK_SECONDS_QUIET: Final = Seconds(1.5, least=0.01)
# The same of heartbeats that have nothing new to report.
HEARTBEATS_WITHIN_SILENCE: Final = 3
HEARTBEAT_SECONDS_QUIET: Final = Seconds(1.0, least=0.01)
# An end that announces a longer silence than this is not waited for any longer.
NEXT_MS_MAX: Final = 10_000


def silence_seconds(limits: RegionLimits, next_ms: int) -> float:
    """Time for which the other end of a link may be silent before the link counts as broken.

    Args:
        next_ms: the silence that it announced itself; 0: it has not announced any yet.
    """
    silence_ms = limits.link_silence_ms_max
    if next_ms:
        # What is announced may come a little late.
        grace_ms = max(limits.heartbeat_interval_ms, silence_ms // HEARTBEATS_WITHIN_SILENCE)
        silence_ms = max(silence_ms, min(next_ms, NEXT_MS_MAX) + grace_ms)
    return silence_ms / 1000


def quiet_heartbeat_seconds(limits: RegionLimits) -> float:
    """Time after a heartbeat within which the next one is sent while nothing happens."""
    alive_seconds = limits.link_silence_ms_max / 1000 / HEARTBEATS_WITHIN_SILENCE
    return max(
        limits.heartbeat_interval_ms / 1000, min(HEARTBEAT_SECONDS_QUIET.value, alive_seconds)
    )


def quiet_seconds(limits: RegionLimits, *, peer_pulls: bool) -> float:
    """Time after an ack within which the next one is sent if it has nothing new to report.

    Such an ack shows the peer how this region stands, and keeps its end of the link alive.  For a
    peer that pulls from here too, the heartbeats do the former, so only the latter is left.
    """
    heartbeat_seconds = limits.heartbeat_interval_ms / 1000
    if not peer_pulls:
        return heartbeat_seconds
    alive_seconds = limits.link_silence_ms_max / 1000 / ACKS_WITHIN_SILENCE
    return max(heartbeat_seconds, min(ACK_SECONDS_QUIET.value, alive_seconds))


class Acks:
    """Acks of one call.

    Attributes:
        taken_bytes: size of the batches of this call that were taken out of the peer's window.
        is_awaited: a client at the peer waits to hear what this region has.
    """

    __slots__ = (
        "_acked_at",
        "_acked_bytes",
        "_announced_seconds",
        "_is_due",
        "is_awaited",
        "taken_bytes",
    )

    def __init__(self, limits: RegionLimits) -> None:
        self._acked_at = 0.0
        self._is_due = self.is_awaited = False
        self.taken_bytes = self._acked_bytes = 0
        # The call's first message announces nothing.
        self._announced_seconds = limits.heartbeat_interval_ms / 1000

    def want(self) -> bool:
        """Note that something is to be reported; return True if that may be due earlier now."""
        is_earlier = not self._is_due or self.is_awaited
        self._is_due = True
        return is_earlier

    def take(self, size: int) -> None:
        """Move the peer's window by ``size`` bytes; it is reported at once if enough were taken."""
        assert size >= 0
        self.taken_bytes += size
        if self._are_many_taken:
            self._is_due = True

    @property
    def _are_many_taken(self) -> bool:
        return self.taken_bytes - self._acked_bytes >= ACK_BYTES_MAX.value

    def next_at(self, quiet_seconds: float) -> float:
        """Time at which the next ack is to be sent, never later than the last one announced."""
        if not self._is_due:
            return beat_within(self._acked_at, min(quiet_seconds, self._announced_seconds))
        if self._are_many_taken:
            return self._acked_at
        return self._acked_at + (
            ACK_SECONDS_AWAITED.value if self.is_awaited else ACK_SECONDS_MIN.value
        )

    def note_opened(self, at: float) -> None:
        """Note that the call's first message is sent now, which reports as much as an ack."""
        self._acked_at = at

    def note_sent(self, at: float, announced_seconds: float) -> None:
        """Note that an ack is sent now, with all that was taken; it announces the next one."""
        assert self._acked_bytes <= self.taken_bytes
        self._is_due = False
        self._announced_seconds = announced_seconds
        self._acked_at = at
        self._acked_bytes = self.taken_bytes
