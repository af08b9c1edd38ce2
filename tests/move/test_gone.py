"""Keys and entries that only the target has: deleted at the source, or lost there?"""

import asyncio
from pathlib import Path

import pytest

from crdtstream.move import checking
from crdtstream.move.address import parse_address
from crdtstream.move.ends import Ends
from crdtstream.move.moving import Move, Outcome
from crdtstream.move.survey import Selection
from tests.move.ends import Server, Silent, move, seen
from tests.move.test_refusals import server_with

KEYS = ("XADD s 1-1 f v", "XADD s 2-1 f v", "XADD t 1-1 f v", "SET name v")


def cut_over(source: Server, target: Server) -> Outcome:
    """A cut-over in this process, whose bounds the test has set."""

    async def run() -> Outcome:
        ends = Ends(parse_address(source.url), parse_address(target.url), retry_seconds=1)
        try:
            one = Move(ends, Selection(), Silent())
            await one.begin()
            return await one.cut_over(stop_writes=False)
        finally:
            ends.close()

    return asyncio.run(run())


@pytest.mark.parametrize("options", [(), ("--cut-over", "--stop-writes")])
def test_a_source_that_restarts_empty_does_not_empty_the_target(
    old: Server, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with server_with(tmp_path) as server:
        server.do(*KEYS)
        words = ["import", server.url, "--node", old.url]
        assert move(*words).returncode == 0
    brought = seen(old)
    with server_with(tmp_path) as server:
        server.do("XADD born 1-1 f v")
        done = move(*words, *options)
        assert done.returncode == 1
        assert "has restarted since the move began, and lacks 3 of 4 keys" in done.stderr
        assert "brought: name, s, t." in done.stderr
        left = seen(old)
        assert all(left[key] == brought[key] for key in (b"s", b"t", b"name"))
        assert server.do("XADD born 2-1 f v") == b"2-1"

        done = move(*words, "--cut-over", "--delete-gone")
        assert done.returncode == 0, done.stderr
        assert "3 keys were deleted at the target, as at the source" in done.stdout
        assert seen(old) == seen(server)


def test_a_stream_that_a_restarted_source_began_again_is_not_trimmed(
    old: Server, tmp_path: Path
) -> None:
    with server_with(tmp_path) as server:
        server.do(*KEYS)
        words = ["import", server.url, "--node", old.url]
        assert move(*words).returncode == 0
    with server_with(tmp_path) as server:
        server.do("XADD s 3-1 f new", *KEYS[2:])
        done = move(*words, "--cut-over")
        assert done.returncode == 1
        assert "s has 1 entries there, 3 at the target" in done.stderr
        assert [one for one, _ in old.client.xrange("s")] == [b"1-1", b"2-1", b"3-1"]


def test_a_key_that_has_another_type_after_a_restart_is_not_deleted(
    old: Server, tmp_path: Path
) -> None:
    with server_with(tmp_path) as server:
        server.do("XADD s 1-1 f v")
        words = ["import", server.url, "--node", old.url]
        assert move(*words).returncode == 0
    with server_with(tmp_path) as server:
        server.do("SET s v")
        done = move(*words)
    assert done.returncode == 1
    assert "has keys of another type than the target: s." in done.stderr
    assert old.client.xlen("s") == 1


def test_keys_that_are_gone_in_bulk_are_not_deleted(old: Server) -> None:
    target = old.database(1)
    old.do(*KEYS)
    words = ["import", old.url, "--node", target.url]
    assert move(*words).returncode == 0
    old.client.flushdb()
    old.do("XADD s 9-1 f v")
    done = move(*words, "--cut-over")
    assert done.returncode == 1
    assert "lacks 2 of 3 keys that the move has brought: name, t." in done.stderr
    assert target.client.exists("t", "name") == 2


@pytest.mark.parametrize("late", ["2-2", "9-9"])
def test_a_late_write_to_the_old_server_survives_the_way_back(
    old: Server, region: Server, late: str
) -> None:
    """A producer that nobody told goes on at the old server once that takes writes again."""
    old.do(*KEYS)
    words = ["--node", region.url, "--cut-over"]
    assert move("import", old.url, *words, "--stop-writes").returncode == 0
    region.do("XADD s 5-1 f new", "XADD t 5-1 f new", "XDEL t 1-1")
    old.client.config_set("min-replicas-to-write", 0)
    old.do(f"XADD s {late} f late")

    for _ in range(2):
        done = move("export", old.url, "--continue", *words, "--streams", "s")
        assert done.returncode == 1
        assert f"does not have: {late}." in done.stderr
        assert "--delete-gone" in done.stderr
        # A second run has the key in its record, and asks all the same.
        assert old.client.xrange("s", late, late) == [(late.encode(), {b"f": b"late"})]
    done = move("export", old.url, "--continue", *words, "--delete-gone")
    assert done.returncode == 0, done.stderr
    assert seen(old) == seen(region)


def test_an_entry_that_is_at_the_old_server_only_is_not_trimmed_on_the_way_back(
    old: Server, region: Server
) -> None:
    """The region trimmed its stream beyond the late write."""
    region.do("XADD s 8-1 f v")
    old.do("XADD s 3-1 f late")
    words = ["export", old.url, "--node", region.url, "--continue", "--cut-over"]
    done = move(*words)
    assert done.returncode == 1
    assert "does not have: 3-1." in done.stderr
    assert old.client.xrange("s", count=1)[0][0] == b"3-1"


def test_a_key_of_another_type_is_no_earlier_copy(old: Server, region: Server) -> None:
    region.do("XADD s 1-1 f v")
    old.do("SET s v")
    done = move("export", old.url, "--node", region.url, "--continue")
    assert done.returncode == 1
    assert "s is a stream at " in done.stderr
    assert "and a string at " in done.stderr
    assert seen(old) == {b"s": (b"v", False)}


def test_deletions_are_repaired_in_rounds_and_counted(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = old.database(1)
    for number in range(1, 21):
        old.do(f"XADD s {number}-1 f v")
    assert move("import", old.url, "--node", target.url).returncode == 0
    old.do("XDEL s " + " ".join(f"{number}-1" for number in range(2, 20, 2)))
    monkeypatch.setattr(checking, "DELETED_MAX", 2)
    outcome = cut_over(old, target)
    assert outcome.is_equal
    assert outcome.deleted == 9
    assert seen(target) == seen(old)
