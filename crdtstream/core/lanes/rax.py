"""A radix tree: an ordered map from 16-byte keys, as Redis keeps its streams in.

Every node holds a label, the bytes that lead from its parent to it.  A branch has at least two
children, found by the first byte of their labels; a leaf ends a key and holds its value:

    keys  00 00 01 a0      root  label 00 00
          00 00 01 b7        ├── label 01        ── branch
          00 00 02 11        │     ├── label a0  ── leaf
                             │     └── label b7  ── leaf
                             └── label 02 11     ── leaf

All keys have the same length, so no key is a prefix of another and only leaves hold values.  IDs
are time-ordered numbers in big-endian form: neighbours share most of their bytes, and the tree
stores what they share once.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

V = TypeVar("V")

KEY_BYTES: Final = 16


class _Node(Generic[V]):
    """A branch if it has children, else a leaf."""

    __slots__ = ("children", "firsts", "label", "value")

    def __init__(self, label: bytes, value: V | None) -> None:
        self.label = label
        self.value = value
        # First byte of each child's label, ascending.  Leaves, nearly all of a tree, share one
        # empty one, and nothing is put into it.
        self.firsts = _NO_FIRSTS
        self.children: list[_Node[V]] = _NO_CHILDREN

    @classmethod
    def branch(cls, label: bytes) -> "_Node[V]":
        """One that is to adopt children."""
        node = cls(label, None)
        node.firsts = bytearray()
        node.children = []
        return node

    def adopt(self, child: "_Node[V]") -> None:
        at = bisect_left(self.firsts, child.label[0])
        assert at == len(self.firsts) or self.firsts[at] != child.label[0], "two of one byte"
        self.firsts.insert(at, child.label[0])
        self.children.insert(at, child)


_NO_FIRSTS: Final = bytearray()
_NO_CHILDREN: Final[list[Any]] = []


class Rax(Generic[V]):
    """An ordered map from keys of KEY_BYTES bytes.  Each operation is O(KEY_BYTES).

    Attributes:
        node_count: how many nodes Redis's rax would use for these keys: it spends one node on
            each branch and leaf, and another on a compressed run of bytes in front of it.
    """

    __slots__ = ("_length", "_root", "node_count")

    def __init__(self) -> None:
        self._root: _Node[V] | None = None
        self._length = 0
        self.node_count = 1

    def __len__(self) -> int:
        return self._length

    def insert(self, key: bytes, value: V) -> None:
        """Map ``key`` to ``value``, replacing what was there."""
        assert len(key) == KEY_BYTES
        if self._root is None:
            self._root = _Node(key, value)
            self._length = 1
            self.node_count = 2
            return

        parent: _Node[V] | None = None
        node = self._root
        depth = 0
        while key.startswith(node.label, depth):
            depth += len(node.label)
            if depth == KEY_BYTES:
                node.value = value
                return
            first = key[depth]
            at = bisect_left(node.firsts, first)
            if at == len(node.firsts) or node.firsts[at] != first:
                leaf: _Node[V] = _Node(key[depth:], value)
                node.firsts.insert(at, first)
                node.children.insert(at, leaf)
                self.node_count += _cost(leaf, is_root=False)
                self._length += 1
                return
            parent, node = node, node.children[at]

        # The key leaves the label half-way: a branch takes the common part, the old node and a
        # new leaf hang below it.
        common = _common_length(node.label, key, depth)
        branch: _Node[V] = _Node.branch(node.label[:common])
        self.node_count -= _cost(node, is_root=parent is None)
        if parent is None:
            self._root = branch
        else:
            parent.children[bisect_left(parent.firsts, branch.label[0])] = branch
        node.label = node.label[common:]
        leaf = _Node(key[depth + common :], value)
        branch.adopt(node)
        branch.adopt(leaf)
        self.node_count += _cost(branch, is_root=parent is None)
        self.node_count += _cost(node, is_root=False) + _cost(leaf, is_root=False)
        self._length += 1

    def remove(self, key: bytes) -> None:
        """Forget ``key``, which must be present."""
        node = self._root
        assert node is not None, "no such key"
        assert key.startswith(node.label), "no such key"
        parent: _Node[V] | None = None
        depth = len(node.label)
        at = 0
        while depth < KEY_BYTES:
            parent = node
            at = bisect_left(parent.firsts, key[depth])
            assert at < len(parent.firsts), "no such key"
            node = parent.children[at]
            assert key.startswith(node.label, depth), "no such key"
            depth += len(node.label)

        self._length -= 1
        assert self._length >= 0
        if parent is None:
            self._root = None
            self.node_count = 1
            return
        del parent.firsts[at], parent.children[at]
        self.node_count -= _cost(node, is_root=False)
        assert parent.children, "a branch has at least two children"
        if len(parent.children) == 1:
            self._merge_with_only_child(parent, is_root=parent is self._root)

    def _merge_with_only_child(self, parent: _Node[V], *, is_root: bool) -> None:
        child = parent.children[0]
        self.node_count -= _cost(parent, is_root=is_root) + _cost(child, is_root=False)
        assert parent.value is None, "only leaves hold values"
        parent.label += child.label
        parent.value = child.value
        parent.firsts = child.firsts
        parent.children = child.children
        self.node_count += _cost(parent, is_root=is_root)

    def floor(self, key: bytes) -> V | None:
        """The value of the greatest key that is not above ``key``."""
        node = self._root
        depth = 0
        below: _Node[V] | None = None  # root of the nearest subtree whose keys are all smaller
        while node is not None:
            end = depth + len(node.label)
            part = key[depth:end]
            if part != node.label:
                if part > node.label:
                    below = node
                break
            if end == KEY_BYTES:
                return node.value
            at = bisect_left(node.firsts, key[end])
            if at:
                below = node.children[at - 1]
            if at == len(node.firsts) or node.firsts[at] != key[end]:
                break
            node = node.children[at]
            depth = end
        if below is None:
            return None
        while below.children:
            below = below.children[-1]
        return below.value

    def last_where(self, holds: Callable[[V], bool]) -> V | None:
        """The last value for which the predicate holds, None if there is none.

        The predicate must hold for a prefix of the values, in the order of their keys.
        """
        node = self._root
        if node is None or not holds(_first_value(node)):
            return None
        while node.children:
            low, high = 0, len(node.children)
            while high - low > 1:
                middle = (low + high) // 2
                if holds(_first_value(node.children[middle])):
                    low = middle
                else:
                    high = middle
            node = node.children[low]
        return node.value

    def __iter__(self) -> Iterator[tuple[bytes, V]]:
        """Keys and values, keys ascending."""
        if self._root is not None:
            yield from _walk(self._root, b"")


def _first_value(node: _Node[V]) -> V:
    while node.children:
        node = node.children[0]
    assert node.value is not None
    return node.value


def _cost(node: _Node[V], *, is_root: bool) -> int:
    """Nodes in Redis's count: below a branch the first byte of the label is the branch's own."""
    return 1 + (len(node.label) > (0 if is_root else 1))


def _common_length(label: bytes, key: bytes, depth: int) -> int:
    length = 0
    while label[length] == key[depth + length]:
        length += 1
    return length


def _walk(node: _Node[V], prefix: bytes) -> Iterator[tuple[bytes, V]]:
    prefix += node.label
    if not node.children:
        assert node.value is not None
        yield prefix, node.value
    for child in node.children:
        yield from _walk(child, prefix)
