"""Offsets of the streaming source, without Spark: the reader is asked as Spark would ask it."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import lost_of, removed_ends
from crdtstream.core.membership.lost import told_lost as told_by_nodes
from crdtstream.spark.entries import default_schema
from crdtstream.spark.nodes import (
    DataLossError,
    Nodes,
    NodesError,
    OtherDatabaseError,
    UnansweredError,
)
from crdtstream.spark.options import OptionsError, Security, SourceOptions, ValueFormat
from crdtstream.spark.pyspark_versions import ReadAllAvailable, ReadMaxRows
from crdtstream.spark.ranges import EntryRange, RangesPartition
from crdtstream.spark.stream_source import EntriesStreamReader
from crdtstream.spark.vectors import (
    CUTS,
    cut_at,
    cut_by_dots,
    cuts_by_entries,
    parse_vector,
    told_lost,
)
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from tests.live.cluster import Cluster, running_regions
from tests.spark.fake_node import UID, FakeNode
from tests.spark.test_nodes import Clock, Code, refuses

ALL = ReadAllAvailable()
# What every offset says that names dots.
OWN = {"database": UID}
OTHER_UID = "77aa" * 8


def vector(**counts: int) -> effects_pb2.VersionVector:
    """``vector(r1=5, r2=7)``."""
    pairs = sorted((int(name[1:]), n) for name, n in counts.items())
    return effects_pb2.VersionVector(
        regions=[region for region, _ in pairs], counts=[n for _, n in pairs]
    )


class Region(FakeNode):
    """A node with one stream in which every dot is an entry."""

    def __init__(self, region: int, **counts: int) -> None:
        super().__init__()
        self.region = region
        self.durable = vector(**counts)
        self.losses: list[pb.Loss] = []
        self.ends: list[pb.EndOfRegion] = []
        self.database_uid = UID
        self.on["GetPosition"] = lambda _request, _context: pb.Position(
            region=self.region,
            database_id="db",
            durable_vv=self.durable,
            database_uid=bytes.fromhex(self.database_uid),
            ends=self.ends,
        )
        self.on["Plan"] = lambda request, _context: self._plan(request)

    def _plan(self, request: pb.PlanRequest) -> pb.PlanReply:
        above = dict(zip(request.above.regions, request.above.counts, strict=True))
        upto = dict(zip(request.upto.regions, request.upto.counts, strict=True))
        ranges = [
            pb.Range(
                key=b"s",
                origin=origin,
                above_n=above.get(origin, 0),
                upto_n=n,
                entries=n - above.get(origin, 0),
            )
            for origin, n in upto.items()
        ]
        return pb.PlanReply(
            end=request.upto, ranges=[] if request.only_end else ranges, losses=self.losses
        )


@pytest.fixture
def make() -> Iterator[Callable[..., Region]]:
    made: list[Region] = []

    def make_region(region: int, **counts: int) -> Region:
        made.append(Region(region, **counts))
        return made[-1]

    yield make_region
    for region in made:
        region.stop()


def reader_of(*nodes: Any, **options: str) -> EntriesStreamReader:
    addresses = ",".join(getattr(node, "address", node) for node in nodes)
    given = {"nodes": addresses, "failoverSeconds": "5"} | options
    return EntriesStreamReader(default_schema(ValueFormat.STRING), SourceOptions.parse(given))


def test_the_limit_is_the_options(make: Callable[..., Region]) -> None:
    node = make(1)
    assert reader_of(node).getDefaultReadLimit() == ReadAllAvailable()
    limited = reader_of(node, maxEntriesPerTrigger="7")
    assert limited.getDefaultReadLimit() == ReadMaxRows(7)


def test_an_end_is_for_batches() -> None:
    with pytest.raises(OptionsError, match=r"endingOffsets is for spark\.read"):
        reader_of("a:1", endingOffsets='{"1": 5}')


def test_without_news_the_offset_is_the_very_same(make: Callable[..., Region]) -> None:
    reader = reader_of(make(1, r1=5, r2=7))
    start = {"2": 7, "1": 5, **OWN}
    assert reader.latestOffset(start, ALL) is start
    # Also when it names zeros, or regions that this node never heard of.
    assert reader_of(make(1)).latestOffset({"1": 0, **OWN}, ALL) == {"1": 0, **OWN}


def test_effects_of_other_streams_and_regions_are_no_news(make: Callable[..., Region]) -> None:
    node = make(1, r1=5, r2=7)
    assert reader_of(node, regions="3").latestOffset({}, ALL) == {}
    node.on["Plan"] = lambda _request, _context: pb.PlanReply(end=node.durable)
    assert reader_of(node).latestOffset({"1": 1, **OWN}, ALL) == {"1": 1, **OWN}


def test_an_offset_never_goes_back(make: Callable[..., Region]) -> None:
    """The node that took over lacks some of region 1, and has more of region 2."""
    reader = reader_of(make(2, r1=450, r2=60))
    start = {"1": 500, "2": 40, **OWN}
    end = reader.latestOffset(start, ALL)
    assert end == {"1": 500, "2": 60, **OWN}
    (partition,) = reader.partitions(start, end)
    assert isinstance(partition, RangesPartition)
    assert [(r.origin, r.above_n, r.upto_n) for r in partition.ranges] == [(2, 40, 60)]


def test_a_node_that_has_all_that_was_read_goes_before_one_that_has_not(
    make: Callable[..., Region],
) -> None:
    behind, ahead = make(2, r1=450), make(1, r1=510)
    reader = reader_of(behind, ahead)
    assert reader.latestOffset({"1": 500, **OWN}, ALL) == {"1": 510, **OWN}
    assert behind.requests("Plan") == []


def test_a_plan_names_nothing_but_what_is_new(make: Callable[..., Region]) -> None:
    """So no node is asked for dots that it lacks and that were read long ago."""
    node = make(2, r1=450, r2=60)
    reader_of(node).latestOffset({"1": 500, "2": 40, "3": 9, **OWN}, ALL)
    (request,) = node.requests("Plan")
    assert (request.above, request.upto) == (vector(r2=40), vector(r2=60))
    assert list(request.origins) == [2]


def test_an_offset_that_no_node_reaches_in_time_is_of_another_database(
    make: Callable[..., Region], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("crdtstream.spark.stream_source.time", clock)
    reader = reader_of(make(1, r1=4), make(2, r1=4), failoverSeconds="30")
    start = {"1": 500, **OWN}
    assert reader.latestOffset(start, ALL) == start
    clock.seconds += 29
    assert reader.latestOffset(start, ALL) == start
    clock.seconds += 1
    with pytest.raises(NodesError, match=r"regions \[1\].*another database"):
        reader.latestOffset(start, ALL)


def test_while_a_node_does_not_answer_it_may_be_the_one_that_has_it(
    make: Callable[..., Region], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("crdtstream.spark.stream_source.time", clock)
    reader = reader_of(make(2, r1=4, r2=5), "127.0.0.1:1", failoverSeconds="1")
    end = {"1": 500, "2": 5, **OWN}
    assert reader.latestOffset({"1": 500, **OWN}, ALL) == end
    clock.seconds += 1_000
    assert reader.latestOffset(end, ALL) == end


def test_effects_of_a_region_that_dies_while_it_is_asked_are_read_later(
    make: Callable[..., Region],
) -> None:
    """It said how far it is, and is killed before it counts entries; others lack the last ones."""
    dying, other = make(1, r1=106, r2=50), make(2, r1=100, r2=55)
    alive = dict(dying.on)

    def die(_request: Any, context: grpc.ServicerContext) -> None:
        dying.on["GetPosition"] = die
        context.abort(grpc.StatusCode.UNAVAILABLE, "killed")

    def plan_if_there(request: pb.PlanRequest, context: grpc.ServicerContext) -> Any:
        if dict(zip(request.upto.regions, request.upto.counts, strict=True)).get(1, 0) > 100:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "behind: it lacks effects")
        return other._plan(request)

    dying.on["Plan"], other.on["Plan"] = die, plan_if_there
    reader = reader_of(dying, other, failoverSeconds="1")
    start = {"1": 105, "2": 50, **OWN}
    assert reader.latestOffset(start, ALL) == {"1": 105, "2": 55, **OWN}
    # It is back, and has caught up.
    dying.on.update(alive)
    dying.durable = vector(r1=106, r2=55)
    reader = reader_of(dying, other, failoverSeconds="1")
    assert reader.latestOffset({"1": 105, "2": 55, **OWN}, ALL) == {"1": 106, "2": 55, **OWN}
    # A run whose end was fixed while that region lived cannot go on without it.
    dying.on["Plan"] = die
    reader = reader_of(dying, other, failoverSeconds="1")
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(UnansweredError, match="no node did Plan within 1 s"):
        reader.latestOffset(start, ALL)


def test_a_plan_that_nobody_makes_is_asked_for_once_if_nothing_is_missing(
    make: Callable[..., Region], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make(1, r1=106)
    node.on["Plan"] = refuses(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
    reader = reader_of(node, failoverSeconds="0.1")
    planning = Mock(side_effect=reader._next)
    monkeypatch.setattr(reader, "_next", planning)
    with pytest.raises(UnansweredError, match="busy"):
        reader.latestOffset({"1": 105, **OWN}, ALL)
    assert planning.call_count == 1


def test_latest_is_resolved_by_the_first_batch_which_is_empty(
    make: Callable[..., Region],
) -> None:
    node = make(1, r1=5)
    reader = reader_of(node, startingOffsets="latest")
    assert reader.initialOffset() == {}
    first = reader.latestOffset({}, ALL)
    assert first == {"1": 5, **OWN}
    assert reader.partitions({}, first) == []
    node.durable = vector(r1=6)
    assert reader.latestOffset(first, ALL) == {"1": 6, **OWN}


def test_latest_of_an_empty_database_is_before_its_first_entry(
    make: Callable[..., Region],
) -> None:
    node = make(3)
    reader = reader_of(node, startingOffsets="latest")
    first = reader.latestOffset(reader.initialOffset(), ALL)
    assert first == {"3": 0, **OWN}
    node.durable = vector(r3=1)
    end = reader.latestOffset(first, ALL)
    assert end == {"3": 1, **OWN}
    (partition,) = reader.partitions(first, end)
    assert isinstance(partition, RangesPartition)
    assert [(r.above_n, r.upto_n) for r in partition.ranges] == [(0, 1)]


def test_a_run_of_what_is_there_ends_where_it_was(make: Callable[..., Region]) -> None:
    node = make(1, r1=5)
    reader = reader_of(node)
    reader.prepareForTriggerAvailableNow()
    node.durable = vector(r1=50, r2=3)
    end = reader.latestOffset({}, ALL)
    assert end == {"1": 5, **OWN}
    assert reader.latestOffset(end, ALL) is end
    # What came since is told as lag.
    lag = {"lagEntries": {"s/1": 45, "s/2": 3}}
    assert reader.reportLatestOffset() == {"1": 50, "2": 3, **OWN, **lag}


def test_a_run_of_nothing_stays_empty(make: Callable[..., Region]) -> None:
    node = make(1)
    reader = reader_of(node)
    reader.prepareForTriggerAvailableNow()
    node.durable = vector(r1=5)
    assert reader.latestOffset({}, ALL) == {}


def test_losses_before_a_query_began_travel_with_its_offsets(
    make: Callable[..., Region],
) -> None:
    node = make(1, r1=100)
    node.losses = [pb.Loss(key=b"s", origin=1, lost_n=70)]
    first = reader_of(node)
    assert first.initialOffset() == {}
    node.durable = vector(r1=50)
    end = first.latestOffset({}, ALL)
    assert end == {"1": 50, **OWN, "lostBefore": {"s/1": 70}}

    # Another process goes on.
    node.durable = vector(r1=60)
    second = reader_of(node)
    assert second.latestOffset(end, ALL) == {"1": 60, **OWN, "lostBefore": {"s/1": 70}}
    node.durable = vector(r1=100)
    assert second.latestOffset(end, ALL) == {"1": 100, **OWN}
    node.losses = [pb.Loss(key=b"s", origin=1, lost_n=71)]
    with pytest.raises(DataLossError, match="up to dot 71"):
        second.latestOffset(end, ALL)


def test_a_loss_is_told_once_where_it_is_borne(
    make: Callable[..., Region], caplog: pytest.LogCaptureFixture
) -> None:
    node = make(1, r1=100)
    node.losses = [pb.Loss(key=b"s", origin=1, lost_n=70)]
    reader = reader_of(node, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        for upto in (60, 80):
            reader.partitions({"1": 50, **OWN}, {"1": upto, **OWN})
    assert [record.getMessage().count("up to dot 70") for record in caplog.records] == [1]


# --- Removed regions ----------------------------------------------------------------------------

# Region 3 was removed, and ended at 3:40; a checkpoint that was written with it has read on.
END_OF_3 = pb.EndOfRegion(region=3, last_n=40, why="was removed")
LOST = "LOST region 3 was removed; of its effects 41… nothing exists"
BEFORE = {"1": 5, "3": 61, **OWN}


def test_the_sentence_is_that_of_the_nodes() -> None:
    (lost,) = lost_of({RegionId(3): 61}, removed_ends({RegionId(3): 40}))
    assert told_lost(END_OF_3) == LOST == told_by_nodes([lost])


def test_a_query_ends_on_lost_effects_of_a_removed_region(make: Callable[..., Region]) -> None:
    node = make(1, r1=5, r3=40)
    node.ends = [END_OF_3]
    with pytest.raises(DataLossError, match=f"{LOST}, and the checkpoint names 21 of them"):
        reader_of(node).latestOffset(BEFORE, ALL)
    with pytest.raises(DataLossError, match=LOST):
        reader_of(node).partitions({"1": 5, "3": 30, **OWN}, BEFORE)


def test_a_query_that_bears_losses_goes_on_from_where_the_region_ends(
    make: Callable[..., Region], caplog: pytest.LogCaptureFixture
) -> None:
    node = make(1, r1=5, r3=40)
    node.ends = [END_OF_3]
    reader = reader_of(node, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        end = reader.latestOffset(BEFORE, ALL)
        assert end == {"1": 5, "3": 40, **OWN}
        assert reader.partitions(BEFORE, end) == []
        node.durable = vector(r1=9, r3=40)
        assert reader.latestOffset(end, ALL) == {"1": 9, "3": 40, **OWN}
    # Told once, and counted.
    assert [record.getMessage().count(LOST) for record in caplog.records] == [1]
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["lostEffects"] == {"3": 21}
    assert parse_vector(report) == {1: 9, 3: 40}


def test_a_batch_that_is_run_again_ends_where_the_region_ends(make: Callable[..., Region]) -> None:
    node = make(1, r1=5, r3=40)
    node.ends = [END_OF_3]
    reader = reader_of(node, failOnDataLoss="false")
    tasks = reader.partitions({"1": 5, "3": 30, **OWN}, BEFORE)
    assert [[(r.origin, r.above_n, r.upto_n) for r in ranges_of(task)] for task in tasks] == [
        [(3, 30, 40)]
    ]


def test_effects_of_a_removed_region_that_all_nodes_have_are_no_loss(
    make: Callable[..., Region],
) -> None:
    node = make(1, r1=5, r3=40)
    node.ends = [END_OF_3]
    start = {"1": 5, "3": 40, **OWN}
    assert reader_of(node).latestOffset(start, ALL) == start


def test_before_the_end_is_known_a_query_waits(make: Callable[..., Region]) -> None:
    node = make(1, r1=5, r3=40)
    reader = reader_of(node)
    assert reader.latestOffset(BEFORE, ALL) == BEFORE
    node.ends = [END_OF_3]
    with pytest.raises(DataLossError, match=LOST):
        reader.latestOffset(BEFORE, ALL)


def test_one_node_may_know_the_end_before_another(make: Callable[..., Region]) -> None:
    first, second = make(1, r1=5, r3=38), make(2, r1=5, r3=40)
    second.ends = [END_OF_3]
    with pytest.raises(DataLossError, match=LOST):
        reader_of(first, second).latestOffset(BEFORE, ALL)


def test_a_call_that_names_lost_effects_is_not_tried_again(make: Callable[..., Region]) -> None:
    first, second = make(1, r1=5), make(2, r1=5)
    for node in (first, second):
        node.on["Plan"] = refuses(Code.OUT_OF_RANGE, LOST)
    with (
        Nodes((first.address, second.address), Security(), 2.0, UID) as nodes,
        pytest.raises(DataLossError, match=f"^{LOST}$"),
    ):
        nodes.plan(pb.PlanRequest())
    assert len(first.requests("Plan") + second.requests("Plan")) == 1


def ranges_of(task: InputPartition) -> tuple[EntryRange, ...]:
    assert isinstance(task, RangesPartition)
    return task.ranges


# --- Databases ----------------------------------------------------------------------------------


def test_an_offset_of_another_database_is_refused(make: Callable[..., Region]) -> None:
    """Though the numbers would do."""
    node = make(1, r1=200)
    of_other = {"1": 50, "database": OTHER_UID}
    asks: list[Callable[[EntriesStreamReader], Any]] = [
        lambda reader: reader.latestOffset(of_other, ALL),
        # A batch that is run again: also where only its end, or no entry, tells the database.
        lambda reader: reader.partitions(of_other, {"1": 60, **OWN}),
        lambda reader: reader.partitions({}, of_other),
        lambda reader: reader.partitions({"database": OTHER_UID}, {"1": 60, **OWN}),
    ]
    for ask in asks:
        with pytest.raises(OtherDatabaseError, match="begin with a new checkpoint") as error:
            ask(reader_of(node))
        assert OTHER_UID in str(error.value)
        assert UID in str(error.value)
    assert node.requests("Plan") == []


def test_a_database_that_is_set_up_anew_below_a_query_ends_it(make: Callable[..., Region]) -> None:
    node = make(1, r1=5)
    reader = reader_of(node)
    end = reader.latestOffset({}, ALL)
    (partition,) = reader.partitions({}, end)
    node.database_uid, node.durable = OTHER_UID, vector(r1=9)
    with pytest.raises(OtherDatabaseError, match=f"{OTHER_UID}.*{UID}"):
        reader.latestOffset(end, ALL)
    # Nor does a task read what was planned before.
    refusal = f"database: the call speaks of {UID}, this node holds {OTHER_UID}; begin again"
    node.on["Scan"] = refuses(Code.INVALID_ARGUMENT, refusal)
    with pytest.raises(OtherDatabaseError, match="begin again"):
        rows_of(reader, partition)
    *_, (method, _, metadata) = node.asked
    assert (method, metadata["crdtstream-database"]) == ("Scan", UID)


@pytest.mark.parametrize("start", [{"1": 5}, {"1": 2}, {"1": 0}])
def test_an_offset_that_names_no_database_is_refused(
    make: Callable[..., Region], start: dict[str, int]
) -> None:
    reader = reader_of(make(1, r1=5))
    with pytest.raises(OtherDatabaseError, match=f"of database \\(none\\), the nodes hold {UID}"):
        reader.latestOffset(start, ALL)


def test_an_offset_that_names_no_dot_is_of_any_database(
    make: Callable[..., Region], caplog: pytest.LogCaptureFixture
) -> None:
    reader = reader_of(make(1))
    assert reader.latestOffset({}, ALL) == {}
    assert caplog.records == []


def test_a_query_may_begin_where_another_ended(make: Callable[..., Region]) -> None:
    node = make(1, r1=5)
    told = reader_of(node, startingOffsets=f'{{"1": 3, "database": "{UID}"}}')
    assert told.initialOffset() == {"1": 3, **OWN}
    assert reader_of(node, startingOffsets='{"1": 3}').initialOffset() == {"1": 3, **OWN}
    other = reader_of(node, startingOffsets=f'{{"1": 3, "database": "{OTHER_UID}"}}')
    with pytest.raises(OtherDatabaseError, match=f"{UID}.*{OTHER_UID} is meant"):
        other.latestOffset(other.initialOffset(), ALL)


@given(
    bounds=st.dictionaries(
        st.integers(1, 9), st.tuples(st.integers(0, 500), st.integers(1, 500)), max_size=5
    ),
    parts=st.integers(1, 20),
)
def test_cutting_by_dots_leaves_nothing_out(bounds: dict[int, tuple[int, int]], parts: int) -> None:
    above = {origin: low for origin, (low, _) in bounds.items()}
    upto = {origin: low + more for origin, (low, more) in bounds.items()}
    cut = cut_by_dots(above, upto, parts=parts)
    dots = [
        (origin, n)
        for low, high in cut
        for origin in sorted(high)
        for n in range(low[origin] + 1, high[origin] + 1)
    ]
    assert dots == [(o, n) for o in sorted(upto) for n in range(above[o] + 1, upto[o] + 1)]
    assert len(cut) <= parts


@given(
    pieces=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 300), st.integers(1, 200), st.integers(1, 100)),
        min_size=1,
        max_size=20,
    ),
    parts=st.integers(1, 20),
)
def test_cuts_leave_nothing_out_and_share_the_entries(
    pieces: list[tuple[int, int, int, int]], parts: int
) -> None:
    """Entries lie evenly in their piece, so each part has its share but for a dot at its ends."""
    weighed = [(origin, low, low + more, entries) for origin, low, more, entries in pieces]
    upto = {origin: 600 for origin, *_ in weighed}
    cut = cut_at({}, upto, cuts_by_entries(weighed, parts=parts))
    dots = [(o, n) for low, high in cut for o in sorted(high) for n in range(low[o], high[o])]
    assert dots == [(o, n) for o in sorted(upto) for n in range(600)]
    assert len(cut) <= parts

    share = -(-sum(entries for *_, entries in weighed) // parts)
    densest = sum(entries / (high - low) for _, low, high, entries in weighed)
    for low, high in cut:
        found = sum(
            entries * max(0, min(n, b) - max(low[o], a)) / (b - a)
            for o, n in high.items()
            for origin, a, b, entries in weighed
            if origin == o
        )
        assert found <= share + densest + 1e-6


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Cluster]:
    with running_regions(1, tmp_path) as cluster:
        yield cluster


def planned(region: Cluster, **options: str) -> tuple[EntriesStreamReader, Any]:
    """A reader, and the one partition of the ten entries there are."""
    for n in range(10):
        region[1].client.xadd("s", {"n": n})
    reader = reader_of(region[1].grpc_address, **options)
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    return reader, partition


def rows_of(reader: EntriesStreamReader, partition: Any) -> int:
    return sum(batch.num_rows for batch in reader.read(partition))


def test_entries_trimmed_between_planning_and_reading_are_lost(region: Cluster) -> None:
    reader, partition = planned(region)
    assert rows_of(reader, partition) == 10
    region[1].client.xtrim("s", maxlen=4, approximate=False)
    with pytest.raises(DataLossError, match=r"stream 's', region 1.*while being read"):
        rows_of(reader, partition)


def test_entries_deleted_between_planning_and_reading_are_no_loss(region: Cluster) -> None:
    reader, partition = planned(region)
    (first, _), *_ = region[1].client.xrange("s", count=1)
    region[1].client.xdel("s", first)
    assert rows_of(reader, partition) == 9


def test_a_task_that_may_lose_says_so_and_goes_on(
    region: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    reader, partition = planned(region, failOnDataLoss="false")
    region[1].client.delete("s")
    with caplog.at_level(logging.WARNING):
        assert rows_of(reader, partition) == 0
    assert "while being read" in caplog.text


# --- Tasks --------------------------------------------------------------------------------------


def test_tasks_are_cut_by_the_entries_of_the_streams_that_are_read(region: Cluster) -> None:
    """As spark.read does, whatever else goes on: in the first half it is nine times as much."""
    with region[1].client.pipeline(transaction=False) as pipeline:
        for n in range(3_000):
            for stream in ["noise"] * 9 + ["s"] if n < 1_500 else ["s"]:
                pipeline.xadd(stream, {"n": n})
        pipeline.execute()
    reader = reader_of(region[1].grpc_address, streams="s", minPartitions="6")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)

    partitions = reader.partitions(start, end)

    rows = [rows_of(reader, one) for one in partitions]
    assert (len(rows), sum(rows)) == (6, 3_000)
    # By dots the first task would have 60 entries, and the last one 1,500; by entries it is exact
    # but for what one macro node holds.
    assert max(rows) - 500 <= 128 >= 500 - min(rows), rows
    # Run again it is cut as before, though entries went.
    region[1].client.xtrim("s", maxlen=1_200, approximate=False)
    again = reader_of(
        region[1].grpc_address, streams="s", minPartitions="6", failOnDataLoss="false"
    )
    cuts = [r.upto_n for one in partitions for r in ranges_in(one)]
    left = [r.upto_n for one in again.partitions(start, end) for r in ranges_in(one)]
    assert left == cuts[-len(left) :]
    assert len(left) == 3
    # The offset is the vector all the same, and the next batch goes on from it.
    assert parse_vector(end) == {1: 16_500}
    assert reader.latestOffset(end, ALL) is end


def test_few_entries_among_much_traffic_are_one_task(make: Callable[..., Region]) -> None:
    node = make(1, r1=5_000_000)
    node.on["Plan"] = lambda request, _: pb.PlanReply(
        end=request.upto, ranges=[pb.Range(key=b"s", origin=1, upto_n=5_000_000, entries=30)]
    )
    reader = reader_of(node)
    end = reader.latestOffset({}, ALL)
    assert end == {"1": 5_000_000, **OWN, CUTS: []}
    assert len(reader.partitions({}, end)) == 1


def ranges_in(partition: Any) -> list[Any]:
    assert isinstance(partition, RangesPartition)
    return list(partition.ranges)
