"""Handshakes are bounded: in number, in time, and in how much of the event loop they take."""

import contextlib
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from crdtstream.core.size import Seconds, Size
from crdtstream.resp.transport import handshakes
from tests.certificates.making import make, make_authority
from tests.conftest import program
from tests.patience import seconds
from tests.resp.node import Node, RawClient
from tests.resp.tls import Party, TlsClient, is_served, wait_until


@pytest.fixture
def node(party: Party) -> Iterator[Node]:
    with party.running() as (node, _):
        yield node


@contextlib.contextmanager
def set_to(size: Size | Seconds, value: float) -> Iterator[None]:
    size.value = value
    try:
        yield
    finally:
        size.value = size.default


@contextlib.contextmanager
def silent(node: Node, count: int) -> Iterator[list[socket.socket]]:
    """Clients that connect, and say nothing."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", node.tls_port), timeout=seconds())
            )
            for _ in range(count)
        ]


def test_a_client_that_takes_too_long_is_dropped_and_counted(node: Node) -> None:
    with set_to(handshakes.HANDSHAKE_SECONDS_MAX, 0.1), silent(node, 3) as clients:
        for client in clients:
            assert client.recv(1) == b""
    counts = node.server.ports.handshakes.counts
    assert (counts.late, counts.failed, counts.done) == (3, 0, 0)
    assert node.call(lambda: node.server.ports.handshakes.count) == 0


def test_a_byte_now_and_then_does_not_help(node: Node, party: Party) -> None:
    """The time is for the whole handshake."""
    hello = client_hello(party)
    with (
        set_to(handshakes.HANDSHAKE_SECONDS_MAX, 0.5),
        silent(node, 1) as (client,),
        contextlib.suppress(ConnectionError),
    ):
        for byte in hello:
            client.sendall(bytes([byte]))
            time.sleep(0.02)
        assert client.recv(1) == b""
    wait_until(node, lambda: node.server.ports.handshakes.counts.late == 1)


def client_hello(party: Party) -> bytes:
    """The first message of a client."""
    up = ssl.MemoryBIO()
    end = party.context().wrap_bio(ssl.MemoryBIO(), up, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        end.do_handshake()
    return up.read()


def test_there_are_not_more_handshakes_than_allowed(node: Node) -> None:
    shaking = node.server.ports.handshakes
    with set_to(handshakes.HANDSHAKES_MAX, 4), silent(node, 20):
        wait_until(node, lambda: shaking.count == 4)
        # Time to accept more, if it were allowed.
        for _ in range(20):
            assert node.call(lambda: shaking.count) == 4
    wait_until(node, lambda: shaking.count == 0)


def test_silent_clients_do_not_keep_others_out(node: Node, party: Party) -> None:
    """At the bound a client has less time, so that the next one has its turn."""
    with (
        set_to(handshakes.HANDSHAKES_MAX, 4),
        set_to(handshakes.CROWDED_SECONDS_MAX, 0.1),
        silent(node, 20),
    ):
        began_s = time.monotonic()
        assert is_served(node.tls_port, party.context())
        # Five rounds of silent clients; without the shorter time the first one lasts 10 s.
        assert time.monotonic() - began_s < handshakes.HANDSHAKE_SECONDS_MAX.default / 2
    assert node.server.ports.handshakes.counts.late >= 16


def test_many_clients_are_served_at_the_same_time(node: Node, party: Party) -> None:
    context = party.context()
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(TlsClient(node.tls_port, context))
            for _ in range(handshakes.HANDSHAKES_MAX.default + 50)
        ]
        for client in clients:
            client.send(b"PING\r\n")
        for client in clients:
            client.expect(b"+PONG\r\n")
        assert node.call(lambda: len(node.server.connections)) == len(clients)
    wait_until(node, lambda: not node.server.connections)


@pytest.mark.pure
def test_a_turn_of_the_loop_has_few_steps(
    node: Node, party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands of other clients run between the handshakes of a crowd."""
    shaking = node.server.ports.handshakes
    hello = client_hello(party)
    steps: list[int] = []
    step, go_on = shaking._step, shaking._go_on

    def count(handshake: handshakes._Handshake) -> None:
        steps[-1] += 1
        go_on(handshake)

    def watch() -> None:
        steps.append(0)
        step()

    with silent(node, 40) as clients:
        wait_until(node, lambda: shaking.count == 40)

        def at_once() -> None:
            monkeypatch.setattr(shaking, "_step", watch)
            monkeypatch.setattr(shaking, "_go_on", count)
            for client in clients:
                client.sendall(hello)

        node.call(at_once)
        wait_until(node, lambda: sum(steps) >= 40)
    assert max(steps) == handshakes.STEPS_PER_TURN.value


def test_a_client_without_tls_is_in_the_log_once_a_minute(node: Node) -> None:
    with capture_logs() as logs:
        for _ in range(5):
            with RawClient(node.tls_port) as client:
                client.send(b"PING\r\n")
                client.expect_closed()
    assert [(one["event"], one["log_level"]) for one in logs] == [
        ("TLS handshake failed", "warning")
    ]
    assert "does not speak TLS" in logs[0]["reason"]
    assert node.server.ports.handshakes.counts.failed == 5


@pytest.mark.parametrize(
    ("options", "client", "reason"),
    [
        ({"tls_auth_clients": "yes"}, {}, "the client shows no certificate"),
        ({"tls_auth_clients": "yes"}, {"name": "x", "stranger": True}, "no authority in"),
        ({"tls_protocols": "TLSv1.3"}, {"version": "1.2"}, "none of tls_protocols"),
        ({"tls_ciphers": "ECDHE-RSA-AES128-GCM-SHA256"}, {"version": "1.2"}, "of tls_ciphers"),
    ],
)
def test_the_usual_mistakes_are_named_in_the_log(
    party: Party, options: dict[str, Any], client: dict[str, Any], reason: str
) -> None:
    leaf = make(make_authority(), "stranger") if client.pop("stranger", False) else None
    with party.running(**options) as (node, _), capture_logs() as logs:
        assert not is_served(node.tls_port, party.context(leaf=leaf, **client))
        wait_until(node, lambda: node.server.ports.handshakes.counts.failed == 1)
    assert reason in logs[0]["reason"]


def refused_client(node: Node, party: Party) -> ssl.SSLSocket:
    """A client without certificate that has sent a command before the node refused it.

    With TLS 1.3 its handshake is done then; it has not read the refusal.
    """
    failed = node.server.ports.handshakes.counts.failed
    client = TlsClient(node.tls_port, party.context(version="1.3"))
    # More than OpenSSL reads ahead, so bytes stay unread.
    client.send(bytes(30_000))
    wait_until(node, lambda: node.server.ports.handshakes.counts.failed > failed)
    return client.tls


def test_a_client_that_has_sent_commands_reads_why_it_is_refused(party: Party) -> None:
    """A reset would have its further commands fail, before it reads the reason."""
    with party.running(tls_auth_clients="yes") as (node, _):
        with contextlib.closing(refused_client(node, party)) as client:
            for _ in range(3):
                client.sendall(b"PING\r\n")
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                client.recv(1)
        wait_until(node, lambda: node.server.ports.handshakes.count == 0)
        counts = node.server.ports.handshakes.counts
        assert (counts.failed, counts.late, counts.done) == (1, 0, 0)


def test_a_refused_client_is_ended_if_it_does_not_hang_up(party: Party) -> None:
    with (
        party.running(tls_auth_clients="yes") as (node, _),
        set_to(handshakes.REFUSED_CLIENT_SECONDS_MAX, 0.1),
        contextlib.closing(refused_client(node, party)),
    ):
        wait_until(node, lambda: node.server.ports.handshakes.count == 0)
        counts = node.server.ports.handshakes.counts
        assert (counts.failed, counts.late, counts.done) == (1, 0, 0)


def test_a_refused_client_that_sends_on_is_ended(party: Party) -> None:
    with (
        party.running(tls_auth_clients="yes") as (node, _),
        set_to(handshakes.REFUSED_CLIENT_SECONDS_MAX, 60.0),
        contextlib.closing(refused_client(node, party)) as client,
    ):
        assert node.call(lambda: node.server.ports.handshakes.count) == 1
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            client.sendall(bytes(handshakes.REFUSED_CLIENT_BYTES_MAX.value))
        wait_until(node, lambda: node.server.ports.handshakes.count == 0)


def test_a_probe_that_only_connects_is_not_in_the_log(node: Node) -> None:
    with capture_logs() as logs:
        with silent(node, 1):
            wait_until(node, lambda: node.server.ports.handshakes.count == 1)
        wait_until(node, lambda: node.server.ports.handshakes.counts.failed == 1)
    assert logs == []


# Subject alternative names with an address in Latin-1, as older authorities wrote them.
LATIN_1 = b"J\xfcrgen@example.com"
LATIN_1_NAMES = x509.UnrecognizedExtension(
    x509.ObjectIdentifier("2.5.29.17"),
    b"\x30" + bytes([len(LATIN_1) + 2]) + b"\x81" + bytes([len(LATIN_1)]) + LATIN_1,
)


def test_names_that_cannot_be_decoded_keep_no_client_out(party: Party) -> None:
    """The certificate logs its client in by its common name, and the next one is served."""
    settings: dict[str, Any] = {
        "tls_auth_clients": "yes",
        "tls_auth_clients_user": "CN",
        "requirepass": "secret",
    }
    leaf = party.issue("default", dns=(), uris=(), raw=[LATIN_1_NAMES])
    with party.running(**settings) as (node, _):
        with TlsClient(node.tls_port, party.context(leaf=leaf)) as client:
            with pytest.raises(UnicodeDecodeError):
                ssl._ssl._test_decode_cert(str(party.files_of("client", leaf)[0]))  # type: ignore[attr-defined]
            client.ask(b"PING\r\n", b"+PONG\r\n")
        assert is_served(node.tls_port, party.context("default"))
        assert node.server.ports.handshakes.counts.failed == 0


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ValueError("a bad name")])
def test_a_handshake_that_breaks_ends_no_others(
    node: Node, party: Party, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It is counted, and in the log once a minute."""
    shaking = node.server.ports.handshakes
    describe = shaking._describe
    left = [error] * 3

    def breaking(own: ssl.SSLSocket) -> dict[str, Any]:
        if left:
            raise left.pop()
        return describe(own)

    monkeypatch.setattr(shaking, "_describe", breaking)
    with capture_logs() as logs, set_to(handshakes.HANDSHAKE_SECONDS_MAX, 3.0):
        assert [is_served(node.tls_port, party.context()) for _ in range(4)] == [False] * 3 + [True]
    assert (shaking.counts.failed, shaking.counts.done, shaking.count) == (3, 1, 0)
    assert [(one["event"], one["reason"]) for one in logs] == [
        ("TLS handshake failed", repr(error))
    ]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_protocols_are_refused(node: Node, party: Party, version: ssl.TLSVersion) -> None:
    context = party.context()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    assert not is_served(node.tls_port, context)
    assert node.server.ports.handshakes.counts.done == 0


def test_no_connection_is_negotiated_twice(node: Node, party: Party) -> None:
    """TLS 1.2 lets a client ask for another handshake at any time; openssl does so at an R."""
    openssl = program("openssl")
    done = subprocess.run(
        [openssl, "s_client", "-connect", f"127.0.0.1:{node.tls_port}", "-tls1_2"],
        input=b"R\nPING\r\n",
        capture_output=True,
        timeout=seconds(),
        check=False,
    )
    assert b"RENEGOTIATING" in done.stdout + done.stderr
    assert b"no renegotiation" in done.stderr
    assert b"PONG" not in done.stdout
    assert is_served(node.tls_port, party.context())


def test_alpn_is_redis(node: Node, party: Party) -> None:
    context = party.context()
    context.set_alpn_protocols(["h2", "redis"])
    with TlsClient(node.tls_port, context) as client:
        assert client.tls.selected_alpn_protocol() == "redis"


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_session_is_resumed_until_the_options_change(
    node: Node, party: Party, version: str
) -> None:
    context = party.context("client", version=version)
    with TlsClient(node.tls_port, context) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
        session = client.tls.session
    with TlsClient(node.tls_port, context, session) as client:
        client.ask(b"CONFIG SET tls-auth-clients yes\r\n", b"+OK\r\n")
        assert client.tls.session_reused
    with TlsClient(node.tls_port, context, session) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
        assert not client.tls.session_reused


def test_a_session_without_certificate_is_not_resumed_where_one_is_needed(
    node: Node, party: Party
) -> None:
    context = party.context()
    with TlsClient(node.tls_port, context) as client:
        client.ask(b"CONFIG SET tls-auth-clients yes\r\n", b"+OK\r\n")
        session = client.tls.session
    assert not is_served(node.tls_port, context, session)


def test_info_counts_handshakes(node: Node, party: Party) -> None:
    assert is_served(node.tls_port, party.context())
    with RawClient(node.tls_port) as client:
        client.send(b"PING\r\n")
        client.expect_closed()
    with RawClient(node.port) as client:
        client.send(b"INFO crdt\r\n")
        fields = dict(re.findall(r"(\w+):(.*)\r\n", client.read_reply().decode()))
    counted = {name: fields[f"crdt_tls_{name}"] for name in ("handshakes", "handshakes_failed")}
    assert counted == {"handshakes": "1", "handshakes_failed": "1"}
    assert fields["crdt_tls_handshakes_late"] == "0"


def test_a_node_that_stops_drops_handshakes(party: Party) -> None:
    with party.running() as (node, _), silent(node, 3) as clients:
        wait_until(node, lambda: node.server.ports.handshakes.count == 3)
        node.run(node.server.stop(patience_ms=1000))
        for client in clients:
            assert client.recv(1) == b""
