"""Numbered producers: each row once, whatever is tried again, where, and in which order."""

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from crdtstream.core.clock import Dot, meet
from crdtstream.core.effects import Numbered
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.producers.numbered import (
    PRODUCERS_MAX,
    NumberedRecords,
    StaleBatchError,
)
from crdtstream.core.ranges import Ranges
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.query.append_rows import append_numbered, checked_rows
from tests.harness.regions import Node, nodes_of, sync
from tests.harness.replies import list_of


def append(
    node: Node, *rows: int, batch: int = 0, producer: bytes = b"q:0", key: bytes = b"x"
) -> int:
    """Append consecutive rows, each with its number as the value; how many were missing."""
    first = Numbered(producer, batch, rows[0])
    fields = [encode_fields([b"row", b"%d.%d" % (batch, row)]) for row in rows]
    columns = checked_rows(first, array("I", map(len, fields)), b"".join(fields))
    node.replica.advance(Millis(node.now))
    count = append_numbered(node.replica, Millis(node.now), key, first, columns)
    node.end_tick()
    return count


def values(node: Node, key: bytes = b"x") -> list[str]:
    """The rows that are there, in the order of their IDs."""
    stream = node.replica.stream(key)
    return [
        bytes(macro.fields_at(index)).split(b"\r\n")[-2].decode()
        for _, _, macro, index in ([] if stream is None else stream.scan())
    ]


def names(node: Node) -> list[tuple[bytes, bytes] | None]:
    stream = node.replica.stream(b"x")
    assert stream is not None
    return [macro.idempotent_at(index) for _, _, macro, index in stream.scan()]


def test_a_retry_appends_only_what_is_missing() -> None:
    node = Node(1)
    assert append(node, *range(5)) == 5
    assert append(node, *range(3, 9)) == 4
    assert append(node, *range(9)) == 0
    assert values(node) == [f"0.{row}" for row in range(9)]
    assert names(node) == [(b"q:0", b"0:%d" % row) for row in range(9)]


def test_a_retry_in_another_region_is_recognised_once_it_has_the_first() -> None:
    r1, r2 = Node(1), Node(2)
    append(r1, *range(4))
    r2.pull(r1)
    assert append(r2, *range(6)) == 2
    sync(r1, r2)
    assert values(r1) == [f"0.{row}" for row in range(6)]


def test_of_concurrent_rows_those_of_the_smaller_region_stay() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    append(r2, *range(6))
    append(r1, *range(2, 9))
    r3.pull(r2, r1)
    sync(r1, r2, r3)
    stream = r3.replica.stream(b"x")
    assert stream is not None
    assert stream.lanes[RegionId(2)].length == 2
    assert sorted(values(r1)) == [f"0.{row}" for row in range(9)]


def test_numbered_rows_are_recognised_whatever_their_count_and_age() -> None:
    node = Node(1)
    node.replica.keys.idmp_maxsize = node.replica.keys.idmp_duration_s = 1
    for start in range(0, 1000, 100):
        append(node, *range(start, start + 100))
    node.now += 10_000_000
    assert append(node, *range(1000)) == 0


def test_a_batch_is_recognised_until_a_later_one_must_have_been_committed() -> None:
    node = Node(1)
    append(node, 0, 1, batch=5)
    append(node, 0, batch=6)
    # While batch 6 runs, 5 may be what was committed last; it is not certain before 7 begins.
    assert append(node, 0, 1, batch=5) == 0
    append(node, 0, batch=7)
    with pytest.raises(StaleBatchError, match=r"batch 5 .* is over"):
        append(node, 0, 1, batch=5)
    assert append(node, 0, batch=6) == 0
    assert values(node) == ["5.0", "5.1", "6.0", "7.0"]


def test_producers_and_streams_do_not_meet() -> None:
    node = Node(1)
    append(node, 0, batch=9)
    assert append(node, 0, producer=b"q:1") == 1
    assert append(node, 0, key=b"y") == 1
    assert values(node, b"y") == ["0.0"]


def test_records_are_ranges_once_they_are_stable() -> None:
    node = Node(1)
    for row in range(0, 300, 3):
        append(node, row, row + 1, row + 2)
    assert node.replica.idempotency_record_count == 100
    node.replica.forget_stable(node.replica.vv)
    assert node.replica.idempotency_record_count == 0
    assert node.replica.missing_rows(b"x", Numbered(b"q:0", 0, 0), 305) == [(300, 305)]


def test_rivals_of_an_old_batch_are_settled_until_it_is_stable() -> None:
    r1, r2 = Node(1), Node(2)
    append(r1, 0, 1)
    append(r1, 0, batch=2)
    append(r2, 0, 1)
    sync(r1, r2)
    assert sorted(values(r2)) == ["0.0", "0.1", "2.0"]


def test_a_deleted_stream_recognises_nothing_and_records_outlive_it() -> None:
    r1, r2 = Node(1), Node(2)
    append(r1, 0, 1)
    r1.run("DEL x")
    append(r2, 0, 1)
    assert append(r1, 0) == 1
    sync(r1, r2)
    # Row 0 of region 2 lost to both of region 1; row 1 lost to the one that is deleted.
    assert values(r2) == ["0.0"]


def test_after_a_delete_batches_count_anew_also_over_a_restart() -> None:
    node = Node(1)
    append(node, 0, batch=9)
    node.replica.forget_stable(node.replica.vv)
    node.run("DEL x")
    assert append(node, *range(10)) == 10
    assert append(node, *range(10)) == 0
    node.restart()
    assert append(node, *range(10)) == 0
    node.replica.forget_stable(node.replica.vv)
    assert append(node, *range(10)) == 0
    assert len(values(node)) == 10


def test_after_a_delete_every_region_recognises_the_same() -> None:
    r1, r2 = Node(1), Node(2)
    append(r1, 0, batch=9)
    sync(r1, r2)
    r1.replica.forget_stable(r1.replica.vv)
    r1.run("DEL x")
    append(r1, *range(10))
    sync(r1, r2)
    r2.replica.forget_stable(r2.replica.vv)
    assert append(r2, *range(10)) == 0
    sync(r1, r2)
    assert len(values(r1)) == 10


def test_an_expired_stream_recognises_nothing() -> None:
    node = Node(1)
    append(node, 0, 1)
    node.run("PEXPIRE x 10")
    node.now += 100
    assert append(node, 0) == 1
    assert values(node) == ["0.0"]


@pytest.mark.parametrize("command", ["XDEL x {0}", "XTRIM x MAXLEN 0"])
def test_rows_that_were_removed_are_not_appended_again(command: str) -> None:
    node = Node(1)
    append(node, 0)
    (entry_id,) = list_of(str, node("XRANGE x - +"))
    node.run(command.format(entry_id))
    assert append(node, 0) == 0


def test_a_restart_recognises_as_before() -> None:
    node = Node(1)
    append(node, *range(4), batch=1)
    append(node, 0, batch=3)
    node.restart()
    assert append(node, *range(2), batch=3) == 1
    with pytest.raises(StaleBatchError):
        append(node, 0, batch=1)


def test_a_run_survives_the_wire_and_a_transaction_around_it() -> None:
    r1, r2 = Node(1), Node(2)
    r1("XADD x 1-1 f v")
    append(r1, *range(250))
    r2.pull(r1)
    assert names(r2)[1:] == [(b"q:0", b"0:%d" % row) for row in range(250)]
    record = next(record for record in r1.log if record.batch is not None)
    assert record.batch is not None
    (run,) = decode_batch(record.batch).appends.numbered
    assert (run.at, run.count, run.first) == (1, 250, Numbered(b"q:0", 0, 0))


def test_a_copy_keeps_the_names() -> None:
    node = Node(1)
    append(node, 0, 1)
    node.run("COPY x y")
    stream = node.replica.stream(b"y")
    assert stream is not None
    assert [macro.idempotent_at(at) for _, _, macro, at in stream.scan()] == names(node)


def test_the_silent_go_when_there_are_too_many() -> None:
    records = NumberedRecords()
    noted: set[bytes] = set()
    for n in range(PRODUCERS_MAX.value + 2):
        rows = Numbered(b"%d" % n, 0, 0)
        records.add(b"x", rows, 1, Dot(RegionId(1), n + 1), {RegionId(1): n + 1})
    # Whatever is not stable stays.
    assert records.missing(b"x", Numbered(b"0", 0, 0), 1) == []
    while len(records):
        records.forget_stable({RegionId(1): PRODUCERS_MAX.value + 2}, note=noted.add)
    last = Dot(RegionId(1), PRODUCERS_MAX.value + 3)
    records.add(b"x", Numbered(b"last", 0, 0), 1, last, {RegionId(1): last.n})
    assert records.missing(b"x", Numbered(b"2", 0, 0), 1) == [(0, 1)]
    assert records.missing(b"x", Numbered(b"3", 0, 0), 1) == []


@pytest.mark.parametrize(
    ("producer", "lengths", "fields", "says"),
    [
        (b"", [5], b"*0\r\n", "producer"),
        (b"q" * 1025, [18], encode_fields([b"f", b"v"]), "producer"),
        (b"q", [], b"", "lengths"),
        (b"q", [17], encode_fields([b"f", b"v"]), "sum of the lengths"),
        (b"q", [18, 18], encode_fields([b"f", b"v"]) + b"*2\r\n$1\r\nf\r\n$1\r\n\r\nv", "row 1"),
    ],
)
def test_malformed_rows_are_refused(
    producer: bytes, lengths: list[int], fields: bytes, says: str
) -> None:
    with pytest.raises(BatchError, match=says):
        checked_rows(Numbered(producer, 0, 0), array("I", lengths), fields)


RANGES = st.tuples(st.integers(0, 20), st.integers(1, 6)).map(lambda pair: (pair[0], sum(pair)))


@given(wanted=RANGES, others=st.lists(RANGES, max_size=5))
def test_ranges_are_sets_of_rows(wanted: tuple[int, int], others: list[tuple[int, int]]) -> None:
    covered = {row for start, stop in others for row in range(start, stop)}
    joined: Ranges[int] = Ranges()
    for start, stop in others:
        joined.add(start, stop)
    left = joined.missing(*wanted)
    assert [row for start, stop in left for row in range(start, stop)] == [
        row for row in range(*wanted) if row not in covered
    ]
    assert [row for start, stop in joined for row in range(start, stop)] == sorted(covered)
    assert all(one[1] < other[0] for one, other in pairwise(joined))


class RetryMachine(RuleBasedStateMachine):
    """A writer of one batch after the other, tried again in any region, over any delivery."""

    @initialize()
    def start(self) -> None:
        self.nodes = nodes_of(1, 2, 3)
        self.batch = 0
        self.written: dict[int, int] = {0: 0}

    @rule(at=st.integers(0, 2), count=st.integers(1, 5), back=st.integers(0, 6))
    def write(self, at: int, count: int, back: int) -> None:
        """Rows of this batch or the last one, also such as were written before."""
        batch = self.batch - (back > 4 and self.batch > 0)
        start = max(0, self.written[batch] - back)
        if batch < self.batch:
            # Only what its tasks had written when it was committed.
            count = min(count, self.written[batch] - start)
        if count < 1:
            return
        append(self.nodes[at], *range(start, start + count), batch=batch)
        self.written[batch] = max(self.written[batch], start + count)

    @property
    def replicas(self) -> list[Replica]:
        return [node.replica for node in self.nodes]

    @rule()
    def commit(self) -> None:
        self.batch += 1
        self.written[self.batch] = 0

    @rule(to=st.integers(0, 2), source=st.integers(0, 2))
    def deliver(self, to: int, source: int) -> None:
        if to != source:
            self.nodes[to].pull(self.nodes[source])

    @rule(at=st.integers(0, 2))
    def restart(self, at: int) -> None:
        self.nodes[at].restart()

    @rule()
    def forget(self) -> None:
        """A member's version vector counts once everything that it had issued by then is here."""
        for node in self.nodes:
            vv = node.replica.vv
            if all(vv.get(one.region, 0) >= one.issued for one in self.replicas):
                node.replica.forget_stable(meet([one.vv for one in self.replicas]))

    def teardown(self) -> None:
        sync(*self.nodes)
        wanted = [f"{batch}.{row}" for batch, count in self.written.items() for row in range(count)]
        assert sorted(values(self.nodes[0])) == sorted(wanted)


TestRetries = RetryMachine.TestCase
