"""Runs of XACKs are the commands that they are made of: nobody can tell them from single ones.

As with runs of XADDs, two regions get the same requests, one of them each command by itself.
"""

import asyncio
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.groups.xack_run import XackRun
from crdtstream.core.ids import format_id
from crdtstream.resp.wire.id_runs import with_id_runs
from crdtstream.resp.wire.parser import RequestLimits, RequestParser
from tests.conftest import examples
from tests.harness.checkpoints import Checkpoints
from tests.resp.node import request
from tests.resp.test_xadd_runs import Side, Step, both_do, calls_of, lines

# The first entry's ID is 1000-1, as the clock says; what is behind the last one was never there.
ENTRIES = 12
IDS_MAX = ENTRIES + 3


def check_same(steps: Sequence[Step]) -> int:
    """The two sides cannot be told apart; returns how many runs of XACKs there were.

    Records differ in one thing: one local change of a run stands for those of its commands.
    """
    piped, single = both_do(steps)
    assert single.database.runs.xacks_called == 0
    left, right = piped.state(), single.state()
    for state, side in ((left, piped), (right, single)):
        del state["records"]
        state["batches"] = [record.batch for record in side.records]
        state["pending"] = pending(side)
        state["acknowledged"] = side.region.replica.acknowledged_count
    for name, found in left.items():
        assert found == right[name], name
    return piped.database.runs.xacks_called


def pending(side: Side) -> list[object]:
    """What is pending in each group: every NACK, by consumer and in all."""
    found: list[object] = []
    replica = side.region.replica
    for key in sorted(replica):
        stream = replica.stream(key)
        for name in sorted(stream.groups) if stream is not None else ():
            assert stream is not None
            group = stream.groups[name]
            nacks = [
                (one.id, one.lane, one.consumer and one.consumer.name, one.delivery_count)
                for one in group.pending()
            ]
            found.append((key, name, nacks))
    return found


def id_of(number: int) -> bytes:
    """The ID of an entry, counted from 1."""
    return b"%d-1" % (999 + number)


@st.composite
def runs_of_xacks(draw: st.DrawFn) -> list[bytes]:
    name = draw(st.sampled_from([b"XACK", b"XACK", b"xack", b"Xack"]))
    key = draw(st.sampled_from([b"s", b"s", b"s", b"t"]))
    group = draw(st.sampled_from([b"g", b"g", b"g", b"h", b"none"]))
    numbers = st.integers(1, IDS_MAX).map(id_of)
    odd = st.sampled_from(
        [b"1003", b"01004-1", b"-", b"5-1-1", b"$", b"18446744073709551616-1", b""]
    )
    ids = draw(st.lists(st.one_of(*[numbers] * 12, odd), min_size=1, max_size=12))
    return [request(name, key, group, one) for one in ids]


LINES = [
    "XREADGROUP GROUP g c COUNT 4 STREAMS s >",
    "XREADGROUP GROUP g d STREAMS s t > >",
    "XREADGROUP GROUP h c COUNT 5 STREAMS s >",
    "XREADGROUP GROUP g c BLOCK 50 CLAIM 5 STREAMS s >",
    "XREADGROUP GROUP g c STREAMS s 0",
    "XACK s g 1000-1 1001-1 1002-1",
    "XACK s g",
    "XNACK s g FAIL IDS 2 1000-1 1001-1",
    "XDEL s 1002-1",
    "XADD s * f v",
    "XADD t * f v",
    "XPENDING s g",
    "XGROUP DESTROY s g",
    "XGROUP CREATE s g 0",
    "XGROUP DELCONSUMER s g c",
    "XGROUP SETID s g 0",
    "DEL s",
    "SET s string",
    "SET t string",
    "PEXPIRE s 3",
    "MULTI",
    "EXEC",
    "WATCH s",
    "CLIENT REPLY OFF",
    "CLIENT REPLY ON",
    "CLIENT REPLY SKIP",
    "CLIENT PAUSE 1000000 WRITE",
    "CLIENT UNPAUSE",
    "MONITOR",
    "SUBSCRIBE channel",
    "HELLO 3",
    "CONFIG SET slowlog-log-slower-than 0",
    "INFO commandstats",
    "QUIT",
]
REQUESTS = st.one_of(
    *[runs_of_xacks()] * 4,
    st.sampled_from(LINES[:2]).map(lambda line: lines(line)),
    st.sampled_from(LINES).map(lambda line: lines(line)),
)


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
    """Two streams with groups; half of one stream is handed out."""
    groups = ["XGROUP CREATE s g 0", "XGROUP CREATE s h 0", "XGROUP CREATE t g 0"]
    reads = ["XREADGROUP GROUP g c COUNT 6 STREAMS s >", "XREADGROUP GROUP g c STREAMS t >"]
    adds = [Step(3, lines("XADD s * f v", "XADD t * f v"), ms=1)] * ENTRIES
    return [*adds, *[Step(3, lines(line)) for line in [*groups, *reads]]]


@settings(max_examples=examples(200))
@given(st.lists(steps(), min_size=1, max_size=6))
def test_nobody_can_tell_a_run_from_its_commands(steps: list[Step]) -> None:
    check_same([*beginning(), *steps])


def pipeline(*numbers: int, key: str = "s") -> list[bytes]:
    return lines(*[f"XACK {key} g {id_of(number).decode()}" for number in numbers])


# Before the pipeline of client 0: what others and itself have sent; and how many runs it then is.
HAPPENED: dict[str, tuple[list[tuple[int, str]], int]] = {
    "nothing": ([], 1),
    "the group is gone": ([(1, "XGROUP DESTROY s g")], 1),
    "the stream is gone": ([(1, "DEL s")], 0),
    "a string": ([(1, "SET s string")], 0),
    "the stream has ended": ([(1, "PEXPIRE s 5")], 0),
    "a transaction": ([(0, "MULTI")], 0),
    "somebody waits": ([(2, "XREADGROUP GROUP h c BLOCK 0 CLAIM 99 STREAMS s >")], 1),
    "somebody watches": ([(2, "WATCH s")], 1),
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


def test_a_pause_that_ends_within_a_tick() -> None:
    """The postponed go on before the tick ends, or after it, but the same way on both sides."""
    postponed = lines(
        "XACK s g 1000-1", "CLIENT PAUSE 1000000 WRITE", "XREADGROUP GROUP g c STREAMS s >"
    )
    steps = [
        Step(2, postponed, ends_tick=False),
        Step(1, lines("XACK s g 1000-1"), ends_tick=False),
        Step(0, lines("CLIENT UNPAUSE"), ends_tick=False),
    ]
    check_same([*beginning(), *steps])


def replies_to(requests: list[bytes]) -> bytes:
    async def send() -> bytes:
        side = Side()
        for step in beginning():
            side.send(step.client, b"".join(step.requests))
            await side.end_tick()
            await side.pass_time(step.ms)
        side.send(0, b"".join(requests))
        await side.end_tick()
        assert side.database.runs.xacks_called == 1
        return side.wires[0].got

    return asyncio.run(send())


def test_entries_on_disk_only_stop_a_run() -> None:
    """How far all is acknowledged may need them; a single command waits until they are read."""

    async def runs_called() -> int:
        side = Side()
        for step in beginning():
            side.send(step.client, b"".join(step.requests))
            await side.end_tick()
            await side.pass_time(step.ms)
        replica, checkpoints = side.region.replica, Checkpoints()
        checkpoints.begin(replica, len(side.records))
        checkpoints.finish(replica)
        replica.residency.drop_all()
        assert replica.residency.absent_count
        side.send(0, b"".join(pipeline(*range(1, 9))))
        return side.database.runs.xacks_called

    assert asyncio.run(runs_called()) == 0


def test_a_run_is_not_longer_than_what_others_can_wait_for() -> None:
    requests = [[b"XACK", b"s", b"g", b"%d-1" % n] for n in range(1_025)]
    *runs, last = with_id_runs(requests)
    assert [len(run) for run in runs] == [512, 512]
    assert last == requests[-1]


def test_an_id_that_is_named_twice_is_acknowledged_once() -> None:
    assert replies_to(pipeline(2, 1, 2, 9, 1)) == b":1\r\n:1\r\n:0\r\n:0\r\n:0\r\n"


def in_runs(sent: list[bytes]) -> list[int]:
    """How many commands each run has that is found in these bytes."""
    found = list(RequestParser(RequestLimits()).parse(b"".join(sent)))
    return [len(one) for one in found if isinstance(one, XackRun)]


@pytest.mark.parametrize(
    ("sent", "runs"),
    [
        (pipeline(1), []),
        (pipeline(2, 1), [2]),
        ([*lines("PING"), *pipeline(1, 2), *lines("PING"), *pipeline(3, 4, 5)], [2, 3]),
        ([*pipeline(1, 2), *pipeline(3, 4, key="t")], [2, 2]),
        (lines("XACK s g 1-1 2-1", "XACK s g 1-1 3-1"), []),
        (lines("XACK s g 1-1", "XACK s g x"), []),
        (lines("XACK s g", "XACK s h"), []),
    ],
)
def test_what_is_a_run(sent: list[bytes], runs: list[int]) -> None:
    assert in_runs(sent) == runs


@settings(max_examples=examples(200))
@given(st.lists(st.lists(st.sampled_from([b"XACK", b"s", b"g", b"1-1", b"2-1"]), min_size=1)))
def test_runs_have_all_requests_in_their_order(requests: list[list[bytes]]) -> None:
    found: list[list[bytes]] = []
    for one in with_id_runs(requests):
        if isinstance(one, XackRun):
            assert list(one.requests())[1:] == list(one.behind(1).requests())
            found += one.requests()
        else:
            assert isinstance(one, list)
            found.append(one)
    assert found == requests


def test_an_xack_in_a_pipeline_calls_hardly_anything() -> None:
    """Counts, not times; two of each are hiredis's.  One by one it is 95 for each XACK."""
    side = Side()
    side.send(1, b"".join(lines("XGROUP CREATE s g 0 MKSTREAM", *["XADD s * f v"] * 200)))
    side.send(1, b"".join(lines("XREADGROUP GROUP g c STREAMS s >")))
    side.region.ready(side.engine.now())
    replica = side.region.replica
    stream = replica.stream(b"s")
    assert stream is not None
    ids = [format_id(nack.id).decode() for nack in stream.groups[b"g"].pending()]
    sent = b"".join(lines(*[f"XACK s g {one}" for one in ids[:100]]))
    assert calls_of(lambda: side.send(0, sent)) < 6 * 100
    assert side.database.runs.xacks_called == 1
    assert replica.acknowledged_count == 100
