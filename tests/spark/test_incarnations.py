"""Offsets of a region that went on in another folder, and gave numbers of effects again.

The reader is asked as Spark would ask it.  The nodes are fakes that judge tokens as nodes do.
"""

import json
import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

pytest.importorskip("pyspark")

from crdtstream.commands.beyond_redis.version_vectors import (
    Named,
    encode_version_vector,
    parse_version_vector,
)
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Begin, Lineage
from crdtstream.core.membership.lost import ends_for, lost_of
from crdtstream.core.membership.lost import told_lost as told_by_nodes
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.spark.entries import default_schema
from crdtstream.spark.nodes import DataLossError
from crdtstream.spark.options import OptionsError, SourceOptions, ValueFormat
from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS, ReadMaxRows
from crdtstream.spark.stream_source import EntriesStreamReader
from crdtstream.spark.unlimited_reader import UnlimitedReader
from crdtstream.spark.vectors import Ends, Vector, VectorError, join, offset_of, parse_vector
from crdtstream.v1 import query_pb2 as pb
from tests.harness.regions import Node
from tests.spark.fake_node import UID, pieces
from tests.spark.test_stream_offsets import ALL, OWN, Region, ranges_of, reader_of, rows_of, vector

R1 = RegionId(1)
FIRST = Begin(1000, b"first folder....", 0)
# The first one had 1:70 when it was lost, and the backup had 1:65.
SECOND = Begin(2000, b"second folder...", 65)
THIRD = Begin(3000, b"third folder....", 67)
LOST = (
    "LOST region 1 goes on in another folder, which began after its effect 65; of its effects 66…"
    " nothing exists"
)
HAD = {"1": 70, "2": 5, **OWN}


class Numbered(Region):
    """A node that knows incarnations of region 1, and judges tokens by the code of real ones."""

    def __init__(self, region: int, *begins: Begin, **counts: int) -> None:
        super().__init__(region, **counts)
        self.replica: Replica = Node(region).replica
        self.replica.database_uid = DatabaseUid(bytes.fromhex(UID))
        self.begin(*begins)
        before = self.on["GetPosition"]
        self.on["GetPosition"] = lambda request, context: self._position(
            request, before(request, context)
        )
        self.on["Plan"] = self._judged_plan

    def begin(self, *begins: Begin) -> None:
        lineage = Lineage()
        for one in begins:
            lineage = lineage.begun(one)
        self.replica.lineages = {R1: lineage}

    def _named(self, token: str) -> Named:
        return parse_version_vector(token.encode(), self.replica.database_uid, what="token")

    def _token(self, message: Any) -> str:
        vv = dict(zip(map(RegionId, message.regions), message.counts, strict=True))
        return encode_version_vector(self.replica, vv).decode()

    def _position(self, request: pb.PositionRequest, position: pb.Position) -> pb.Position:
        position.token = self._token(position.durable_vv)
        if request.token:
            named = self._named(request.token)
            for lost in self.replica.lost_of(named.vv, named.numbers):
                position.lost.add(region=lost.region, last_n=lost.end.last_n, why=lost.end.why)
            position.unheard.extend(self.replica.unheard_of(named.vv, named.numbers))
        return position

    def _judged_plan(self, request: pb.PlanRequest, context: grpc.ServicerContext) -> pb.PlanReply:
        for token in (request.above_token, request.upto_token):
            named = self._named(token)
            lost = self.replica.lost_of(named.vv, named.numbers)
            if lost:
                context.abort(grpc.StatusCode.OUT_OF_RANGE, told_by_nodes(lost))
        reply = self._plan(request)
        reply.end_token = self._token(reply.end)
        return reply


Make = Callable[..., Numbered]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Numbered] = []

    def make_region(region: int, *begins: Begin, **counts: int) -> Numbered:
        made.append(Numbered(region, *begins, **counts))
        return made[-1]

    yield make_region
    for region in made:
        region.stop()


def test_a_first_incarnation_is_not_named(make: Make) -> None:
    """Ordinary offsets are as they were."""
    reader = reader_of(make(1, FIRST, r1=7))
    assert reader.latestOffset({}, ALL) == {"1": 7, **OWN}


def test_offsets_name_a_later_one_and_are_read_again(make: Make) -> None:
    node = make(2, FIRST, SECOND, r1=70, r2=5)
    reader = reader_of(node)
    end = reader.latestOffset({}, ALL)
    assert end == {"1": "70@2000", "2": 5, **OWN}
    assert reader.latestOffset(end, ALL) is end
    (task,) = reader.partitions({"1": 60, **OWN}, json.loads(json.dumps(end)))
    assert [(one.origin, one.upto_n, one.request.upto_token) for one in ranges_of(task)] == [
        (1, 70, "1:70@2000"),
        (2, 5, "2:5"),
    ]
    assert (node.requests("Plan")[-1].above_token, node.requests("Plan")[-1].upto_token) == (
        "1:60",
        "1:70@2000,2:5",
    )


def test_a_query_ends_on_effects_of_a_lost_folder(make: Make) -> None:
    node = make(2, FIRST, SECOND, r1=72, r2=5)
    with pytest.raises(DataLossError, match=f"{LOST}, and the checkpoint names 5 of them"):
        reader_of(node).latestOffset(HAD, ALL)
    # A batch that is run again: its beginning was read, its end was not.
    with pytest.raises(DataLossError, match=LOST):
        reader_of(node).partitions({"1": 60, **OWN}, HAD)


def test_a_query_that_bears_losses_reads_what_has_these_numbers_now(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    node = make(2, FIRST, SECOND, r1=72, r2=5)
    reader = reader_of(node, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        told = reader.latestOffset(HAD, ALL)
        assert told == {"1": 65, "2": 5, **OWN}
        assert reader.partitions(HAD, told) == []
        end = reader.latestOffset(told, ALL)
    assert end == {"1": "72@2000", "2": 5, **OWN}
    (task,) = reader.partitions(told, end)
    assert [(one.origin, one.above_n, one.upto_n) for one in ranges_of(task)] == [(1, 65, 72)]
    # Told once, and counted.
    assert [record.getMessage().count(LOST) for record in caplog.records] == [1]
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["lostEffects"] == {"1": 5}
    assert parse_vector(report) == Vector({1: 72, 2: 5}, {1: "@2000"})


def test_each_loss_of_a_region_is_told_and_counted(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the smaller one."""
    node = make(2, FIRST, SECOND, r1=72, r2=5)
    reader = reader_of(node, failOnDataLoss="false")
    reader.latestOffset(HAD, ALL)
    node.begin(FIRST, SECOND, THIRD)
    with caplog.at_level(logging.WARNING):
        told = reader.latestOffset({"1": "69@2000", **OWN}, ALL)
    assert told == {"1": "67@2000", **OWN}
    assert "began after its effect 67" in caplog.text
    assert (reader.reportLatestOffset() or {})["lostEffects"] == {"1": 5 + 2}


def test_a_batch_that_is_run_again_ends_where_the_folder_did(make: Make) -> None:
    reader = reader_of(make(2, FIRST, SECOND, r1=72, r2=5), failOnDataLoss="false")
    tasks = reader.partitions({"1": 60, "2": 5, **OWN}, HAD | {"cuts": [[1, 63], [1, 68]]})
    ranges = [ranges_of(task)[0] for task in tasks]
    assert [(one.above_n, one.upto_n) for one in ranges] == [(60, 63), (63, 65)]


def test_effects_that_the_backup_had_are_no_loss(make: Make) -> None:
    start = {"1": 65, "2": 5, **OWN}
    reader = reader_of(make(2, FIRST, SECOND, r1=65, r2=5))
    assert reader.latestOffset(start, ALL) is start


def test_trims_of_the_lost_folder_hide_no_later_loss(make: Make) -> None:
    """Dot 70 was trimmed before the query began; the dot 68 that is trimmed now is another one."""
    node = make(2, FIRST, SECOND, r1=72, r2=5)
    reader = reader_of(node, failOnDataLoss="false")
    told = reader.latestOffset(HAD | {"lostBefore": {"s/1": 71, "s/2": 9}}, ALL)
    assert told == {"1": 65, "2": 5, **OWN, "lostBefore": {"s/2": 9}}
    node.losses = [pb.Loss(key=b"s", origin=1, lost_n=68)]
    with pytest.raises(DataLossError, match="up to dot 68"):
        reader_of(node).latestOffset(told, ALL)


def test_a_node_that_has_not_heard_of_an_incarnation_has_nothing_of_it(make: Make) -> None:
    """Its numbers would do, and are of other effects."""
    start = {"1": "66@2000", **OWN}
    behind, ahead = make(2, FIRST, r1=69, r2=5), make(3, FIRST, SECOND, r1=68, r2=5)
    reader = reader_of(behind, ahead)
    assert reader.latestOffset(start, ALL) == {"1": "68@2000", "2": 5, **OWN}
    # While no other one answers it is waited for.
    alone = reader_of(behind, "127.0.0.1:1")
    assert alone.latestOffset(start, ALL) == {"1": "66@2000", "2": 5, **OWN}


def test_a_task_that_was_reading_as_the_folder_was_lost_fails(make: Make) -> None:
    node = make(2, FIRST, r1=70, r2=5)
    reader = reader_of(node, failOnDataLoss="false")
    (task,) = reader.partitions({"1": 60, "2": 5, **OWN}, HAD)

    def scan(request: pb.ScanRequest, context: grpc.ServicerContext) -> Any:
        named = node._named(request.upto_token)
        lost = node.replica.lost_of(named.vv, named.numbers)
        if lost:
            context.abort(grpc.StatusCode.OUT_OF_RANGE, told_by_nodes(lost))
        return pieces(b"", size=1)

    node.on["Scan"] = scan
    node.begin(FIRST, SECOND)
    with pytest.raises(DataLossError, match=f"^{LOST}$"):
        rows_of(reader, task)


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="this PySpark does not limit batches")
def test_the_end_of_a_limited_batch_is_named_too(make: Make) -> None:
    node = make(2, FIRST, SECOND, r1=72)

    def plan(request: pb.PlanRequest, context: grpc.ServicerContext) -> pb.PlanReply:
        if not request.only_end:
            return node._judged_plan(request, context)
        return pb.PlanReply(end=vector(r1=69), end_token=UID + "/1:69@2000")

    node.on["Plan"] = plan
    end = reader_of(node).latestOffset({"1": 60, **OWN}, ReadMaxRows(9))
    assert end == {"1": "69@2000", **OWN}


@pytest.mark.parametrize("counts", [{"r1": 72}, {"r1": 68}])
def test_pyspark_4_1_goes_on_though_the_end_is_below_what_was_read(
    make: Make, counts: dict[str, int]
) -> None:
    """It asks where to end before it says where the query was."""
    given = {"nodes": make(2, FIRST, SECOND, r2=5, **counts).address, "failOnDataLoss": "false"}
    options = SourceOptions.parse(given)
    reader = UnlimitedReader(
        EntriesStreamReader(default_schema(ValueFormat.STRING), options), options
    )
    end = reader.latestOffset()
    assert reader.partitions(HAD, HAD) == []
    reader.latestOffset()
    (task,) = reader.partitions(HAD, end)
    found = [(one.origin, one.above_n, one.upto_n) for one in ranges_of(task)]
    assert found == [(1, 65, counts["r1"])]


@pytest.mark.parametrize("offsets", ["startingOffsets", "endingOffsets"])
def test_a_vector_that_is_given_may_name_incarnations(offsets: str) -> None:
    reader = reader_of("127.0.0.1:1", startingOffsets='{"1": "5@2000"}')
    assert reader._options.starting_offsets == Vector({1: 5}, {1: "@2000"})
    with pytest.raises(OptionsError, match="'5@' of region 1 is no number of effects"):
        reader_of("127.0.0.1:1", **{offsets: '{"1": "5@"}'})


# --- Vectors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["5", "5@", "@5", "5@1,2:7", "5@1/x", "-5@1", "5 @1", f"{2**64}@1", "5@" + "1" * 65]
)
def test_malformed_numbers_of_an_incarnation_are_refused(wrong: str) -> None:
    with pytest.raises(VectorError, match="is no number of effects"):
        parse_vector({"1": wrong})


def test_a_vector_keeps_what_its_numbers_are_of() -> None:
    one = Vector({1: 5, 2: 7}, {1: "@2000", 3: "@9"})
    assert one.marks == {1: "@2000"}
    assert one.token == "1:5@2000,2:7"
    assert parse_vector(offset_of(one, UID)) == one != {1: 5, 2: 7}
    assert pickle.loads(pickle.dumps(one)) == one
    assert Vector().token == "0"
    assert join([one, Vector({1: 4, 2: 8, 3: 1})]) == Vector({1: 5, 2: 8, 3: 1}, {1: "@2000"})
    # As the later one names it, which is newer.
    assert join([Vector({1: 5}), one]).marks == {1: "@2000"}


def test_other_numbers_of_an_incarnation_keep_what_a_mark_says_of_it_alone() -> None:
    one = Vector({1: 5, 2: 7, 3: 9}, {1: "@2000", 2: "@2000~6.9c41e07d", 3: "~9c41e07d"})
    assert parse_vector(offset_of(one)) == one
    assert one.at({1: 4, 2: 7, 3: 9}).token == "1:4@2000,2:7@2000~6.9c41e07d,3:9~9c41e07d"
    assert one.at({1: 5, 2: 6, 3: 8}).token == "1:5@2000,2:6@2000,3:8"
    above = Vector({2: 3}, {2: "@1000"})
    assert one.between(above, {1: 1, 2: 3, 3: 9}).token == "1:1@2000,2:3@1000,3:9~9c41e07d"


def test_ends_are_of_the_incarnation_that_was_asked_about() -> None:
    ends, first, second = Ends(), Vector({1: 70}), Vector({1: 70}, {1: "@2000"})
    end = pb.EndOfRegion(region=1, last_n=65, why="goes on")
    ends.hear(pb.Position(lost=[end]), first)
    assert ends.within(first) == {1: 65}
    assert ends.within(second) == second
    # It is removed later: whichever ends sooner.
    ends.hear(pb.Position(ends=[pb.EndOfRegion(region=1, last_n=67)]), first)
    assert (ends.within(first)[1], ends.within(second)[1]) == (65, 67)


def test_the_sentence_is_that_of_the_nodes() -> None:
    lineages = {R1: Lineage().begun(FIRST).begun(SECOND)}
    vv = {R1: 70}
    (lost,) = lost_of(vv, ends_for({}, lineages, vv, {}))
    assert told_by_nodes([lost]) == LOST
