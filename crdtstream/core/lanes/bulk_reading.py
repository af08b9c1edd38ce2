"""Reading a lane in bulk: its entries as columns, without a word on how a lane keeps them.

A reader asks for the next entries within bounds, as slices, and gets these as columns:

    lane.slices(Within(above_n=40), entries_max=8192)     what to read next
    Columns(slices).ms, .seq, .n, .fields …               the entries, column by column
    Columns(slices).last_n                                where to go on

Slices are good until the lane changes next; columns are copies and stay good.  What is made here is
made of whole columns of macro nodes, so it costs next to nothing per entry.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, starmap
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.effects import IdempotentId
from crdtstream.core.id_columns import FEW, Ids, from_columns
from crdtstream.core.ids import U64_MAX, StreamId
from crdtstream.core.lanes.blocks import DIGEST_MASK, block_of, sum_of_joined
from crdtstream.core.lanes.columns import NodeColumns, widened
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.slices import Slice, Within
from crdtstream.core.size import Size

# Of fewer neighbouring rows the names are made one by one.
SHORT: Final = Size(32, least=0)


class Rows(NamedTuple):
    """Neighbouring rows of a numbered producer: the row's number less the dot's is the same."""

    producer: bytes
    batch: int
    row_less_n: int


# Idempotent ids, or None, of neighbouring entries; an empty list: none of them has one.
Names: TypeAlias = list[IdempotentId | None]


class Columns:
    """Some entries of a lane, column by column.

    Columns of numbers are bytes as the machine keeps them: ``ms``, ``seq`` and ``n`` (dot numbers)
    of 8 bytes each, ``lengths`` (bytes of fields) of 4.
    """

    __slots__ = ("_slices",)

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def __len__(self) -> int:
        return sum(stop - start for _, start, stop in self._slices)

    @property
    def last_n(self) -> int:
        """The dot number of the last entry; there must be one."""
        node, _, stop = self._slices[-1]
        return node.n[stop - 1]

    @property
    def last_id(self) -> StreamId:
        """The ID of the last entry; there must be one."""
        node, _, stop = self._slices[-1]
        return node.id_at(stop - 1)

    @property
    def ms(self) -> bytes:
        return b"".join([node.ms[start:stop] for node, start, stop in self._slices])

    @property
    def seq(self) -> bytes:
        return b"".join([widened("Q", node.seq[start:stop]) for node, start, stop in self._slices])

    @property
    def n(self) -> bytes:
        return b"".join([widened("Q", node.n[start:stop]) for node, start, stop in self._slices])

    @property
    def lengths(self) -> bytes:
        return b"".join(
            [widened("I", node.lengths[start:stop]) for node, start, stop in self._slices]
        )

    @property
    def fields(self) -> bytes:
        """Each entry's fields and values as one RESP array, one after the other."""
        return b"".join(starmap(_fields, self._slices))

    def names(self) -> Iterator[tuple[Rows | Names, int]]:
        """Names of neighbouring entries, with the number of entries that each stands for.

        Usually they have no names, or names that differ in the row only.
        """
        current: Rows | Names = []
        count = 0
        for stretch, entries in chain.from_iterable(starmap(_names_in, self._slices)):
            if not count:
                current = stretch
            elif isinstance(stretch, list) and stretch and isinstance(current, list) and current:
                current += stretch
            elif stretch != current:
                yield current, count
                current, count = stretch, 0
            count += entries
        if count:
            yield current, count


def ids_of(slices: Sequence[Slice]) -> Ids:
    """The IDs of some entries of a lane."""
    if len(slices) == 1:
        node, start, stop = slices[0]
        if stop - start < FEW.value:
            return tuple(map(node.columns.id_at, range(start, stop)))
    ms, seq = array("Q"), array("Q")
    for node, start, stop in slices:
        columns = node.columns
        ms += columns.ms[start:stop]
        seq += widened("Q", columns.seq[start:stop])
    return from_columns(ms, seq)


def ends(lane: Lane, within: Within, *, nodes_max: int) -> list[tuple[int, int]]:
    """Dot numbers at which a lane is cut cheaply, ascending, and how many entries end at each.

    At most ``nodes_max`` of them; to go on, ask for what is above the last one.  Between two of
    them lies one macro node, or what the bounds leave of it.

    Cost: O(log n + their number).
    """
    slices = lane.slices(within, entries_max=U64_MAX, nodes_max=nodes_max)
    return [
        (node.last_n if stop == len(node) else node.n[stop - 1], stop - start)
        for node, start, stop in slices
    ]


def dot_range(lane: Lane) -> tuple[int, int] | None:
    """The dot numbers of the first and the last entry; None of an empty lane."""
    if lane.head is None or lane.tail is None:
        return None
    return lane.head.first_n, lane.tail.last_n


def dot_numbers(lane: Lane, within: Within) -> "array[int]":
    """The dot numbers of all entries within the bounds, ascending."""
    ns = array("Q")
    for node, start, stop in lane.slices(within, entries_max=U64_MAX):
        ns.extend(node.n[start:stop])
    return ns


def digest_of(lane: Lane) -> int:
    """The sum of the digests of all blocks of a lane (``blocks.py``).

    Macro nodes that share a block with a neighbour are read; of the others each closed one is read
    once at most, while it is warm.

    Raises:
        ColdError: entries are needed that are on disk only.
    """
    total = 0
    joined: list[MacroNode] = []
    last_block = -1
    for node in lane.macro_nodes():
        first_n, last_n = node.short_ends()
        if not first_n:
            total += node.own_digest()
            continue
        if joined and block_of(first_n) != last_block:
            total += _digest_of(joined)
            joined.clear()
        joined.append(node)
        last_block = block_of(last_n)
    if joined:
        total += _digest_of(joined)
    return total & DIGEST_MASK


def _digest_of(joined: list[MacroNode]) -> int:
    return (
        sum_of_joined([node.columns for node in joined])
        if len(joined) > 1
        else joined[0].own_digest()
    )


def _fields(node: MacroNode, start: int, stop: int) -> bytes | bytearray:
    """The fields of some entries without the holes between them."""
    columns = node.columns
    starts, lengths, fields = columns.starts, columns.lengths, columns.fields
    begin, end = starts[start], starts[stop - 1] + lengths[stop - 1]
    if sum(lengths[start:stop]) == end - begin:
        return fields if end - begin == len(fields) else fields[begin:end]
    return b"".join(map(columns.fields_at, range(start, stop)))


def _names_in(node: MacroNode, start: int, stop: int) -> Iterator[tuple[Rows | Names, int]]:
    at = start
    columns = node.columns
    for first_n, length, first in columns.numbered or ():
        begin = bisect_left(columns.n, first_n, at, stop)
        end = bisect_left(columns.n, first_n + length, begin, stop)
        if at < begin < end:
            yield _idempotent(columns, at, begin), begin - at
        if begin < end < begin + SHORT.value:
            names: Names = [first.name(n - first_n) for n in columns.n[begin:end]]
            yield names, end - begin
            at = end
        elif begin < end:
            yield Rows(first.producer, first.batch, first.row - first_n), end - begin
            at = end
    if at < stop:
        yield _idempotent(columns, at, stop), stop - at


def _idempotent(columns: NodeColumns, start: int, stop: int) -> Names:
    names = columns.idempotent
    return [names.get(n) for n in columns.n[start:stop]] if names else []
