"""The keys of a region: their streams and strings, their registers, and when they end.

    streams     every stream that exists (``rules`` 6); also an expired one
    registers   deadlines of streams and XCFGSET's values; there before their stream, and after it
    due         streams whose deadline has passed: they read as missing until their ExpireKey comes
    strings     every string that exists (``rules`` 23); also an expired one
    due_strings strings whose deadline has passed, until their DeleteString comes

A key may have both a stream and a string, if two regions made them at the same time.  Then clients
see the stream, and the string stays behind it (``rules`` 23).

Always so:
  * ``streams`` and ``strings`` hold exactly what exists: what may end a stream calls
    ``drop_if_gone``, and what may end a string ``note_string``.
  * ``_order`` holds exactly the keys of both.
  * What changes a key says so in ``touched``, or applies an effect, which does.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Final

from crdtstream.core.checkpoint.key_parts import KeyParts
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.expiry import Expiry
from crdtstream.core.keyspace.key_order import KeyOrder
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.keyspace.trimmed import TrimmedKeys
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.membership.heirs import Heirs

IDMP_DURATION_S_DEFAULT: Final = 100
IDMP_MAXSIZE_DEFAULT: Final = 100


class Keyspace:
    """See the module's text.

    Attributes:
        streams, registers, strings: by key; each is one and the same dictionary for good.
        due, due_strings: expired ones; each is one and the same set for good.
        expiry, string_expiry: the deadlines that count.
        now: the time, as the replica was given it.
        arrival: when what comes now arrives: ``now``, but never earlier than anything that came
            before, though a clock was set back.
        touched: keys that changed since the set was last cleared.
        idmp_duration_s, idmp_maxsize: for streams without values of XCFGSET.
        node_limits: what all lanes share.
    """

    __slots__ = (
        "_order",
        "_parts",
        "_trimmed",
        "arrival",
        "due",
        "due_strings",
        "expiry",
        "idmp_duration_s",
        "idmp_maxsize",
        "node_limits",
        "now",
        "registers",
        "streams",
        "string_expiry",
        "strings",
        "touched",
    )

    def __init__(
        self, region: RegionId, heirs: Heirs, node_limits: NodeLimits, parts: KeyParts
    ) -> None:
        self.node_limits = node_limits
        self._parts = parts
        self.streams: dict[bytes, Stream] = {}
        self.registers: dict[bytes, KeyRegisters] = {}
        self.expiry = Expiry(region, heirs)
        self.due = self.expiry.due
        self.strings: dict[bytes, StringRegister] = {}
        self.string_expiry = Expiry(region, heirs)
        self.due_strings = self.string_expiry.due
        self.touched: set[bytes] = set()
        self.now = Millis(0)
        self.arrival = Millis(0)
        self.idmp_duration_s = IDMP_DURATION_S_DEFAULT
        self.idmp_maxsize = IDMP_MAXSIZE_DEFAULT
        self._order = KeyOrder()
        self._trimmed = TrimmedKeys()

    # --- Reading ------------------------------------------------------------------------------

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist or has expired."""
        if self.due and key in self.due:
            return None
        return self.streams.get(key)

    def string(self, key: bytes) -> StringRegister | None:
        """The string of that key, None if it does not exist or has expired."""
        if self.due_strings and key in self.due_strings:
            return None
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
        """Number of keys, expired ones included."""
        return len(self._order)

    def known(self) -> list[bytes]:
        """Every key with a stream, a string or a register, expired ones too, in order."""
        return sorted({*self.streams, *self.strings, *self.registers})

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on."""
        return self._order.scan(cursor, count, without=self._hidden())

    def scan_held(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """As ``scan``, with expired keys."""
        return self._order.scan(cursor, count, without=frozenset())

    def draw(self) -> bytes | None:
        """One of the keys, None if there are none; each as often as any other in the long run."""
        return self._order.draw(without=self._hidden())

    def _hidden(self) -> Container[bytes]:
        """The keys that exist and show nothing."""
        return _Hidden(self) if self.strings else self.due

    def keeps(self, key: bytes) -> bool:
        """True if anything is kept of the key."""
        return (
            key in self.streams
            or key in self.strings
            or key in self.registers
            or key in self._trimmed
        )

    # --- Deadlines ----------------------------------------------------------------------------

    def advance(self, now: Millis) -> None:
        """Judge by another clock."""
        self.now = now
        if now > self.arrival:
            self.arrival = now
        for expiry in (self.expiry, self.string_expiry):
            expiry.now = now
            if expiry.coming or expiry.passed:
                self.touched.update(expiry.look())

    def settle_heirs(self) -> None:
        """Others may act for removed regions: some keys fall to this region to delete.  O(due)."""
        self.expiry.settle_heirs()
        self.string_expiry.settle_heirs()

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
        """Highest dot number of the key, by origin, that a trim or a DEL removed."""
        stream = self.streams.get(key)
        return self._trimmed.of(key) if stream is None else stream.lost

    def lost_of_gone(self, key: bytes) -> Mapping[RegionId, int]:
        """Losses of a stream that is gone, as far as they are remembered."""
        return self._trimmed.of(key)

    def gone(self) -> list[bytes]:
        """Keys that are gone and lost entries as far as is remembered (``lost``), in order."""
        return self._trimmed.keys()

    # --- Streams that begin and end -----------------------------------------------------------

    def stream_or_new(self, key: bytes) -> Stream:
        stream = self.streams.get(key)
        if stream is None:
            part = self._parts.note(key)
            part.stream_order = self._parts.next_order()
            self.streams[key] = stream = Stream(self.node_limits, part)
            stream.lost = self._trimmed.take(key)
            if key not in self.strings:
                self._order.add(key)
            self._check_order()
            self.expiry.note_begun(key)
        return stream

    def drop_if_gone(self, key: bytes, stream: Stream) -> None:
        assert self.streams[key] is stream, "another stream has this key"
        if not stream.exists:
            if stream.window is not None:
                # It is dropped with the stream, and stands in an image of its own.
                self._parts.note_producers(key)
            del self.streams[key]
            self._keep_lost(key, stream.lost)
            if key not in self.strings:
                self._order.remove(key)
            self._check_order()
            self.expiry.note_gone(key)

    def _check_order(self) -> None:
        """Check, as far as it is O(1), that ``_order`` holds exactly the keys of both."""
        streams, strings, keys = len(self.streams), len(self.strings), len(self._order)
        assert max(streams, strings) <= keys <= streams + strings

    def _keep_lost(self, key: bytes, lost: dict[RegionId, int]) -> None:
        """The stream is gone; what it lost is remembered, and of another key not any more."""
        if not lost:
            return
        forgotten = self._trimmed.to_forget
        if forgotten is not None:
            self._parts.note(forgotten)
        self._trimmed.keep(key, lost)
        self._parts.note(key).gone_order = self._parts.next_order()
        if forgotten is not None:
            self._parts.settle(forgotten)

    def note_lost(self, key: bytes, lost: dict[RegionId, int]) -> None:
        """Note up to which dots a key without a stream lost entries elsewhere."""
        assert key not in self.streams
        # It becomes the latest of those that are gone.
        self._trimmed.take(key)
        self._keep_lost(key, lost)

    def forget_lost(self, key: bytes) -> None:
        """Forget the losses of a key that is gone."""
        self._trimmed.take(key)

    def take_in(self, aside: "Keyspace") -> None:
        """Take over the streams, strings and registers of keys that nothing is kept of here."""
        assert self.streams.keys().isdisjoint(aside.streams), "a key is made twice"
        assert self.strings.keys().isdisjoint(aside.strings)
        assert self.registers.keys().isdisjoint(aside.registers)
        self.streams.update(aside.streams)
        self.strings.update(aside.strings)
        self.registers.update(aside.registers)
        self._order.take_in(aside._order)
        self._check_order()
        self.touched.update(aside.touched)
        self.expiry.take_in(aside.expiry)
        self.string_expiry.take_in(aside.string_expiry)
        self.touched.update(self.expiry.look())
        self.touched.update(self.string_expiry.look())

    def forget(self, key: bytes) -> None:
        """Nothing of the key counts any more."""
        self._trimmed.take(key)
        is_known = key in self.streams or key in self.strings
        self.streams.pop(key, None)
        self.strings.pop(key, None)
        self.registers.pop(key, None)
        self.expiry.forget(key)
        self.string_expiry.forget(key)
        self.touched.discard(key)
        if is_known:
            self._order.remove(key)
        self._check_order()

    def restore_stream(self, key: bytes, stream: Stream) -> None:
        """Put back a stream that a checkpoint has, the earliest first."""
        self.streams[key] = stream
        self._order.add(key)

    def restore_string(self, key: bytes, string: StringRegister) -> None:
        """Put back a string, the earliest first, when all streams are back; call ``note_string``
        then."""
        self.strings[key] = string
        if key not in self.streams:
            self._order.add(key)

    def restore_lost(self, key: bytes, lost: dict[RegionId, int]) -> None:
        """Put back what a stream that is gone had lost, the earliest first."""
        self._trimmed.restore(key, lost)

    # --- Strings that begin and end -----------------------------------------------------------

    def string_or_new(self, key: bytes) -> StringRegister:
        """The string of a key; a caller that gets a new one sets a value, and calls
        ``note_string``."""
        string = self.strings.get(key)
        if string is None:
            self._parts.note(key).string_order = self._parts.next_order()
            self.strings[key] = string = StringRegister()
            if key not in self.streams:
                self._order.add(key)
        return string

    def note_string(self, key: bytes, string: StringRegister) -> None:
        """The string has changed: it may be gone, or end at another time."""
        assert self.strings[key] is string, "another string has this key"
        if len(string):
            self.string_expiry.set(key, string.deadline(), exists=True)
            self.touched.update(self.string_expiry.look())
            return
        del self.strings[key]
        self.string_expiry.forget(key)
        if key not in self.streams:
            self._order.remove(key)
        self._check_order()

    # --- Registers ----------------------------------------------------------------------------

    def registers_or_new(self, key: bytes) -> KeyRegisters:
        registers = self.registers.get(key)
        if registers is None:
            self.registers[key] = registers = KeyRegisters()
        return registers

    def drop_registers(self, key: bytes) -> None:
        if self.registers.pop(key, None) is not None:
            self.expiry.forget(key)

    def judge_deadline(self, key: bytes, registers: KeyRegisters) -> None:
        """The register has changed: another deadline may count now."""
        assert self.registers[key] is registers, "other registers have this key"
        self.expiry.set(key, registers.deadline(), exists=key in self.streams)
        self.touched.update(self.expiry.look())

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

    def __init__(self, keys: Keyspace) -> None:
        self._keys = keys

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, bytes)
        return self._keys.stream(key) is None and self._keys.string(key) is None
