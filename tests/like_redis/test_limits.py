"""Limits of the protocol: what a real server takes is taken, and the rest refused in its words.

Each input is followed by the client's end, so both sides answer all that they ever will.  Whether
Redis takes a line of more than 64 KiB depends on where its reads cut the input; ours does not.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.like_redis.oracles import RealServer, binaries
from tests.like_redis.oracles import running as running_real
from tests.resp.node import Node, running, settings

INPUTS = [
    *[b"*%d\r\n" % count for count in (-5, -1, 0, 1 << 20, (1 << 20) + 1, (1 << 31) - 1, 1 << 31)],
    *[b"*%b\r\n" % count for count in (b"", b"x", b"+1", b"01", b"9" * 30, b"1" + b"0" * 65_000)],
    *[b"*1\r\n$%d\r\n" % size for size in (-1, 0, 512 << 20, (512 << 20) + 1, 1 << 63)],
    *[b"*1\r\n$%b\r\nPING\r\n" % size for size in (b"", b"x", b"+4", b"04", b"4")],
    b"*1\r\nPING\r\n",
    *[b"a" * 65_530 + end for end in (b"", b"\n", b"\r\n")],
    b"a" * 66_000,
    b"*" + b"1" * 66_000,
    b"*1\r\n$" + b"1" * 66_000,
]
BEFORE_LOGIN = [
    *[b"*%d\r\n" % count for count in (10, 11, 1 << 31)],
    *[b"*1\r\n$%d\r\n" % size for size in (16_384, 16_385, 1 << 30)],
    b"a" * 66_000,
    b"PING\r\n" * 10,
]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, RealServer]]:
    """A node and a real server that ask for a password."""
    binary = binaries()["redis 8"]
    assert binary is not None
    folder: Path = tmp_path_factory.mktemp("locked")
    with (
        running(settings(requirepass="secret")) as node,
        running_real(binary, folder, "--requirepass", "secret") as real,
    ):
        yield node, real


def answer(connection: socket.socket, said: bytes) -> bytes:
    """All that is answered until the end of the connection."""
    with connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while more := connection.recv(1 << 16):
            found += more
    return found


def ours(node: Node, said: bytes) -> bytes:
    return answer(node.connect(), said)


@pytest.mark.parametrize("said", INPUTS, ids=lambda said: repr(said[:20]))
def test_limits_of_requests_are_those_of_redis(redis: RealServer, node: Node, said: bytes) -> None:
    assert ours(node, said) == answer(redis.connect(), said)


@pytest.mark.parametrize("said", BEFORE_LOGIN, ids=lambda said: repr(said[:20]))
def test_before_a_login_the_limits_are_those_of_redis(
    redis: RealServer, locked: tuple[Node, RealServer], said: bytes
) -> None:
    node, real = locked
    assert ours(node, said) == answer(real.connect(), said)
