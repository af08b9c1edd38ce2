"""Macro nodes in memory: how much they take, which leave first, and what is read ahead.

               note_saved                 evict                     evict
    changed ──────────────> saved, warm ─────────> packed ──────────────────> absent
       ^                      │    ^                  │  ^                       │
       └── a removal ─────────┘    └─ a column read ──┘  └─ arrive(image, …) ────┘

One object of a replica, shared by all its lanes.  Reading a node only sets its flag ``used``.  To
make room, ``evict`` goes round the nodes that may leave; a node that was used since the last round
stays for another one (second chance, as good as LRU and free for readers).

Always so:
  * Only a node that a verified checkpoint has as it is now leaves memory.
  * What was fetched stays until ``unpin``: a command that needs several images gets on, even if
    memory is scarce.

Nodes leave for two reasons.  If memory is scarce, ``evict`` makes as many leave as are needed.  In
any case ``leave_idle`` goes round all of them every ``IDLE_MS``: a node that was not read since the
round before is packed, and one round later it leaves memory.

    round        1          2          3          4
    read here    used  ──>  packed ──> absent
    not read     warm  ──────────────────────────────    changed since the last checkpoint: stays
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from sys import getsizeof
from typing import Final

from crdtstream.core.checkpoint.parts import NO_IMAGE, STAGED
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.body import encode_body
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.header import Header
from crdtstream.core.lanes.macro_node import MacroNode, State
from crdtstream.core.lanes.packing import pack
from crdtstream.core.size import Size

# What is read with the node that is needed, in bytes of fields: at first, and at most when a reader
# goes on and on.  Most readers read little at a place, and each node that they do not read makes
# them wait; a reader that does go on has the most of it after some steps.
AHEAD_BYTES: Final = Size(64 << 10, least=2)
AHEAD_BYTES_MAX: Final = Size(16 << 20, least=1)
# Scans whose place is remembered, so that the next fetch of theirs is larger.
SCANS_REMEMBERED: Final = Size(64, least=1)
# The time between two rounds of ``leave_idle``: a node that is read once in it stays as it is.
IDLE_MS: Final = Size(10_000, least=1)
# A macro node's object and its share of the rax, as measured in CPython 3.11 on a 64-bit machine.
NODE_BYTES: Final = 400
# The object that has a warm node's columns.
COLUMNS_BYTES: Final = 120
HEADER_BYTES: Final = 500
COLD: Final = (State.PACKED, State.ABSENT)
_WARM: Final = State.WARM
_NOT_TAKEN_OVER: Final[tuple[int, Header | None]] = (NO_IMAGE, None)
# An empty node's columns besides.
OPENED_BYTES: Final = NODE_BYTES + COLUMNS_BYTES + 620
# A run of numbered rows: two tuples and their numbers.
RUN_BYTES: Final = 300
# A warm node that takes less would hardly take less when it is packed: of many small streams the
# nodes stay, as long as memory is not scarce.
IDLE_BYTES_MIN: Final = Size(2 * (NODE_BYTES + HEADER_BYTES), least=0)


def _never() -> bool:
    return False


class Residency:
    """See the module's text.

    Attributes:
        warm_bytes, packed_bytes, absent_bytes: what macro nodes take in memory, by their state;
            a node to which entries are appended counts as it was measured last.
        absent_count, cold_count: nodes that are on disk only; those and the packed ones.
        loader: reads the packed body of an image in place, for what cannot wait, or raises
            UnreadableError; None: nothing can be read so.
        must_go_on: whether something has changed that cannot be taken back, so that what is read
            now must not fail; the replica sets it.
        loaded_inline: images that ``loader`` read.
        fetched_count: images that arrived.
    """

    def __init__(self) -> None:
        self._bytes = [0] * len(State)
        self.absent_count = 0
        self.cold_count = 0
        self.loader: Callable[[int], bytes] | None = None
        self.must_go_on: Callable[[], bool] = _never
        self.loaded_inline = 0
        self.fetched_count = 0
        self._must_not_fail = 0
        self._passing: dict[MacroNode, None] | None = None
        # What may leave, in the order in which it is looked at; the keys are
        # an ordered set.  The first key of a dict is found at once only while none was removed
        # before it.
        self._warm: OrderedDict[MacroNode, None] = OrderedDict()
        self._packed: OrderedDict[MacroNode, None] = OrderedDict()
        # Of warm ones that came with another region's state: their image, and the header that fits
        # it.  Packing their columns would make another body than that image has.
        self._as_it_came: dict[MacroNode, tuple[int, Header | None]] = {}
        self._wanted: dict[int, MacroNode] = {}
        self._pinned: set[int] = set()
        # Where a scan will need the next image, and how much was read ahead for it.
        self._scans: OrderedDict[MacroNode, int] = OrderedDict()
        # The round of ``leave_idle``: when it began, and how many nodes it has still to look at.
        self._round_began_ms: Millis | None = None
        self._packed_left = self._warm_left = 0

    @property
    def total_bytes(self) -> int:
        """Memory that all macro nodes take."""
        return sum(self._bytes)

    @property
    def warm_bytes(self) -> int:
        return self._bytes[State.WARM]

    @property
    def packed_bytes(self) -> int:
        return self._bytes[State.PACKED]

    @property
    def absent_bytes(self) -> int:
        return self._bytes[State.ABSENT]

    @property
    def may_leave(self) -> bool:
        """True if ``evict`` has something to choose from."""
        return bool(self._warm or self._packed)

    # --- Reading what is cold -----------------------------------------------------------------

    def packed_of(self, node: MacroNode, *, back: bool) -> bytes:
        """The packed columns of a node that is not warm.

        Raises:
            ColdError: they are on disk only.
            UnreadableError: they were to be read in place, and cannot be.
        """
        if node.packed is not None:
            return node.packed
        if self.loader is None or not self.reads_in_place:
            raise ColdError(self._images(node, back=back))
        self.loaded_inline += 1
        return self.loader(node.image)

    def load(self, image: int) -> bytes:
        """A packed body, read in place, of a macro node that is in no lane.

        Raises:
            UnreadableError: it cannot be read.
        """
        assert self.loader is not None
        self.loaded_inline += 1
        return self.loader(image)

    @property
    def reads_in_place(self) -> bool:
        """True if what is needed now is read in place, as it must not fail."""
        return self.loader is not None and (self._must_not_fail > 0 or self.must_go_on())

    def in_place(self) -> "_InPlace":
        """Context for what cannot wait: what it needs is read in place (``loader``)."""
        return _InPlace(self)

    def demand(self, images: Sequence[int]) -> None:
        """As ``read``, of what was looked ahead for: it is here, except for callers that cannot
        wait.

        Raises:
            ColdError: it is not.
            UnreadableError: one cannot be read.
        """
        if images and not (self._must_not_fail and self.loader):
            raise ColdError(images)
        self.read(images)

    def read(self, images: Sequence[int]) -> None:
        """Before a change: have the images in memory that it is going to need; all were wanted.

        Raises:
            ColdError: some are to be fetched.
            UnreadableError: one was to be read in place, and cannot be.
        """
        if not images:
            return
        loader = self.loader
        if loader is None or not self.reads_in_place:
            raise ColdError(images)
        for image in images:
            node = self._wanted.pop(image, None)
            if node is not None and node.is_absent:
                self.loaded_inline += 1
                self._put(node, loader(image))

    def passing(self, nodes: dict[MacroNode, None]) -> "_Passing":
        """Context for a reader of everything: the nodes that it warms leave first, so that they do
        not push out what others read again and again.

        Args:
            nodes: those warmed by the same reader so far; a dict for a set.
        """
        return _Passing(self, nodes)

    def want(self, node: MacroNode) -> int:
        """Note that an absent node is needed; return its image."""
        assert node.image != NO_IMAGE, "no image has it"
        self._wanted[node.image] = node
        return node.image

    def _images(self, needed: MacroNode, *, back: bool) -> list[int]:
        """The image of a node, and those that its reader will need next."""
        size = min(self._scans.pop(needed, AHEAD_BYTES.value // 2) * 2, AHEAD_BYTES_MAX.value)
        images: list[int] = []
        node: MacroNode | None = needed
        left = size
        while node is not None and node.cold is not None and left > 0:
            if node.packed is None:
                images.append(self.want(node))
                left -= node.cold.fields_bytes
            node = node.prev if back else node.next
        if node is not None:
            self._scans[node] = size
            if len(self._scans) > SCANS_REMEMBERED.value:
                self._scans.popitem(last=False)
        return images

    def arrive(self, image: int, packed: bytes) -> None:
        """A fetched image is here.  Nothing happens if it is not needed any more."""
        node = self._wanted.pop(image, None)
        if node is None or node.image != image or not node.is_absent:
            return
        self.fetched_count += 1
        self._pinned.add(image)
        self._put(node, packed)

    def _put(self, node: MacroNode, packed: bytes) -> None:
        assert node.is_absent
        node.packed = packed
        node.used = True
        self._packed[node] = None
        self.measure(node)

    def pin(self, image: int) -> None:
        """An image is being written, and cannot be read yet: nodes that have it in memory keep
        it."""
        self._pinned.add(image)

    def note_written(self, node: MacroNode, image: int) -> None:
        """The image can be read: a body that was kept in memory to be written may leave."""
        self._pinned.discard(image)
        if node.image == image and node.packed is not None and node not in self._packed:
            self._drop(node)

    def unpin(self, images: Iterable[int]) -> None:
        """The commands that waited for these images are done: they may leave again."""
        for image in images:
            self._pinned.discard(image)

    # --- Reports of the lanes -----------------------------------------------------------------

    def note_opened(self, node: MacroNode) -> None:
        """It is new and empty; what comes into it is counted when it is closed, or encoded."""
        assert node.counted_as is State.NOT
        self._bytes[_WARM] += OPENED_BYTES
        node.bytes_counted = OPENED_BYTES
        node.counted_as = _WARM

    def note_closed(self, node: MacroNode) -> None:
        """Nothing will be appended to it any more.

        How much the columns of numbers could still grow is guessed here, 1/32 of them, and
        measured when it is encoded: nodes are closed by XADD.
        """
        columns = node.here
        if columns is None or columns.idempotent is not None or columns.numbered is not None:
            self.measure(node)
            return
        size = OPENED_BYTES + 33 * len(columns.ms) + getsizeof(columns.fields)
        size += 8 * len(columns.arrivals)
        assert node.counted_as is _WARM
        self._bytes[_WARM] += size - node.bytes_counted
        node.bytes_counted = size

    def note_warm(self, node: MacroNode, cold: Header) -> None:
        """Its columns are here again; ``cold`` was known of it until now."""
        assert node.here is not None
        assert node.is_encoded, "it is warmed before it is noted as changing"  # I19
        self._packed.pop(node, None)
        self._warm[node] = None
        if cold.came_at_once:
            self._as_it_came[node] = node.image, cold
        if self._passing is not None:
            self._passing[node] = None
        self.measure(node)

    def note_changing(self, node: MacroNode) -> None:
        """It is about to change: no image has it any more as it is."""
        node.is_encoded = False
        self._warm.pop(node, None)
        self._as_it_came.pop(node, None)

    def note_encoding(self, node: MacroNode) -> None:
        """It gets an image of its own, and stays until that one can be read (``note_saved``)."""
        self._warm.pop(node, None)

    def forget(self, node: MacroNode) -> None:
        """No lane has it any more."""
        state = node.counted_as
        if state is State.WARM:
            # As ``_count`` does it, which has more to ask: of deleted streams most nodes are warm.
            self._bytes[_WARM] -= node.bytes_counted
            node.bytes_counted = 0
            assert self._bytes[_WARM] >= 0
            node.counted_as = State.NOT
            if node.is_encoded:
                self._warm.pop(node, None)
                self._as_it_came.pop(node, None)
            return
        self._count(node, State.NOT, 0)
        if state is State.PACKED:
            self._packed.pop(node, None)
        elif state is State.ABSENT:
            self._wanted.pop(node.image, None)

    def measure(self, node: MacroNode) -> None:
        """Count it as it is now."""
        self._count(node, _state(node), memory_of(node))

    def _count(self, node: MacroNode, state: State, size: int) -> None:
        before = node.counted_as
        self._bytes[before] -= node.bytes_counted
        self._bytes[state] += size
        assert self._bytes[before] >= 0, "more is taken away than was counted"
        if state is not before:
            self.absent_count += (state is State.ABSENT) - (before is State.ABSENT)
            self.cold_count += (state in COLD) - (before in COLD)
            assert 0 <= self.absent_count <= self.cold_count
        node.bytes_counted = size
        node.counted_as = state

    # --- Leaving memory -----------------------------------------------------------------------

    def note_saved(self, node: MacroNode, image: int) -> None:
        """A checkpoint that was verified has this image of the node: it may leave memory.

        Nothing happens if the node has changed since.
        """
        if node.image == image and node.is_encoded and node.counted_as is State.WARM:
            self._warm[node] = None

    def evict(self, size: int, is_over: Callable[[], bool] = _never) -> int:
        """Make nodes leave until enough is free; those not read for longest first.

        Columns are packed, and what is packed leaves memory, whichever takes more at present.

        Args:
            is_over: asked after each node that was looked at; True once the turn ends.

        Returns:
            How many bytes became free; fewer than were asked for if nothing else may leave.

        Cost: some 0.3 ms for a large node that is packed.
        """
        freed = 0
        # Twice round both: the first time it may be that each of them was used.
        tries = limit = 2 * (len(self._warm) + len(self._packed))
        while freed < size and tries and (self._warm or self._packed):
            if tries < limit and is_over():
                break
            tries -= 1
            packs = not self._packed or (self._warm and self.warm_bytes >= self.packed_bytes)
            queue = self._warm if packs else self._packed
            node, _ = queue.popitem(last=False)
            if node.used or node.image in self._pinned:
                node.used = False
                queue[node] = None
                continue
            before = node.bytes_counted
            self._pack(node) if queue is self._warm else self._drop(node)
            freed += before - node.bytes_counted
        return freed

    def leave_idle(self, now: Millis, is_over: Callable[[], bool] = _never) -> bool:
        """Pack what was not read for ``IDLE_MS``, and let what is packed leave memory.

        Args:
            is_over: asked after each node that was looked at; True once the turn ends.

        Returns:
            Whether this round has more to look at: call again soon.

        Cost: as :meth:`evict`; nothing until the next round is due.
        """
        began_ms = self._round_began_ms
        if not self._packed_left and not self._warm_left:
            # A clock that was set back must not put it off for ever.
            if began_ms is not None and began_ms <= now < began_ms + IDLE_MS.value:
                return False
            self._round_began_ms = now
            self._packed_left, self._warm_left = len(self._packed), len(self._warm)
        # Those that are packed first: what this round packs is for the next one.
        while self._packed_left and self._packed:
            self._packed_left -= 1
            if (node := self._next_idle(self._packed)) is not None:
                self._drop(node)
            if is_over():
                return True
        self._packed_left = 0
        while self._warm_left and self._warm:
            self._warm_left -= 1
            if (node := self._next_idle(self._warm)) is not None:
                self._pack(node)
            if is_over():
                return True
        self._warm_left = 0
        return False

    def _next_idle(self, queue: OrderedDict[MacroNode, None]) -> MacroNode | None:
        """Take the first node out of a queue; None: it stays, as the last one."""
        node, _ = queue.popitem(last=False)
        is_small = queue is self._warm and node.bytes_counted < IDLE_BYTES_MIN.value
        if node.used or is_small or node.image in self._pinned:
            node.used = False
            queue[node] = None
            return None
        return node

    def drop_all(self) -> None:
        """Let all leave that may, whenever it was read."""
        for queue, leave in ((self._warm, self._pack), (self._packed, self._drop)):
            for node in [node for node in queue if node.image not in self._pinned]:
                leave(node)

    def _pack(self, node: MacroNode) -> None:
        # I19
        assert node.is_encoded, "what no image has would be lost"
        self._warm.pop(node, None)
        image, header = self._as_it_came.pop(node, _NOT_TAKEN_OVER)
        # A checkpoint that was abandoned leaves it with the image that it came with.
        if header is not None and (image == node.image or node.image >= STAGED):
            node.take_columns(header, None)
        else:
            body = encode_body(node.columns)
            node.take_columns(node.header(body_bytes=len(body)), pack(body))
            self._packed[node] = None
        self.measure(node)

    def _drop(self, node: MacroNode) -> None:
        # I19
        assert node.is_encoded, "what no image has would be lost"
        assert node.image != NO_IMAGE
        self._packed.pop(node, None)
        node.packed = None
        self.measure(node)


class _InPlace:
    """:meth:`Residency.in_place`, for a ``with``.  As ``_Passing``, no generator: what mypyc makes
    of those with a ``try`` around their ``yield`` cannot be relied on."""

    def __init__(self, residency: Residency) -> None:
        self._residency = residency

    def __enter__(self) -> None:
        self._residency._must_not_fail += 1

    def __exit__(self, *_exc: object) -> None:
        self._residency._must_not_fail -= 1
        assert self._residency._must_not_fail >= 0


class _Passing:
    """:meth:`Residency.passing`, for a ``with``."""

    def __init__(self, residency: Residency, nodes: dict[MacroNode, None]) -> None:
        self._residency = residency
        self._nodes = nodes

    def __enter__(self) -> None:
        self._residency._passing = self._nodes

    def __exit__(self, *_exc: object) -> None:
        self._residency._passing = None
        for node in self._nodes:
            node.used = False


def _state(node: MacroNode) -> State:
    if node.here is not None:
        return State.WARM
    return State.ABSENT if node.packed is None else State.PACKED


def memory_of(node: MacroNode) -> int:
    """Bytes of memory that a macro node takes, its share of the rax included."""
    columns = node.here
    if columns is None:
        return NODE_BYTES + HEADER_BYTES + (0 if node.packed is None else getsizeof(node.packed))
    numbers = (columns.ms, columns.seq, columns.n, columns.starts, columns.lengths)
    size = (
        NODE_BYTES
        + COLUMNS_BYTES
        + sum(map(getsizeof, (*numbers, columns.fields, columns.arrivals)))
    )
    if columns.idempotent is not None:
        size += getsizeof(columns.idempotent)
        for name in columns.idempotent.values():
            size += getsizeof(name) + getsizeof(name.producer) + getsizeof(name.id)
    if columns.numbered is not None:
        size += RUN_BYTES * len(columns.numbered)
    return size
