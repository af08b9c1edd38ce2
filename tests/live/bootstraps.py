"""Shared parts of bootstrap tests: logs that are cut, folders that are lost, states to copy."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis

from crdtstream.engine.log_cutting import CUT_RECORDS_MIN
from crdtstream.store.sqlite_staging import STAGING_FILE
from tests.live.cluster import Cluster, Node
from tests.patience import wait_until

# Of a settings file: the smallest that there can be.
SMALL_BACKLOG: Final = 64 << 10
# Some messages of a copy: it can be broken in the middle.
LARGE_VALUES, LARGE_BYTES = 500, 4_000
SLOW_BYTES_PER_S: Final = 400_000


def write(node: Node, key: str, count: int, *, size: int = 0) -> None:
    """Entries, each in a record of its own; of ``size`` bytes that no compression makes fewer."""
    for index in range(count):
        node.client.xadd(key, {"value": os.urandom(size) or index})


def write_much(node: Node, key: str, *, count: int = LARGE_VALUES) -> None:
    """Entries that no compression makes smaller, and records enough to be cut."""
    with node.client.pipeline(transaction=False) as pipeline:
        for _ in range(count):
            pipeline.xadd(key, {"value": os.urandom(LARGE_BYTES)})
        pipeline.execute()
    write(node, "small", CUT_RECORDS_MIN)


def cut_log(node: Node) -> None:
    """Have the region write a checkpoint, and cut its log behind it.

    A copy that a region began to take over, and broke off, may keep the log for a minute.
    """
    last = node.client.info("persistence")["log_last_record"]

    def is_cut() -> bool:
        node.client.execute_command("SAVE")
        first = node.client.info("persistence")["log_first_record"]
        # A rest is not worth a cut.
        return bool(first > 1 and last < first + CUT_RECORDS_MIN)

    wait_until(is_cut, "the log is cut")


def are_equal(*nodes: Node) -> bool:
    return len({(status.digest, str(status.vv)) for status in map(Node.status, nodes)}) == 1


def level(*nodes: Node) -> None:
    """Wait until all have applied the same."""
    wait_until(lambda: are_equal(*nodes), "all are equal")


def lose_folder(node: Node) -> None:
    """End the process, and delete all of its folder."""
    node.end(signal.SIGKILL)
    shutil.rmtree(node.folder)


def lose_second(cluster: Cluster) -> None:
    """Give both regions some data, cut the first one's log, and lose the second one's folder."""
    first, second = cluster.nodes.values()
    write_much(first, "s")
    level(first, second)
    cut_log(first)
    lose_folder(second)


def bootstrap(node: Node) -> dict[str, Any]:
    """Fields of INFO about the bootstrap, without their prefix."""
    fields = node.client.info("crdt").items()
    return {
        name.removeprefix("crdt_bootstrap_"): value
        for name, value in fields
        if name.startswith("crdt_bootstrap_")
    }


def is_copying(node: Node) -> bool:
    """True if some images have arrived, and not all."""
    try:
        found = bootstrap(node)
    except redis.ConnectionError:
        return False
    return bool(found["phase"] == "copying" and 0 < found["images_done"] < found["images"])


def staging_is_gone(node: Node) -> bool:
    return not (node.folder / STAGING_FILE).exists()


class Writer:
    """A client of a region that writes and reads all the while.

    Attributes:
        acknowledged: the IDs of its entries.
        refused: the error replies that it got instead.
        lost: what it read and did not find.
    """

    def __init__(self, node: Node, key: str) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []
        self.lost: list[bytes] = []
        self.failure: redis.RedisError | None = None
        self._node, self._key = node, key
        self._is_over = threading.Event()

    def _run(self) -> None:
        client = self._node.connect()
        try:
            while not self._is_over.wait(0.005):
                try:
                    entry_id = client.xadd(self._key, {"n": len(self.acknowledged)})
                except redis.ResponseError as error:
                    self.refused.append(str(error))
                    continue
                self.acknowledged.append(entry_id)
                if not client.xrange(self._key, entry_id, entry_id):
                    self.lost.append(entry_id)
        except redis.RedisError as error:
            self.failure = error
        finally:
            client.close()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
        if self.failure is not None:
            raise self.failure


def takes_writes_at_once(node: Node) -> None:
    """Set that the region does not wait at its start for what its peers have."""
    text = node.config.read_text()
    old = "catch_up_answer_ms_max = 500"
    assert old in text
    node.config.write_text(text.replace(old, "catch_up_answer_ms_max = 0"))
