"""Bootstraps over a network that breaks, onto a disk that is full, from another database."""

import re
import resource
import shutil
from pathlib import Path

import pytest
import redis
from toxiproxy import Toxiproxy

from tests.live.bootstraps import (
    LARGE_VALUES,
    SLOW_BYTES_PER_S,
    bootstrap,
    cut_log,
    is_copying,
    level,
    lose_second,
    staging_is_gone,
    write,
    write_much,
)
from tests.live.cluster import Node, cluster_of, running_regions, vv_of
from tests.patience import wait_until


def copies_of(sender: Node) -> list[int]:
    """Of each call of a copy, behind which image it began."""
    found = re.findall(r"the state is sent\b.*?\bafter\b\D*(\d+)", sender.log.read_text())
    return [int(number) for number in found]


@pytest.mark.long
def test_a_copy_that_the_network_breaks_goes_on_where_it_broke(
    tmp_path: Path, toxiproxy: Toxiproxy
) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster.nodes.values()
        proxy = toxiproxy.create(first.grpc_address, "second-pulls-first")
        cluster.configure({(2, 1): proxy.listen}, bootstrap_bytes_per_s=SLOW_BYTES_PER_S)
        cluster.start()
        lose_second(cluster)
        second.launch()
        wait_until(lambda: is_copying(second), "a part has come")
        proxy.disable()
        wait_until(lambda: bootstrap(second)["failures"] >= 1, "the copy broke")
        proxy.enable()
        second.wait()
        level(first, second)
        began, went_on = copies_of(first)
        assert began == 0
        assert went_on > 0
        assert first.client.xlen("s") == second.client.xlen("s")


def limit_files(node: Node, bytes_max: int) -> None:
    """Let no file of the node's grow beyond a size: to it, that is a full disk."""
    assert node.process is not None
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))


@pytest.mark.long
def test_a_receiver_whose_disk_is_full_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with running_regions(2, tmp_path, bootstrap_bytes_per_s=SLOW_BYTES_PER_S) as cluster:
        first, second = cluster.nodes.values()
        lose_second(cluster)
        second.launch()
        wait_until(lambda: is_copying(second), "a part has come")
        limit_files(second, 700 << 10)
        wait_until(lambda: bootstrap(second)["failures"] >= 1, "the disk refused")
        assert "staging.sqlite" in second.status().bootstrap.failure
        # Nothing was merged, and reads are answered.
        assert vv_of(second.status()) == {}
        assert second.client.xlen("s") == 0
        limit_files(second, resource.RLIM_INFINITY)
        second.wait()
        level(first, second)
        wait_until(lambda: staging_is_gone(second), "what was staged is deleted")


def fill(node: Node) -> None:
    """Write more than a disk that is full takes."""
    for _ in range(50):
        write_much(node, "t", count=50)


@pytest.mark.long
def test_a_sender_whose_disk_gets_full_sends_the_rest_of_its_state(tmp_path: Path) -> None:
    """It takes no writes and says why; what it has, others get from it all the same."""
    with running_regions(2, tmp_path, bootstrap_bytes_per_s=SLOW_BYTES_PER_S) as cluster:
        first, second = cluster.nodes.values()
        lose_second(cluster)
        second.launch()
        wait_until(lambda: is_copying(second), "a part has come")
        limit_files(first, 1)
        with pytest.raises(redis.ResponseError, match="MISCONF"):
            fill(first)
        assert "cannot write row" in first.status().fault
        wait_until(lambda: second.client.xlen("s") == LARGE_VALUES, "the state has come")
        assert bootstrap(second)["failures"] == 0
        limit_files(first, resource.RLIM_INFINITY)
        wait_until(lambda: not first.status().fault, "the disk is used again")
        second.wait()
        level(first, second)


def test_a_region_of_another_database_gets_no_state(tmp_path: Path) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster.nodes.values()
        cluster.configure()
        cluster.start()
        write(first, "s", 100)
        level(first, second)
        cut_log(first)
        second.end()
        shutil.rmtree(second.folder)
        second.start("--new-database")
        write(second, "t", 3)
        wait_until(lambda: "belongs to database" in second.link(1).error, "the link is refused")
        found = second.status()
        assert vv_of(found) == {2: 3}
        assert found.bootstrap.taken_over == 0
        assert second.client.xlen("s") == 0
