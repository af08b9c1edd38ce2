"""The keys of a region, to be read: what exists, what has expired, when it ends.

``keyspace.py`` changes them.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.expiry import Expiry
from crdtstream.core.keyspace.key_order import KeyOrder
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.keyspace.trimmed import TrimmedKeys
from crdtstream.core.membership.heirs import Heirs

IDMP_DURATION_S_DEFAULT: Final = 100
IDMP_MAXSIZE_DEFAULT: Final = 100


class Keys:
    """The keys of a replica, which changes them as ``Keyspace``.

    Attributes:
        streams, registers, strings: by key; each is one and the same dictionary for good.
        due, due_strings: expired ones; each is one and the same set for good.
        expiry, string_expiry: the deadlines that count.
        now: the time, as the replica was given it.
        touched: keys that changed since the set was last cleared.
        idmp_duration_s, idmp_maxsize: for streams without values of XCFGSET.
    """

    __slots__ = (
        "_order",
        "_trimmed",
        "due",
        "due_strings",
        "expiry",
        "idmp_duration_s",
        "idmp_maxsize",
        "now",
        "registers",
        "streams",
        "string_expiry",
        "strings",
        "touched",
    )

    def __init__(self, region: RegionId, heirs: Heirs) -> None:
        self.streams: dict[bytes, Stream] = {}
        self.registers: dict[bytes, KeyRegisters] = {}
        self.expiry = Expiry(region, heirs)
        self.due = self.expiry.due
        self.strings: dict[bytes, StringRegister] = {}
        self.string_expiry = Expiry(region, heirs)
        self.due_strings = self.string_expiry.due
        self.touched: set[bytes] = set()
        self.now = Millis(0)
        self.idmp_duration_s = IDMP_DURATION_S_DEFAULT
        self.idmp_maxsize = IDMP_MAXSIZE_DEFAULT
        self._order = KeyOrder()
        self._trimmed = TrimmedKeys()

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist or has expired."""
        if self.due and key in self.due:
            return None
        return self.streams.get(key)

    def held_stream(self, key: bytes) -> Stream | None:
        """As ``stream``, and also one that has expired and was not deleted yet.

        A reader by dots must get its entries until the delete says that they are lost: it may yet
        be made to last.
        """
        return self.streams.get(key)

    def string(self, key: bytes) -> StringRegister | None:
        """The string of that key, None if it does not exist or has expired.

        A key may have a stream, too; then clients see that.
        """
        if self.due_strings and key in self.due_strings:
            return None
        return self.strings.get(key)

    def held_string(self, key: bytes) -> StringRegister | None:
        """As ``string``, and also one that has expired and was not deleted yet."""
        return self.strings.get(key)

    def __iter__(self) -> Iterator[bytes]:
        """Every key that ``stream`` or ``string`` finds: streams, then the others, each in the
        order in which they came to be here."""
        for key in self.streams:
            if key not in self.due:
                yield key
        for key in self.strings:
            if key not in self.due_strings and (key not in self.streams or key in self.due):
                yield key

    def __len__(self) -> int:
        """Number of keys, expired ones included (as in Redis)."""
        return len(self._order)

    def known(self) -> list[bytes]:
        """Every key with a stream, a string or a register, expired ones too, in order."""
        return sorted({*self.streams, *self.strings, *self.registers})

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on.

        A key that exists from the first call to the last is met exactly once.  O(count + a bucket).
        """
        return self._order.scan(cursor, count, without=self._hidden())

    def scan_held(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """As ``scan``, with expired keys."""
        return self._order.scan(cursor, count, without=frozenset())

    def draw(self) -> bytes | None:
        """One of the keys, None if there are none; each about as often as any other in the long
        run."""
        return self._order.draw(without=self._hidden())

    def _hidden(self) -> Container[bytes]:
        """The keys that exist and show nothing."""
        return _Hidden(self) if self.strings else self.due

    # --- Deadlines ----------------------------------------------------------------------------

    @property
    def expiring_count(self) -> int:
        """Number of streams and strings that have a deadline."""
        return len(self.expiry) + len(self.string_expiry)

    def mean_deadline(self) -> Millis | None:
        """The mean of the deadlines that have not passed, None if there are none."""
        total_ms, count = map(
            sum, zip(self.expiry.not_passed(), self.string_expiry.not_passed(), strict=True)
        )
        return Millis(total_ms // count) if count else None

    def next_deadline(self, *, may_expire: bool = True) -> Millis | None:
        """Time at which the clock is to be told next; may be of a deadline long changed.

        Args:
            may_expire: keys that are due may be deleted from here, so if there are any: now.
        """
        expiry, strings = self.expiry, self.string_expiry
        if may_expire and (expiry.due_here or strings.due_here):
            return self.now
        if not expiry.coming and not strings.coming:
            return None
        return Millis(min(one.coming[0][0] for one in (expiry, strings) if one.coming))

    # --- What was lost ------------------------------------------------------------------------

    def lost(self, key: bytes) -> Mapping[RegionId, int]:
        """Highest dot number of the key, by origin, that a trim or a DEL removed.

        Local: another region may know of less, or of more.  Of keys that are gone only the latest
        are remembered (``trimmed.py``).
        """
        stream = self.streams.get(key)
        return self._trimmed.of(key) if stream is None else stream.lost

    def gone(self) -> list[bytes]:
        """Keys that are gone and lost entries as far as is remembered (``lost``), in order."""
        return self._trimmed.keys()

    # --- Idempotent producers -----------------------------------------------------------------

    def idmp_duration_of(self, key: bytes) -> int:
        """Number of seconds for which a stream recognises idempotent ids."""
        registers = self.registers.get(key)
        values = () if registers is None else registers.idmp_duration_s.values.values()
        return max(values, default=self.idmp_duration_s)

    def idmp_maxsize_of(self, key: bytes) -> int:
        """Number of idempotent ids of a producer that a stream recognises."""
        registers = self.registers.get(key)
        values = () if registers is None else registers.idmp_maxsize.values.values()
        return max(values, default=self.idmp_maxsize)

    def idmp_settings_of(self, key: bytes) -> tuple[int | None, int | None]:
        """Duration and maxsize as XCFGSET said them of this key, None where it did not."""
        registers = self.registers.get(key)
        if registers is None:
            return None, None
        return (
            max(registers.idmp_duration_s.values.values(), default=None),
            max(registers.idmp_maxsize.values.values(), default=None),
        )


class _Hidden:
    """The keys that exist and show nothing, as they have expired."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, bytes)
        return self._keys.stream(key) is None and self._keys.string(key) is None
