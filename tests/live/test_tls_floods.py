"""Strangers at the TLS ports of a closed node: half handshakes hold little, and not for long.

As in ``test_floods.py``, the node waits a second where others wait ten.
"""

import contextlib
import itertools
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.live.closed import Closed
from tests.live.cluster import cluster_of
from tests.live.test_floods import PORTS, PROGRAM, STRANGERS, is_closed, port_of, resident
from tests.patience import seconds, wait_until

pytestmark = pytest.mark.live

# The bytes of a ClientHello that a stranger sends at once.  Behind the whole one it is silent.
HALVES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "silence": lambda hello: b"",
    "half-a-hello": lambda hello: hello[: len(hello) // 2],
    "byte-by-byte": lambda hello: hello[:1],
    "hello": lambda hello: hello,
}
IN_EVERY_RUN: Final = ("grpc", "half-a-hello")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder = tmp_path_factory.mktemp("closed")
    with cluster_of(1, folder, program=PROGRAM) as cluster:
        found = Closed(cluster, folder)
        cluster.start()
        yield found


def client_hello(closed: Closed) -> bytes:
    """The first message of a client."""
    context, up = closed.operator.contents.client_context(), ssl.MemoryBIO()
    context.set_alpn_protocols(["h2", "http/1.1"])
    end = context.wrap_bio(ssl.MemoryBIO(), up, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        end.do_handshake()
    return up.read()


def answers_at_all_ports(closed: Closed) -> bool:
    node = closed[1]
    trusting = ssl.create_default_context(cafile=closed.authority.ca)
    page = f"https://localhost:{node.http_port}/readyz"
    with urllib.request.urlopen(page, timeout=seconds(), context=trusting) as answer:
        return bool(node.client.ping() and node.status().region == 1 and answer.status == 200)


@pytest.mark.parametrize(
    ("port", "half"),
    [
        pytest.param(port, half, marks=() if (port, half) == IN_EVERY_RUN else pytest.mark.long)
        for port in PORTS
        for half in HALVES
    ],
)
def test_half_handshakes_end_and_take_little_memory(closed: Closed, port: str, half: str) -> None:
    """Byte after byte buys no time."""
    node, hello = closed[1], client_hello(closed)
    rest = iter(hello[1:] if half == "byte-by-byte" else b"")
    assert answers_at_all_ports(closed)
    before = resident(node)
    with contextlib.ExitStack() as opened:
        strangers = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port_of(node, port))))
            for _ in range(STRANGERS)
        ]
        for one in strangers:
            one.sendall(HALVES[half](hello))
        worst = 0

        def all_closed() -> bool:
            nonlocal worst
            worst = max(worst, resident(node))
            more = bytes(itertools.islice(rest, 1))
            for one in strangers:
                with contextlib.suppress(OSError):
                    one.sendall(more)
            return all(is_closed(one) for one in strangers)

        wait_until(all_closed, f"all with {half} at {port} are ended")
        assert (worst - before) / STRANGERS < 1 << 20
    assert answers_at_all_ports(closed)
