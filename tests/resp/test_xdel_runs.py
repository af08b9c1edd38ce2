"""Runs of XDELs are the commands that they are made of: nobody can tell them from single ones.

As with runs of XADDs, two regions get the same requests, one of them each command by itself.  They
differ in one thing: one effect of a run stands for those of its commands, so that the effects
behind it have lower numbers.
"""

import asyncio
import random
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.streams.xdel_run import XdelRun, xdel_run
from crdtstream.core.id_columns import IdColumns
from crdtstream.core.ids import IdMode, format_id, make_id
from crdtstream.database.database import BATCH_BYTES_TARGET
from crdtstream.resp.wire.id_runs import with_id_runs
from crdtstream.resp.wire.parser import RequestLimits, RequestParser
from tests.conftest import examples
from tests.harness.checkpoints import Checkpoints
from tests.harness.regions import Node, sync
from tests.resp.node import request
from tests.resp.test_xack_runs import id_of
from tests.resp.test_xack_runs import pending as pending_of
from tests.resp.test_xadd_runs import Side, Step, both_do, calls_of, lines

ENTRIES = 12
IDS_MAX = ENTRIES + 3


def check_same(steps: Sequence[Step]) -> int:
    """The two sides cannot be told apart; returns how many runs of XDELs there were."""
    piped, single = both_do(steps)
    assert single.database.runs.xdels_called == 0
    left, right = seen_of(piped), seen_of(single)
    for name, found in left.items():
        assert found == right[name], name
    return piped.database.runs.xdels_called


def seen_of(side: Side) -> dict[str, object]:
    state = side.state()
    for numbered in ("records", "vv", "digest", "nodes", "sessions"):
        del state[numbered]
    replica = side.region.replica
    state["entries"] = [
        (
            key,
            [(one, lane, bytes(node.fields_at(at))) for one, lane, node, at in stream.scan()],
        )
        for key in sorted(replica)
        if (stream := replica.stream(key)) is not None
    ]
    state["streams"] = [
        (
            key,
            stream.last_id,
            stream.length,
            [lane.max_deleted_id for lane in stream.lanes.values()],
        )
        for key in sorted(replica)
        if (stream := replica.stream(key)) is not None
    ]
    state["pending"] = pending_of(side)
    return state


@st.composite
def runs_of_xdels(draw: st.DrawFn) -> list[bytes]:
    name = draw(st.sampled_from([b"XDEL", b"XDEL", b"xdel", b"Xdel"]))
    key = draw(st.sampled_from([b"s", b"s", b"s", b"t", b"none"]))
    numbers = st.integers(1, IDS_MAX).map(id_of)
    odd = st.sampled_from([b"1003", b"01004-1", b"-", b"5-1-1", b"18446744073709551616-1", b""])
    ids = draw(st.lists(st.one_of(*[numbers] * 12, odd), min_size=1, max_size=12))
    return [request(name, key, one) for one in ids]


LINES = [
    "XADD s * f v",
    "XREADGROUP GROUP g c COUNT 4 STREAMS s >",
    "XREADGROUP GROUP g c BLOCK 50 CLAIM 5 STREAMS s >",
    "XREAD BLOCK 0 STREAMS s $",
    "XREAD BLOCK 0 STREAMS t 1000-1",
    "XRANGE s - +",
    "XLEN s",
    "XDEL s 1002-1 1003-1",
    "XACK s g 1000-1 1001-1",
    "XTRIM s MAXLEN 5",
    "XSETID s 9999-1",
    "DEL s",
    "SET s string",
    "PEXPIRE s 3",
    "MULTI",
    "EXEC",
    "WATCH s",
    "CLIENT REPLY OFF",
    "CLIENT REPLY ON",
    "CLIENT PAUSE 1000000 WRITE",
    "CLIENT UNPAUSE",
    "MONITOR",
    "SUBSCRIBE channel",
    "CONFIG SET slowlog-log-slower-than 0",
    "INFO commandstats",
    "QUIT",
]
REQUESTS = st.one_of(*[runs_of_xdels()] * 3, st.sampled_from(LINES).map(lambda line: lines(line)))


@st.composite
def steps(draw: st.DrawFn) -> Step:
    requests = [*chain.from_iterable(draw(st.lists(REQUESTS, min_size=1, max_size=6)))]
    cuts = draw(st.lists(st.integers(1, sum(map(len, requests))), max_size=3))
    return Step(
        draw(st.integers(0, 3)),
        requests,
        sorted(cuts),
        draw(st.sampled_from([0, 0, 1, 5, 60])),
        draw(st.booleans()),
    )


def beginning() -> list[Step]:
    """Two streams with a group; some of one stream is pending."""
    adds = [Step(3, lines("XADD s * f v", "XADD t * f v"), ms=1)] * ENTRIES
    others = ["XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 6 STREAMS s >"]
    return [*adds, *[Step(3, lines(line)) for line in others]]


@settings(max_examples=examples(200))
@given(st.lists(steps(), min_size=1, max_size=6))
def test_nobody_can_tell_a_run_from_its_commands(steps: list[Step]) -> None:
    check_same([*beginning(), *steps])


def pipeline(*numbers: int, key: str = "s") -> list[bytes]:
    return lines(*[f"XDEL {key} {id_of(number).decode()}" for number in numbers])


@pytest.mark.parametrize("seed", range(20))
def test_random_pipelines_remove_what_single_commands_do(seed: int) -> None:
    draw = random.Random(seed)
    numbers = [draw.randrange(1, IDS_MAX + 1) for _ in range(draw.randrange(2, 30))]
    assert check_same([*beginning(), Step(0, pipeline(*numbers))]) == 1


# Before the pipeline of client 0: what others and itself have sent; and how many runs it then is.
HAPPENED: dict[str, tuple[list[tuple[int, str]], int]] = {
    "nothing": ([], 1),
    "the stream is gone": ([(1, "DEL s")], 0),
    "a string": ([(1, "DEL s"), (1, "SET s string")], 0),
    "the stream has ended": ([(1, "PEXPIRE s 5")], 0),
    "a transaction": ([(0, "MULTI")], 0),
    "somebody waits": ([(2, "XREAD BLOCK 0 STREAMS s $")], 0),
    "somebody watches": ([(2, "WATCH s")], 0),
    "somebody watches another key": ([(2, "WATCH t")], 1),
    "MONITOR": ([(2, "MONITOR")], 0),
    "a low SLOWLOG": ([(2, "CONFIG SET slowlog-log-slower-than 0")], 0),
    "no replies": ([(0, "CLIENT REPLY OFF")], 0),
    "a pause": ([(2, "CLIENT PAUSE 100000 WRITE")], 0),
    "subscribed": ([(0, "SUBSCRIBE channel")], 0),
}


@pytest.mark.parametrize("happened", HAPPENED)
def test_what_stops_a_run(happened: str) -> None:
    before, runs = HAPPENED[happened]
    steps = [*beginning(), *[Step(client, lines(text), ms=1) for client, text in before]]
    steps += [Step(3, lines("PING"), ms=10), Step(0, pipeline(*range(1, 9)))]
    steps += [Step(2, lines("MULTI", "EXEC"))]
    assert check_same(steps) == runs


async def begun() -> Side:
    side = Side()
    for step in beginning():
        side.send(step.client, b"".join(step.requests))
        await side.end_tick()
        await side.pass_time(step.ms)
    return side


def test_entries_on_disk_only_stop_a_run() -> None:
    async def runs_called() -> int:
        side = await begun()
        replica, checkpoints = side.region.replica, Checkpoints()
        checkpoints.begin(replica, len(side.records))
        checkpoints.finish(replica)
        replica.residency.drop_all()
        assert replica.residency.absent_count
        side.send(0, b"".join(pipeline(*range(1, 9))))
        return side.database.runs.xdels_called

    assert asyncio.run(runs_called()) == 0


def test_a_run_that_the_batch_has_no_room_for_is_called_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def runs_called() -> int:
        side = await begun()
        side.send(0, b"".join(pipeline(1, 2)))
        assert side.database.runs.xdels_called == 1
        monkeypatch.setattr(BATCH_BYTES_TARGET, "value", 1)
        side.send(0, b"".join(pipeline(*range(3, 11))))
        await side.end_tick()
        assert side.wires[0].got == b":1\r\n" * 10
        return side.database.runs.xdels_called

    assert asyncio.run(runs_called()) == 1


def test_a_run_is_not_longer_than_what_others_can_wait_for() -> None:
    requests = [[b"XDEL", b"s", b"%d-1" % n] for n in range(257)]
    *runs, last = with_id_runs(requests)
    assert [len(run) for run in runs] == [128, 128]
    assert last == requests[-1]


def test_an_id_that_is_named_twice_is_removed_once() -> None:
    async def replies() -> bytes:
        side = await begun()
        side.send(0, b"".join(pipeline(2, 1, 2, 40, 1)))
        await side.end_tick()
        assert side.database.runs.xdels_called == 1
        return side.wires[0].got

    assert asyncio.run(replies()) == b":1\r\n:1\r\n:0\r\n:0\r\n:0\r\n"


def test_a_run_is_one_effect_whatever_the_order() -> None:
    async def issued() -> int:
        side = await begun()
        before = side.region.replica.issued
        side.send(0, b"".join(pipeline(9, 2, 7, 1, 12)))
        await side.end_tick()
        return side.region.replica.issued - before

    assert asyncio.run(issued()) == 1


def test_an_id_of_several_lanes_goes_in_all_of_them() -> None:
    nodes = r1, r2 = Node(1), Node(2)
    for node in nodes:
        node.replica.id_mode = IdMode.LIBERAL
    r1.run("XADD x 5-1 f v", "XADD x 6-1 f v")
    r2.run("XADD x 5-1 f v")
    sync(*nodes)
    texts = [b"6-1", b"5-1", b"7-1", b"5-1"]
    ids = IdColumns.of([make_id(ms, 1) for ms in (6, 5, 7, 5)])
    run = XdelRun(b"XDEL", b"x", texts, ids)
    assert xdel_run(r1.replica, run) == b":1\r\n:2\r\n:0\r\n:0\r\n"
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [[]] * 2
    assert r1.digest == r2.digest


def in_runs(sent: list[bytes]) -> list[int]:
    """How many commands each run has that is found in these bytes."""
    found = list(RequestParser(RequestLimits()).parse(b"".join(sent)))
    return [len(one) for one in found if isinstance(one, XdelRun)]


@pytest.mark.parametrize(
    ("sent", "runs"),
    [
        (pipeline(1), []),
        (pipeline(2, 1), [2]),
        ([*lines("PING"), *pipeline(1, 2), *lines("PING"), *pipeline(3, 4, 5)], [2, 3]),
        ([*pipeline(1, 2), *pipeline(3, 4, key="t")], [2, 2]),
        (lines("XDEL s 1-1 2-1", "XDEL s 1-1 3-1"), []),
        (lines("XDEL s 1-1", "XDEL s x"), []),
        (lines("XDEL s", "XDEL t"), []),
        (lines("XACK s g 1-1", "XACK s g 2-1"), []),
    ],
)
def test_what_is_a_run(sent: list[bytes], runs: list[int]) -> None:
    assert in_runs(sent) == runs


@settings(max_examples=examples(200))
@given(
    st.lists(st.lists(st.sampled_from([b"XACK", b"XDEL", b"s", b"g", b"1-1", b"2-1"]), min_size=1))
)
def test_runs_have_all_requests_in_their_order(requests: list[list[bytes]]) -> None:
    found: list[list[bytes]] = []
    for one in with_id_runs(requests):
        if isinstance(one, list):
            found.append(one)
        else:
            commands = list(one.requests())
            if isinstance(one, XdelRun):
                assert commands[1:] == list(one.behind(1).requests())
            found += commands
    assert found == requests


def test_an_xdel_in_a_pipeline_calls_hardly_anything() -> None:
    """Counts, not times; two of each are hiredis's."""
    side = Side()
    side.send(1, b"".join(lines(*["XADD s * f v"] * 200)))
    side.region.ready(side.engine.now())
    stream = side.region.replica.stream(b"s")
    assert stream is not None
    ids = [format_id(entry_id).decode() for entry_id, _, _, _ in stream.scan()]
    sent = b"".join(lines(*[f"XDEL s {one}" for one in ids[:100]]))
    assert calls_of(lambda: side.send(0, sent)) < 8 * 100
    assert side.database.runs.xdels_called == 1
    assert stream.length == 100
