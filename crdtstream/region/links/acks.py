"""How long a link waits before it acknowledges: with something to tell, and without."""

from typing import Final

from crdtstream.region.limits import RegionLimits

# Acks are gathered for so long, as each costs both ends about what a hundred entries do; for less
# where somebody waits for them, and not when the peer's window has come so far.
ACK_SECONDS_MIN: Final = 0.02
ACK_SECONDS_AWAITED: Final = 0.001
ACK_BYTES_MAX: Final = 256 << 10
# Of acks that only keep a link alive: so many within the silence that ends it, and no fewer than
# one in this time.
ACKS_WITHIN_SILENCE: Final = 4
ACK_SECONDS_QUIET: Final = 1.0


def quiet_seconds(limits: RegionLimits, *, peer_pulls: bool) -> float:
    """How long after an ack the next one is sent if there is nothing new to tell.

    Such an ack tells the peer how this region stands, and keeps its end of the link alive.  To a
    peer that pulls from here too the heartbeats tell the same, so the second is all that is left.
    """
    heartbeat_seconds = limits.heartbeat_interval_ms / 1000
    if not peer_pulls:
        return heartbeat_seconds
    alive_seconds = limits.link_silence_ms_max / 1000 / ACKS_WITHIN_SILENCE
    return max(heartbeat_seconds, min(ACK_SECONDS_QUIET, alive_seconds))
