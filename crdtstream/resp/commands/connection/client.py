"""CLIENT: names, lists, and what one client may do to another."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from crdtstream.commands.arguments import SYNTAX_ERROR, as_sent, integer, shown, timeout_ms
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, CommandError, Reply, RespMap, RespSet, Verbatim
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.admission import Pause
from crdtstream.database.database import Database
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand, Talk
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.clients.pause import ClientPause
from crdtstream.resp.commands.connection.client_list import (
    Filter,
    describe,
    kill_filter,
    of_ids,
    of_type,
)
from crdtstream.resp.commands.connection.hello import BAD_NAME, is_name

HELP: Final = (
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CACHING (YES|NO)",
    "    YES is refused: no invalidation messages are sent.",
    "GETREDIR",
    "    Return 0 with tracking, -1 without; nothing is redirected.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "    * ID <client-id>",
    "      Kill connections by client id.",
    "    * MAXAGE <maxage>",
    "      Kill connections older than the specified age.",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "    * ID <client-id> [<client-id> ...]",
    "      Return clients of these ids.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    ON is accepted with OPTIN only, as no invalidation messages are sent.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Accepted; no key is ever evicted.",
    "HELP",
    "    Print this help.",
)
NO_CACHING: Final = (
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
    "OPTOUT mode enabled"
)
NO_CACHING_NO: Final = (
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
)
NO_CACHING_YES: Final = (
    "ERR client-side caching is not supported by this server: no invalidation would be sent. "
    "Read without the cache"
)
# Options of CLIENT TRACKING: those alone, and those with a value.
TRACKING_WORDS: Final = frozenset({b"bcast", b"optin", b"optout", b"noloop"})
TRACKING_PAIRS: Final = frozenset({b"redirect", b"prefix"})
NOT_OPTIN: Final = (
    "ERR client-side caching is not supported by this server: TRACKING ON is accepted with OPTIN "
    "only. Turn the client's cache off"
)


class Unblock(Protocol):
    """Ends the waiting of a client."""

    def __call__(self, session_id: int, *, with_error: bool) -> bool: ...


class ClientCommands:
    """CLIENT and its subcommands.

    Args:
        connections: all clients, by session id; they come and go.
        is_monitor: True for a client that watches the commands of others (MONITOR).
        unblock: ends the waiting of the client with this id; returns whether it waited.
    """

    def __init__(
        self,
        database: Database,
        connections: Mapping[int, Connection],
        pause: ClientPause,
        *,
        is_monitor: Callable[[Session], bool],
        unblock: Unblock,
    ) -> None:
        self._database = database
        self._connections = connections
        self._clients_pause = pause
        self._is_monitor = is_monitor
        self._unblock_client = unblock

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"client|id": self._id,
            b"client|getname": self._getname,
            b"client|setname": self._setname,
            b"client|setinfo": self._setinfo,
            b"client|info": self._info,
            b"client|list": self._list,
            b"client|unblock": self._unblock,
            b"client|kill": self._kill,
            b"client|reply": self._reply,
            b"client|no-evict": self._no_evict,
            b"client|no-touch": self._no_touch,
            b"client|pause": self._pause,
            b"client|unpause": self._unpause,
            b"client|tracking": self._tracking,
            b"client|trackinginfo": self._trackinginfo,
            b"client|caching": self._caching,
            b"client|getredir": self._getredir,
            b"client|help": self._help,
        }
        return documented(SessionCommand, functions)

    # --- About oneself ------------------------------------------------------------------------

    def _id(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        return session.id

    def _getname(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        return session.name or None

    def _setname(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        if not is_name(argv[2]):
            raise CommandError(BAD_NAME)
        session.name = argv[2]
        return OK

    def _setinfo(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT SETINFO LIB-NAME|LIB-VER value; client libraries send it when they connect."""
        option = argv[2].lower()
        if option not in (b"lib-name", b"lib-ver"):
            raise CommandError(f"ERR Unrecognized option '{as_sent(argv[2])}'")
        if not is_name(argv[3]):
            raise CommandError(
                f"ERR {option.decode()} cannot contain spaces, newlines or special characters."
            )
        session.library[option] = argv[3]
        return OK

    def _reply(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        talk = {b"on": Talk.ON, b"off": Talk.OFF, b"skip": Talk.SKIP_NEXT}.get(argv[2].lower())
        if talk is None:
            raise CommandError(SYNTAX_ERROR)
        # After OFF, SKIP has nothing to add.
        if talk is not Talk.SKIP_NEXT or session.talk is not Talk.OFF:
            session.talk = talk
        return OK

    def _no_evict(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT NO-EVICT ON|OFF: whether ``maxmemory-clients`` may end this client."""
        self._connections[session.id].no_evict = _is_on(argv[2])
        return OK

    def _no_touch(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT NO-TOUCH ON|OFF: no key is ever evicted, so touches are not counted."""
        self._connections[session.id].no_touch = _is_on(argv[2])
        return OK

    def _tracking(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT TRACKING ON OPTIN [NOLOOP], or OFF.

        With OPTIN a client is told of nothing before it says CLIENT CACHING YES, which is refused:
        clients that ask for it as they connect can do so.  Any other ON is refused: without
        invalidations a cache would go stale.
        """
        at = 3
        words = set()
        while at < len(argv):
            word = argv[at].lower()
            if word in TRACKING_WORDS:
                at += 1
            elif word in TRACKING_PAIRS and at + 1 < len(argv):
                at += 2
            else:
                raise CommandError(SYNTAX_ERROR)
            words.add(word)
        is_on = _is_on(argv[2])
        if is_on and not {b"optin"} <= words <= {b"optin", b"noloop"}:
            raise CommandError(NOT_OPTIN)
        self._connections[session.id].is_tracking = is_on
        return OK

    def _trackinginfo(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CLIENT TRACKINGINFO: it is off, or nothing was opted in."""
        is_tracking = self._connections[session.id].is_tracking
        flags: list[Reply] = [b"on", b"optin"] if is_tracking else [b"off"]
        return RespMap(
            [
                (b"flags", RespSet(flags)),
                (b"redirect", 0 if is_tracking else -1),
                (b"prefixes", []),
            ],
        )

    def _caching(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT CACHING YES|NO: always refused."""
        if not self._connections[session.id].is_tracking:
            raise CommandError(NO_CACHING)
        match argv[2].lower():
            case b"yes":
                raise CommandError(NO_CACHING_YES)
            case b"no":
                raise CommandError(NO_CACHING_NO)
            case _:
                raise CommandError(SYNTAX_ERROR)

    def _getredir(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        return 0 if self._connections[session.id].is_tracking else -1

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        return help_reply(HELP)

    # --- About others -------------------------------------------------------------------------

    def _info(self, session: Session, now: Millis, _argv: list[bytes]) -> Reply:
        return Verbatim(self._line(self._connections[session.id], now))

    def _list(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT LIST [TYPE type | ID id …], by id."""
        chosen: list[Filter]
        match argv[2:]:
            case []:
                chosen = []
            case [option, kind] if option.lower() == b"type":
                chosen = [of_type(kind)]
            case [option, *ids] if option.lower() == b"id" and ids:
                chosen = [of_ids(ids)]
            case _:
                raise CommandError(SYNTAX_ERROR)
        lines = [self._line(connection, now) for connection in self._choose(chosen)]
        return Verbatim(b"".join(lines))

    def line_of(self, session: Session, now: Millis) -> bytes:
        """A client as CLIENT INFO shows it; empty if it has no connection."""
        connection = self._connections.get(session.id)
        return b"" if connection is None else self._line(connection, now).rstrip(b"\n")

    def _line(self, connection: Connection, now: Millis) -> bytes:
        is_monitor = self._is_monitor(connection.session)
        return describe(self._database, connection, now, is_monitor=is_monitor) + b"\n"

    def _unblock(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT UNBLOCK id [TIMEOUT|ERROR]: 1 if it was blocked."""
        _refuse_more_than(4, argv)
        reason = argv[3].lower() if len(argv) == 4 else b"timeout"
        if reason not in (b"timeout", b"error"):
            raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        session_id = integer(argv[2])
        return int(self._unblock_client(session_id, with_error=reason == b"error"))

    def _pause(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT PAUSE ms [WRITE|ALL]: stop what writes, or every command, of all clients.

        Clients notice it only by waiting: their requests are kept, and run when the time has
        expired, or after CLIENT UNPAUSE (which a pause of ALL stops, too).  Wrong requests are
        answered.
        """
        _refuse_more_than(4, argv)
        pause = {b"write": Pause.WRITE, b"all": Pause.ALL}.get(
            argv[3].lower() if len(argv) == 4 else b"all"
        )
        if pause is None:
            raise CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
        self._clients_pause.begin(pause, timeout_ms(argv[2], now))
        return OK

    def _unpause(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """CLIENT UNPAUSE: everyone goes on."""
        self._clients_pause.end()
        return OK

    def _kill(self, session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT KILL addr, or CLIENT KILL option value …: how many; OK in the old form.

        All options must hold; if one is given twice the later counts, as in Redis.
        """
        if len(argv) == 3:
            victims = list(self._choose([lambda connection: connection.address == shown(argv[2])]))
            if not victims:
                raise CommandError("ERR No such client")
            self._hang_up(victims, session)
            return OK
        if len(argv) % 2:
            raise CommandError(SYNTAX_ERROR)
        spares_me = True
        chosen: dict[bytes, Filter] = {}
        for option, value in zip(argv[2::2], argv[3::2], strict=True):
            if option.lower() == b"skipme":
                if value.lower() not in (b"yes", b"no"):
                    raise CommandError(SYNTAX_ERROR)
                spares_me = value.lower() == b"yes"
            else:
                chosen[option.lower()] = kill_filter(
                    option.lower(), value, now, self._database.users
                )
        victims = [
            connection
            for connection in self._choose(list(chosen.values()))
            if not (spares_me and connection.session is session)
        ]
        self._hang_up(victims, session)
        return len(victims)

    def _hang_up(self, victims: list[Connection], caller: Session) -> None:
        for connection in victims:
            if connection.session is caller:
                caller.closing = True
            else:
                connection.abort()

    def _choose(self, filters: list[Filter]) -> Iterator[Connection]:
        for _, connection in sorted(self._connections.items()):
            if all(accepts(connection) for accepts in filters):
                yield connection


def _is_on(text: bytes) -> bool:
    if text.lower() not in (b"on", b"off"):
        raise CommandError(SYNTAX_ERROR)
    return text.lower() == b"on"


def _refuse_more_than(count: int, argv: list[bytes]) -> None:
    if len(argv) > count:
        raise bad_subcommand(argv)
