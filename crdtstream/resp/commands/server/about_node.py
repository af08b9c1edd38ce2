"""Commands about the node as a whole: ROLE, MODULE, SHUTDOWN, DEBUG, LOLWUT."""

import math
import time
from typing import Final, Protocol

from crdtstream.commands.arguments import SYNTAX_ERROR, integer
from crdtstream.commands.command import documented
from crdtstream.commands.reply import NO_REPLY, OK, CommandError, Reply, Verbatim
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand

# DEBUG SLEEP stops the whole node: peers take it for dead after seconds, so no test needs more.
SLEEP_SECONDS_MAX: Final = 60.0

MODULE_HELP: Final = (
    "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LIST",
    "    Return a list of loaded modules: there are none.",
    "HELP",
    "    Print this help.",
)
DEBUG_HELP: Final = (
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "SLEEP <seconds>",
    "    Stop the server for <seconds>, 60 at most. Decimals allowed.",
    "HELP",
    "    Print this help.",
)
SHUTDOWN_WORDS: Final = frozenset({b"save", b"nosave", b"now", b"force", b"abort"})


class Stop(Protocol):
    """Stops the node, soon."""

    def __call__(self, *, force: bool) -> bool:
        """Stop the node.

        Returns:
            False: it goes on, as it cannot be stopped, or its log cannot be written and ``force``
            is not set.
        """


class NodeCommands:
    """Commands of an operator about the node."""

    def __init__(self, replica: Replica, *, stop: Stop) -> None:
        self._replica = replica
        self._stop = stop

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"module|list": self._module_list,
            b"module|help": self._module_help,
            b"role": self._role,
            b"shutdown": self._shutdown,
            b"debug": self._debug,
            b"lolwut": self._lolwut,
        }
        return documented(SessionCommand, functions)

    def _role(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ROLE: to a client of one region it is a master without replicas."""
        return [b"master", applied_effects(self._replica), []]

    def _module_list(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MODULE LIST: none."""
        return []

    def _module_help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MODULE HELP."""
        return help_reply(MODULE_HELP)

    def _lolwut(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """LOLWUT [VERSION n …]: the version, and no picture."""
        if len(argv) > 2 and argv[1].lower() == b"version":
            integer(argv[2])
        return Verbatim(f"crdtstream\nRedis ver. {self._replica.redis_version}\n".encode())

    def _shutdown(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]: stop as on SIGTERM; no reply but an error.

        Acknowledged writes are in the log already, so SAVE, NOSAVE and NOW change nothing.  FORCE
        also stops a node whose log cannot be written.  It begins at once, so there is never one
        under way that ABORT could stop.
        """
        words = [word.lower() for word in argv[1:]]
        if (
            not SHUTDOWN_WORDS.issuperset(words)
            or {b"save", b"nosave"} <= set(words)
            or (b"abort" in words and len(words) > 1)
        ):
            raise CommandError(SYNTAX_ERROR)
        if b"abort" in words:
            raise CommandError("ERR No shutdown in progress.")
        if not self._stop(force=b"force" in words):
            raise CommandError("ERR Errors trying to SHUTDOWN. Check logs.")
        session.closing = True
        return NO_REPLY

    def _debug(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """DEBUG SLEEP seconds: for rehearsals.  The node does nothing at all, so other regions take
        the link for broken if it lasts longer than their patience."""
        match argv[1].lower(), argv[2:]:
            case b"help", []:
                return help_reply(DEBUG_HELP)
            case b"sleep", [text]:
                time.sleep(_seconds(text))
                return OK
            case _:
                raise bad_subcommand(argv)


def applied_effects(replica: Replica) -> int:
    """Number of effects of all regions applied here: the nearest thing to Redis's offset."""
    return sum(replica.vv.values())


def _seconds(text: bytes) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise CommandError("ERR value is not a valid float")
    if not 0 <= seconds <= SLEEP_SECONDS_MAX:
        raise CommandError(f"ERR DEBUG SLEEP takes 0 to {SLEEP_SECONDS_MAX:.0f} seconds")
    return seconds
