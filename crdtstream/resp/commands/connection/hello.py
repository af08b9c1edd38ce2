"""Commands about the connection itself: HELLO, AUTH, PING and the like."""

import hmac
from collections.abc import Callable
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, only_database, parse_i64, shown
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, CommandError, Reply, RespMap, Status
from crdtstream.core.ids import Millis
from crdtstream.database.database import Database
from crdtstream.database.session import (
    RESP2,
    RESP3,
    RunSessionCommand,
    Session,
    SessionCommand,
    Talk,
)

DEFAULT_USER: Final = b"default"

WRONG_PASSWORD: Final = "WRONGPASS invalid username-password pair or user is disabled."
NO_PASSWORD_SET: Final = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)
HELLO_WANTS_AUTH: Final = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
    "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
    "protocol version at the same time"
)
BAD_NAME: Final = "ERR Client names cannot contain spaces, newlines or special characters."


def is_name(text: bytes) -> bool:
    """Whether CLIENT LIST can show it: printable, without blanks."""
    return all(0x21 <= byte <= 0x7E for byte in text)


class ConnectionCommands:
    """Who a client is and how it wants to talk.

    Args:
        password: of the user ``default``, the only one; empty: none is asked for.
        on_reset: forgets what a client is to the server besides its session (RESET).
    """

    def __init__(
        self, database: Database, password: bytes, *, on_reset: Callable[[Session], None]
    ) -> None:
        self._database = database
        self._password = password
        self._on_reset = on_reset

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"ping": self._ping,
            b"echo": self._echo,
            b"hello": self._hello,
            b"auth": self._auth,
            b"select": self._select,
            b"quit": self._quit,
            b"reset": self._reset,
        }
        return documented(SessionCommand, functions)

    def _ping(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """PING [message]; a RESP2 client that listens to a channel expects the shape of one."""
        if len(argv) > 2:
            raise CommandError("ERR wrong number of arguments for 'ping' command")
        if session.subscriptions and session.protocol == RESP2:
            return [b"pong", argv[1] if len(argv) == 2 else b""]
        return PONG if len(argv) == 1 else argv[1]

    def _echo(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ECHO message."""
        return argv[1]

    def _select(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """SELECT 0: there is one database."""
        only_database(argv[1])
        return OK

    def _quit(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """QUIT: the last reply, then the server hangs up."""
        session.closing = True
        return OK

    def _reset(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """RESET: as if the client had just connected."""
        self._database.end_transaction(session)
        self._database.channels.forget(session)
        session.given = None
        self._on_reset(session)
        session.name = b""
        session.protocol = RESP2
        session.talk = Talk.ON
        session.authenticated = not self._password
        return Status(b"RESET")

    def _auth(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """AUTH [user] password."""
        if len(argv) > 3:
            raise CommandError(SYNTAX_ERROR)
        if len(argv) == 2 and not self._password:
            raise CommandError(NO_PASSWORD_SET)
        user = argv[1] if len(argv) == 3 else DEFAULT_USER
        self._authenticate(session, user, argv[-1])
        return OK

    def _authenticate(self, session: Session, user: bytes, password: bytes) -> None:
        is_right = not self._password or hmac.compare_digest(password, self._password)
        if user != DEFAULT_USER or not is_right:
            raise CommandError(WRONG_PASSWORD)
        session.authenticated = True

    def _hello(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """HELLO [2|3 [AUTH user password] [SETNAME name]]: choose the protocol."""
        protocol = session.protocol
        if len(argv) > 1:
            version = parse_i64(argv[1])
            if version is None:
                raise CommandError("ERR Protocol version is not an integer or out of range")
            if version not in (RESP2, RESP3):
                raise CommandError("NOPROTO unsupported protocol version")
            protocol = version
        login, name = _hello_options(argv)
        if login is not None:
            self._authenticate(session, *login)
        if not session.authenticated:
            raise CommandError(HELLO_WANTS_AUTH)
        if name is not None:
            session.name = name
        session.protocol = protocol
        return RespMap(
            [
                (b"server", b"redis"),
                (b"version", str(self._database.replica.redis_version).encode()),
                (b"proto", protocol),
                (b"id", session.id),
                (b"mode", b"standalone"),
                (b"role", b"master"),
                (b"modules", []),
            ]
        )


PONG: Final = Status(b"PONG")


def _hello_options(argv: list[bytes]) -> tuple[tuple[bytes, bytes] | None, bytes | None]:
    """(user, password) and the name, each None if not given."""
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 2
    while at < len(argv):
        match argv[at].lower(), len(argv) - 1 - at:
            case b"auth", more if more >= 2:
                login = argv[at + 1], argv[at + 2]
                at += 3
            case b"setname", more if more >= 1:
                name = argv[at + 1]
                if not is_name(name):
                    raise CommandError(BAD_NAME)
                at += 2
            case _:
                raise CommandError(f"ERR Syntax error in HELLO option '{shown(argv[at])}'")
    return login, name
