"""Replies as bytes, in both versions of the protocol."""

import pytest

from crdtstream.commands.arguments import as_sent
from crdtstream.commands.reply import (
    OK,
    CommandError,
    Encoded,
    Null,
    PerKey,
    Reply,
    RespMap,
    RespMaps,
    Status,
    Verbatim,
)
from crdtstream.resp.wire.encode import encode


def encoded(reply: Reply, protocol: int) -> bytes:
    chunks: list[bytes] = []
    encode(reply, protocol, chunks)
    return b"".join(chunks)


@pytest.mark.parametrize(
    ("reply", "resp2", "resp3"),
    [
        (b"", b"$0\r\n\r\n", None),
        (b"a\r\nb", b"$4\r\na\r\nb\r\n", None),
        (0, b":0\r\n", None),
        (-(1 << 63), b":-9223372036854775808\r\n", None),
        (OK, b"+OK\r\n", None),
        (Status(b""), b"+\r\n", None),
        (None, b"$-1\r\n", b"_\r\n"),
        (Null.ARRAY, b"*-1\r\n", b"_\r\n"),
        ([], b"*0\r\n", None),
        ([1, [b"a", None]], b"*2\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n",
         b"*2\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n"),
        (Encoded(b"*1\r\n:7\r\n"), b"*1\r\n:7\r\n", None),
        (RespMap([]), b"*0\r\n", b"%0\r\n"),
        (RespMap([(b"k", 1)]), b"*2\r\n$1\r\nk\r\n:1\r\n", b"%1\r\n$1\r\nk\r\n:1\r\n"),
        (RespMaps([(b"k", []), (b"l", [])]), b"*0\r\n", None),
        (RespMaps([(b"k", [1, 2])]), b"*2\r\n*2\r\n$1\r\nk\r\n:1\r\n*2\r\n$1\r\nk\r\n:2\r\n",
         b"*2\r\n%1\r\n$1\r\nk\r\n:1\r\n%1\r\n$1\r\nk\r\n:2\r\n"),
        (RespMaps([(b"k", [1, 1])]), b"*2\r\n*2\r\n$1\r\nk\r\n:1\r\n*2\r\n$1\r\nk\r\n:1\r\n",
         b"*2\r\n%1\r\n$1\r\nk\r\n:1\r\n%1\r\n$1\r\nk\r\n:1\r\n"),
        (PerKey([(b"s", Encoded(b"*0\r\n"))]), b"*1\r\n*2\r\n$1\r\ns\r\n*0\r\n",
         b"%1\r\n$1\r\ns\r\n*0\r\n"),
        (PerKey([(b"s", 1), (b"s", 2)]), b"*2\r\n*2\r\n$1\r\ns\r\n:1\r\n*2\r\n$1\r\ns\r\n:2\r\n",
         b"%2\r\n$1\r\ns\r\n:1\r\n$1\r\ns\r\n:2\r\n"),
        (Verbatim(b"a\r\nb"), b"$4\r\na\r\nb\r\n", b"=8\r\ntxt:a\r\nb\r\n"),
        (CommandError("ERR no"), b"-ERR no\r\n", None),
        ([CommandError("ERR no"), 1], b"*2\r\n-ERR no\r\n:1\r\n", None),
    ],
    ids=repr,
)  # fmt: skip
def test_a_reply_has_these_bytes(reply: Reply, resp2: bytes, resp3: bytes | None) -> None:
    assert encoded(reply, 2) == resp2
    assert encoded(reply, 3) == (resp2 if resp3 is None else resp3)


@pytest.mark.parametrize("first", [b"name", b"idle", b"100 %d"])
def test_maps_by_columns_are_as_one_by_one(first: bytes) -> None:
    columns: list[tuple[bytes, list[Reply]]] = [
        (b"name", [b"a%b", b"", b"c\r\n"]),
        (b"idle", [5, 5, 5]),
        (b"100 %d", [0, 0, 0]),
        (b"read", [7, None, -1]),
        (b"any", [[b"x"], 5, Null.ARRAY]),
        (b"pending", [Encoded(b"*0\r\n"), Encoded(b":1\r\n"), Encoded(b"*1\r\n:1\r\n")]),
        (b"count", [0, 1 << 63, 3]),
    ]
    columns.sort(key=lambda column: column[0] != first)
    maps: list[Reply] = [*RespMaps(columns).maps()]
    assert len(maps) == 3
    for protocol in (2, 3):
        assert encoded(RespMaps(columns), protocol) == encoded(maps, protocol)


def test_line_ends_do_not_break_an_error_line() -> None:
    assert encoded(CommandError("ERR a\r\n+OK\r\n"), 2) == b"-ERR a  +OK  \r\n"


def test_bytes_of_a_client_stand_in_an_error_as_it_sent_them() -> None:
    error = CommandError("ERR no " + as_sent(b"caf\xe9"))
    assert encoded(error, 2) == b"-ERR no caf\xe9\r\n"
    # Logs, pages and gRPC have letters only.
    assert str(error) == "ERR no caf\\xe9"
