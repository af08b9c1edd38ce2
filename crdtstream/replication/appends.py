r"""Checks that a peer's appends are as XADD makes them; clients get their bytes unchanged.

    *2\r\n $4\r\ntemp\r\n $4\r\n21.5\r\n      an array of bulk strings, an even number of them

There are two ways; both accept the same bytes.  Appends with short strings, which most have, are
matched many at a time by one regular expression, in C.  For all others, and to find the wrong one,
each is parsed and packed again.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import hiredis

from crdtstream.core.size import Size

# So much the parser, or the expression, gets at a time.
FEED_BYTES: Final = Size(16 << 10, least=1)
SLICE_APPENDS: Final = Size(256, least=1)
# The expression has an alternative for each length: more of them would take longer to compile.
SHORT_BYTES_MAX: Final = Size(255, least=1)
SHORT_STRINGS_MAX: Final = Size(32, least=2)
# Expressions that are kept, one for each number of strings; compiling one takes some milliseconds.
EXPRESSIONS_MAX: Final = 16

_COUNT: Final = re.compile(rb"\*([1-9]\d?)\r\n")


def wrong_append(lengths: Sequence[int], fields: bytes) -> int | None:
    """Index of the first append whose bytes are not just what XADD makes; None if all are.

    Args:
        lengths: per append how many bytes of ``fields`` are its own; they add up to all of them.

    Cost: O(bytes).
    """
    start = index = 0
    while index < len(lengths):
        stop, end = _slice_end(lengths, index, start)
        if not _are_short_appends(lengths[index:stop], fields, start, end):
            wrong = _first_wrong(lengths, index, stop, fields, start)
            if wrong is not None:
                return wrong
        index, start = stop, end
    return None


def _slice_end(lengths: Sequence[int], index: int, start: int) -> tuple[int, int]:
    """The append, and the byte, where about FEED_BYTES of whole appends end."""
    stop = min(index + SLICE_APPENDS.value, len(lengths))
    size = sum(lengths[index:stop])
    if size <= FEED_BYTES.value:
        return stop, start + size
    end = start
    while index < stop and end - start < FEED_BYTES.value:
        end += lengths[index]
        index += 1
    return index, end


def _are_short_appends(lengths: Sequence[int], fields: bytes, start: int, end: int) -> bool:
    """True if these are appends with short strings, each with as many as the first one.

    Matches of the expression do not overlap.  So if it finds as many as there should be, each as
    long as it should be, they fill the slice, and each begins where it should.
    """
    count = _COUNT.match(fields, start, end)
    if count is None:
        return False
    strings = int(count[1])
    if strings % 2 or strings > SHORT_STRINGS_MAX.value:
        return False
    found = _expression(strings, SHORT_BYTES_MAX.value).findall(fields, start, end)
    return list(map(len, found)) == list(lengths)


@lru_cache(maxsize=EXPRESSIONS_MAX)
def _expression(strings: int, bytes_max: int) -> re.Pattern[bytes]:
    """Matches an append with ``strings`` strings, none longer than ``bytes_max``."""
    short = rf"\${_length_and_bytes('', bytes_max)}\r\n"
    return re.compile(rf"\*{strings}\r\n(?:{short}){{{strings}}}".encode(), re.DOTALL)


def _length_and_bytes(digits: str, bytes_max: int) -> str:
    """Alternatives for a length that begins with these digits, and that many bytes behind it.

    They are a tree by digit, so that few are tried: ``(?:0…|1(?:\\r\\n.|0…|1…)|2(?:…)…)``.
    """
    alternatives = []
    if digits:
        alternatives.append(rf"\r\n.{{{digits}}}")
    if digits != "0":
        alternatives += [
            f"{digit}{_length_and_bytes(digits + digit, bytes_max)}"
            for digit in "0123456789"
            if int(digits + digit) <= bytes_max
        ]
    return f"(?:{'|'.join(alternatives)})"


def _first_wrong(
    lengths: Sequence[int], index: int, stop: int, fields: bytes, start: int
) -> int | None:
    """``wrong_append`` of the appends from ``index`` to ``stop``, the first of them at ``start``.

    Parsing and packing again, both in C, must give the same bytes: that leaves no room for other
    types, other ways to write a length, or anything between two appends.

    The parser moves what it has not parsed yet to the front of its buffer again and again, so it
    is fed a little at a time.
    """
    reader = hiredis.Reader()
    reader.feed(fields, start, sum(lengths[index:stop]))
    for at in range(index, stop):
        end = start + lengths[at]
        try:
            parsed = reader.gets()
            if type(parsed) is not list or not parsed or len(parsed) % 2:
                return at
            packed = hiredis.pack_command(tuple(parsed))
        # MemoryError: a header that claims more elements than there can be.
        except (hiredis.HiredisError, TypeError, MemoryError):
            return at
        if packed != fields[start:end]:
            return at
        start = end
    return None
