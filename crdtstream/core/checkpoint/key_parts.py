"""The ROOT part, and the KEY and WINDOW parts: one for each key that anything is kept of.

    ROOT     the version vector, and the numbers that were given last
    KEY      the stream without entries and groups, registers, string, floor, tombstones
    WINDOW   what idempotent producers and numbered ones are known by

A change of a key notes its part first (``parts.py``).  What the parts say is collected when they
are encoded (``key_encoding.py``).
"""

from collections.abc import Callable, Iterator
from typing import ClassVar

from crdtstream.core.checkpoint.parts import Changes, Encoded, Kind, Part


class KeyPart(Part):
    """Everything small of one key.

    Attributes:
        number: what other parts call the key; never given again.
        stream_order, string_order, gone_order: when the stream, the string came to be, and when
            the stream was gone, among those of all keys.
    """

    __slots__ = ("_encode", "gone_order", "key", "number", "stream_order", "string_order")

    kind: ClassVar[Kind] = Kind.KEY

    def __init__(self, number: int, key: bytes, encode: "Callable[[KeyPart], bytes]") -> None:
        super().__init__()
        self.number = number
        self.key = key
        self.stream_order = 0
        self.string_order = 0
        self.gone_order = 0
        self._encode = encode

    def encode(self) -> Encoded:
        return Encoded(self.number, 0, self._encode(self), b"")


class ProducersPart(Part):
    """The part of a key that keeps what is known of its producers."""

    __slots__ = ("_encode", "key")

    kind: ClassVar[Kind] = Kind.WINDOW

    def __init__(self, key: KeyPart, encode: "Callable[[ProducersPart], bytes]") -> None:
        super().__init__()
        self.key = key
        self._encode = encode

    def encode(self) -> Encoded:
        return Encoded(self.key.number, 0, self._encode(self), b"")


class RootPart(Part):
    """State of the region as a whole; every checkpoint writes it again."""

    __slots__ = ("_encode",)

    kind: ClassVar[Kind] = Kind.ROOT

    def __init__(self, encode: Callable[[], bytes]) -> None:
        super().__init__()
        self._encode = encode

    def encode(self) -> Encoded:
        return Encoded(0, 0, self._encode(), b"")


class KeyParts:
    """The parts of all keys.

    Attributes:
        last_number: the number that a key was given last.
    """

    __slots__ = (
        "_by_key",
        "_changes",
        "_encode_key",
        "_encode_producers",
        "_keeps",
        "_keeps_producers",
        "_order",
        "_producers",
        "last_number",
    )

    def __init__(
        self,
        changes: Changes,
        *,
        encode_key: Callable[[KeyPart], bytes],
        encode_producers: Callable[[ProducersPart], bytes],
        keeps: Callable[[bytes], bool],
        keeps_producers: Callable[[bytes], bool],
    ) -> None:
        self._keeps = keeps
        self._keeps_producers = keeps_producers
        self.last_number = 0
        self._changes = changes
        self._encode_key = encode_key
        self._encode_producers = encode_producers
        self._order = 0
        self._by_key: dict[bytes, KeyPart] = {}
        self._producers: dict[bytes, ProducersPart] = {}

    def __iter__(self) -> Iterator[KeyPart]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def keys(self) -> list[bytes]:
        """The keys that anything is kept of."""
        return list(self._by_key)

    def producers(self) -> Iterator[ProducersPart]:
        return iter(self._producers.values())

    @property
    def has_producers(self) -> bool:
        """True if any key has a part for its producers."""
        return bool(self._producers)

    @property
    def order(self) -> int:
        """The place that was given last."""
        return self._order

    @order.setter
    def order(self, order: int) -> None:
        self._order = order

    def next_order(self) -> int:
        """A place behind all others."""
        self._order += 1
        return self._order

    def shared_with(self, others: "KeyParts") -> set[bytes]:
        """Keys that have parts in both.  O(keys of the one that has fewer)."""
        return self._by_key.keys() & others._by_key.keys()

    # --- Changes ------------------------------------------------------------------------------

    def note(self, key: bytes) -> KeyPart:
        """Note that something of the key is about to change."""
        part = self._by_key.get(key)
        if part is None:
            self.last_number += 1
            part = self.add(self.last_number, key)
        self.note_part(part)
        return part

    def note_part(self, part: KeyPart) -> None:
        """As ``note``, of the key whose part this is."""
        if part.changed_after != self._changes.cut_number:
            self._changes.note(part)

    def note_producers(self, key: bytes) -> None:
        """Note that something of the key's producers is about to change."""
        part = self._producers.get(key)
        if part is None:
            part = self.add_producers(self.note(key))
        if part.changed_after != self._changes.cut_number:
            self._changes.note(part)

    def settle(self, key: bytes) -> None:
        """Something of the key may be gone: parts that are empty now are dropped, too."""
        if key in self._producers and not self._keeps_producers(key):
            self._changes.drop(self._producers.pop(key))
        if key in self._by_key and not self._keeps(key):
            self._changes.drop(self._by_key.pop(key))

    def take_in(self, aside: "KeyParts") -> None:
        """Take over the parts of other keys, whose places follow those that were given here."""
        order = self._order
        for part in aside:
            if part.stream_order:
                part.stream_order += order
            if part.string_order:
                part.string_order += order
        self._order += aside._order
        assert not self.shared_with(aside), "a key has two parts"
        self._by_key.update(aside._by_key)

    def forget(self, key: bytes) -> KeyPart | None:
        """Nothing of the key counts any more, though a part of it may have been noted."""
        return self._by_key.pop(key, None)

    # --- What a checkpoint has ----------------------------------------------------------------

    def add(self, number: int, key: bytes) -> KeyPart:
        part = self._by_key[key] = KeyPart(number, key, self._encode_key)
        return part

    def add_producers(self, key: KeyPart) -> ProducersPart:
        part = self._producers[key.key] = ProducersPart(key, self._encode_producers)
        return part
