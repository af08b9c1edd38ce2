"""A disk for the log: what is written becomes durable by a commit, and a crash loses the rest."""

from collections.abc import Iterable, Sequence

from crdtstream.core.effects import Record


class Disk:
    """The records of one region, in order."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._durable = 0

    def write(self, records: Iterable[Record]) -> None:
        self._records.extend(records)

    def commit(self) -> None:
        """Make everything written so far durable."""
        self._durable = len(self._records)

    def crash(self) -> None:
        del self._records[self._durable :]

    def durable(self) -> Sequence[Record]:
        return self._records[: self._durable]
