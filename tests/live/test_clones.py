"""Two folders of one region that nothing tells apart, as of a snapshot of a virtual machine."""

import re
import shutil
import sqlite3
from functools import partial
from pathlib import Path

import pytest
import redis

from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.layout import CHECKSUM_KEY, meta_checksum
from crdtstream.store.opening import read_opening, write_opening
from tests.live.cluster import Cluster, Node, running_regions, vv_of
from tests.live.test_incarnations import add, refusal, use, values_of
from tests.live.test_salvage import salvage
from tests.patience import wait_until

pytestmark = pytest.mark.long

APART = "It numbered them in two copies of one folder"


def clone(folder: Path, to: Path) -> None:
    """Copy the folder of a node that is down, and have the copy prove itself.

    A snapshot below the file system keeps the numbers and times of files; here the copy is told its
    own.
    """
    shutil.copytree(folder, to)
    found = read_opening(folder, LOG_FILE)
    assert found is not None
    opening = write_opening(to, found.count, LOG_FILE)
    with sqlite3.connect(to / LOG_FILE) as log:
        values = dict(log.execute("SELECT key, value FROM meta"))
        assert values["opening"] == str(found)
        assert values["clean_shutdown"] == "yes"
        values["opening"] = str(opening)
        values[CHECKSUM_KEY] = meta_checksum(values)
        log.executemany(
            "UPDATE meta SET value = ? WHERE key = ?", [(v, k) for k, v in values.items()]
        )
    log.close()


def used_apart(cluster: Cluster, copy: Path) -> bytes:
    """Region 2 has effects of region 1's folder, and its clone has others under the same numbers.

    Returns:
        A token of what region 2 has.
    """
    first, second = cluster[1], cluster[2]
    add(first, "both", "both")
    cluster.converge()
    first.end()
    clone(first.folder, copy)
    first.start()
    add(first, "old 1", "old 2")
    cluster.converge()
    token = second.client.execute_command("CRDT.TOKEN")
    for node in (first, second):
        node.end()
    use(first, copy)
    first.start()
    add(first, "clone 1", "clone 2", "clone 3")
    second.launch()
    return bytes(token)


def is_apart(node: Node, peer: int) -> bool:
    return APART in node.link(peer).error


def test_histories_of_two_clones_are_never_merged(tmp_path: Path) -> None:
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        old, copy = first.folder, tmp_path / "clone"
        token = used_apart(cluster, copy)
        for node, peer in ((first, 2), (second, 1)):
            wait_until(partial(is_apart, node, peer), "the link is refused")
        assert values_of(first) == ["both", "both", "clone 1", "clone 2", "clone 3"]
        second.wait(for_writes=False)
        assert values_of(second) == ["both", "both", "old 1", "old 2"]
        had = vv_of(second.status())[1]

        # What a client had of the other one is lost here, though the numbers are there.
        assert second.client.execute_command("CRDT.WAITFOR", token, "0") == 1
        with pytest.raises(redis.ResponseError, match="LOST region 1 numbered effects in two"):
            first.client.execute_command("CRDT.WAITFOR", token, "0")
        # Nobody will ever take what is written here.
        told = refusal(first)
        assert "MISCONF the effects of region 1 are others in region 2 than in region 1" in told
        assert "no region is linked that has those of this one" in told

        # One way: the other clone goes on.
        first.end()
        use(first, old)
        first.start()
        add(first, "old 3")
        cluster.converge()
        assert values_of(second)[2:] == ["old 1", "old 2", "old 3"]
        assert vv_of(second.status())[1] > had
        # What only this one had is appended again.
        for told in ("3", "0"):
            run = salvage(copy, second)
            assert run.returncode == 0, run.stderr
            assert "Of region 1 2 effects count; 3 are beyond that, 3 of them entries" in run.stdout
            assert re.search(rf"\bs +{told}\b", run.stdout), run.stdout
        assert values_of(second)[2:] == ["old 1", "old 2", "old 3", "clone 1", "clone 2", "clone 3"]
        # Of the folder that goes on nothing is.
        first.end()
        run = salvage(old, second)
        assert "does not go on in another folder or a clone of this one" in run.stderr


def test_a_clone_goes_on_with_regions_that_begin_with_empty_folders(tmp_path: Path) -> None:
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        used_apart(cluster, tmp_path / "clone")
        wait_until(partial(is_apart, first, 2), "the link is refused")
        second.end()
        shutil.rmtree(second.folder)
        second.start()
        first.wait()
        add(first, "clone 4")
        cluster.converge()
        assert values_of(second)[2:] == ["clone 1", "clone 2", "clone 3", "clone 4"]
