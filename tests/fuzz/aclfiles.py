"""Aclfiles: users and their rights as ACL LOAD, a push and a start read them."""

from functools import cache
from random import Random
from typing import Final

from crdtstream.database.acl.lines import LinesError, text_of, users_in
from crdtstream.database.acl.users import Users
from crdtstream.secrets.aclfiles import EPOCH_MAX, epoch_in, with_epoch
from tests.fuzz.damage import damaged_bytes, one_of
from tests.fuzz.surface import Surface

_HASH: Final = b"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
_RULES: Final = (
    *(b"on", b"off", b"nopass", b"resetpass", b"reset", b">secret", b"<secret", b"#" + _HASH),
    *(b"!" + _HASH, b"~*", b"~a:*", b"%R~a*", b"%W~[a-c]?", b"%RW~x", b"%~x", b"allkeys"),
    *(b"resetkeys", b"&*", b"&news:*", b"resetchannels", b"+@all", b"-@all", b"+@read"),
    *(b"-@dangerous", b"+get", b"+config|get", b"-xadd", b"+@nosuch", b"+nosuch", b"(+get ~a)"),
    *(b"(", b")", b"( -@all +xread ~s* )", b"clearselectors", b"sanitize-payload", b"\xff", b""),
)


def target(data: bytes) -> object:
    """A file: users, or all that is wrong with it."""
    users = Users()
    epoch = epoch_in(data)
    problems: tuple[str, ...] = ()
    try:
        found = users_in(users, data, "users.acl")
    except LinesError as error:
        problems = error.problems
    if problems:
        # They go to the terminal of who pushes the file, and into the log.
        assert all(problem.isprintable() for problem in problems)
        return problems
    # A node that saves them reads the same users, with the same epoch.
    saved = with_epoch(text_of(found), epoch)
    again = users_in(users, saved, "users.acl")
    assert text_of(again) == text_of(found)
    assert epoch_in(saved) == epoch <= EPOCH_MAX
    return saved


@cache
def seeds() -> list[bytes]:
    rules = b" ".join(rule for rule in _RULES if rule not in (b"(", b")", b"\xff", b""))
    return [
        b"",
        b"# crdtstream acl epoch 7\nuser default on nopass ~* &* +@all\n",
        b"user alice on #" + _HASH + b" ~orders:* resetchannels -@all +@read\nuser bob off\n",
        b"user carol on >secret %R~a* %W~b* (+xadd ~s) (-@all +xread %R~s*)\r\n\n# a comment\n",
        b"\n".join(b"user u%d on %b" % pair for pair in enumerate(_RULES)),
        b"user all " + rules,
    ]


def with_another_rule(data: bytes, draw: Random) -> bytes:
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    words = lines[at].split(b" ")
    words.insert(draw.randrange(len(words) + 1), draw.choice(_RULES))
    lines[at] = b" ".join(words)
    return b"\n".join(lines)


ACLFILES: Final = Surface(
    "aclfiles",
    target,
    seeds,
    one_of(with_another_rule, with_another_rule, damaged_bytes),
    "aclfiles",
)
