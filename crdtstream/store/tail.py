"""The last records of a log, in memory: links that are up to date never touch the disk."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from crdtstream.core.effects import record_bytes
from crdtstream.core.size import Size
from crdtstream.store.log import Logged

TAIL_BYTES_MAX: Final = Size(16 << 20, least=0)
# While memory is wanted for other things.
TAIL_BYTES_SHORT: Final = Size(1 << 20, least=0)


@dataclass(slots=True)
class Tail:
    """The last committed records, in memory, bounded in bytes."""

    bytes_max: int = field(default_factory=lambda: TAIL_BYTES_MAX.value)
    records: deque[Logged] = field(default_factory=deque)
    bytes: int = 0

    def push(self, records: Iterable[Logged]) -> None:
        for logged in records:
            assert not self.records or logged.seq == self.records[-1].seq + 1, "a gap"
            self.records.append(logged)
            self.bytes += record_bytes(logged.record)
        if self.bytes > self.bytes_max:
            self.bound(self.bytes_max)

    def bound(self, bytes_max: int) -> None:
        """Keep no more than that from now on, but the last record."""
        self.bytes_max = bytes_max
        while self.bytes > bytes_max and len(self.records) > 1:
            self.bytes -= record_bytes(self.records.popleft().record)

    def holds(self, seq: int) -> bool:
        return bool(self.records) and seq >= self.records[0].seq

    def iterate_from(self, seq: int) -> Iterator[Logged]:
        # seq counts without gaps, so the distance is the offset.  Readers stand near the right
        # end, and a deque is quick at both.
        from_end = self.records[-1].seq - seq + 1
        if from_end <= len(self.records) // 2:
            return reversed(list(islice(reversed(self.records), max(0, from_end))))
        return islice(self.records, seq - self.records[0].seq, None)
