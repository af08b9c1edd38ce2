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

from collections.abc import Mapping

from crdtstream.core.checkpoint.key_parts import KeyPart, KeyParts
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.keys import Keys
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.membership.heirs import Heirs


class Keyspace(Keys):
    """See the module's text.

    Attributes:
        arrival: when what comes now arrives: ``now``, but never earlier than anything that came
            before, though a clock was set back.
        node_limits: what all lanes share.
    """

    __slots__ = (
        "_parts",
        "arrival",
        "node_limits",
    )

    def __init__(
        self, region: RegionId, heirs: Heirs, node_limits: NodeLimits, parts: KeyParts
    ) -> None:
        super().__init__(region, heirs)
        self.node_limits = node_limits
        self._parts = parts
        self.arrival = Millis(0)

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

    # --- What was lost ------------------------------------------------------------------------

    def lost_of_gone(self, key: bytes) -> Mapping[RegionId, int]:
        """Losses of a stream that is gone, as far as they are remembered."""
        return self._trimmed.of(key)

    # --- Streams that begin and end -----------------------------------------------------------

    def stream_or_new(self, key: bytes) -> Stream:
        stream = self.streams.get(key)
        if stream is None:
            part = self._parts.note(key)
            part.stream_order = self._parts.next_order()
            self.streams[key] = stream = Stream(self.node_limits, part)
            if key in self._trimmed:
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
            if stream.lost:
                self._keep_lost(stream.part, stream.lost)
            if key not in self.strings:
                self._order.remove(key)
            self._check_order()
            self.expiry.note_gone(key)

    def _check_order(self) -> None:
        """Check, as far as it is O(1), that ``_order`` holds exactly the keys of both."""
        streams, strings, keys = len(self.streams), len(self.strings), len(self._order)
        assert streams <= keys
        assert strings <= keys <= streams + strings

    def _keep_lost(self, part: KeyPart, lost: Mapping[RegionId, int]) -> None:
        """The stream is gone; what it lost is remembered, and of another key not any more."""
        forgotten = self._trimmed.to_forget
        if forgotten is not None:
            self._parts.note(forgotten)
        self._parts.note_part(part)
        self._trimmed.keep(part.key, lost)
        part.gone_order = self._parts.next_order()
        if forgotten is not None:
            self._parts.settle(forgotten)

    def note_lost(self, key: bytes, lost: dict[RegionId, int]) -> None:
        """Note up to which dots a key without a stream lost entries elsewhere."""
        assert key not in self.streams
        # It becomes the latest of those that are gone.
        self._trimmed.take(key)
        self._keep_lost(self._parts.note(key), lost)

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
        few, many = sorted((self._order, aside._order), key=len)
        for key in few:
            many.add(key)
        self._order = many
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
