"""A check finds every difference; both ends are databases of one Redis."""

import asyncio
from collections.abc import Callable

import pytest

from crdtstream.move import moving
from crdtstream.move.address import parse_address
from crdtstream.move.checking import StreamCheck, check_stream
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError
from crdtstream.move.moving import Move, Outcome
from crdtstream.move.streams import set_last_id
from crdtstream.move.strings import differing_strings
from crdtstream.move.survey import Selection
from tests.move.ends import Server, Silent, move, seen

SETUP = (
    *("XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v g w", "XADD s 4-1 f v", "XDEL s 1-1"),
    *("XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 2 STREAMS s >"),
    "XGROUP CREATECONSUMER s g idle",
)


def checked(source: Server, target: Server) -> StreamCheck:
    async def check() -> StreamCheck:
        ends = Ends(parse_address(source.url), parse_address(target.url), retry_seconds=0)
        await ends.greet()
        try:
            return await ends.work(lambda pair: check_stream(ends, pair, b"s"))
        finally:
            ends.close()

    return asyncio.run(check())


def test_equal_streams_have_no_differences(old: Server) -> None:
    old.do(*SETUP)
    target = old.database(1)
    assert move("import", old.url, "--node", target.url, "--cut-over").returncode == 0
    check = checked(old, target)
    assert check.differences == []
    assert (check.groups, check.pending) == (1, 2)
    assert check.source.digest == check.target.digest
    assert (check.source.entries, check.source.first, check.source.last) == (3, "2-1", "4-1")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("XDEL s 3-1", "3-1 is at the source only"),
        ("XADD s 5-1 f v", "5-1 is at the target only (1 such entries)"),
        ("XSETID s 9-9", "last-generated ID 4-1 at the source, 9-9 at the target"),
        ("XSETID s 4-1 ENTRIESADDED 9 MAXDELETEDID 1-1", "entries-added 4 and 9"),
        ("PEXPIRE s 100000", "it expires at another time"),
        ("DEL s", "the target does not have the key"),
        ("XGROUP DESTROY s g", "group g is missing at the target"),
        ("XGROUP CREATE s h 0", "group h is at the target only"),
        ("XGROUP SETID s g 4-1", "group g: last-delivered 3-1 at the source, 4-1 at the target"),
        ("XGROUP SETID s g 3-1 ENTRIESREAD 1", "group g: entries-read 3 and 1"),
        ("XGROUP DELCONSUMER s g idle", "group g: 1 consumers are missing at the target"),
        ("XACK s g 2-1", "group g: 2-1 is pending at one end only"),
        ("XACK s g 3-1", "group g: 3-1 is pending at one end only"),
        ("XREADGROUP GROUP g c STREAMS s >", "group g: 4-1 is pending at the target only"),
        ("XCLAIM s g idle 0 2-1 RETRYCOUNT 1 LASTID 3-1", "2-1 has another consumer or delivery"),
        ("XCLAIM s g c 0 2-1 RETRYCOUNT 5", "2-1 has another consumer or delivery count"),
        ("XCLAIM s g c 0 2-1 RETRYCOUNT 1 IDLE 90000", "2-1 was delivered at another time"),
    ],
)
def test_a_difference_is_found_and_named(old: Server, damage: str, text: str) -> None:
    old.do(*SETUP)
    target = old.database(1)
    assert move("import", old.url, "--node", target.url, "--cut-over").returncode == 0
    client = target.client
    # redis-py reads some replies in its own way, which is of no use here.
    client.response_callbacks.clear()
    client.execute_command(*damage.split())
    check = checked(old, target)
    assert any(text in one for one in check.differences), check.differences


@pytest.mark.parametrize("fields", ["f other g w", "g w f v", "f vg w x", "f v g w h x"])
def test_other_fields_are_found_and_named(old: Server, fields: str) -> None:
    """In another order they are others, too."""
    target = old.database(1)
    old.do("XADD s 3-1 f v g w")
    target.client.execute_command("XADD", "s", "3-1", *fields.split())
    check = checked(old, target)
    assert check.differences == ["3-1 has other fields at the target"]


class _Acting:
    """A watcher that does something whenever it is shown something."""

    def __init__(self, act: Callable[[], object], said: list[str]) -> None:
        self._act = act
        self._said = said

    def show(self, what: str, done: int, total: int) -> None:
        self._act()

    def say(self, text: str) -> None:
        self._said.append(text)


@pytest.mark.parametrize(
    "write",
    [
        "XADD s * f v",
        "XDEL s 2-1",
        "XACK s g 2-1",
        "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
        "SET new v",
        "DEL t",
    ],
)
def test_a_source_that_is_written_to_during_the_check_is_not_given_up(
    old: Server, write: str
) -> None:
    """Nor is a new entry taken for one that came late, for which the stream is copied again."""
    old.do(*SETUP, "SET t v")
    target = old.database(1)
    said: list[str] = []

    async def run() -> Outcome:
        ends = Ends(parse_address(old.url), parse_address(target.url), retry_seconds=0)
        move = Move(ends, Selection(), _Acting(lambda: old.do(write), said))
        try:
            await move.begin()
            return await move.cut_over(stop_writes=False)
        finally:
            ends.close()

    assert not asyncio.run(run()).is_equal
    assert said == []
    assert move("import", old.url, "--node", target.url, "--cut-over").returncode == 0
    assert seen(target) == seen(old)


class _Late(Silent):
    """A watcher that writes when a stream has been compared."""

    def __init__(self, server: Server, write: str) -> None:
        self._server = server
        self._write = write

    def show(self, what: str, done: int, total: int) -> None:
        if what == moving.CHECKED:
            self._server.do(self._write)


@pytest.mark.parametrize("write", ["XCLAIM s g idle 0 2-1", "PEXPIRE s 100000"])
def test_a_stream_that_changes_after_its_comparison_is_noticed(old: Server, write: str) -> None:
    """Facts and groups, as XINFO shows them, are the same as before."""
    old.do(*SETUP)
    target = old.database(1)

    async def run() -> Outcome:
        ends = Ends(parse_address(old.url), parse_address(target.url), retry_seconds=0)
        move = Move(ends, Selection(), _Late(old, write))
        try:
            await move.begin()
            return await move.cut_over(stop_writes=False)
        finally:
            ends.close()

    outcome = asyncio.run(run())
    assert [one.differences for one in outcome.streams] == [[]]
    assert outcome.written_meanwhile == [b"s"]


def test_a_string_that_is_set_after_its_comparison_is_noticed(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.do("SET t v")
    target = old.database(1)
    comparing = differing_strings

    async def compare_and_set(pair: Pair, keys: list[bytes]) -> list[bytes]:
        found = await comparing(pair, keys)
        old.do("SET t other")
        return found

    monkeypatch.setattr(moving, "differing_strings", compare_and_set)

    async def run() -> Outcome:
        ends = Ends(parse_address(old.url), parse_address(target.url), retry_seconds=0)
        move = Move(ends, Selection(), Silent())
        try:
            await move.begin()
            return await move.cut_over(stop_writes=False)
        finally:
            ends.close()

    outcome = asyncio.run(run())
    assert outcome.differing_strings == []
    assert outcome.written_meanwhile == [b"t"]


def test_groups_that_read_at_the_target_are_warned_about(old: Server) -> None:
    """Before the cut-over they are to read at the source only."""
    old.do(*SETUP)
    target = old.database(1)
    words = ["import", old.url, "--node", target.url]
    assert "have read at the target" not in move(*words).stderr
    target.do("XREADGROUP GROUP g c STREAMS s >")
    done = move(*words, "--cut-over")
    assert done.returncode == 0, done.stderr
    assert "s: groups have read at the target already (g)" in done.stderr
    assert seen(target) == seen(old)


def test_a_last_id_is_not_set_above_entries_that_are_still_to_be_copied(old: Server) -> None:
    """Else they would be below the target's last ID, and could not be added any more."""
    old.do(*SETUP)
    target = old.database(1)
    words = ["import", old.url, "--node", target.url]
    assert move(*words).returncode == 0
    old.do("XADD s 9-1 f v")

    async def set_it() -> None:
        ends = Ends(parse_address(old.url), parse_address(target.url), retry_seconds=0)
        try:
            await ends.work(lambda pair: set_last_id(pair, b"s", with_counters=True))
        finally:
            ends.close()

    asyncio.run(set_it())
    assert target.client.xinfo_stream("s")["last-generated-id"] == b"4-1"
    done = move(*words, "--cut-over")
    assert done.returncode == 0
    assert "copied again" not in done.stderr
    assert seen(target) == seen(old)


def test_a_cut_over_repairs_what_it_may_and_says_so(old: Server) -> None:
    """Entries that are missing at the target, or changed there, are copied again."""
    old.do(*SETUP)
    target = old.database(1)
    words = ["import", old.url, "--node", target.url]
    assert move(*words).returncode == 0
    target.do("XDEL s 3-1")
    done = move(*words, "--cut-over")
    assert done.returncode == 0
    assert "it is copied again" in done.stderr
    assert seen(target) == seen(old)


def test_source_and_target_must_be_two(old: Server) -> None:
    async def begin() -> None:
        address = parse_address(old.url)
        ends = Ends(address, address, retry_seconds=0)
        try:
            await Move(ends, Selection(), _Acting(lambda: None, [])).begin()
        finally:
            ends.close()

    with pytest.raises(MoveError, match="the same server"):
        asyncio.run(begin())
