"""Replies as bytes of RESP2 or RESP3.

Chunks are appended to a list and joined once per connection and tick: a reply of many entries is
never copied on its way.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from crdtstream.commands.reply import (
    CommandError,
    Double,
    Encoded,
    EncodedParts,
    Null,
    PerKey,
    Push,
    Pushes,
    Replies,
    Reply,
    RespMap,
    RespMaps,
    RespSet,
    Several,
    Status,
    Verbatim,
)
from crdtstream.database.session import RESP3

_NULL: Final = b"_\r\n"
_NULL_BULK: Final = b"$-1\r\n"
_NULL_ARRAY: Final = b"*-1\r\n"
_NUMBERS: Final = {int, type(None)}


def encode_error(text: str) -> bytes:
    """An error line.  Line ends inside the text would end it early and become blanks."""
    line = text.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode("utf-8", "surrogateescape")


def encode(reply: Reply, protocol: int, chunks: list[bytes]) -> None:
    """Append a reply's bytes to ``chunks``.

    Args:
        protocol: 2 or 3.
    """
    # The types in the order of how often they are asked for.
    if isinstance(reply, bytes):
        chunks.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif isinstance(reply, int):
        chunks.append(b":%d\r\n" % reply)
    elif isinstance(reply, Encoded):
        chunks.append(reply.data)
    elif isinstance(reply, EncodedParts):
        chunks += reply.parts
    elif isinstance(reply, Status):
        chunks.append(b"+%b\r\n" % reply.text)
    elif isinstance(reply, list):
        chunks.append(b"*%d\r\n" % len(reply))
        for item in reply:
            encode(item, protocol, chunks)
    elif reply is None:
        chunks.append(_NULL if protocol == RESP3 else _NULL_BULK)
    elif isinstance(reply, Null):
        chunks.append(_NULL if protocol == RESP3 else _NULL_ARRAY)
    elif isinstance(reply, CommandError):
        chunks.append(encode_error(reply.text))
    elif isinstance(reply, PerKey):
        _encode_per_key(reply, protocol, chunks)
    elif isinstance(reply, RespMap):
        count = len(reply.pairs)
        chunks.append(b"%%%d\r\n" % count if protocol == RESP3 else b"*%d\r\n" % (2 * count))
        for key, value in reply.pairs:
            encode(key, protocol, chunks)
            encode(value, protocol, chunks)
    elif isinstance(reply, RespMaps):
        _encode_maps(reply, protocol, chunks)
    elif isinstance(reply, RespSet):
        chunks.append((b"~%d\r\n" if protocol == RESP3 else b"*%d\r\n") % len(reply.members))
        for item in reply.members:
            encode(item, protocol, chunks)
    elif isinstance(reply, Verbatim):
        if protocol == RESP3:
            chunks.append(b"=%d\r\ntxt:%b\r\n" % (len(reply.text) + 4, reply.text))
        else:
            chunks.append(b"$%d\r\n%b\r\n" % (len(reply.text), reply.text))
    elif isinstance(reply, Double):
        text = b"%.17g" % reply.value
        if protocol == RESP3:
            chunks.append(b",%b\r\n" % text)
        else:
            chunks.append(b"$%d\r\n%b\r\n" % (len(text), text))
    elif isinstance(reply, Push):
        chunks.append((b">%d\r\n" if protocol == RESP3 else b"*%d\r\n") % len(reply.items))
        for item in reply.items:
            encode(item, protocol, chunks)
    elif isinstance(reply, Pushes):
        for push in reply.pushes:
            encode(push, protocol, chunks)
    elif isinstance(reply, Replies):
        chunks.append(b"*%d\r\n" % reply.count)
        for part in reply.parts:
            if isinstance(part, Several):
                chunks.append(part.data)
            else:
                encode(part, protocol, chunks)
    else:
        assert_never(reply)


def _encode_maps(reply: RespMaps, protocol: int, chunks: list[bytes]) -> None:
    """One shape for all maps, into which go the values of each column that has several."""
    columns = reply.columns
    keys = len(columns)
    head = b"%%%d\r\n" % keys if protocol == RESP3 else b"*%d\r\n" % (2 * keys)
    shape = head.replace(b"%", b"%%")
    cells: list[Iterable[Reply]] = []
    for name, values in columns:
        shape += b"$%d\r\n%b\r\n" % (len(name), name.replace(b"%", b"%%"))
        kinds = set(map(type, values))
        if kinds == {bytes}:
            texts: list[bytes] = values  # type: ignore[assignment]
            shape += b"$%d\r\n%b\r\n"
            cells += (map(len, texts), texts)
        elif kinds == {int}:
            # Often the same one: nothing pending, idle for as long.
            several: set[int] = set(values)  # type: ignore[arg-type]
            if cells and len(several) == 1:
                shape += b":%d\r\n" % several.pop()
            else:
                shape += b":%d\r\n"
                cells.append(values)
        else:
            shape += b"%b"
            cells.append(_cells(values, kinds, protocol))
    chunks.append(b"*%d\r\n" % len(columns[0][1]))
    chunks.append(b"".join(map(shape.__mod__, zip(*cells, strict=True))))


def _cells(values: list[Reply], kinds: set[type], protocol: int) -> list[bytes]:
    """Values of one column; those of one kind, and numbers among nulls, are made together."""
    if kinds == {Encoded}:
        made: list[Encoded] = values  # type: ignore[assignment]
        return [value.data for value in made]
    if kinds <= _NUMBERS:
        null = _NULL if protocol == RESP3 else _NULL_BULK
        numbers: list[int | None] = values  # type: ignore[assignment]
        return [null if number is None else b":%d\r\n" % number for number in numbers]
    cells: list[bytes] = []
    for value in values:
        parts: list[bytes] = []
        encode(value, protocol, parts)
        cells.append(b"".join(parts))
    return cells


def _encode_per_key(reply: PerKey, protocol: int, chunks: list[bytes]) -> None:
    chunks.append((b"%%%d\r\n" if protocol == RESP3 else b"*%d\r\n") % len(reply.pairs))
    head = b"" if protocol == RESP3 else b"*2\r\n"
    for key, value in reply.pairs:
        chunks.append(b"%b$%d\r\n%b\r\n" % (head, len(key), key))
        encode(value, protocol, chunks)
