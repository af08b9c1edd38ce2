"""The job ``audit``: finds every divergence that is planted, and none under traffic."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PythonException

from crdtstream.spark.jobs.audit import (
    AuditError,
    AuditOptions,
    DuplicateIds,
    audit,
)
from crdtstream.spark.jobs.audit_findings import Kind, Subject
from crdtstream.spark.jobs.audit_keys import Facts, differences, still_differing
from crdtstream.spark.jobs.regions import told_as
from crdtstream.spark.nodes import Nodes
from crdtstream.spark.options import ID_MIN, EntryId, NodesOptions, Security
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Logged
from crdtstream.store.rows import ROW_COLUMNS, RowReader, record_crc
from crdtstream.v1 import query_pb2
from tests.live.cluster import Cluster, running_regions
from tests.spark.tampering import Tampering, tampered
from tests.spark.traffic import traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILOVER_SECONDS = 10.0


def nodes(*addresses: str) -> NodesOptions:
    return NodesOptions(addresses, Security(), FAILOVER_SECONDS)


def nodes_of(regions: Cluster) -> NodesOptions:
    return nodes(*[node.grpc_address for node in regions.nodes.values()])


def fill(regions: Cluster, stream: str, count: int) -> None:
    """``count`` entries in each region's lane, everywhere."""
    for region, node in regions.nodes.items():
        pipeline = node.client.pipeline(transaction=False)
        for number in range(count):
            pipeline.xadd(stream, {"region": region, "number": f"{number:04}"})
        pipeline.execute()
    regions.converge()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three regions to which nobody writes while a test runs, unless it says so itself."""
    with running_regions(3, tmp_path_factory.mktemp("quiet")) as cluster:
        yield cluster


# --- All is well ----------------------------------------------------------------------------------


def test_regions_that_hold_the_same_agree(
    spark: "SparkSession", quiet: Cluster, tmp_path: Path
) -> None:
    fill(quiet, "well", 300)
    first = quiet[1].client
    first.xdel("well", *[entry_id for entry_id, _ in first.xrange("well", count=20)])
    first.xadd("well:empty", {"field": "value"}, maxlen=0, approximate=False)
    first.xgroup_create("well", "readers", "0")
    for _, found in first.xreadgroup("readers", "one", {"well": ">"}, count=30):
        first.xack("well", "readers", *[entry_id for entry_id, _ in found])
    first.execute_command("XADD", "well", "IDMP", "producer", "id", "*", "field", b"\xff\x00")
    quiet.converge()

    outcome = audit(
        spark, AuditOptions(nodes_of(quiet), streams=(b"well*",), output=str(tmp_path / "report"))
    )

    assert outcome.clean
    assert outcome.regions == (1, 2, 3)
    assert (outcome.streams, outcome.entries, outcome.removed) == (2, 900 - 20 + 1, 0)
    assert outcome.findings == {}
    assert spark.read.parquet(str(tmp_path / "report" / "findings")).count() == 0
    lanes = spark.read.parquet(str(tmp_path / "report" / "lanes")).collect()
    assert all(lane["agrees"] for lane in lanes)
    for region, node in quiet.nodes.items():
        own = {lane["origin"]: lane["entries"] for lane in lanes if lane["region"] == region}
        assert sum(own.values()) == node.client.xlen("well")
    for origin in (1, 2, 3):
        assert len({lane["digest"] for lane in lanes if lane["origin"] == origin}) == 1


def test_an_audit_compares_all_writes_acknowledged_before_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Also where the disk is behind: the audit waits for it."""
    with running_regions(3, tmp_path, appendfsync="everysec") as regions:
        for node in regions.nodes.values():
            for number in range(50):
                node.client.xadd("just now", {"number": number})

        outcome = audit(spark, AuditOptions(nodes_of(regions)))

    assert outcome.clean
    assert outcome.entries == 150


def test_a_database_without_streams_agrees(spark: "SparkSession", quiet: Cluster) -> None:
    outcome = audit(spark, AuditOptions(nodes_of(quiet), streams=(b"there is none",)))

    assert outcome.clean
    assert (outcome.streams, outcome.entries) == (0, 0)


@pytest.mark.parametrize("audits", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_writing_and_removing_at_the_same_time_is_no_divergence(
    spark: "SparkSession", regions: Cluster, audits: int
) -> None:
    with traffic(regions, seed=4711):
        outcomes = [audit(spark, AuditOptions(nodes_of(regions))) for _ in range(audits)]

    regions.converge()
    assert [outcome.findings for outcome in outcomes] == [{}] * audits
    assert all(outcome.entries for outcome in outcomes)
    # Or else nothing went while it was read, and this test shows nothing.
    assert sum(outcome.removed for outcome in outcomes) > 0
    assert len({tuple(sorted(outcome.cut.items())) for outcome in outcomes}) == audits


def test_peers_that_were_not_named_are_audited(spark: "SparkSession", quiet: Cluster) -> None:
    outcome = audit(spark, AuditOptions(nodes(quiet[2].grpc_address), streams=(b"none",)))

    assert outcome.regions == (1, 2, 3)


# --- What went wrong is found ---------------------------------------------------------------------


def dots_of(regions: Cluster, stream: str, *, origin: int) -> dict[str, int]:
    """The entries of a lane, by ID, as its own region has them."""
    with Nodes.of(nodes(regions[origin].grpc_address)) as node:
        scan = node.scan(query_pb2.ScanRequest(key=stream.encode(), origin=origin))
        return {
            f"{row['ms']}-{row['seq']}": row["n"] for batch in scan for row in batch.to_pylist()
        }


@contextmanager
def audited_with(
    regions: Cluster, tampering: Tampering, *, region: int = 2
) -> Iterator[NodesOptions]:
    """All addresses; one of them tampers."""
    with tampered(regions[region].grpc_address, tampering) as address:
        others = [node.grpc_address for one, node in regions.nodes.items() if one != region]
        yield NodesOptions((address, *others), Security(), FAILOVER_SECONDS)


def test_entries_that_regions_hold_differently_are_found(
    spark: "SparkSession", quiet: Cluster, tmp_path: Path
) -> None:
    fill(quiet, "unlike", 50)
    dots = dots_of(quiet, "unlike", origin=1)
    lost, changed, extra, twice = list(dots)[10:14]

    def scan(request: query_pb2.ScanRequest, table: pa.Table) -> pa.Table:
        if request.origin != 1:
            return table
        rows = {row["n"]: row for row in table.to_pylist()}
        some = next(iter(rows.values()), None)
        rows.pop(dots[lost], None)
        if dots[changed] in rows:
            rows[dots[changed]]["fields"] = b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
        # Removed in every region, and still shown by this one.
        if some is not None and request.above_n < dots[extra] <= request.upto_n:
            ms, seq = map(int, extra.split("-"))
            rows[dots[extra]] = some | {"n": dots[extra], "ms": ms, "seq": seq}
        again = [rows[dots[twice]]] if dots[twice] in rows else []
        return pa.Table.from_pylist([*rows.values(), *again], schema=table.schema)

    quiet[1].client.xdel("unlike", extra)
    quiet.converge()
    with audited_with(quiet, Tampering(scan=scan)) as given:
        outcome = audit(
            spark, AuditOptions(given, streams=(b"unlike",), output=str(tmp_path / "report"))
        )

    assert not outcome.clean
    found = {finding.kind: finding for finding in outcome.examples}
    assert {kind: finding.n for kind, finding in found.items()} == {
        Kind.MISSING: dots[lost],
        Kind.DIFFERING: dots[changed],
        Kind.EXTRA: dots[extra],
        Kind.REPEATED: dots[twice],
    }
    assert all((one.regions, one.origin) == ((2,), 1) for one in outcome.examples)
    assert outcome.failures == len(outcome.examples) == sum(outcome.findings.values())
    assert found[Kind.MISSING].id == lost
    assert found[Kind.MISSING].has[2] == "missing"
    assert found[Kind.DIFFERING].has[1] == found[Kind.DIFFERING].has[3]
    assert f"missing in region 2: stream 'unlike', entry {lost}" in str(found[Kind.MISSING])
    table = spark.read.parquet(str(tmp_path / "report" / "findings"))
    assert {row["kind"]: row["n"] for row in table.collect()} == {
        kind.value: finding.n for kind, finding in found.items()
    }
    lanes = spark.read.parquet(str(tmp_path / "report" / "lanes"))
    assert {row["origin"] for row in lanes.where("not agrees").collect()} == {1}
    assert {row["origin"] for row in lanes.where("agrees").collect()} == {2, 3}


def test_an_entry_that_only_its_origin_lacks_is_extra(
    spark: "SparkSession", quiet: Cluster
) -> None:
    fill(quiet, "origin", 20)
    gone = list(dots_of(quiet, "origin", origin=2).values())[3]

    def scan(request: query_pb2.ScanRequest, table: pa.Table) -> pa.Table:
        if request.origin != 2:
            return table
        return table.filter(pc.not_equal(table.column("n"), gone))

    with audited_with(quiet, Tampering(scan=scan)) as given:
        outcome = audit(spark, AuditOptions(given, streams=(b"origin",)))

    (finding,) = outcome.examples
    assert (finding.kind, finding.n, finding.regions) == (Kind.EXTRA, gone, (1, 3))


def test_a_divergence_on_disk_is_found(spark: "SparkSession", regions: Cluster) -> None:
    """Region 2's log says something else than was issued, and its checksum fits."""
    fill(regions, "on-disk", 100)
    regions[2].end()
    (changed,) = change_log(regions[2].folder / LOG_FILE, b"0042", b"4200", origin=3)
    regions[2].start()

    outcome = audit(spark, AuditOptions(nodes_of(regions)))

    assert changed
    (finding,) = outcome.examples
    assert (finding.kind, finding.origin, finding.regions) == (Kind.DIFFERING, 3, (2,))
    assert finding.id is not None
    entry = regions[2].client.xrange("on-disk", finding.id, finding.id)
    assert entry == [(finding.id.encode(), {b"region": b"3", b"number": b"4200"})]
    assert outcome.entries == 299


def change_log(path: Path, old: bytes, new: bytes, *, origin: int) -> list[int]:
    """Replace bytes in the batches of an origin; returns the rows that were changed."""
    with closing(sqlite3.connect(path)) as log, log:
        changed = []
        rows = log.execute(f"SELECT {ROW_COLUMNS} FROM log WHERE origin = ?", (origin,)).fetchall()
        for columns in rows:
            logged, _ = RowReader().read(columns)
            assert logged is not None
            batch = logged.record.batch
            if batch is not None and old in batch:
                record = replace(logged.record, batch=batch.replace(old, new))
                log.execute(
                    "UPDATE log SET batch = ?, crc = ? WHERE seq = ?",
                    (record.batch, record_crc(Logged(logged.seq, record)), logged.seq),
                )
                changed.append(logged.seq)
        return changed


def test_streams_groups_and_frontiers_that_differ_are_found(
    spark: "SparkSession", quiet: Cluster
) -> None:
    for stream in ("keys:hidden", "keys:groups"):
        quiet[1].client.xadd(stream, {"field": "value"})
        quiet[1].client.xgroup_create(stream, "readers", "0")
    quiet[1].client.xgroup_create("keys:groups", "others", "0")
    quiet.converge()
    for _, found in quiet[1].client.xreadgroup("readers", "one", {"keys:groups": ">"}):
        quiet[1].client.xack("keys:groups", "readers", *[entry_id for entry_id, _ in found])
    reached = found[0][0].decode()
    quiet.converge()

    def streams(
        descriptions: list[query_pb2.StreamDescription],
    ) -> list[query_pb2.StreamDescription]:
        for one in descriptions:
            kept = [group for group in one.groups if group.name != b"others"]
            for position in (position for group in kept for position in group.frontier):
                position.id.ms = 0
            del one.groups[:]
            one.groups.extend(kept)
        return [one for one in descriptions if one.key != b"keys:hidden"]

    with audited_with(quiet, Tampering(streams=streams)) as given:
        outcome = audit(spark, AuditOptions(given, streams=(b"keys:*",)))

    found = {finding.kind: finding for finding in outcome.examples}
    assert set(found) == {Kind.STREAM, Kind.GROUP, Kind.FRONTIER}
    assert found[Kind.STREAM].key == b"keys:hidden"
    assert found[Kind.STREAM].has == {1: "there", 2: "missing", 3: "there"}
    assert (found[Kind.GROUP].key, found[Kind.GROUP].group) == (b"keys:groups", "others")
    assert found[Kind.FRONTIER].regions == (2,)
    assert found[Kind.FRONTIER].has == {1: reached, 2: f"0-{reached.split('-')[1]}", 3: reached}
    assert outcome.failures == 3


def test_duplicate_ids_are_listed_and_fail_where_ids_are_unique(
    spark: "SparkSession", regions: Cluster
) -> None:
    for node in regions.nodes.values():
        node.client.config_set("crdt_xadd_id_uniqueness_mode", "liberal")
        node.set_links(paused=True)
    for region, node in regions.nodes.items():
        node.client.xadd("twice", {"from": region}, id="7-7")
    for node in regions.nodes.values():
        node.set_links(paused=False)
    regions.converge()

    by_mode = audit(spark, AuditOptions(nodes_of(regions)))
    failing = audit(spark, AuditOptions(nodes_of(regions), duplicate_ids=DuplicateIds.FAIL))

    assert (by_mode.clean, by_mode.failures) == (True, 0)
    assert not failing.clean
    for outcome in (by_mode, failing):
        (finding,) = outcome.examples
        assert (finding.kind, finding.id) == (Kind.DUPLICATE_ID, "7-7")
        assert sorted(finding.has) == [1, 2, 3]

    for node in regions.nodes.values():
        node.client.config_set("crdt_xadd_id_uniqueness_mode", "strict")
    assert not audit(spark, AuditOptions(nodes_of(regions))).clean
    allowed = AuditOptions(nodes_of(regions), duplicate_ids=DuplicateIds.ALLOW)
    assert audit(spark, allowed).clean


# --- What cannot be audited -----------------------------------------------------------------------


def test_a_region_that_does_not_answer_is_named(
    spark: "SparkSession", regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.spark.jobs.regions.FIND_SECONDS_MAX", 1.0)
    regions[3].end()

    with pytest.raises(AuditError, match=r"region 3 \(a peer of region 1, .* does not answer"):
        audit(spark, AuditOptions(nodes(regions[1].grpc_address)))


def test_a_region_that_lacks_effects_is_named(spark: "SparkSession", regions: Cluster) -> None:
    regions[2].set_links(paused=True)
    for number in range(5):
        regions[1].client.xadd("behind", {"number": number})

    with pytest.raises(AuditError, match="region 2 lacks 5 effects of region 1"):
        audit(spark, AuditOptions(nodes_of(regions), wait_seconds=1.0))


def test_nodes_of_different_databases_are_refused(
    spark: "SparkSession", quiet: Cluster, tmp_path: Path
) -> None:
    """They have one name."""
    with running_regions(1, tmp_path) as other:
        uids = [node.status().database_uid for node in (quiet[1], other[1])]

        with pytest.raises(AuditError, match="different databases") as error:
            audit(spark, AuditOptions(nodes(quiet[1].grpc_address, other[1].grpc_address)))
        assert all(uid in str(error.value) for uid in uids)
        outcome = audit(spark, AuditOptions(nodes(other[1].grpc_address)))
        assert (outcome.regions, outcome.database_uid) == ((1,), uids[1])


def test_a_region_that_stops_answering_meanwhile_is_told(
    spark: "SparkSession", quiet: Cluster
) -> None:
    fill(quiet, "broken", 10)

    def scan(_request: query_pb2.ScanRequest, _table: pa.Table) -> pa.Table:
        raise RuntimeError("out of order")

    with audited_with(quiet, Tampering(scan=scan)) as given:
        # The node is asked twice, and is given up then, not after the time for others.
        options = AuditOptions(given, streams=(b"broken",))
        with pytest.raises(AuditError, match="a region could not be read: Scan at"):
            audit(spark, options)


# --- Streams and groups, look by look -------------------------------------------------------------

STREAM = Subject(Kind.STREAM, b"s")
GROUP = Subject(Kind.GROUP, b"s", b"g")
GROUP_BEHIND = Subject(Kind.FRONTIER, b"s", b"g", 1)


def having(reached: int) -> Facts:
    return {STREAM: ID_MIN, GROUP: ID_MIN, GROUP_BEHIND: EntryId(reached, 0)}


@pytest.mark.parametrize(
    ("before", "now", "differs"),
    [
        ({1: having(5), 2: having(3)}, {1: having(5), 2: having(5)}, False),
        # Moved on, but everybody is where the furthest was.
        ({1: having(5), 2: having(3)}, {1: having(9), 2: having(6)}, False),
        ({1: having(5), 2: having(3)}, {1: having(5), 2: having(3)}, True),
        ({1: having(5), 2: having(3)}, {1: having(9), 2: having(4)}, True),
        # The stream went in all regions.
        ({1: having(5), 2: having(3)}, {1: {}, 2: {}}, False),
    ],
)
def test_a_frontier_agrees_where_all_have_reached_what_any_had(
    before: dict[int, Facts], now: dict[int, Facts], differs: bool
) -> None:
    suspects = differences(before)

    assert list(suspects) == [GROUP_BEHIND]
    assert (GROUP_BEHIND in still_differing(before, now, suspects)) is differs


def test_a_lane_of_which_a_region_tells_nothing_is_no_difference() -> None:
    assert differences({1: having(5), 2: {STREAM: ID_MIN, GROUP: ID_MIN}}) == {}


def test_a_stream_that_is_missing_is_one_difference() -> None:
    assert differences({1: having(5), 2: {}}) == {STREAM: {1: ID_MIN, 2: None}}


def test_a_difference_that_agreed_once_is_no_suspect_any_more() -> None:
    apart: dict[int, Facts] = {1: having(5), 2: {}}
    together: dict[int, Facts] = {1: {}, 2: {}}

    suspects = still_differing(apart, together, differences(apart))

    assert suspects == {}
    assert still_differing(together, apart, suspects) == {}


@pytest.mark.parametrize("kind", ["NodesError", "UnansweredError", "OtherDatabaseError"])
def test_of_what_a_task_tells_the_reason_is_told(kind: str) -> None:
    traceback = f"Traceback:\n  File x\ncrdtstream.spark.connecting.{kind}: the reason\n\tat java"
    with (
        pytest.raises(AuditError, match=r"^a region could not be read: the reason$"),
        told_as(AuditError),
    ):
        raise PythonException(traceback)
