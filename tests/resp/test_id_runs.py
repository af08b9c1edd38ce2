"""Runs of XACKs, and of XDELs, are the commands that they are made of: nobody can tell them from
single ones.

As with runs of XADDs, two regions get the same requests, one of them each command by itself.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.groups.xack_run import XackRun, xack_run
from crdtstream.commands.reply import Status
from crdtstream.commands.streams.xdel_run import XdelRun, xdel_run
from crdtstream.commands.table import COMMANDS
from crdtstream.core.id_columns import IdColumns
from crdtstream.core.ids import IdMode, RegionId, format_id, make_id
from crdtstream.database.database import BATCH_BYTES_TARGET
from crdtstream.database.runs import UNPACKED_MAX, Runs
from crdtstream.resp.wire.id_runs import with_id_runs
from crdtstream.resp.wire.parser import RequestLimits, RequestParser
from tests.conftest import examples
from tests.harness.checkpoints import Checkpoints
from tests.harness.regions import Node, sync
from tests.resp.node import request
from tests.resp.piped import Side, Step, both_do, calls_of, lines

# The first entry's ID is 1000-1, as the clock says; what is behind the last one was never there.
ENTRIES = 12
IDS_MAX = ENTRIES + 3


def streams_of(side: Side) -> list[object]:
    """Every stream: its entries, and how far its lanes go."""
    found: list[object] = []
    replica = side.region.replica
    for key in sorted(replica):
        stream = replica.stream(key)
        if stream is not None:
            entries = [
                (one, lane, bytes(node.fields_at(at))) for one, lane, node, at in stream.scan()
            ]
            deleted = [lane.max_deleted_id for lane in stream.lanes.values()]
            found.append((key, stream.last_id, stream.length, deleted, entries))
    return found


def pending_of(side: Side) -> list[object]:
    """Pending entries of each group: every NACK, by consumer and in all."""
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


def seen_of_xacks(side: Side) -> dict[str, object]:
    """Records differ in one thing: one local change of a run stands for those of its commands."""
    state = side.state()
    del state["records"]
    state["batches"] = [record.batch for record in side.records]
    state["acknowledged"] = side.region.replica.acknowledged_count
    return state


def seen_of_xdels(side: Side) -> dict[str, object]:
    """One effect of a run stands for those of its commands: those behind it have lower numbers."""
    state = side.state()
    for numbered in ("records", "vv", "digest", "nodes", "sessions"):
        del state[numbered]
    return state


@dataclass(frozen=True)
class Kind:
    """A command whose runs are tested.

    Attributes:
        words: those behind the name and the key, before the ID.
        count: how many of its runs were called.
        seen: a side's state, without what its runs may change.
        lines: commands that come between.
        calls_max: calls of functions for each command of a long run; two are hiredis's.
    """

    name: str
    words: tuple[str, ...]
    run: type[XackRun | XdelRun]
    count: Callable[[Runs], int]
    seen: Callable[[Side], dict[str, object]]
    lines: tuple[str, ...]
    calls_max: int

    def __str__(self) -> str:
        return self.name

    def line(self, entry_id: str, *, key: str = "s") -> str:
        return " ".join((self.name, key, *self.words, entry_id))

    def pipeline(self, *numbers: int, key: str = "s") -> list[bytes]:
        return lines(*[self.line(id_of(number).decode(), key=key) for number in numbers])


def id_of(number: int) -> bytes:
    """The ID of an entry, counted from 1."""
    return b"%d-1" % (999 + number)


BOTH = (
    "XADD s * f v",
    "XREADGROUP GROUP g c COUNT 4 STREAMS s >",
    "XREADGROUP GROUP g c BLOCK 50 CLAIM 5 STREAMS s >",
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
)
XACK = Kind(
    "XACK",
    ("g",),
    XackRun,
    lambda runs: runs.xacks_called,
    seen_of_xacks,
    (
        *BOTH,
        "XREADGROUP GROUP g d STREAMS s t > >",
        "XREADGROUP GROUP h c COUNT 5 STREAMS s >",
        "XREADGROUP GROUP g c STREAMS s 0",
        "XACK s g 1000-1 1001-1 1002-1",
        "XACK s g",
        "XNACK s g FAIL IDS 2 1000-1 1001-1",
        "XDEL s 1002-1",
        "XADD t * f v",
        "XPENDING s g",
        "XGROUP DESTROY s g",
        "XGROUP CREATE s g 0",
        "XGROUP DELCONSUMER s g c",
        "XGROUP SETID s g 0",
        "SET t string",
        "CLIENT REPLY SKIP",
        "HELLO 3",
    ),
    6,
)
XDEL = Kind(
    "XDEL",
    (),
    XdelRun,
    lambda runs: runs.xdels_called,
    seen_of_xdels,
    (
        *BOTH,
        "XREAD BLOCK 0 STREAMS s $",
        "XREAD BLOCK 0 STREAMS t 1000-1",
        "XRANGE s - +",
        "XLEN s",
        "XDEL s 1002-1 1003-1",
        "XACK s g 1000-1 1001-1",
        "XTRIM s MAXLEN 5",
        "XSETID s 9999-1",
    ),
    8,
)
of_each_kind = pytest.mark.parametrize("kind", [XACK, XDEL], ids=str)


def check_same(kind: Kind, steps: Sequence[Step]) -> int:
    """The two sides cannot be told apart; returns how many runs there were."""
    piped, single = both_do(steps)
    assert kind.count(single.database.runs) == 0
    left, right = seen_of(kind, piped), seen_of(kind, single)
    for name, found in left.items():
        assert found == right[name], name
    return kind.count(piped.database.runs)


def seen_of(kind: Kind, side: Side) -> dict[str, object]:
    return {**kind.seen(side), "streams": streams_of(side), "pending": pending_of(side)}


@st.composite
def runs_of(draw: st.DrawFn, kind: Kind) -> list[bytes]:
    upper = kind.name.encode()
    name = draw(st.sampled_from([upper, upper, upper.lower(), upper.title()]))
    key = draw(st.sampled_from([b"s", b"s", b"s", b"t", b"none"]))
    words = [draw(st.sampled_from([b"g", b"g", b"g", b"h", b"none"])) for _ in kind.words]
    numbers = st.integers(1, IDS_MAX).map(id_of)
    odd = st.sampled_from(
        [b"1003", b"01004-1", b"-", b"5-1-1", b"$", b"18446744073709551616-1", b""]
    )
    ids = draw(st.lists(st.one_of(*[numbers] * 12, odd), min_size=1, max_size=12))
    return [request(name, key, *words, one) for one in ids]


@st.composite
def steps(draw: st.DrawFn, kind: Kind) -> Step:
    between = st.sampled_from(kind.lines).map(lambda line: lines(line))
    some = draw(st.lists(st.one_of(*[runs_of(kind)] * 3, between), min_size=1, max_size=6))
    requests = [*chain.from_iterable(some)]
    cuts = draw(st.lists(st.integers(1, sum(map(len, requests))), max_size=3))
    return Step(
        draw(st.integers(0, 3)),
        requests,
        sorted(cuts),
        draw(st.sampled_from([0, 0, 1, 5, 60])),
        draw(st.booleans()),
        draw(st.sampled_from([0, 0, 0, 5])),
    )


def beginning() -> list[Step]:
    """Two streams with groups; half of one stream is handed out."""
    groups = ["XGROUP CREATE s g 0", "XGROUP CREATE s h 0", "XGROUP CREATE t g 0"]
    reads = ["XREADGROUP GROUP g c COUNT 6 STREAMS s >", "XREADGROUP GROUP g c STREAMS t >"]
    adds = [Step(3, lines("XADD s * f v", "XADD t * f v"), ms=1)] * ENTRIES
    return [*adds, *[Step(3, lines(line)) for line in [*groups, *reads]]]


@of_each_kind
@settings(max_examples=examples(200))
@given(data=st.data())
def test_nobody_can_tell_a_run_from_its_commands(kind: Kind, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(steps(kind), min_size=1, max_size=6))
    check_same(kind, [*beginning(), *drawn])


@of_each_kind
@pytest.mark.parametrize("seed", range(20))
def test_random_pipelines_do_what_single_commands_do(kind: Kind, seed: int) -> None:
    draw = random.Random(seed)
    numbers = [draw.randrange(1, IDS_MAX + 1) for _ in range(draw.randrange(2, 30))]
    assert check_same(kind, [*beginning(), Step(0, kind.pipeline(*numbers))]) == 1


# Before the pipeline of client 0: what others and itself have sent; and how many runs it then is,
# of XACKs and of XDELs.
HAPPENED: dict[str, tuple[list[tuple[int, str]], int, int]] = {
    "nothing": ([], 1, 1),
    "the group is gone": ([(1, "XGROUP DESTROY s g")], 1, 1),
    "the stream is gone": ([(1, "DEL s")], 0, 0),
    "a string": ([(1, "DEL s"), (1, "SET s string")], 0, 0),
    "the stream has ended": ([(1, "PEXPIRE s 5")], 0, 0),
    "a transaction": ([(0, "MULTI")], 0, 0),
    "somebody waits": ([(2, "XREAD BLOCK 0 STREAMS s $")], 1, 0),
    "a group waits": (
        [(2, f"XREADGROUP GROUP h c {block}STREAMS s >") for block in ("", "BLOCK 0 ")],
        *(1, 0),
    ),
    "somebody watches": ([(2, "WATCH s")], 1, 0),
    "somebody watches another key": ([(2, "WATCH t")], 1, 1),
    "MONITOR": ([(2, "MONITOR")], 0, 0),
    "a low SLOWLOG": ([(2, "CONFIG SET slowlog-log-slower-than 0")], 0, 0),
    "no replies": ([(0, "CLIENT REPLY OFF")], 0, 0),
    # It is held as it came, and is a run when the pause ends.
    "a pause": ([(2, "CLIENT PAUSE 100000 WRITE")], 1, 1),
    "subscribed": ([(0, "SUBSCRIBE channel")], 0, 0),
}


@of_each_kind
@pytest.mark.parametrize("happened", HAPPENED)
def test_events_before_a_run_may_stop_it(kind: Kind, happened: str) -> None:
    before, xacks, xdels = HAPPENED[happened]
    steps = [*beginning(), *[Step(client, lines(text), ms=1) for client, text in before]]
    steps += [Step(3, lines("PING"), ms=10), Step(0, kind.pipeline(*range(1, 9)))]
    steps += [Step(2, lines("MULTI", "EXEC"))]
    assert check_same(kind, steps) == (xacks if kind is XACK else xdels)


@of_each_kind
def test_a_run_behind_a_reset_wants_the_password_again(kind: Kind) -> None:
    async def told() -> bytes:
        side = await begun(password="secret")
        side.send(0, b"".join([*lines("RESET"), *kind.pipeline(1, 2)]))
        await side.end_tick()
        return side.wires[0].got

    refusal = b"-NOAUTH Authentication required.\r\n"
    assert asyncio.run(told()) == b"+OK\r\n+RESET\r\n" + refusal * 2


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
    check_same(XACK, [*beginning(), *steps])


async def begun(*, password: str = "") -> Side:
    side = Side(password=password)
    for client in (0, 3) if password else ():
        side.send(client, request(b"AUTH", password.encode()))
    for step in beginning():
        side.send(step.client, b"".join(step.requests))
        await side.end_tick()
        await side.pass_time(step.ms)
    return side


@of_each_kind
def test_a_run_does_not_pass_a_command_of_the_same_name(kind: Kind) -> None:
    """Of two commands with one name the later counts, in a pipeline, too."""

    async def told() -> bytes:
        side = await begun()
        ours = replace(COMMANDS[kind.name.lower().encode()], run=lambda *_: Status(b"OURS"))
        side.database.register([ours])
        side.send(0, b"".join(kind.pipeline(1, 2)))
        await side.end_tick()
        return side.wires[0].got

    assert asyncio.run(told()) == b"+OURS\r\n" * 2


async def without_entries() -> Side:
    """A region whose entries have left memory."""
    side = await begun()
    replica, checkpoints = side.region.replica, Checkpoints()
    checkpoints.begin(replica, len(side.records))
    checkpoints.finish(replica)
    replica.residency.drop_all()
    assert replica.residency.absent_count
    return side


def test_entries_on_disk_only_stop_a_run_that_deletes_them() -> None:
    """A single command waits until they are read."""

    async def runs_called() -> int:
        side = await without_entries()
        side.send(0, b"".join(XDEL.pipeline(*range(1, 9))))
        # A run that was taken, and broke, would be in the log.
        await side.end_tick()
        return XDEL.count(side.database.runs)

    assert asyncio.run(runs_called()) == 0


@pytest.mark.parametrize(("unpacked_max", "expected"), [(0, False), (1, True)])
def test_packed_entries_stop_a_run_that_would_unpack_many(
    monkeypatch: pytest.MonkeyPatch, unpacked_max: int, expected: bool
) -> None:
    """Others would wait for it, and come between single commands."""
    monkeypatch.setattr(UNPACKED_MAX, "value", unpacked_max)

    async def is_taken() -> bool:
        side = await begun()
        replica, checkpoints = side.region.replica, Checkpoints()
        checkpoints.begin(replica, len(side.records))
        checkpoints.finish(replica)
        stream = replica.stream(b"s")
        assert stream is not None
        while not (cold := stream.lanes[RegionId(1)].cold_nodes_of([make_id(1000, 1)])):
            assert replica.residency.evict(1)
        assert not cold[0].is_absent
        texts = [id_of(number) for number in range(1, 9)]
        run = XdelRun(
            b"XDEL", b"s", texts, IdColumns.of([make_id(999 + number, 1) for number in range(1, 9)])
        )
        return side.database.runs.takes(side.connections[0].session, side.engine.now(), run)

    assert asyncio.run(is_taken()) == expected


def test_a_run_acknowledges_entries_that_are_on_disk_only() -> None:
    """No entry is read for that."""

    async def state_after(parts: Sequence[slice]) -> tuple[int, object]:
        side = await without_entries()
        sent = XACK.pipeline(*range(1, 9))
        for part in parts:
            side.send(0, b"".join(sent[part]))
        assert side.region.replica.residency.loaded_inline == 0
        return XACK.count(side.database.runs), (
            pending_of(side),
            side.region.replica.acknowledged_count,
        )

    at_once = asyncio.run(state_after([slice(None)]))
    one_by_one = asyncio.run(state_after([slice(at, at + 1) for at in range(8)]))
    assert (at_once[0], one_by_one[0]) == (1, 0)
    assert at_once[1] == one_by_one[1]


@of_each_kind
def test_entries_of_another_stream_may_be_on_disk_only(kind: Kind) -> None:
    """With default settings there are some in nearly every node."""

    async def runs_called() -> int:
        side = await without_entries()
        side.send(0, b"".join(lines("XGROUP CREATE u g 0 MKSTREAM", *["XADD u * f v"] * 8)))
        side.send(0, b"".join(lines("XREADGROUP GROUP g c STREAMS u >")))
        stream = side.region.replica.stream(b"u")
        assert stream is not None
        ids = [format_id(entry_id).decode() for entry_id, *_ in stream.scan()]
        assert len(ids) == 8
        side.send(0, b"".join(lines(*[kind.line(entry_id, key="u") for entry_id in ids])))
        return kind.count(side.database.runs)

    assert asyncio.run(runs_called()) == 1


def test_a_run_that_the_batch_has_no_room_for_is_called_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of XDELs: an acknowledgement takes no room."""

    async def runs_called() -> int:
        side = await begun()
        side.send(0, b"".join(XDEL.pipeline(1, 2)))
        assert side.database.runs.xdels_called == 1
        monkeypatch.setattr(BATCH_BYTES_TARGET, "value", 1)
        side.send(0, b"".join(XDEL.pipeline(*range(3, 11))))
        await side.end_tick()
        assert side.wires[0].got == b":1\r\n" * 10
        return side.database.runs.xdels_called

    assert asyncio.run(runs_called()) == 1


@pytest.mark.parametrize(("kind", "length"), [(XACK, 512), (XDEL, 128)], ids=str)
def test_a_run_is_not_longer_than_what_others_can_wait_for(kind: Kind, length: int) -> None:
    requests = [kind.line(f"{n}-1").encode().split() for n in range(2 * length + 1)]
    *runs, last = with_id_runs(requests)
    assert [len(run) for run in runs] == [length] * 2
    assert last == requests[-1]


@of_each_kind
def test_an_id_that_is_named_twice_counts_once(kind: Kind) -> None:
    async def replies() -> bytes:
        side = await begun()
        side.send(0, b"".join(kind.pipeline(2, 1, 2, 40, 1)))
        await side.end_tick()
        assert kind.count(side.database.runs) == 1
        return side.wires[0].got

    assert asyncio.run(replies()) == b":1\r\n:1\r\n:0\r\n:0\r\n:0\r\n"


def test_a_run_of_xdels_is_one_effect_whatever_the_order() -> None:
    async def issued() -> int:
        side = await begun()
        before = side.region.replica.issued
        side.send(0, b"".join(XDEL.pipeline(9, 2, 7, 1, 12)))
        await side.end_tick()
        return side.region.replica.issued - before

    assert asyncio.run(issued()) == 1


# IDs by their milliseconds, of which 5-1 is in two lanes; and what they are answered.
OF_SEVERAL_LANES = [
    ((6, 5, 7, 5), b":1\r\n:2\r\n:0\r\n:0\r\n"),
    # As many commands as entries, though not one each.
    ((5, 7), b":2\r\n:0\r\n"),
    ((5, 6, 7), b":2\r\n:1\r\n:0\r\n"),
]


def in_two_lanes() -> tuple[Node, Node]:
    """Two regions with 5-1 in the lanes of both, and 6-1 in one; a group has read them in one."""
    nodes = r1, r2 = Node(1), Node(2)
    for node in nodes:
        node.replica.id_mode = IdMode.LIBERAL
    r1.run("XADD x 5-1 f v", "XADD x 6-1 f v")
    r2.run("XADD x 5-1 f v")
    sync(*nodes)
    r1.run("XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >")
    return nodes


def texts_and_ids(times: Sequence[int]) -> tuple[list[bytes], IdColumns]:
    return [b"%d-1" % ms for ms in times], IdColumns.of([make_id(ms, 1) for ms in times])


@pytest.mark.parametrize(("times", "replies"), OF_SEVERAL_LANES)
def test_an_id_of_several_lanes_goes_in_all_of_them(times: Sequence[int], replies: bytes) -> None:
    nodes = r1, r2 = in_two_lanes()
    assert xdel_run(r1.replica, XdelRun(b"XDEL", b"x", *texts_and_ids(times))) == replies
    sync(*nodes)
    left = [] if 6 in times else ["6-1"]
    assert [node("XRANGE x - +") for node in nodes] == [left] * 2
    assert r1.digest == r2.digest


@pytest.mark.parametrize(("times", "replies"), OF_SEVERAL_LANES)
def test_an_id_of_several_lanes_is_acknowledged_in_all_of_them(
    times: Sequence[int], replies: bytes
) -> None:
    r1, _ = in_two_lanes()
    run = XackRun(b"XACK", b"x", b"g", *texts_and_ids(times))
    assert xack_run(r1.replica, run) == replies
    assert r1("XPENDING x g - + 10") == [] if 6 in times else [["6-1", "c", 0, 1]]


def test_a_run_of_xdels_finds_nothing_without_a_stream() -> None:
    run = XdelRun(b"XDEL", b"x", *texts_and_ids((5, 7)))
    assert xdel_run(Node(1).replica, run) == b":0\r\n:0\r\n"


# --- Out of requests ----------------------------------------------------------------------------


def in_runs(kind: Kind, sent: list[bytes]) -> list[int]:
    """Number of commands of each run that is found in these bytes."""
    found = list(RequestParser(RequestLimits()).parse(b"".join(sent)))
    return [len(one) for one in found if isinstance(one, kind.run)]


@of_each_kind
def test_commands_of_one_form_in_a_row_are_a_run(kind: Kind) -> None:
    pipeline, line = kind.pipeline, kind.line
    other = XDEL if kind is XACK else XACK
    for sent, runs in (
        (pipeline(1), []),
        (pipeline(2, 1), [2]),
        ([*lines("PING"), *pipeline(1, 2), *lines("PING"), *pipeline(3, 4, 5)], [2, 3]),
        # Commands of one word have nothing before the last one.
        ([*lines("PING", "PING"), *pipeline(1, 2)], [2]),
        ([*pipeline(1, 2), *pipeline(3, 4, key="t")], [2, 2]),
        ([*pipeline(1, 2), *other.pipeline(3, 4)], [2]),
        (lines(line("1-1") + " 2-1", line("1-1") + " 3-1"), []),
        (lines(line("1-1"), line("x")), []),
        (lines(f"{kind} s", f"{kind} t"), []),
        (lines("XACK s g", "XACK s h"), []),
        (other.pipeline(1, 2), []),
    ):
        assert in_runs(kind, sent) == runs, sent


WORDS = st.sampled_from([b"XACK", b"XDEL", b"s", b"g", b"1-1", b"2-1"])


@settings(max_examples=examples(200))
@given(st.lists(st.lists(WORDS, min_size=1)))
def test_runs_have_all_requests_in_their_order(requests: list[list[bytes]]) -> None:
    found: list[list[bytes]] = []
    for one in with_id_runs(requests):
        if isinstance(one, list):
            found.append(one)
        else:
            commands = list(one.requests())
            if isinstance(one, XackRun | XdelRun):
                assert commands[1:] == list(one.behind(1).requests())
            found += commands
    assert found == requests


# --- What it costs ------------------------------------------------------------------------------


@of_each_kind
def test_a_command_in_a_pipeline_calls_hardly_anything(kind: Kind) -> None:
    """Counts, not times.  One by one it is 95 for each XACK."""
    side = Side()
    side.send(1, b"".join(lines("XGROUP CREATE s g 0 MKSTREAM", *["XADD s * f v"] * 200)))
    side.send(1, b"".join(lines("XREADGROUP GROUP g c STREAMS s >")))
    side.region.ready(side.engine.now())
    replica = side.region.replica
    stream = replica.stream(b"s")
    assert stream is not None
    ids = [format_id(nack.id).decode() for nack in stream.groups[b"g"].pending()]
    sent = b"".join(lines(*map(kind.line, ids[:100])))
    assert calls_of(lambda: side.send(0, sent)) < kind.calls_max * 100
    assert kind.count(side.database.runs) == 1
    assert (replica.acknowledged_count, stream.length) == ((100, 200) if kind is XACK else (0, 100))
