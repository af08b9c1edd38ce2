"""Reading arguments: numbers, IDs and intervals, with Redis's words for what is wrong."""

from array import array
from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import ID_MAX, ID_MIN, U64_MAX, Millis, StreamId, parse_id
from crdtstream.core.keyspace.counters import I64_MAX as I64_MAX
from crdtstream.core.keyspace.counters import I64_MIN as I64_MIN
from crdtstream.core.keyspace.counters import parse_i64 as parse_i64

_DIGITS: Final = b"0123456789"
# Of the highest number of 64 bits.
_U64_DIGITS: Final = 20
I32_MAX: Final = (1 << 31) - 1
I32_MIN: Final = -(1 << 31)

NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
BAD_ID: Final = "ERR Invalid stream ID specified as stream command argument"
SYNTAX_ERROR: Final = "ERR syntax error"
NO_SUCH_DATABASE: Final = "ERR DB index is out of range"


def integer(text: bytes, *, error: str = NOT_AN_INTEGER) -> int:
    """A signed 64-bit number, or a CommandError with the given text."""
    value = parse_i64(text)
    if value is None:
        raise CommandError(error)
    return value


def timeout_ms(text: bytes, now: Millis) -> int:
    """Time to wait from now on, 0: without end.  Its end must fit into 64 bits."""
    timeout = integer(text, error="ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise CommandError("ERR timeout is negative")
    if timeout > I64_MAX - now:
        raise CommandError("ERR timeout is out of range")
    return timeout


def positive(text: bytes, option: str) -> int:
    """The number of an option that takes 1 and more."""
    value = parse_i64(text)
    if value is None or value < 1:
        raise CommandError(f"ERR {option} must be a positive integer")
    return value


def min_idle_ms(text: bytes) -> int:
    """Time for which an entry must have been pending (CLAIM)."""
    value = integer(text, error="ERR min-idle-time is not an integer")
    if value < 0:
        raise CommandError("ERR min-idle-time must be a positive integer")
    return value


def int32(text: bytes, *, error: str | None = None) -> int:
    """A signed 32-bit number, or a CommandError with the given text, or else Redis's own."""
    value = integer(text, error=error or NOT_AN_INTEGER)
    if not I32_MIN <= value <= I32_MAX:
        raise CommandError(
            error or f"ERR value is out of range, value must between {I32_MIN} and {I32_MAX}"
        )
    return value


def only_database(text: bytes) -> None:
    """The number of the only database, 0; or a CommandError."""
    if int32(text) != 0:
        raise CommandError(NO_SUCH_DATABASE)


def strict_id(text: bytes, *, missing_seq: int = 0) -> StreamId:
    """``ms`` or ``ms-seq``; ``-`` and ``+`` are refused."""
    entry_id = parse_id(text, missing_seq=missing_seq)
    if entry_id is None:
        raise CommandError(BAD_ID)
    return entry_id


def any_id(text: bytes, *, missing_seq: int = 0) -> StreamId:
    """As :func:`strict_id`, and ``-`` and ``+`` for the lowest and highest ID."""
    if text == b"-":
        return ID_MIN
    if text == b"+":
        return ID_MAX
    return strict_id(text, missing_seq=missing_seq)


def strict_ids(texts: list[bytes]) -> list[StreamId]:
    """All IDs, parsed before any is used; a bad last one must not leave half a change behind."""
    return [strict_id(text) for text in texts]


def ascending_ids(texts: list[bytes]) -> Ids:
    """As :func:`strict_ids`, ascending, and each once.

    What clients mostly send, many IDs written as ``ms-seq``, is parsed and looked at all at once,
    without a step for each.
    """
    if len(texts) == 1:
        return (strict_id(texts[0]),)
    columns = plain_ids(texts)
    if columns is not None:
        return columns if columns.ascend() else columns.ascending()
    return IdColumns.of(sorted(set(strict_ids(texts))))


def plain_ids(texts: list[bytes]) -> IdColumns | None:
    """The IDs, if each is two plain numbers with a dash between; None: look closer."""
    joined = b" ".join(texts)
    # What no digit is: exactly one dash between one blank and the next, and no other blank.
    if joined.translate(None, _DIGITS) != b"- " * (len(texts) - 1) + b"-":
        return None
    spaced = b" " + joined.replace(b"-", b" ")
    numbers = spaced.split()
    if len(numbers) != 2 * len(texts):
        return None
    # A number that is too long is too high, except one with zeros in front.
    if b" 0" in spaced and max(map(len, numbers)) > _U64_DIGITS:
        return None
    try:
        halves = array("Q", map(int, numbers))
    except (OverflowError, ValueError):
        # Too high; or of more digits than Python would ever make a number of (4300).
        return None
    return IdColumns(halves[::2], halves[1::2])


def interval_start(text: bytes) -> StreamId:
    """The lower end of an interval; ``(`` excludes it."""
    if text[:1] != b"(":
        return any_id(text)
    start = strict_id(text[1:])
    if start == ID_MAX:
        raise CommandError("ERR invalid start ID for the interval")
    return StreamId(start + 1)


def interval_end(text: bytes) -> StreamId:
    """The upper end of an interval, an absent sequence being the highest; ``(`` excludes it."""
    if text[:1] != b"(":
        return any_id(text, missing_seq=U64_MAX)
    end = strict_id(text[1:], missing_seq=U64_MAX)
    if end == ID_MIN:
        raise CommandError("ERR invalid end ID for the interval")
    return StreamId(end - 1)


def shown(text: bytes) -> str:
    """A client's bytes for people, in lists and logs."""
    return text.decode("utf-8", "backslashreplace")


def as_sent(text: bytes) -> str:
    """A client's bytes in the text of a CommandError, whose reply has the same bytes."""
    return text.decode("utf-8", "surrogateescape")
