"""A lane: what one origin region appended to one stream, in a rax of macro nodes.

A macro node is a packed run of neighbouring entries, column by column.  A closed node of three
entries, the second of them removed, looks like this:

    ms      [  7,  9 ]      halves of the IDs, ascending
    seq     [  1,  1 ]
    n       [ 12, 14 ]      dot numbers, ascending too
    starts  [  0, 61 ]      where an entry's fields begin in `fields`
    lengths [ 30, 28 ]
    fields  *2..............(hole of 31 bytes)*2............
    added   3               entries that were ever put in: what approximate trimming counts
    arrivals [ 12, 1700000000000, 14, 1700000000250 ]
                            from dot number 12 on entries came here at this time, from 14 on at
                            that; never at an earlier one than what came before
    idempotent {14: (producer, id)}   of entries that have one, by dot number; None without any
    numbered [ (12, 3, ("q1:0", 7, 40)) ]   dots 12 to 14 are the rows 40 to 42 of a producer's
                            batch 7, as far as they are still there; None without any

Always so:
  * IDs and dot numbers both ascend through the whole lane, so "up to this ID" and "covered by this
    context" are both prefixes of it.
  * No macro node is empty.
  * The rax maps the first ID that a node ever held to the node; nodes are also chained, so walking
    needs no tree, and the tail, where appends go, is reached at once.
"""

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import (
    ID_MAX,
    ID_MIN,
    SEQ_BITS,
    U64_MAX,
    Millis,
    RegionId,
    StreamId,
)
from crdtstream.core.lanes.rax import KEY_BYTES, Rax

NODE_ENTRIES_MAX_DEFAULT: Final = 100
NODE_BYTES_MAX_DEFAULT: Final = 4096


class Slice(NamedTuple):
    """Neighbouring entries of one macro node, those at ``start`` up to but without ``stop``."""

    node: "MacroNode"
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Within:
    """Which entries of a lane: by dot number in (above_n, upto_n], by ID from start to end.

    As IDs ascend with dots in a lane, what both bounds leave is one stretch of it.
    """

    above_n: int = 0
    upto_n: int = U64_MAX
    start: StreamId = ID_MIN
    end: StreamId = ID_MAX


@dataclass(slots=True)
class LastId:
    """A last-ID register: the ID that one origin appended or set last, and the dot of doing so."""

    id: StreamId
    n: int


class NodeLimits:
    """How full a macro node may get; shared by all lanes of a replica, changed while running.

    Attributes:
        entries_max: entries per node, 0 for no limit.
        bytes_max: bytes of fields per node, 0 for no limit.  A single larger entry is a node.
    """

    __slots__ = ("bytes_max", "entries_max")

    def __init__(
        self,
        *,
        entries_max: int = NODE_ENTRIES_MAX_DEFAULT,
        bytes_max: int = NODE_BYTES_MAX_DEFAULT,
    ) -> None:
        self.entries_max = entries_max
        self.bytes_max = bytes_max


class MacroNode:
    """A packed run of entries; see the picture above."""

    __slots__ = (
        "added",
        "arrivals",
        "fields",
        "highest_removed_id",
        "idempotent",
        "key",
        "lengths",
        "ms",
        "n",
        "next",
        "numbered",
        "prev",
        "seq",
        "starts",
    )

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.ms = array("Q")
        self.seq = array("Q")
        self.n = array("Q")
        self.starts = array("I")
        self.lengths = array("I")
        self.fields = bytearray()
        self.added = 0
        self.arrivals = array("Q")
        self.idempotent: dict[int, IdempotentId] | None = None
        self.numbered: list[tuple[int, int, Numbered]] | None = None
        self.highest_removed_id = ID_MIN
        self.prev: MacroNode | None = None
        self.next: MacroNode | None = None

    def __len__(self) -> int:
        return len(self.ms)

    def id_at(self, index: int) -> StreamId:
        return StreamId(self.ms[index] << SEQ_BITS | self.seq[index])

    @property
    def first_id(self) -> StreamId:
        return self.id_at(0)

    @property
    def last_id(self) -> StreamId:
        return self.id_at(-1)

    @property
    def highest_id(self) -> StreamId:
        """The highest ID that was ever put in, also if its entry is gone."""
        return max(self.last_id, self.highest_removed_id)

    def fields_at(self, index: int) -> bytearray:
        start = self.starts[index]
        return self.fields[start : start + self.lengths[index]]

    def index_from(self, entry_id: StreamId) -> int:
        """Index of the first entry that is not below the ID; the length if there is none."""
        ms = entry_id >> SEQ_BITS
        low = bisect_left(self.ms, ms)
        high = bisect_right(self.ms, ms, low)
        return bisect_left(self.seq, entry_id & U64_MAX, low, high)

    def arrived_at(self, index: int) -> Millis:
        """When the entry came to this region, by its clock; 0 if that is not known."""
        at = bisect_right(self.arrivals[::2], self.n[index])
        return Millis(self.arrivals[2 * at - 1]) if at else Millis(0)

    @property
    def has_idempotent(self) -> bool:
        """Whether an entry may have an idempotent id."""
        return self.idempotent is not None or self.numbered is not None

    def idempotent_at(self, index: int) -> IdempotentId | None:
        n = self.n[index]
        if self.numbered is not None:
            at = bisect_right(self.numbered, n, key=itemgetter(0)) - 1
            if at >= 0:
                first_n, count, first = self.numbered[at]
                if n < first_n + count:
                    return first.name(n - first_n)
        return None if self.idempotent is None else self.idempotent.get(n)

    def remove(self, start: int, stop: int) -> None:
        """Remove the entries of a slice; the fields' bytes go once half of them are holes."""
        if stop == len(self):
            self.highest_removed_id = self.highest_id
        if self.idempotent is not None:
            for n in self.n[start:stop]:
                self.idempotent.pop(n, None)
        del self.ms[start:stop], self.seq[start:stop], self.n[start:stop]
        del self.starts[start:stop], self.lengths[start:stop]
        if 2 * sum(self.lengths) < len(self.fields):
            self._compact()

    def live_fields(self) -> bytes | bytearray:
        """The fields of all entries without holes, in order."""
        if sum(self.lengths) == len(self.fields):
            return self.fields
        return b"".join(map(self.fields_at, range(len(self))))

    def _compact(self) -> None:
        self.fields = bytearray(self.live_fields())
        end = 0
        for index, length in enumerate(self.lengths):
            self.starts[index] = end
            end += length


# An entry: its ID, its lane, its macro node and where it stands there.
Found: TypeAlias = tuple[StreamId, RegionId, MacroNode, int]


class Lane:
    """The entries of one origin region in one stream.

    Attributes:
        region: the origin.
        length: live entries.
        entries_added: entries ever appended since the lane began; local, for XINFO.
        max_deleted_id: the greatest ID removed by XDEL; local, for XINFO.
    """

    __slots__ = (
        "_limits",
        "_rax",
        "entries_added",
        "head",
        "length",
        "max_deleted_id",
        "region",
        "tail",
    )

    def __init__(self, region: RegionId, limits: NodeLimits) -> None:
        self.region = region
        self._limits = limits
        self._rax: Rax[MacroNode] = Rax()
        self.head: MacroNode | None = None
        self.tail: MacroNode | None = None
        self.length = 0
        self.entries_added = 0
        self.max_deleted_id = ID_MIN

    @property
    def first_id(self) -> StreamId:
        """The lowest ID, 0-0 in an empty lane."""
        return self.head.first_id if self.head is not None else ID_MIN

    @property
    def last_id(self) -> StreamId:
        """The highest ID, 0-0 in an empty lane."""
        return self.tail.last_id if self.tail is not None else ID_MIN

    @property
    def macro_node_count(self) -> int:
        return len(self._rax)

    @property
    def rax_node_count(self) -> int:
        return self._rax.node_count

    # --- Adding -------------------------------------------------------------------------------

    def append(self, entry_id: StreamId, n: int, fields: bytes, now: Millis) -> None:
        """Add an entry above all others.  O(1) but for a new macro node once in a while."""
        node = self.tail
        if node is None or not self._has_room(node, len(fields)):
            node = self._open_node(entry_id)
        node.ms.append(entry_id >> SEQ_BITS)
        node.seq.append(entry_id & U64_MAX)
        node.n.append(n)
        node.starts.append(len(node.fields))
        node.lengths.append(len(fields))
        node.fields += fields
        node.added += 1
        if not node.arrivals or node.arrivals[-1] != now:
            node.arrivals.append(n)
            node.arrivals.append(now)
        self.length += 1
        self.entries_added += 1

    def extend(
        self,
        *,
        ms: "array[int]",
        seq: "array[int]",
        lengths: "array[int]",
        first_n: int,
        fields: memoryview,
        now: Millis,
    ) -> None:
        """Add a run of entries with consecutive dot numbers, column by column.

        The IDs must ascend and lie above the lane's last one (:func:`ascends` tells).
        """
        assert ms
        assert (ms[0] << SEQ_BITS | seq[0]) > self.last_id or not self.length  # I5
        at = 0
        offset = 0
        count = len(ms)
        while at < count:
            node = self.tail
            if node is None or not self._has_room(node, lengths[at]):
                node = self._open_node(StreamId(ms[at] << SEQ_BITS | seq[at]))
            # As many as fit: by number at once, by bytes one after the other.
            stop = count
            if self._limits.entries_max:
                stop = min(stop, at + self._limits.entries_max - node.added)
            bytes_max = self._limits.bytes_max or U64_MAX
            start = end = len(node.fields)
            taken = at
            while taken < stop and (end + lengths[taken] <= bytes_max or taken == at):
                node.starts.append(end)
                end += lengths[taken]
                taken += 1
            node.ms += ms[at:taken]
            node.seq += seq[at:taken]
            node.n.extend(range(first_n + at, first_n + taken))
            node.lengths += lengths[at:taken]
            node.fields += fields[offset : offset + end - start]
            node.added += taken - at
            if not node.arrivals or node.arrivals[-1] != now:
                node.arrivals.append(first_n + at)
                node.arrivals.append(now)
            offset += end - start
            at = taken
        self.length += count
        self.entries_added += count

    def mark_idempotent(self, entry_id: StreamId, n: int, idempotent: IdempotentId) -> None:
        """Say of an entry, just added, what its producer calls it."""
        found = self.find(entry_id)
        assert found is not None
        node = found[0]
        if node.idempotent is None:
            node.idempotent = {}
        node.idempotent[n] = idempotent

    def mark_numbered(self, first_n: int, count: int, first: Numbered) -> None:
        """Say of entries, just added, with consecutive dots, which rows of a producer they are."""
        within = Within(first_n - 1, first_n + count - 1)
        for node, start, stop in self.slices(within, entries_max=count):
            if node.numbered is None:
                node.numbered = []
            n = node.n[start]
            node.numbered.append((n, stop - start, first.behind(n - first_n)))

    def remove_dots(self, first_n: int, count: int) -> list[StreamId]:
        """Remove the entries with these dot numbers that are there; tell which."""
        within = Within(first_n - 1, first_n + count - 1)
        removed: list[StreamId] = []
        for node, start, stop in self.slices(within, entries_max=count):
            removed += map(node.id_at, range(start, stop))
            node.remove(start, stop)
            if not node:
                self._unlink(node)
        self.length -= len(removed)
        return removed

    def _has_room(self, node: MacroNode, more_bytes: int) -> bool:
        limits = self._limits
        if limits.entries_max and node.added >= limits.entries_max:
            return False
        return not limits.bytes_max or len(node.fields) + more_bytes <= limits.bytes_max

    def _open_node(self, entry_id: StreamId) -> MacroNode:
        node = MacroNode(entry_id.to_bytes(KEY_BYTES, "big"))
        if self.tail is None:
            self.head = node
        else:
            self.tail.next = node
            node.prev = self.tail
        self.tail = node
        self._rax.insert(node.key, node)
        return node

    # --- Removing -----------------------------------------------------------------------------

    def remove(self, entry_id: StreamId, *, n_max: int) -> int:
        """Remove an entry if it is there and its dot number is at most ``n_max``.

        Returns:
            Its dot number, 0 if nothing was removed.
        """
        found = self.find(entry_id)
        if found is None:
            return 0
        node, index = found
        n = node.n[index]
        if n > n_max:
            return 0
        node.remove(index, index + 1)
        self.length -= 1
        if not node:
            self._unlink(node)
        return n

    def remove_prefix(self, *, up_to: StreamId, n_max: int) -> int:
        """Remove the entries up to an ID whose dot numbers are at most ``n_max``.

        O(macro nodes that go), each at once; the one in which the prefix ends is cut.

        Returns:
            The highest dot number that went, 0 if none did.
        """
        highest_n = 0
        while (node := self.head) is not None:
            if node.n[-1] <= n_max and node.last_id <= up_to:
                highest_n = node.n[-1]
                self.length -= len(node)
                self._unlink(node)
                continue
            stop = min(bisect_right(node.n, n_max), node.index_from(StreamId(up_to + 1)))
            if stop:
                highest_n = node.n[stop - 1]
                self.length -= stop
                node.remove(0, stop)
            break
        return highest_n

    def _unlink(self, node: MacroNode) -> None:
        """Take out a macro node that is empty, or is to be (I6)."""
        if node.prev is None:
            self.head = node.next
        else:
            node.prev.next = node.next
        if node.next is None:
            self.tail = node.prev
        else:
            node.next.prev = node.prev
        self._rax.remove(node.key)

    # --- Reading ------------------------------------------------------------------------------

    def find(self, entry_id: StreamId) -> tuple[MacroNode, int] | None:
        """Macro node and index of an entry.  O(log n)."""
        node = self._floor(entry_id)
        if node is None:
            return None
        index = node.index_from(entry_id)
        if index == len(node) or node.id_at(index) != entry_id:
            return None
        return node, index

    def predecessor(self, entry_id: StreamId) -> StreamId:
        """The greatest ID below the given one, 0-0 if there is none.  O(log n)."""
        for found, _, _ in self.scan_back(ID_MIN, StreamId(entry_id - 1)):
            return found
        return ID_MIN

    def last_n_below(self, entry_id: StreamId) -> int:
        """The dot number of the last entry whose ID is lower, 0 if there is none.  O(log n)."""
        for _, node, index in self.scan_back(ID_MIN, StreamId(entry_id - 1)):
            return node.n[index]
        return 0

    def last_n_before(self, arrived: Millis) -> int:
        """A dot number up to which all came here before a time, and nothing beyond it; 0: nothing
        did.

        Cost: O(log n).  Arrivals never go back in a lane.
        """
        node = self._rax.last_where(lambda node: node.arrivals[1] < arrived)
        if node is None:
            return 0
        earlier = bisect_left(node.arrivals[1::2], arrived)
        if 2 * earlier == len(node.arrivals):
            return node.n[-1]
        return node.arrivals[2 * earlier] - 1

    def count_above(self, entry_id: StreamId) -> int:
        """How many entries have a greater ID.

        O(log n + macro nodes before or behind it, whichever are fewer).
        """
        node = self._floor(entry_id)
        if node is None:
            return self.length
        upto = node.index_from(StreamId(entry_id + 1))
        before, behind = upto, len(node) - upto
        left, right = node.prev, node.next
        # From the node outwards on both sides: the nearer end tells what lies on the other side.
        while left is not None and right is not None:
            before += len(left)
            behind += len(right)
            left, right = left.prev, right.next
        return behind if right is None else self.length - before

    def scan(self, start: StreamId, end: StreamId) -> Iterator[tuple[StreamId, MacroNode, int]]:
        """Entries from ``start`` to ``end``, both included, ascending.  O(log n) to begin.

        The lane must not change until the last one is taken.
        """
        node = self._floor(start) or self.head
        if node is None:
            return
        first = node.index_from(start)
        while node is not None:
            stop = len(node)
            if stop and node.last_id > end:
                stop = node.index_from(StreamId(end + 1))
            for index in range(first, stop):
                yield StreamId(node.ms[index] << SEQ_BITS | node.seq[index]), node, index
            if stop < len(node):
                return
            node = node.next
            first = 0

    def scan_dots(self, above_n: int) -> Iterator[tuple[StreamId, MacroNode, int]]:
        """Entries whose dot numbers are above the given one, ascending.  O(log n) to begin."""
        node = self._rax.last_where(lambda node: node.n[0] <= above_n) or self.head
        first = 0 if node is None else bisect_right(node.n, above_n)
        while node is not None:
            for index in range(first, len(node)):
                yield StreamId(node.ms[index] << SEQ_BITS | node.seq[index]), node, index
            node = node.next
            first = 0

    def slices(
        self,
        within: Within,
        *,
        entries_max: int,
        bytes_max: int = U64_MAX,
        nodes_max: int = U64_MAX,
    ) -> list[Slice]:
        """The first entries within the bounds, as slices of macro nodes, none of them empty.

        At most ``entries_max`` entries of ``nodes_max`` macro nodes and ``bytes_max`` bytes of
        fields, but at least one entry if there is any.  To go on, ask for what is above the last
        one's dot number.
        O(log n + macro nodes).
        """
        node = self._first_node(within)
        slices: list[Slice] = []
        entries_left, bytes_left = entries_max, bytes_max
        while node is not None and entries_left and len(slices) < nodes_max:
            first, stop = _bounds(node, within)
            is_last = stop < len(node)
            stop = min(stop, first + entries_left)
            size = 0 if bytes_max == U64_MAX else sum(node.lengths[first:stop])
            if size > bytes_left:
                stop = bisect_right(list(accumulate(node.lengths[first:stop])), bytes_left) + first
                if not slices:
                    stop = max(stop, first + 1)
                is_last = True
            if first < stop:
                slices.append(Slice(node, first, stop))
            if is_last:
                break
            entries_left -= max(0, stop - first)
            bytes_left -= size
            node = node.next
        return slices

    def _first_node(self, within: Within) -> MacroNode | None:
        """The macro node in which the stretch begins, if there is one; or one before it."""
        by_dot = self._rax.last_where(lambda node: node.n[0] <= within.above_n) or self.head
        if by_dot is None or within.start <= by_dot.first_id:
            return by_dot
        by_id = self._floor(within.start)
        return by_dot if by_id is None or by_id.key < by_dot.key else by_id

    def scan_back(
        self, start: StreamId, end: StreamId
    ) -> Iterator[tuple[StreamId, MacroNode, int]]:
        """As :meth:`scan`, descending from ``end`` to ``start``."""
        node = self._floor(end)
        if node is None:
            return
        stop = node.index_from(StreamId(end + 1))
        while node is not None:
            for index in range(stop - 1, -1, -1):
                entry_id = StreamId(node.ms[index] << SEQ_BITS | node.seq[index])
                if entry_id < start:
                    return
                yield entry_id, node, index
            node = node.prev
            stop = 0 if node is None else len(node)

    def macro_nodes(self) -> Iterator[MacroNode]:
        node = self.head
        while node is not None:
            yield node
            node = node.next

    def _floor(self, entry_id: StreamId) -> MacroNode | None:
        """The macro node in which the ID is, if it is anywhere."""
        tail = self.tail
        # Most look-ups are for what came last.
        if tail is not None and entry_id >= tail.first_id:
            return tail
        return self._rax.floor(entry_id.to_bytes(KEY_BYTES, "big"))


def _bounds(node: MacroNode, within: Within) -> tuple[int, int]:
    """Where in a macro node the entries within the bounds begin, and where they end."""
    first, stop = 0, len(node)
    if node.n[0] <= within.above_n:
        first = bisect_right(node.n, within.above_n)
    if node.first_id < within.start:
        first = max(first, node.index_from(within.start))
    if node.n[-1] > within.upto_n:
        stop = bisect_right(node.n, within.upto_n)
    if node.last_id > within.end:
        stop = min(stop, node.index_from(StreamId(within.end + 1)))
    return first, stop


def ascends(ms: "array[int]", seq: "array[int]", *, above: StreamId) -> bool:
    """Whether the IDs ascend strictly and all lie above the given one."""
    if not ms:
        return True
    if (ms[0] << SEQ_BITS | seq[0]) <= above:
        return False
    if all(map(operator.lt, ms, islice(ms, 1, None))):
        return True
    halves = list(zip(ms, seq, strict=True))
    return all(map(operator.lt, halves, islice(halves, 1, None)))
