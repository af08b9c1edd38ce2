"""Keys and entries: bounded pieces, nothing left out between two pages."""

import asyncio
import itertools
import re
from html import escape
from typing import Any

import pytest

from crdtstream.access.rights import UNLIMITED
from crdtstream.commands.reply import RespMap
from crdtstream.console import app, bounded_reading, pending
from crdtstream.console.bounded_reading import (
    EntryPage,
    KeyPage,
    group_facts,
    plain,
    read_entries,
    read_entry,
    read_keys,
    stream_facts,
)
from crdtstream.console.layout import TABS
from crdtstream.console.pending import ConsumerFacts, read_consumers
from crdtstream.core.ids import ID_MAX, Millis, RegionId, StreamId, format_id
from crdtstream.core.replica import Replica
from crdtstream.v1 import admin_pb2 as pb
from tests.console.shown import Shown
from tests.harness.regions import nodes_of, sync

NOW = Millis(1_000)
R1, R2 = RegionId(1), RegionId(2)


def two_lanes() -> Replica:
    """Region 1 with entries of regions 1 and 2 in one stream, some of which have the same ID."""
    here, other = nodes_of(1, 2)
    for node in (here, other):
        node.run(*(f"XADD s {at}-0 field value" for at in range(1, 8)))
    sync(here, other)
    return here.replica


async def pages_of(replica: Replica, *, pattern: bytes = b"") -> list[KeyPage]:
    found = [await read_keys(replica, UNLIMITED, cursor=0, pattern=pattern, now=NOW)]
    while found[-1].cursor:
        found.append(
            await read_keys(replica, UNLIMITED, cursor=found[-1].cursor, pattern=pattern, now=NOW)
        )
    return found


async def test_pages_of_keys_have_every_stream_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading.KEYS_SHOWN, "value", 10)
    shown = Shown()
    for at in range(100):
        shown.driven.ask("XADD", f"stream:{at}", "*", "f", "v")
    shown.driven.ask("SET", "a string", "v")
    pages = await pages_of(shown.replica)
    keys = [one.key for page in pages for one in page.streams]
    assert sorted(keys) == sorted(b"stream:%d" % at for at in range(100))
    assert len(pages) > 1


async def test_a_search_looks_at_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading.KEYS_LOOKED_AT, "value", 64)
    shown = Shown()
    for at in range(300):
        shown.driven.ask("XADD", f"stream:{at}", "*", "f", "v")
    pages = await pages_of(shown.replica, pattern=b"stream:29[9]")
    assert [one.key for page in pages for one in page.streams] == [b"stream:299"]
    assert len(pages) > 2
    # A look at the keyspace returns a few more than it was asked for.
    assert max(page.looked_at for page in pages) < 64 + 2 * bounded_reading.KEYS_AT_ONCE


async def test_a_key_itself_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reading.KEYS_LOOKED_AT, "value", 64)
    shown = Shown()
    for at in range(300):
        shown.driven.ask("XADD", f"stream:{at}", "*", "f", "v")
    (page,) = await pages_of(shown.replica, pattern=b"stream:299")
    assert [one.key for one in page.streams] == [b"stream:299"]
    (page,) = await pages_of(shown.replica, pattern=b"stream:300")
    assert page == KeyPage([], 0, 1, 0)


def test_pages_of_entries_have_every_entry_once_the_newest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = two_lanes()
    stream = replica.stream(b"s")
    assert stream is not None
    wanted = [(entry_id, origin) for entry_id, origin, _, _ in stream.scan_back()]
    assert len(wanted) == 14
    for size in (1, 2, 3, 5, 14, 20):
        monkeypatch.setattr(bounded_reading.ENTRIES_SHOWN, "value", size)
        found: list[tuple[StreamId, RegionId]] = []
        up_to: StreamId | None = ID_MAX
        while up_to is not None and len(found) <= len(wanted):
            page: EntryPage = read_entries(stream, up_to=up_to)
            found += [(one.id, one.origin) for one in page.entries]
            up_to = page.next_id
        assert found == wanted


@pytest.mark.parametrize(
    ("arguments", "shown", "left_out"),
    [
        (["f", "v"], [(b"f", b"v")], 0),
        (["", ""], [(b"", b"")], 0),
        (["f", "v" * 300], [(b"f", b"v" * 200 + "…".encode())], 0),
        # Only the beginning of the second value is among the bytes that are looked at.
        (
            ["f", "v" * ((64 << 10) - 60), "g", "w" * 150],
            [(b"f", b"v" * 200 + "…".encode()), (b"g", b"w" * 26 + "…".encode())],
            0,
        ),
        (["f", "v" * (1 << 17), "g", "w"], [(b"f", b"v" * 200 + "…".encode())], 1),
        (
            list(itertools.chain.from_iterable((f"f{at}", "v") for at in range(20))),
            [(b"f%d" % at, b"v") for at in range(8)],
            12,
        ),
    ],
)
def test_fields_are_cut(
    arguments: list[str], shown: list[tuple[bytes, bytes]], left_out: int
) -> None:
    region = Shown()
    region.driven.ask("XADD", "s", "*", *arguments)
    stream = region.replica.stream(b"s")
    assert stream is not None
    (entry,) = read_entries(stream, up_to=ID_MAX).entries
    assert entry.fields == shown
    assert entry.fields_left_out == left_out


def test_an_entry_alone_is_shown_with_many_more_fields() -> None:
    region = Shown()
    arguments = itertools.chain.from_iterable((f"f{at}", "v" * 500) for at in range(300))
    region.driven.ask("XADD", "s", "*", *arguments)
    stream = region.replica.stream(b"s")
    assert stream is not None
    (entry,) = read_entry(stream, stream.last_entry_id)
    assert entry.fields == [(b"f%d" % at, b"v" * 500) for at in range(256)]
    assert entry.fields_left_out == 44
    assert read_entry(stream, StreamId(stream.last_entry_id + 1)) == []


def test_a_lane_has_its_own_figures_and_rate() -> None:
    shown = Shown()
    for at in range(10):
        shown.driven.clock = 1_000 + 100 * at
        shown.driven.ask("XADD", "s", "*", "f", "v")
    stream = shown.replica.stream(b"s")
    assert stream is not None
    (lane,) = stream_facts(b"s", stream, Millis(2_000)).lanes
    assert (lane.region, lane.length, lane.added) == (R1, 10, 10)
    assert lane.rate == 10
    # Nothing came for 8 s more: it has fallen by itself.
    assert stream_facts(b"s", stream, Millis(11_000)).rate == 1


def test_a_rate_needs_ids_that_are_times() -> None:
    replica = two_lanes()
    stream = replica.stream(b"s")
    assert stream is not None
    assert stream_facts(b"s", stream, Millis(0)).rate is None


def test_a_group_has_its_progress_in_each_lane() -> None:
    shown = Shown()
    ids = [shown.driven.ask("XADD", "s", "*", "f", str(at)) for at in range(4)]
    shown.driven.ask("XGROUP", "CREATE", "s", "g", "0")
    shown.driven.ask("XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">")
    first = ids[0]
    assert isinstance(first, bytes)
    shown.driven.ask("XACK", "s", "g", first.decode())
    stream = shown.replica.stream(b"s")
    assert stream is not None
    (group,) = group_facts(shown.replica.region, stream)
    (lane,) = group.lanes
    assert format_id(lane.delivered) == ids[2]
    assert format_id(lane.frontier) == first
    assert lane.pending == 2
    assert (group.undelivered, group.pending, group.consumers) == (1, 2, 1)


def test_consumers_are_ordered_by_what_is_pending_and_how_long_they_did_not_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (node,) = nodes_of(1)
    node.run("XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 0")
    node.now = Millis(10_000)
    node.run("XREADGROUP GROUP g idle STREAMS s 0", "XREADGROUP GROUP g busy COUNT 1 STREAMS s >")
    node.run("XREADGROUP GROUP g alone STREAMS s 0")
    node.now = Millis(70_000)
    node.run("XREADGROUP GROUP g late STREAMS s 0")
    stream = node.replica.stream(b"s")
    assert stream is not None
    group, now = stream.groups[b"g"], Millis(100_000)
    assert read_consumers(group, now) == [
        ConsumerFacts(b"busy", 1, 90_000, 90_000),
        ConsumerFacts(b"alone", 0, 90_000, None),
        ConsumerFacts(b"idle", 0, 90_000, None),
        ConsumerFacts(b"late", 0, 30_000, None),
    ]
    monkeypatch.setattr(pending.CONSUMERS_SHOWN, "value", 1)
    assert [one.name for one in read_consumers(group, now)] == [b"busy"]


def test_a_map_in_a_reply_is_a_dictionary() -> None:
    assert plain([RespMap([(b"a", RespMap([(b"b", 1)]))]), b"c"]) == [{"a": {"b": 1}}, b"c"]


# --- Pages ----------------------------------------------------------------------------------------


async def test_names_that_are_markup_are_shown_as_text() -> None:
    shown = Shown()
    key = "<script>alert(1)</script>\u202e\"'"
    shown.driven.ask("XADD", key, "*", "<b>field", "<img src=x onerror=alert(1)>")
    shown.driven.ask("XGROUP", "CREATE", key, "<i>group", "0")
    pages: list[tuple[str, dict[str, str | bytes]]] = [
        ("/console/streams", {}),
        ("/console/streams", {"pattern": "<script>*"}),
        ("/console/stream", {"key": key}),
        ("/console/entry", {"key": key, "id": "1000-1"}),
    ]
    for path, query in pages:
        answer = await shown.get(path, query=query)
        assert answer.status == 200
        assert "alert(1)" in answer.text
        for markup in ("<script>", "<b>field", "<img", "<i>group", "\u202e"):
            assert markup not in answer.text


@pytest.mark.parametrize(
    ("path", "query", "status", "words"),
    [
        ("/console/stream", {"key": "missing"}, 404, "no stream with this key"),
        ("/console/stream", {}, 404, "no stream with this key"),
        ("/console/stream", {"key": "s", "up_to": "x"}, 400, "two numbers with a dash"),
        ("/console/stream", {"key": "s", "at": "yesterday"}, 400, "2026-11-28 18:30"),
        ("/console/stream", {"key": "s", "at": "1969-12-31 23:59"}, 400, "2026-11-28 18:30"),
        ("/console/stream", {"key": "s", "at": "9" * 20}, 400, "2026-11-28 18:30"),
        ("/console/stream", {"key": "s", "at": "\xff"}, 400, "2026-11-28 18:30"),
        ("/console/stream", {"kex": "s"}, 400, "Follow the links"),
        ("/console/stream", {"key": "k" * 9_000}, 414, "redis-cli"),
        ("/console/entry", {"key": "s", "id": ""}, 400, "two numbers with a dash"),
        ("/console/entry", {"key": "missing", "id": "1-1"}, 404, "no stream with this key"),
        ("/console/entry", {"key": "s", "id": "7-7"}, 200, "has no entry with this ID"),
        ("/console/streams", {"cursor": "-1"}, 400, "first page"),
        ("/console/streams", {"cursor": "9" * 30}, 400, "first page"),
        ("/console/streams", {"pattern": "p" * 257}, 400, "at most 256"),
        ("/console/streams", {"pattern": "nothing*"}, 200, "No stream matches"),
        ("/console/nowhere", {}, 404, "Begin at the overview"),
    ],
)
async def test_a_page_that_cannot_be_shown_says_what_to_do(
    path: str, query: dict[str, str | bytes], status: int, words: str
) -> None:
    shown = Shown()
    shown.driven.ask("XADD", "s", "*", "f", "v")
    answer = await shown.get(path, query=query)
    assert answer.status == status
    assert words in answer.text
    # No page is a dead end.
    for one in TABS:
        assert f'href="{one.path}"' in answer.text


@pytest.mark.parametrize(
    "at",
    ["2026-11-28 18:30", "2026-11-28T18:30:00Z", "2026-11-28 19:30:00+01:00", "1795890600000"],
)
async def test_a_time_leads_to_the_entries_up_to_it(at: str) -> None:
    shown = Shown()
    for clock in (1795890599999, 1795890600000, 1795890600001):
        shown.driven.clock = clock
        shown.driven.ask("XADD", "s", "*", "f", "v")
    text = (await shown.get("/console/stream", query={"key": "s", "at": at})).text
    assert "1795890600000-1</a>" in text
    assert "1795890599999-1</a>" in text
    assert "1795890600001-1</a>" not in text
    assert f'value="{escape(at)}"' in text


async def test_a_time_is_asked_for_where_a_form_can_send_the_key() -> None:
    shown = Shown()
    for key, is_asked in (("s", True), ("\udcff", False)):
        shown.driven.ask("XADD", key, "*", "f", "v")
        query: dict[str, str | bytes] = {"key": key.encode(errors="surrogateescape")}
        text = (await shown.get("/console/stream", query=query)).text
        assert ('name="at"' in text) == is_asked


@pytest.mark.parametrize(("cut", "says"), [(1, "1 effect counts"), (2, "2 effects count")])
async def test_a_removed_region_says_how_many_effects_count(cut: int, says: str) -> None:
    shown = Shown()
    lost = shown.members.members[2]
    lost.status, lost.changed_epoch, lost.cut = pb.MemberStatus.Status.REMOVED, 2, cut
    assert f"removed in epoch 2; {says}" in (await shown.get("/console/members")).text


async def test_an_empty_database_says_how_to_begin() -> None:
    answer = await Shown().get("/console/streams")
    assert "There are no streams yet" in answer.text


async def test_an_entry_has_its_state_in_each_group() -> None:
    shown = Shown()
    entry_id = shown.driven.ask("XADD", "s", "*", "f", "v")
    assert isinstance(entry_id, bytes)
    shown.driven.ask("XGROUP", "CREATE", "s", "reads", "0")
    shown.driven.ask("XGROUP", "CREATE", "s", "waits", "0")
    shown.driven.ask("XREADGROUP", "GROUP", "reads", "worker", "STREAMS", "s", ">")
    answer = await shown.get("/console/entry", query={"key": "s", "id": entry_id})
    assert "delivered here and not acknowledged" in answer.text
    assert "consumer worker, delivered 1 time" in answer.text
    assert "not delivered yet" in answer.text


@pytest.mark.parametrize("path", ["/", "/console/members", "/console/node"])
async def test_every_cell_of_a_page_has_a_text(path: str) -> None:
    shown = Shown()
    text = (await shown.get(path)).text
    view = await shown.feed.view()
    cells = set(re.findall(r'data-cell="([^"]+)"', text))
    states = set(re.findall(r'data-state-of="([^"]+)"', text))
    curves = set(re.findall(r'data-curve="([^"]+)"', text))
    assert cells
    assert cells | states <= view.cells.keys()
    assert curves <= view.curves.keys()


@pytest.mark.parametrize("path", ["/", "/console/streams", "/console/members", "/console/node"])
async def test_no_page_has_styles_or_scripts_in_it(path: str) -> None:
    text = (await Shown().get(path)).text
    assert not re.search(r"<style|<script(?! src=\"/console/static/)|\son\w+=|\sstyle=", text)
    assert not re.search(r"(?:src|href|action)=\"(?!/|#)", text)


# --- Searches -------------------------------------------------------------------------------------


async def test_a_search_ends_in_time_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_reading.SEARCH_NS_MAX, "value", 1)
    shown = Shown()
    keys = {f"key:{at}".encode() for at in range(200)}
    for key in keys:
        shown.driven.ask("XADD", key.decode(), "*", "f", "v")
    found: set[bytes] = set()
    pages = cursor = 0
    while not pages or cursor:
        page = await read_keys(
            shown.replica, UNLIMITED, cursor=cursor, pattern=b"key:*", now=Millis(0)
        )
        found |= {one.key for one in page.streams}
        cursor = page.cursor
        pages += 1
    assert found == keys
    none = await read_keys(shown.replica, UNLIMITED, cursor=0, pattern=b"none*", now=Millis(0))
    assert none.cursor
    assert none.looked_at < len(keys)


async def test_one_search_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    running = most = 0

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        try:
            return await read_keys(*args, **options)
        finally:
            running -= 1

    monkeypatch.setattr(app, "read_keys", counted)
    shown = Shown()
    answers = await asyncio.gather(
        *(shown.get("/console/streams", query={"pattern": f"a{at}*"}) for at in range(5))
    )
    assert {answer.status for answer in answers} == {200}
    assert most == 1


async def test_a_stream_that_is_deleted_while_its_page_is_made_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not one that the viewer may not read."""
    shown = Shown()
    shown.driven.ask("XADD", "s", "*", "f", "v")
    read = shown.parts.engine.read

    async def deleting(call: Any) -> Any:
        shown.driven.ask("DEL", "s")
        return await read(call)

    monkeypatch.setattr(shown.parts.engine, "read", deleting)
    answer = await shown.get("/console/stream", query={"key": "s"})
    assert answer.status == 404
    assert "No such stream" in answer.text
