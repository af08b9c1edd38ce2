"""The transport of TLS: what the client sends runs, whole and once, and what it is owed arrives."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from crdtstream.resp.transport import tls as transport_of
from tests.patience import seconds
from tests.resp.node import Node, request
from tests.resp.tls import Party, TlsClient, wait_until

MIB = 1 << 20


@pytest.fixture
def node(party: Party) -> Iterator[Node]:
    with party.running() as (node, _):
        yield node


@pytest.fixture(params=["1.2", "1.3"])
def client(node: Node, party: Party, request: pytest.FixtureRequest) -> Iterator[TlsClient]:
    with TlsClient(node.tls_port, party.context(version=request.param)) as client:
        yield client


@pytest.fixture(params=[1, 7, 1 << 14])
def record_bytes(request: pytest.FixtureRequest) -> Iterator[int]:
    """Bytes that are taken from OpenSSL at a time; with few, it holds more than is read."""
    transport_of.RECORD_BYTES.value = request.param
    yield request.param
    transport_of.RECORD_BYTES.value = transport_of.RECORD_BYTES.default


@pytest.mark.parametrize("at_once", [1, 64, 1 << 18])
def test_bytes_that_openssl_holds_are_not_forgotten(
    record_bytes: int, client: TlsClient, at_once: int
) -> None:
    transport_of.READ_AT_ONCE_MAX.value = at_once
    try:
        client.ask(b"PING\r\n" * 100, b"+PONG\r\n" * 100)
        client.ask(request(b"ECHO", b"x" * 5_000), b"$5000\r\n" + b"x" * 5_000 + b"\r\n")
    finally:
        transport_of.READ_AT_ONCE_MAX.value = transport_of.READ_AT_ONCE_MAX.default


def test_a_command_in_many_records_runs_once(client: TlsClient) -> None:
    for byte in request(b"XADD", b"s", b"*", b"f", b"v"):
        client.send(bytes([byte]))
    assert client.read_reply().endswith(b"-1")
    client.ask(b"XLEN s\r\n", b":1\r\n")


def test_large_values_pass_both_ways(client: TlsClient) -> None:
    value = bytes(range(256)) * (64 * MIB // 256)
    client.socket.settimeout(seconds())
    client.ask(request(b"ECHO", value), b"$%d\r\n" % len(value))
    assert read_all(client, len(value)) == value
    client.expect(b"\r\n")


def read_all(client: TlsClient, count: int) -> bytes:
    """As ``read``, without a copy of everything at each record."""
    data = bytearray()
    while len(data) < count and (more := client.socket.recv(count - len(data))):
        data += more
    return bytes(data)


def test_a_pipeline_is_answered_in_order(client: TlsClient) -> None:
    count = 10_000
    client.ask(
        b"".join(request(b"ECHO", b"%d" % n) for n in range(count)),
        b"".join(b"$%d\r\n%d\r\n" % (len(str(n)), n) for n in range(count)),
    )


# --- Writing --------------------------------------------------------------------------------------


def large_stream(node: Node, entries: int) -> bytes:
    """A stream ``big`` with entries of a MiB each; returns its XRANGE, as it is sent."""
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        parts = [b"*%d\r\n" % entries]
        for n in range(entries):
            value = b"%d" % (n % 10) * MIB
            entry_id: bytes = r.xadd("big", {"f": value})  # type: ignore[assignment]
            parts += [b"*2\r\n$%d\r\n%b\r\n*2\r\n$1\r\nf\r\n" % (len(entry_id), entry_id)]
            parts += [b"$%d\r\n%b\r\n" % (MIB, value)]
    return b"".join(parts)


def test_a_client_that_reads_slowly_gets_everything(node: Node, client: TlsClient) -> None:
    reply = large_stream(node, 8)
    for _ in range(4):
        client.send(b"XRANGE big - +\r\n")
    wait_until(node, lambda: _unsent(node) > 0)
    # Behind what the system did not take, in the middle of a record.
    client.send(b"PING\r\n")
    expected = reply * 4 + b"+PONG\r\n"
    assert read_all(client, len(expected)) == expected


def test_a_write_that_had_to_wait_goes_on_where_it_was(node: Node, client: TlsClient) -> None:
    """The system takes a few bytes at a time, so each write ends within a record."""
    reply = large_stream(node, 2)
    client.ask(b"PING\r\n", b"+PONG\r\n")

    def narrow() -> None:
        for one in node.server.connections.values():
            own = one._transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    node.call(narrow)
    client.send(b"XRANGE big - +\r\n" + b"PING\r\n" * 1_000)
    expected = reply + b"+PONG\r\n" * 1_000
    assert read_all(client, len(expected)) == expected


def _unsent(node: Node) -> int:
    return sum(one.unsent_bytes for one in node.server.connections.values())


def test_a_client_that_does_not_read_is_cut_off_and_sees_no_end(party: Party) -> None:
    with party.running(limits={"output_buffer_bytes_max": 4 * MIB}) as (node, _):
        large_stream(node, 32)
        with TlsClient(node.tls_port, party.context()) as client:
            client.send(b"XRANGE big - +\r\n")
            wait_until(node, lambda: node.server.traffic.cut_off_unread == 1)
            # A stream that was cut must not look complete: no close_notify.
            with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
                read_all(client, 33 * MIB)


def test_requests_are_run_though_their_client_does_not_read(node: Node, client: TlsClient) -> None:
    reply = large_stream(node, 16)
    client.send(b"XRANGE big - +\r\nSET after 1\r\n")
    wait_until(node, lambda: _unsent(node) > 0)
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        wait_until(node, lambda: node.server.connections)
        assert r.get("after") == b"1"
        assert _unsent(node) > 0
    assert read_all(client, len(reply)) == reply
    client.expect(b"+OK\r\n")


# --- Ends -----------------------------------------------------------------------------------------


def test_a_clients_close_notify_leaves_it_what_it_is_owed(node: Node, client: TlsClient) -> None:
    node.call(node.log.gate.clear)
    client.send(b"SET k v\r\n")
    wait_until(node, lambda: _owed(node))
    # Sends close_notify; the answer to it does not come before the reply.
    node.call(lambda: node.loop.call_later(0.2, node.log.gate.set))
    with pytest.raises(ssl.SSLError, match="APPLICATION_DATA_AFTER_CLOSE_NOTIFY"):
        client.tls.unwrap()


def _owed(node: Node) -> bool:
    return any(one.client.owed_parcels for one in node.server.connections.values())


def test_quit_ends_with_close_notify(client: TlsClient) -> None:
    client.ask(b"QUIT\r\n", b"+OK\r\n")
    # Without it, suppress_ragged_eofs=False would raise SSLEOFError.
    assert client.socket.recv(1) == b""


def test_a_killed_client_sees_that_it_was_cut(node: Node, client: TlsClient) -> None:
    client.ask(b"CLIENT SETNAME victim\r\n", b"+OK\r\n")
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        (victim,) = [one for one in r.client_list() if one["name"] == "victim"]
        assert r.client_kill_filter(_id=victim["id"]) == 1
    with pytest.raises(ssl.SSLEOFError):
        client.socket.recv(1)


def cut(client: TlsClient) -> None:
    """End the connection below TLS, as somebody on the wire can."""
    plain = socket.socket(fileno=client.tls.detach())
    plain.shutdown(socket.SHUT_WR)
    plain.settimeout(seconds())
    with plain, contextlib.suppress(ConnectionResetError):
        while plain.recv(MIB):
            pass


def test_no_command_of_a_cut_stream_runs_half(node: Node, client: TlsClient) -> None:
    whole = request(b"SET", b"first", b"1")
    client.send(whole + request(b"SET", b"second", b"12345")[:-4])
    cut(client)
    wait_until(node, lambda: not node.server.connections)
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        assert r.get("first") == b"1"
        assert r.get("second") is None


def test_held_requests_of_a_cut_stream_do_not_run(node: Node, client: TlsClient) -> None:
    client.send(b"XREAD BLOCK 0 STREAMS nothing $\r\nSET held 1\r\n")
    wait_until(node, lambda: any(one.held_bytes for one in node.server.connections.values()))
    cut(client)
    wait_until(node, lambda: not node.server.connections)
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        assert r.get("held") is None


def test_a_stream_that_is_cut_gets_no_answer(node: Node, client: TlsClient) -> None:
    """The end below TLS is nobody's word: the node hangs up at once."""
    node.call(node.log.gate.clear)
    try:
        client.send(b"SET k v\r\n")
        wait_until(node, lambda: _owed(node))
        cut(client)
        # Its reply is not out yet, and nothing waits for it.
        wait_until(node, lambda: not node.server.connections)
    finally:
        node.call(node.log.gate.set)


class Injector:
    """Passes records of TLS through, and can change them: somebody on the wire."""

    def __init__(self, port: int) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._port = port
        # The next bytes of the client are spoilt.
        self.spoils = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        near, _ = self._listening.accept()
        far = socket.create_connection(("127.0.0.1", self._port))
        back = threading.Thread(target=self._back, args=(far, near), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            while data := near.recv(MIB):
                if self.spoils.is_set():
                    self.spoils.clear()
                    # The last byte is of the authentication of its last record.
                    data = data[:-1] + bytes([data[-1] ^ 1])
                far.sendall(data)
        back.join()

    def _back(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(MIB):
                near.sendall(data)
            near.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_nothing_runs_behind_a_spoilt_record(node: Node, party: Party, version: str) -> None:
    wire = Injector(node.tls_port)
    with TlsClient(wire.port, party.context(version=version)) as client:
        client.ask(request(b"SET", b"before", b"1"), b"+OK\r\n")
        wire.spoils.set()
        client.send(request(b"SET", b"spoilt", b"1"))
        with contextlib.suppress(OSError):
            client.send(request(b"SET", b"behind", b"1"))
        wait_until(node, lambda: not node.server.connections)
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        assert r.mget("before", "spoilt", "behind") == [b"1", None, None]


def test_plain_bytes_behind_the_end_of_tls_do_not_run(node: Node, client: TlsClient) -> None:
    """After a protocol error the node has said its last word, and still reads for a while."""
    client.send(b"*1\r\n!")
    assert client.read_line().startswith(b"-ERR Protocol error")
    assert client.socket.recv(1) == b""
    plain = socket.socket(fileno=client.tls.detach())
    with plain, contextlib.suppress(OSError):
        plain.sendall(request(b"SET", b"plain", b"1"))
    wait_until(node, lambda: not node.server.connections)
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        assert r.get("plain") is None


class Listening(asyncio.Protocol):
    """Says goodbye at once, and notes what comes afterwards."""

    def __init__(self) -> None:
        self.got = b""
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, transport_of.TlsTransport)
        transport.write_eof()

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


def test_the_protocol_gets_nothing_behind_the_end_of_tls(node: Node, party: Party) -> None:
    made: list[Listening] = []

    def make_protocol() -> asyncio.Protocol:
        made.append(Listening())
        return made[-1]

    shaking = node.server.ports.handshakes
    node.call(lambda: setattr(shaking, "_make_protocol", make_protocol))
    with TlsClient(node.tls_port, party.context()) as client:
        assert client.socket.recv(1) == b""
        plain = socket.socket(fileno=client.tls.detach())
        with plain:
            plain.sendall(request(b"SET", b"plain", b"1"))
    wait_until(node, lambda: made[0].is_lost)
    assert made[0].got == b""


def test_nothing_runs_behind_a_fatal_alert(node: Node, party: Party) -> None:
    """A client that refuses the node's certificate sends one."""
    context = party.context(version="1.2")
    stranger = ssl.create_default_context()
    stranger.maximum_version = context.maximum_version
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsClient(node.tls_port, stranger)
    wait_until(node, lambda: node.server.ports.handshakes.counts.failed == 1)
    assert not node.server.connections


# --- Directions that wait for each other ----------------------------------------------------------


class Contrary(ssl.SSLSocket):
    """OpenSSL's socket, one of whose directions now and then wants the event of the other one."""

    contrary = ""
    count = 0

    def _wants(self, direction: str) -> bool:
        Contrary.count += direction == Contrary.contrary
        return direction == Contrary.contrary and Contrary.count % 3 == 0

    def read(self, *args: Any, **kwargs: Any) -> Any:
        if self._wants("read"):
            raise ssl.SSLWantWriteError
        return super().read(*args, **kwargs)

    def write(self, data: Any) -> int:
        if self._wants("write"):
            raise ssl.SSLWantReadError
        return super().write(data)


@pytest.mark.parametrize("contrary", ["read", "write"])
def test_each_direction_waits_for_what_openssl_wants(
    node: Node, party: Party, contrary: str
) -> None:
    Contrary.contrary, Contrary.count = contrary, 0
    node.call(lambda: setattr(node.server.ports.contexts.context(), "sslsocket_class", Contrary))
    got = b""
    with TlsClient(node.tls_port, party.context()) as client:
        client.socket.settimeout(0.05)
        deadline = time.monotonic() + seconds()
        while got.count(b"PONG") < 300 and time.monotonic() < deadline:
            # A write that wants to read goes on when something comes.
            client.send(b"PING\r\n")
            with contextlib.suppress(TimeoutError):
                got += client.socket.recv(MIB)
    assert got == b"+PONG\r\n" * (len(got) // 7)
    assert len(got) // 7 >= 300
    assert Contrary.count > 300
