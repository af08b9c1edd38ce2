"""ACL, as far as there is something to tell: one user, who may do everything."""

import hashlib
from typing import Final

from crdtstream.commands.arguments import integer
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, Reply, RespMap, RespSet
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.resp.commands.connection.hello import DEFAULT_USER

HELP: Final = (
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETUSER <username>",
    "    Get the user's details.",
    "LIST",
    "    Show users details in config file format.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries: there are none.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
)


class AclCommands:
    """ACL and its subcommands.

    Args:
        password: of the user ``default``; empty: none is asked for.
    """

    def __init__(self, password: bytes) -> None:
        self._password_hashes = [hashlib.sha256(password).hexdigest().encode()] if password else []

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"acl|getuser": self._getuser,
            b"acl|list": self._list,
            b"acl|log": self._log,
            b"acl|users": self._users,
            b"acl|whoami": self._whoami,
            b"acl|help": self._help,
        }
        return documented(SessionCommand, functions)

    def _whoami(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL WHOAMI."""
        return DEFAULT_USER

    def _users(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL USERS."""
        return [DEFAULT_USER]

    def _list(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL LIST: the user as a line of a configuration."""
        hashes = [b"#" + password_hash for password_hash in self._password_hashes]
        words = [b"user", DEFAULT_USER, *self._flags(), *hashes, b"~*", b"&*", b"+@all"]
        return [b" ".join(words)]

    def _log(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL LOG [count | RESET]: the one user may do everything, so nothing is refused."""
        if len(argv) > 3:
            raise bad_subcommand(argv)
        if len(argv) == 3:
            if argv[2].lower() == b"reset":
                return OK
            integer(argv[2])
        return []

    def _getuser(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL GETUSER name: null for one that does not exist."""
        if argv[2] != DEFAULT_USER:
            return None
        return RespMap(
            [
                (b"flags", RespSet([*self._flags()])),
                (b"passwords", [*self._password_hashes]),
                (b"commands", b"+@all"),
                (b"keys", b"~*"),
                (b"channels", b"&*"),
                (b"selectors", []),
            ]
        )

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL HELP."""
        return help_reply(HELP)

    def _flags(self) -> list[bytes]:
        return [b"on", *([] if self._password_hashes else [b"nopass"]), b"sanitize-payload"]
