"""Nodes that are killed while they make checkpoints, cut their log and hold little in memory."""

import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.admin.client import AdminClient
from tests.live.cluster import NODE_PROGRAM, Node, cluster_of
from tests.patience import wait_until

ROUNDS, ROUNDS_LONG, ROUNDS_SOAK = 3, 20, 200
# A checkpoint is due several times a second under this load.
LOG_BYTES = "262144"
ENTRIES_AT_ONCE = 50
TEXT = b"x" * 2_000
# Of one round, at least and at most.
MORE_MIN, MORE_MAX = 200, 1_500
PAGE = 5_000


class Load(threading.Thread):
    """Adds, reads by group and acknowledges, until the node is gone.

    Attributes:
        added: IDs that were acknowledged to have been added.
        acked: IDs whose XACK was acknowledged.
    """

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.added: set[bytes] = set()
        self.acked: set[bytes] = set()
        self._client = node.connect()
        self.start()

    def run(self) -> None:
        try:
            while True:
                self._go_on()
        except redis.RedisError:
            self._client.close()

    def _go_on(self) -> None:
        pipe = self._client.pipeline(transaction=False)
        for _ in range(ENTRIES_AT_ONCE):
            pipe.xadd("s", {"f": TEXT})
        self.added.update(pipe.execute())
        found = self._client.xreadgroup("g", "c", {"s": ">"}, count=ENTRIES_AT_ONCE // 2)
        ids = [entry_id for entry_id, _ in found[0][1]][::2] if found else []
        if ids:
            self._client.xack("s", "g", *ids)
            self.acked.update(ids)


def all_ids(node: Node) -> set[bytes]:
    """Every entry of the stream, page by page: most of them are on disk only."""
    found: set[bytes] = set()
    start = "-"
    while page := node.client.xrange("s", start, "+", count=PAGE):
        assert all(fields == {b"f": TEXT} for _, fields in page)
        found.update(entry_id for entry_id, _ in page)
        start = f"({page[-1][0].decode()}"
    return found


def pending_ids(node: Node) -> set[bytes]:
    found = node.client.xpending_range("s", "g", "-", "+", count=10_000_000)
    return {one["message_id"] for one in found}


def facts(node: Node) -> tuple[Any, ...]:
    """Facts that a restart must not change."""
    client = node.client
    return (
        client.execute_command("CRDT.DIGEST"),
        client.xlen("s"),
        client.xpending("s", "g"),
        client.xinfo_stream("s")["entries-added"],
    )


def kill_again_and_again(folder: Path, rounds: int, *, seed: int) -> None:
    print(f"seed {seed}")
    randomly = random.Random(seed)
    with cluster_of(1, folder, program=NODE_PROGRAM) as regions:
        regions.configure()
        node = regions[1]
        node.start("--new-database")
        with AdminClient(node.grpc_address) as client:
            client.tune("checkpoint_log_bytes", LOG_BYTES)
        used = int(node.client.info("memory")["used_memory"])
        # Little more than what cannot leave: entries do, all the time.
        with AdminClient(node.grpc_address) as client:
            client.tune("maxmemory", str(used + (32 << 20)))
        node.client.xgroup_create("s", "g", "0", mkstream=True)
        added: set[bytes] = set()
        acked: set[bytes] = set()
        cut_count = 0
        for _ in range(rounds):
            load = Load(node)
            enough = randomly.randint(MORE_MIN, MORE_MAX)
            wait_until(lambda: len(load.added) > enough, "a load")  # noqa: B023
            node.end(signal.SIGKILL)
            load.join()
            added |= load.added
            acked |= load.acked
            node.start()
            # Some were added whose reply nobody heard.
            assert added <= all_ids(node)
            assert not acked & pending_ids(node)
            before = facts(node)
            node.end(signal.SIGKILL)
            node.start()
            assert facts(node) == before
            cut_count += node.status().storage.first_seq > 1
        assert cut_count, "no checkpoint was written, and the log never cut"


@pytest.mark.long
def test_nothing_acknowledged_is_lost_while_checkpoints_are_made(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, ROUNDS, seed=1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_in_many_kills(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, ROUNDS_LONG, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_in_hundreds_of_kills(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, ROUNDS_SOAK, seed=3)
