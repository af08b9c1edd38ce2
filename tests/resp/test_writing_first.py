"""Clients that write before they read, and clients that leave: all that has arrived is run."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import redis

from crdtstream.resp.clients.arrivals import PIECE_BYTES, Arrivals
from tests.patience import wait_until
from tests.resp.node import Node, RawClient, request, running, settings
from tests.resp.test_client_limits import operated, stat
from tests.resp.tls import Party, TlsClient

MIB = 1 << 20
VALUE = b"v" * (1 << 16)
ECHO = request(b"ECHO", VALUE)
ECHOED = b"$65536\r\n" + VALUE + b"\r\n"
# More than the buffers of the system take.
COUNT = 400
BLOCKED = request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"none", b"$")
XADD = request(b"XADD", b"s", b"*", b"f", b"v")


def length(node: Node, key: bytes = b"s") -> int:
    stream = node.call(lambda: node.replica.stream(key))
    return 0 if stream is None else node.call(lambda: stream.length)


def held_bytes(node: Node) -> int:
    return node.call(lambda: max(one.held_bytes for one in node.server.connections.values()))


def waiting(node: Node) -> int:
    return node.call(lambda: node.database.waiting_count)


def read_all(client: RawClient, count: int) -> bytes:
    data = bytearray()
    while len(data) < count and (more := client.socket.recv(MIB)):
        data += more
    return bytes(data)


def reset(client: RawClient) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


@contextmanager
def blocked(node: Node) -> Iterator[RawClient]:
    """A client with a read that waits."""
    with node.client() as client:
        client.send(BLOCKED)
        wait_until(lambda: waiting(node) == 1)
        yield client


# --- Writing first ------------------------------------------------------------------------------


def test_a_client_may_write_everything_before_it_reads() -> None:
    with running(settings(output_pause_bytes=1 << 16)) as node, node.client() as client:
        client.send(ECHO * COUNT)
        assert read_all(client, len(ECHOED) * COUNT) == ECHOED * COUNT


def test_a_client_may_write_everything_before_it_reads_over_tls(party: Party) -> None:
    with (
        party.running(limits={"output_pause_bytes": 1 << 16}) as (node, _),
        TlsClient(node.tls_port, party.context()) as client,
    ):
        client.send(ECHO * COUNT)
        assert read_all(client, len(ECHOED) * COUNT) == ECHOED * COUNT


def test_many_short_replies_that_are_not_read_arrive_in_order(node: Node) -> None:
    """The first reply is more than the system takes, and the others wait behind it."""
    with node.client() as client:
        client.send(ECHO * COUNT + b"".join(request(b"ECHO", b"%d" % n) for n in range(50_000)))
        expected = ECHOED * COUNT + b"".join(
            b"$%d\r\n%d\r\n" % (len(str(n)), n) for n in range(50_000)
        )
        assert read_all(client, len(expected)) == expected


def test_a_short_reply_waits_behind_large_ones_that_are_not_read(node: Node) -> None:
    expected = ECHOED * COUNT + b"$1\r\n0\r\n$1\r\n1\r\n"

    def replied() -> int:
        return node.call(lambda: max(one.bytes_out for one in node.server.connections.values()))

    with node.client() as client:
        client.send(ECHO * COUNT)
        wait_until(lambda: replied() == len(ECHOED) * COUNT)
        client.send(request(b"ECHO", b"0"))
        wait_until(lambda: replied() > len(ECHOED) * COUNT)
        client.send(request(b"ECHO", b"1"))
        assert read_all(client, len(expected)) == expected


def test_replies_beyond_the_bound_of_the_class_end_the_connection() -> None:
    with operated(settings(output_buffer_bytes_max=4 * MIB)) as (node, r), node.client() as client:
        with pytest.raises(ConnectionError):
            client.send(ECHO * COUNT)
        wait_until(lambda: stat(r, "client_output_buffer_limit_disconnections") == 1)
        assert r.ping()


def test_replies_that_are_not_read_have_no_bound_by_default(node: Node) -> None:
    assert node.call(lambda: node.server.limits.output.normal.hard) == 0


# --- Behind a blocked command -------------------------------------------------------------------


def test_megabytes_behind_a_blocked_read_are_run_when_it_ends(node: Node) -> None:
    count = 20 * MIB // len(VALUE)
    with blocked(node) as client:
        client.send(request(b"XADD", b"behind", b"*", b"f", VALUE) * count)
        wait_until(lambda: held_bytes(node) > 20 * MIB)
        assert length(node, b"behind") == 0
        with redis.Redis(port=node.port) as r:
            r.xadd("none", {"f": "v"})
            client.expect(b"*1\r\n*2\r\n$4\r\nnone\r\n")
            wait_until(lambda: length(node, b"behind") == count)


def test_input_behind_a_blocked_read_is_bounded_as_redis_bounds_it() -> None:
    with operated(settings(query_buffer_bytes_max=2 * MIB)) as (node, r), blocked(node) as client:
        client.send(XADD * (MIB // len(XADD)))
        wait_until(lambda: held_bytes(node) > MIB // 2)
        assert stat(r, "client_query_buffer_limit_disconnections") == 0
        with pytest.raises(ConnectionError):
            client.send(XADD * (40 * MIB // len(XADD)))
        wait_until(lambda: stat(r, "client_query_buffer_limit_disconnections") == 1)
        assert length(node) == 0


def test_input_behind_a_blocked_read_counts_for_the_memory_of_clients() -> None:
    with operated() as (node, r):
        r.config_set("maxmemory-clients", "3mb")
        with blocked(node) as client:
            client.send(XADD * (2 * MIB // len(XADD)))
            wait_until(lambda: held_bytes(node) > MIB)
            assert stat(r, "evicted_clients") == 0
            client.send(XADD * (2 * MIB // len(XADD)))
            wait_until(lambda: stat(r, "evicted_clients") == 1)


def test_others_come_between_the_turns_of_what_was_held(node: Node) -> None:
    """A client's input is run in pieces, each in a turn of the event loop."""
    count = 20 * MIB // len(VALUE)
    turns: list[int] = []

    def look() -> None:
        """Note how much is left, each turn, until nothing is."""
        turns.append(max(one.held_bytes for one in node.server.connections.values()))
        if turns[-1]:
            node.loop.call_soon(look)

    with blocked(node) as client, redis.Redis(port=node.port) as r:
        client.send(request(b"ECHO", VALUE) * count)
        wait_until(lambda: held_bytes(node) > 20 * MIB)
        r.xadd("none", {"f": "v"})
        node.loop.call_soon_threadsafe(look)
        read_all(client, len(ECHOED) * count)
        wait_until(lambda: not turns[-1])
    # A piece ends a turn.  What ends a tick, or finds room to write, may go on in the same one.
    taken = [before - after for before, after in pairwise(turns) if before > after]
    assert len(taken) * 4 * PIECE_BYTES.value >= count * len(VALUE)


# --- Clients that leave -------------------------------------------------------------------------


def test_commands_behind_large_replies_are_run_though_the_client_sends_no_more(node: Node) -> None:
    with node.client() as client:
        client.send(ECHO * COUNT + request(b"XADD", b"last", b"7", b"f", b"v"))
        client.socket.shutdown(socket.SHUT_WR)
        wait_until(lambda: length(node, b"last") == 1)
        expected = ECHOED * COUNT + b"$3\r\n7-1\r\n"
        assert read_all(client, len(expected)) == expected
        client.expect_closed()


@pytest.mark.parametrize(
    "leave", [RawClient.__exit__, reset, lambda client: client.socket.shutdown(socket.SHUT_WR)]
)
def test_all_that_was_received_is_run_however_the_client_leaves(
    leave: Callable[[RawClient], None],
) -> None:
    """The disk is behind as the client leaves, so its last commands were not run."""
    with running(settings(pending_replies_max=10)) as node, node.client() as client:
        node.call(node.log.gate.clear)
        client.send(XADD * 50)
        wait_until(lambda: length(node) == 50)
        client.send(XADD * 50)
        wait_until(lambda: held_bytes(node) > 0)
        leave(client)
        if leave is not reset:
            wait_until(lambda: _has_left(node))
        assert length(node) == 50
        node.call(node.log.gate.set)
        wait_until(lambda: length(node) == 100)
        client.socket.close()
        wait_until(lambda: not node.server.connections)


def _has_left(node: Node) -> bool:
    return node.call(lambda: all(one._sends_no_more for one in node.server.connections.values()))


def test_a_client_that_has_left_is_run_up_to_a_command_that_waits() -> None:
    with running(settings(pending_replies_max=10)) as node, node.client() as client:
        node.call(node.log.gate.clear)
        client.send(XADD * 50)
        wait_until(lambda: length(node) == 50)
        client.send(XADD + BLOCKED + XADD)
        wait_until(lambda: held_bytes(node) > 0)
        client.socket.close()
        wait_until(lambda: _has_left(node))
        node.call(node.log.gate.set)
        wait_until(lambda: not node.server.connections)
        assert length(node) == 51
        assert waiting(node) == 0


def test_a_blocked_client_that_leaves_takes_what_is_behind_with_it(node: Node) -> None:
    with blocked(node) as client:
        client.send(request(b"XADD", b"behind the gone", b"*", b"f", b"v"))
        wait_until(lambda: held_bytes(node) > 0)
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_closed()
    assert waiting(node) == 0
    assert length(node, b"behind the gone") == 0


def test_a_client_that_is_killed_runs_nothing_more() -> None:
    with running(settings(pending_replies_max=10)) as node, node.client() as client:
        client.send(request(b"CLIENT", b"ID"))
        client_id = int(client.read_line()[1:])
        node.call(node.log.gate.clear)
        client.send(XADD * 50)
        wait_until(lambda: length(node) == 50)
        client.send(XADD * 50)
        wait_until(lambda: held_bytes(node) > 0)
        connection = node.server.connections[client_id]
        client.socket.shutdown(socket.SHUT_WR)
        wait_until(lambda: connection._sends_no_more)
        node.call(connection.abort)
        node.call(node.log.gate.set)
        wait_until(lambda: client_id not in node.server.connections)
        assert length(node) == 50


# --- Input that waits ---------------------------------------------------------------------------


def test_input_that_waits_is_kept_whole_and_in_order() -> None:
    arrivals = Arrivals()
    sent = [b"%d," % n for n in range(100_000)] + [b"x" * (PIECE_BYTES.value + 1), b"end"]
    for data in sent:
        arrivals.add(data)
    assert arrivals.size == sum(map(len, sent))
    pieces = []
    while arrivals.size:
        pieces.append(arrivals.take())
    assert b"".join(pieces) == b"".join(sent)
    assert len(pieces) <= 5
    assert arrivals.size == 0
