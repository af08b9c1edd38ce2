"""A region that cannot catch up by logs takes over the state of another one, with real nodes."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.bootstraps import (
    SLOW_BYTES_PER_S,
    SMALL_BACKLOG,
    Writer,
    are_equal,
    bootstrap,
    cut_log,
    is_copying,
    level,
    lose_folder,
    lose_second,
    staging_is_gone,
    takes_writes_at_once,
    write,
)
from tests.live.cluster import Cluster, Node, running_regions
from tests.patience import wait_until


def ready(node: Node) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/readyz") as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.long
def test_a_region_whose_folder_is_lost_comes_back(three_regions: Cluster) -> None:
    first, second, third = three_regions.nodes.values()
    for key, node in (("a", first), ("b", second), ("c", third)):
        write(node, key, 200)
    level(first, second, third)
    first.client.xgroup_create("c", "g", "0")
    level(first, second, third)
    for node in (first, second, third):
        cut_log(node)
    lose_folder(third)
    write(first, "a", 10)
    third.start()
    level(first, second, third)
    assert [third.client.xlen(key) for key in "abc"] == [210, 200, 200]
    # It goes on behind its own numbers, and what it writes comes to the others.
    write(third, "c", 5)
    level(first, second, third)
    assert first.client.xlen("c") == 205
    wait_until(lambda: staging_is_gone(third), "what was staged is deleted")
    assert bootstrap(third)["taken_over"] == 1


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Cluster]:
    """Three regions; region 2 was down for longer than its peers' backlog, and has entries in
    ``mine`` that no other region has."""
    with running_regions(3, tmp_path, replication_backlog_size=SMALL_BACKLOG) as cluster:
        first, second, third = cluster.nodes.values()
        for node in (first, second, third):
            write(node, "s", 20)
        level(first, second, third)
        for node in (first, third):
            node.set_links(paused=True, peers=[2])
        write(second, "mine", 30)
        second.end()
        write(first, "s", 50, size=SMALL_BACKLOG // 16)
        write(third, "s", 50, size=SMALL_BACKLOG // 16)
        wait_until(lambda: are_equal(first, third), "the others are equal")
        for node in (first, third):
            cut_log(node)
            node.set_links(paused=False)
        yield cluster


def test_a_region_away_for_longer_than_the_backlog_loses_nothing_and_nobody_else_does(
    away: Cluster,
) -> None:
    """Its clients write and read while it gets the state."""
    first, second, third = away.nodes.values()
    takes_writes_at_once(second)
    second.start()
    writer = Writer(second, "during")
    with writer.running():
        level_or_ahead(away)
        wait_until(lambda: len(writer.acknowledged) >= 20, "its client wrote")
    level(first, second, third)
    assert bootstrap(second)["taken_over"] == 1
    assert (writer.refused, writer.lost) == ([], [])
    for node in (first, second, third):
        assert node.client.xlen("mine") == 30
        assert node.client.xlen("s") == 160
        found = {entry_id for entry_id, _ in node.client.xrange("during")}
        assert found == set(writer.acknowledged)
    wait_until(lambda: staging_is_gone(second), "what was staged is deleted")


def level_or_ahead(cluster: Cluster) -> None:
    """Wait until region 2 has what the others wrote."""
    wait_until(lambda: cluster[2].client.xlen("s") == 160, "it has what it lacked")


@pytest.mark.long
def test_while_it_gets_a_state_it_says_whose_and_how_much_has_come(tmp_path: Path) -> None:
    with running_regions(2, tmp_path, bootstrap_bytes_per_s=SLOW_BYTES_PER_S) as cluster:
        first, second = cluster.nodes.values()
        lose_second(cluster)
        second.launch()
        wait_until(lambda: is_copying(second), "a part has come")
        status, page = ready(second)
        assert status == 503
        assert "region 2 gets the state of region 1: " in page["reason"]
        assert " % of " in page["reason"]
        shown = second.status().bootstrap
        assert shown.source == 1
        assert 0 < shown.bytes_done < shown.bytes
        # Clients that read are answered.
        assert second.client.xlen("s") == 0
        second.wait()
        level(first, second)
        wait_until(lambda: ready(second)[0] == 200, "it is ready")
