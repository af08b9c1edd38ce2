"""The options of XREAD and XREADGROUP, and how much one reply may hold."""

from dataclasses import dataclass, field
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, integer, parse_i64, timeout_ms
from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis

# What a stream costs in a reply besides its entries and its key: the framing, with long counts.
STREAM_FRAMING_BYTES: Final = 24


class Budget:
    """What MAXCOUNT and MAXSIZE leave of one reply, over all its streams.

    MAXSIZE counts the reply's own bytes, framing included, as RESP2 has it (RESP3 differs by a
    few); a stream counts with its first entry.  The first entry of all is always within it: a
    reader whose entry is too large gets on.
    """

    __slots__ = ("_bytes_left", "_count_left", "_framing_bytes", "_is_empty", "is_spent")

    def __init__(self, maxcount: int | None, maxsize: int | None) -> None:
        self._count_left = maxcount
        self._bytes_left = maxsize
        self._framing_bytes = 0
        self._is_empty = True
        self.is_spent = False

    def begin_stream(self, key: bytes) -> None:
        """The entries that follow are of this key."""
        self._framing_bytes = len(key) + STREAM_FRAMING_BYTES

    def take(self, entry: bytes) -> bool:
        """Whether there is room for one more entry.  When it is spent nothing more is taken."""
        if self.is_spent:
            return False
        if self._bytes_left is not None:
            self._bytes_left -= self._framing_bytes + len(entry)
            self._framing_bytes = 0
            if self._bytes_left < 0 and not self._is_empty:
                self.is_spent = True
                return False
        self._is_empty = False
        if self._count_left is not None:
            self._count_left -= 1
            self.is_spent = self._count_left == 0
        return True


@dataclass(slots=True)
class ReadOptions:
    """What stands before STREAMS, and the keys and IDs behind it.

    Attributes:
        count: entries per stream; None is without limit, as are ``maxcount`` and ``maxsize``.
        claim_ms: CLAIM: pending entries that have been idle for so long come first.
    """

    count: int | None = None
    maxcount: int | None = None
    maxsize: int | None = None
    block_ms: int | None = None
    group: bytes | None = None
    consumer: bytes = b""
    noack: bool = False
    claim_ms: int | None = None
    keys: list[bytes] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)

    def budget(self) -> Budget | None:
        """A fresh one for a reply; None if only COUNT limits it."""
        if self.maxcount is None and self.maxsize is None:
            return None
        return Budget(self.maxcount, self.maxsize)


def parse_read(argv: list[bytes], now: Millis, *, command: str) -> ReadOptions:
    """The arguments of XREAD or XREADGROUP; of an option given twice the last counts."""
    options = ReadOptions()
    at = 1
    while at < len(argv):
        more = len(argv) - 1 - at
        taken = 2
        match argv[at].lower():
            case b"streams" if more:
                _take_streams(options, argv[at + 1 :], command)
                return options
            case b"group" if more >= 2:
                _only_xreadgroup(command, "GROUP")
                options.group, options.consumer = argv[at + 1 : at + 3]
                taken = 3
            case b"count" if more:
                # 0 and less: no limit.
                options.count = max(0, integer(argv[at + 1])) or None
            case b"block" if more:
                options.block_ms = timeout_ms(argv[at + 1], now)
            case b"noack":
                _only_xreadgroup(command, "NOACK")
                options.noack = True
                taken = 1
            case b"claim" if more:
                _only_xreadgroup(command, "CLAIM")
                options.claim_ms = _min_idle_ms(argv[at + 1])
            case b"maxcount" if more:
                options.maxcount = _positive(argv[at + 1], "MAXCOUNT")
            case b"maxsize" if more:
                options.maxsize = _positive(argv[at + 1], "MAXSIZE")
            case _:
                raise CommandError(SYNTAX_ERROR)
        at += taken
    raise CommandError(SYNTAX_ERROR)


def _take_streams(options: ReadOptions, arguments: list[bytes], command: str) -> None:
    if len(arguments) & 1:
        special = "'+', or '$'" if command == "XREAD" else "or '>'"
        names = "an ID, " if command == "XREAD" else "an ID "
        raise CommandError(
            f"ERR Unbalanced '{command.lower()}' list of streams: for each stream key "
            f"{names}{special} must be specified."
        )
    if options.maxcount is not None and options.maxcount < (options.count or 0):
        raise CommandError("ERR MAXCOUNT must be greater than or equal to COUNT")
    half = len(arguments) // 2
    options.keys, options.ids = arguments[:half], arguments[half:]


def _only_xreadgroup(command: str, option: str) -> None:
    if command != "XREADGROUP":
        raise CommandError(
            f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
        )


def _positive(text: bytes, option: str) -> int:
    value = parse_i64(text)
    if value is None or value < 1:
        raise CommandError(f"ERR {option} must be a positive integer")
    return value


def _min_idle_ms(text: bytes) -> int:
    value = integer(text, error="ERR min-idle-time is not an integer")
    if value < 0:
        raise CommandError("ERR min-idle-time must be a positive integer")
    return value
