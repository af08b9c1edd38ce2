"""Outstanding: what ticks left and the log does not have yet: records, and what waits for them.

    tick ends ── add ──> outstanding ── note_logged(seq) ──> logged ── note_durable ──> durable

Records count from 1 without gaps, as in the log: that number is the record's ``seq``.  A parcel
waits for the last record that existed when its tick ended, also if its own tick left none: a read
may have seen what the tick before wrote (``rules`` 19).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.size import Size
from crdtstream.region.ready import Parcel

# With more than this, clients and links are not read until it is down to half.
QUEUE_BYTES_MAX: Final = Size(64 << 20, least=1)


@dataclass(slots=True, init=False)
class Mark:
    """A place in the log: what was logged when a sync began."""

    seq: Final[int]
    vv: Final[VersionVector]

    def __init__(self, seq: int, vv: VersionVector) -> None:
        self.seq = seq
        self.vv = vv


@dataclass(slots=True, init=False, eq=False)
class _Left:
    """Records and parcels that one tick left."""

    after: int
    records: int
    size: int
    parcels: list[Parcel]

    def __init__(self, after: int, records: int, size: int, parcels: list[Parcel]) -> None:
        self.after = after
        self.records = records
        self.size = size
        self.parcels = parcels


class Durable(Protocol):
    """The version vector that a power cut cannot take back."""

    @property
    def durable_vv(self) -> VersionVector: ...


class Outstanding:
    """The records of one region between their ticks and the disk.

    Attributes:
        left_seq: the last record that a tick left.
        logged_seq, logged_vv: what is in the log.  Links send nothing beyond it.
        durable_seq, durable_vv: the part of this that a power cut cannot take back.  Acks, WAIT and
            stability name nothing beyond it.
        is_congested: more waits for the disk than should; take nothing new from clients and links.
        queued_bytes, queued_records: what waits for the disk.
        is_gone: the files that hold the log are no longer in the folder: nothing of it is durable.

    Always so: durable_seq <= logged_seq <= left_seq.
    """

    def __init__(self, seq: int, vv: VersionVector, *, records_max: int) -> None:
        """Begin where all up to ``seq`` was read back from the log, and is durable."""
        self.left_seq = self.logged_seq = self.durable_seq = seq
        self.logged_vv: MutableVersionVector = dict(vv)
        self.durable_vv: VersionVector = dict(vv)
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
        """Number of records of this run of the node that a power cut cannot take back."""
        return self.durable_seq - self._begun_at

    def add(self, records: Sequence[Record], parcels: list[Parcel]) -> None:
        """Add the records of a tick that ended, and its parcels, which wait for them."""
        assert records, "what waits for nothing is held, or leaves"
        self.left_seq += len(records)
        size = sum(map(record_bytes, records))
        self._ticks.append(_Left(self.left_seq, len(records), size, parcels))
        self._unlogged.extend(records)
        self.queued_bytes += size
        self.queued_records += len(records)
        for parcel in parcels:
            parcel.after = self.left_seq
        assert len(self._unlogged) == self.left_seq - self.logged_seq
        if self._exceeds(1):
            self.is_congested = True

    def hold(self, parcels: list[Parcel]) -> bool:
        """Let the parcels of a tick without records wait for what is under way.

        Returns:
            True if they wait; False: nothing is under way.
        """
        for parcel in parcels:
            parcel.after = self.left_seq
        if not self._ticks:
            # I7: nothing is under way that they could have seen.
            assert self.logged_seq == self.left_seq
            return False
        self._ticks[-1].parcels.extend(parcels)
        return True

    def _exceeds(self, divisor: int) -> bool:
        """True if more waits for the disk than the ``divisor``-th part of the bound."""
        return (
            self.queued_bytes > QUEUE_BYTES_MAX.value // divisor
            or self.queued_records > self._records_max // divisor
        )

    def note_logged(self, seq: int) -> list[Parcel]:
        """Note that the log has all up to ``seq``; return the parcels that waited for that."""
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
        assert len(unlogged) == self.left_seq - seq
        assert self.queued_bytes >= 0
        assert ticks or not self.queued_records, "records are counted that no tick has left"
        return told

    def relieve(self) -> bool:
        """True if congestion ends with what was logged by now."""
        if not self.is_congested or self._exceeds(2):
            return False
        self.is_congested = False
        return True

    def mark(self) -> Mark:
        """Mark of what is logged now, for a sync that begins."""
        return Mark(self.logged_seq, dict(self.logged_vv))

    def note_durable(self, mark: Mark) -> None:
        """Note that a sync that began at ``mark`` is done; a later one may have been quicker."""
        assert mark.seq <= self.logged_seq
        if mark.seq < self.durable_seq:
            return
        assert covers(self.logged_vv, mark.vv), "durable is what is logged, at most"
        assert covers(mark.vv, self.durable_vv), "what is durable stays so"
        self.durable_seq = mark.seq
        # A mark is made for one sync, and nothing else changes its version vector.
        self.durable_vv = mark.vv

    def take_parcels(self) -> list[Parcel]:
        """Take all parcels that wait: the disk refuses, so they report an unknown outcome."""
        parcels = [parcel for tick in self._ticks for parcel in tick.parcels]
        for tick in self._ticks:
            tick.parcels = []
        return parcels
