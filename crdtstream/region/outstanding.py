"""What ticks have left and the log does not have yet: records, and what waits for them.

    tick ends ── add ──> outstanding ── note_logged(seq) ──> logged ── note_durable ──> durable

Records count from 1 without gaps, as in the log: that number is the record's ``seq``.  A parcel
waits for the last record that was there when its tick ended, also if its own tick left none: a
read may have seen what the tick before wrote (``rules`` 19).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.core.clock import MutableVersionVector, VersionVector, join
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.size import Size
from crdtstream.region.ready import Parcel

# Left beyond this, clients and links are not read until it is half of it again.
QUEUE_BYTES_MAX: Final = Size(64 << 20, least=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the log: what was logged when a sync began."""

    seq: int
    vv: VersionVector


@dataclass(slots=True, eq=False)
class _Left:
    """What one tick left."""

    after: int
    records: int
    size: int
    parcels: list[Parcel]


class Outstanding:
    """The records of one region between their ticks and the disk.

    Attributes:
        left_seq: the last record that a tick left.
        logged_seq, logged_vv: what is in the log.  Links send nothing beyond it.
        durable_seq, durable_vv: of that, what a power cut cannot take back.  Acks, WAIT and
            stability name nothing beyond it.
        is_congested: more waits for the disk than should; take nothing new from clients and links.
        queued_bytes, queued_records: what waits for the disk.
        is_gone: the files that hold the log are no longer in the folder: nothing of it is durable.

    Always so: durable_seq <= logged_seq <= left_seq.
    """

    def __init__(self, seq: int, vv: VersionVector, *, records_max: int) -> None:
        """All up to ``seq`` was read back from the log, and is durable."""
        self.left_seq = self.logged_seq = self.durable_seq = seq
        self.logged_vv: MutableVersionVector = dict(vv)
        self.durable_vv: MutableVersionVector = dict(vv)
        self.is_congested = False
        self.is_gone = False
        self.queued_bytes = 0
        self.queued_records = 0
        self._records_max = records_max
        self._begun_at = seq
        self._ticks: deque[_Left] = deque()
        self._unlogged: deque[Record] = deque()

    @property
    def durable_records(self) -> int:
        """How many records of this run of the node a power cut cannot take back."""
        return self.durable_seq - self._begun_at

    def add(self, records: Sequence[Record], parcels: list[Parcel]) -> None:
        """A tick ended with these records; its parcels wait for them."""
        self.left_seq += len(records)
        size = sum(map(record_bytes, records))
        self._ticks.append(_Left(self.left_seq, len(records), size, parcels))
        self._unlogged.extend(records)
        self.queued_bytes += size
        self.queued_records += len(records)
        self._stamp(parcels)
        self.is_congested = self.is_congested or self._exceeds(1)

    def hold(self, parcels: list[Parcel]) -> bool:
        """A tick without records ended: its parcels wait for what is under way.

        Returns:
            Whether they do; False: nothing is under way.
        """
        self._stamp(parcels)
        if not self._ticks:
            return False
        self._ticks[-1].parcels.extend(parcels)
        return True

    def _stamp(self, parcels: Iterable[Parcel]) -> None:
        for parcel in parcels:
            parcel.after = self.left_seq

    def _exceeds(self, divisor: int) -> bool:
        """Whether more waits for the disk than the bound's ``divisor``-th part."""
        return (
            self.queued_bytes > QUEUE_BYTES_MAX.value // divisor
            or self.queued_records > self._records_max // divisor
        )

    def note_logged(self, seq: int) -> list[Parcel]:
        """The log has everything up to ``seq``; returns what waited for no more than that."""
        assert self.logged_seq <= seq <= self.left_seq, "the log is ahead of its region"
        unlogged = self._unlogged
        for _ in range(seq - self.logged_seq):
            record = unlogged.popleft()
            if record.batch is not None:
                self.logged_vv[record.origin] = record.last_n
            elif record.merged_vv is not None:
                join(self.logged_vv, record.merged_vv)
        self.logged_seq = seq
        ticks = self._ticks
        told: list[Parcel] = []
        while ticks and ticks[0].after <= seq:
            tick = ticks.popleft()
            self.queued_bytes -= tick.size
            self.queued_records -= tick.records
            told += tick.parcels
        return told

    def relieve(self) -> bool:
        """Whether congestion is over with what was logged by now."""
        if not self.is_congested or self._exceeds(2):
            return False
        self.is_congested = False
        return True

    def mark(self) -> Mark:
        """What is logged now, for a sync that begins."""
        return Mark(self.logged_seq, dict(self.logged_vv))

    def note_durable(self, mark: Mark) -> None:
        """A sync that began at ``mark`` is done; one that began later may have been quicker."""
        assert mark.seq <= self.logged_seq
        if mark.seq < self.durable_seq:
            return
        self.durable_seq = mark.seq
        self.durable_vv = dict(mark.vv)

    def take_parcels(self) -> list[Parcel]:
        """All that waits: the disk refuses, and who waits is told that the outcome is unknown."""
        parcels = [parcel for tick in self._ticks for parcel in tick.parcels]
        for tick in self._ticks:
            tick.parcels = []
        return parcels
