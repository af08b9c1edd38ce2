"""A region that cannot catch up by logs takes over the state of another one, with real nodes."""

import shutil
import signal

import pytest

from tests.live.cluster import Cluster, Node, wait_until

pytestmark = pytest.mark.live


def write(node: Node, key: str, count: int) -> None:
    """Entries, each in a record of its own."""
    for index in range(count):
        node.client.xadd(key, {"value": index})


def cut_log(node: Node) -> None:
    """Have the region write a checkpoint, and cut its log behind it."""
    node.client.execute_command("SAVE")
    wait_until(lambda: node.client.info("persistence")["log_first_record"] > 1, "the log is cut")


def equal(*nodes: Node) -> bool:
    return len({(status.digest, str(status.vv)) for status in map(Node.status, nodes)}) == 1


def test_a_region_whose_folder_is_lost_comes_back(three_regions: Cluster) -> None:
    first, second, third = three_regions.nodes.values()
    for key, node in (("a", first), ("b", second), ("c", third)):
        write(node, key, 200)
    wait_until(lambda: equal(first, second, third), "all are equal")
    first.client.xgroup_create("c", "g", "0")
    for node in (first, second, third):
        cut_log(node)
    third.end(signal.SIGKILL)
    shutil.rmtree(third.folder)
    write(first, "a", 10)
    third.start()
    wait_until(lambda: equal(first, second, third), "the rebuilt region is equal")
    assert [third.client.xlen(key) for key in "abc"] == [210, 200, 200]
    # It goes on behind its own numbers, and what it writes comes to the others.
    write(third, "c", 5)
    wait_until(lambda: equal(first, second, third), "all are equal again")
    assert first.client.xlen("c") == 205
