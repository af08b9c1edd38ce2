"""Sockets under good and bad manners: every case leaves a clear answer and a server that lives."""

import socket
import struct

import pytest

from tests import patience
from tests.patience import seconds
from tests.resp.node import Node, RawClient, request, running, settings

PING = request(b"PING")
PONG = b"+PONG\r\n"


def wait_until(node: Node, condition: str) -> None:
    """Until a Python expression over ``server`` holds on the node's loop."""
    names = {
        "server": node.server,
        "region": node.region,
        "database": node.database,
    }
    patience.wait_until(lambda: node.call(lambda: eval(condition, {}, names)), condition)


# --- Malformed input ----------------------------------------------------------------------------

MALFORMED = [
    (b"*a\r\n", b"invalid multibulk length"),
    (b"*2147483648\r\n", b"invalid multibulk length"),
    (b"*" + b"1" * 70_000, b"too big mbulk count string"),
    (b"*1\r\n$-5\r\n", b"invalid bulk length"),
    (b"*1\r\n$999999999999\r\n", b"invalid bulk length"),
    (b"*1\r\n:1\r\n", b"expected '$', got ':'"),
    (b"*2\r\n$4\r\nPING\r\n*1\r\n", b"expected '$', got '*'"),
    (b"*1\r\n$3\r\nPING\r\n", b"expected a line end after a bulk string of its length"),
    (b"x" * 70_000, b"too big inline request"),
    (b"ECHO 'open\r\n", b"unbalanced quotes in request"),
]


@pytest.mark.parametrize(("sent", "error"), MALFORMED, ids=lambda value: repr(value)[:40])
def test_malformed_input_is_told_and_hung_up_on(node: Node, sent: bytes, error: bytes) -> None:
    with node.client() as client, node.client() as other:
        client.send(PING + sent)
        client.expect(PONG + b"-ERR Protocol error: " + error + b"\r\n")
        client.expect_closed()
        other.ask(PING, PONG)


@pytest.mark.parametrize(("sent", "_error"), MALFORMED, ids=lambda value: repr(value)[:40])
def test_nothing_after_malformed_input_runs(node: Node, sent: bytes, _error: bytes) -> None:
    append = request(b"XADD", b"after", b"*", b"f", b"v")
    with node.client() as client:
        client.send(sent + b"\r\n" + append)
        while client.socket.recv(4096):
            pass
    assert node.call(lambda: node.replica.stream(b"after")) is None


def test_half_a_transaction_before_malformed_input_is_dropped(node: Node) -> None:
    with node.client() as client:
        client.send(request(b"MULTI") + request(b"XADD", b"half", b"*", b"f", b"v") + b"*x\r\n")
        client.expect(b"+OK\r\n+QUEUED\r\n-ERR Protocol error: invalid multibulk length\r\n")
        client.expect_closed()
    assert node.call(lambda: node.replica.stream(b"half")) is None


@pytest.mark.parametrize("cut", [1, 5, 12, 20, 30])
def test_a_request_that_never_ends_changes_nothing(node: Node, cut: int) -> None:
    sent = request(b"XADD", b"cut", b"*", b"f", b"v")
    with node.client() as client:
        client.send(sent[:cut])
    with node.client() as client:
        client.ask(PING, PONG)
    assert node.call(lambda: node.replica.stream(b"cut")) is None


def test_a_reset_connection_is_forgotten(node: Node) -> None:
    client = node.client()
    client.ask(PING, PONG)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    wait_until(node, "not server.connections")


def test_empty_requests_are_not_answered(client: RawClient) -> None:
    client.ask(b"*0\r\n\r\n*-1\r\n" + PING, PONG)


def test_http_is_hung_up_on(client: RawClient) -> None:
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + request(b"XADD", b"web", b"*", b"f", b"v"))
    client.expect_closed()


def test_inline_and_resp_commands_may_alternate(client: RawClient) -> None:
    client.send(b"PING\r\n" + request(b"ECHO", b"a") + b'ECHO "b c"\n' + PING)
    client.expect(b"+PONG\r\n$1\r\na\r\n$3\r\nb c\r\n+PONG\r\n")


# --- Pipelines and order ------------------------------------------------------------------------


def test_replies_come_in_the_order_of_the_requests(client: RawClient) -> None:
    count = 5000
    client.send(b"".join(request(b"ECHO", b"%d" % n) for n in range(count)))
    client.expect(b"".join(b"$%d\r\n%d\r\n" % (len(b"%d" % n), n) for n in range(count)))


def test_large_values_pass(client: RawClient) -> None:
    value = bytes(range(256)) * 20_000
    client.ask(request(b"ECHO", value), b"$%d\r\n%b\r\n" % (len(value), value))


def test_replies_wait_for_the_disk_and_commands_do_not() -> None:
    with running() as node, node.client() as writer, node.client() as other:
        node.call(node.log.gate.clear)
        writer.send(request(b"XADD", b"s", b"5", b"f", b"v") + PING)
        wait_until(node, "region.replica.stream(b's') is not None")
        other.send(request(b"XLEN", b"s"))
        writer.socket.settimeout(0.05)
        other.socket.settimeout(0.05)
        for client in (writer, other):
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
            client.socket.settimeout(seconds())
        node.call(node.log.gate.set)
        writer.expect(b"$3\r\n5-1\r\n+PONG\r\n")
        other.expect(b":1\r\n")


def test_a_blocked_connection_runs_nothing_until_it_is_served(node: Node) -> None:
    with node.client() as reader, node.client() as writer:
        reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"pipe", b"$"))
        reader.send(request(b"XADD", b"later", b"*", b"f", b"v") + request(b"ECHO", b"end"))
        wait_until(node, "database.waiting_count == 1")
        writer.ask(PING, PONG)
        assert node.call(lambda: node.replica.stream(b"later")) is None
        writer.send(request(b"XADD", b"pipe", b"*", b"f", b"v"))
        writer.read(4)
        reader.expect(b"*1\r\n*2\r\n$4\r\npipe\r\n")
        wait_until(node, "region.replica.stream(b'later') is not None")


def test_malformed_input_behind_a_blocked_command_waits_its_turn(node: Node) -> None:
    with node.client() as reader, node.client() as writer:
        reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"turn", b"$") + PING + b"*x\r\n")
        wait_until(node, "database.waiting_count == 1")
        writer.send(request(b"XADD", b"turn", b"*", b"f", b"v"))
        data = reader.read(1 << 20)
        assert data.startswith(b"*1\r\n*2\r\n$4\r\nturn\r\n")
        assert data.endswith(b"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n")


def test_a_blocked_command_times_out(client: RawClient) -> None:
    client.ask(
        request(b"XREAD", b"BLOCK", b"20", b"STREAMS", b"none", b"$") + PING, b"*-1\r\n" + PONG
    )


def test_a_blocked_client_that_leaves_is_forgotten(node: Node) -> None:
    with node.client() as reader:
        reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"left", b"$"))
        wait_until(node, "database.waiting_count == 1")
    wait_until(node, "database.waiting_count == 0")


# --- Half-closed sockets, slow readers, limits --------------------------------------------------


def test_a_half_closed_client_gets_what_it_is_owed(client: RawClient) -> None:
    client.send(request(b"XADD", b"owed", b"*", b"f", b"v") + PING)
    client.socket.shutdown(socket.SHUT_WR)
    data = client.read(1 << 16)
    assert data.startswith(b"$")
    assert data.endswith(PONG)


def test_replies_that_nobody_fetches_end_the_connection() -> None:
    few = settings(output_buffer_bytes_max=1 << 20, output_pause_bytes=1 << 16)
    with running(few) as node, node.client() as client, node.client() as other:
        other.ask(PING, PONG)
        client.send(request(b"ECHO", b"v" * (16 << 20)))
        wait_until(node, "len(server.connections) == 1")
        other.ask(PING, PONG)


def test_a_slow_reader_is_served_whole() -> None:
    with running(settings(output_pause_bytes=1 << 16)) as node, node.client() as client:
        value = b"v" * 250_000
        client.send(request(b"XADD", b"s", b"*", b"f", value))
        entry_id = client.read(len(b"$15\r\n1234567890123-1\r\n")).split(b"\r\n")[1]
        reply = b"*1\r\n*2\r\n$15\r\n%b\r\n*2\r\n$1\r\nf\r\n$250000\r\n%b\r\n" % (entry_id, value)

        # More than the buffers of the system take.
        count = 200
        client.send(request(b"XRANGE", b"s", b"-", b"+") * count)
        wait_until(node, "any(c.unsent_bytes > 10 << 20 for c in server.connections.values())")
        for _ in range(count):
            client.expect(reply)
        client.ask(PING, PONG)


@pytest.mark.parametrize("entries", [1, 200])
def test_a_large_reply_is_written_as_its_client_reads(entries: int) -> None:
    """Not copied as a whole into the transport's buffer, where it would stay until it is read."""
    with running(settings(output_pause_bytes=1 << 16)) as node, node.client() as client:
        value = b"v" * ((24 << 20) // entries)
        reply = b"*%d\r\n" % entries
        for _ in range(entries):
            client.send(request(b"XADD", b"s", b"*", b"f", value))
            entry_id = client.read_reply()
            reply += b"*2\r\n$%d\r\n%b\r\n" % (len(entry_id), entry_id)
            reply += b"*2\r\n$1\r\nf\r\n$%d\r\n%b\r\n" % (len(value), value)
        client.send(request(b"XRANGE", b"s", b"-", b"+") + PING)
        wait_until(node, "any(c.unsent_bytes > 1 << 20 for c in server.connections.values())")
        with node.client() as other:
            other.ask(PING, PONG)

        def buffered() -> int:
            (slow,) = [c for c in node.server.connections.values() if c.unsent_bytes > 1 << 20]
            return slow._transport.get_write_buffer_size()

        assert node.call(buffered) < 1 << 20
        client.expect(reply + PONG)
        assert node.call(lambda: max(c.unsent_bytes for c in node.server.connections.values())) == 0


def test_one_client_too_many_is_refused() -> None:
    with running(settings(clients_max=2)) as node:
        with node.client() as a, node.client() as b:
            a.ask(PING, PONG)
            b.ask(PING, PONG)
            with node.client() as c:
                c.expect(b"-ERR max number of clients reached\r\n")
                c.expect_closed()
        wait_until(node, "not server.connections")
        with node.client() as d:
            d.ask(PING, PONG)


def test_quit_is_answered_and_ends_the_connection(client: RawClient) -> None:
    client.send(request(b"QUIT") + PING)
    client.expect(b"+OK\r\n")
    client.expect_closed()


def test_stopping_lets_replies_out() -> None:
    with running() as node, node.client() as client:
        node.call(node.log.gate.clear)
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        wait_until(node, "region.replica.stream(b's') is not None")
        node.loop.call_soon_threadsafe(node.loop.call_later, 0.05, node.log.gate.set)
        node.run(node.server.stop(patience_ms=5000))
        assert client.read(100).startswith(b"$")
        client.expect_closed()


# --- A disk that refuses ------------------------------------------------------------------------


def test_replies_of_a_failed_commit_say_that_the_outcome_is_unknown() -> None:
    with running() as node, node.client() as client:
        node.log.refusal = "the disk is full"
        client.send(PING + request(b"XADD", b"s", b"*", b"f", b"v") + PING)
        data = b""
        while data.count(b"\r\n") < 3:
            data += client.read(1)
        lines = data.split(b"\r\n")
        assert [line.split()[0] for line in lines[:3]] == [b"-MISCONF"] * 3
        assert b"outcome is unknown" in lines[1]

        client.ask(request(b"XADD", b"s", b"*", b"f", b"v"), b"-MISCONF the disk is full\r\n")
        client.ask(request(b"XLEN", b"s"), b":1\r\n")

        node.log.refusal = None
        wait_until(node, "region.fault is None")
        client.ask(request(b"XADD", b"s", b"*", b"f", b"v"), b"$")


def test_ping_tells_that_writes_are_refused() -> None:
    """As in Redis.  Who listens to channels pings to keep the connection, and hears PONG."""
    with running() as node, node.client() as client, node.client() as listener:
        listener.ask(request(b"SUBSCRIBE", b"c"), b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
        node.log.refusal = "the disk is full"
        client.ask(request(b"XADD", b"s", b"*", b"f", b"v"), b"-MISCONF")
        client.read_line()
        client.ask(PING, b"-MISCONF the disk is full\r\n")
        listener.ask(PING, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n")
        node.log.refusal = None
        wait_until(node, "region.fault is None")
        client.ask(PING, PONG)


# --- Authentication -----------------------------------------------------------------------------


def test_an_unauthenticated_client_may_do_nothing_but_authenticate() -> None:
    with running(settings(requirepass="secret")) as node:
        with node.client() as client:
            client.ask(PING, b"-NOAUTH Authentication required.\r\n")
            client.ask(
                request(b"AUTH", b"wrong"),
                b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            )
            client.ask(request(b"AUTH", b"default", b"secret"), b"+OK\r\n")
            client.ask(PING, PONG)
            client.ask(request(b"RESET"), b"+RESET\r\n")
            client.ask(PING, b"-NOAUTH Authentication required.\r\n")
            client.send(request(b"HELLO", b"3", b"AUTH", b"default", b"secret"))
            client.expect(b"%7\r\n")
        for sent, error in (
            (b"*11\r\n", b"unauthenticated multibulk length"),
            (b"*1\r\n$16385\r\n", b"unauthenticated bulk length"),
        ):
            with node.client() as client:
                client.ask(sent, b"-ERR Protocol error: " + error + b"\r\n")
                client.expect_closed()


def test_authenticating_and_sending_much_may_be_one_pipeline() -> None:
    with running(settings(requirepass="secret")) as node, node.client() as client:
        value = b"x" * 20_000
        client.send(request(b"AUTH", b"secret") + request(b"ECHO", value))
        client.expect(b"+OK\r\n$20000\r\n" + value + b"\r\n")
