"""Whole moves between real servers: all that the source has is at the target, once."""

import json

import pytest

from tests.conftest import require
from tests.move.ends import Server, fill, move, seen


@pytest.mark.parametrize("product", ["redis 8", "valkey", "redis 7"])
def test_an_import_brings_entries_groups_pending_entries_strings_and_deadlines(
    servers: dict[str, Server], region: Server, product: str
) -> None:
    require(product in servers, f"a server: {product}")
    source = servers[product]
    source.clear()
    fill(source, streams=3, entries=200, seed=1)
    source.do("XADD emptied 7-7 f v", "XDEL emptied 7-7", "XTRIM orders:1 MAXLEN 150")
    done = move("import", source.url, "--node", region.url, "--cut-over", "--json")

    assert done.returncode == 0, done.stderr
    assert seen(region) == seen(source)
    outcome = json.loads(done.stdout)
    assert outcome["equal"]
    assert {one["key"]: one["target"]["entries"] for one in outcome["streams"]} == {
        key.decode(): region.client.xlen(key) for key in region.client.scan_iter(_type="STREAM")
    }
    assert outcome["strings"] == 2


def test_pending_entries_keep_the_time_of_their_delivery(old: Server, region: Server) -> None:
    old.do("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    old.do("XCLAIM s g c 0 1-1 IDLE 5000000 RETRYCOUNT 9")
    assert move("import", old.url, "--node", region.url, "--cut-over").returncode == 0
    (row,) = region.client.xpending_range("s", "g", "-", "+", 10)
    assert (row["consumer"], row["times_delivered"]) == (b"c", 9)
    assert 5_000_000 <= row["time_since_delivered"] < 5_100_000


def test_groups_move_on_between_an_import_and_the_cut_over(old: Server, region: Server) -> None:
    fill(old, streams=2, entries=100, seed=2)
    assert move("import", old.url, "--node", region.url).returncode == 0
    first = seen(region)
    old.do("XREADGROUP GROUP workers dave COUNT 7 STREAMS orders:0 >")
    old.do("XGROUP DESTROY orders:1 later", "XGROUP CREATE orders:1 newer 0")
    old.do("XADD orders:0 * f v", "XTRIM orders:0 MAXLEN 50", "XSETID orders:1 1800000000000-0")
    entries = old.client.xrange("orders:1", count=30)
    old.client.xdel("orders:1", entries[20][0], entries[29][0])
    old.do("DEL name", "SET session other", "SET new value")

    done = move("import", old.url, "--node", region.url, "--cut-over")
    assert done.returncode == 0, done.stderr
    assert seen(region) == seen(old) != first
    assert "2 entries were deleted at the target" in done.stdout


def test_streams_that_are_gone_or_begun_again_at_the_source(old: Server, region: Server) -> None:
    old.do("XADD gone 1-1 f v", "XADD again 1-1 f v", "XADD again 2-1 f v", "SET was string")
    assert move("import", old.url, "--node", region.url).returncode == 0
    old.do("DEL gone again was", "XADD again 1-1 f other", "XADD again 2-1 f v", "XADD was 5-1 f v")
    assert move("import", old.url, "--node", region.url, "--cut-over").returncode == 0
    assert seen(region) == seen(old)


def test_only_the_chosen_keys_are_moved(old: Server, region: Server) -> None:
    old.do("XADD orders:1 1-1 f v", "XADD other 1-1 f v", "SET orders:name x", "LPUSH list a")
    words = ["import", old.url, "--node", region.url, "--streams", "orders:*", "--cut-over"]
    assert move(*words).returncode == 0
    assert seen(region).keys() == {b"orders:1"}


def test_a_move_that_was_checked_leaves_no_record(old: Server, region: Server) -> None:
    old.do("XADD s 1-1 f v")
    assert move("import", old.url, "--node", region.url).returncode == 0
    assert [key for key in seen(region) if key.startswith(b"crdtstream:move:")] != []
    assert move("import", old.url, "--node", region.url, "--cut-over").returncode == 0
    assert seen(region).keys() == {b"s"}


def test_the_way_back_brings_what_was_written_in_the_region(old: Server, region: Server) -> None:
    fill(old, streams=2, entries=50, seed=3)
    assert move("import", old.url, "--node", region.url, "--cut-over").returncode == 0
    region.do("XADD orders:0 * f new", "XREADGROUP GROUP workers eve COUNT 9 STREAMS orders:0 >")
    region.do("XADD born * f v", "SET name changed")
    done = move("export", old.url, "--node", region.url, "--continue", "--cut-over")
    assert done.returncode == 0, done.stderr
    assert seen(old) == seen(region)


def test_an_entry_that_arrives_late_is_brought_all_the_same(old: Server, region: Server) -> None:
    """As from another region: its ID is below what was brought before."""
    other = old.database(1)
    other.do("XADD s 1-1 f v", "XADD s 9-1 f v")
    assert move("import", other.url, "--node", old.url).returncode == 0
    other.do("DEL s", "XADD s 1-1 f v", "XADD s 5-1 f late", "XADD s 9-1 f v")
    assert move("import", other.url, "--node", old.url, "--cut-over").returncode == 0
    assert seen(old) == seen(other)
