"""Strangers at the TLS ports of a closed node: half handshakes hold little, and not for long.

As in ``test_floods.py``, the node waits a second where others wait ten.
"""

import contextlib
import itertools
import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Final

import pytest
import redis

from crdtstream.http import tls
from crdtstream.node.ports import CALLERS_MAX
from crdtstream.resp.transport.handshakes import HANDSHAKES_MAX
from tests.live.closed import Closed
from tests.live.cluster import Node, cluster_of
from tests.live.test_floods import PORTS, PROGRAM, STRANGERS, is_closed, port_of, resident
from tests.patience import LONG, seconds, wait_until

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


# --- Many strangers -------------------------------------------------------------------------------

CROWD: Final = 10_000
# Below the usual limit of open files, so nothing has to be raised for the strangers.
EACH: Final = 1_000
# Half handshakes that a port holds at a time.
PLACES: Final = {"resp": HANDSHAKES_MAX.default, "grpc": CALLERS_MAX, "http": tls.HANDSHAKES_MAX}
# Connects EACH times, sends half of a handshake, and waits until all are ended.
STRANGER: Final = """
import select, socket, sys
port, count, half = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
poll, opened = select.epoll(), {}
for _ in range(count):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", port))
    opened[one.fileno()] = one
    poll.register(one, select.EPOLLOUT)
while opened:
    for number, event in poll.poll():
        one = opened[number]
        try:
            if event & select.EPOLLOUT:
                one.send(half)
                poll.modify(number, select.EPOLLIN)
                continue
            if one.recv(1 << 16):
                continue
        except OSError:
            pass
        poll.unregister(number)
        opened.pop(number).close()
"""


@contextlib.contextmanager
def strangers_at(port: int, half: bytes) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Programs that have CROWD connections between them; each ends when all of its own have."""
    command = [sys.executable, "-c", STRANGER, str(port), str(EACH), half.hex()]
    with contextlib.ExitStack() as opened:
        programs = []
        for _ in range(CROWD // EACH):
            programs.append(opened.enter_context(subprocess.Popen(command)))
            opened.callback(programs[-1].kill)
        yield programs


def files_of(node: Node) -> int:
    assert node.process is not None
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def serves_another(closed: Closed, stream: str) -> bool:
    """True if a new client is served; the system may have no room for it among the strangers."""
    try:
        with contextlib.closing(closed.redis(closed[1])) as another:
            return bool(another.xlen(stream))
    except (redis.ConnectionError, redis.TimeoutError):
        return False


@pytest.mark.long
@pytest.mark.timeout(3 * LONG)
@pytest.mark.parametrize("port", PORTS)
def test_a_crowd_of_half_handshakes_takes_little_and_clients_go_on(
    closed: Closed, port: str
) -> None:
    """10,000 strangers at once: a client that is connected goes on, and another one gets in."""
    node, hello = closed[1], client_hello(closed)
    assert answers_at_all_ports(closed)
    before, files, worst, most_files, written = resident(node), files_of(node), 0, 0, 0
    stream = f"crowd-{port}"
    with strangers_at(port_of(node, port), hello[: len(hello) // 2]) as programs:

        def are_all_ended() -> bool:
            nonlocal worst, most_files, written
            worst, most_files = max(worst, resident(node)), max(most_files, files_of(node))
            node.client.xadd(stream, {"n": written})
            written += 1
            return all(program.poll() == 0 for program in programs)

        wait_until(lambda: are_all_ended() or most_files > files + 20, "strangers are connected")
        wait_until(lambda: serves_another(closed, stream), "another gets in", base=LONG)
        wait_until(are_all_ended, "all strangers are ended", base=LONG)
        assert node.client.xlen(stream) == written
    assert worst - before < PLACES[port] << 20
    assert most_files - files < PLACES[port] + 40
    assert answers_at_all_ports(closed)
    wait_until(lambda: files_of(node) <= files + 5, "their files are closed")
