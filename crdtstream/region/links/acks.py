"""When a link speaks: acks, how many bytes they say were taken, and heartbeats of a quiet link."""

from typing import Final

from crdtstream.core.size import Seconds, Size
from crdtstream.region.limits import RegionLimits

# Acks are gathered for so long, as each costs both ends about what a hundred entries do; for less
# where somebody waits for them, and not when the peer's window has come so far.
ACK_SECONDS_MIN: Final = Seconds(0.02, least=0)
ACK_SECONDS_AWAITED: Final = Seconds(0.001, least=0)
ACK_BYTES_MAX: Final = Size(256 << 10, least=1)
# Of acks that only keep a link alive: so many within the silence that ends it, and no fewer than
# one in this time.
ACKS_WITHIN_SILENCE: Final = 2
ACK_SECONDS_QUIET: Final = Seconds(1.5, least=0.01)
# The same for a peer of an earlier version, which goes by its own silence and not by what it is
# told.
ACKS_WITHIN_SILENCE_UNTOLD: Final = 4
ACK_SECONDS_QUIET_UNTOLD: Final = Seconds(1.0, least=0.01)
# The same of heartbeats that have nothing new to tell.
HEARTBEATS_WITHIN_SILENCE: Final = 3
HEARTBEAT_SECONDS_QUIET: Final = Seconds(1.0, least=0.01)
# An end that says that it will be silent for longer is not waited for any longer.
NEXT_MS_MAX: Final = 10_000


def silence_seconds(limits: RegionLimits, next_ms: int) -> float:
    """How long the other end of a link may be silent before the link counts as broken.

    Args:
        next_ms: how long it may be, as it said itself; 0: it did not.
    """
    silence_ms = limits.link_silence_ms_max
    if next_ms:
        # What is announced may come a little late.
        grace_ms = max(limits.heartbeat_interval_ms, silence_ms // HEARTBEATS_WITHIN_SILENCE)
        silence_ms = max(silence_ms, min(next_ms, NEXT_MS_MAX) + grace_ms)
    return silence_ms / 1000


def quiet_heartbeat_seconds(limits: RegionLimits) -> float:
    """How long after a heartbeat the next one is sent at the latest while nothing happens."""
    alive_seconds = limits.link_silence_ms_max / 1000 / HEARTBEATS_WITHIN_SILENCE
    return max(
        limits.heartbeat_interval_ms / 1000, min(HEARTBEAT_SECONDS_QUIET.value, alive_seconds)
    )


def quiet_seconds(limits: RegionLimits, *, peer_pulls: bool, peer_announces: bool) -> float:
    """How long after an ack the next one is sent if there is nothing new to tell.

    Such an ack tells the peer how this region stands, and keeps its end of the link alive.  To a
    peer that pulls from here too the heartbeats tell the same, so the second is all that is left.

    Args:
        peer_announces: the peer says when it speaks next, and goes by what it is told of that.
    """
    heartbeat_seconds = limits.heartbeat_interval_ms / 1000
    if not peer_pulls:
        return heartbeat_seconds
    within, most = ACKS_WITHIN_SILENCE, ACK_SECONDS_QUIET.value
    if not peer_announces:
        within, most = ACKS_WITHIN_SILENCE_UNTOLD, ACK_SECONDS_QUIET_UNTOLD.value
    return max(heartbeat_seconds, min(most, limits.link_silence_ms_max / 1000 / within))


class Acks:
    """The acks of one call after the other.

    Attributes:
        taken_bytes: of the batches that came in this call, what was taken out of the peer's window.
        is_awaited: somebody waits at the peer to hear what this region has.
    """

    __slots__ = (
        "_acked_at",
        "_acked_bytes",
        "_announced_seconds",
        "_is_due",
        "_soon_seconds",
        "is_awaited",
        "taken_bytes",
    )

    def __init__(self, limits: RegionLimits) -> None:
        self._soon_seconds = limits.heartbeat_interval_ms / 1000
        self._acked_at = 0.0
        self.begin()

    def begin(self) -> None:
        """A call begins: nothing is to be told, nothing was taken."""
        self._is_due = self.is_awaited = False
        self.taken_bytes = self._acked_bytes = 0
        # The call's first message announces nothing.
        self._announced_seconds = self._soon_seconds

    def want(self) -> bool:
        """There is something to tell; returns whether that may be due earlier than it was."""
        is_earlier = not self._is_due or self.is_awaited
        self._is_due = True
        return is_earlier

    def take(self, size: int) -> None:
        """The peer's window moves by so many bytes: it is told at once if these are many."""
        self.taken_bytes += size
        if self._are_many_taken:
            self._is_due = True

    @property
    def _are_many_taken(self) -> bool:
        return self.taken_bytes - self._acked_bytes >= ACK_BYTES_MAX.value

    def next_at(self, quiet_seconds: float) -> float:
        """When the next ack is to be sent, never later than the last one announced."""
        if not self._is_due:
            return self._acked_at + min(quiet_seconds, self._announced_seconds)
        if self._are_many_taken:
            return self._acked_at
        return self._acked_at + (
            ACK_SECONDS_AWAITED.value if self.is_awaited else ACK_SECONDS_MIN.value
        )

    def note_opened(self, at: float) -> None:
        """The call's first message, which tells as much as an ack, is sent now."""
        self._acked_at = at

    def note_sent(self, at: float, announced_seconds: float) -> None:
        """An ack is sent now, with all that was taken; it says when the next one comes."""
        self._is_due = False
        self._announced_seconds = announced_seconds
        self._acked_at = at
        self._acked_bytes = self.taken_bytes
