"""Clients of all regions that write and remove without pause while something else goes on."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import redis

from tests.live.cluster import Cluster

STREAMS = tuple(f"busy:{number}" for number in range(4))
# Trimmed away and begun again all the time; the others keep most of what they have.
SHORT_LIVED = "busy:short-lived"
ENTRIES_AT_START = 2_000
# Created and destroyed all the time, without entries of its own.
COMING_AND_GOING = "busy:group-only"


@contextmanager
def traffic(cluster: Cluster, seed: int) -> Iterator[None]:
    """Keeps a client busy in each region for as long as the block runs; begins with full streams.

    An error of a client comes out at the block's end.
    """
    stop = threading.Event()
    clients = [
        _Client(node.connect(), random.Random(f"{seed}/{node.region}"))
        for node in cluster.nodes.values()
    ]
    for client in clients:
        client.fill()

    def run(client: _Client) -> None:
        while not stop.is_set():
            client.step()

    with ThreadPoolExecutor(max_workers=len(clients)) as pool:
        running = [pool.submit(run, client) for client in clients]
        try:
            yield
        finally:
            stop.set()
        for one in running:
            one.result()


class _Client:
    def __init__(self, client: Any, random: random.Random) -> None:
        self._client = client
        self._random = random

    def step(self) -> None:
        stream = self._random.choice(STREAMS)
        kinds = ("add", "remove", "trim", "delete", "acknowledge", "group")
        (kind,) = self._random.choices(kinds, (40, 30, 10, 5, 10, 5))
        match kind:
            case "add":
                self._add(stream, self._random.randrange(1, 30))
            case "remove":
                self._remove_somewhere(stream)
            case "trim":
                length = self._client.xlen(stream)
                self._client.xtrim(stream, maxlen=max(0, length - 10), approximate=False)
            case "delete":
                self._add(SHORT_LIVED, 5)
                self._client.delete(SHORT_LIVED)
            case "acknowledge":
                self._read_and_acknowledge(stream)
            case _:
                self._create_and_delete()

    def fill(self) -> None:
        for stream in STREAMS:
            self._add(stream, ENTRIES_AT_START)

    def _add(self, stream: str, count: int) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for _ in range(count):
            pipeline.xadd(stream, {"field": self._random.randbytes(20)})
        pipeline.execute()

    def _remove_somewhere(self, stream: str) -> None:
        first = self._client.xrange(stream, count=1)
        last = self._client.xrevrange(stream, count=1)
        if first and last:
            begin, end = (int(found[0][0].split(b"-")[0]) for found in (first, last))
            start = self._random.randint(begin, end)
            found = self._client.xrange(stream, min=start, count=20)
            if found:
                self._client.xdel(stream, *[entry_id for entry_id, _ in found])

    def _create_and_delete(self) -> None:
        # Another region may have created it just now.
        with refused("BUSYGROUP"):
            self._client.xgroup_create(COMING_AND_GOING, "group", "0", mkstream=True)
        self._client.delete(COMING_AND_GOING)

    def _read_and_acknowledge(self, stream: str) -> None:
        with refused("BUSYGROUP"):
            self._client.xgroup_create(stream, "readers", "0", mkstream=True)
        for _, found in self._client.xreadgroup("readers", "one", {stream: ">"}, count=50):
            self._client.xack(stream, "readers", *[entry_id for entry_id, _ in found])


@contextmanager
def refused(code: str) -> Iterator[None]:
    """The block may be refused with this code, and no other."""
    try:
        yield
    except redis.ResponseError as error:
        if not str(error).startswith(code):
            raise
