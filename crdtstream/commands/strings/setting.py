"""SET, SETEX, PSETEX, SETNX, GETSET, MSET, MSETNX: what a string becomes.

SET takes the place of whatever the key holds.  Of a stream it deletes what this region has
observed, as DEL does, in the same batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from crdtstream.commands.announced import of_set
from crdtstream.commands.arguments import SYNTAX_ERROR
from crdtstream.commands.keys.deleting import delete_key, read_for_deletes
from crdtstream.commands.lookup import deadline_of, exists, string_or_none
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.commands.string_room import check_room_for_strings
from crdtstream.commands.strings.deadlines import DEADLINES, DeadlineOption
from crdtstream.core.effects import SetString
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.notifications import EXPIRE, EXPIRED
from crdtstream.core.replica import Replica


@dataclass(slots=True)
class _Options:
    """Options behind SET's value."""

    only_new: bool = False
    only_there: bool = False
    gets: bool = False
    keeps_ttl: bool = False
    deadline: DeadlineOption | None = None


def set_string(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL].

    NX and XX judge by what this region has observed: two regions may both set a new key, and of
    the two values the one with the lowest dot stays (``rules`` 23).

    Returns:
        OK, or null where NX or XX forbids; with GET the value that was there.

    Raises:
        CommandError: an option is wrong; with GET, the key holds a stream.  Nothing has changed
            then.
    """
    key, value = argv[1], argv[2]
    options = _parse(argv)
    deadline = None
    if options.deadline is not None:
        deadline = options.deadline.deadline(argv[0], now)
    before: Reply = None
    if options.gets:
        before = _data(string_or_none(replica, key))
    is_conditional = options.only_new or options.only_there
    if is_conditional and exists(replica, key) is options.only_new:
        return before
    if options.keeps_ttl:
        deadline = deadline_of(replica, key)
    put(replica, key, value, deadline, now, keeps_deadline=options.keeps_ttl)
    return before if options.gets else OK


def _parse(argv: list[bytes]) -> _Options:
    options = _Options()
    at = 3
    while at < len(argv):
        word = argv[at].lower()
        if word == b"nx" and not options.only_there:
            options.only_new = True
        elif word == b"xx" and not options.only_new:
            options.only_there = True
        elif word == b"get":
            options.gets = True
        elif word == b"keepttl" and options.deadline is None:
            options.keeps_ttl = True
        elif (
            word in DEADLINES
            and at + 1 < len(argv)
            and not options.keeps_ttl
            and (options.deadline is None or options.deadline.word == word)
        ):
            options.deadline = DeadlineOption(word, argv[at + 1])
            at += 1
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 1
    return options


def put(
    replica: Replica,
    key: bytes,
    value: bytes,
    deadline: Millis | None,
    now: Millis,
    *,
    keeps_deadline: bool = False,
) -> None:
    """Make the key a string with this value; one whose deadline has passed leaves no key.

    Args:
        keeps_deadline: the deadline is the one that the key has.
    """
    if deadline is not None and deadline <= now:
        with replica.announcing(*of_set(replica, key, EXPIRE, EXPIRED)):
            delete_key(replica, key)
        return
    if not keeps_deadline and replica.stream(key) is None:
        replica.issue(SetString(key, value, deadline))
        return
    # The effects alone would tell of other changes than the command's.
    further = () if deadline is None or keeps_deadline else (EXPIRE,)
    with replica.announcing(*of_set(replica, key, *further)):
        if replica.stream(key) is not None:
            delete_key(replica, key)
        replica.issue(SetString(key, value, deadline))


def _data(string: StringRegister | None) -> bytes | None:
    return None if string is None else string.data


def setex(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SETEX key seconds value."""
    return _set_for(replica, now, argv, b"ex")


def psetex(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """PSETEX key milliseconds value."""
    return _set_for(replica, now, argv, b"px")


def _set_for(replica: Replica, now: Millis, argv: list[bytes], word: bytes) -> Reply:
    deadline = DeadlineOption(word, argv[2]).deadline(argv[0], now)
    put(replica, argv[1], argv[3], deadline, now)
    return OK


def setnx(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SETNX key value: 1 if the key was set, 0 if it exists already."""
    if exists(replica, argv[1]):
        return 0
    put(replica, argv[1], argv[2], None, now)
    return 1


def getset(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """GETSET key value: the value that was there."""
    before = _data(string_or_none(replica, argv[1]))
    put(replica, argv[1], argv[2], None, now)
    return before


def mset(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """MSET key value [key value …]: all in one batch."""
    pairs = _pairs(replica, argv)
    read_for_deletes(replica, argv[1::2])
    for key, value in pairs:
        put(replica, key, value, None, now)
    return OK


def msetnx(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """MSETNX key value [key value …]: 0, and nothing changes, if one of the keys exists."""
    pairs = _pairs(replica, argv)
    if any(exists(replica, key) for key, _ in pairs):
        return 0
    for key, value in pairs:
        put(replica, key, value, None, now)
    return 1


def _pairs(replica: Replica, argv: list[bytes]) -> Sequence[tuple[bytes, bytes]]:
    if len(argv) % 2 == 0:
        name = argv[0].decode("utf-8", "backslashreplace").lower()
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    check_room_for_strings(replica, sum(map(len, argv)))
    return list(zip(argv[1::2], argv[2::2], strict=True))
