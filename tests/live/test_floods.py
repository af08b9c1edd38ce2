"""Strangers at the plain ports of a real node: half handshakes and slow bytes hold little, and not
for long; a flood of wrong logins does not keep out clients with the right one.

The node of these tests waits a second where others wait ten.
"""

import contextlib
import resource
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
import redis

from crdtstream.access.basic import Login
from crdtstream.node.ports import CALLERS_MAX
from crdtstream.v1 import membership_pb2, membership_pb2_grpc
from tests.live.cluster import Node, cluster_of
from tests.patience import seconds, wait_until

pytestmark = pytest.mark.live

PASSWORD: Final = "open sesame"
SECONDS: Final = 1
PROGRAM: Final = f"""
import typer
from crdtstream.access import first_messages
from crdtstream.http import server, tls
from crdtstream.node import ports
from crdtstream.resp.transport import handshakes
tls.HANDSHAKE_SECONDS_MAX = {SECONDS}
handshakes.HANDSHAKE_SECONDS_MAX.value = {SECONDS}
server.REQUEST_SECONDS_MAX = {SECONDS}
first_messages.OPEN_SECONDS.value = {SECONDS}
first_messages.ASKING_SECONDS.value = {SECONDS}
ports.LIMITS_OF_CALLERS = tuple(
    (name, {SECONDS * 1000} if name.endswith("_ms") else bound)
    for name, bound in ports.LIMITS_OF_CALLERS
)
from crdtstream.cli.node import node
typer.run(node)
"""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS: Final = b"\0\0\0\4\0\0\0\0\0"
# The first bytes of a frame of headers that is announced with 16 KiB.
HALF_HEADERS: Final = b"\0\x40\0\1\4\0\0\0\1"
HALVES: Final = {
    "nothing": b"",
    "RESP": b"*2\r\n$4\r\nAUTH\r\n$16000\r\nx",
    "line": b"AUTH ",
    "HTTP": b"GET /healthz HT",
    "head": b"GET /healthz HTTP/1.1\r\nX: ",
    "preface": PREFACE[:9],
    "settings": PREFACE + SETTINGS,
    "headers": PREFACE + SETTINGS + HALF_HEADERS,
    "TLS": b"\x16\x03\x01\x02\0",
}
PORTS: Final = ("resp", "grpc", "http")
STRANGERS: Final = 40


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A region that asks for a password at ports which others reach."""
    with cluster_of(1, tmp_path_factory.mktemp("flooded"), program=PROGRAM) as cluster:
        settings: dict[str, Any] = dict.fromkeys(("host", "grpc_host", "http_host"), "0.0.0.0")
        cluster.configure(requirepass=PASSWORD, insecure_peers=True, **settings)
        one = cluster[1]
        text = one.config.read_text()
        one.config.write_text(text.replace("[limits]", f"[limits]\nlogin_ms_max = {SECONDS}000"))
        one.login = Login(PASSWORD)
        one.client = redis.Redis(port=one.resp_port, password=PASSWORD)
        cluster.start()
        yield one


def port_of(node: Node, name: str) -> int:
    port: int = getattr(node, f"{name}_port")
    return port


def resident(node: Node) -> int:
    assert node.process is not None
    with open(f"/proc/{node.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def is_closed(one: socket.socket) -> bool:
    """True if the node has ended a connection; what it sent before is dropped."""
    one.setblocking(False)
    try:
        while one.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.parametrize(
    ("port", "half"),
    [
        # In each run one of three.
        pytest.param(port, half, marks=pytest.mark.long if (at + shift) % 3 else ())
        for at, port in enumerate(PORTS)
        for shift, half in enumerate(HALVES)
    ],
)
def test_half_requests_end_and_take_little_memory(node: Node, port: str, half: str) -> None:
    """Byte after byte buys no time."""
    # Elsewhere such a byte is no HTTP/2, which ends the connection at once.
    goes_on = port != "grpc" or half == "headers"
    before = resident(node)
    with contextlib.ExitStack() as opened:
        strangers = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port_of(node, port))))
            for _ in range(STRANGERS)
        ]
        for one in strangers:
            one.sendall(HALVES[half])
        worst = 0

        def all_closed() -> bool:
            nonlocal worst
            worst = max(worst, resident(node))
            for one in strangers if goes_on else ():
                with contextlib.suppress(OSError):
                    one.send(b"x")
            return all(is_closed(one) for one in strangers)

        wait_until(all_closed, f"all {half} at {port} are ended")
        assert (worst - before) / STRANGERS < 1 << 20
    # Whoever has something to say is served.
    assert node.client.ping()


def test_metadata_and_messages_of_strangers_are_bounded(node: Node) -> None:
    with grpc.insecure_channel(node.grpc_address) as channel:
        join = membership_pb2_grpc.MembershipStub(channel).Join
        for request, metadata in (
            (membership_pb2.JoinRequest(secret=b"x"), (("k", "v" * 9_000),)),
            (membership_pb2.JoinRequest(secret=b"x" * (4 << 20)), ()),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                join(request, metadata=metadata, timeout=seconds())
            error: Any = refused.value
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_more_connections_than_a_port_takes_are_ended_at_once(node: Node) -> None:
    with contextlib.ExitStack() as opened:
        strangers = [
            opened.enter_context(socket.create_connection(("127.0.0.1", node.grpc_port)))
            for _ in range(CALLERS_MAX + 20)
        ]
        wait_until(lambda: sum(map(is_closed, strangers)) >= 20, "those beyond are ended")
        assert node.client.ping()
    wait_until(lambda: node.status().region == 1, "then others are served again")


def flood(node: Node, stop: threading.Event, sent: list[int]) -> None:
    """Wrong logins, as many as get through; a connection that is ended is made again."""
    wrong = b"*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n" * 100
    while not stop.is_set():
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", node.resp_port), timeout=seconds()) as one,
        ):
            while not stop.is_set():
                one.sendall(wrong)
                sent[0] += 100
                got = 0
                while got < 100 and (more := one.recv(1 << 16)):
                    got += more.count(b"\n")
                if got < 100:
                    break


@pytest.mark.long
def test_wrong_logins_do_not_keep_out_a_client_with_the_right_one(node: Node) -> None:
    """A small one of ``benchmarks.floods``, which compares times."""
    stop, sent = threading.Event(), [0]
    guesser = threading.Thread(target=flood, args=(node, stop, sent))
    guesser.start()
    try:
        for number in range(500):
            node.client.xadd("flooded", {"n": number})
        fresh = redis.Redis(port=node.resp_port, password=PASSWORD)
        assert fresh.xlen("flooded") == 500
        fresh.close()
    finally:
        stop.set()
        guesser.join()
    assert sent[0] > 100
