"""Three regions as on machines of their own: an address each, the same HTTP port, proxied links."""

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toxiproxy import Proxy, Toxiproxy

from tests import patience
from tests.conftest import free_base_port
from tests.live.cluster import Cluster, Node, Process


class Apart:
    """Three regions at 127.0.0.1 to 127.0.0.3; not configured yet.

    Attributes:
        connection: options of redis-py that their clients need.
    """

    def __init__(self, folder: Path) -> None:
        base_port = free_base_port(3)
        self.http_port = base_port + 2000 + 1
        self.cluster = Cluster(3, folder)
        self.connection: dict[str, Any] = {}
        for number in self.cluster.nodes:
            node = Node(number, base_port, folder, host=f"127.0.0.{number}")
            node.http_port = self.http_port
            self.cluster.nodes[number] = node

    def __getitem__(self, region: int) -> Node:
        return self.cluster[region]

    @property
    def addresses(self) -> list[str]:
        return [f"{node.host}:{node.resp_port}" for node in self.cluster.nodes.values()]

    def get(self, region: int, path: str) -> tuple[int, Any]:
        """The status and the JSON of a page; None without a body."""
        return get(f"http://{self[region].host}:{self.http_port}{path}")


class Regions(Apart):
    """The same with a proxy on each link; ``proxies[puller, peer]``."""

    def __init__(self, folder: Path, toxiproxy: Toxiproxy, **settings: object) -> None:
        super().__init__(folder)
        addresses = {}
        self.proxies: dict[tuple[int, int], Proxy] = {}
        for puller in self.cluster.nodes:
            for peer, node in self.cluster.nodes.items():
                if peer != puller:
                    proxy = toxiproxy.create(node.grpc_address, f"apart-{puller}-{peer}")
                    self.proxies[puller, peer] = proxy
                    addresses[puller, peer] = proxy.listen
        self.cluster.configure(addresses, **settings)


@contextmanager
def stalling(process: Process, *, seconds: float = 0.7) -> Iterator[None]:
    """Have a process answer late: stopped for so long again and again, and going on in between."""
    is_over = threading.Event()

    def stall() -> None:
        while not is_over.is_set():
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)
            is_over.wait(0.05)

    thread = threading.Thread(target=stall)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def get(url: str, *, method: str = "GET") -> tuple[int, Any]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=patience.seconds()) as page:
            status, body = page.status, page.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    return status, json.loads(body) if body else None


@contextmanager
def regions_apart(folder: Path, toxiproxy: Toxiproxy, **settings: object) -> Iterator[Regions]:
    """Such regions, running; ``settings`` are those of each node."""
    regions = Regions(folder, toxiproxy, **settings)
    try:
        regions.cluster.start()
        yield regions
    finally:
        regions.cluster.end()
        for proxy in regions.proxies.values():
            proxy.destroy()
