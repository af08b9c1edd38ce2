"""Pending entries that somebody owns, the longest idle first.

What was delivered just now is the youngest: it goes to the end, and the order costs nothing.  Where
a delivery time goes back (XCLAIM IDLE, a clock set back) the order is lost.  It is made again when
somebody asks for it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from crdtstream.core.groups.progress import Nack
from crdtstream.core.ids import Millis, RegionId, StreamId


class IdleOrder:
    """Owned NACKs by delivery time.

    Attributes:
        is_in_order: if not, the order is lost and this one is empty: make another.
    """

    __slots__ = ("_nacks", "_youngest_ms", "is_in_order")

    def __init__(self, owned: Iterable[Nack]) -> None:
        """O(n log n) for n NACKs; those of equal age stay in the order given."""
        nacks = sorted(owned, key=lambda nack: nack.delivered_ms)
        self._nacks: OrderedDict[tuple[StreamId, RegionId], Nack] = OrderedDict(
            ((nack.id, nack.lane), nack) for nack in nacks
        )
        self._youngest_ms = nacks[-1].delivered_ms if nacks else Millis(0)
        self.is_in_order = True

    def __iter__(self) -> Iterator[Nack]:
        return iter(self._nacks.values())

    def place(self, nack: Nack) -> None:
        """A NACK was delivered, now or, if it is new here, at any time."""
        if nack.delivered_ms < self._youngest_ms:
            self.is_in_order = False
            self._nacks = OrderedDict()
        if not self.is_in_order:
            return
        self._youngest_ms = nack.delivered_ms
        place = nack.id, nack.lane
        self._nacks[place] = nack
        self._nacks.move_to_end(place)

    def forget(self, nack: Nack) -> None:
        """Nobody owns it any more, or another consumer does."""
        self._nacks.pop((nack.id, nack.lane), None)
