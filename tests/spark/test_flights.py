"""The pipeline on real input: flights of a year, three producers, a cut, Spark at the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from crdtstream.demo import flights
from crdtstream.demo.flights import Delays, Flights, Outcome, _run_together, _Writing
from crdtstream.demo.flights_report import show
from crdtstream.demo.weather import DemoError, Region
from crdtstream.local.regions import LocalRegions
from crdtstream.spark.vectors import Vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_whole_year_is_loaded() -> None:
    year = flights.load()
    assert year.count == 336_776
    assert {region: len(rows) for region, rows in year.rows.items()} == {
        1: 120_835,
        2: 111_279,
        3: 104_662,
    }
    key = [year.fields.index(name) for name in flights.KEY]
    assert len({tuple(row[at] for at in key) for row in year.all()}) == year.count

    table = flights.delays(year)
    assert len(table) == 19_486
    assert sum(row.flights for row in table.values()) == year.count
    assert sum(row.departed for row in table.values()) == year.count - 8_255
    # The first hour of the file, at EWR: 515 and 558, two minutes late and four early; as anyone
    # can count there.
    assert table["EWR", "2013-01-01T10:00:00Z"] == Delays(2, 2, -2, -1.0)


def test_subset_is_even() -> None:
    some = flights.load(300)
    assert {region: len(rows) for region, rows in some.rows.items()} == {1: 100, 2: 100, 3: 100}


def test_hour_in_which_nothing_left_has_no_average() -> None:
    fields = ("origin", "time_hour", "dep_delay")
    rows: list[tuple[str, ...]] = [
        *(("EWR", "h1", "NA"), ("EWR", "h1", "NA")),
        *(("EWR", "h2", "-3"), ("EWR", "h2", "NA")),
    ]
    assert flights.delays(Flights(fields, {1: rows})) == {
        ("EWR", "h1"): Delays(2, 0, None, None),
        ("EWR", "h2"): Delays(2, 1, -3, -3.0),
    }


def test_every_row_that_differs_is_told() -> None:
    late = Delays(1, 1, 5, 5.0)
    expected = {("EWR", "h1"): late, ("EWR", "h2"): late}
    assert flights.differing(expected, expected) == []
    found = {("EWR", "h1"): late._replace(flights=2), ("JFK", "h1"): late}
    told = flights.differing(found, expected)
    assert [line.split(":")[0] for line in told] == ["EWR h1", "EWR h2", "JFK h1"]


@pytest.fixture
def demo_regions(tmp_path: Path, base_port: int) -> Iterator[list[Region]]:
    local = LocalRegions(3, tmp_path / "regions", base_port=base_port)
    try:
        local.start_all()
        local.wait_until_healthy()
        yield [Region(own.region, own.resp_port, own.grpc_port) for own in local.regions]
    finally:
        local.stop_all()
        local.close()


@pytest.mark.live
@pytest.mark.parametrize(
    "row_count",
    [6_000, pytest.param(None, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])],
    ids=["some", "all"],
)
def test_flights_come_out_as_they_went_in(
    spark: "SparkSession", demo_regions: list[Region], tmp_path: Path, row_count: int | None
) -> None:
    year = flights.load(row_count)
    outcome = flights.run(spark, demo_regions, year, tmp_path / "spark")

    assert outcome.failures() == []
    assert outcome.flights == (row_count or 336_776)
    assert outcome.written == {region: len(rows) for region, rows in year.rows.items()}
    assert outcome.batch_rows == outcome.archived == outcome.archived_ids == outcome.audited
    # What region 2 wrote alone came in a micro-batch after one with later IDs.
    assert outcome.batches >= 2
    assert outcome.cut_seconds > 0

    console = Console(record=True, width=120)
    show(outcome, console)
    assert f"{outcome.flights:,}" in console.export_text()


def test_unmet_expectations_are_reported() -> None:
    outcome = Outcome(
        flights=3,
        written={1: 1, 2: 1, 3: 0},
        batch_rows=2,
        hours_differing=["EWR h1: …"],
        archived=3,
        archived_ids=2,
        flights_missing=1,
        audited=3,
        audit_findings=["missing in region 1"],
    )
    assert len(outcome.failures()) == 6


def test_region_that_is_gone_is_told() -> None:
    nowhere = [Region(number, resp_port=1, grpc_port=1) for number in (1, 2, 3)]
    some = flights.load(30)
    writing = _Writing(nowhere, some, Outcome(written=dict.fromkeys(some.rows, 0)), Vector)
    with pytest.raises(DemoError, match=r"region [123] took no flights: "):
        _run_together(writing.run())
