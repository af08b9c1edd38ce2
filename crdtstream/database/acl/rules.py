"""Rules of ACL SETUSER and of aclfiles: what one changes of a user.

Rules are applied to a user that is not in use (``User.copied``, ``Users.new``), one after the
other; the first that is wrong raises, and the user is thrown away.

Source: redis.io/commands/acl-setuser; the texts of errors are Redis's.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from crdtstream.commands.arguments import as_sent
from crdtstream.database.acl.known import all_categories, commands_of, known_commands
from crdtstream.database.acl.selectors import EVERYTHING, Selector, key_pattern
from crdtstream.database.acl.touched import READ, WRITE
from crdtstream.database.acl.users import User, password_hash

UNKNOWN: Final = "Unknown command or category name in ACL"
SYNTAX: Final = "Syntax error"
AFTER_ALL_KEYS: Final = (
    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have "
    "any effect. Try 'resetkeys' to start with an empty list of patterns"
)
AFTER_ALL_CHANNELS: Final = (
    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not "
    "have any effect. Try 'resetchannels' to start with an empty list of channels"
)
NOT_AMONG_THEM: Final = "The password you are trying to remove from the user does not exist"
BAD_HASH: Final = (
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
    "characters"
)
FIRST_ARG_OF_SUBCOMMAND: Final = "Allowing first-arg of a subcommand is not supported"

_HASH: Final = re.compile(rb"[0-9a-f]{64}")
_BLANKS: Final = re.compile(rb"[\s\0]")
_ALL: Final = b"@all"


class RuleError(Exception):
    """A rule cannot be applied.

    Attributes:
        rule: the word at fault.
        is_unknown: it names a command or a category that does not exist.
    """

    def __init__(self, rule: bytes, text: str) -> None:
        super().__init__(text)
        self.rule = rule
        self.is_unknown = text == UNKNOWN


class UnmatchedError(Exception):
    """A selector has no closing parenthesis.

    Attributes:
        word: the rule that it begins with.
    """

    def __init__(self, word: bytes) -> None:
        super().__init__(f"Unmatched parenthesis in acl selector starting at '{as_named(word)}'.")
        self.word = word


def as_named(rule: bytes) -> str:
    """A rule in the text of a CommandError: up to its first null character, as of Redis."""
    return as_sent(rule.partition(b"\0")[0])


def is_user_name(name: bytes) -> bool:
    """True if a user may have this name: not empty, no blanks, no null characters."""
    return bool(name) and _BLANKS.search(name) is None


def merged(words: Iterable[bytes]) -> list[bytes]:
    """Rules, each selector as one word: ``(~a +get)`` may have come as two.

    Raises:
        UnmatchedError: a parenthesis is not closed.
    """
    rules: list[bytes] = []
    open_words: list[bytes] = []
    for word in words:
        if open_words:
            open_words.append(word)
        elif word.startswith(b"(") and not word.endswith(b")"):
            open_words = [word]
        else:
            rules.append(word)
            continue
        if word.endswith(b")"):
            rules.append(b" ".join(open_words))
            open_words = []
    if open_words:
        raise UnmatchedError(open_words[0])
    return rules


def apply_rule(user: User, rule: bytes, fresh: Callable[[], Selector]) -> None:
    """Change a user by a rule.

    Args:
        fresh: a selector as new users have it.

    Raises:
        RuleError: it is none; the user may be changed in part.
    """
    word = rule.lower()
    if not word:
        return
    if word in _FLAGS:
        _FLAGS[word](user)
    elif word == b"reset":
        user.hashes, user.is_nopass, user.is_on, user.sanitizes = [], False, False, True
        user.selectors = [fresh()]
    elif word == b"clearselectors":
        del user.selectors[1:]
    elif rule[:1] == b">":
        _add_password(user, password_hash(rule[1:]))
    elif rule[:1] == b"#":
        if _HASH.fullmatch(rule[1:]) is None:
            raise RuleError(rule, BAD_HASH)
        _add_password(user, rule[1:])
    elif rule[:1] == b"<":
        _remove_password(user, password_hash(rule[1:]), rule)
    elif rule[:1] == b"!":
        if _HASH.fullmatch(rule[1:]) is None:
            raise RuleError(rule, BAD_HASH)
        _remove_password(user, rule[1:], rule)
    elif rule[:1] == b"(" and rule[-1:] == b")":
        user.selectors.append(_selector(rule, fresh()))
    else:
        apply_to_selector(user.selectors[0], rule)


def _selector(rule: bytes, selector: Selector) -> Selector:
    """A further selector from ``(…)``; its errors name the whole word."""
    for inner in rule[1:-1].split():
        # In an aclfile the selector would end there.
        if inner.endswith(b")"):
            raise RuleError(rule, SYNTAX)
        try:
            apply_to_selector(selector, inner)
        except RuleError as error:
            raise RuleError(rule, str(error)) from None
    return selector


# --- Passwords and flags ------------------------------------------------------------------------


def _add_password(user: User, digest: bytes) -> None:
    user.is_nopass = False
    if digest not in user.hashes:
        user.hashes.append(digest)


def _remove_password(user: User, digest: bytes, rule: bytes) -> None:
    if digest not in user.hashes:
        raise RuleError(rule, NOT_AMONG_THEM)
    user.hashes.remove(digest)


def _switch_on(user: User) -> None:
    user.is_on = True


def _switch_off(user: User) -> None:
    user.is_on = False


def _sanitize(user: User) -> None:
    user.sanitizes = True


def _skip_sanitizing(user: User) -> None:
    user.sanitizes = False


def _need_no_password(user: User) -> None:
    user.is_nopass = True
    user.hashes = []


def _forget_passwords(user: User) -> None:
    user.is_nopass = False
    user.hashes = []


_FLAGS: Final[dict[bytes, Callable[[User], None]]] = {
    b"on": _switch_on,
    b"off": _switch_off,
    b"sanitize-payload": _sanitize,
    b"skip-sanitize-payload": _skip_sanitizing,
    b"nopass": _need_no_password,
    b"resetpass": _forget_passwords,
}


# --- Keys, channels, commands -------------------------------------------------------------------


def apply_to_selector(selector: Selector, rule: bytes) -> None:
    """Change the rights of a selector by a rule.

    Raises:
        RuleError: it is none.
    """
    word = rule.lower()
    match word:
        case b"allkeys" | b"~*":
            selector.all_keys = True
            selector.key_patterns.clear()
        case b"resetkeys":
            selector.all_keys = False
            selector.key_patterns.clear()
        case b"allchannels" | b"&*":
            selector.all_channels = True
            selector.channel_patterns.clear()
        case b"resetchannels":
            selector.all_channels = False
            selector.channel_patterns.clear()
        case b"allcommands" | b"+@all":
            selector.all_commands = True
            _forget_commands(selector, b"+@all")
        case b"nocommands" | b"-@all":
            selector.all_commands = False
            _forget_commands(selector, b"-@all")
        case _:
            _apply_with_name(selector, rule, word)


def _forget_commands(selector: Selector, rule: bytes) -> None:
    selector.commands.clear()
    selector.first_arguments.clear()
    selector.command_rules = [rule]


def _apply_with_name(selector: Selector, rule: bytes, word: bytes) -> None:
    if rule[:1] in (b"~", b"%"):
        _add_keys(selector, rule)
    elif rule[:1] == b"&":
        _add_channels(selector, rule)
    elif rule[:2] in (b"+@", b"-@"):
        _change_category(selector, rule, word)
    elif rule[:1] == b"+":
        _allow_command(selector, rule, word)
    elif rule[:1] == b"-":
        if word[1:] not in known_commands():
            raise RuleError(rule, UNKNOWN)
        _forbid(selector, word[1:])
        _note_rule(selector, word)
    else:
        raise RuleError(rule, SYNTAX)


def _add_keys(selector: Selector, rule: bytes) -> None:
    if selector.all_keys:
        raise RuleError(rule, AFTER_ALL_KEYS)
    # Without a tilde the pattern is empty, in Redis as well: it allows the empty key alone.
    flags, _, pattern = rule.partition(b"~")
    allows = EVERYTHING
    if flags:
        allows = {b"%R": READ, b"%W": WRITE, b"%RW": EVERYTHING, b"%WR": EVERYTHING}.get(
            flags.upper(), 0
        )
    if not allows or _BLANKS.search(pattern) is not None:
        raise RuleError(rule, SYNTAX)
    for at, known in enumerate(selector.key_patterns):
        if known.pattern == pattern:
            selector.key_patterns[at] = key_pattern(pattern, known.allows | allows)
            return
    selector.key_patterns.append(key_pattern(pattern, allows))


def _add_channels(selector: Selector, rule: bytes) -> None:
    if selector.all_channels:
        raise RuleError(rule, AFTER_ALL_CHANNELS)
    if _BLANKS.search(rule) is not None:
        raise RuleError(rule, SYNTAX)
    if rule[1:] not in selector.channel_patterns:
        selector.channel_patterns.append(rule[1:])


def _change_category(selector: Selector, rule: bytes, word: bytes) -> None:
    if word[2:] not in all_categories():
        raise RuleError(rule, UNKNOWN)
    change = _allow if word[:1] == b"+" else _forbid
    for name in commands_of(word[2:]):
        change(selector, name)
    if word[:1] == b"-":
        _leave_all(selector)
    _note_rule(selector, word)


def _allow_command(selector: Selector, rule: bytes, word: bytes) -> None:
    name = word[1:]
    known = known_commands()
    if name in known:
        _allow(selector, name)
    elif b"|" in name:
        command, _, argument = name.rpartition(b"|")
        if command not in known:
            raise RuleError(rule, UNKNOWN)
        if b"|" in command:
            raise RuleError(rule, FIRST_ARG_OF_SUBCOMMAND)
        if not argument or _BLANKS.search(argument) is not None:
            raise RuleError(rule, SYNTAX)
        if known[command].subcommands:
            raise RuleError(rule, UNKNOWN)
        arguments = selector.first_arguments.setdefault(command, [])
        if argument not in arguments:
            arguments.append(argument)
    else:
        raise RuleError(rule, UNKNOWN)
    _note_rule(selector, word)


def _allow(selector: Selector, name: bytes) -> None:
    selector.commands.add(name)
    selector.commands.update(known_commands()[name].subcommands)
    selector.first_arguments.pop(name, None)


def _forbid(selector: Selector, name: bytes) -> None:
    _leave_all(selector)
    selector.commands.discard(name)
    selector.commands.difference_update(known_commands()[name].subcommands)
    selector.first_arguments.pop(name, None)


def _leave_all(selector: Selector) -> None:
    """Name the commands one by one, as one of them is to be taken away."""
    if selector.all_commands:
        selector.all_commands = False
        selector.commands.update(known_commands())


def _note_rule(selector: Selector, word: bytes) -> None:
    """Remember a rule on commands; those before it that it makes void are forgotten."""
    name = word[1:]
    kept = [
        rule
        for at, rule in enumerate(selector.command_rules)
        if at == 0 or not (rule[1:] == name or rule[1:].startswith(name + b"|"))
    ]
    selector.command_rules = [*kept, word]
