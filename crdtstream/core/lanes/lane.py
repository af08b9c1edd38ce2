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
  * No macro node is empty; they are chained in this order (``chain.py``).
  * Entries are appended only to a node that was opened since the last cut.  So an append changes
    nothing that a cut still has to write, and need not be noted.

A closed node may be packed, or on disk only (``macro_node.py``).  A walk of a lane asks nodes for
what is known of them without their entries, as long as that is enough.  What changes a lane either
needs no entry that is on disk, or raises ``ColdError`` before it has changed anything;
``needs_for_…`` say beforehand which images have to be fetched.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.id_columns import FEW, IdColumns, Ids, those_at
from crdtstream.core.ids import (
    ID_MAX,
    ID_MIN,
    SEQ_BITS,
    U64_MAX,
    Millis,
    RegionId,
    StreamId,
)
from crdtstream.core.lanes.chain import NodeChain
from crdtstream.core.lanes.columns import NEVER_GROWS
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import CLOSED, MacroNode
from crdtstream.core.lanes.rax import KEY_BYTES
from crdtstream.core.lanes.slices import Slice, Within, bounds_in, bytes_of, prefix_of
from crdtstream.core.ranges import Ranges
from crdtstream.core.size import Size

# What looking up one ID costs, in entries of a macro node that are put into a table.
TABLE_ENTRIES_MIN: Final = Size(16, least=0)
# Cost of cutting out one entry, in entries whose columns are made again.
ROW_ENTRIES: Final = Size(32, least=1)


class Removed(NamedTuple):
    """The last entry that was removed, 0-0 and 0 if none was: its ID and its dot number."""

    id: StreamId
    n: int


NOTHING_REMOVED: Final = Removed(ID_MIN, 0)


@dataclass(slots=True, init=False)
class LastId:
    """A last-ID register: the ID that one origin appended or set last, and the dot of doing so."""

    id: StreamId
    n: int

    def __init__(self, id: StreamId, n: int) -> None:  # noqa: A002 - the name of the attribute
        self.id = id
        self.n = n


class Lane(NodeChain):
    """The entries of one origin region in one stream.

    Attributes:
        entries_added: entries ever appended since the lane began; local, for XINFO.
        max_deleted_id: the greatest ID removed by XDEL; local, for XINFO.
    """

    __slots__ = ("_found_at", "entries_added", "max_deleted_id")

    def __init__(self, region: RegionId, limits: NodeLimits, owner: int = 0) -> None:
        super().__init__(region, limits, owner)
        self.entries_added = 0
        self.max_deleted_id = ID_MIN
        # The index in its node that a look-up found last; before use, the entry there is checked.
        self._found_at = 0

    @property
    def first_id(self) -> StreamId:
        """The lowest ID, 0-0 in an empty lane."""
        return self.head.first_id if self.head is not None else ID_MIN

    @property
    def last_id(self) -> StreamId:
        """The highest ID, 0-0 in an empty lane."""
        return self.tail.last_id if self.tail is not None else ID_MIN

    # --- Adding -------------------------------------------------------------------------------

    def append(self, entry_id: StreamId, n: int, fields: bytes, now: Millis) -> None:
        """Add an entry above all others.  O(1) except for a new macro node once in a while."""
        self.append_halves(entry_id >> SEQ_BITS, entry_id & U64_MAX, n, fields, now)

    def append_halves(self, ms: int, seq: int, n: int, fields: bytes, now: Millis) -> None:
        """As ``append``, under the ID that has these halves."""
        node = self.tail
        length = len(fields)
        limits = self.limits
        columns = None
        # As ``_has_room`` asks, whose call takes as long.
        if (
            node is None
            or node.open_in != limits.changes.cut_number
            or (node.added >= limits.entries_max > 0)
            or (columns := node.here) is None
            or (len(columns.fields) + length > limits.bytes_max > 0)
        ):
            node = self._open_node(StreamId(ms << SEQ_BITS | seq))
            columns = node.columns
        column = columns.fields
        columns.ms.append(ms)
        columns.seq.append(seq)
        columns.growing_n.append(n)
        columns.starts.append(len(column))
        columns.lengths.append(length)
        column += fields
        node.added += 1
        arrivals = columns.arrivals
        if not arrivals or arrivals[-1] != now:
            arrivals.append(n)
            arrivals.append(now)
        self.length += 1
        self.entries_added += 1

    def extend(self, run: EntryRun, *, first_n: int, now: Millis) -> None:
        """Add a run of entries with consecutive dot numbers.

        The IDs must ascend and lie above the lane's last one (see :func:`ascends`).
        """
        ms, seq, lengths = run.ms, run.seq, run.lengths
        # Its pieces are not copied before they are added.
        fields = memoryview(run.fields)
        assert ms
        assert (ms[0] << SEQ_BITS | seq[0]) > self.last_id or not self.length  # I5
        assert self.tail is None or first_n > self.tail.last_n  # I5
        assert len(ms) == len(seq) == len(lengths)
        at = 0
        count = len(ms)
        entries_max = self.limits.entries_max or U64_MAX
        bytes_max = self.limits.bytes_max or U64_MAX
        # Where in `fields` each entry begins; the last number is where all end.
        offsets = list(accumulate(lengths, initial=0))
        assert offsets[-1] == len(fields), "lengths are of other fields"
        while at < count:
            node = self.tail
            if node is None or not self._has_room(node, lengths[at]):
                node = self._open_node(StreamId(ms[at] << SEQ_BITS | seq[at]))
            # As many as fit; one at least, which may be larger than a node.
            columns = node.columns
            shift = len(columns.fields) - offsets[at]
            stop = min(count, at + entries_max - node.added)
            if offsets[stop] + shift > bytes_max:
                stop = max(at + 1, bisect_right(offsets, bytes_max - shift, at, stop) - 1)
            own = lengths[at:stop]
            # As a list, which a column takes over faster than any other series.
            columns.starts.fromlist(list(accumulate(own[:-1], initial=len(columns.fields))))
            ns = range(first_n + at, first_n + stop)
            if stop < count and not node.added:
                # Nothing comes into it after these: its numbers are as those of a closed node.
                columns.ms, columns.seq, columns.lengths = ms[at:stop], seq[at:stop], own
                columns.n, columns.growing_n = ns, NEVER_GROWS
            else:
                columns.ms += ms[at:stop]
                columns.seq += seq[at:stop]
                columns.lengths += own
                columns.growing_n.extend(ns)
            columns.fields += fields[offsets[at] : offsets[stop]]
            node.added += stop - at
            arrivals = columns.arrivals
            if not arrivals or arrivals[-1] != now:
                arrivals.append(first_n + at)
                arrivals.append(now)
            self.length += stop - at
            at = stop
        self.entries_added += count

    def mark_idempotent(self, entry_id: StreamId, n: int, idempotent: IdempotentId) -> None:
        """Say of an entry, just added, what its producer calls it."""
        found = self.find(entry_id)
        assert found is not None
        node = found[0]
        assert node.n[found[1]] == n, "another entry has this ID"
        self._note(node)
        node.digest = None
        columns = node.columns
        if columns.idempotent is None:
            columns.idempotent = {}
        columns.idempotent[n] = idempotent

    def mark_numbered(self, first_n: int, count: int, first: Numbered) -> None:
        """Say of entries, just added, with consecutive dots, which rows of a producer they are."""
        within = Within(first_n - 1, first_n + count - 1)
        slices = self.slices(within, entries_max=count)
        assert sum(stop - start for _, start, stop in slices) == count, "they were just added"
        for node, start, stop in slices:
            self._note(node)
            node.digest = None
            columns = node.columns
            if columns.numbered is None:
                columns.numbered = []
            n = columns.n[start]
            columns.numbered.append((n, stop - start, first.behind(n - first_n)))

    def remove_dots(self, first_n: int, count: int) -> list[StreamId]:
        """Remove the entries with these dot numbers, if they are here; return which were."""
        within = Within(first_n - 1, first_n + count - 1)
        self.limits.residency.demand(self.needs_for_dots(first_n, count))
        removed: list[StreamId] = []
        slices = self.slices(within, entries_max=count)
        # All IDs first, which reads what is cold: the first removal must not be followed by an
        # error.
        for node, start, stop in slices:
            removed += map(node.id_at, range(start, stop))
        for node, start, stop in slices:
            self._cut_out(node, start, stop)
        assert len(removed) <= count
        return removed

    def remove_ranges(self, gone: Ranges[int]) -> None:
        """Remove the entries whose dot numbers are in these ranges.

        Macro nodes all of whose entries are removed are not read.

        Raises:
            UnreadableError: one that is cut was to be read in place, and cannot be.  Nothing has
                changed then.

        Cost: O(macro nodes + ranges), and a comparison for each entry of those that are cut.
        """
        cuts: list[tuple[MacroNode, list[int]]] = []
        for node in self.macro_nodes():
            rows: list[int] = []
            for start, stop in gone.within(node.first_n, node.last_n + 1):
                if start <= node.first_n and node.last_n < stop:
                    # All of it: that is known without reading it.
                    cuts.append((node, rows))
                    break
                rows += range(node.index_above(start - 1), node.index_above(stop - 1))
            if rows:
                cuts.append((node, rows))
        for node, rows in cuts:
            if len(rows) in (0, len(node)):
                self._cut_out(node, 0, len(node))
            else:
                self._remove_of(node, rows, U64_MAX)

    def _has_room(self, node: MacroNode, more_bytes: int) -> bool:
        limits = self.limits
        if node.open_in != limits.changes.cut_number:
            return False
        entries_max, bytes_max = limits.entries_max, limits.bytes_max
        if entries_max and node.added >= entries_max:
            return False
        return not bytes_max or len((node.here or node.columns).fields) + more_bytes <= bytes_max

    def _open_node(self, entry_id: StreamId) -> MacroNode:
        limits = self.limits
        assert self.tail is None or self.tail.last_id < entry_id  # I5
        node = MacroNode.opened(
            entry_id.to_bytes(KEY_BYTES, "big"), self, limits.changes.cut_number
        )
        self._close_tail()
        self._link(node)
        limits.residency.note_opened(node)
        limits.changes.note(node)
        return node

    def _close_tail(self) -> None:
        tail = self.tail
        if tail is not None:
            tail.open_in = CLOSED
            self.limits.small[tail] = None
            self.limits.residency.note_closed(tail)

    def restore(self, heads: Iterable[tuple[int, bytes]]) -> None:
        """Take over the macro nodes that a checkpoint has of this lane, which must be empty.

        They come as image numbers and heads, in any order.  They are on disk only from then on.

        Raises:
            ValueError: a head is none, or they are not those of one lane.
        """
        assert self.head is None
        nodes = [MacroNode.restored(image, head, self) for image, head in heads]
        nodes.sort(key=lambda node: node.key)
        for node in nodes:
            last = self.tail
            if last is not None and not (last.last_id < node.key_id and last.last_n < node.first_n):
                raise ValueError(
                    f"macro nodes {last.image} and {node.image} of lane {self.region} overlap: "
                    f"IDs up to {last.last_id} and from {node.key_id}, "
                    f"dot numbers up to {last.last_n} and from {node.first_n}"
                )
            self._link(node)
            self.limits.residency.measure(node)
            self.length += len(node)

    def take_over(self, node: MacroNode) -> None:
        """Append a macro node of another region's state, which no lane has, behind all others."""
        last = self.tail
        assert last is None or (last.last_id < node.key_id and last.last_n < node.first_n)  # I5
        limits = self.limits
        self._close_tail()
        self._link(node)
        limits.residency.measure(node)
        limits.changes.note(node)
        assert len(node), "no macro node is empty"  # I6
        self.length += len(node)

    # --- Removing -----------------------------------------------------------------------------

    def remove(self, entry_id: StreamId, *, n_max: int) -> int:
        """Remove an entry if it is here and its dot number is at most ``n_max``.

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
        self._cut_out(node, index, index + 1)
        return n

    def remove_all(self, ids: Ids, *, n_max: int) -> Removed:
        """Remove those of the entries that are here and whose dot numbers are at most ``n_max``.

        Args:
            ids: ascending, each once.

        Cost: O(log n) for each row of neighbours among them in one macro node, and a comparison for
        each ID.
        """
        last = NOTHING_REMOVED
        if isinstance(ids, IdColumns) and len(ids) >= FEW.value:
            for at, stop, node in self._by_node(ids):
                if stop - at > 1:
                    last = self._remove_of(node, _places(node, ids, at, stop), n_max) or last
                    continue
                # Of IDs at random most nodes have one.
                row = _place(node, ids.ms[at], ids.seq[at])
                if row >= 0 and (n := node.n[row]) <= n_max:
                    last = Removed(StreamId(ids.ms[at] << SEQ_BITS | ids.seq[at]), n)
                    self._cut_out(node, row, row + 1)
            return last
        at = 0
        while at < len(ids):
            found = self.find(ids[at])
            if found is None:
                at += 1
                continue
            node, index = found
            columns = node.columns
            stop = index + columns.matching(index, ids, at)
            at += stop - index
            if columns.n[stop - 1] > n_max:
                stop = max(index, min(stop, node.index_above(n_max)))
            if index < stop:
                last = Removed(columns.id_at(stop - 1), columns.n[stop - 1])
                self._cut_out(node, index, stop)
        return last

    def _remove_of(self, node: MacroNode, rows: Sequence[int], n_max: int) -> Removed | None:
        """Remove entries of a macro node, ascending, -1 for none, if their dot numbers are at most
        ``n_max``; the last that was removed."""
        columns = node.here or node.columns
        n = columns.n
        if not isinstance(rows, range) or n[rows[-1]] > n_max:
            rows = [row for row in rows if row >= 0 and n[row] <= n_max]
        if not rows:
            return None
        row = rows[-1]
        last = Removed(StreamId(columns.ms[row] << SEQ_BITS | columns.seq[row]), n[row])
        if rows[-1] - rows[0] + 1 == len(rows):
            self._cut_out(node, rows[0], rows[-1] + 1)
        elif ROW_ENTRIES.value * len(rows) < len(columns.ms):
            for row in reversed(rows):
                self._cut_out(node, row, row + 1)
        else:
            self.length -= len(rows)
            assert self.length > 0, "some of the node stays"
            self._count_less(node, len(rows))
            self._note(node)
            node.remove_rows(rows)
        return last

    def _by_node(self, ids: IdColumns) -> list[tuple[int, int, MacroNode]]:
        """IDs that ascend, by the macro node in which they are if they are here.

        Of one node entries may be removed before the next is looked at.

        Returns:
            Which of the IDs is the first that may be in the node, behind which is the last, and the
            node.
        """
        found: list[tuple[int, int, MacroNode]] = []
        ms, seq, count = ids.ms, ids.seq, len(ids.ms)
        at = 0
        while at < count:
            node = self._floor(StreamId(ms[at] << SEQ_BITS | seq[at]))
            if node is None:
                if self.head is None:
                    break
                # Below all others.
                at = ids.index_from(self.head.key_id, at)
                continue
            after = node.next
            if after is None:
                stop = count
            else:
                end, stop = after.key_id, at + 1
                # Of IDs at random the next one is in another node: that takes no search.
                if stop < count and (ms[stop] << SEQ_BITS | seq[stop]) < end:
                    stop = ids.index_from(end, stop)
            low, high = at, stop
            if node.here is None:
                # An entry outside its ends is not in it: that is known without reading it.
                low = ids.index_from(node.first_id, at)
                high = ids.index_from(StreamId(node.last_id + 1), at)
            if low < high:
                node.used = True
                found.append((low, high, node))
            at = stop
        return found

    def remove_prefix(self, *, up_to: StreamId, n_max: int) -> int:
        """Remove the entries up to an ID whose dot numbers are at most ``n_max``.

        O(macro nodes removed), each at once; the one in which the prefix ends is cut.

        Returns:
            The highest dot number that was removed, 0 if none was.
        """
        if self.limits.residency.cold_count:
            for cut in self._cut_by(up_to=up_to, n_max=n_max):
                cut.warm()
        tail = self.tail
        # The ID first: it is usually enough.
        if tail is not None and tail.last_id <= up_to and tail.last_n <= n_max:
            return self.clear()
        highest_n = 0
        while (node := self.head) is not None:
            if node.last_id <= up_to and (last_n := node.last_n) <= n_max:
                highest_n = last_n
                count = len(node)
                self.length -= count
                self._count_less(node, count)
                self._unlink(node)
                continue
            stop = prefix_of(node, up_to=up_to, n_max=n_max)
            if stop:
                highest_n = node.n[stop - 1]
                self._cut_out(node, 0, stop)
            break
        assert highest_n <= n_max, "what the remover had not observed is gone"
        assert self.head is not None or not self.length
        return highest_n

    def _cut_out(self, node: MacroNode, start: int, stop: int) -> None:
        """Remove the entries of a slice."""
        count = len(node)
        assert 0 <= start < stop <= count
        assert stop - start <= self.length, "a lane loses more than it has"
        self.length -= stop - start
        self._count_less(node, stop - start)
        if stop - start == count:
            # What a cut still needs of it stays as it is.
            self._unlink(node)
        else:
            self._note(node)
            node.remove(start, stop)

    # --- What is to be there before a change --------------------------------------------------

    def needs_for_remove(self, ids: Ids) -> list[int]:
        """Images that :meth:`remove` of these IDs needs and that are on disk only."""
        if not self.limits.residency.absent_count:
            return []
        return self._wanted(self._nodes_of(ids))

    def cold_nodes_of(self, ids: Ids) -> list[MacroNode]:
        """Nodes, packed or on disk only, in which entries with these IDs may be."""
        if not self.limits.residency.cold_count:
            return []
        return [node for node in self._nodes_of(ids) if node.here is None]

    def _nodes_of(self, ids: Ids) -> dict[MacroNode, None]:
        return dict.fromkeys(
            node
            for entry_id in ids
            if (node := self._floor(entry_id)) is not None
            and node.first_id <= entry_id <= node.last_id
        )

    def needs_for_prefix(self, *, up_to: StreamId, n_max: int) -> list[int]:
        """Images that :meth:`remove_prefix` needs and that are on disk only: one at most."""
        return self._wanted(self._cut_by(up_to=up_to, n_max=n_max))

    def needs_for_dots(self, first_n: int, count: int) -> list[int]:
        """Images that :meth:`remove_dots` needs and that are on disk only."""
        if not self.limits.residency.absent_count:
            return []
        return self._wanted(self.nodes_within(Within(first_n - 1, first_n + count - 1)))

    def _wanted(self, nodes: Iterable[MacroNode]) -> list[int]:
        want = self.limits.residency.want
        return [want(node) for node in nodes if node.is_absent]

    # --- Reading ------------------------------------------------------------------------------

    def find(self, entry_id: StreamId) -> tuple[MacroNode, int] | None:
        """Macro node and index of an entry.  O(log n)."""
        node = self._floor(entry_id)
        if node is None:
            return None
        node.used = True
        columns, index = node.here, self._found_at
        if (
            columns is not None
            and index < len(columns.ms)
            and columns.seq[index] == entry_id & U64_MAX
            and columns.ms[index] == entry_id >> SEQ_BITS
        ):
            # Where the last look-up ended: a command looks for what it then changes, and deleting
            # one by one finds the next entry where the last one was.
            return node, index
        if columns is None and entry_id < node.first_id:
            # It was in front of what is left of the node, which need not be read for that.
            return None
        index = node.index_from(entry_id)
        if index == len(node):
            return None
        columns = node.here or node.columns
        if (columns.ms[index] << SEQ_BITS | columns.seq[index]) != entry_id:
            return None
        self._found_at = index
        return node, index

    def among(self, ids: Ids) -> Ids:
        """The ones of ascending IDs that are here; usually all, and then the very same object."""
        if len(ids) == 1:
            return ids if self.find(ids[0]) is not None else ids[:0]
        if isinstance(ids, IdColumns) and len(ids) >= FEW.value:
            mask = bytearray(len(ids))
            for at, stop, node in self._by_node(ids):
                if stop - at > 1:
                    mask[at:stop] = bytes(map((0).__le__, _places(node, ids, at, stop)))
                else:
                    mask[at] = _place(node, ids.ms[at], ids.seq[at]) >= 0
            return ids.selected(mask)
        rows: list[tuple[int, int]] = []
        at = 0
        while at < len(ids):
            found = self.find(ids[at])
            count = 1 if found is None else found[0].columns.matching(found[1], ids, at)
            if found is not None:
                rows.append((at, count))
            at += count
        return those_at(ids, rows)

    def rows_of(self, ids: IdColumns) -> Iterator[tuple[MacroNode, Sequence[int]]]:
        """Indexes, by macro node, of ascending IDs that are all here."""
        for at, stop, node in self._by_node(ids):
            yield node, _places(node, ids, at, stop)

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
        node = self._last_where(lambda node: node.first_arrival < arrived)
        if node is None:
            return 0
        if node.last_arrival < arrived:
            return node.last_n
        earlier = bisect_left(node.arrivals[1::2], arrived)
        if 2 * earlier == len(node.arrivals):
            return node.n[-1]
        return node.arrivals[2 * earlier] - 1

    def scan(self, start: StreamId, end: StreamId) -> Iterator[tuple[StreamId, MacroNode, int]]:
        """Entries from ``start`` to ``end``, both included, ascending.  O(log n) to begin.

        The lane must not change until the last one is taken.
        """
        for node, first, stop in self.scan_nodes(start, end):
            columns = node.columns
            for index in range(first, stop):
                yield StreamId(columns.ms[index] << SEQ_BITS | columns.seq[index]), node, index

    def scan_nodes(self, start: StreamId, end: StreamId) -> Iterator[Slice]:
        """As :meth:`scan`, a macro node at a time; no slice is empty."""
        node = self._floor(start)
        if node is None:
            node = self.head
        if node is None:
            return
        first = node.index_from(start)
        while node is not None:
            node.used = True
            stop = len(node)
            if end < ID_MAX and node.last_id > end:
                stop = node.index_from(StreamId(end + 1))
            if first < stop:
                yield node, first, stop
            if stop < len(node):
                return
            node = node.next
            first = 0

    def scan_dots(self, above_n: int) -> Iterator[tuple[StreamId, MacroNode, int]]:
        """Entries whose dot numbers are above the given one, ascending.  O(log n) to begin."""
        node = self._last_where(lambda node: node.first_n <= above_n) or self.head
        first = 0 if node is None else node.index_above(above_n)
        while node is not None:
            node.used = True
            stop = len(node)
            if first < stop:
                columns = node.columns
                for index in range(first, stop):
                    yield StreamId(columns.ms[index] << SEQ_BITS | columns.seq[index]), node, index
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
        fields, but at least one entry if there is any; fewer where a cold macro node would be
        read for a part of it.  To go on, ask for what is above the last
        one's dot number.
        O(log n + macro nodes).
        """
        node = self._first_node(within)
        slices: list[Slice] = []
        entries_left, bytes_left = entries_max, bytes_max
        while node is not None and entries_left and len(slices) < nodes_max:
            first, stop = bounds_in(node, within)
            is_last = stop < len(node)
            stop = min(stop, first + entries_left)
            if slices and node.cold is not None and node.fields_bytes > bytes_left:
                # It is not read for the few of its entries that would still fit, if any does.
                break
            size = 0 if bytes_max == U64_MAX else bytes_of(node, first, stop)
            if size > bytes_left:
                stop = bisect_right(list(accumulate(node.lengths[first:stop])), bytes_left) + first
                if not slices:
                    stop = max(stop, first + 1)
                is_last = True
            if first < stop:
                node.used = True
                slices.append((node, first, stop))
            if is_last:
                break
            entries_left -= max(0, stop - first)
            bytes_left -= size
            node = node.next
        return slices

    def scan_back(
        self, start: StreamId, end: StreamId
    ) -> Iterator[tuple[StreamId, MacroNode, int]]:
        """As :meth:`scan`, descending from ``end`` to ``start``."""
        node = self._floor(end)
        if node is None:
            return
        if node.cold is not None and node.first_id <= end < node.last_id:
            node.warm(back=True)
        stop = node.index_from(StreamId(end + 1))
        while node is not None:
            node.used = True
            if node.cold is not None:
                if node.last_id < start:
                    return
                node.warm(back=True)
            if stop:
                columns = node.columns
            for index in range(stop - 1, -1, -1):
                entry_id = StreamId(columns.ms[index] << SEQ_BITS | columns.seq[index])
                if entry_id < start:
                    return
                yield entry_id, node, index
            node = node.prev
            stop = 0 if node is None else len(node)


def _place(node: MacroNode, ms: int, seq: int) -> int:
    """Index in a macro node of the ID with these halves; -1 if it lacks it."""
    columns = node.here or node.columns
    low = bisect_left(columns.ms, ms)
    high = bisect_right(columns.ms, ms, low)
    index = bisect_left(columns.seq, seq, low, high)
    return index if index < high and columns.seq[index] == seq else -1


def _places(node: MacroNode, ids: IdColumns, at: int, stop: int) -> Sequence[int]:
    """Index in a macro node of some of the IDs, which ascend; -1 for one that it lacks."""
    columns = node.here or node.columns
    start = 0
    # Mostly whole nodes are removed, one after the other.
    if columns.seq[0] != ids.seq[at] or columns.ms[0] != ids.ms[at]:
        start = node.index_from(ids[at])
    held = len(columns.ms) - start
    # Also what begins here and goes on in the next node is no more than this node's end.
    if (
        stop - at <= held
        and columns.seq[start + stop - at - 1] == ids.seq[stop - 1]
        and columns.matching(start, ids, at) >= stop - at
    ):
        return range(start, start + stop - at)
    if TABLE_ENTRIES_MIN.value * (stop - at) < len(columns.ms):
        # Looking each up takes less than a table of all entries.
        return [_place(node, ids.ms[one], ids.seq[one]) for one in range(at, stop)]
    return columns.places(ids[at:stop])


def ascends(ms: "array[int]", seq: "array[int]", *, above: StreamId) -> bool:
    """True if the IDs ascend strictly and all lie above the given one."""
    if not ms:
        return True
    return (ms[0] << SEQ_BITS | seq[0]) > above and IdColumns(ms, seq).ascend()
