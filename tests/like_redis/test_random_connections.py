"""Random connections leave the same behind, and are answered the same, as with redis-server 8.

A script has a few clients.  Each writes commands on keys of its own and reads, or does not; some
of its commands are a transaction, or a read that waits for another client.  In the end it reads
all, closes the half of the connection to which it writes, or leaves with replies unread.  Nothing
depends on which client is served first, so both servers must send the same bytes:

    client   XADD a 1-1 …   MULTI XADD XADD EXEC   XREAD BLOCK 0 STREAMS wait-a 5-0   XADD …   half
    waker                                          XADD wait-a 6-0 f v

Of a client that closes its half Redis sends no more replies; here it gets the rest, too.

A client that leaves by a reset may lose what the system had not handed over.  What was run of its
commands is then the first of them, without a gap.
"""

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

from crdtstream.core.ids import IdMode
from tests.conftest import seeds
from tests.like_redis.oracles import RealServer
from tests.like_redis.wire import read_reply, request
from tests.patience import seconds
from tests.resp.node import running, settings

CLIENTS_MAX: Final = 4
STEPS_MAX: Final = 12
RUN_MAX: Final = 400
# Bytes of a value: some fit into a segment by the hundred, of some one is more than a socket takes.
SIZES: Final = (1, 1, 1, 40, 4_000, 70_000)
# Of the client's socket; the kernel doubles it.  Windows of few KiB would test TCP: each is opened
# again after a fifth of a second, and acknowledgements that come with replies are dropped.
RECEIVED_BYTES: Final = (1 << 16, 1 << 18, 1 << 20)
RUN_BYTES_MAX: Final = 8 << 20

Connect = Callable[[], socket.socket]


class End(Enum):
    """The end of a client's connection."""

    READ_ALL = "reads all"
    HALF_CLOSE = "half-close"
    RESET = "reset"


@dataclass
class Client:
    """The bytes that a client writes, piece by piece, and how it leaves.

    Attributes:
        pieces: each is written at once; between two it may read some bytes.
        reads: how many bytes it reads behind a piece, at most.
        wakes: commands of another client, run when all is written.
        replies: number of replies that it gets if it stays.
        added: entries that its commands add to its stream.
    """

    name: str
    received_bytes: int
    end: End
    pieces: list[bytes] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    wakes: list[list[bytes]] = field(default_factory=list)
    replies: int = 0
    added: int = 0

    @property
    def key(self) -> bytes:
        return self.name.encode()


def drawn(seed: int) -> list[Client]:
    """The clients of a script."""
    draw = random.Random(seed)
    return [_client(draw, f"client-{at}") for at in range(draw.randint(1, CLIENTS_MAX))]


def _client(draw: random.Random, name: str) -> Client:
    client = Client(name, draw.choice(RECEIVED_BYTES), draw.choice(list(End)))
    steps: tuple[Callable[[random.Random, Client], bytes], ...]
    # Commands behind a read that waits are run when it ends; a reset would not wait for that.
    steps = (_run, _run, _transaction, _mistake)
    if client.end is not End.RESET:
        steps += (_waiting,)
    for _ in range(draw.randint(1, STEPS_MAX)):
        client.pieces.append(draw.choice(steps)(draw, client))
        client.reads.append(draw.choice((0, 0, 0, 1, 1_000, 1 << 17)))
    return client


def _add(draw: random.Random, client: Client, size: int) -> bytes:
    client.added += 1
    value = bytes([draw.randrange(97, 123)]) * size
    return request([b"XADD", client.key, b"%d-1" % client.added, b"f", value])


def _run(draw: random.Random, client: Client) -> bytes:
    size = draw.choice(SIZES)
    count = min(draw.randint(1, RUN_MAX), max(1, RUN_BYTES_MAX // (size + 40)))
    is_read = draw.random() < 0.3
    commands = []
    for _ in range(count):
        if is_read and draw.random() < 0.2:
            commands.append(request([b"XRANGE", client.key, b"-", b"+", b"COUNT", b"3"]))
        else:
            commands.append(_add(draw, client, size))
    client.replies += count
    return b"".join(commands)


def _transaction(draw: random.Random, client: Client) -> bytes:
    count = draw.randint(0, 20)
    inner = b"".join(_add(draw, client, draw.choice(SIZES[:5])) for _ in range(count))
    client.replies += count + 2
    return request([b"MULTI"]) + inner + request([b"EXEC"])


def _mistake(draw: random.Random, client: Client) -> bytes:
    client.replies += 1
    # The ID of the last entry, or none before the first.
    known = b"%d-1" % client.added if client.added else b"0-0"
    return draw.choice(
        (
            request([b"XADD", client.key, known, b"f", b"v"]),
            request([b"XADD", client.key]),
            request([b"NOSUCH", b"command"]),
            request([b"EXEC"]),
        )
    )


def _waiting(draw: random.Random, client: Client) -> bytes:
    """A read that waits for an entry, whose ID is known."""
    at = len(client.wakes) + 1
    key = b"wait-" + client.key
    client.wakes.append([b"XADD", key, b"%d-0" % at, b"f", b"v"])
    client.replies += 1
    # Of several that are there by then it gets the first.
    argv = [b"XREAD", b"COUNT", b"1", b"BLOCK", b"0", b"STREAMS", key, b"%d-0" % (at - 1)]
    return request(argv)


# --- Both sides -----------------------------------------------------------------------------------


def played(connect: Connect, clients: list[Client]) -> dict[str, Any]:
    """The bytes that each client reads, and the entries that it leaves."""
    with ExitStack() as stack:
        control = stack.enter_context(connect())
        source = stack.enter_context(control.makefile("rb"))

        def ask(argv: list[bytes]) -> Any:
            control.sendall(request(argv))
            return read_reply(source)

        assert repr(ask([b"FLUSHALL"]))
        sockets = {one.name: stack.enter_context(connect()) for one in clients}
        got = {one.name: bytearray() for one in clients}
        for one in clients:
            sockets[one.name].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, one.received_bytes)
        for at in range(STEPS_MAX):
            for one in clients:
                if at < len(one.pieces):
                    sockets[one.name].sendall(one.pieces[at])
                    _read_some(sockets[one.name], got[one.name], one.reads[at])
        for one in clients:
            for argv in one.wakes:
                ask(argv)
        found: dict[str, Any] = {}
        for one in clients:
            found |= _ended(one, sockets[one.name], got[one.name])
        for one in clients:
            found[f"{one.name} has"] = _left(one, ask)
        return found


def _read_some(connection: socket.socket, got: bytearray, most: int) -> None:
    """Read what has come by now, and at most so much."""
    if most:
        connection.setblocking(False)
        try:
            got += connection.recv(most)
        except BlockingIOError:
            pass
        finally:
            connection.settimeout(seconds())


def _ended(client: Client, connection: socket.socket, got: bytearray) -> dict[str, bytes]:
    if client.end is End.RESET:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        return {}
    last = request([b"ECHO", b"the last of " + client.key])
    connection.sendall(last)
    if client.end is End.HALF_CLOSE:
        connection.shutdown(socket.SHUT_WR)
        while more := connection.recv(1 << 18):
            got += more
    else:
        ends = b"the last of " + client.key + b"\r\n"
        while not got.endswith(ends):
            more = connection.recv(1 << 18)
            assert more, f"the connection of {client.name} ended after {bytes(got[-200:])!r}"
            got += more
    return {f"{client.name} reads": bytes(got)}


def _left(client: Client, ask: Callable[[list[bytes]], Any]) -> Any:
    """Entries of its stream; of a client that left by a reset, that none is missing in between."""
    # Of one moment: some of it may still be run.
    ask([b"MULTI"])
    ask([b"XLEN", client.key])
    ask([b"XREVRANGE", client.key, b"+", b"-", b"COUNT", b"1"])
    match ask([b"EXEC"]):
        case [length, _] if client.end is not End.RESET:
            return length
        case [0, []]:
            return True
        case [length, [[last_id, _]]]:
            return last_id == b"%d-1" % length
        case other:
            return other


@pytest.fixture(params=[1 << 16, 1 << 20], ids=["small buffers", "usual buffers"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    with running(settings(output_pause_bytes=request.param)) as node:
        node.call(lambda: setattr(node.replica, "id_mode", IdMode.LIBERAL))
        yield lambda: node.client().socket


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(60, few=2))
def test_random_connections_are_served_as_redis_serves_them(
    ours: Connect, redis: RealServer, seed: int
) -> None:
    clients = drawn(seed)
    expected, found = played(redis.connect, clients), played(ours, clients)
    assert found.keys() == expected.keys()
    for one in clients:
        assert found[f"{one.name} has"] == (one.end is End.RESET or one.added)
        if one.end is not End.RESET:
            theirs, read = expected[f"{one.name} reads"], found[f"{one.name} reads"]
            if one.end is End.HALF_CLOSE:
                # Redis sends nothing more once it has seen the end.
                assert read.endswith(b"the last of " + one.key + b"\r\n")
                read = read[: len(theirs)]
            assert read == theirs
    assert all(expected[f"{one.name} has"] == found[f"{one.name} has"] for one in clients)
