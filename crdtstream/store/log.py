"""The log: every record of a region, in the order in which the region applied them.

The log is the region: replaying it from the first record rebuilds the replica.  It is also what the
links send, since a record holds the encoded batch as it was issued or received.  Records count from
1 without gaps; that number, ``seq``, is a record's position.  It means nothing outside this folder.

Two implementations under one contract: ``MemoryLog`` here for tests and simulations, ``SqliteLog``
in ``sqlite.py`` for nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.ids import RegionId

FORMAT_VERSION: Final = 2


class Fsync(Enum):
    """When a commit is on the disk for good; the value is what ``appendfsync`` says."""

    ALWAYS = "always"  # before the commit returns
    EVERYSEC = "everysec"  # when ``sync`` is called, about each second
    NO = "no"  # when ``sync`` is called, seldom


@dataclass(frozen=True, slots=True)
class Logged:
    """A record at its place in the log."""

    seq: int
    record: Record


class Log(Protocol):
    """What the engine and the links need of a log."""

    @property
    def last_seq(self) -> int:
        """The position of the last committed record; 0 in an empty log."""

    async def append(self, records: Sequence[Record]) -> None:
        """Commit the records, all or none, behind the last one.

        Raises:
            StoreError: nothing was committed.  The same call may be made again.
        """

    async def sync(self) -> None:
        """Return when a power cut cannot take back any record committed before the call."""

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        """Records from ``seq`` on, at least one if there is one, about ``bytes_max`` in all."""

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        """The first position of a batch of one of ``origins`` beyond ``vv``, else the next one."""

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
    """A log that forgets everything when the process ends."""

    def __init__(self) -> None:
        self._records: list[Logged] = []
        self._meta: dict[str, str] = {}

    @property
    def last_seq(self) -> int:
        return len(self._records)

    async def append(self, records: Sequence[Record]) -> None:
        for record in records:
            self._records.append(Logged(len(self._records) + 1, record))

    async def sync(self) -> None:
        pass

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        return leading_within(self._records[max(0, seq - 1) :], bytes_max)

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        wanted = set(origins)
        for logged in self._records:
            record = logged.record
            is_wanted = record.batch is not None and record.origin in wanted
            if is_wanted and record.last_n > vv.get(record.origin, 0):
                return logged.seq
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
