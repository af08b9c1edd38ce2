"""The job ``report``: its tables say what was written, and what the regions say of themselves."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crdtstream.spark.jobs.archive import ArchiveOptions, archive
from crdtstream.spark.jobs.report import (
    ReportError,
    ReportOptions,
    StreamField,
    page_width,
    report,
)
from crdtstream.spark.options import NodesOptions, OptionsError, Security
from crdtstream.v1 import admin_pb2
from tests.live.cluster import Cluster, running_regions
from tests.page.elements import HOSTILE, Elements
from tests.patience import wait_until

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

START_MS = 1_700_000_040_000
WINDOW_MS = 60_000
# Per region an entry every 10 s for 20 minutes, its number in the field "number".
STEP_MS = 10_000
STEPS = 120


def nodes_of(regions: Cluster) -> NodesOptions:
    return NodesOptions((regions[1].grpc_address,), Security(), 10.0)


def options_of(regions: Cluster, folder: Path, streams: bytes) -> ReportOptions:
    return ReportOptions(
        nodes_of(regions),
        str(folder / "report"),
        streams=(streams,),
        sample_seconds=0.2,
        sample_interval_seconds=0.1,
    )


def value_of(region: int, step: int) -> float:
    """Quarters: added up in any order, they give the same sum."""
    return (step * 37 % 101 - 50) * region / 4


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three regions that wrote measurements of the same times, not knowing of each other's."""
    with running_regions(3, tmp_path_factory.mktemp("measured")) as cluster:
        for node in cluster.nodes.values():
            node.client.config_set("crdt_xadd_id_uniqueness_mode", "semi-strict")
            node.set_links(paused=True)
        for region, node in cluster.nodes.items():
            pipeline = node.client.pipeline(transaction=False)
            for step in range(STEPS):
                entry_id = f"{START_MS + step * STEP_MS}-{region}"
                fields = {"number": value_of(region, step), "text": "n/a"}
                pipeline.xadd("measured:all", fields, id=entry_id)
                if step % 2:
                    pipeline.xadd(f"measured:{region}", {"number": "n/a"}, id=entry_id)
            assert len(pipeline.execute()) == STEPS * 3 // 2
        for node in cluster.nodes.values():
            node.set_links(paused=False)
        cluster.converge()
        yield cluster


def table(spark: "SparkSession", options: ReportOptions, name: str) -> "list[Row]":
    return spark.read.parquet(f"{options.output}/{name}").collect()


def test_windows_hold_what_was_written(
    spark: "SparkSession", measured: Cluster, tmp_path: Path
) -> None:
    options = replace(
        options_of(measured, tmp_path, b"measured:*"),
        fields=(StreamField.parse("number"), StreamField.parse("measured:all=text")),
    )

    outcome = report(spark, options)

    assert outcome.regions == (1, 2, 3)
    assert (outcome.streams, outcome.entries, outcome.undated) == (4, STEPS * 3 + STEPS * 3 // 2, 0)
    rows = table(spark, options, "windows")
    steps = WINDOW_MS // STEP_MS
    for at in range(STEPS // steps):
        start_ms = START_MS + at * WINDOW_MS
        (row,) = [
            row
            for row in rows
            if (row["stream"], row["field"], row["start_ms"])
            == ("measured:all", "number", start_ms)
        ]
        numbers = sorted(
            value_of(region, step)
            for region in (1, 2, 3)
            for step in range(at * steps, (at + 1) * steps)
        )
        assert (row["entries"], row["numbers"], row["others"]) == (18, 18, 0)
        assert row["per_second"] == pytest.approx(18 / 60)
        assert (row["min"], row["max"]) == (numbers[0], numbers[-1])
        assert row["mean"] == pytest.approx(statistics.fmean(numbers))
        for share in (50, 90, 95, 99):
            assert row[f"p{share}"] == numbers[math.ceil(len(numbers) * share / 100) - 1]
        assert row["window_end"].timestamp() - row["window_start"].timestamp() == 60
    texts = [row for row in rows if row["field"] == "text"]
    assert {(row["numbers"], row["others"], row["p50"]) for row in texts} == {(0, 18, None)}
    assert {row["stream"] for row in texts} == {"measured:all"}
    others = [row for row in rows if row["stream"] == "measured:2"]
    assert {(row["field"], row["entries"], row["others"]) for row in others} == {("number", 3, 3)}


def test_throughput_is_by_origin(spark: "SparkSession", measured: Cluster, tmp_path: Path) -> None:
    options = replace(
        options_of(measured, tmp_path, b"measured:*"),
        window_seconds=600,
        start_ms=START_MS + 60 * STEP_MS,
        end_ms=START_MS + 90 * STEP_MS,
    )

    outcome = report(spark, options)

    assert outcome.entries == 30 * 3 + 15 * 3
    of_all: dict[int, int] = {}
    for row in table(spark, options, "throughput"):
        assert row["per_second"] == pytest.approx(row["entries"] / 600)
        if row["stream"] == "measured:all":
            of_all[row["origin"]] = of_all.get(row["origin"], 0) + row["entries"]
        else:
            assert row["stream"] == f"measured:{row['origin']}"
    assert of_all == {1: 30, 2: 30, 3: 30}
    assert {row["field"] for row in table(spark, options, "windows")} == {None}


def test_an_archive_tells_the_same_as_the_regions(
    spark: "SparkSession", measured: Cluster, tmp_path: Path
) -> None:
    folder = str(tmp_path / "archive")
    archive(spark, ArchiveOptions(nodes_of(measured), folder, streams=(b"measured:*",)))
    live = replace(
        options_of(measured, tmp_path, b"measured:*"), fields=(StreamField.parse("number"),)
    )
    archived = replace(live, archive=folder, output=str(tmp_path / "from-archive"))

    outcomes = report(spark, live), report(spark, archived)

    assert outcomes[0].entries == outcomes[1].entries
    for name in ("windows", "throughput"):
        assert sorted(map(repr, table(spark, live, name))) == sorted(
            map(repr, table(spark, archived, name))
        )


def test_lag_is_of_each_directed_pair(
    spark: "SparkSession", regions: Cluster, tmp_path: Path
) -> None:
    regions[2].set_links(paused=True)
    links = [(node, peer) for node in (regions[1], regions[3]) for peer in regions.nodes]
    wait_until(
        lambda: all(
            node.link(peer).state == admin_pb2.LinkStatus.State.UP
            for node, peer in links
            if node.region != peer
        ),
        "regions 1 and 3 pull from all others",
    )
    for number in range(7):
        regions[1].client.xadd("lag", {"number": number})

    options = options_of(regions, tmp_path, b"lag")
    outcome = report(spark, options)

    rows = table(spark, options, "lag")
    assert {(row["source"], row["target"]) for row in rows} == {
        (source, target) for source in (1, 2, 3) for target in (1, 2, 3) if source != target
    }
    assert {row["state"] for row in rows if row["target"] == 2} == {"paused"}
    assert {row["state"] for row in rows if row["target"] != 2} == {"up"}
    assert min(sum(1 for row in rows if row["source"] == one) for one in (1, 2, 3)) >= 4
    summaries = {row["region"]: row for row in table(spark, options, "regions")}
    assert summaries[2]["lacks"] == 7
    assert summaries[1]["lacks"] == 0
    assert summaries[1]["effects_issued"] == 7
    assert outcome.regions == (1, 2, 3)
    assert "paused" in Elements(Path(outcome.page).read_text()).text


def test_dead_letters_are_those_handed_out_too_often(
    spark: "SparkSession", regions: Cluster, tmp_path: Path
) -> None:
    client = regions[3].client
    ids = [client.xadd("letters", {"number": number}) for number in range(4)]
    client.xgroup_create("letters", HOSTILE, "0")
    client.xreadgroup(HOSTILE, "first", {"letters": ">"})
    for deliveries, entry_id in ((3, ids[0]), (4, ids[1]), (9, ids[2])):
        client.xclaim("letters", HOSTILE, "second", 0, [entry_id], retrycount=deliveries)
    client.xdel("letters", ids[2])
    regions.converge()

    options = replace(options_of(regions, tmp_path, b"letters"), deliveries_max=3)
    outcome = report(spark, options)

    rows = sorted(table(spark, options, "dead_letters"), key=lambda row: -row["deliveries"])
    assert outcome.dead_letters == 2
    assert [row["id"] for row in rows] == [ids[2].decode(), ids[1].decode()]
    assert [row["fields"] for row in rows] == [None, {"number": "1"}]
    assert {(row["region"], row["group"], row["consumer"]) for row in rows} == {
        (3, HOSTILE, "second")
    }
    text = Path(outcome.page).read_text()
    assert "<script" not in text
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x00", "\ufffd")
    assert shown in Elements(text).text


def test_entries_whose_ids_are_no_time_are_told_apart(
    spark: "SparkSession", regions: Cluster, tmp_path: Path
) -> None:
    regions[1].client.config_set("crdt_xadd_id_uniqueness_mode", "semi-strict")
    for entry_id in ("1700000000000-1", f"{2**60}-1", f"{2**64 - 1}-1"):
        regions[1].client.xadd("undated", {"field": "value"}, id=entry_id)

    options = options_of(regions, tmp_path, b"undated")
    outcome = report(spark, options)

    assert (outcome.streams, outcome.entries, outcome.undated) == (1, 1, 2)


def test_a_report_of_nothing_has_a_page(
    spark: "SparkSession", measured: Cluster, tmp_path: Path
) -> None:
    options = replace(
        options_of(measured, tmp_path, b"no such stream"), fields=(StreamField.parse("temp"),)
    )

    outcome = report(spark, options)

    assert (outcome.streams, outcome.entries) == (0, 0)
    assert table(spark, options, "windows") == []
    assert "temp" in Elements(Path(outcome.page).read_text()).text


def test_a_later_report_takes_the_place_of_the_earlier(
    spark: "SparkSession", measured: Cluster, tmp_path: Path
) -> None:
    first = options_of(measured, tmp_path, b"measured:1")
    report(spark, first)
    report(spark, replace(first, streams=(b"measured:2",)))

    assert {row["stream"] for row in table(spark, first, "windows")} == {"measured:2"}
    assert "measured:1" not in Path(first.output, "report.html").read_text()
    assert [path.name for path in Path(first.output).glob("*.html*")] == ["report.html"]


def test_options_that_cannot_be_meant_are_refused_at_once() -> None:
    with pytest.raises(OptionsError) as refused:
        ReportOptions(
            NodesOptions(("127.0.0.1:1",), Security(), 1.0),
            "",
            window_seconds=0,
            start_ms=5,
            end_ms=5,
            deliveries_max=-1,
            sample_interval_seconds=0,
        )

    for name in ("output", "window_seconds", "start_ms", "deliveries_max", "sample_interval"):
        assert name in str(refused.value)


def test_regions_that_do_not_answer_are_told_and_the_others_reported(
    spark: "SparkSession", regions: Cluster, tmp_path: Path
) -> None:
    for number in range(5):
        regions[1].client.xadd("left", {"number": number})
    regions.converge()
    regions[2].end()

    options = options_of(regions, tmp_path, b"left")
    outcome = report(spark, options)

    assert outcome.regions == (1, 3)
    (why,) = outcome.absent.values()
    assert why.startswith("region 2 (a peer of region 1")
    assert why in Elements(Path(outcome.page).read_text()).text
    assert outcome.entries == 5
    assert {row["region"] for row in table(spark, options, "regions")} == {1, 3}
    of_absent = [row["state"] for row in table(spark, options, "lag") if row["source"] == 2]
    assert of_absent
    assert "up" not in of_absent


def test_a_folder_without_an_archive_is_refused(
    spark: "SparkSession", measured: Cluster, tmp_path: Path
) -> None:
    options = replace(options_of(measured, tmp_path, b"*"), archive=str(tmp_path / "none"))

    with pytest.raises(ReportError, match="no archive"):
        report(spark, options)


def test_without_any_region_there_is_no_report(spark: "SparkSession", tmp_path: Path) -> None:
    nowhere = NodesOptions(("127.0.0.1:1",), Security(), 1.0)

    with pytest.raises(ReportError, match="does not answer"):
        report(spark, ReportOptions(nowhere, str(tmp_path / "report")))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("temp", StreamField(b"*", "temp")),
        ("weather:*=temp", StreamField(b"weather:*", "temp")),
        ("a=b=c", StreamField(b"a=b", "c")),
    ],
)
def test_a_field_is_named_with_its_streams(text: str, field: StreamField) -> None:
    assert StreamField.parse(text) == field


def test_a_field_has_a_name() -> None:
    with pytest.raises(ValueError, match="names no field"):
        StreamField.parse("weather:*=")


@pytest.mark.parametrize(
    ("entries_ms", "width_ms"),
    [
        ((0, 239 * 1000), 1000),
        ((0, 240 * 1000), 2000),
        ((999, 1000), 1000),
        ((0, 10**12), 1000 * math.ceil((10**9 + 1) / 240)),
    ],
)
def test_the_page_has_so_many_windows_at_most(entries_ms: tuple[int, int], width_ms: int) -> None:
    assert page_width(*entries_ms, 1000) == width_ms
