"""The page of a report: complete in itself, nothing of it markup by accident, nothing left out."""

import re

import pytest

from crdtstream.drill.outcome import (
    Alert,
    Check,
    Consumed,
    Convergence,
    LinkSeries,
    LoadMade,
    Mark,
    MarkKind,
    NodeSeries,
    Report,
    Run,
    Stall,
    Throughput,
)
from crdtstream.drill.report.figures import Headline, fault_spans, highest, seconds, size
from crdtstream.drill.report.page import page_of
from crdtstream.drill.report.page_plots import POINTS_MAX, thinned
from crdtstream.page.plots import LEFT
from tests.drill.making import (
    DRILLS,
    a_failed_run,
    a_run,
    all_drills,
    an_aborted_run,
)
from tests.page.elements import HOSTILE, Elements

REPORTS = {
    "no runs": Report(runs=[]),
    "one": Report(runs=[a_run()]),
    "aborted": Report(runs=[an_aborted_run()]),
    "all": all_drills(),
}
# "alert(1)" of HOSTILE must be text; its characters that no page shows are replaced.
SHOWN = HOSTILE.replace("\u202e", "\ufffd").replace("\x00", "\ufffd")


def text_of(*runs: Run) -> str:
    """All text of the page, on one line."""
    return " ".join(" ".join(Elements(page_of(Report(runs=list(runs)))).text).split())


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_the_page_loads_nothing_and_runs_nothing(report: Report) -> None:
    text = page_of(report)
    elements = Elements(text)

    assert elements.open == []
    assert {tag for tag, _ in elements.found}.isdisjoint(
        {"script", "link", "img", "iframe", "object"}
    )
    for _, attributes in elements.found:
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert attributes.keys().isdisjoint({"src", "srcset", "action", "data", "style"})
    assert re.search(r"(https?:)?//[a-z]|url\(|@import", text) is None
    assert "default-src 'none'" in str(elements.found)


def test_names_and_findings_of_a_drill_stay_text() -> None:
    """The same elements stand in the page, whatever names and sentences in it are."""

    def run(text: str) -> Run:
        return a_failed_run(
            text,
            about=text,
            began=text,
            problem=text,
            environment={text: text},
            findings=[text],
            checks=[Check(name=text, expected=text, found=text, is_met=False)],
            marks=[Mark(at=20.0, kind=MarkKind.FAULT, what=text)],
            load=LoadMade(asked_per_s=1, made_per_s=1, late_ms_p99=1, is_made=False, problem=text),
            consumed=[
                Consumed(
                    group=text,
                    mode=text,
                    delivered=1,
                    acknowledged=1,
                    again={text: 1},
                    out_of_order=0,
                    never=0,
                )
            ],
            stalls=[
                Stall(
                    kind=text,
                    clients=1,
                    hit=1,
                    recovery_s=1.0,
                    longest_s=1.0,
                    moves=0,
                    errors={text: 1},
                )
            ],
            convergences=[Convergence(after=text, seconds=None)],
            alerts=[Alert(name=text, labels={text: text}, is_expected=True, fired_at=None)],
            digests={1: text, 2: "other"},
        )

    # As long as the hostile text: what is cut does not depend on what it is.
    plain = page_of(Report(runs=[run("x" * len(HOSTILE))]))
    hostile = page_of(Report(runs=[run(HOSTILE)]))

    assert [tag for tag, _ in Elements(hostile).found] == [tag for tag, _ in Elements(plain).found]
    assert "<script" not in hostile
    told = "".join(Elements(hostile).text)
    assert "\u202e" not in told
    assert "\x00" not in told
    assert told.count(SHOWN) >= 16


def test_each_drill_has_a_row_and_a_part() -> None:
    text = page_of(all_drills())
    elements = Elements(text)

    links = [attributes["href"] for tag, attributes in elements.found if tag == "a"]
    parts = [attributes["id"] for tag, attributes in elements.found if tag == "article"]
    assert links == [f"#{part}" for part in parts]
    assert len(parts) == 13
    assert all(text.count(f"<bdi>{drill}</bdi>") == 2 for drill in DRILLS)
    assert "11 of 13" in text


@pytest.mark.parametrize(
    "told",
    [
        "Failover drills: passed",
        "2026-11-22 10:00:00 UTC",
        "3 of 3",
        "17,462",  # acknowledged by both kinds of producers
        "4.21 s",  # recovery
        "1.87 s",  # equal digests
        "14,500",  # the highest lag
        "region 1: kill -9",
        "plain before 4,000 1.2 6.5 14 31",
        "idempotent during 4,000 8.4 46 98 217",
        "plain 8,731 9 0 0 4 4",
        "moved to another region 112, not acknowledged in time 75",
        "xread 17,400 55 0 0",
        "2 → 1",
        "CrdtstreamLagHigh region=2, peer=1 fired, as expected 25.5 s",
        "Digest of all 3 regions at the end: 77d98c7fb5eba7d2980ec020b8402720ddb26031",
        "redis-py 8.1.0",
        "299.4 /s",
    ],
)
def test_all_measurements_are_in_the_page(told: str) -> None:
    assert told in text_of(a_run())


def test_failures_are_in_the_page() -> None:
    text = text_of(a_failed_run())
    assert "lost not met 0 2" in text
    assert "lost: orders 1795241607207-1, acknowledged by region 1 at 19.981 s" in text


def test_events_that_never_happened_are_in_the_page() -> None:
    stall = a_run().stalls[0].model_copy(update={"recovery_s": None})
    run = a_run(
        stalls=[stall],
        convergences=[Convergence(after="heal", seconds=None)],
        alerts=[Alert(name="Absent", labels={}, is_expected=True, fired_at=None)],
        digests={1: "aa", 2: "bb"},
        load=LoadMade(
            asked_per_s=9, made_per_s=1, late_ms_p99=900, is_made=False, problem="too slow"
        ),
    )
    text = text_of(run)
    assert "slowest recovery" in text
    assert "plain producer 6 2 never" in text
    assert "heal never" in text
    assert "Absent should have fired" in text
    assert "1 aa 2 bb" in text
    assert "The load was not made, so latencies say nothing: too slow" in text


def test_an_aborted_drill_says_why_and_shows_no_empty_plots() -> None:
    page = page_of(Report(runs=[an_aborted_run()]))
    assert "Not judged: " in page
    assert "region 2 does not answer" in page
    assert "<svg" not in page
    assert "NaN" not in page


def test_all_plots_of_a_drill_have_its_faults() -> None:
    page = page_of(Report(runs=[a_run()]))
    plots = re.findall(r"<svg.*?</svg>", page)
    # Timeline, throughput, lag, effects, memory, CPU.
    assert len(plots) == 6
    for plot in plots:
        assert plot.count('class="span"') == 1
        assert plot.count('class="mark bad"') == 1
        assert plot.count('class="mark good"') == 1
        assert "region 1: kill -9" in plot


def test_missing_samples_interrupt_a_line() -> None:
    at = [float(second) for second in range(10)]
    node = NodeSeries(
        region=1, at=at, rss_bytes=[2**20] * 3 + [None] * 4 + [2**20] * 3, cpu_percent=[None] * 10
    )
    page = page_of(Report(runs=[a_run(nodes=[node])]))
    (memory,) = [plot for plot in re.findall(r"<svg.*?</svg>", page) if "memory" in plot]
    (path,) = re.findall(r'<path d="([^"]+)" class="line', memory)
    assert path.count("M") == 2
    assert "CPU in %" not in page, "nothing was measured, so nothing is drawn"


def test_samples_before_the_load_are_inside_of_the_plot() -> None:
    link = (
        a_run()
        .links[0]
        .model_copy(
            update={"at": [-3.0, 0.0, 9.0], "lag_ms": [1.0, 2.0, 3.0], "lag_effects": [None] * 3}
        )
    )
    page = page_of(Report(runs=[a_run(links=[link])]))
    (plot,) = [plot for plot in re.findall(r"<svg.*?</svg>", page) if "lag in ms" in plot]
    (path,) = re.findall(r'<path d="M([^"]+)" class="line', plot)
    xs = [float(point.split(",")[0]) for point in path.split("L")]
    assert xs == sorted(xs)
    assert xs[0] == LEFT


def test_of_many_links_the_worst_are_drawn_and_all_are_listed() -> None:
    links = [
        LinkSeries(
            puller=puller,
            peer=peer,
            at=[0.0, 1.0],
            lag_ms=[1.0, 10.0 * puller + peer],
            lag_effects=[None, None],
            bytes_received=1,
            bytes_again=0,
        )
        for puller in range(1, 6)
        for peer in range(1, 6)
        if puller != peer
    ]
    page = page_of(Report(runs=[a_run(links=links)]))
    (legend,) = re.findall(r"lag in ms</title>.*?<figcaption>(.*?)</figcaption>", page)
    assert re.findall(r"\d → \d", legend) == [
        *("1 → 4", "1 → 5", "2 → 4", "2 → 5", "3 → 4", "3 → 5", "4 → 5", "5 → 4")
    ]
    assert "12 more are in the table" in page
    assert all(f'<td class="text time">{a} → {b}</td>' in page for a, b in [(1, 2), (5, 3)])


def test_many_regions_are_one_line() -> None:
    throughput = Throughput(
        at=[1.0, 2.0],
        acknowledged={region: [1.0, 2.0] for region in range(1, 10)},
        delivered=[1.0, 1.0],
    )
    text = text_of(a_run(throughput=throughput))
    assert "acknowledged by all 9 regions" in text
    assert "acknowledged by region" not in text


def test_an_environment_of_all_stands_once() -> None:
    other = a_run("other", environment={**a_run().environment, "cores": "64"})
    text = text_of(a_run(), other)
    assert text.count("redis-py 8.1.0") == 1
    assert "cores 2" in text
    assert "cores 64" in text


def test_a_long_drill_makes_no_long_page() -> None:
    at = [second / 10 for second in range(100_000)]
    lag: list[float | None] = [1.0] * len(at)
    lag[54_321] = 987_654.0
    link = (
        a_run()
        .links[0]
        .model_copy(update={"at": at, "lag_ms": lag, "lag_effects": [None] * len(at)})
    )
    page = page_of(Report(runs=[a_run(links=[link])]))
    assert len(page) < 120_000
    assert "987,654" in page


@pytest.mark.parametrize("count", [0, 1, POINTS_MAX, POINTS_MAX + 1, 10 * POINTS_MAX + 7])
def test_a_peak_is_never_thinned_out(count: int) -> None:
    values: list[float | None] = [float(at % 7) for at in range(count)]
    if count:
        values[count // 2] = 99.0
    times, points = thinned(list(range(count)), values, highest)
    assert len(times) == len(points) <= POINTS_MAX
    assert highest(points) == highest(values)
    assert times == sorted(times)


# --- Figures --------------------------------------------------------------------------------------


def test_one_client_that_never_recovered_outweighs_all_that_did() -> None:
    stalls = a_run().stalls
    assert Headline.of(a_run()).recovery == "4.21 s"
    never = stalls[2].model_copy(update={"recovery_s": None})
    assert Headline.of(a_run(stalls=[*stalls, never])).recovery == "never"
    # Nobody of this kind was hit, so there was nothing to recover from.
    calm = never.model_copy(update={"hit": 0})
    assert Headline.of(a_run(stalls=[calm])).recovery == "–"


def test_one_fault_after_which_digests_stay_different_outweighs_the_others() -> None:
    equal = Convergence(after="one", seconds=3.0)
    assert Headline.of(a_run(convergences=[equal])).equal == "3.00 s"
    never = Convergence(after="two", seconds=None)
    assert Headline.of(a_run(convergences=[equal, never])).equal == "never"


@pytest.mark.parametrize(
    ("kinds", "spans"),
    [
        ("", []),
        ("n", []),
        ("e", []),
        ("f", [(0, None)]),
        ("fe", [(0, 1)]),
        ("ffee", [(0, 3)]),
        ("ffe", [(0, None)]),
        ("ffefee", [(0, 5)]),
        ("fefe", [(0, 1), (2, 3)]),
        ("fnef", [(0, 2), (3, None)]),
        ("efne", [(1, 3)]),
        ("feefe", [(0, 1), (3, 4)]),
    ],
)
def test_a_span_lasts_while_any_fault_does(kinds: str, spans: list[tuple[int, int | None]]) -> None:
    of = {"f": MarkKind.FAULT, "e": MarkKind.END, "n": MarkKind.NOTE}
    marks = [Mark(at=at, kind=of[kind], what="") for at, kind in enumerate(kinds)]
    assert [(span.begin, span.end) for span in fault_spans(marks[::-1])] == spans


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0.00 s"),
        (4.214, "4.21 s"),
        (9.996, "10.0 s"),
        (119.94, "119.9 s"),
        (119.96, "2 min"),
        (125, "2 min 5 s"),
    ],
)
def test_seconds_in_words(value: float | None, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 B"), (1_536, "1.5 KiB"), (5 * 2**20, "5.0 MiB"), (2**38, "256 GiB")],
)
def test_sizes_in_words(value: float | None, text: str) -> None:
    assert size(value) == text
