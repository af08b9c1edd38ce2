"""A selector: one set of rights on commands, keys and channels, and the check of a request.

All of a request must be allowed by the same selector.  A key needs a pattern that matches it and
allows all that the command does to it; one pattern for reading and one for writing do not add up.

Always so: a selector that a user has is never changed.  ``rules`` changes a copy, which then takes
its place; so what a selector remembers of keys stays right as long as the selector exists.

Source: redis.io/docs/latest/operate/oss_and_stack/management/security/acl; the order of the checks
is Redis's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from crdtstream.commands.glob import compile_glob
from crdtstream.core.size import Size
from crdtstream.database.acl.touched import READ, WRITE, Naming, TouchedKey, Touches

EVERYTHING: Final = READ | WRITE
# Keys of which it is remembered whether they are allowed, if they are not longer than that:
# matching a key with five patterns takes a few microseconds, and finding it in a set 0.1.
KEYS_REMEMBERED_MAX: Final = Size(1024, least=0)
KEY_BYTES_REMEMBERED_MAX: Final = Size(256, least=0)


class Reason(Enum):
    """Reason of a refusal, in ascending order of how much of the request was allowed."""

    COMMAND = 1
    KEY = 2
    AUTH = 3
    CHANNEL = 4
    # A login by a certificate that names no user (Redis 8.6).
    TLS_CERT = 5


@dataclass(frozen=True, slots=True)
class Denial:
    """A request that a user may not make.

    Attributes:
        at: position of the key or channel that is not allowed; 0 of the command itself.
    """

    reason: Reason
    at: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """Of the denials of several selectors the highest is reported: it came furthest."""
        return self.reason.value, self.at


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """Keys, and what may be done to them.

    Attributes:
        allows: READ, WRITE or both.
    """

    pattern: bytes
    allows: int
    matches: Callable[[bytes], bool]

    @property
    def rule(self) -> bytes:
        """The pattern as a rule writes it."""
        return {READ: b"%R~", WRITE: b"%W~"}.get(self.allows, b"~") + self.pattern


def key_pattern(pattern: bytes, allows: int) -> KeyPattern:
    return KeyPattern(pattern, allows, compile_glob(pattern))


class Selector:
    """Rights on commands, keys and channels; without any at first.

    Attributes:
        all_commands: also those that later versions add.
        commands: names of those allowed besides.
        first_arguments: of commands that are allowed with certain first arguments only, these.
        command_rules: the rules on commands that led to this, as the user's description has them.
        all_keys, all_channels: no pattern is needed.
        key_patterns, channel_patterns: in the order in which they were added.
    """

    __slots__ = (
        "_remembered",
        "all_channels",
        "all_commands",
        "all_keys",
        "channel_patterns",
        "command_rules",
        "commands",
        "first_arguments",
        "key_patterns",
    )

    def __init__(self) -> None:
        self.all_commands = False
        self.commands: set[bytes] = set()
        self.first_arguments: dict[bytes, list[bytes]] = {}
        self.command_rules: list[bytes] = [b"-@all"]
        self.all_keys = False
        self.key_patterns: list[KeyPattern] = []
        self.all_channels = False
        self.channel_patterns: list[bytes] = []
        self._remembered: dict[tuple[bytes, int], bool] = {}

    def copied(self) -> "Selector":
        """A selector with the same rights, to be changed."""
        other = Selector()
        other.all_commands = self.all_commands
        other.commands = set(self.commands)
        other.first_arguments = {name: list(args) for name, args in self.first_arguments.items()}
        other.command_rules = list(self.command_rules)
        other.all_keys = self.all_keys
        other.key_patterns = list(self.key_patterns)
        other.all_channels = self.all_channels
        other.channel_patterns = list(self.channel_patterns)
        return other

    @property
    def is_unlimited(self) -> bool:
        """True if it allows every request."""
        return self.all_commands and self.all_keys and self.all_channels

    # --- Checking -----------------------------------------------------------------------------

    def check(
        self,
        name: bytes,
        touches: Touches,
        argv: list[bytes],
        keys: list[TouchedKey],
        *,
        is_open: bool,
    ) -> Denial | None:
        """Check a request; returns what forbids it, or None.

        Args:
            name: of the command.
            touches: what its requests touch.
            keys: those of the request.
            is_open: everybody may call it, to log in.

        Cost: O(1) for each key that is remembered, else a match with each pattern.
        """
        if not (self.all_commands or is_open or self._has_command(name, argv)):
            return Denial(Reason.COMMAND)
        if not self.all_keys:
            for at, key, needs in keys:
                if not self.has_key(key, needs):
                    return Denial(Reason.KEY, at)
        if touches.channels is not Naming.NONE and not self.all_channels:
            as_pattern = touches.channels is Naming.PATTERNS
            for at in touches.channel_positions(argv):
                if not self.has_channel(argv[at], as_pattern=as_pattern):
                    return Denial(Reason.CHANNEL, at)
        return None

    def has_commands(self, names: Iterable[bytes]) -> bool:
        """True if all of these commands are allowed, whatever their arguments."""
        return self.all_commands or self.commands.issuperset(names)

    def _has_command(self, name: bytes, argv: list[bytes]) -> bool:
        if name in self.commands:
            return True
        first = self.first_arguments.get(name)
        return first is not None and len(argv) > 1 and argv[1].lower() in first

    def has_key(self, key: bytes, needs: int) -> bool:
        """True if this may be done to a key."""
        if self.all_keys:
            return True
        asked = (key, needs)
        known = self._remembered.get(asked)
        if known is None:
            known = any(
                one.allows & needs == needs and one.matches(key) for one in self.key_patterns
            )
            if len(key) <= KEY_BYTES_REMEMBERED_MAX.value:
                if len(self._remembered) >= KEYS_REMEMBERED_MAX.value:
                    self._remembered.clear()
                self._remembered[asked] = known
        return known

    def has_channel(self, channel: bytes, *, as_pattern: bool) -> bool:
        """True if a channel may be used; a pattern to listen to must be written the same."""
        if self.all_channels:
            return True
        if as_pattern:
            return channel in self.channel_patterns
        return any(compile_glob(pattern)(channel) for pattern in self.channel_patterns)

    # --- Describing ---------------------------------------------------------------------------

    def shown_commands(self) -> bytes:
        """The rules on commands, as ACL GETUSER shows them."""
        return b" ".join(self.command_rules)

    def shown_keys(self) -> bytes:
        if self.all_keys:
            return b"~*"
        return b" ".join([pattern.rule for pattern in self.key_patterns])

    def shown_channels(self) -> bytes:
        if self.all_channels:
            return b"&*"
        return b" ".join([b"&" + pattern for pattern in self.channel_patterns])

    def rules(self) -> bytes:
        """Rules that lead to this selector, as a line of an aclfile has them."""
        channels = b"&*" if self.all_channels else b"resetchannels"
        words = [self.shown_keys(), channels]
        if self.channel_patterns:
            words.append(self.shown_channels())
        words.append(self.shown_commands())
        return b" ".join([word for word in words if word])
