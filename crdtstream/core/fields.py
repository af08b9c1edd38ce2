"""An entry's fields and values as one RESP array of bulk strings.

This is the only form in which fields exist below the commands: XADD builds it once, and macro
node, log, link and reply carry the same bytes.

    *2\r\n $4\r\n text\r\n $5\r\n hello\r\n        (blanks only here, for reading)
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain, repeat
from typing import Final

from crdtstream.core.size import Size

# What the shortest take: one field without a name, and without a value.
FIELDS_BYTES_MIN: Final = len(b"*2\r\n" + 2 * b"$0\r\n\r\n")

# From this number of arguments on they are checked together.
MANY: Final = Size(64, least=0)
_LENGTHS: Final = [b"$%d" % length for length in range(1024)]
_HEADERS: Final = [length + b"\r\n" for length in _LENGTHS]

# A length is written in one way only: without a sign, and without zeros in front.
_ARRAY: Final = re.compile(rb"\*([1-9][0-9]{0,9})\r\n")
_BULK: Final = re.compile(rb"\$(0|[1-9][0-9]{0,9})\r\n")


@cache
def _template(argument_count: int) -> bytes:
    return b"*%d\r\n" % argument_count + b"$%d\r\n%b\r\n" * argument_count


def encode_fields(arguments: Sequence[bytes]) -> bytes:
    """Fields and values in turn, as the client sent them, to RESP."""
    if len(arguments) == 2:
        field, value = arguments
        return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(field), field, len(value), value)
    if len(arguments) > MANY.value:
        # Long lists would fill the template cache with forms that hardly repeat.
        return b"*%d\r\n" % len(arguments) + _bulks(arguments)
    flat: list[int | bytes] = []
    for argument in arguments:
        flat += (len(argument), argument)
    return _template(len(arguments)) % tuple(flat)


def _bulks(arguments: Sequence[bytes]) -> bytes:
    try:
        # A few steps in C for each.
        headers = list(map(_HEADERS.__getitem__, map(len, arguments)))
    except IndexError:
        return b"".join([b"$%d\r\n%b\r\n" % (len(one), one) for one in arguments])
    return b"".join(chain.from_iterable(zip(headers, arguments, repeat(b"\r\n"))))


def decode_fields(data: bytes, start: int, stop: int) -> list[bytes]:
    """The arguments that :func:`encode_fields` made ``data[start:stop]`` of."""
    array = _ARRAY.match(data, start, stop)
    assert array is not None
    arguments: list[bytes] = []
    at = array.end()
    while at < stop:
        bulk = _BULK.match(data, at, stop)
        assert bulk is not None
        at = bulk.end() + int(bulk[1]) + 2
        arguments.append(data[bulk.end() : at - 2])
    assert len(arguments) == int(array[1])
    return arguments


def are_fields(data: bytes, start: int, stop: int) -> bool:
    """True if ``data[start:stop]`` is exactly what :func:`encode_fields` makes of some arguments.

    Clients get these bytes as they are, so bytes from outside must be checked first.
    """
    array = _ARRAY.match(data, start, stop)
    if array is None or int(array[1]) % 2:
        return False
    if int(array[1]) > MANY.value and _are_plain(data[array.end() : stop], int(array[1])):
        return True
    at = array.end()
    for _ in range(int(array[1])):
        bulk = _BULK.match(data, at, stop)
        if bulk is None:
            return False
        at = bulk.end() + int(bulk[1]) + 2
        if at > stop or data[at - 2 : at] != b"\r\n":
            return False
    return at == stop


def _are_plain(bulks: bytes, count: int) -> bool:
    """True if these are ``count`` bulk strings; False also if one is long, or has a line end."""
    lines = bulks.split(b"\r\n")
    lengths = list(map(len, lines[1::2]))
    return (
        len(lines) == 2 * count + 1
        and not lines[-1]
        and max(lengths) < len(_LENGTHS)
        and lines[:-1:2] == list(map(_LENGTHS.__getitem__, lengths))
    )
