"""Bytes of Redis clients: the parser, whatever the bytes, and however they are cut."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Final

from crdtstream.resp.wire.parser import RequestError, RequestLimits, RequestParser
from tests.fuzz.damage import damaged_bytes, one_of
from tests.fuzz.surface import Surface
from tests.resp.node import request

LIMITS: Final = RequestLimits(
    bulk_bytes_max=20_000,
    arguments_max=100,
    request_bytes_max=30_000,
    inline_bytes_max=1_000,
)
# Parts of protocol, to be put in anywhere.
BITS: Final = (
    *(b"*1\r\n", b"*2\r\n", b"*-1\r\n", b"*0\r\n", b"*100\r\n", b"*101\r\n", b"*4294967296\r\n"),
    *(b"$0\r\n\r\n", b"$1\r\na\r\n", b"$-1\r\n", b"$20001\r\n", b"$9223372036854775808\r\n"),
    *(b"+OK\r\n", b":1\r\n", b"%1\r\n", b"~2\r\n", b">1\r\n", b"|1\r\n", b"_\r\n", b"#t\r\n"),
    *(b",1.5\r\n", b"=5\r\ntxt:a\r\n", b"(1\r\n", b"!3\r\nERR\r\n", b"*?\r\n", b"$?\r\n", b".\r\n"),
    *(b"\r\n", b"\n", b"\r", b'"', b"'", b"\\x41", b"PING\r\n", b"*1\r\n$4\r\nPING\r\n"),
)


def read(pieces: Sequence[bytes], *, trusted: bool) -> tuple[list[list[bytes]], str | None]:
    """The requests in these pieces, and the error that ended them."""
    parser = RequestParser(LIMITS)
    parser.trusted = trusted
    requests: list[list[bytes]] = []
    try:
        for piece in pieces:
            for found in parser.parse(piece):
                requests += [found] if isinstance(found, list) else found.requests()
    except RequestError as error:
        return requests, error.text
    return requests, None


def target(data: bytes) -> object:
    """The first byte is how it is cut, and if the client has logged in."""
    if len(data) < 2:
        return None
    trusted, draw, sent = data[0] % 4 > 0, Random(data[0]), data[1:]
    found = read([sent], trusted=trusted)
    assert all(arguments for arguments in found[0])
    cuts = sorted({0, len(sent), *(draw.randrange(len(sent)) for _ in range(3))})
    cut = [sent[a:b] for a, b in pairwise(cuts)]
    assert read(cut, trusted=trusted) == found
    if len(sent) <= 2_000:
        single = [sent[at : at + 1] for at in range(len(sent))]
        assert read(single, trusted=trusted) == found
    return found


def seeds() -> list[bytes]:
    commands = [
        request(b"PING"),
        request(b"ECHO", b"a\r\nb"),
        request(b"XADD", b"x", b"*", b"f", b"v") * 3,
        request(b"XACK", b"x", b"g", *[b"%d-0" % n for n in range(60)]),
        request(b"XDEL", b"x", b"1-0") * 4,
        b"PING\r\n" + b"SET \"a b\" 'c'\r\n" + b"  \r\n",
        b"*1\r\n$1000\r\n" + b"x" * 1000 + b"\r\n",
        request(b"SET", b"", b"*3\r\n$1\r\n"),
    ]
    return [bytes([number]) + sent for number, sent in enumerate([*commands, b"".join(commands)])]


def with_a_bit(data: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(BITS) * draw.choice((1, 1, 1, 2, 40)) + data[at:]


REQUESTS: Final = Surface(
    "requests",
    target,
    seeds,
    one_of(damaged_bytes, with_a_bit),
    "requests of Redis clients: the parser in one piece, cut, and byte by byte",
)
