"""Aims, tables and pages of recorded outcomes."""

import re
from pathlib import Path

import pytest

from benchmarks import pages, tables
from benchmarks.aims import AIMS, shown
from benchmarks.measured import Outcome, Sample
from benchmarks.parts.all import PARTS
from benchmarks.scaling import Line, regions_rows


def outcome(part: str, *samples: tuple[str, str, dict[str, float]], rounds: int = 2) -> Outcome:
    return Outcome(
        part=part,
        about="What is measured.",
        reference=PARTS[part].reference,
        machine="2 cores, 24 GiB, Python 3.11.7",
        load=0.5,
        version="abc",
        samples=[
            Sample(case, system, at, {name: value * (at + 1) for name, value in figures.items()})
            for case, system, figures in samples
            for at in range(rounds)
        ],
        skipped={},
    )


XADD = outcome(
    "xadd",
    ("everysec, -P 1", "Redis", {"rate_per_s": 100_000, "cpu_us": 10}),
    ("everysec, -P 1", "crdtstream", {"rate_per_s": 70_000, "cpu_us": 30}),
    ("everysec, -P 16", "Redis", {"rate_per_s": 400_000, "cpu_us": 2}),
    ("everysec, -P 16", "crdtstream", {"rate_per_s": 80_000, "cpu_us": 12}),
)
LINKS = outcome(
    "links",
    ("3 nodes, -P 16", "plain links", {"cpu_us": 10}),
    ("3 nodes, -P 16", "mutual TLS", {"cpu_us": 12}),
)
REGIONS = outcome(
    "curve-regions",
    *((str(count), "crdtstream", {"cpu_us": 4.0 + 2.0 * (count - 1)}) for count in (1, 3, 5, 9)),
    rounds=1,
)


def rows() -> dict[str, tuple[str, str, str, str, str]]:
    return {aim.what: aim.row({"xadd": XADD}) for aim in AIMS}


def test_aim_is_judged_by_what_was_measured() -> None:
    found = rows()
    what = "XADD, 50 clients, everysec, -P 1: ratio to Redis"
    assert found[what] == (what, "Redis 150 k /s", "≥ 0.6", "0.7", "yes")
    assert found["XADD, 50 clients, everysec, -P 16: ratio to Redis"][-2:] == ("0.2", "no")


def test_links_by_tls_are_judged_by_processor_time() -> None:
    (row,) = [aim.row({"links": LINKS}) for aim in AIMS if "mutual TLS" in aim.what]
    assert row[1:] == ("plain links 15 µs, mutual TLS 18 µs", "≤ 1.1", "1.2", "no")


def test_unmeasured_aims_are_neither_reached_nor_missed() -> None:
    assert rows()["XADD, 50 clients, always, -P 1: ratio to Redis"][-2:] == ("", "")
    assert all(row[-2:] == ("", "") for row in (aim.row({}) for aim in AIMS))


def test_every_aim_names_a_case_of_a_part() -> None:
    # What was recorded tells which cases there are; all aims of recorded parts have a figure.
    recorded = pages.recorded()
    parts = set(PARTS) - {name for name in PARTS if PARTS[name].curve} - {"cold", "bootstrap"}
    if parts <= set(recorded):
        assert [aim.what for aim in AIMS if aim.measured(recorded) is None] == []


def test_aims_are_told_apart_by_their_words() -> None:
    assert len({aim.what for aim in AIMS}) == len(AIMS)


def test_ratio_stands_first_in_a_cell() -> None:
    head, *lines = tables.rows_of(XADD)
    assert head == ["case", "system", "rate, /s", "cpu, µs"]
    assert lines[0] == ["everysec, -P 1", "Redis", "150 k (100 k … 200 k)", "15 (10 … 20)"]
    assert lines[1][2:] == ["0.70 × 105 k (70 k … 140 k)", "3.00 × 45 (30 … 60)"]


@pytest.mark.parametrize(
    ("figure", "title"),
    [
        ("p999_ms", "99.9 %, ms"),
        ("late_p99_ms", "late 99 %, ms"),
        ("xadd_rate_per_s", "xadd rate, /s"),
        ("core_percent", "core, %"),
        ("effects_per_100_xacks", "effects per 100 xacks"),
        ("lost", "lost"),
    ],
)
def test_figures_have_titles_with_units(figure: str, title: str) -> None:
    assert tables.title(figure) == title


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0042, "0.0042"), (17.34, "17.3"), (1_234, "1,234"), (446_312, "446 k"), (2.5e6, "2.5 M")],
)
def test_figures_are_short(value: float, text: str) -> None:
    assert shown(value) == text


def test_text_and_markdown_have_the_same_cells() -> None:
    table = [["a", "b"], ["one", "2"]]
    assert tables.text(table) == "a    b\none  2"
    assert tables.markdown(table) == "| a | b |\n| --- | --- |\n| one | 2 |"


def test_line_goes_through_points_on_a_line() -> None:
    line = Line.through([(1, 4.0), (3, 8.0), (9, 20.0)])
    assert line.base == pytest.approx(4.0)
    assert line.slope == pytest.approx(2.0)
    assert line.at(50) == pytest.approx(102.0)


def test_model_is_told_beside_what_was_measured() -> None:
    head, *lines = regions_rows({"curve-regions": REGIONS})
    assert len(head) == 7
    assert [line[:4] for line in lines][-3:] == [
        ["9", "72", "20", "20"],
        ["20", "380", "", "42"],
        ["50", "2450", "", "102"],
    ]


def test_outcome_that_is_recorded_takes_the_place_of_the_part_s_earlier_one(tmp_path: Path) -> None:
    pages.record(XADD, tmp_path / "results")
    pages.record(XADD, tmp_path / "results")
    found = pages.recorded(tmp_path / "results")
    assert list(found) == ["xadd"]
    assert found["xadd"].to_json() == XADD.to_json()


def test_blocks_are_filled_and_the_rest_of_a_page_stays() -> None:
    page = "before\n<!-- aims -->\nold\n<!-- end -->\nafter\n"
    filled = pages.filled(page, {"xadd": XADD})
    assert filled.startswith("before\n<!-- aims -->\n")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "| ≥ 0.6 | 0.7 | yes |" in filled
    assert pages.filled(filled, {"xadd": XADD}) == filled
    assert pages.NOTHING in pages.filled(page, {})


def test_pages_say_what_is_recorded() -> None:
    """Else: `make docs`."""
    outcomes = pages.recorded()
    for path in pages.PAGES:
        text = path.read_text()
        assert pages.filled(text, outcomes) == text


def test_nothing_recorded_tells_whose_machine_it_was() -> None:
    for path in pages.RESULTS.glob("*.json"):
        assert re.search(r"/(home|tmp|root|work)/", path.read_text()) is None
