"""The macro nodes of a lane, in the order of their entries.

    rax       the first ID that a node ever held → the node: look-ups by ID and by dot number.
              There is none until a second node comes, and then it stays until ``clear``: where
              streams are many, most lanes have one node
    chain     head ⇄ … ⇄ tail: walking needs no tree, and the tail, where appends go, is reached
              at once
    segments  how many entries some 256 neighbours have together.  To count the entries behind a
              node, the nodes of its segment are walked, and the other segments' counts are added
              up.

Always so:
  * No macro node is empty.
  * Keys ascend along the chain, and the rax, if there is one, has exactly the nodes that are in it.
  * A node that was taken out has no neighbours, and no object that nodes are reported to
    (``limits.py``) knows it any more.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from crdtstream.core.ids import RegionId, StreamId
from crdtstream.core.lanes.header import Header
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.rax import KEY_BYTES, Rax
from crdtstream.core.lanes.slices import Within
from crdtstream.core.size import Size

# Macro nodes of a segment, whose entries are counted together.
SEGMENT_NODES: Final = Size(256, least=2)
# The segments of most lanes, which have none.  Nothing is ever added to them.
_NO_BOUNDS: Final[list[bytes]] = []
_NO_COUNTS: Final[list[int]] = []
# What Redis's rax takes for no key, and for one; as ``Rax.node_count`` has it.
_RAX_NODES_OF_NONE: Final = 1
_RAX_NODES_OF_ONE: Final = 2


class NodeChain:
    """The macro nodes of one lane; ``Lane`` adds what it does with their entries.

    A lane is a chain and does not have one: an object more for each lane would be one for each
    key, and one look-up more for each append.

    Attributes:
        region: the origin.
        owner: the number of its key.
        limits: how full nodes get, and what they are reported to.
        head, tail: the first macro node and the last one, None in an empty lane.
        length: live entries.
    """

    __slots__ = (
        "_bounds",
        "_counts",
        "_linked",
        "_near",
        "_rax",
        "head",
        "length",
        "limits",
        "owner",
        "region",
        "tail",
    )

    def __init__(self, region: RegionId, limits: NodeLimits, owner: int) -> None:
        self.region = region
        self.owner = owner
        self.limits = limits
        self._rax: Rax[MacroNode] | None = None
        # Segments: the keys at which all but the first begin, and how many entries all but the
        # last have; and the nodes that were put into the last one.
        self._bounds = _NO_BOUNDS
        self._counts = _NO_COUNTS
        self._linked = 0
        # Where the last look-up ended that went down the rax; it is in the lane.
        self._near: MacroNode | None = None
        self.head: MacroNode | None = None
        self.tail: MacroNode | None = None
        self.length = 0

    @property
    def cut_number(self) -> int:
        return self.limits.changes.cut_number

    @property
    def macro_node_count(self) -> int:
        if self._rax is not None:
            return len(self._rax)
        return 0 if self.head is None else 1

    @property
    def rax_node_count(self) -> int:
        if self._rax is not None:
            return self._rax.node_count
        return _RAX_NODES_OF_NONE if self.head is None else _RAX_NODES_OF_ONE

    @property
    def last_n(self) -> int:
        """The highest dot number, 0 in an empty lane."""
        return self.tail.last_n if self.tail is not None else 0

    # --- Looking up ---------------------------------------------------------------------------

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
        key = entry_id.to_bytes(KEY_BYTES, "big")
        if tail is self.head:
            # One macro node or none, as most lanes have where streams are many.
            return tail if tail is not None and tail.key <= key else None
        near = self._near
        if near is not None and near.key <= key:
            # Others go on where the last one was: consumers, deletes in a row.
            after = near.next
            if after is None or key < after.key:
                return near
            if after.next is None or key < after.next.key:
                self._near = after
                return after
        assert self._rax is not None, "there are two nodes"
        self._near = found = self._rax.floor(key)
        return found

    def _last_where(self, holds: Callable[[MacroNode], bool]) -> MacroNode | None:
        """The last macro node of which something holds that holds of all before it, too."""
        if self._rax is not None:
            return self._rax.last_where(holds)
        head = self.head
        return head if head is not None and holds(head) else None

    def _first_node(self, within: Within) -> MacroNode | None:
        """The macro node in which the stretch begins, if there is one; or one before it."""
        by_dot = self._last_where(lambda node: node.first_n <= within.above_n) or self.head
        if by_dot is None or within.start <= by_dot.first_id:
            return by_dot
        by_id = self._floor(within.start)
        return by_dot if by_id is None or by_id.key < by_dot.key else by_id

    def nodes_within(self, within: Within) -> Iterator[MacroNode]:
        """Nodes that have entries within the bounds, or may have."""
        node = self._first_node(within)
        while node is not None and node.first_n <= within.upto_n and node.first_id <= within.end:
            if node.last_n > within.above_n and node.last_id >= within.start:
                yield node
            node = node.next

    def _cut_by(self, *, up_to: StreamId, n_max: int) -> list[MacroNode]:
        """The macro node that a prefix takes a part of, if it is cold."""
        if not self.limits.residency.cold_count:
            return []
        by_id = self._floor(up_to)
        by_dot = self._last_where(lambda node: node.first_n <= n_max)
        if by_id is None or by_dot is None:
            return []
        node = by_id if by_id.key < by_dot.key else by_dot
        if node.cold is None or (node.last_n <= n_max and node.last_id <= up_to):
            return []
        return [node] if node.first_id <= up_to else []

    def count_above(self, entry_id: StreamId) -> int:
        """Number of entries that have a greater ID.

        O(log n + macro nodes of a segment + segments): below 0.1 ms among 62,500 nodes.
        """
        node = self._floor(entry_id)
        if node is None:
            return self.length
        upto = node.index_from(StreamId(entry_id + 1))
        before, behind = upto, len(node) - upto
        at = bisect_right(self._bounds, node.key)
        before += sum(self._counts[:at])
        low = self._bounds[at - 1] if at else b""
        left, right = node.prev, node.next
        # From the node outwards on both sides, until one is at the end of the lane, or where the
        # segment begins.
        while left is not None and left.key >= low and right is not None:
            before += len(left)
            behind += len(right)
            left, right = left.prev, right.next
        count = behind if right is None else self.length - before
        assert 0 <= count <= self.length
        return count

    # --- Putting in, replacing, taking out ----------------------------------------------------

    def _link(self, node: MacroNode) -> None:
        """Put a macro node behind the last one; ``length`` is without it."""
        # IDs ascend while entries are here, but what was last may be gone.
        while self._bounds and (self.tail is None or self._bounds[-1] >= node.key):
            self._bounds.pop()
            self._counts.pop()
        assert self.tail is None or self.tail.key < node.key, "keys ascend along the chain"
        assert node.prev is None, "it has neighbours elsewhere"
        assert node.next is None
        if self._linked >= SEGMENT_NODES.value and self.tail is not None:
            # New lists: those that chains begin with are shared.
            self._counts = [*self._counts, self.length - sum(self._counts)]
            self._bounds = [*self._bounds, node.key]
            self._linked = 0
        self._linked += 1
        if self.tail is None:
            self.head = node
        else:
            self.tail.next = node
            node.prev = self.tail
        self.tail = node
        if self._rax is not None:
            self._rax.insert(node.key, node)
        elif node.prev is not None:
            self._index()

    def _index(self) -> None:
        """Make the rax of what is in the chain."""
        self._rax = Rax()
        for node in self.macro_nodes():
            self._rax.insert(node.key, node)

    def _count_less(self, node: MacroNode, count: int) -> None:
        """A macro node has fewer entries, or is removed; ``length`` is up to the caller."""
        if self._bounds:
            at = bisect_right(self._bounds, node.key)
            if at < len(self._counts):
                self._counts[at] -= count
                assert self._counts[at] >= 0, "a segment has lost more than it had"
                if not at and not self._counts[0]:
                    del self._bounds[0], self._counts[0]

    def replace(self, old: Sequence[MacroNode], new: Sequence[MacroNode]) -> None:
        """Put macro nodes with the same entries in the place of neighbours (``compaction.py``)."""
        assert sum(map(len, old)) == sum(map(len, new)), "other entries than before"
        assert old[0].first_id == new[0].first_id
        assert old[-1].last_id == new[-1].last_id
        assert old[-1].last_n == new[-1].last_n
        assert all(left.next is right for left, right in pairwise(old)), "they are no neighbours"
        before, after = old[0].prev, old[-1].next
        # They may stand in other segments.
        self._count_again(old, new)
        for node in old:
            self._drop(node)
        for node in new:
            self.limits.residency.measure(node)
            self.limits.changes.note(node)
        for left, right in pairwise([before, *new, after]):
            if left is None:
                self.head = right
            else:
                left.next = right
            if right is None:
                self.tail = left
            else:
                right.prev = left
        if self._rax is not None:
            for node in old:
                self._rax.remove(node.key)
            for node in new:
                self._rax.insert(node.key, node)
        elif len(new) > 1:
            self._index()

    def _count_again(self, old: Sequence[MacroNode], new: Sequence[MacroNode]) -> None:
        if self._bounds:
            for nodes, sign in ((old, -1), (new, 1)):
                for node in nodes:
                    at = bisect_right(self._bounds, node.key)
                    if at < len(self._counts):
                        self._counts[at] += sign * len(node)

    def _unlink(self, node: MacroNode) -> None:
        """Take out a macro node all of whose entries are removed (I6)."""
        assert node.prev is not None or self.head is node, "it is not in this lane"
        assert node.next is not None or self.tail is node
        if node.prev is None:
            self.head = node.next
        else:
            node.prev.next = node.next
        if node.next is None:
            self.tail = node.prev
        else:
            node.next.prev = node.prev
        if self._rax is not None:
            self._rax.remove(node.key)
            assert (self.head is None) == (not len(self._rax))
        self._drop(node)

    def clear(self) -> int:
        """Remove all: without taking the rax apart, node by node.

        Returns:
            The highest dot number that was removed, 0 if there was nothing.
        """
        last_n = self.last_n
        node = self.head
        count = 0
        while node is not None:
            # It forgets its neighbours.
            after = node.next
            self._drop(node)
            node = after
            count += 1
        assert self._rax is None or count == len(self._rax), "the rax has all of the chain"
        self._rax = None
        self.head = self.tail = None
        self.length = 0
        self._bounds = _NO_BOUNDS
        self._counts = _NO_COUNTS
        self._linked = 0
        return last_n

    def _drop(self, node: MacroNode) -> None:
        """A macro node is in no lane any more."""
        if self._near is node:
            self._near = None
        self.limits.small.pop(node, None)
        self.limits.residency.forget(node)
        self.limits.changes.drop(node)
        # Neighbours that know each other would be in memory until a collection comes upon them.
        node.prev = node.next = None

    def _note(self, node: MacroNode) -> None:
        """A node that was there before is about to change."""
        limits = self.limits
        if node.changed_after != limits.changes.cut_number:
            limits.changes.note(node)
            limits.small[node] = None
        if node.is_encoded:
            limits.residency.note_changing(node)

    # --- What its nodes ask -------------------------------------------------------------------

    def packed_of(self, node: MacroNode, *, back: bool) -> bytes:
        return self.limits.residency.packed_of(node, back=back)

    def measure(self, node: MacroNode) -> None:
        self.limits.residency.measure(node)

    def note_warm(self, node: MacroNode, cold: Header) -> None:
        self.limits.residency.note_warm(node, cold)

    def note_encoding(self, node: MacroNode) -> None:
        self.limits.residency.note_encoding(node)
