"""Gossip: what third regions durably have, as one end of a link reports it to the other.

A region with R peers would send R version vectors of R numbers with each message, to R peers: most
of what idle links carry, at a cost that grows with the cube of the regions.  So a version vector is
sent when it has grown since this link last sent it, and the receiving region is not told of itself.

What is received is only ever added to what is known, so sending less at a time loses nothing.  But
a peer may forget: it believes less of a region that returns with less (``retention.py``).  So at
intervals all is sent again.
"""

from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.region.knowledge import Knowledge

RETELL_SECONDS: Final = Seconds(5.0, least=0.05)


class Gossip:
    """Version vectors of others that one call has sent to ``peer``; a new call sends all again."""

    __slots__ = ("_all_at", "_knowledge", "_peer", "_told")

    def __init__(self, peer: RegionId, knowledge: Knowledge) -> None:
        self._peer = peer
        self._knowledge = knowledge
        self._told: dict[RegionId, VersionVector] = {}
        # Before any time: the first message sends all.
        self._all_at = float("-inf")

    @property
    def has_news(self) -> bool:
        """True if the next message has something to report that was not sent before."""
        return any(
            region != self._peer and self._told.get(region) is not vv
            for region, vv in self._knowledge.counted.items()
        )

    def take(self, at: float) -> dict[RegionId, VersionVector]:
        """Version vectors for the message that is sent now: those that count for causal stability.

        Args:
            at: seconds of a monotonic clock.
        """
        if at >= self._all_at:
            self._all_at = at + RETELL_SECONDS.value
            self._told.clear()
        told, peer = self._told, self._peer
        news = {
            region: vv
            for region, vv in self._knowledge.counted.items()
            # A version vector that grows is another object (``knowledge.py``).
            if region != peer and told.get(region) is not vv
        }
        told.update(news)
        return news
