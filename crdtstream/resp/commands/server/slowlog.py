"""SLOWLOG: the last commands that took long, newest first.

The time is that of the command itself, without the wait of a blocked one or of the disk.

Always so: no more than ``length_max`` commands are kept, and of each no more than ARGUMENTS_MAX
arguments of ARGUMENT_BYTES_MAX bytes.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final

from crdtstream.commands.arguments import parse_i64
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.resp.commands.server.redaction import without_secrets

ARGUMENTS_MAX: Final = 32
ARGUMENT_BYTES_MAX: Final = 128
COUNT_DEFAULT: Final = 10

HELP: Final = (
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Print this help.",
)


@dataclass(frozen=True, slots=True)
class SlowCall:
    """One line of the log; ``arguments`` shortened already."""

    id: int
    unix_s: int
    usec: int
    arguments: list[bytes]
    address: bytes
    client_name: bytes


class Slowlog:
    """The log and its commands.

    Attributes:
        slower_than_us: least duration of logged commands; 0: all are logged; -1: none.
        length_max: how many are kept.
    """

    def __init__(self, *, slower_than_us: int, length_max: int) -> None:
        self.slower_than_us = slower_than_us
        self._calls: deque[SlowCall] = deque(maxlen=length_max)
        self._id = 0

    @property
    def length_max(self) -> int:
        length_max = self._calls.maxlen
        assert length_max is not None
        return length_max

    @length_max.setter
    def length_max(self, length_max: int) -> None:
        self._calls = deque(islice(self._calls, length_max), maxlen=length_max)

    @property
    def threshold_ns(self) -> int | None:
        """None: nothing is logged."""
        return self.slower_than_us * 1000 if self.slower_than_us >= 0 else None

    def note(
        self, argv: list[bytes], *, usec: int, unix_s: int, address: str, client_name: bytes
    ) -> None:
        """A command took ``usec``; it is logged if that is long enough."""
        if not 0 <= self.slower_than_us <= usec:
            return
        arguments = shortened(without_secrets(argv))
        call = SlowCall(self._id, unix_s, usec, arguments, address.encode(), client_name)
        self._calls.appendleft(call)
        self._id += 1

    def calls(self) -> list[SlowCall]:
        """The newest first."""
        return list(self._calls)

    # --- Commands -----------------------------------------------------------------------------

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"slowlog|get": self._get,
            b"slowlog|len": self._len,
            b"slowlog|reset": self._reset,
            b"slowlog|help": self._help,
        }
        return documented(SessionCommand, functions)

    def _get(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """SLOWLOG GET [count]: the newest first."""
        if len(argv) > 3:
            raise bad_subcommand(argv)
        count = parse_i64(argv[2]) if len(argv) == 3 else COUNT_DEFAULT
        if count is None or count < -1:
            raise CommandError("ERR count should be greater than or equal to -1")
        return [
            [
                call.id,
                call.unix_s,
                call.usec,
                [*call.arguments],
                call.address,
                call.client_name,
            ]
            for call in islice(self._calls, None if count == -1 else count)
        ]

    def _len(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """SLOWLOG LEN."""
        return len(self._calls)

    def _reset(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """SLOWLOG RESET: forget all calls; ids still count up."""
        self._calls.clear()
        return OK

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """SLOWLOG HELP."""
        return help_reply(HELP)


def shortened(argv: list[bytes]) -> list[bytes]:
    """The arguments in Redis's short form, which says how much is left out."""
    if len(argv) > ARGUMENTS_MAX:
        shown = [_shortened(argument) for argument in argv[: ARGUMENTS_MAX - 1]]
        return [*shown, b"... (%d more arguments)" % (len(argv) - ARGUMENTS_MAX + 1)]
    return [_shortened(argument) for argument in argv]


def _shortened(argument: bytes) -> bytes:
    rest = len(argument) - ARGUMENT_BYTES_MAX
    if rest <= 0:
        return argument
    return argument[:ARGUMENT_BYTES_MAX] + b"... (%d more bytes)" % rest
