"""Publications on their way to another region; without any IO.

    PUBLISH ─> Outbox ─> link, behind the batches it follows ─> Arrived ─> subscribers there

A publication is told at most once.  It is lost when there is no link to a region at that moment,
when the link ends before it is through, and when the link is so slow that its outbox is full.

What it costs others is bounded: an outbox holds so many bytes and no more, and of those only a
window's worth is under way, as much as one message of batches.  So a batch never stands behind a
flood of publications, only behind one window.

Order: what one region publishes arrives in the order in which it was published.  Nor does it
overtake effects: a publication says how many its region had issued before (``after_n``), leaves
when these were sent, and is handed out when they are applied.  Who hears of an entry by PUBLISH
finds it, wherever he listens.  Of effects of third regions nothing is promised.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from crdtstream.core.size import Scope, Size

# Channel and payload together; a larger one is refused.  It is the most that a window can be
# exceeded by.
PUBLICATION_BYTES_MAX: Final = Size(1 << 20, least=1, scope=Scope.REGIONS)
OUTBOX_BYTES_MAX: Final = Size(16 << 20, least=1)
# Sent and not yet handed out.  By default as much as batches are gathered into one message.
WINDOW_BYTES: Final = Size(256 << 10, least=1)
# Gathered into one message of the link: little, so that a slow link is heard of all the time.
MESSAGE_BYTES_TARGET: Final = Size(32 << 10, least=1)
# What a publication weighs besides its bytes.
OVERHEAD_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Publication:
    """One message; ``after_n``: how many effects its region had issued before it."""

    channel: bytes
    payload: bytes
    sharded: bool
    after_n: int

    @property
    def weight(self) -> int:
        """In bytes; both ends of a link count by it."""
        return len(self.channel) + len(self.payload) + OVERHEAD_BYTES


class Outbox:
    """What one link has still to send."""

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
        """Put a publication in; returns whether there was room."""
        if self._waiting_bytes + publication.weight > OUTBOX_BYTES_MAX.value:
            return False
        self._waiting.append(publication)
        self._waiting_bytes += publication.weight
        return True

    def close(self) -> int:
        """The link ends; returns how many publications are lost by that."""
        lost = len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return lost

    def note_taken(self, taken_bytes: int) -> bool:
        """The puller has taken so many bytes in all; returns whether that is news."""
        is_news = self._taken_bytes < taken_bytes <= self._sent_bytes
        if is_news:
            self._taken_bytes = taken_bytes
        return is_news

    def take(self, sent_n: int) -> list[Publication]:
        """One message of what may leave, when of this region's effects ``sent_n`` were sent."""
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
    """What one link has brought, until the effects it follows are applied.

    Attributes:
        taken_bytes: what was handed out since the link opened.
    """

    def __init__(self) -> None:
        self._waiting: deque[Publication] = deque()
        self._waiting_bytes = 0
        self.taken_bytes = 0

    def clear(self) -> None:
        """The link opens anew: what waited is lost."""
        self._waiting.clear()
        self._waiting_bytes = self.taken_bytes = 0

    def offer(self, publication: Publication) -> bool:
        """Put one in; False: the peer sends more than its window allows."""
        if self._waiting_bytes >= WINDOW_BYTES.value:
            return False
        self._waiting.append(publication)
        self._waiting_bytes += publication.weight
        return True

    def take(self, applied_n: int) -> list[Publication]:
        """What may be handed out, when ``applied_n`` effects of the peer's region are applied."""
        taken: list[Publication] = []
        while self._waiting and self._waiting[0].after_n <= applied_n:
            publication = self._waiting.popleft()
            self._waiting_bytes -= publication.weight
            self.taken_bytes += publication.weight
            taken.append(publication)
        return taken
