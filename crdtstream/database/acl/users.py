"""A user, and all users of a region.

Sessions and calls keep their user's object.  A change replaces what the object has, so it holds at
once for all of them; a user that is removed keeps its object, without any rights.

Passwords are kept as SHA-256, as in Redis, and compared in constant time.
"""

import hashlib
import hmac
from collections.abc import Collection, Iterable
from typing import Final

from crdtstream.database.acl.known import commands_of
from crdtstream.database.acl.selectors import (
    KEY_BYTES_REMEMBERED_MAX,
    KEYS_REMEMBERED_MAX,
    Denial,
    Reason,
    Selector,
)
from crdtstream.database.acl.touched import Touches

DEFAULT_USER: Final = b"default"
# The password of nobody: compared with when a user does not exist, which must not take less time.
_NO_HASH: Final = b"0" * 64


class User:
    """A user.

    Attributes:
        name: unique among the users of a region.
        is_on: it may log in; who has logged in goes on without.
        is_nopass: every password is right.
        sanitizes: payloads of RESTORE are checked.  They always are; Redis's rules are kept.
        hashes: SHA-256 of each password, in hexadecimal.
        selectors: the root selector, and further ones.  None once the user was removed.
        is_unlimited: a selector allows everything: nothing needs to be checked.
        allowed_calls: commands with their only key that were found to be allowed.  Nothing else of
            such a request decides, so it need not be checked again.

    Always so: ``allowed_calls`` is empty after a change.
    """

    __slots__ = (
        "allowed_calls",
        "hashes",
        "is_nopass",
        "is_on",
        "is_unlimited",
        "name",
        "sanitizes",
        "selectors",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.is_on = False
        self.is_nopass = False
        self.sanitizes = True
        self.hashes: list[bytes] = []
        self.selectors: list[Selector] = [Selector()]
        self.is_unlimited = False
        self.allowed_calls: set[tuple[bytes, bytes]] = set()

    def copied(self) -> "User":
        """A user like this one, to be changed."""
        other = User(self.name)
        other.become(self)
        other.selectors = [selector.copied() for selector in self.selectors]
        return other

    def become(self, other: "User") -> None:
        """Take over the rights and passwords of another object, which is not used any more."""
        self.is_on = other.is_on
        self.is_nopass = other.is_nopass
        self.sanitizes = other.sanitizes
        self.hashes = list(other.hashes)
        self.selectors = other.selectors
        self.is_unlimited = any(selector.is_unlimited for selector in self.selectors)
        self.allowed_calls = set()

    def lose_all(self) -> None:
        """The user is removed: what still has this object may do nothing."""
        self.is_on = self.is_nopass = self.is_unlimited = False
        self.hashes = []
        self.selectors = []
        self.allowed_calls = set()

    @property
    def is_removed(self) -> bool:
        return not self.selectors

    @property
    def is_open(self) -> bool:
        """True if it logs in without a password."""
        return self.is_on and self.is_nopass

    @property
    def can_administer(self) -> bool:
        """True if it can log in, and may run all commands of the category ``@admin``."""
        can_log_in = self.is_on and (self.is_nopass or bool(self.hashes))
        return can_log_in and self.has_category(b"admin")

    @property
    def has_empty_password(self) -> bool:
        """True if it logs in with a password of no characters."""
        return self.is_on and password_hash(b"") in self.hashes

    def denial(
        self, name: bytes, touches: Touches, argv: list[bytes], *, is_open: bool = False
    ) -> Denial | None:
        """Check a request; returns what forbids it, or None; see ``Selector.check``.

        Of several selectors the one that allows most of the request is reported.
        """
        found: Denial | None = None
        keys = touches.keys(argv) if touches.specs else []
        for selector in self.selectors:
            denial = selector.check(name, touches, argv, keys, is_open=is_open)
            if denial is None:
                self._remember(name, touches, argv)
                return None
            if found is None or denial.rank > found.rank:
                found = denial
        return found or Denial(Reason.COMMAND)

    def _remember(self, name: bytes, touches: Touches, argv: list[bytes]) -> None:
        """Note that a request is allowed, if its only key decided that."""
        at = touches.only_at
        if at and at < len(argv) and len(argv[at]) <= KEY_BYTES_REMEMBERED_MAX.value:
            if len(self.allowed_calls) >= KEYS_REMEMBERED_MAX.value:
                self.allowed_calls = set()
            self.allowed_calls.add((name, argv[at]))

    def has_category(self, category: bytes) -> bool:
        """True if one selector allows all commands of a category."""
        names = commands_of(category)
        return any(selector.has_commands(names) for selector in self.selectors)

    def has_channel(self, channel: bytes, *, as_pattern: bool) -> bool:
        """True if a selector allows a channel."""
        return any(
            selector.has_channel(channel, as_pattern=as_pattern) for selector in self.selectors
        )

    def has_password(self, password: bytes) -> bool:
        """True if a password is right; as fast if it is wrong."""
        digest = password_hash(password)
        is_right = False
        for known in self.hashes or [_NO_HASH]:
            is_right |= hmac.compare_digest(known, digest)
        return self.is_on and (self.is_nopass or is_right)


def password_hash(password: bytes) -> bytes:
    """SHA-256 in hexadecimal, as an aclfile has it."""
    return hashlib.sha256(password).hexdigest().encode()


def unlimited_user(name: bytes = DEFAULT_USER) -> User:
    """A user that may do everything, and logs in without a password: ``default`` at first."""
    user = User(name)
    user.is_on = user.is_nopass = True
    root = user.selectors[0]
    root.all_commands = root.all_keys = root.all_channels = True
    root.command_rules = [b"+@all"]
    user.is_unlimited = True
    return user


class Users:
    """All users of a region.

    Attributes:
        default: the user of clients that have not logged in; it cannot be removed.
        all_channels_at_first: a new user may use all channels (acl-pubsub-default).

    Always so: a name stands for the same object as long as the user exists.
    """

    def __init__(self) -> None:
        self.default = unlimited_user()
        self.all_channels_at_first = False
        self._by_name: dict[bytes, User] = {DEFAULT_USER: self.default}
        self._nobody = User(b"")

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def ask(self) -> bool:
        """True if clients have to log in: ``default`` is off, or has a password."""
        return not self.default.is_open

    def get(self, name: bytes) -> User | None:
        return self._by_name.get(name)

    def all(self) -> list[User]:
        """All users, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def new(self, name: bytes) -> User:
        """A user without rights, that is not among the users yet."""
        user = User(name)
        user.selectors[0].all_channels = self.all_channels_at_first
        return user

    def log_in(self, name: bytes, password: bytes) -> User | None:
        """The user, if name and password are right and it is on."""
        user = self._by_name.get(name)
        is_right = (user or self._nobody).has_password(password)
        return user if is_right else None

    def put(self, changed: User) -> User:
        """Add a user, or change the one of this name; returns the object that stays."""
        user = self._by_name.setdefault(changed.name, changed)
        user.become(changed)
        return user

    def remove(self, name: bytes) -> User | None:
        """Remove a user; None: there is none."""
        assert name != DEFAULT_USER, "default cannot be removed"
        user = self._by_name.pop(name, None)
        if user is not None:
            user.lose_all()
        return user

    def replace_all(self, users: Iterable[User]) -> Collection[User]:
        """Have these users and no others; ``default`` stays as it is if it is not among them.

        Returns:
            The users that were removed.
        """
        wanted = {user.name: user for user in users}
        removed = [
            self._by_name[name]
            for name in sorted(self._by_name)
            if name not in wanted and name != DEFAULT_USER
        ]
        for user in removed:
            self.remove(user.name)
        for user in wanted.values():
            self.put(user)
        return removed
