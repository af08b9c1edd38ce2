"""Entries that are appended together, column by column."""

from array import array
from typing import NamedTuple


class EntryRun(NamedTuple):
    """Entries without names; their IDs ascend.

    Attributes:
        ms, seq: the halves of their IDs.
        lengths: per entry how many bytes of ``fields`` are its own.
        fields: of all, one behind the other.
    """

    ms: "array[int]"
    seq: "array[int]"
    lengths: "array[int]"
    fields: bytes | memoryview
