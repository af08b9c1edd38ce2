"""Commands about the connection itself: HELLO, AUTH, PING and the like."""

from collections.abc import Callable
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, as_sent, only_database, parse_i64
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, CommandError, Reply, RespMap, Status
from crdtstream.core.ids import Millis
from crdtstream.database.acl.log import Context, Refused
from crdtstream.database.acl.selectors import Reason
from crdtstream.database.acl.users import DEFAULT_USER
from crdtstream.database.database import Database
from crdtstream.database.session import (
    RESP2,
    RESP3,
    RunSessionCommand,
    Session,
    SessionCommand,
    Talk,
)
from crdtstream.resp.clients.waiting_logins import WaitingLogins

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
    """True if CLIENT LIST can show it: printable, without blanks."""
    return all(0x21 <= byte <= 0x7E for byte in text)


class ConnectionCommands:
    """Commands about a client's identity and protocol.

    Args:
        logins: has attempts to log in wait where others were wrong.
        on_reset: drops what the server keeps of a client besides its session (RESET); called when
            the session is as it is after that.
        on_wrong: notes a wrong login, and the name of its user (ACL LOG).
    """

    def __init__(
        self,
        database: Database,
        logins: WaitingLogins,
        *,
        on_reset: Callable[[Session], None],
        on_wrong: Callable[[Session, Refused], None],
    ) -> None:
        self._database = database
        self._users = database.users
        self._logins = logins
        self._on_reset = on_reset
        self._on_wrong = on_wrong

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
        session.name = b""
        session.protocol = RESP2
        session.talk = Talk.ON
        session.user = self._users.default
        session.authenticated = not self._users.ask
        # The server looks at whether the client has to log in again.
        self._on_reset(session)
        return Status(b"RESET")

    def _auth(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """AUTH [user] password."""
        if len(argv) > 3:
            raise CommandError(SYNTAX_ERROR)
        if len(argv) == 2 and self._users.default.is_nopass:
            raise CommandError(NO_PASSWORD_SET)
        name = argv[1] if len(argv) == 3 else DEFAULT_USER
        self._log_in(session, name, argv[-1], argv[0])
        return OK

    def _log_in(self, session: Session, name: bytes, password: bytes, command: bytes) -> None:
        """Give a client the rights of a user.

        Raises:
            CommandError: the name or the password is wrong, or the user is off.
            PostponedError: wrong ones came from its address, so it waits.
        """
        digest = self._logins.digest_of(name, password)
        self._logins.admit(session, digest)
        user = self._users.log_in(name, password)
        if user is None:
            self._logins.note_wrong(session, digest)
            context = Context.MULTI if session.in_exec else Context.TOPLEVEL
            self._on_wrong(session, Refused(Reason.AUTH, context, command, name))
            raise CommandError(WRONG_PASSWORD)
        session.user = user
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
            self._log_in(session, login[0], login[1], argv[0])
        if not session.authenticated and self._users.ask:
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
                raise CommandError(f"ERR Syntax error in HELLO option '{as_sent(argv[at])}'")
    return login, name
