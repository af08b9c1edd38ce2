"""The log: every record of a region, in the order in which the region applied them.

The log is the region: replaying it from the first row rebuilds the replica.  It is also what the
links send, since a row holds the encoded batch as it was issued or received.  Rows count from 1
without gaps; that number, ``seq``, is the position of a link in the log.  It means nothing outside
this folder.

Two implementations under one contract: ``MemoryLog`` here for tests and simulations, ``SqliteLog``
in ``sqlite.py`` for nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record
from crdtstream.core.ids import Region

FORMAT_VERSION: Final = 2

# What one row costs beside its blobs, roughly; so that rows without effects count as well.
ROW_OVERHEAD_BYTES: Final = 64


class Fsync(Enum):
    """When a commit is on the disk for good; the value is what ``appendfsync`` says."""

    ALWAYS = "always"  # before the commit returns
    EVERYSEC = "everysec"  # when ``sync`` is called, about each second
    NO = "no"  # when ``sync`` is called, seldom


@dataclass(frozen=True, slots=True)
class Row:
    """A record at its place in the log."""

    seq: int
    record: Record


class Log(Protocol):
    """What the engine and the links need of a log."""

    @property
    def last_seq(self) -> int:
        """The last committed row; 0 in an empty log."""

    async def append(self, records: Sequence[Record]) -> None:
        """Commit the records, all or none, behind the last row.

        Raises:
            StoreError: nothing was committed.  The same call may be made again.
        """

    async def sync(self) -> None:
        """Return when a power cut cannot take back any row that was committed before the call."""

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Row]:
        """Rows ``seq`` and following, at least one if there is one, about ``bytes_max`` in all."""

    async def seek(self, vv: VersionVector, origins: Iterable[Region]) -> int:
        """The first row with a batch of one of ``origins`` beyond ``vv``, else the next row's."""

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


def record_bytes(record: Record) -> int:
    """What a record weighs in queues and caches."""
    return ROW_OVERHEAD_BYTES + len(record.batch or b"") + len(record.local or b"")


def rows_within(rows: Iterable[Row], bytes_max: int) -> list[Row]:
    """The leading rows that fit into ``bytes_max``, and at least the first."""
    taken: list[Row] = []
    total = 0
    for row in rows:
        total += record_bytes(row.record)
        if taken and total > bytes_max:
            break
        taken.append(row)
    return taken


class MemoryLog:
    """A log that forgets everything when the process ends."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._meta: dict[str, str] = {}

    @property
    def last_seq(self) -> int:
        return len(self._rows)

    async def append(self, records: Sequence[Record]) -> None:
        for record in records:
            self._rows.append(Row(len(self._rows) + 1, record))

    async def sync(self) -> None:
        pass

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Row]:
        return rows_within(self._rows[max(0, seq - 1) :], bytes_max)

    async def seek(self, vv: VersionVector, origins: Iterable[Region]) -> int:
        wanted = set(origins)
        for row in self._rows:
            record = row.record
            is_wanted = record.batch is not None and record.origin in wanted
            if is_wanted and record.last_n > vv.get(record.origin, 0):
                return row.seq
        return self.last_seq + 1

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
