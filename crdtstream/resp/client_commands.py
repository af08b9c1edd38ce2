"""CLIENT: names, lists, and what one client may do to another."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from crdtstream.commands.arguments import I64_MAX, SYNTAX_ERROR, integer, parse_i64, shown
from crdtstream.commands.reply import OK, CommandError, Reply, Verbatim
from crdtstream.commands.session import RunSessionCommand, Session, SessionCommand, Talk
from crdtstream.core.ids import Millis
from crdtstream.resp.connection import Connection
from crdtstream.resp.connection_commands import BAD_NAME, DEFAULT_USER, is_name
from crdtstream.resp.containers import container, help_reply

if TYPE_CHECKING:
    from crdtstream.resp.server import RespServer

HELP: Final = (
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "GETREDIR",
    "    Return -1: tracking is not supported.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are ADDR, LADDR, ID, TYPE, USER, SKIPME.",
    "LIST [TYPE NORMAL] [ID <id> ...]",
    "    Return information about client connections.",
    "NO-EVICT (ON|OFF)",
    "    Accepted; there is no eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Accepted; there is no eviction.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are LIB-NAME, LIB-VER.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "HELP",
    "    Print this help.",
)
CLIENT_TYPES: Final = frozenset({b"normal", b"master", b"replica", b"slave", b"pubsub"})

Filter = Callable[[Connection], bool]


class ClientCommands:
    """CLIENT and its subcommands."""

    def __init__(self, server: "RespServer") -> None:
        self._server = server

    def commands(self) -> list[SessionCommand]:
        rows: tuple[tuple[bytes, RunSessionCommand, int, str], ...] = (
            (b"id", self._id, 2, "5.0.0"),
            (b"getname", self._getname, 2, "2.6.9"),
            (b"setname", self._setname, 3, "2.6.9"),
            (b"setinfo", self._setinfo, 4, "7.2.0"),
            (b"info", self._info, 2, "6.2.0"),
            (b"list", self._list, -2, "2.4.0"),
            (b"unblock", self._unblock, -3, "5.0.0"),
            (b"kill", self._kill, -3, "2.4.0"),
            (b"reply", self._reply, 3, "3.2.0"),
            (b"no-evict", self._on_or_off, 3, "7.0.0"),
            (b"no-touch", self._on_or_off, 3, "7.2.0"),
            (b"tracking", self._tracking, -3, "6.0.0"),
            (b"getredir", self._getredir, 2, "6.0.0"),
            (b"help", self._help, 2, "5.0.0"),
        )
        return container(b"client", "connection", "2.4.0", rows)

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
            raise CommandError(f"ERR Unrecognized option '{shown(argv[2])}'")
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

    def _on_or_off(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """NO-EVICT, NO-TOUCH: nothing is ever evicted, so this is so whatever the client says."""
        if argv[2].lower() not in (b"on", b"off"):
            raise CommandError(SYNTAX_ERROR)
        return OK

    def _tracking(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT TRACKING OFF.  ON is refused: a cache that is told of nothing would go stale."""
        match argv[2].lower():
            case b"off":
                return OK
            case b"on":
                raise CommandError("ERR client-side caching is not supported by this server")
            case _:
                raise CommandError(SYNTAX_ERROR)

    def _getredir(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        return -1

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        return help_reply(HELP)

    # --- About others -------------------------------------------------------------------------

    def _info(self, session: Session, now: Millis, _argv: list[bytes]) -> Reply:
        connection = self._server.connections[session.id]
        return Verbatim(self._describe(connection, now) + b"\n")

    def _list(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT LIST [TYPE type] [ID id …], by id."""
        chosen: list[Filter] = []
        at = 2
        while at < len(argv):
            option = argv[at].lower()
            if option == b"type" and at + 1 < len(argv):
                chosen.append(_of_type(argv[at + 1]))
                at += 2
            elif option == b"id" and at + 1 < len(argv):
                chosen.append(_of_ids(argv[at + 1 :]))
                at = len(argv)
            else:
                raise CommandError(SYNTAX_ERROR)
        lines = [self._describe(connection, now) + b"\n" for connection in self._choose(chosen)]
        return Verbatim(b"".join(lines))

    def _unblock(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT UNBLOCK id [TIMEOUT|ERROR]: 1 if it was blocked."""
        reason = argv[3].lower() if len(argv) == 4 else b"timeout"
        if reason not in (b"timeout", b"error") or len(argv) > 4:
            raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        session_id = integer(argv[2])
        served = self._server.database.unblock(session_id, with_error=reason == b"error")
        if served is None:
            return 0
        self._server.connections[session_id].deliver(served[1])
        return 1

    def _kill(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """CLIENT KILL addr, or CLIENT KILL option value …: how many; OK in the old form."""
        if len(argv) == 3:
            victims = list(self._choose([lambda connection: connection.address == shown(argv[2])]))
            if not victims:
                raise CommandError("ERR No such client")
            self._hang_up(victims, session)
            return OK
        if len(argv) % 2:
            raise CommandError(SYNTAX_ERROR)
        spares_me = True
        chosen: list[Filter] = []
        for option, value in zip(argv[2::2], argv[3::2], strict=True):
            if option.lower() == b"skipme":
                if value.lower() not in (b"yes", b"no"):
                    raise CommandError(SYNTAX_ERROR)
                spares_me = value.lower() == b"yes"
            else:
                chosen.append(_kill_filter(option.lower(), value))
        victims = [
            connection
            for connection in self._choose(chosen)
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
        for _, connection in sorted(self._server.connections.items()):
            if all(accepts(connection) for accepts in filters):
                yield connection

    def _describe(self, connection: Connection, now: Millis) -> bytes:
        """One line of CLIENT LIST; the fields are Redis's, those without meaning here are 0."""
        session = connection.session
        blocked = self._server.database.is_waiting(session)
        flags = "b" * blocked + "x" * (session.queue is not None) + "d" * session.dirty
        pairs = (
            ("id", session.id),
            ("addr", connection.address),
            ("laddr", connection.local_address),
            ("fd", connection.fd),
            ("name", shown(session.name)),
            ("age", max(0, now - connection.connected_ms) // 1000),
            ("idle", max(0, now - connection.active_ms) // 1000),
            ("flags", flags or "N"),
            ("db", 0),
            ("sub", 0),
            ("psub", 0),
            ("ssub", 0),
            ("multi", -1 if session.queue is None else len(session.queue)),
            ("watch", len(session.watched)),
            ("qbuf", connection.held_bytes),
            ("qbuf-free", 0),
            ("argv-mem", 0),
            ("multi-mem", 0),
            ("rbs", 0),
            ("rbp", 0),
            ("obl", 0),
            ("oll", 0),
            ("omem", connection.unsent_bytes),
            ("tot-mem", connection.held_bytes + connection.unsent_bytes),
            ("events", "r"),
            ("cmd", shown(session.last_command)),
            ("user", shown(DEFAULT_USER)),
            ("redir", -1),
            ("resp", session.protocol),
            ("lib-name", shown(session.library.get(b"lib-name", b""))),
            ("lib-ver", shown(session.library.get(b"lib-ver", b""))),
            ("io-thread", 0),
            ("tot-net-in", connection.bytes_in),
            ("tot-net-out", connection.bytes_out),
            ("tot-cmds", connection.commands),
        )
        return " ".join(f"{name}={value}" for name, value in pairs).encode()


def _client_id(text: bytes) -> int:
    client_id = parse_i64(text)
    if client_id is None or not 0 < client_id <= I64_MAX:
        raise CommandError("ERR Invalid client ID")
    return client_id


def _of_ids(texts: list[bytes]) -> Filter:
    ids = {_client_id(text) for text in texts}
    return lambda connection: connection.session.id in ids


def _of_type(text: bytes) -> Filter:
    kind = text.lower()
    if kind not in CLIENT_TYPES:
        raise CommandError(f"ERR Unknown client type '{shown(text)}'")
    return lambda _connection: kind == b"normal"


def _kill_filter(option: bytes, value: bytes) -> Filter:
    text = shown(value)
    match option:
        case b"id":
            client_id = parse_i64(value)
            if client_id is None or client_id <= 0:
                raise CommandError("ERR client-id should be greater than 0")
            return lambda connection: connection.session.id == client_id
        case b"addr":
            return lambda connection: connection.address == text
        case b"laddr":
            return lambda connection: connection.local_address == text
        case b"type":
            return _of_type(value)
        case b"user":
            if value != DEFAULT_USER:
                raise CommandError(f"ERR No such user '{text}'")
            return lambda _connection: True
        case _:
            raise CommandError(SYNTAX_ERROR)
