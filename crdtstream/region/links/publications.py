"""Publications on their way to another region; without any IO.

    PUBLISH ─> Outbox ─> link, behind the batches it follows ─> Arrived ─> subscribers there

A publication is delivered at most once.  It is lost if no link to a region is up at that moment, if
the link ends before it has arrived, or if the outbox of a slow link is full.

The cost for others is bounded: an outbox holds a bounded number of bytes, and at most a window of
them is under way, as much as one message of batches.  So a batch never waits for a flood of
publications, only for one window.

Order: what one region publishes arrives in the order in which it was published.  It does not
overtake effects either: a publication says how many its region had issued before (``after_n``),
leaves when these were sent, and is handed out when they are applied.  A client that hears of an
entry by PUBLISH finds it in any region.  For effects of third regions nothing is promised.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from crdtstream.core.size import Scope, Size

# Channel and payload together; a larger publication is refused.  A window can be exceeded by at
# most this.
PUBLICATION_BYTES_MAX: Final = Size(1 << 20, least=1, scope=Scope.REGIONS)
OUTBOX_BYTES_MAX: Final = Size(16 << 20, least=1)
# Sent and not yet handed out.  The default is the size to which batches are gathered into a
# message.
WINDOW_BYTES: Final = Size(256 << 10, least=1)
# Gathered into one message of the link: little, so that a slow link is heard all the time.
MESSAGE_BYTES_TARGET: Final = Size(32 << 10, least=1)
# Weight of a publication besides its bytes.
OVERHEAD_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Publication:
    """A message of a channel; ``after_n``: number of effects that its region had issued before
    it."""

    channel: bytes
    payload: bytes
    sharded: bool
    after_n: int

    @property
    def weight(self) -> int:
        """Size in bytes; both ends of a link count by it."""
        return len(self.channel) + len(self.payload) + OVERHEAD_BYTES


class Outbox:
    """Publications that one link has still to send."""

    def __init__(self) -> None:
        self._waiting: deque[Publication] = deque()
        self._waiting_bytes = 0
        self._sent_bytes = 0
        self._taken_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    def offer(self, publication: Publication) -> bool:
        """Put a publication in; return True if it had room."""
        if self._waiting_bytes + publication.weight > OUTBOX_BYTES_MAX.value:
            return False
        self._waiting.append(publication)
        self._waiting_bytes += publication.weight
        return True

    def close(self) -> int:
        """End with the link; return how many publications are lost by that."""
        lost = len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return lost

    def note_taken(self, taken_bytes: int) -> bool:
        """Note that the puller has taken ``taken_bytes`` in all; return True if that is news."""
        is_news = self._taken_bytes < taken_bytes <= self._sent_bytes
        if is_news:
            self._taken_bytes = taken_bytes
        return is_news

    def take(self, sent_n: int) -> list[Publication]:
        """Publications for one message that may leave, when ``sent_n`` effects of this region were
        sent."""
        taken: list[Publication] = []
        room = min(
            MESSAGE_BYTES_TARGET.value, WINDOW_BYTES.value - (self._sent_bytes - self._taken_bytes)
        )
        while self._waiting and self._waiting[0].after_n <= sent_n and room > 0:
            publication = self._waiting.popleft()
            self._waiting_bytes -= publication.weight
            self._sent_bytes += publication.weight
            room -= publication.weight
            taken.append(publication)
        return taken


class Arrived:
    """Publications that one link has brought, until the effects that they follow are applied.

    Attributes:
        taken_bytes: size of what was handed out since the link opened.
    """

    def __init__(self) -> None:
        self._waiting: deque[Publication] = deque()
        self._waiting_bytes = 0
        self.taken_bytes = 0

    def clear(self) -> None:
        """Begin with a link that opens again: what waited is lost."""
        self._waiting.clear()
        self._waiting_bytes = self.taken_bytes = 0

    def offer(self, publication: Publication) -> bool:
        """Put one in; return False if the peer sends more than its window allows."""
        if self._waiting_bytes >= WINDOW_BYTES.value:
            return False
        self._waiting.append(publication)
        self._waiting_bytes += publication.weight
        return True

    def take(self, applied_n: int) -> list[Publication]:
        """Publications to hand out when ``applied_n`` effects of the peer's region are applied."""
        taken: list[Publication] = []
        while self._waiting and self._waiting[0].after_n <= applied_n:
            publication = self._waiting.popleft()
            self._waiting_bytes -= publication.weight
            self.taken_bytes += publication.weight
            taken.append(publication)
        return taken
