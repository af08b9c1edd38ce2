"""Users as lines: of an aclfile, of ACL LIST, of the settings.

    user alice on sanitize-payload #9f86… ~orders:* resetchannels -@all +@read

An aclfile is read as a whole: if one line is wrong, no user changes, and all lines that are wrong
are reported.

Source: redis.io/docs/latest/operate/oss_and_stack/management/security/acl; the texts of errors are
Redis's.
"""

from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from crdtstream.commands.arguments import as_sent
from crdtstream.database.acl.rules import (
    RuleError,
    UnmatchedError,
    apply_rule,
    as_named,
    is_user_name,
    merged,
)
from crdtstream.database.acl.selectors import Selector
from crdtstream.database.acl.users import User, Users

NOTHING_CHANGED: Final = (
    "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
)
NO_USER: Final = "should start with user keyword followed by the username"


@mypyc_attr(allow_interpreted_subclasses=True)
class UsersError(Exception):
    """Users that cannot be put in use.

    Attributes:
        sent: one sentence for each problem, for a CommandError: words of lines and clients stand in
            them as ``as_sent`` reads them.
        problems: the same for terminals and logs, as ``str`` has them: what is not printable is
            escaped.
    """

    def __init__(self, *sent: str) -> None:
        assert sent
        self.sent = sent
        self.problems = tuple(map(_printable, sent))
        super().__init__(" ".join(self.problems))


class LinesError(UsersError):
    """Lines are wrong."""


def _printable(text: str) -> str:
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown
    )


def line_of(user: User) -> bytes:
    """A user as a line, from which ``users_in`` makes the same user."""
    words = [b"user", user.name, *flags_of(user)]
    words += [b"#" + digest for digest in user.hashes]
    root, *others = user.selectors
    words.append(root.rules())
    words += [b"(" + selector.rules() + b")" for selector in others]
    return b" ".join(words)


def flags_of(user: User) -> list[bytes]:
    """The flags of a user, as ACL GETUSER and lines have them."""
    return [
        b"on" if user.is_on else b"off",
        *([b"nopass"] if user.is_nopass else []),
        b"sanitize-payload" if user.sanitizes else b"skip-sanitize-payload",
    ]


def text_of(users: Iterable[User]) -> bytes:
    """Users as an aclfile, a line each."""
    return b"".join(line_of(user) + b"\n" for user in users)


def new_user(users: Users, name: bytes, rules: Iterable[bytes]) -> User:
    """A user made by rules, or the one of this name changed by them; it is not put in use.

    Raises:
        RuleError, UnmatchedError: a rule is wrong.
    """
    known = users.get(name)
    user = users.new(name) if known is None else known.copied()
    for rule in merged(rules):
        apply_rule(user, rule, _fresh(users))
    return user


def users_in(users: Users, text: bytes, source: str | None) -> list[User]:
    """The users of an aclfile, made from nothing; they are not put in use.

    Args:
        users: decides what a new user may do at first.
        source: name of the file, for problems; None: each line is an entry of the setting users.

    Raises:
        LinesError: lines are wrong.
    """
    found: dict[bytes, User] = {}
    problems: list[str] = []
    for number, raw in enumerate(text.split(b"\n"), 1):
        line = raw.strip(b" \t\r\n")
        if not line or line.startswith(b"#"):
            continue
        entry = f"entry {number} of the setting users"
        where = entry if source is None else f"{source}:{number}"
        words = line.split()
        # A line of vertical tabs or form feeds alone has no word.
        if words[:1] != [b"user"] or len(words) < 2:
            problems.append(f"{where} {NO_USER}.")
            continue
        name = words[1]
        if name in found:
            found_at = f"in {entry}" if source is None else f"on line {number}"
            problems.append(f"WARNING: Duplicate user '{as_sent(name)}' found {found_at}.")
            continue
        if not is_user_name(name):
            problems.append(f"{where}: username '{as_sent(name)}' contains invalid characters.")
            continue
        found[name] = users.new(name)
        problems += _apply_all(found[name], words[2:], where, _fresh(users))
    if problems:
        raise LinesError(*problems)
    return list(found.values())


def _apply_all(
    user: User, words: list[bytes], where: str, fresh: Callable[[], Selector]
) -> list[str]:
    """Apply the rules of a line; what is wrong with it.

    All unknown commands are reported.  Of other problems only the first, as one leads to another.
    """
    try:
        rules = merged(words)
    except UnmatchedError:
        return [f"{where}: Unmatched parenthesis in selector definition."]
    problems: list[str] = []
    has_other = False
    for rule in rules:
        try:
            apply_rule(user, rule, fresh)
        except RuleError as error:
            if error.is_unknown:
                problems.append(
                    f"{where}: Error in applying operation '{as_named(rule)}': {error}."
                )
            elif not has_other:
                problems.append(f"{where}: {error}.")
                has_other = True
    return problems


def _fresh(users: Users) -> Callable[[], Selector]:
    """A selector as new users have it."""

    def selector() -> Selector:
        made = Selector()
        made.all_channels = users.all_channels_at_first
        return made

    return selector
