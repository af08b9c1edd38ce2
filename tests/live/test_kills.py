"""Nodes that are killed: nothing acknowledged is lost, no dot is used twice."""

import signal
import threading
from pathlib import Path

import pytest
import redis

from tests.live.cluster import Cluster, Node, running_regions, vv_of
from tests.patience import wait_until


class Writer(threading.Thread):
    """Adds entries to a node until it is told to stop, through whatever happens to the node.

    Attributes:
        acknowledged: per ID that XADD answered, the value it stands for.
    """

    def __init__(self, node: Node, name: str) -> None:
        super().__init__(name=name)
        self.acknowledged: dict[bytes, bytes] = {}
        self._client = node.connect()
        self._stop_event = threading.Event()
        self.start()

    def run(self) -> None:
        index = 0
        while not self._stop_event.is_set():
            value = b"%s-%d" % (self.name.encode(), index)
            index += 1
            try:
                entry_id = self._client.xadd("s", {"value": value})
            except redis.RedisError:
                self._stop_event.wait(0.01)
                continue
            assert entry_id not in self.acknowledged
            self.acknowledged[entry_id] = value

    def stop(self) -> dict[bytes, bytes]:
        self._stop_event.set()
        self.join()
        self._client.close()
        return self.acknowledged


def entries(node: Node) -> dict[bytes, bytes]:
    found = node.client.xrange("s")
    values = {entry_id: fields[b"value"] for entry_id, fields in found}
    assert len(values) == len(found), "an ID stands twice"
    return values


def test_a_killed_region_keeps_what_it_acknowledged_and_reuses_nothing(
    three_regions: Cluster,
) -> None:
    writers = [
        Writer(three_regions[region], f"w{region}{letter}")
        for region in (1, 1, 2, 3)
        for letter in "ab"
    ]
    node = three_regions[1]
    for kills in range(1, 4):
        enough = 100 * kills
        wait_until(lambda: all(len(w.acknowledged) > enough for w in writers), "entries")  # noqa: B023
        assert node.end(signal.SIGKILL) == -signal.SIGKILL
        node.start()
    wait_until(lambda: all(len(w.acknowledged) > 400 for w in writers), "entries after kills")
    acknowledged: dict[bytes, bytes] = {}
    for writer in writers:
        confirmed = writer.stop()
        assert not acknowledged.keys() & confirmed.keys(), "an ID was given out twice"
        acknowledged.update(confirmed)

    status = three_regions.converge()
    found = entries(node)
    # An entry may be there that nobody was told of: the kill came before the reply.
    assert acknowledged.items() <= found.items()
    assert sum(vv_of(status).values()) == len(found)


@pytest.mark.long
def test_all_regions_killed_at_once_come_back_equal(three_regions: Cluster) -> None:
    writers = [Writer(three_regions[region], f"w{region}") for region in (1, 2, 3)]
    wait_until(lambda: all(len(writer.acknowledged) > 100 for writer in writers), "entries")
    for node in three_regions.nodes.values():
        node.end(signal.SIGKILL)
    acknowledged = {key: value for w in writers for key, value in w.stop().items()}
    three_regions.start()
    three_regions.converge()
    assert acknowledged.items() <= entries(three_regions[2]).items()


def test_groups_and_pending_entries_survive_a_kill(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        for index in range(10):
            node.client.xadd("s", {"value": index})
        node.client.xgroup_create("s", "g", "0")
        got = node.client.xreadgroup("g", "alice", {"s": ">"}, count=5)
        node.client.xack("s", "g", got[0][1][0][0])
        before = (
            node.client.xpending_range("s", "g", "-", "+", 10),
            node.client.xinfo_groups("s"),
            node.client.execute_command("CRDT.DIGEST"),
        )
        node.end(signal.SIGKILL)
        node.start()
        after = (
            node.client.xpending_range("s", "g", "-", "+", 10),
            node.client.xinfo_groups("s"),
            node.client.execute_command("CRDT.DIGEST"),
        )
        for pending in (*before[0], *after[0]):
            pending.pop("time_since_delivered")
        assert before == after
        assert [row["pending"] for row in after[1]] == [4]


@pytest.mark.long
def test_a_transaction_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        stop = threading.Event()

        def write() -> None:
            client = node.connect()
            while not stop.is_set():
                try:
                    with client.pipeline(transaction=True) as pipeline:
                        for key in ("a", "b", "c"):
                            pipeline.xadd(key, {"f": "v"})
                        pipeline.execute()
                except redis.RedisError:
                    stop.wait(0.01)
            client.close()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                reached = node.client.xlen("a")
                wait_until(lambda: node.client.xlen("a") > reached + 50, "entries")  # noqa: B023
                node.end(signal.SIGKILL)
                node.start()
        finally:
            stop.set()
            writer.join()
        assert node.client.xlen("a") == node.client.xlen("b") == node.client.xlen("c") > 0


@pytest.mark.long
@pytest.mark.parametrize("fsync", ["everysec", "no"])
def test_a_node_killed_among_commits_at_once_has_all_it_acknowledged(
    tmp_path: Path, fsync: str
) -> None:
    """The operating system has what was committed without a sync: a kill takes none of it."""
    with running_regions(1, tmp_path, appendfsync=fsync) as cluster:
        node = cluster[1]
        acknowledged: dict[bytes, bytes] = {}
        for kill in range(3):
            writers = [Writer(node, f"w{kill}{letter}") for letter in "abc"]
            wait_until(lambda: all(len(w.acknowledged) > 100 for w in writers), "entries")  # noqa: B023
            assert node.end(signal.SIGKILL) == -signal.SIGKILL
            for writer in writers:
                acknowledged.update(writer.stop())
            node.start()
            assert acknowledged.items() <= entries(node).items()


@pytest.mark.long
@pytest.mark.parametrize("fsync", ["no", "everysec"])
def test_without_fsync_a_kill_loses_no_dots_that_left(tmp_path: Path, fsync: str) -> None:
    """A kill is no power cut: but the log may lack the end that a reply told of.  What a peer has
    is taken back before the region issues again (rule 18)."""
    with running_regions(2, tmp_path, appendfsync=fsync) as cluster:
        node = cluster[1]
        writer = Writer(node, "w")
        for kills in range(1, 3):
            enough = 100 * kills
            wait_until(lambda: len(writer.acknowledged) > enough, "entries")  # noqa: B023
            node.end(signal.SIGKILL)
            node.start()
        wait_until(lambda: len(writer.acknowledged) > 400, "entries after kills")
        writer.stop()
        status = cluster.converge()
        assert vv_of(status)[1] == len(entries(node)) == len(entries(cluster[2]))


@pytest.mark.long
def test_a_region_whose_folder_is_lost_takes_its_effects_back(tmp_path: Path) -> None:
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        for index in range(20):
            first.client.xadd("s", {"value": index})
        cluster.converge()
        first.end(signal.SIGKILL)
        for path in first.folder.iterdir():
            path.unlink()
        first.start()
        wait_until(lambda: first.client.xlen("s") == 20, "its own effects are back")
        wait_until(lambda: not first.status().fault, "it writes again")
        first.client.xadd("s", {"value": "after"})
        assert vv_of(cluster.converge()) == {1: 21}
        assert second.client.xlen("s") == 21
