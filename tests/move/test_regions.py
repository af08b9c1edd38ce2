"""Exports from several regions: lanes become one stream, and a position must be one ID."""

from collections.abc import Iterator

import pytest

from tests.live.cluster import Cluster, running_regions
from tests.move.ends import Server, move, seen

pytestmark = pytest.mark.long


@pytest.fixture
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("regions")
    with running_regions(2, folder, crdt_xadd_id_uniqueness_mode="semi-strict") as cluster:
        yield cluster


def servers(cluster: Cluster) -> tuple[Server, Server]:
    one, two = (
        Server(f"redis://127.0.0.1:{node.resp_port}/0", node.client)
        for node in cluster.nodes.values()
    )
    return one, two


def test_lanes_become_one_stream_by_id(old: Server, regions: Cluster) -> None:
    one, two = servers(regions)
    for number in range(300):
        (one, two)[number % 2].do(f"XADD s * n {number}")
    one.do("XGROUP CREATE s g 0")
    regions.converge()
    one.do("XREADGROUP GROUP g c STREAMS s >")
    one.do("XNACK s g FAIL IDS 1 " + one.client.xrange("s", count=1)[0][0].decode())
    done = move("export", old.url, "--node", one.url, "--cut-over")
    assert done.returncode == 0, done.stderr

    assert old.client.xrange("s") == one.client.xrange("s") == two.client.xrange("s")
    (row,) = old.client.xpending_range("s", "g", "-", "+", 1)
    assert row["consumer"] == b"without-owner"
    (group,) = old.client.xinfo_groups("s")
    assert (group["pending"], group["lag"]) == (300, 0)


def test_a_group_that_owes_late_entries_is_refused_until_they_are_read(
    old: Server, regions: Cluster
) -> None:
    one, two = servers(regions)
    one.do("XADD s 1-1 f v", "XADD s 9-1 f v", "XGROUP CREATE s g 0")
    one.do("XREADGROUP GROUP g c STREAMS s >")
    regions.converge()
    # As if it had been isolated: the ID is below the group's position in the other lane.
    regions[2].set_links(paused=True)
    one.do("XADD s 20-1 f v")
    two.do("XADD s 15-2 f late")
    one.do("XREADGROUP GROUP g c STREAMS s >")
    regions[2].set_links(paused=False)
    regions.converge()

    words = ["export", old.url, "--node", one.url, "--cut-over"]
    done = move(*words)
    assert done.returncode == 1
    assert "group g of s has 1 entries to deliver, and 0 of the stream are above" in done.stderr
    one.do("XREADGROUP GROUP g c STREAMS s >")
    assert move(*words).returncode == 0
    assert old.client.xrange("s") == one.client.xrange("s")
    assert b"s" in seen(old)
