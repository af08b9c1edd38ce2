"""Reads the rows of a log one after the other, and notes what is wrong with them."""

from dataclasses import dataclass, field

from crdtstream.core.clock import MutableVersionVector, covers, join
from crdtstream.core.effects import Merged, Record
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.core.wire.local_codec import decode_local, merged_in
from crdtstream.store.log import Logged


@dataclass(slots=True)
class Effects:
    """Sums of the rows of a log, and what is wrong with the rows, by check.

    Attributes:
        vv: how many effects of each origin there are without a gap.
        merged: the rows that say that a state was merged, and which one.
    """

    vv: MutableVersionVector = field(default_factory=dict)
    merged: list[tuple[int, Merged]] = field(default_factory=list)
    rows: int = 0
    batches: int = 0
    changes: int = 0
    gaps: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    undecoded: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)

    def take(self, logged: Logged) -> None:
        """Take the next row."""
        self.rows += 1
        record = logged.record
        where = f"row {logged.seq}"
        try:
            if record.local is not None:
                self.changes += len(decode_local(record.local).changes)
            if record.batch is not None:
                self.batches += 1
                self._take_batch(where, record, record.batch)
            elif (merged := merged_in(record)) is not None:
                join(self.vv, merged.vv)
                self.merged.append((logged.seq, merged))
            elif record.last_n != record.first_n - 1:
                self.undecoded.append(f"{where}: dots without a batch")
        except BatchError as error:
            self.undecoded.append(f"{where}: {error}")

    def _take_batch(self, where: str, record: Record, encoded: bytes) -> None:
        batch = decode_batch(encoded)
        if (batch.origin, batch.first_n, batch.last_n) != (
            record.origin,
            record.first_n,
            record.last_n,
        ):
            self.undecoded.append(f"{where}: its columns are not those of its batch")
            return
        known = self.vv.get(batch.origin, 0)
        if batch.first_n != known + 1:
            self.out_of_order.append(
                f"{where}: dot {batch.origin}:{batch.first_n} follows {batch.origin}:{known}"
            )
        if not covers(self.vv, batch.context):
            self.out_of_order.append(f"{where}: its context is not covered by the rows before it")
        self.vv[batch.origin] = max(known, batch.last_n)

    @property
    def is_whole(self) -> bool:
        return not (self.gaps or self.damaged or self.undecoded or self.out_of_order)
