"""Names of entries of a lane: one by one, by their bounds, and as slices of macro nodes."""

from dataclasses import dataclass
from typing import TypeAlias

from crdtstream.core.ids import ID_MAX, ID_MIN, U64_MAX, RegionId, StreamId
from crdtstream.core.lanes.macro_node import MacroNode

# An entry: its ID, its lane, its macro node and where it stands there.
Found: TypeAlias = tuple[StreamId, RegionId, MacroNode, int]
# Neighbouring entries of one macro node: from where they stand there up to but without where.
Slice: TypeAlias = tuple[MacroNode, int, int]


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of entries of a lane: by dot number in (above_n, upto_n], by ID from start to end.

    As IDs ascend with dots in a lane, the entries within both bounds are one stretch of it.
    """

    above_n: int = 0
    upto_n: int = U64_MAX
    start: StreamId = ID_MIN
    end: StreamId = ID_MAX


def bounds_in(node: MacroNode, within: Within) -> tuple[int, int]:
    """Indexes in a macro node where the entries within the bounds begin and end."""
    first, stop = 0, len(node)
    if node.first_n <= within.above_n:
        first = node.index_above(within.above_n)
    if node.first_id < within.start:
        first = max(first, node.index_from(within.start))
    if node.last_n > within.upto_n:
        stop = node.index_above(within.upto_n)
    if node.last_id > within.end:
        stop = min(stop, node.index_from(StreamId(within.end + 1)))
    return first, stop


def prefix_of(node: MacroNode, *, up_to: StreamId, n_max: int) -> int:
    """Number of entries of a macro node that lie up to an ID and a dot number."""
    if node.first_id > up_to or node.first_n > n_max:
        return 0
    stop = node.index_from(StreamId(up_to + 1))
    return stop if node.last_n <= n_max or node.n[stop - 1] <= n_max else node.index_above(n_max)


def bytes_of(node: MacroNode, start: int, stop: int) -> int:
    """Bytes of the fields of some of its entries."""
    if node.cold is not None and stop - start == len(node):
        return node.fields_bytes
    return sum(node.lengths[start:stop])
