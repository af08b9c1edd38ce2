"""The log: every record of a region, in the order in which the region applied them.

The log is the region: replaying it, from the first record or behind a checkpoint, rebuilds the
replica.  It is also what the links send, since a record holds the encoded batch as it was issued or
received.  Records count from 1 without gaps; that number, ``seq``, is a record's position, and it
means nothing outside this folder.  Once a checkpoint (``checkpoints.py``) has them, the first
records may be cut off; those that are left keep their positions.

Two implementations under one contract: ``MemoryLog`` here for tests and simulations, ``SqliteLog``
in ``sqlite.py`` for nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from crdtstream.core.clock import MutableVersionVector, VersionVector, join
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.core.wire.local_codec import merged_in
from crdtstream.store.errors import LogCutError

# One group commit; more would make the first of its clients wait for the last one's bytes.
COMMIT_RECORDS_MAX: Final = Size(1_000, least=1, most=4_000)
COMMIT_BYTES_MAX: Final = Size(16 << 20, least=1)


class Fsync(Enum):
    """When a commit is on the disk for good; the value is what ``appendfsync`` says."""

    ALWAYS = "always"  # before the commit returns
    EVERYSEC = "everysec"  # when ``sync`` is called, about each second
    NO = "no"  # when ``sync`` is called, seldom


@dataclass(slots=True, init=False)
class Logged:
    """A record at its place in the log."""

    seq: Final[int]
    record: Final[Record]

    def __init__(self, seq: int, record: Record) -> None:
        self.seq = seq
        self.record = record


def next_commit(queue: Sequence[Record]) -> list[Record]:
    """The first records of a queue that fit into one group commit, and at least one."""
    records: list[Record] = []
    size = 0
    for record in queue:
        size += record_bytes(record)
        if records and (len(records) >= COMMIT_RECORDS_MAX.value or size > COMMIT_BYTES_MAX.value):
            break
        records.append(record)
    assert records or not queue
    return records


class Log(Protocol):
    """A log as the engine and the links need it."""

    @property
    def last_seq(self) -> int:
        """The position of the last committed record; 0 in an empty log."""

    @property
    def first_seq(self) -> int:
        """The position of the first record that was not cut off; the record need not exist yet."""

    @property
    def begins(self) -> VersionVector:
        """Version vector of effects that are not in the log: cut off, or brought by no record."""

    def append_at_once(self, records: Sequence[Record]) -> bool:
        """Commit the records as ``append`` does, if that takes little time and needs no waiting.

        Not while an ``append`` or ``set_fsync`` is under way.

        Returns:
            False: nothing was committed, and ``append`` is to be called.

        Raises:
            StoreError: nothing was committed.
        """

    async def append(self, records: Sequence[Record]) -> None:
        """Commit the records, all or none, behind the last one.

        Raises:
            StoreError: nothing was committed.  The same call may be made again.
        """

    async def sync(self) -> None:
        """Return when a power cut cannot take back any record committed before the call."""

    async def set_fsync(self, fsync: Fsync) -> None:
        """Have commits be durable as this says, from the next one on.

        With ``ALWAYS`` the caller has synced what it committed before.

        Raises:
            StoreError: it stays as it was.
        """

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        """Records from ``seq`` on, at least one if there is one, about ``bytes_max`` in all.

        Raises:
            LogCutError: the log begins behind ``seq``.
        """

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        """The first position of a batch of one of ``origins`` beyond ``vv``, else the next one.

        Raises:
            LogCutError: the log does not have all of theirs beyond ``vv`` any more.
        """

    async def bytes_from(self, seq: int) -> int:
        """Size in bytes, about, of the records from ``seq`` on, as they are stored."""

    async def look(self) -> None:
        """See that what is written is where a restart will look for it, and can be written.

        Raises:
            StoreError: it is not; nothing may be acknowledged until this is called again and
                returns.
        """

    async def note_lacks(self, vv: VersionVector) -> None:
        """Say, durably, that the log does not have all effects up to there, wherever it begins.

        A state that is merged brings them, and no record.

        Raises:
            StoreError: it could not be said.  The same call may be made again.
        """

    async def get_meta(self, key: str) -> str | None: ...

    async def set_meta(self, key: str, value: str) -> None: ...

    async def confirm(self) -> None:
        """Say, durably, that a node goes on with this log: it is what its region now is.

        Raises:
            StoreError: it could not be said.  The same call may be made again.
        """

    async def revoke(self) -> None:
        """Take that back, durably: something of the log turned out to be lost.

        Raises:
            StoreError: it could not be written.  The same call may be made again.
        """

    async def close(self) -> None: ...


def check_reaches(begins: VersionVector, vv: VersionVector, origins: Iterable[RegionId]) -> None:
    """See that a log which begins there has all batches of ``origins`` beyond ``vv``.

    Raises:
        LogCutError: some were cut off.
    """
    for origin in origins:
        if vv.get(origin, 0) < begins.get(origin, 0):
            raise LogCutError(
                f"effects {vv.get(origin, 0) + 1} to {begins[origin]} of region {origin} are not "
                "in the log any more"
            )


def leading_within(records: Iterable[Logged], bytes_max: int) -> list[Logged]:
    """The leading records that fit into ``bytes_max``, and at least the first."""
    taken: list[Logged] = []
    total = 0
    for logged in records:
        total += record_bytes(logged.record)
        if taken and total > bytes_max:
            break
        taken.append(logged)
    return taken


class MemoryLog:
    """A log that forgets everything when the process ends.

    Attributes:
        cut_vv: the version vector before the first record, of the effects that were cut off.
    """

    def __init__(self) -> None:
        self._records: list[Logged] = []
        self._meta: dict[str, str] = {}
        self._first_seq = 1
        self.cut_vv: MutableVersionVector = {}
        self._lacks: MutableVersionVector = {}

    @property
    def last_seq(self) -> int:
        return self._first_seq + len(self._records) - 1

    @property
    def first_seq(self) -> int:
        return self._first_seq

    @property
    def begins(self) -> VersionVector:
        begins = dict(self.cut_vv)
        join(begins, self._lacks)
        return begins

    async def bytes_from(self, seq: int) -> int:
        return sum(record_bytes(one.record) for one in self._records if one.seq >= seq)

    @property
    def bytes(self) -> int:
        return sum(record_bytes(logged.record) for logged in self._records)

    def check(self) -> None:
        """See whether the disk takes something; a log on a disk that can refuse overrides it.

        Raises:
            StoreError: it does not.
        """

    def forget_upto(self, seq: int) -> None:
        """Cut off the records up to and with this one."""
        count = max(0, seq - self._first_seq + 1)
        for logged in self._records[:count]:
            note_passed(self.cut_vv, logged.record)
        del self._records[:count]
        self._first_seq += count
        assert not self._records or self._records[0].seq == self._first_seq

    async def note_lacks(self, vv: VersionVector) -> None:
        self.check()
        join(self._lacks, vv)

    def append_at_once(self, records: Sequence[Record]) -> bool:
        self._put(records)
        return True

    async def append(self, records: Sequence[Record]) -> None:
        self._put(records)

    def _put(self, records: Sequence[Record]) -> None:
        for seq, record in enumerate(records, self.last_seq + 1):
            self._records.append(Logged(seq, record))

    async def sync(self) -> None:
        pass

    async def set_fsync(self, fsync: Fsync) -> None:
        pass

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        if seq < self._first_seq:
            raise LogCutError(f"row {seq} is not in the log any more")
        return leading_within(self._records[seq - self._first_seq :], bytes_max)

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        wanted = set(origins)
        check_reaches(self.begins, vv, sorted(wanted))
        for logged in self._records:
            record = logged.record
            is_wanted = record.batch is not None and record.origin in wanted
            if is_wanted and record.last_n > vv.get(record.origin, 0):
                return logged.seq
        return self.last_seq + 1

    async def look(self) -> None:
        """It is all in memory."""

    async def get_meta(self, key: str) -> str | None:
        return self._meta.get(key)

    async def set_meta(self, key: str, value: str) -> None:
        self._meta[key] = value

    async def confirm(self) -> None:
        pass

    async def revoke(self) -> None:
        pass

    async def close(self) -> None:
        pass


def note_passed(vv: MutableVersionVector, record: Record) -> None:
    """Raise ``vv`` by what a record of the log has."""
    if record.batch is not None:
        vv[record.origin] = max(vv.get(record.origin, 0), record.last_n)
    elif (merged := merged_in(record)) is not None:
        join(vv, merged.vv)
