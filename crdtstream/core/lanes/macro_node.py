"""A macro node: a packed run of neighbouring entries, in memory as columns, packed, or on disk.

    warm     ``here`` has the columns; see the picture in ``lane.py``
    packed   ``packed`` has them compressed; ``cold`` says what is known without them
    absent   neither is here: they are in the image of that number; ``cold`` is set as well

Questions about a node that is not warm are answered from ``cold`` if possible.  Reading a column
warms the node, or raises a ``ColdError`` with the images that have to be fetched first.

A node *has* its columns, as an object of their own, or does not.  ``columns`` returns them, and has
them fetched if need be.  A reader of many columns, or many entries, takes that object once.  It
stays as it is if the node leaves memory, as only what does not change leaves.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, Protocol

from crdtstream.core.checkpoint.parts import NO_IMAGE, STAGED, Encoded, Kind, Part
from crdtstream.core.effects import IdempotentId
from crdtstream.core.ids import ID_MIN, SEQ_BITS, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.lanes.blocks import short_ends, sum_of
from crdtstream.core.lanes.body import decode_body, encode_body
from crdtstream.core.lanes.columns import Names, NodeColumns, NumberedRuns
from crdtstream.core.lanes.header import Head, Header, decode_head, encode_head
from crdtstream.core.lanes.packing import unpack
from crdtstream.core.lanes.single import encode_single, is_single

# In place of the number of a cut.
CLOSED: Final = 0


class State(IntEnum):
    """Place of a macro node's entries; NOT: it is in no lane."""

    NOT = 0
    WARM = 1
    PACKED = 2
    ABSENT = 3


class Home(Protocol):
    """The lane of a macro node, as the node knows it.

    Attributes:
        region: the lane's origin.
        owner: the number of its key.
        cut_number: of the last cut of the replica.
    """

    region: RegionId
    owner: int

    @property
    def cut_number(self) -> int: ...

    def packed_of(self, node: "MacroNode", *, back: bool) -> bytes:
        """The packed columns of a node that is not warm.

        Raises:
            ColdError: they are on disk only.
        """

    def measure(self, node: "MacroNode") -> None:
        """Its memory is to be counted again."""

    def replace(self, old: Sequence["MacroNode"], new: Sequence["MacroNode"]) -> None:
        """Put nodes with the same entries in the place of neighbours."""

    def note_warm(self, node: "MacroNode", cold: Header) -> None:
        """Its columns are here again; ``cold`` was known of it until now."""

    def note_encoding(self, node: "MacroNode") -> None:
        """It is encoded while its columns are here, and its image was in the staging."""


class MacroNode(Part):
    """A packed run of entries.

    Attributes:
        key: under which the rax has it: the first ID that it ever held.
        lane: where it is.
        added: entries that were ever put in.
        highest_removed_id: where the last entry was removed, how far the node had reached.
        open_in: the last cut, while entries may be appended to it; CLOSED: never again.
        here: the columns of a warm node; None: it is not warm.
        cold: what is known while the columns are not here; None while they are.
        packed: the columns in their packed form, while the node is packed.
        used: whether it was read since ``Residency`` last asked.
        is_encoded: whether the image ``image`` has it as it is.
        bytes_counted, counted_as: what ``Residency`` counts for it, and as what.
        digest: as in ``Header``, of a closed node once it was asked for; None: not known.
    """

    __slots__ = (
        "added",
        "bytes_counted",
        "cold",
        "counted_as",
        "digest",
        "here",
        "highest_removed_id",
        "is_encoded",
        "key",
        "lane",
        "next",
        "open_in",
        "packed",
        "prev",
        "used",
    )

    kind = Kind.NODE

    def __init__(self, key: bytes, lane: Home, open_in: int) -> None:
        # Not by `super()`: a node is made for each 4 KiB of fields.
        self.changed_after = 0
        self.image = NO_IMAGE
        self.key = key
        self.lane = lane
        self.added = 0
        self.highest_removed_id = ID_MIN
        self.open_in = open_in
        self.here: NodeColumns | None = None
        self.packed: bytes | None = None
        self.cold: Header | None = None
        self.used = True
        self.is_encoded = False
        self.bytes_counted = 0
        self.counted_as = State.NOT
        self.digest: int | None = None
        self.prev: MacroNode | None = None
        self.next: MacroNode | None = None

    @staticmethod
    def opened(key: bytes, lane: Home, cut_number: int) -> "MacroNode":
        """An empty one, to which entries are appended until the next cut."""
        node = MacroNode(key, lane, cut_number)
        node.here = NodeColumns.opened()
        return node

    @staticmethod
    def restored(image: int, head: bytes, lane: Home) -> "MacroNode":
        """An absent one, as a checkpoint has it.

        Raises:
            ValueError: the head is none of a macro node.
        """
        return MacroNode.absent(image, decode_head(head), lane)

    @staticmethod
    def absent(image: int, head: Head, lane: Home) -> "MacroNode":
        """One whose entries are in an image."""
        node = MacroNode(head.key, lane, CLOSED)
        node.added = head.added
        node.highest_removed_id = head.highest_removed_id
        node.cold = head.header
        node.image = image
        node.is_encoded = True
        return node

    # --- What is known of it, in whatever state it is -----------------------------------------

    def __len__(self) -> int:
        here = self.here
        return self._header.entries if here is None else len(here.ms)

    @property
    def _header(self) -> Header:
        """The facts of a node that is not warm."""
        cold = self.cold
        assert cold is not None
        return cold

    @property
    def key_id(self) -> StreamId:
        """The first ID that it ever held."""
        return StreamId(int.from_bytes(self.key, "big"))

    @property
    def first_id(self) -> StreamId:
        here = self.here
        if here is None:
            return self._header.first_id
        return StreamId(here.ms[0] << SEQ_BITS | here.seq[0])

    @property
    def last_id(self) -> StreamId:
        here = self.here
        if here is None:
            return self._header.last_id
        return StreamId(here.ms[-1] << SEQ_BITS | here.seq[-1])

    @property
    def first_n(self) -> int:
        here = self.here
        return self._header.first_n if here is None else here.n[0]

    @property
    def last_n(self) -> int:
        here = self.here
        return self._header.last_n if here is None else here.n[-1]

    @property
    def highest_id(self) -> StreamId:
        """The highest ID that was ever put in, also if its entry is gone."""
        return max(self.last_id, self.highest_removed_id)

    @property
    def first_arrival(self) -> Millis:
        """Time at which the first entry that was ever put in came here."""
        here = self.here
        return self._header.first_arrival if here is None else Millis(here.arrivals[1])

    @property
    def last_arrival(self) -> Millis:
        """Time at which the last entry that was ever put in came here."""
        here = self.here
        return self._header.last_arrival if here is None else Millis(here.arrivals[-1])

    @property
    def fields_bytes(self) -> int:
        """Bytes of all entries' fields."""
        here = self.here
        if here is None:
            return self._header.fields_bytes
        return len(here.fields) - here.holes_bytes

    @property
    def has_idempotent(self) -> bool:
        """True if an entry may have an idempotent id."""
        here = self.here
        if here is None:
            return self._header.has_idempotent
        return here.idempotent is not None or here.numbered is not None

    @property
    def is_absent(self) -> bool:
        """True if its entries are on disk only."""
        return self.cold is not None and self.packed is None

    # --- Entries: these warm it, unless the header knows --------------------------------------

    @property
    def columns(self) -> NodeColumns:
        """Its entries.

        Raises:
            ColdError: they are on disk only.  Nothing has changed.
            ValueError: what was packed is damaged.
        """
        here = self.here
        return self._warmed(back=False) if here is None else here

    @property
    def ms(self) -> "array[int]":
        return self.columns.ms

    @property
    def seq(self) -> "array[int]":
        return self.columns.seq

    @property
    def n(self) -> Sequence[int]:
        return self.columns.n

    @property
    def lengths(self) -> "array[int]":
        return self.columns.lengths

    @property
    def fields(self) -> bytearray:
        return self.columns.fields

    @property
    def arrivals(self) -> "array[int]":
        return self.columns.arrivals

    @property
    def idempotent(self) -> Names | None:
        return self.columns.idempotent

    @property
    def numbered(self) -> NumberedRuns | None:
        return self.columns.numbered

    def id_at(self, index: int) -> StreamId:
        columns = self.columns
        return StreamId(columns.ms[index] << SEQ_BITS | columns.seq[index])

    def fields_at(self, index: int) -> bytearray:
        return self.columns.fields_at(index)

    def index_from(self, entry_id: StreamId) -> int:
        """Index of the first entry that is not below the ID; the length if there is none."""
        here = self.here
        if here is None:
            cold = self._header
            if entry_id <= cold.first_id:
                return 0
            if entry_id > cold.last_id:
                return cold.entries
            here = self.columns
        # In place: look-ups are many, and each call would be one more of each.
        ms = entry_id >> SEQ_BITS
        low = bisect_left(here.ms, ms)
        high = bisect_right(here.ms, ms, low)
        return bisect_left(here.seq, entry_id & U64_MAX, low, high)

    def index_above(self, n: int) -> int:
        """Index of the first entry with a higher dot number; the length if there is none."""
        here = self.here
        if here is None:
            cold = self._header
            if n < cold.first_n:
                return 0
            if n >= cold.last_n:
                return cold.entries
            here = self.columns
        return bisect_right(here.n, n)

    def arrived_at(self, index: int) -> Millis:
        """Time at which the entry came to this region, by its clock; 0 if unknown."""
        return self.columns.arrived_at(index)

    def idempotent_at(self, index: int) -> IdempotentId | None:
        """The name that an entry's producer gave it; None: none."""
        return self.columns.idempotent_at(index)

    def live_fields(self) -> bytes | bytearray:
        """The fields of all entries without holes, in order."""
        return self.columns.live_fields()

    # --- Changing: the lane says so to ``Changes`` first --------------------------------------

    def remove(self, start: int, stop: int) -> None:
        """Remove the entries of a slice."""
        columns = self.here or self.columns
        assert stop - start < len(columns.ms), "the lane removes a whole node"  # I6
        if stop == len(columns.ms):
            self.highest_removed_id = self.highest_id
        self.digest = None
        columns.remove(start, stop)

    def remove_rows(self, rows: Sequence[int]) -> None:
        """Remove entries in whatever places, not all; each once, ascending."""
        columns = self.here or self.columns
        assert len(rows) < len(columns.ms), "the lane removes a whole node"  # I6
        if rows[-1] == len(columns.ms) - 1:
            self.highest_removed_id = self.highest_id
        self.digest = None
        columns.remove_rows(rows)

    # --- Warm and cold ------------------------------------------------------------------------

    def encode(self) -> Encoded:
        """As a checkpoint keeps it: the head says what ``Header`` does; the body, the entries.

        A node that was taken over with another region's state (``merge/``) may be cold: its packed
        body is kept in memory, and written as it is.

        Raises:
            ColdError: the body of such a one is to be read, and not in place.
            UnreadableError: it cannot be read.
        """
        cold = self.cold
        if cold is not None:
            return self._encode_taken_over(cold)
        if self.image >= STAGED:
            self.lane.note_encoding(self)
        columns = self.columns
        if is_single(columns):
            header, body = encode_single(columns, self.digest)
            if self.is_closed:
                self.digest = header.digest
        else:
            body = encode_body(columns)
            header = self.header(body_bytes=len(body))
        # ``decode_head`` refuses anything else: the region could not start with it.
        assert 0 < header.entries <= min(self.added, header.last_n - header.first_n + 1)
        assert self.first_id <= header.last_id - header.entries + 1, "IDs ascend"
        assert header.first_arrival <= header.last_arrival, "an arrival is never before the last"
        head = encode_head(Head(self.key, self.added, self.highest_removed_id, header))
        self.is_encoded = True
        if self.counted_as is not State.NOT:
            self.lane.measure(self)
        return Encoded(self.lane.owner, self.lane.region, head, body)

    def _encode_taken_over(self, cold: Header) -> Encoded:
        assert self.image >= STAGED, "what is cold has not changed"
        packed = self.packed = self.lane.packed_of(self, back=False)
        self.lane.measure(self)
        head = encode_head(Head(self.key, self.added, self.highest_removed_id, cold))
        return Encoded(self.lane.owner, self.lane.region, head, packed, is_packed=True)

    def header(self, *, body_bytes: int) -> Header:
        """The facts that stay known when its columns leave memory."""
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
        here = self.here
        if here is None:
            cold = self._header
            return cold.first_short_n, cold.last_short_n
        return short_ends(here)

    def own_digest(self) -> int:
        """The sum of its blocks' digests, as if no other node had a part in them.

        Of a node that is not to grow it is made once.
        """
        here = self.here
        if here is None:
            return self._header.digest
        digest = self.digest
        if digest is None:
            digest = sum_of(here)
            if self.is_closed:
                self.digest = digest
        return digest

    @property
    def is_closed(self) -> bool:
        """True if nothing will be appended to it any more."""
        return self.open_in != self.lane.cut_number

    def put_columns(self, columns: NodeColumns) -> None:
        """Warm it, or close it, with columns that have the same entries."""
        assert columns.ms, "no macro node is empty"  # I6
        assert self.cold is None or self.cold.entries == len(columns.ms), "other entries"
        self.here = columns
        self.open_in = CLOSED
        self.cold = None
        self.packed = None

    def take_columns(self, header: Header, packed: bytes | None) -> None:
        """Make it packed, or absent."""
        assert len(self) == header.entries, "the header is of other entries"
        assert self.last_n == header.last_n
        self.cold = header
        self.packed = packed
        self.open_in = CLOSED
        self.here = None

    def warm(self, *, back: bool = False) -> None:
        """Bring the columns into memory.

        Args:
            back: whether what lies before the node is read next, and not what lies behind it.

        Raises:
            ColdError: they are on disk only.  Nothing has changed.
            ValueError: what was packed is damaged.
        """
        if self.here is None:
            self._warmed(back=back)

    def columns_once(self, *, back: bool = False) -> NodeColumns:
        """Its entries, for one reading: what is cold stays so.  Raises as ``warm``."""
        if self.here is not None:
            return self.here
        cold = self._header
        packed = self.lane.packed_of(self, back=back)
        return decode_body(unpack(packed, size=cold.body_bytes), cold)

    def have(self, columns: NodeColumns) -> None:
        """Warm the node with the columns that ``columns_once`` has read."""
        if self.here is None:
            cold = self._header
            self.put_columns(columns)
            self.digest = cold.digest
            self.lane.note_warm(self, cold)

    def _warmed(self, *, back: bool) -> NodeColumns:
        columns = self.columns_once(back=back)
        self.have(columns)
        return columns
