"""The keys of a region: their streams, their registers, and when they end.

    streams     every key that exists (``rules`` 6); also one whose time is over
    registers   deadlines and XCFGSET's values; they may be there before their key, and outlive it
    due         keys whose deadline has passed: they read as missing until their ExpireKey comes

Always so:
  * ``streams`` holds exactly the keys that exist: what may end a stream calls ``drop_if_gone``.
  * What changes a key says so in ``touched``, or applies an effect, which does.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.expiry import Expiry
from crdtstream.core.keyspace.key_order import KeyOrder
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.trimmed import TrimmedKeys
from crdtstream.core.lanes.lane import NodeLimits
from crdtstream.core.stream import Stream

IDMP_DURATION_S_DEFAULT: Final = 100
IDMP_MAXSIZE_DEFAULT: Final = 100


class Keyspace:
    """See the module's text.

    Attributes:
        streams, registers: by key; each is one and the same dictionary for good.
        due: the keys whose time is over; one and the same set for good.
        expiry: the deadlines that count.
        now: what time it is, as the replica was told.
        touched: keys that changed since somebody last cleared the set.
        idmp_duration_s, idmp_maxsize: for streams without values of XCFGSET.
    """

    __slots__ = (
        "_node_limits",
        "_order",
        "_trimmed",
        "due",
        "expiry",
        "idmp_duration_s",
        "idmp_maxsize",
        "now",
        "registers",
        "streams",
        "touched",
    )

    def __init__(self, region: RegionId, node_limits: NodeLimits) -> None:
        self._node_limits = node_limits
        self.streams: dict[bytes, Stream] = {}
        self.registers: dict[bytes, KeyRegisters] = {}
        self.expiry = Expiry(region)
        self.due = self.expiry.due
        self.touched: set[bytes] = set()
        self.now = Millis(0)
        self.idmp_duration_s = IDMP_DURATION_S_DEFAULT
        self.idmp_maxsize = IDMP_MAXSIZE_DEFAULT
        self._order = KeyOrder()
        self._trimmed = TrimmedKeys()

    # --- Reading ------------------------------------------------------------------------------

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist or its time is over."""
        if self.due and key in self.due:
            return None
        return self.streams.get(key)

    def __iter__(self) -> Iterator[bytes]:
        """Every key that ``stream`` finds, in the order in which they came to be here."""
        if self.due:
            return (key for key in self.streams if key not in self.due)
        return iter(self.streams)

    def known(self) -> list[bytes]:
        """Every key with a stream or a register, expired ones too, in order."""
        return sorted({*self.streams, *self.registers})

    def scan(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on."""
        return self._order.scan(cursor, count, without=self.due)

    def scan_held(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """As ``scan``, with the keys whose time is over."""
        return self._order.scan(cursor, count, without=frozenset())

    def draw(self) -> bytes | None:
        """One of the keys, None if there are none; each as often as any other in the long run."""
        return self._order.draw(without=self.due)

    def lost(self, key: bytes) -> Mapping[RegionId, int]:
        """By origin the highest dot number of the key that a trim or a DEL removed."""
        stream = self.streams.get(key)
        return self._trimmed.of(key) if stream is None else stream.lost

    def gone(self) -> list[bytes]:
        """Keys that are gone and lost entries as far as is remembered (``lost``), in order."""
        return self._trimmed.keys()

    # --- Streams that begin and end -----------------------------------------------------------

    def stream_or_new(self, key: bytes) -> Stream:
        stream = self.streams.get(key)
        if stream is None:
            self.streams[key] = stream = Stream(self._node_limits)
            stream.lost = self._trimmed.take(key)
            self._order.add(key)
            self.expiry.note_begun(key)
        return stream

    def drop_if_gone(self, key: bytes, stream: Stream) -> None:
        if not stream.exists:
            del self.streams[key]
            self._trimmed.keep(key, stream.lost)
            self._order.remove(key)
            self.expiry.note_gone(key)

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
        self.expiry.set(key, registers.deadline(), exists=key in self.streams)
        self.touched.update(self.expiry.look())

    def idmp_duration_of(self, key: bytes) -> int:
        """For how many seconds a stream recognises idempotent ids."""
        registers = self.registers.get(key)
        values = () if registers is None else registers.idmp_duration_s.values.values()
        return max(values, default=self.idmp_duration_s)

    def idmp_maxsize_of(self, key: bytes) -> int:
        """How many idempotent ids of a producer a stream recognises."""
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
