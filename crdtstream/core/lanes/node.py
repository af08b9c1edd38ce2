"""A macro node: a packed run of neighbouring entries, in memory as columns, packed, or on disk.

    warm     the columns are there; see the picture in ``lane.py``
    packed   ``packed`` has them compressed; ``cold`` says what is known without them
    absent   neither is here: they are in the image of that number; ``cold`` is there as well

What is asked of a node that is not warm is answered from ``cold`` as long as that tells; who reads
a column warms the node, or is told in a ``ColdError`` which images have to be fetched first.

How reading a column does that: the columns are slots, and a node that turns cold loses them and
changes its class, to ``_ColdNode``.  That one answers from ``cold``, and has a ``__getattr__``,
which Python calls for a slot that is not set: it warms the node, which changes the class back.  So
who reads warm columns, nearly everybody, pays nothing, and nobody can forget to ask.  With a
``__getattr__`` in the class of warm nodes an append took half as long again, measured in CPython
3.11: the interpreter has no short cut to the attributes of such a class.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import IntEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol

from crdtstream.core.checkpoint.parts import NO_IMAGE, Encoded, Kind, Part
from crdtstream.core.effects import IdempotentId
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import ID_MIN, SEQ_BITS, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.lanes.blocks import short_ends, sum_of
from crdtstream.core.lanes.body import NodeColumns, decode_body, encode_body
from crdtstream.core.lanes.columns import Names, NumberedRuns
from crdtstream.core.lanes.header import Head, Header, decode_head, encode_head
from crdtstream.core.lanes.packing import unpack

NO_EPOCH: Final = 0


class State(IntEnum):
    """Where a macro node's entries are; NOT: it is in no lane."""

    NOT = 0
    WARM = 1
    PACKED = 2
    ABSENT = 3


class Home(Protocol):
    """The lane of a macro node, as the node knows it.

    Attributes:
        region: the lane's origin.
        owner: the number of its key.
        epoch: the present one.
    """

    region: RegionId
    owner: int

    @property
    def epoch(self) -> int: ...

    def packed_of(self, node: "MacroNode", *, back: bool) -> bytes:
        """The packed columns of a node that is not warm.

        Raises:
            ColdError: they are on disk only.
        """

    def measure(self, node: "MacroNode") -> None:
        """Its memory is to be counted anew."""

    def replace(self, old: Sequence["MacroNode"], new: Sequence["MacroNode"]) -> None:
        """Put nodes with the same entries in the place of neighbours."""

    def note_warm(self, node: "MacroNode") -> None:
        """Its columns are here again."""


class MacroNode(Part):
    """A packed run of entries.

    Attributes:
        key: under which the rax has it: the first ID that it ever held.
        lane: where it is.
        added: entries that were ever put in.
        holes_bytes: bytes of ``fields`` that no entry has any more.
        highest_removed_id: where the last entry was removed, how far the node had reached.
        open_in: the epoch in which entries may be appended to it; NO_EPOCH: never again.
        cold: what is known while the columns are not here; None while they are.
        packed: the columns in their packed form, while the node is packed.
        used: whether it was read since ``Residency`` last asked.
        is_encoded: whether the image ``image`` has it as it is.
        bytes_counted, counted_as: what ``Residency`` counts for it, and as what.
        digest: as in ``Header``, of a closed node once it was asked for; None: not known.
    """

    __slots__ = (
        "added",
        "arrivals",
        "bytes_counted",
        "cold",
        "counted_as",
        "digest",
        "fields",
        "growing_n",
        "highest_removed_id",
        "holes_bytes",
        "idempotent",
        "is_encoded",
        "key",
        "lane",
        "lengths",
        "ms",
        "n",
        "next",
        "numbered",
        "open_in",
        "packed",
        "prev",
        "seq",
        "starts",
        "used",
    )

    kind = Kind.NODE

    ms: "array[int]"
    seq: "array[int]"
    n: Sequence[int]
    starts: "array[int]"
    lengths: "array[int]"
    fields: bytearray
    arrivals: "array[int]"
    idempotent: Names | None
    numbered: NumberedRuns | None
    # The column n itself while the node is open.  That of a closed node may be a range, which takes
    # no memory; nobody appends to it.
    growing_n: "array[int]"

    def __init__(self, key: bytes, lane: Home, open_in: int) -> None:
        # Not by `super()`: a node is made for each 4 KiB of fields.
        self.epoch = 0
        self.image = NO_IMAGE
        self.key = key
        self.lane = lane
        self.added = 0
        self.highest_removed_id = ID_MIN
        self.holes_bytes = 0
        self.open_in = open_in
        self.packed: bytes | None = None
        self.cold: Header | None = None
        self.used = True
        self.is_encoded = False
        self.bytes_counted = 0
        self.counted_as = State.NOT
        self.digest: int | None = None
        self.prev: MacroNode | None = None
        self.next: MacroNode | None = None

    @classmethod
    def opened(cls, key: bytes, lane: Home, epoch: int) -> "MacroNode":
        """An empty one, to which entries are appended in this epoch."""
        node = cls(key, lane, epoch)
        node.ms = array("Q")
        node.seq = array("Q")
        node.n = node.growing_n = array("Q")
        node.starts = array("I")
        node.lengths = array("I")
        node.fields = bytearray()
        node.arrivals = array("Q")
        node.idempotent = None
        node.numbered = None
        return node

    @staticmethod
    def restored(image: int, head: bytes, lane: Home) -> "MacroNode":
        """An absent one, as a checkpoint has it.

        Raises:
            ValueError: the head is none of a macro node.
        """
        key, added, highest_removed_id, header = decode_head(head)
        node = _ColdNode(key, lane, NO_EPOCH)
        node.added = added
        node.highest_removed_id = highest_removed_id
        node.cold = header
        node.image = image
        node.is_encoded = True
        return node

    # --- What is known of it, in whatever state it is -----------------------------------------

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def key_id(self) -> StreamId:
        """The first ID that it ever held."""
        return StreamId(int.from_bytes(self.key, "big"))

    @property
    def first_id(self) -> StreamId:
        return StreamId(self.ms[0] << SEQ_BITS | self.seq[0])

    @property
    def last_id(self) -> StreamId:
        return StreamId(self.ms[-1] << SEQ_BITS | self.seq[-1])

    @property
    def first_n(self) -> int:
        return self.n[0]

    @property
    def last_n(self) -> int:
        return self.n[-1]

    @property
    def highest_id(self) -> StreamId:
        """The highest ID that was ever put in, also if its entry is gone."""
        return max(self.last_id, self.highest_removed_id)

    @property
    def first_arrival(self) -> Millis:
        """When the first entry that was ever put in came here."""
        return Millis(self.arrivals[1])

    @property
    def last_arrival(self) -> Millis:
        """When the last entry that was ever put in came here."""
        return Millis(self.arrivals[-1])

    @property
    def fields_bytes(self) -> int:
        """Bytes of all entries' fields."""
        return len(self.fields) - self.holes_bytes

    @property
    def has_idempotent(self) -> bool:
        """Whether an entry may have an idempotent id."""
        return self.idempotent is not None or self.numbered is not None

    @property
    def is_absent(self) -> bool:
        """Whether its entries are on disk only."""
        return self.cold is not None and self.packed is None

    # --- Entries ------------------------------------------------------------------------------

    def id_at(self, index: int) -> StreamId:
        return StreamId(self.ms[index] << SEQ_BITS | self.seq[index])

    def fields_at(self, index: int) -> bytearray:
        start = self.starts[index]
        return self.fields[start : start + self.lengths[index]]

    def index_from(self, entry_id: StreamId) -> int:
        """Index of the first entry that is not below the ID; the length if there is none."""
        ms = entry_id >> SEQ_BITS
        low = bisect_left(self.ms, ms)
        high = bisect_right(self.ms, ms, low)
        return bisect_left(self.seq, entry_id & U64_MAX, low, high)

    def matching(self, index: int, ids: Ids, at: int) -> int:
        """How many of the IDs from ``at`` on stand here, one after the other, from ``index`` on."""
        most = min(len(self) - index, len(ids) - at)
        if (
            isinstance(ids, IdColumns)
            # With gaps the last one differs, and nothing is copied to find that out.
            and self.seq[index + most - 1] == ids.seq[at + most - 1]
            and self.ms[index : index + most] == ids.ms[at : at + most]
            and self.seq[index : index + most] == ids.seq[at : at + most]
        ):
            return most
        count = 0
        while count < most and self.id_at(index + count) == ids[at + count]:
            count += 1
        return count

    def index_above(self, n: int) -> int:
        """Index of the first entry with a higher dot number; the length if there is none."""
        return bisect_right(self.n, n)

    def arrived_at(self, index: int) -> Millis:
        """When the entry came to this region, by its clock; 0 if that is not known."""
        at = bisect_right(self.arrivals[::2], self.n[index])
        return Millis(self.arrivals[2 * at - 1]) if at else Millis(0)

    def idempotent_at(self, index: int) -> IdempotentId | None:
        n = self.n[index]
        if self.numbered is not None:
            at = bisect_right(self.numbered, n, key=itemgetter(0)) - 1
            if at >= 0:
                first_n, count, first = self.numbered[at]
                if n < first_n + count:
                    return first.name(n - first_n)
        return None if self.idempotent is None else self.idempotent.get(n)

    def live_fields(self) -> bytes | bytearray:
        """The fields of all entries without holes, in order."""
        if not self.holes_bytes:
            return self.fields
        return b"".join(map(self.fields_at, range(len(self))))

    # --- Changing: the lane says so to ``Changes`` first --------------------------------------

    def remove(self, start: int, stop: int) -> None:
        """Remove the entries of a slice; the fields' bytes go once half of them are holes."""
        if stop == len(self):
            self.highest_removed_id = self.highest_id
        self.digest = None
        if self.idempotent is not None:
            for n in self.n[start:stop]:
                self.idempotent.pop(n, None)
        self.holes_bytes += sum(self.lengths[start:stop])
        del self.ms[start:stop], self.seq[start:stop]
        self._remove_n(start, stop)
        del self.starts[start:stop], self.lengths[start:stop]
        if 2 * self.holes_bytes > len(self.fields):
            self._close_holes()

    def _remove_n(self, start: int, stop: int) -> None:
        if self.n is self.growing_n:
            del self.growing_n[start:stop]
        elif not start:
            # Of a range both ends may go, and it is still one.
            self.n = self.n[stop:]
        elif stop == len(self.n):
            self.n = self.n[:start]
        else:
            self.n = array("Q", [*self.n[:start], *self.n[stop:]])

    def _close_holes(self) -> None:
        self.fields = bytearray(self.live_fields())
        self.holes_bytes = 0
        end = 0
        for index, length in enumerate(self.lengths):
            self.starts[index] = end
            end += length

    # --- Warm and cold ------------------------------------------------------------------------

    def encode(self) -> Encoded:
        """As a checkpoint keeps it: the head says what ``Header`` does; the body, the entries."""
        assert self.cold is None, "what is cold has not changed"
        body = encode_body(self)
        header = self.header(body_bytes=len(body))
        head = encode_head(Head(self.key, self.added, self.highest_removed_id, header))
        self.is_encoded = True
        if self.counted_as is not State.NOT:
            self.lane.measure(self)
        return Encoded(self.lane.owner, self.lane.region, head, body)

    def header(self, *, body_bytes: int) -> Header:
        """What is to be known of it when its columns are not here any more."""
        first_short_n, last_short_n = self.short_ends()
        return Header(
            self.first_id,
            self.last_id,
            self.first_n,
            self.last_n,
            len(self),
            self.fields_bytes,
            self.first_arrival,
            self.last_arrival,
            self.has_idempotent,
            first_short_n,
            last_short_n,
            self.own_digest(),
            body_bytes,
        )

    def short_ends(self) -> tuple[int, int]:
        """The dot numbers of the first and the last entry with short fields; 0 without any."""
        return short_ends(self)

    def own_digest(self) -> int:
        """The sum of its blocks' digests, as if no other node had a part in them.

        Of a node that is not to grow it is made once.
        """
        digest = self.digest
        if digest is None:
            digest = sum_of(self)
            if self.is_closed:
                self.digest = digest
        return digest

    @property
    def is_closed(self) -> bool:
        """Whether nothing will be appended to it any more."""
        return self.open_in != self.lane.epoch

    def put_columns(self, columns: NodeColumns) -> None:
        """Warm it, or close it, with columns that have the same entries."""
        self.ms = columns.ms
        self.seq = columns.seq
        self.n = columns.n
        self.starts = columns.starts
        self.lengths = columns.lengths
        self.fields = columns.fields
        self.arrivals = columns.arrivals
        self.idempotent = columns.idempotent
        self.numbered = columns.numbered
        self.holes_bytes = 0
        self.growing_n = NEVER_GROWS
        self.open_in = NO_EPOCH
        self.cold = None
        self.packed = None
        self.__class__ = MacroNode

    def take_columns(self, header: Header, packed: bytes | None) -> None:
        """Make it packed, or absent."""
        self.cold = header
        self.packed = packed
        self.open_in = NO_EPOCH
        del self.ms, self.seq, self.n, self.starts, self.lengths, self.fields, self.arrivals
        del self.idempotent, self.numbered, self.growing_n
        self.__class__ = _ColdNode

    def warm(self, *, back: bool = False) -> None:
        """Have the columns here.

        Args:
            back: whether what lies before the node is read next, and not what lies behind it.

        Raises:
            ColdError: they are on disk only.  Nothing has changed.
            ValueError: what was packed is damaged.
        """
        cold = self.cold
        if cold is not None:
            packed = self.lane.packed_of(self, back=back)
            self.put_columns(decode_body(unpack(packed, size=cold.body_bytes), cold))
            self.digest = cold.digest
            self.lane.note_warm(self)


class _ColdNode(MacroNode):
    """A macro node that is not warm: it answers from its header as long as that tells."""

    __slots__ = ()

    cold: Header

    def __len__(self) -> int:
        return self.cold.entries

    @property
    def first_id(self) -> StreamId:
        return self.cold.first_id

    @property
    def last_id(self) -> StreamId:
        return self.cold.last_id

    @property
    def first_n(self) -> int:
        return self.cold.first_n

    @property
    def last_n(self) -> int:
        return self.cold.last_n

    @property
    def first_arrival(self) -> Millis:
        return self.cold.first_arrival

    @property
    def last_arrival(self) -> Millis:
        return self.cold.last_arrival

    @property
    def fields_bytes(self) -> int:
        return self.cold.fields_bytes

    @property
    def has_idempotent(self) -> bool:
        return self.cold.has_idempotent

    def index_from(self, entry_id: StreamId) -> int:
        if entry_id <= self.cold.first_id:
            return 0
        return len(self) if entry_id > self.cold.last_id else super().index_from(entry_id)

    def index_above(self, n: int) -> int:
        if n < self.cold.first_n:
            return 0
        return len(self) if n >= self.cold.last_n else super().index_above(n)

    def short_ends(self) -> tuple[int, int]:
        return self.cold.first_short_n, self.cold.last_short_n

    def own_digest(self) -> int:
        return self.cold.digest

    if not TYPE_CHECKING:
        # Hidden from the type checker, who would believe from then on that a node has every
        # attribute there is.
        def __getattr__(self, name: str) -> object:
            """Python calls it for a slot that is not set: a column."""
            if name not in NodeColumns._fields:
                raise AttributeError(name)
            self.warm()
            return getattr(self, name)


NEVER_GROWS: Final = array("Q")
