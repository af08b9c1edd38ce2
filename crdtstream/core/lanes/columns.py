"""The columns of a macro node, for what reads them and does not know nodes; see ``lane.py``."""

from array import array
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from crdtstream.core.effects import IdempotentId, Numbered

# By dot number what an entry's producer calls it.
Names: TypeAlias = dict[int, IdempotentId]
# First dot number, how many, and what the first one is.
NumberedRuns: TypeAlias = list[tuple[int, int, Numbered]]


class EntryColumns(Protocol):
    """Entries of a lane, column by column; there is at least one."""

    ms: "array[int]"
    seq: "array[int]"
    n: Sequence[int]
    starts: "array[int]"
    lengths: "array[int]"
    fields: bytearray
    arrivals: "array[int]"
    idempotent: Names | None
    numbered: NumberedRuns | None

    def fields_at(self, index: int) -> bytearray:
        """The fields of one entry."""

    def live_fields(self) -> bytes | bytearray:
        """The fields of all entries without holes, in order."""

    def idempotent_at(self, index: int) -> IdempotentId | None:
        """What the producer of an entry calls it."""


def widened(typecode: str, column: Sequence[int]) -> "array[int]":
    """A column with numbers of this type; a closed macro node may have it in a smaller one."""
    if isinstance(column, array) and column.typecode == typecode:
        return column
    return array(typecode, column)
