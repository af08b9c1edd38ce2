"""Compaction: small neighbouring macro nodes become one larger one.

Appends fill nodes of some 4 KiB, as Redis does, and every cut closes the last one.  On disk a node
costs memory for what is known of it, and compresses the better the larger it is.  So before a cut
closed neighbours are put together, as a log-structured merge tree would:

    weights in KiB     … 128 128 | 80 | 40 | 12 | 3 4 3 4    what weighs half a full node stays
                                                  └─────┘    four and more of a kind become one

A merge takes the longest stretch of small nodes, up to the newest, in which none weighs more than a
quarter of all.  If together they would fill a node, it takes all of them.  So an entry is written
again a few times at most: each time its node becomes four times as heavy, or is full.

Full nodes end where a block of the digest does (``blocks.py``), if one does near.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Final

from crdtstream.core.ids import SEQ_BITS, StreamId
from crdtstream.core.lanes.blocks import LONG, block_of
from crdtstream.core.lanes.body import narrow
from crdtstream.core.lanes.columns import (
    Names,
    NodeColumns,
    NumberedRuns,
    runs_within,
    widened,
)
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import CLOSED, MacroNode, State
from crdtstream.core.lanes.rax import KEY_BYTES
from crdtstream.core.size import Size

# A full node: whichever comes first.  1,600 entries are six blocks and a bit; that many sensor
# readings, of some 80 bytes each, are to fit, as each node on disk takes a good 1,000 bytes of
# memory.
FULL_BYTES: Final = Size(1 << 17, least=1)
# Half of that, if they have idempotent ids, which take as long again.
FULL_ENTRIES: Final = Size(1600, least=1)
GROWTH: Final = Size(4, least=2)
# How much heavier than a full node one may be, if it ends between blocks then.
OVERWEIGHT: Final = Size(4, least=1)
# Of a longer stretch of small nodes the rest is for the next step.
STRETCH_NODES_MAX: Final = Size(256, least=2)
STRETCH_BYTES_MAX: Final = Size(1 << 17, least=1)
# A step in which nothing is put together ends after this number of nodes.
LOOKED_AT_MAX: Final = Size(256, least=1)


def entry_bytes_min() -> int:
    """The least weight of an entry: FULL_ENTRIES without fields weigh FULL_BYTES."""
    return max(1, FULL_BYTES.value // FULL_ENTRIES.value)


def small_bytes() -> int:
    """A node below this weight is put together with others."""
    return FULL_BYTES.value // 2


class Compaction:
    """One round: puts together what is small when it begins.

    Small nodes that writers make while it runs are left to the next round, so that it ends.
    """

    __slots__ = ("_left", "_limits")

    def __init__(self, limits: NodeLimits) -> None:
        self._limits = limits
        # It looks at as many nodes as there were at the start: the oldest come first.
        self._left = len(limits.small)

    def go_on(self, is_over: Callable[[], bool]) -> bool:
        """Take steps, of a millisecond or two each, until ``is_over``.

        Returns:
            True if the round is finished.
        """
        small = self._limits.small
        while self._left > 0:
            before = len(small)
            has_more = compact(self._limits)
            self._left = self._left - max(1, before - len(small)) if has_more else 0
            if is_over():
                break
        return self._left <= 0


def compact(limits: NodeLimits) -> bool:
    """One step: put together one stretch of small nodes, if one is found near.

    Returns:
        Whether there is more to be done.

    Cost: some 0.5 to 1 ms, 2 ms where every entry has an idempotent id: about STRETCH_BYTES_MAX are
    put together in one step, so that the event loop is not held for longer.  Of many streams with
    one small node each, a step looks at LOOKED_AT_MAX nodes.
    What is on disk only is not put together, however small: it would have to be read, and what is
    known of it takes the same memory as that of a large node.
    """
    looked_at = 0
    while limits.small and looked_at < LOOKED_AT_MAX.value:
        # The oldest first: the rest of a long stretch is joined with what comes behind it.
        node, _ = limits.small.popitem(last=False)
        looked_at += 1
        if not _is_small(node):
            continue
        stretch = _stretch(node)
        looked_at += len(stretch)
        for one in stretch:
            limits.small.pop(one, None)
        chosen = _chosen([_weight(one) for one in stretch])
        if chosen:
            _merge(stretch[-chosen:])
            break
    return bool(limits.small)


def _weight(node: MacroNode) -> int:
    return max(node.fields_bytes, entry_bytes_min() * len(node) * (1 + node.has_idempotent))


def _is_small(node: MacroNode) -> bool:
    """True if the node may be put together with others: in memory, closed and small."""
    return (
        node.counted_as in (State.WARM, State.PACKED)
        and node.is_closed
        and _weight(node) < small_bytes()
    )


def _stretch(node: MacroNode) -> list[MacroNode]:
    """The small nodes around one, in order; of very many, some."""
    for _ in range(STRETCH_NODES_MAX.value):
        before = node.prev
        if before is None or not _is_small(before):
            break
        node = before
    stretch = [node]
    weight = _weight(node)
    while (after := node.next) is not None and _is_small(after):
        stretch.append(after)
        weight += _weight(after)
        node = after
        if len(stretch) == STRETCH_NODES_MAX.value or weight >= STRETCH_BYTES_MAX.value:
            break
    return stretch


def _chosen(weights: list[int]) -> int:
    """Number of nodes, from the end, that are put together; 0: none."""
    if sum(weights) >= FULL_BYTES.value:
        return len(weights)
    chosen = total = heaviest = 0
    for count, weight in enumerate(reversed(weights), 1):
        total += weight
        heaviest = max(heaviest, weight)
        if total >= GROWTH.value * heaviest:
            chosen = count
    return chosen


# --- Putting together ---------------------------------------------------------------------------


def _merge(stretch: list[MacroNode]) -> None:
    """Replace neighbouring nodes by others with the same entries, as few as can be."""
    columns = _joined(stretch)
    assert len(columns.n) == sum(map(len, stretch))
    has_names = columns.idempotent or columns.numbered
    entries_max = FULL_ENTRIES.value // 2 if has_names else FULL_ENTRIES.value
    cuts = _cuts(columns.n, columns.lengths, entries_max)
    last = stretch[-1]
    if len(cuts) > 1 and last.next is not None and _is_small(last.next):
        # The rest is joined with what comes behind, so that it may end between blocks: it has to be
        # small, then.
        start, stop = cuts[-1]
        middle = (start + stop + 1) // 2
        cuts[-1:] = [one for one in ((start, middle), (middle, stop)) if one[0] < one[1]]
    assert cuts[0][0] == 0, "the first entries are left out"
    assert cuts[-1][1] == len(columns.n), "the last entries are left out"
    pieces = [_piece(columns, start, stop) for start, stop in cuts]
    merged: list[MacroNode] = []
    for piece in pieces:
        first_id = StreamId(piece.ms[0] << SEQ_BITS | piece.seq[0])
        # The first key stays what it was, so that it is still below all that ever came in.
        key = first_id.to_bytes(KEY_BYTES, "big") if merged else stretch[0].key
        node = MacroNode(key, last.lane, CLOSED)
        node.added = len(piece.n)
        node.put_columns(piece)
        merged.append(node)
    merged[-1].highest_removed_id = last.highest_removed_id
    last.lane.replace(stretch, merged)


def _joined(stretch: list[MacroNode]) -> NodeColumns:
    ms, seq, lengths, arrivals = array("Q"), array("Q"), array("I"), array("Q")
    n = array("Q")
    fields = bytearray()
    idempotent: Names = {}
    numbered: NumberedRuns = []
    for node in stretch:
        columns = node.columns
        ms += columns.ms
        seq += widened("Q", columns.seq)
        n += widened("Q", columns.n)
        lengths += widened("I", columns.lengths)
        fields += columns.live_fields()
        # At the seam the time may be the same; then it stands there once.
        arrivals += columns.arrivals[2 * (arrivals[-1:] == columns.arrivals[1:2]) :]
        idempotent |= columns.idempotent or {}
        numbered += columns.numbered or []
    starts = array("Q", accumulate(chain((0,), lengths)))
    return NodeColumns(ms, seq, n, starts, lengths, fields, arrivals, idempotent, numbered)


def _piece(columns: NodeColumns, start: int, stop: int) -> NodeColumns:
    """Some of the entries, as the columns of a closed node."""
    n: Sequence[int] = columns.n[start:stop]
    first_n, last_n = n[0], n[-1]
    if last_n - first_n + 1 == len(n):
        n = range(first_n, last_n + 1)
    begin, end = columns.starts[start], columns.starts[stop]
    assert end - begin == sum(columns.lengths[start:stop]), "fields have holes, or are missing"
    starts = [at - begin for at in columns.starts[start:stop]]
    arrivals = columns.arrivals
    arrived = arrivals[::2]
    # The first piece has what came before its entries, the last one what came behind.
    low = bisect_right(arrived, first_n) - 1 if start else 0
    high = bisect_right(arrived, last_n) if stop < len(columns.n) else len(arrived)
    kept = arrivals[2 * max(0, low) : 2 * high]
    return NodeColumns(
        array("Q", columns.ms[start:stop]),
        narrow(columns.seq[start:stop]),
        n,
        narrow(starts),
        narrow(columns.lengths[start:stop]),
        columns.fields[begin:end],
        kept,
        {n: name for n, name in (columns.idempotent or {}).items() if first_n <= n <= last_n}
        or None,
        runs_within(columns.numbered or [], first_n, last_n) or None,
    )


# --- Where nodes end ----------------------------------------------------------------------------


def _cuts(n: Sequence[int], lengths: "array[int]", entries_max: int) -> list[tuple[int, int]]:
    """Stretches of entries, each for a node."""
    ends = list(accumulate(lengths, initial=0))
    short = [one for one, length in zip(n, lengths, strict=True) if length < LONG]
    cuts = []
    start = 0
    while start < len(n):
        stop = _full_at(ends, start, FULL_BYTES.value, entries_max)
        assert start < stop <= len(n), "a node without entries"
        if stop < len(n):
            furthest = _full_at(
                ends, start, OVERWEIGHT.value * FULL_BYTES.value, OVERWEIGHT.value * entries_max
            )
            tries = chain(range(stop, start, -1), range(stop + 1, min(furthest, len(n) - 1) + 1))
            stop = next((at for at in tries if _is_between_blocks(short, n[at])), stop)
        cuts.append((start, stop))
        start = stop
    return cuts


def _full_at(ends: list[int], start: int, bytes_max: int, entries_max: int) -> int:
    """Index where a node that begins at ``start`` ends; it has at least one entry."""
    by_bytes = bisect_right(ends, ends[start] + bytes_max) - 1
    return max(start + 1, min(by_bytes, start + entries_max))


def _is_between_blocks(short: list[int], n: int) -> bool:
    """True if no block has entries on both sides of a dot number, which is behind the seam.

    Args:
        short: dot numbers of all entries with short fields, ascending.
    """
    at = bisect_left(short, n)
    return not 0 < at < len(short) or block_of(short[at - 1]) != block_of(short[at])
