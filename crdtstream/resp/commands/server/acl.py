"""ACL: the users of this region and their rights.

Source: redis.io/commands/acl and the pages of its subcommands.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from crdtstream.commands.arguments import as_sent, integer
from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, CommandError, Double, Reply, RespMap, RespSet
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.acl.known import all_categories, commands_of
from crdtstream.database.acl.lines import flags_of, line_of
from crdtstream.database.acl.log import AclLog, Context, Entry, Refused
from crdtstream.database.acl.selectors import Reason, Selector
from crdtstream.database.acl.texts import dry_run_of
from crdtstream.database.acl.users import User
from crdtstream.database.database import Database
from crdtstream.database.listening import Kind
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.resp.accounts import Accounts, AccountsError
from crdtstream.resp.clients.connection import Connection
from crdtstream.secrets.aclfiles import PushError

HELP: Final = (
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
)
BITS_DEFAULT: Final = 256
BITS_MAX: Final = 4096
BAD_BITS: Final = (
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive "
    f"number up to {BITS_MAX}"
)
# Entries that ACL LOG shows if it is not told how many.
SHOWN_DEFAULT: Final = 10


class AclCommands:
    """ACL and its subcommands.

    Args:
        connections: all clients, by session id; they come and go.
        log: refusals; filled from here.
        describe: a client as CLIENT INFO shows it.
        now: the time.
    """

    def __init__(
        self,
        database: Database,
        accounts: Accounts,
        connections: Mapping[int, Connection],
        log: AclLog,
        *,
        describe: Callable[[Session], bytes],
        now: Callable[[], Millis],
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._users = accounts.users
        self._connections = connections
        self._log_of_refusals = log
        self._describe = describe
        self._now = now
        # The client whose command changes users: it is owed a reply before it is hung up on.
        self._caller: Session | None = None
        accounts.on_change = self._hang_up
        database.on_refused = self.note_refused
        database.on_program_refused = self.note_program_refused

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"acl|cat": self._cat,
            b"acl|deluser": self._deluser,
            b"acl|dryrun": self._dryrun,
            b"acl|genpass": self._genpass,
            b"acl|getuser": self._getuser,
            b"acl|help": self._help,
            b"acl|list": self._list,
            b"acl|load": self._load,
            b"acl|log": self._log,
            b"acl|save": self._save,
            b"acl|setuser": self._setuser,
            b"acl|users": self._all,
            b"acl|whoami": self._whoami,
        }
        return documented(SessionCommand, functions)

    # --- Showing ------------------------------------------------------------------------------

    def _whoami(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL WHOAMI."""
        return session.user.name

    def _all(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL USERS."""
        return [user.name for user in self._users.all()]

    def _list(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL LIST: the users as lines of an aclfile."""
        return [line_of(user) for user in self._users.all()]

    def _getuser(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL GETUSER name: null for one that does not exist."""
        user = self._users.get(argv[2])
        if user is None:
            return None
        root, *others = user.selectors
        selectors: list[Reply] = [RespMap(_rights(selector)) for selector in others]
        fields: list[tuple[Reply, Reply]] = [
            (b"flags", RespSet([*flags_of(user)])),
            (b"passwords", [*user.hashes]),
        ]
        return RespMap([*fields, *_rights(root), (b"selectors", selectors)])

    def _cat(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL CAT [category]: all categories, or the commands of one."""
        if len(argv) > 3:
            raise bad_subcommand(argv)
        if len(argv) == 2:
            return [*all_categories()]
        category = argv[2].lower()
        if category not in all_categories():
            raise CommandError(f"ERR Unknown category '{as_sent(argv[2])}'")
        return [*commands_of(category)]

    def _dryrun(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL DRYRUN user command …: OK, or what the user has no right to."""
        user = self._users.get(argv[2])
        if user is None:
            raise CommandError(f"ERR User '{as_sent(argv[2])}' not found")
        request = argv[3:]
        handler = self._database.find(request)
        if isinstance(handler, CommandError):
            raise CommandError(f"ERR Command '{as_sent(argv[3])}' not found")
        arity = handler.arity
        if len(request) != arity and (arity >= 0 or len(request) < -arity):
            raise CommandError(
                f"ERR wrong number of arguments for '{handler.name.decode()}' command"
            )
        denial = self._database.denial(user, handler, request)
        if denial is None:
            return OK
        subject = handler.name if denial.reason is Reason.COMMAND else request[denial.at]
        refused = Refused(denial.reason, Context.TOPLEVEL, subject, user.name)
        return dry_run_of(refused).encode("utf-8", "surrogateescape")

    def _genpass(self, _session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL GENPASS [bits]: a password of hexadecimal digits."""
        if len(argv) > 3:
            raise bad_subcommand(argv)
        bits = BITS_DEFAULT if len(argv) == 2 else integer(argv[2])
        if not 0 < bits <= BITS_MAX:
            raise CommandError(BAD_BITS)
        digits = (bits + 3) // 4
        return secrets.token_hex((digits + 1) // 2)[:digits].encode()

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL HELP."""
        return help_reply(HELP)

    # --- Changing -----------------------------------------------------------------------------

    def _setuser(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL SETUSER name [rule …]: all rules, or an error that names the one at fault."""
        return self._change(session, lambda: self._accounts.set_user(argv[2], argv[3:]))

    def _deluser(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """ACL DELUSER name …: how many there were; their clients are hung up on."""
        count = 0

        def remove() -> None:
            nonlocal count
            count = self._accounts.remove(argv[2:])

        self._change(session, remove)
        return count

    def _load(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL LOAD: the users of the aclfile, or none of them and all that is wrong with it."""
        return self._change(session, self._accounts.load)

    def _save(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """ACL SAVE: the users as they are now, in the aclfile."""
        return self._change(session, self._accounts.save)

    def _change(self, session: Session, change: Callable[[], None]) -> Reply:
        self._caller = session
        try:
            change()
        except AccountsError as error:
            raise CommandError(f"ERR {' '.join(error.sent)}") from error
        finally:
            self._caller = None
        return OK

    def _hang_up(self, changed: Iterable[User]) -> None:
        """Hang up on clients of removed users, and on those that listen to what they may not."""
        users = set(changed)
        for connection in list(self._connections.values()):
            session = connection.session
            if session.user not in users or not self._has_lost(session):
                continue
            if session is self._caller:
                session.closing = True
            else:
                connection.close()

    def _has_lost(self, session: Session) -> bool:
        """True if the user is gone, or has no right any more to a channel that is listened to."""
        user = session.user
        if user.is_removed:
            return True
        if user.is_unlimited or not session.subscriptions:
            return False
        channels = self._database.channels
        return any(
            not user.has_channel(name, as_pattern=kind is Kind.PATTERN)
            for kind in Kind
            for name in channels.names(session, kind)
        )

    @property
    def epoch(self) -> int:
        """Epoch of the aclfile that was pushed last; 0: none was."""
        return self._accounts.epoch

    def count_and_hash(self) -> tuple[int, str]:
        """See ``Accounts``."""
        return self._accounts.count_and_hash()

    def push(
        self,
        content: bytes,
        epoch: int,
        *,
        only_check: bool,
        caller: bytes | None,
        may_lock_out: bool,
    ) -> tuple[int, str]:
        """See ``Accounts``.

        Raises:
            PushError: the text says why nothing has changed.
        """
        try:
            return self._accounts.push(
                content, epoch, only_check=only_check, caller=caller, may_lock_out=may_lock_out
            )
        except AccountsError as error:
            raise PushError(str(error), error.fault) from error

    # --- Refusals -----------------------------------------------------------------------------

    def note_refused(self, session: Session, refused: Refused) -> None:
        """Count and keep a refusal."""
        self._log_of_refusals.note(refused, self._describe(session), self._now())

    def note_program_refused(self, refused: Refused, address: str) -> None:
        """Count and keep the refusal of a call or a page."""
        self._log_of_refusals.note_program(refused, address, self._now())

    def _log(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """ACL LOG [count | RESET]: the newest refusals."""
        if len(argv) > 3:
            raise bad_subcommand(argv)
        count = SHOWN_DEFAULT
        if len(argv) == 3:
            if argv[2].lower() == b"reset":
                self._log_of_refusals.reset()
                return OK
            count = max(0, integer(argv[2]))
        return [_entry(entry, now) for entry in self._log_of_refusals.entries[:count]]


def _rights(selector: Selector) -> list[tuple[Reply, Reply]]:
    return [
        (b"commands", selector.shown_commands()),
        (b"keys", selector.shown_keys()),
        (b"channels", selector.shown_channels()),
    ]


def _entry(entry: Entry, now: Millis) -> Reply:
    refused = entry.refused
    return RespMap(
        [
            (b"count", entry.count),
            (b"reason", refused.reason.name.lower().replace("_", "-").encode()),
            (b"context", refused.context.value.encode()),
            (b"object", refused.subject),
            (b"username", refused.user),
            (b"age-seconds", Double(max(0, now - entry.updated_ms) / 1000)),
            (b"client-info", entry.client),
            (b"entry-id", entry.number),
            (b"timestamp-created", entry.created_ms),
            (b"timestamp-last-updated", entry.updated_ms),
        ]
    )
