"""What one end of a link tells the other of third regions: what they durably have.

A region with R peers would say R version vectors of R numbers with each message, to R peers: most
of what idle links carry, and a cost that grows with the cube of the regions.  So a version vector
is told when it has grown since this link last told it, and the region that is told is not told of
itself.

What is told is only ever added to what is known, so telling less at a time loses nothing.  But a
peer may forget: it believes less of a region that comes back with less (``retention.py``).  So now
and then all is told again.
"""

from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.region.knowledge import Knowledge

RETELL_SECONDS: Final = Seconds(5.0, least=0.05)


class Gossip:
    """What one call has told ``peer`` of others; a new call tells all of it again."""

    __slots__ = ("_all_at", "_knowledge", "_peer", "_told")

    def __init__(self, peer: RegionId, knowledge: Knowledge) -> None:
        self._peer = peer
        self._knowledge = knowledge
        self._told: dict[RegionId, VersionVector] = {}
        # Before any time there is: the first message tells all.
        self._all_at = float("-inf")

    @property
    def has_news(self) -> bool:
        """Whether the next message has something to tell that was not told before."""
        return any(
            region != self._peer and self._told.get(region) is not vv
            for region, vv in self._knowledge.counted.items()
        )

    def take(self, at: float) -> dict[RegionId, VersionVector]:
        """What the message that is sent now is to tell: what counts for causal stability.

        Args:
            at: seconds, by a clock that only goes forward.
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
