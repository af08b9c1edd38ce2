"""The options of XREAD and XREADGROUP, which are the same except GROUP, NOACK and CLAIM."""

from dataclasses import dataclass
from typing import Final

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    integer,
    min_idle_ms,
    positive,
    timeout_ms,
)
from crdtstream.commands.reply import CommandError
from crdtstream.commands.streams.budget import Budget
from crdtstream.core.ids import Millis

# Words of each option before STREAMS, with its name.
_ARGUMENTS: Final = {
    b"group": 3,
    b"count": 2,
    b"block": 2,
    b"noack": 1,
    b"claim": 2,
    b"maxcount": 2,
    b"maxsize": 2,
}


@dataclass(slots=True, init=False)
class ReadOptions:
    """Options before STREAMS, and the keys and IDs behind it.

    Attributes:
        count: entries per stream; None is without limit, as are ``maxcount`` and ``maxsize``.
        claim_ms: CLAIM: pending entries that have been idle for this time come first.
    """

    count: int | None
    maxcount: int | None
    maxsize: int | None
    block_ms: int | None
    group: bytes | None
    consumer: bytes
    noack: bool
    claim_ms: int | None
    keys: list[bytes]
    ids: list[bytes]

    def __init__(self) -> None:
        self.count = None
        self.maxcount = None
        self.maxsize = None
        self.block_ms = None
        self.group = None
        self.consumer = b""
        self.noack = False
        self.claim_ms = None
        self.keys = []
        self.ids = []

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
                options.claim_ms = min_idle_ms(argv[at + 1])
            case b"maxcount" if more:
                options.maxcount = positive(argv[at + 1], "MAXCOUNT")
            case b"maxsize" if more:
                options.maxsize = positive(argv[at + 1], "MAXSIZE")
            case _:
                raise CommandError(SYNTAX_ERROR)
        at += taken
    raise CommandError(SYNTAX_ERROR)


def streams_at(argv: list[bytes]) -> int:
    """Position of the first key of XREAD or XREADGROUP, as ``parse_read`` finds it; 0: none."""
    at = 1
    while at < len(argv) - 1:
        word = argv[at].lower()
        if word == b"streams":
            return at + 1
        taken = _ARGUMENTS.get(word)
        if taken is None:
            return 0
        at += taken
    return 0


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
