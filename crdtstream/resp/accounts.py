"""The users of a node: from its settings, from its aclfile, and as ACL SETUSER changes them.

    requirepass ──> default      users = […] ──┐
                                 aclfile ──────┴──> Users (database/acl) <── ACL SETUSER, DELUSER
                                    ^  └─ ACL LOAD ─┘      │
                                    └──── ACL SAVE ────────┘

Always so: the users change together, or not at all; the aclfile is replaced as a whole, after its
new content was read back.  While other machines reach the node, no user that is on is ``nopass``.

Files are read and written on the event loop, as in Redis.  That work is bounded: an aclfile, read,
pushed or saved, has at most ``FILE_BYTES_MAX`` bytes.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from crdtstream.commands.arguments import as_sent
from crdtstream.database.acl.lines import (
    NOTHING_CHANGED,
    LinesError,
    UsersError,
    new_user,
    text_of,
    users_in,
)
from crdtstream.database.acl.rules import RuleError, UnmatchedError, as_named, is_user_name
from crdtstream.database.acl.users import DEFAULT_USER, User, Users, password_hash, unlimited_user
from crdtstream.secrets.aclfiles import (
    EPOCH_MAX,
    Fault,
    TooLargeError,
    check_size,
    epoch_in,
    read_file,
    replace_file,
    with_epoch,
)
from crdtstream.settings.node_settings import NodeSettings

logger = structlog.get_logger(__name__)

# Shorter passwords can be guessed; where other machines may guess, the log says so once.
PASSWORD_BYTES_MIN: Final = 16
HASH_DIGITS: Final = 16

BAD_NAME: Final = "Usernames can't contain spaces or null characters"
EMPTY_NAME: Final = "Usernames can't be empty"
KEPT_DEFAULT: Final = "The 'default' user cannot be removed"
NO_FILE: Final = (
    "This Redis instance is not configured to use an ACL file. Name one in the setting aclfile and "
    "restart the node: what ACL SETUSER changes is kept in no other place"
)
NOT_SAVED: Final = (
    "There was an error trying to save the ACLs. Please check the server logs for more information"
)
NOT_PUSHED: Final = (
    "the file {} cannot be written: {}; put that right, and push again: the users are as they were"
)
NOT_READ_BACK: Final = (
    "the users would not be the same when the file is read again, so it stays as it was; compare "
    "ACL LIST with what you gave, and report this"
)
OPEN_USER: Final = (
    "user '{}' is on and needs no password (nopass), and other machines reach this node: give it a "
    "password (>…), or switch it off"
)
OPEN_DEFAULT: Final = (
    "user 'default' is on and needs no password (nopass), and other machines reach this node: set "
    "requirepass, or add the line `{}`; if default has a line, change that one"
)
OPEN_BY_EMPTY: Final = (
    "user '{}' is on and has an empty password, and other machines reach this node: remove it "
    "(<), or switch the user off"
)
# Where users of a push stand, for its problems: the node does not know the name of that file.
PUSHED: Final = "the pushed file"
LOCKS_ALL_OUT: Final = (
    "nobody could administer this region any more: no user of the file is on, has a password, and "
    "has all of @admin; give one `on >… +@all`, or push with --force"
)
LOCKS_CALLER_OUT: Final = (
    "user '{}', which pushes the file, could not administer this region any more: leave it on, "
    "with a password and all of @admin, push as another user, or with --force"
)
_PASSWORD: Final = re.compile(rb"(?<= )#[0-9a-f]{64}(?= )")


class AccountsError(UsersError):
    """Users that cannot be put in use, or saved; nothing has changed.

    Attributes:
        fault: where the reason lies.
    """

    def __init__(self, *sent: str, fault: Fault = Fault.CONTENT) -> None:
        super().__init__(*sent)
        self.fault = fault


class Accounts:
    """The users of one node, and what changes them as a whole.

    Attributes:
        users: those in use.
        file: the aclfile, or None.
        epoch: of the aclfile that was pushed to all regions last; 0: none was.
        on_change: called after users were changed, with those that were, removed ones too.

    Raises:
        AccountsError: the settings or the file are wrong.
    """

    def __init__(self, users: Users, settings: NodeSettings) -> None:
        self.users = users
        self.file = settings.aclfile
        self.epoch = 0
        self.on_change: Callable[[Iterable[User]], None] = lambda _users: None
        self._is_reachable = settings.is_reachable
        self._takes_operators = settings.tls_replication
        self._has_told_of_short = False
        users.all_channels_at_first = settings.acl_pubsub_default == "allchannels"
        self._first_default = _default_user(settings.requirepass)
        if settings.requirepass:
            self._note_length(settings.requirepass.encode())
        found, content = [self._first_default], b""
        if self.file is not None:
            content = _content(self.file)
            found = self._parsed(content, str(self.file))
            self.epoch = epoch_in(content)
        elif settings.users:
            entries = [line.encode().replace(b"\n", b" ") for line in settings.users]
            content = b"".join(b"user %b\n" % one for one in entries)
            found = self._parsed(content, None)
        self._check_closed(found)
        self._note_lengths_in(content)
        users.replace_all(found)

    # --- Single users -------------------------------------------------------------------------

    def set_user(self, name: bytes, rules: list[bytes]) -> None:
        """Create a user, or change one, by rules; all of them or none.

        Raises:
            AccountsError: a rule is wrong, or the user would be open to other machines.
        """
        if not is_user_name(name):
            raise AccountsError(BAD_NAME if name else EMPTY_NAME)
        try:
            user = new_user(self.users, name, rules)
        except RuleError as error:
            raise AccountsError(
                f"Error in ACL SETUSER modifier '{as_named(error.rule)}': {error}"
            ) from None
        except UnmatchedError as unmatched:
            raise AccountsError(str(unmatched)) from None
        self._check_closed([user])
        self._note_lengths(rules)
        self.on_change([self.users.put(user)])

    def remove(self, names: Iterable[bytes]) -> int:
        """Remove users; how many there were.

        Raises:
            AccountsError: ``default`` is among them.
        """
        names = list(names)
        if DEFAULT_USER in names:
            raise AccountsError(KEPT_DEFAULT)
        removed = [user for user in map(self.users.remove, names) if user is not None]
        self.on_change(removed)
        return len(removed)

    def check_default_password(self, password: bytes) -> None:
        """Refuse what ``set_default_password`` may not set.

        Raises:
            AccountsError: other machines would need no password.
        """
        self._check_closed([self._with_password(password)])

    def set_default_password(self, password: bytes) -> None:
        """CONFIG SET requirepass: the only password of ``default``; empty: it needs none."""
        if password:
            self._note_length(password)
        self.users.put(self._with_password(password))

    def _with_password(self, password: bytes) -> User:
        """The default user, changed and not put in use."""
        user = self.users.default.copied()
        user.hashes = [password_hash(password)] if password else []
        user.is_nopass = not password
        return user

    # --- All users ----------------------------------------------------------------------------

    def load(self) -> None:
        """ACL LOAD: have the users of the aclfile.

        Raises:
            AccountsError: there is no file, or something in it is wrong.
        """
        content = _content(self._wanted_file())
        found = self._read(content, str(self.file))
        self._check_closed(found)
        self._note_lengths_in(content)
        self._replace(found)
        self.epoch = epoch_in(content)

    def save(self) -> None:
        """ACL SAVE: write the users into the aclfile.

        Raises:
            AccountsError: there is no file, it cannot be written, or could not be read again.
        """
        path = self._wanted_file()
        content = self.text()
        _check_size(content, "the file that would be saved")
        self._check_readable(content)
        try:
            self._write(path, content)
        except OSError as error:
            raise AccountsError(NOT_SAVED, fault=Fault.DISK) from error

    def push(
        self,
        content: bytes,
        epoch: int,
        *,
        only_check: bool,
        caller: bytes | None = None,
        may_lock_out: bool = False,
    ) -> tuple[int, str]:
        """Have the users of this aclfile, and keep it, as an operator sent it to all regions.

        Args:
            caller: the user that pushes it; None: it has logged in otherwise.
            may_lock_out: also if nobody, or not the caller, could administer the node then.

        Returns:
            The number of users and their hash, as they are then, or would be.

        Raises:
            AccountsError: it is wrong, older than the one before, locks operators out, or cannot
                be written.
        """
        path = self._wanted_file()
        if epoch > EPOCH_MAX:
            raise AccountsError(f"epoch {epoch} is above {EPOCH_MAX}, the highest; use a lower one")
        if epoch <= self.epoch:
            raise AccountsError(
                f"epoch {epoch} is not above {self.epoch}, which this region has: another file was "
                "pushed meanwhile; look at it, and push again",
                fault=Fault.NODE,
            )
        # Before any other work on it; with the comment, as a start will read it.
        _check_size(content, "what was pushed")
        marked = with_epoch(content, epoch)
        _check_size(marked, "what was pushed, with its epoch,")
        found = self._read(content, PUSHED)
        self._check_closed(found)
        if not may_lock_out:
            self._check_way_in(found, caller)
        self._note_lengths_in(content)
        if not only_check:
            try:
                self._write(path, marked)
            except OSError as error:
                text = NOT_PUSHED.format(path, error.strerror or error)
                raise AccountsError(text, fault=Fault.DISK) from error
            self._replace(found)
            self.epoch = epoch
        return len(found), hash_of(found)

    def text(self) -> bytes:
        """The users as an aclfile."""
        users = text_of(self.users.all())
        return with_epoch(users, self.epoch) if self.epoch else users

    def count_and_hash(self) -> tuple[int, str]:
        """Number of users, and a hash: regions with equal ones have the same users."""
        return len(self.users), hash_of(self.users.all())

    def _replace(self, found: list[User]) -> None:
        removed = self.users.replace_all(found)
        self.on_change([*removed, *self.users.all()])

    def _check_way_in(self, found: Iterable[User], caller: bytes | None) -> None:
        """Refuse users among which no operator could log in to put them right.

        A ``default`` that needs no password may be given up by its callers: that closes a node.
        """
        administrators = {user.name for user in found if user.can_administer}
        if not administrators and not self._takes_operators:
            raise AccountsError(LOCKS_ALL_OUT)
        is_anonymous = caller == DEFAULT_USER and self.users.default.is_open
        if caller is not None and caller not in administrators and not is_anonymous:
            raise AccountsError(LOCKS_CALLER_OUT.format(as_sent(caller)))

    def _read(self, content: bytes, source: str) -> list[User]:
        """Users of an aclfile that is to replace those in use."""
        try:
            return self._parsed(content, source)
        except AccountsError as error:
            raise AccountsError(*error.sent, NOTHING_CHANGED) from None

    def _parsed(self, content: bytes, source: str | None) -> list[User]:
        """Users of lines; ``default`` is as requirepass makes it if it is not among them."""
        try:
            found = users_in(self.users, content, source)
        except LinesError as error:
            raise AccountsError(*error.sent) from None
        if all(user.name != DEFAULT_USER for user in found):
            found.append(self._first_default.copied())
        return found

    def _wanted_file(self) -> Path:
        if self.file is None:
            raise AccountsError(NO_FILE, fault=Fault.NODE)
        return self.file

    def _write(self, path: Path, content: bytes) -> None:
        try:
            replace_file(path, content)
        except OSError as error:
            logger.error("aclfile not written", path=str(path), reason=str(error))
            raise

    def _check_readable(self, content: bytes) -> None:
        """Refuse to write what a start would refuse, or take for other users."""
        try:
            again = users_in(self.users, content, "")
        except LinesError as error:
            raise AccountsError(*error.sent, NOT_READ_BACK) from None
        if text_of(again) != text_of(self.users.all()):
            raise AccountsError(NOT_READ_BACK)

    # --- Passwords ----------------------------------------------------------------------------

    def _check_closed(self, users: Iterable[User]) -> None:
        """Refuse users without a password where other machines could use them."""
        problems = [problem for problem in map(self._open_problem, users) if problem]
        if self._is_reachable and problems:
            raise AccountsError(*problems)

    def _open_problem(self, user: User) -> str | None:
        """The way in which everybody could use a user; None: there is none."""
        if user.is_open and user.name == DEFAULT_USER:
            return OPEN_DEFAULT.format("default off" if self.file is None else "user default off")
        if user.is_open:
            return OPEN_USER.format(as_sent(user.name))
        return OPEN_BY_EMPTY.format(as_sent(user.name)) if user.has_empty_password else None

    def _note_lengths(self, rules: Iterable[bytes]) -> None:
        for rule in rules:
            if rule[:1] == b">":
                self._note_length(rule[1:])

    def _note_lengths_in(self, content: bytes) -> None:
        """Note the passwords of lines, which were found to be right."""
        for line in content.split(b"\n"):
            words = line.split()
            if words[:1] == [b"user"]:
                self._note_lengths(words[2:])

    def _note_length(self, password: bytes) -> None:
        """Warn once of a password that other machines may guess."""
        is_short = len(password) < PASSWORD_BYTES_MIN
        if is_short and self._is_reachable and not self._has_told_of_short:
            self._has_told_of_short = True
            logger.warning(
                f"a password is short (fewer than {PASSWORD_BYTES_MIN} bytes), and other machines"
                " can guess it: make one with ACL GENPASS",
            )


def hash_of(users: Iterable[User]) -> str:
    """A short hash of users, whatever their order.

    Of each password it depends on eight bits: who sees the hash must not be able to try passwords
    on it.  So one change of a password in 256 is not noticed.
    """
    text = text_of(sorted(users, key=lambda user: user.name))
    text = _PASSWORD.sub(lambda found: hashlib.sha256(found[0]).digest()[:1], text)
    return hashlib.sha256(text).hexdigest()[:HASH_DIGITS]


def _default_user(requirepass: str) -> User:
    user = unlimited_user()
    if requirepass:
        user.is_nopass = False
        user.hashes = [password_hash(requirepass.encode())]
    return user


def _check_size(content: bytes, name: str) -> None:
    try:
        check_size(content, name)
    except TooLargeError as error:
        raise AccountsError(str(error)) from None


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except TooLargeError as error:
        raise AccountsError(str(error)) from None
    except OSError as error:
        raise AccountsError(
            f"Error loading ACLs, opening file '{path}': {error.strerror}; create it, or check "
            "path and rights"
        ) from error
