"""A log in memory that can be cut."""

from collections.abc import Iterable, Sequence

from crdtstream.core.clock import MutableVersionVector, VersionVector
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.ids import RegionId
from crdtstream.store.log import Logged, MemoryLog, leading_within


class CuttingLog(MemoryLog):
    """See ``crdtstream.engine.log_cutting.CutLog``.

    Attributes:
        seeks: how often it was asked where a version vector begins to lack effects.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seeks = 0
        self._cut_seq = 0
        self._begins: MutableVersionVector = {}

    @property
    def last_seq(self) -> int:
        return self._cut_seq + len(self._records)

    @property
    def first_seq(self) -> int:
        return self._cut_seq + 1

    @property
    def begins(self) -> VersionVector:
        return dict(self._begins)

    def _put(self, records: Sequence[Record]) -> None:
        for record in records:
            self._records.append(Logged(self.last_seq + 1, record))

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        return leading_within(self._records[max(0, seq - self.first_seq) :], bytes_max)

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        self.seeks += 1
        return await super().seek(vv, origins)

    async def bytes_from(self, seq: int) -> int:
        return sum(record_bytes(one.record) for one in self._records if one.seq >= seq)

    async def cut_log(self, upto_seq: int) -> None:
        assert upto_seq <= self.last_seq
        for logged in self._records[: upto_seq - self._cut_seq]:
            if logged.record.batch is not None:
                self._begins[logged.record.origin] = logged.record.last_n
        del self._records[: upto_seq - self._cut_seq]
        self._cut_seq = upto_seq
