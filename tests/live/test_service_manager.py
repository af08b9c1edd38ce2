"""Words to systemd, as its own socket receives them."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from crdtstream.node import service_manager
from crdtstream.node.service_manager import ServiceManager
from tests import patience
from tests.live.cluster import Cluster, Node, cluster_of
from tests.patience import wait_until

# Three signs of life in this time.
WATCHDOG_SECONDS: Final = 0.15
WATCHDOG_USEC: Final = str(int(WATCHDOG_SECONDS * 1_000_000))


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(patience.seconds())
        yield receiver


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(1, tmp_path) as cluster:
        cluster.configure()
        yield cluster


def words_of(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().splitlines()


def queued(manager: socket.socket) -> int:
    """Take the datagrams that have arrived, and count them."""
    manager.setblocking(False)
    count = 0
    try:
        while manager.recv(4096):
            count += 1
    except BlockingIOError:
        return count
    finally:
        manager.settimeout(patience.seconds())
    return count


@pytest.mark.live
def test_a_node_says_when_it_serves_that_it_lives_and_when_it_stops(
    manager: socket.socket, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(manager.getsockname()))
    monkeypatch.setenv("WATCHDOG_USEC", WATCHDOG_USEC)
    node = cluster[1]
    node.launch()
    assert words_of(manager) == ["READY=1", "STATUS=region 1 serves clients"]
    # From then on without waiting.
    assert node.client.ping()
    assert words_of(manager) == words_of(manager) == ["WATCHDOG=1"]
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)
    # Its signs of life are taken meanwhile: a full queue would keep the last words out.
    while (words := words_of(manager)) == ["WATCHDOG=1"]:
        pass
    assert words == ["STOPPING=1", "STATUS=region 1 closes its log"]
    assert node.process.wait(patience.seconds()) == 0


@pytest.mark.live
def test_a_hangup_before_and_after_it_serves_does_not_end_a_node_without_tls(
    cluster: Cluster,
) -> None:
    """`systemctl reload` sends it; there are no certificates to read again."""
    node = cluster[1]
    node.launch()
    assert node.process is not None
    # It handles SIGTERM long before it opens its folder.
    wait_until(lambda: handles(node, signal.SIGTERM), "the node has begun")
    node.process.send_signal(signal.SIGHUP)
    node.wait()
    node.process.send_signal(signal.SIGHUP)
    assert node.client.ping()
    assert node.end(signal.SIGTERM) == 0


def handles(node: Node, number: signal.Signals) -> bool:
    """True if the process has a handler for the signal, as the kernel says."""
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    (caught,) = (line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.live
def test_a_node_that_does_not_start_says_nothing(
    manager: socket.socket, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(manager.getsockname()))
    node = cluster[1]
    with socket.create_server(("127.0.0.1", node.resp_port)):
        assert node.launch().wait(patience.seconds()) == 1
    assert queued(manager) == 0


async def test_an_event_loop_that_is_held_up_gives_no_sign_of_life(manager: socket.socket) -> None:
    found = ServiceManager(str(manager.getsockname()), WATCHDOG_SECONDS)
    signs = asyncio.create_task(found.keep_alive())
    assert await asyncio.to_thread(words_of, manager) == ["WATCHDOG=1"]
    queued(manager)
    # The loop stands still.
    time.sleep(2 * WATCHDOG_SECONDS)
    assert queued(manager) == 0
    assert await asyncio.to_thread(words_of, manager) == ["WATCHDOG=1"]
    signs.cancel()


async def test_words_that_are_said_once_wait_for_room_in_the_queue(manager: socket.socket) -> None:
    found = ServiceManager(str(manager.getsockname()))
    fill(manager)
    telling = asyncio.create_task(found.tell_surely("READY=1"))
    await asyncio.sleep(0)
    assert not telling.done()
    while await asyncio.to_thread(words_of, manager) != ["READY=1"]:
        pass
    await telling


async def test_words_for_a_manager_that_reads_nothing_are_given_up(manager: socket.socket) -> None:
    found = ServiceManager(str(manager.getsockname()))
    fill(manager)
    service_manager.AGAIN_SECONDS.value = 0.05
    try:
        with capture_logs() as lines:
            await asyncio.wait_for(found.tell_surely("STOPPING=1"), patience.seconds())
    finally:
        service_manager.AGAIN_SECONDS.value = service_manager.AGAIN_SECONDS.default
    assert [line["words"] for line in lines] == [("STOPPING=1",)]


def fill(manager: socket.socket) -> None:
    """Send signs of life until the queue takes no more."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
        contextlib.suppress(BlockingIOError),
    ):
        while True:
            sender.sendto(b"WATCHDOG=1", manager.getsockname())


def test_an_abstract_socket_is_reached() -> None:
    name = f"crdtstream-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}")
        receiver.settimeout(patience.seconds())
        ServiceManager.of_environment({"NOTIFY_SOCKET": f"@{name}"}).tell("READY=1")
        assert words_of(receiver) == ["READY=1"]


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "2500000"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": str(os.getpid())}, 2.5),
        # Another process of the service has to give signs.
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "-5"}, 0),
        ({"WATCHDOG_USEC": "²"}, 0),
        ({}, 0),
    ],
)
def test_the_watchdog_of_this_process_alone_is_heeded(
    variables: dict[str, str], seconds: float
) -> None:
    given = {"NOTIFY_SOCKET": "/run/notify", **variables}
    assert ServiceManager.of_environment(given).watchdog_s == seconds


@pytest.mark.parametrize("name", ["vsock:2:1234", "notify"])
def test_a_name_that_is_no_path_means_no_manager(name: str) -> None:
    given = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000"}
    assert ServiceManager.of_environment(given) == ServiceManager()


def test_a_manager_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "gone")).tell("READY=1")
