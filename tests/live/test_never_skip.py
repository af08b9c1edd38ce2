"""XREAD that skips nothing, on real nodes: connections that come and go, nodes that are killed."""

import contextlib
import itertools
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.clients.libraries import by_key
from tests.live.cluster import Cluster, running_regions
from tests.live.test_kills import Writer
from tests.patience import seconds, wait_until


@pytest.fixture
def never_skipping(tmp_path: Path) -> Iterator[Cluster]:
    with running_regions(2, tmp_path, crdt_xread_mode="never-skip") as cluster:
        yield cluster


class Reader(threading.Thread):
    """Reads region 1's stream with plain XREAD, and takes another connection now and then.

    Attributes:
        given: IDs, in the order in which they were given, again and again if so.
    """

    def __init__(self, cluster: Cluster, *, reads_per_connection: int) -> None:
        super().__init__(daemon=True)
        self.given: list[bytes] = []
        self._cluster = cluster
        self._reads_per_connection = reads_per_connection
        self._stop_event = threading.Event()
        self._position = b"0"
        self.start()

    def run(self) -> None:
        while not self._stop_event.is_set():
            try:
                with self._cluster[1].connect() as client:
                    self._read(client)
            except redis.RedisError:
                self._stop_event.wait(0.01)

    def _read(self, client: Any) -> None:
        for _ in range(self._reads_per_connection):
            if self._stop_event.is_set():
                return
            found = by_key(client.xread({"s": self._position}, count=50, block=20) or [])
            for entry_id, _ in found.get(b"s", []):
                self.given.append(entry_id)
                self._position = entry_id

    def stop(self) -> list[bytes]:
        self._stop_event.set()
        self.join(seconds())
        return self.given


@contextlib.contextmanager
def stopped_at_last(*threads: Writer | Reader) -> Iterator[None]:
    try:
        yield
    finally:
        for thread in threads:
            thread.stop()


ALWAYS = 1 << 30


@pytest.mark.long
def test_readers_are_given_all_that_two_regions_write(never_skipping: Cluster) -> None:
    """Region 1, where they read, is killed meanwhile, and comes back."""
    first, second = (Writer(never_skipping[region], f"w{region}") for region in (1, 2))
    readers = [Reader(never_skipping, reads_per_connection=reads) for reads in (ALWAYS, 3)]
    with stopped_at_last(first, second, *readers):
        wait_until(lambda: all(len(reader.given) > 200 for reader in readers), "all read")
        never_skipping[1].end(signal.SIGKILL)
        before = len(second.acknowledged)
        wait_until(lambda: len(second.acknowledged) > before + 100, "region 2 goes on")
        never_skipping[1].start()
        before = len(first.acknowledged)
        wait_until(lambda: len(first.acknowledged) > before + 100, "region 1 goes on")
        written = {*first.stop(), *second.stop()}
        never_skipping.converge()
        for reader in readers:
            wait_until(lambda reader=reader: written <= set(reader.given), "all is given")  # type: ignore[misc]


def test_one_connection_is_given_each_entry_once(never_skipping: Cluster) -> None:
    writers = [Writer(never_skipping[region], f"w{region}") for region in (1, 2)]
    reader = Reader(never_skipping, reads_per_connection=ALWAYS)
    with stopped_at_last(*writers, reader):
        wait_until(lambda: len(reader.given) > 500, "it reads")
        written = {entry_id for writer in writers for entry_id in writer.stop()}
        never_skipping.converge()
        wait_until(lambda: len(set(reader.given)) >= len(written), "all is given")
    assert sorted(reader.given) == sorted(written)
    # Some came late: else this would prove nothing.
    ids = [tuple(map(int, entry_id.split(b"-"))) for entry_id in reader.given]
    assert any(later < earlier for earlier, later in itertools.pairwise(ids))
