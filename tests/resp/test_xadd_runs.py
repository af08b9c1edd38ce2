"""Runs of XADDs are the commands that they are made of: nobody can tell them from single ones.

The same requests go to two regions.  One gets them as they come over TCP, in pieces with many
commands; the other one gets each command by itself, so that it never sees a run.
"""

import asyncio
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.reply import Status
from crdtstream.commands.streams.mixed_run import MixedRun, fitting, mixed_run
from crdtstream.commands.streams.xadd_run import XaddRun, xadd_run
from crdtstream.commands.table import COMMANDS
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis
from crdtstream.region.room import OOM, Account
from crdtstream.region.staleness import LagAction
from crdtstream.resp.wire.parser import ExactParser, RequestError, RequestLimits, RequestParser
from crdtstream.resp.wire.xadd_runs import XaddRuns
from tests.conftest import examples
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of
from tests.resp.node import request
from tests.resp.piped import Side, Step, both_do, calls_of, lines

# --- What clients send --------------------------------------------------------------------------

# Some of these, too.
KEYS = [b"s", b"t", b"\r\n*5\r\n$4\r\nXADD", b"u\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\na\r\n"]
# Some of them look like what stands between two commands, or two values.
VALUES = st.sampled_from(
    [
        b"",
        b"a",
        b"value:000000000123",
        b"x" * 99,
        b"\r\n",
        b"$1\r\na\r\n",
        b"\r\n$1\r\ng\r\n$1\r\nv",
        b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\n",
        b"y" * 4100,
    ]
)


@st.composite
def runs_of_xadds(draw: st.DrawFn) -> list[bytes]:
    name = draw(st.sampled_from([b"XADD", b"XADD", b"xadd", b"Xadd"]))
    keys = st.sampled_from([*KEYS[:1] * 4, *KEYS])
    if draw(st.booleans()):
        keys = st.just(draw(keys))
    fields = draw(st.sampled_from([[b"f"]] * 3 + [[b"f", b"g"], [b"", b"f", b"long name"]]))
    entries = draw(st.lists(st.tuples(*[VALUES] * len(fields)), min_size=1, max_size=6))
    return [
        request(
            name,
            draw(keys),
            b"*",
            *(word for pair in zip(fields, values, strict=True) for word in pair),
        )
        for values in entries
    ]


LINES = [
    "PING",
    "XLEN s",
    "XADD s NOMKSTREAM * f v",
    "XADD s MAXLEN 3 * f v",
    "XADD s * f",
    "XADD s * f v g",
    "XADD s *",
    "XADD",
    "XADD s 5000 f v",
    "XADD s IDMP p 1 * f v",
    "DEL s",
    "SET s string",
    "PEXPIRE s 3",
    "PERSIST s",
    "EXPIRE s -1",
    "XTRIM s MAXLEN 2",
    "XSETID s 18446744073709551615-18446744073709550000",
    "XSETID s 3000-18446744073709549000",
    "XGROUP CREATE s g 0 MKSTREAM",
    "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
    "XREADGROUP GROUP g c BLOCK 50 STREAMS s >",
    "XREAD BLOCK 50 STREAMS s $",
    "XREAD BLOCK 0 STREAMS t s $ $",
    "XRANGE s - +",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH s",
    "UNWATCH",
    "CLIENT REPLY OFF",
    "CLIENT REPLY ON",
    "CLIENT REPLY SKIP",
    "CLIENT PAUSE 1000000 WRITE",
    "CLIENT PAUSE 1000000 ALL",
    "CLIENT UNPAUSE",
    "MONITOR",
    "RESET",
    "SUBSCRIBE channel",
    "HELLO 3",
    "CONFIG SET slowlog-log-slower-than 0",
    "CONFIG SET slowlog-log-slower-than 10000",
    "CONFIG RESETSTAT",
    "SLOWLOG GET",
    "FLUSHALL",
    "QUIT",
]
REQUESTS = st.one_of(
    runs_of_xadds(),
    runs_of_xadds(),
    runs_of_xadds(),
    st.sampled_from(LINES).map(lambda line: [request(*line.encode().split())]),
    st.just([b"XADD s * f inline\r\n"]),
)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    requests = [*chain.from_iterable(draw(st.lists(REQUESTS, min_size=1, max_size=6)))]
    size = sum(map(len, requests))
    cuts = draw(st.lists(st.integers(1, size), max_size=3))
    return Step(
        draw(st.integers(0, 3)),
        requests,
        sorted(cuts),
        draw(st.sampled_from([0, 0, 1, 5, 60, -10])),
        draw(st.booleans()),
        draw(st.sampled_from([0, 0, 0, 5])),
    )


def check_same(steps: Sequence[Step]) -> int:
    """The two sides cannot be told apart; returns how many runs there were."""
    piped, single = both_do(steps)
    assert single.database.runs.xadds_called == 0
    left, right = piped.state(), single.state()
    for name, found in left.items():
        assert found == right[name], name
    return piped.database.runs.xadds_called


@settings(max_examples=examples(300))
@given(st.lists(steps(), min_size=1, max_size=8))
def test_nobody_can_tell_a_run_from_its_commands(steps: list[Step]) -> None:
    check_same(steps)


def pipeline(count: int, *, key: bytes = b"s") -> list[bytes]:
    return [request(b"XADD", key, b"*", b"f", b"value %d" % number) for number in range(count)]


def mixed_pipeline(count: int, keys: Sequence[bytes] = (b"s", b"t", b"u")) -> list[bytes]:
    return [
        request(b"XADD", keys[number % len(keys)], b"*", b"f", b"value %d" % number)
        for number in range(count)
    ]


# Before the pipeline of client 0: what others and itself have sent; and how many runs it then is.
HAPPENED: dict[str, tuple[list[tuple[int, str]], int]] = {
    "nothing": ([(1, "XADD s * f v")], 1),
    "the stream is new": ([], 1),
    "a string": ([(1, "SET s string")], 0),
    "the stream has ended": ([(1, "XADD s * f v"), (1, "PEXPIRE s 5")], 1),
    "a transaction": ([(1, "XADD s * f v"), (0, "MULTI")], 0),
    "somebody waits": ([(1, "XADD s * f v"), (2, "XREAD BLOCK 0 STREAMS s $")], 1),
    "somebody waits elsewhere": ([(1, "XADD s * f v"), (2, "XREAD BLOCK 0 STREAMS t $")], 1),
    "somebody watches": ([(1, "XADD s * f v"), (2, "WATCH s")], 0),
    "somebody watches elsewhere": ([(1, "XADD s * f v"), (2, "WATCH t")], 1),
    "MONITOR": ([(1, "XADD s * f v"), (2, "MONITOR")], 0),
    "a low SLOWLOG": ([(1, "XADD s * f v"), (2, "CONFIG SET slowlog-log-slower-than 0")], 0),
    "no replies": ([(1, "XADD s * f v"), (0, "CLIENT REPLY OFF")], 0),
    "one reply less": ([(1, "XADD s * f v"), (0, "CLIENT REPLY SKIP")], 1),
    # It is held as it came, and is a run when the pause ends.
    "a pause": ([(1, "XADD s * f v"), (2, "CLIENT PAUSE 100000 WRITE")], 1),
    "IDs come to an end": (
        [(1, "XADD s * f v"), (1, f"XSETID s {2**64 - 1}-{2**64 - 5000}")],
        0,
    ),
    "subscribed": ([(1, "XADD s * f v"), (0, "SUBSCRIBE channel")], 0),
}


@pytest.mark.parametrize("happened", HAPPENED)
def test_events_before_a_run_may_stop_it(happened: str) -> None:
    before, runs = HAPPENED[happened]
    steps = [Step(client, lines(text), ms=1) for client, text in before]
    steps += [Step(3, lines("PING"), ms=10), Step(0, pipeline(20)), Step(2, lines("MULTI", "EXEC"))]
    assert check_same(steps) == runs


# The same of a pipeline for s, t and u in turn.
HAPPENED_TO_MIXED: dict[str, tuple[list[tuple[int, str]], int]] = {
    "nothing": ([], 1),
    "a stream is gone": ([(1, "DEL u")], 2),
    "a string": ([(1, "DEL t"), (1, "SET t string")], 7),
    "a stream has ended": ([(1, "PEXPIRE t 5")], 2),
    "a transaction": ([(0, "MULTI")], 0),
    "somebody waits": ([(2, "XREAD BLOCK 0 STREAMS t $")], 2),
    "somebody waits elsewhere": ([(2, "XREAD BLOCK 0 STREAMS w $")], 1),
    "somebody watches": ([(2, "WATCH t")], 7),
    "somebody watches elsewhere": ([(2, "WATCH w")], 1),
    "MONITOR": ([(2, "MONITOR")], 0),
    "no replies": ([(0, "CLIENT REPLY OFF")], 0),
    "IDs come to an end": ([(1, f"XSETID t {2**64 - 1}-{2**64 - 5000}")], 7),
}


@pytest.mark.parametrize("happened", HAPPENED_TO_MIXED)
def test_commands_that_stop_a_mixed_run_are_called_by_themselves(happened: str) -> None:
    before, runs = HAPPENED_TO_MIXED[happened]
    steps = [Step(3, lines(f"XADD {key} * f v"), ms=1) for key in "stu"]
    steps += [Step(client, lines(text), ms=1) for client, text in before]
    steps += [Step(3, lines("PING"), ms=10), Step(0, mixed_pipeline(20))]
    steps += [Step(2, lines("MULTI", "EXEC"))]
    assert check_same(steps) == runs


def test_entries_of_a_mixed_run_are_in_the_order_of_its_commands() -> None:
    """Also in one stream that comes again, whose IDs ascend within one millisecond."""
    steps = [Step(3, lines(f"XADD {key} * f v")) for key in "stu"]
    piped, _ = both_do([*steps, Step(0, mixed_pipeline(20))])
    assert piped.database.runs.xadds_called == 1
    replica = piped.region.replica
    values = {}
    for key in (b"s", b"t", b"u"):
        stream = replica.stream(key)
        assert stream is not None
        values[key] = [bytes(node.fields_at(index)) for _, _, node, index in stream.scan()][1:]
    assert values == {
        key: [encode_fields([b"f", b"value %d" % number]) for number in range(first, 20, 3)]
        for first, key in enumerate((b"s", b"t", b"u"))
    }


def test_a_run_is_behind_another_and_before_other_commands() -> None:
    first = Step(1, pipeline(1) + pipeline(1, key=b"t"))
    mixed = [*pipeline(3), *pipeline(3, key=b"t"), *lines("XLEN s"), *pipeline(2)]
    assert check_same([first, Step(0, mixed)]) == 2


@pytest.mark.parametrize("pipelined", [pipeline, mixed_pipeline])
def test_a_run_does_not_overfill_a_batch(
    pipelined: Callable[[int], list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.database.database.BATCH_BYTES_TARGET.value", 1000)
    steps = [Step(0, pipelined(15), ends_tick=at == 2) for at in range(3)]
    assert check_same([Step(0, mixed_pipeline(3)), *steps]) > 0


def test_a_run_finds_a_stream_ended_though_the_clock_was_not_looked_at() -> None:
    begun = Step(1, lines("XADD s * f v", "PEXPIRE s 5"))
    assert check_same([begun, Step(0, pipeline(20), ms_before=10)]) == 1


def without_password(side: Side) -> None:
    side.database.users.default.is_nopass = False
    side.connections[0].session.authenticated = False


def with_a_full_disk(side: Side) -> None:
    side.database.fault = "the disk is full"


def at_maxmemory(side: Side) -> None:
    side.region.room.tune(maxmemory=1_000)
    side.region.room.look(account=Account({"data": 1_001}, may_leave=0))


# Who refuses each XADD of a pipeline, and how.
REFUSED: dict[str, Callable[[Side], None]] = {
    "NOAUTH Authentication required.": without_password,
    "MISCONF the disk is full": with_a_full_disk,
    OOM: at_maxmemory,
}


@pytest.mark.parametrize("pipelined", [pipeline, mixed_pipeline])
@pytest.mark.parametrize("refusal", REFUSED)
def test_xadds_refused_one_by_one_are_refused_in_a_run(
    refusal: str, pipelined: Callable[[int], list[bytes]]
) -> None:
    async def told() -> bytes:
        side = Side()
        side.send(1, b"".join(mixed_pipeline(3)))
        await side.end_tick()
        REFUSED[refusal](side)
        side.send(0, b"".join(pipelined(6)))
        await side.end_tick()
        return side.wires[0].got

    assert asyncio.run(told()) == b"-%b\r\n" % refusal.encode() * 6


@pytest.mark.parametrize("pipelined", [pipeline, mixed_pipeline])
def test_a_run_does_not_pass_a_command_of_the_same_name(
    pipelined: Callable[[int], list[bytes]],
) -> None:
    """Of two commands with one name the later counts, in a pipeline, too."""

    async def told() -> bytes:
        side = Side()
        side.send(1, b"".join(mixed_pipeline(3)))
        side.database.register([replace(COMMANDS[b"xadd"], run=lambda *_: Status(b"OURS"))])
        side.send(0, b"".join(pipelined(6)))
        await side.end_tick()
        return side.wires[0].got

    assert asyncio.run(told()) == b"+OURS\r\n" * 6


def test_durations_of_runs_are_added_up_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crdtstream.database.statistics.SAMPLES_MAX.value", 50)
    side = Side()
    for length in (1, 30, 30):
        side.send(0, b"".join(pipeline(length)))
    calls = side.database.statistics.of(b"xadd")
    assert (calls.calls, len(calls.samples)) == (61, 0)


def test_a_run_stops_at_the_bound_on_replication_lag() -> None:
    """I15: of a pipeline no more is taken than may be lost with the region."""

    async def replies() -> bytes:
        side = Side(peers=(2,))
        side.region.staleness.tune(lag_effects_max=50, lag_ms_max=0, action=LagAction.REFUSE)
        await side.end_tick()
        side.send(0, b"".join(pipeline(1)))
        side.send(0, b"".join(pipeline(400)))
        await side.end_tick()
        assert side.region.replica.issued == 50
        return side.wires[0].got

    got = asyncio.run(replies())
    assert (got.count(b"\r\n1000-"), got.count(b"Try again when the others")) == (50, 351)


def above_a_floor(seq: int = 1) -> Node:
    """A region in which x has just begun again; it had this ID, and other regions may know it."""
    r1, r2 = Node(1), Node(2)
    r2.run("XADD y 1 f v")
    r1.run(f"XADD x 5000-{seq} f v", "PEXPIRE x 10")
    sync(r1, r2)
    r1.now += 20
    r1.expire()
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    return r1


FIELDS = encode_fields([b"f", b"v"])


def test_a_run_goes_on_above_the_floor_of_a_key_that_expired() -> None:
    """Rule 7: a group elsewhere may have read that far."""
    r1 = above_a_floor()
    run = XaddRun(b"XADD", b"x", array("I", [len(FIELDS)] * 3), FIELDS * 3)
    replies = xadd_run(r1.replica, Millis(r1.now), run)
    assert [*re.findall(rb"\d+-\d+", replies)] == ids_in_x(r1)
    assert len(ids_in_x(r1)) == 3
    assert min(ids_in_x(r1)) > b"5000-0"


def mixed_of(*keys: bytes) -> MixedRun:
    return MixedRun(b"XADD", [*keys], array("I", [len(FIELDS)] * len(keys)), FIELDS * len(keys))


def test_a_mixed_run_goes_on_above_the_floor_of_a_key_that_expired() -> None:
    r1 = above_a_floor()
    run = mixed_of(b"x", b"y", b"x")
    run.streams = fitting(r1.replica, run, 0, None)
    first, _, second = re.findall(rb"\d+-\d+", mixed_run(r1.replica, Millis(r1.now), run))
    assert [first, second] == ids_in_x(r1)
    assert first > b"5000-0"


def test_a_mixed_run_is_told_of_by_registers_and_image() -> None:
    """Last IDs are as after single commands, and a checkpoint has them."""
    whole, single = Node(1), Node(1)
    for node in (whole, single):
        node.run("XADD x * f v", "XADD y * f v")
        node.cut()
        node.checkpoints.finish(node.replica)
        node.now += 5
    run = mixed_of(b"x", b"y", b"x")
    run.streams = fitting(whole.replica, run, 0, None)
    mixed_run(whole.replica, Millis(whole.now), run)
    single.run(*[f"XADD {key} * f v" for key in ("x", "y", "x")])
    assert whole.digest == single.digest
    whole.cut()
    whole.checkpoints.finish(whole.replica)
    whole.restart()
    assert whole.digest == single.digest


def test_a_mixed_run_ends_where_a_floor_leaves_too_few_ids() -> None:
    run = mixed_of(b"y", b"x", b"y")
    assert len(fitting(above_a_floor().replica, run, 0, None)) == 3
    assert len(fitting(above_a_floor(2**64 - 100).replica, run, 0, None)) == 1


def ids_in_x(node: Node) -> list[bytes]:
    return [entry_id.encode() for entry_id in list_of(str, node("XRANGE x - +"))]


def test_a_long_pipeline_is_cut_into_runs() -> None:
    assert check_same([Step(0, pipeline(1)), Step(0, pipeline(3000))]) == 3


def test_a_run_that_took_as_long_as_a_slow_command_is_told_of_once() -> None:
    side = Side()

    async def send() -> None:
        side.send(0, b"".join(pipeline(1)))
        await side.end_tick()
        side.database.clock = count(0, 12_000_000).__next__
        side.send(0, b"".join(pipeline(10)))
        await side.end_tick()

    asyncio.run(send())
    (call,) = side.server.slowlog.calls()
    assert (call.usec, call.arguments) == (12_000, [b"XADD", b"s", b"*", b"f", b"value 0"])
    xadd = dict(side.database.statistics.used())[b"xadd"]
    assert (xadd.calls, xadd.usec) == (11, 12_000)


# --- Out of bytes -------------------------------------------------------------------------------


def parse(*pieces: bytes) -> tuple[list[list[bytes]], str | None, int]:
    """The requests, the error that ended them if one did, and how many of them were in runs."""
    parser = RequestParser(RequestLimits())
    requests: list[list[bytes]] = []
    in_runs = 0
    try:
        for piece in pieces:
            for found in parser.parse(piece):
                if isinstance(found, XaddRun | MixedRun):
                    in_runs += len(found)
                    behind = (
                        found.behind(1) if isinstance(found, XaddRun) else found.part(1, len(found))
                    )
                    assert list(found.requests())[1:] == list(behind.requests())
                    requests += found.requests()
                else:
                    assert isinstance(found, list)
                    requests.append(found)
    except RequestError as error:
        return requests, error.text, in_runs
    return requests, None, in_runs


SLIPS = [b"", b"\r", b"\n", b"$", b"*", b"1", b"0", b"\r\n", b"x"]


def check_reads(runs: XaddRuns, sent: bytes) -> int:
    """A run at the beginning of the input reads as it does byte by byte; returns its length."""
    taken = runs.take(sent)
    if taken is None:
        return 0
    run, end = taken
    exact = ExactParser(RequestLimits())
    exact.feed(sent[:end])
    assert list(run.requests()) == list(iter(exact.take, None))
    assert exact.is_idle
    assert run.fields == b"".join(encode_fields(one[3:]) for one in run.requests())
    return len(run)


@settings(max_examples=examples(2000))
@given(runs_of_xadds(), st.lists(runs_of_xadds(), min_size=1, max_size=4), st.data())
def test_a_run_reads_as_it_does_byte_by_byte(
    before: list[bytes], sent_runs: list[list[bytes]], data: st.DataObject
) -> None:
    """Also with slips in it: what is malformed is in no run."""
    sent = bytearray(b"".join(chain.from_iterable(sent_runs)))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(sent) - 1))
        slip = data.draw(st.sampled_from(SLIPS))
        sent[at : at + data.draw(st.integers(0, 2))] = slip
    runs = XaddRuns()
    check_reads(runs, b"".join(before))
    check_reads(runs, bytes(sent))


# What a run of three XADDs becomes; and how many commands of it are in a run.
MALFORMED: dict[str, tuple[list[bytes], bytes, bytes, int]] = {
    "a value without its line end": (pipeline(3), b"value 1\r\n", b"value 1xx", 0),
    "a value that is too long": (pipeline(3), b"value 1", b"value 11", 0),
    "the last value without its line end": (pipeline(3), b"value 2\r\n", b"value 2xx", 0),
    "a mixed run's value without its line end": (
        *(mixed_pipeline(3), b"value 1\r\n", b"value 1xx"),
        0,
    ),
    "a mixed run's first value without its line end": (
        *(mixed_pipeline(3), b"value 0\r\n", b"value 0xx"),
        0,
    ),
    "a field's name without its length": (pipeline(3), b"$1\r\nf", b"$x\r\nf", 0),
    "the first of two values is too long": (
        *(lines(*[f"XADD s * f {value} g b" for value in "acd"]), b"$1\r\nc", b"$1\r\ncc"),
        0,
    ),
    "a key that is too long": (mixed_pipeline(4), b"$1\r\nu", b"$1\r\nuu", 2),
    "a key without its length": (mixed_pipeline(4), b"$1\r\nu", b"$x\r\nu", 2),
    "the first key is too long": (mixed_pipeline(4), b"$1\r\ns", b"$1\r\nss", 0),
}


@pytest.mark.parametrize("slip", MALFORMED)
def test_malformed_xadds_are_in_no_run(slip: str) -> None:
    requests, right, wrong, in_run = MALFORMED[slip]
    sent = b"".join(requests).replace(right, wrong, 1)
    assert check_reads(XaddRuns(), sent) == in_run
    # The form is known, then.
    runs = XaddRuns()
    assert check_reads(runs, b"".join(mixed_pipeline(3))) == 3
    assert check_reads(runs, sent) == in_run


def test_another_command_behind_a_mixed_run_is_none() -> None:
    """Though all but its name is as in an XADD of the form that was read before."""
    runs = XaddRuns()
    assert check_reads(runs, b"".join(mixed_pipeline(3))) == 3
    other = mixed_pipeline(1)[0].replace(b"XADD", b"XNEW")
    assert check_reads(runs, b"".join([other, *mixed_pipeline(3)[1:], other])) == 0


def test_a_client_is_taken_to_go_on_as_it_did() -> None:
    """After a mixed run, one that begins with two entries of one stream is looked for as mixed."""
    alike, mixed = pipeline(3), [*pipeline(2), *mixed_pipeline(3)[1:]]
    runs = XaddRuns()
    lengths = [
        check_reads(runs, b"".join(sent))
        for sent in (mixed, mixed_pipeline(3), mixed, alike, mixed)
    ]
    assert lengths == [2, 3, 4, 3, 2]


@pytest.mark.parametrize(
    ("sent", "in_runs"),
    [
        (pipeline(1), 0),
        (pipeline(2), 2),
        (pipeline(100), 100),
        (pipeline(1) + pipeline(2, key=b"t"), 3),
        (mixed_pipeline(7), 7),
        ([*mixed_pipeline(7), *lines("PING"), *mixed_pipeline(2)], 7),
        ([*mixed_pipeline(3), mixed_pipeline(1)[0][:-3]], 3),
        ([*mixed_pipeline(2), *lines("XADD s * f a g b", "XADD t * f a")], 2),
        ([*mixed_pipeline(2), request(b"XADD", b"u", b"*", b"f", b"y" * 5000)], 2),
        (pipeline(2) + pipeline(3, key=b"t"), 5),
        ([*pipeline(3), *lines("PING")], 3),
        (lines("XADD s * f a g b", "XADD s * f c g d"), 2),
        (lines("XADD s * f a g b", "XADD s * f c h d"), 0),
        ([*lines(*["XADD s * f a g b"] * 2), lines("XADD s * f a g b")[0][:-14]], 2),
        ([request(b"XADD", b"s", b"*", b"f", one) for one in (b"a", b"b\r\n*c", b"d")], 3),
        (lines("xadd s * f a", "xadd s * f b"), 2),
        (lines("XADD s *", "XADD s *"), 0),
        (lines("XADD s * f", "XADD s * f"), 0),
        (lines("XADD s * f a g", "XADD s * f a g"), 0),
        (lines("XADD s 1 f v", "XADD s 2 f v"), 0),
        (lines("XADD s 5 f v", "XADD s 5 f v"), 0),
        # A command that is cut off, in a value like the beginning of another.
        ([request(b"XADD", b"s", b"*", b"f", b"a", b"g", b"*7\r\n$4\r\nXADD-")[:-3]], 0),
        ([*pipeline(3), pipeline(1)[0][:-3]], 3),
        ([one.replace(b"$1\r\n*", b"$01\r\n*") for one in pipeline(2)], 0),
    ],
)
def test_commands_of_one_form_in_a_row_are_a_run(sent: list[bytes], in_runs: int) -> None:
    assert parse(b"".join(sent))[2] == in_runs


# --- What it costs ------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [["f"], ["f", "g"]])
def test_an_xadd_in_a_pipeline_calls_hardly_anything(fields: list[str]) -> None:
    """Counts, not times: they are the same on any machine."""
    side = Side()
    text = "XADD s * " + " ".join(f"{name} v" for name in fields)
    sent = b"".join(lines(*[text] * 100))
    side.send(0, sent)
    side.region.ready(side.engine.now())
    assert calls_of(lambda: side.send(0, sent)) < 3 * 100


def test_an_xadd_to_a_new_stream_costs_the_same_in_a_long_pipeline() -> None:
    """The look for the streams of a run ends where it cannot go on, and begins again behind it."""

    def calls_each(count: int) -> float:
        side = Side()
        sent = b"".join(lines(*[f"XADD s:{number} * f v" for number in range(count)]))
        return calls_of(lambda: side.send(0, sent)) / count

    assert calls_each(400) < 1.5 * calls_each(50)
