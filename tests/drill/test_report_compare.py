"""Two reports side by side: what is better, what worse, what noise, by a rule that is stated."""

import json
from io import StringIO
from typing import Any

import pytest

from crdtstream.drill.outcome import Convergence, Latency, LoadMade, Phase, Report, Run
from crdtstream.drill.report.compare import (
    NOISE,
    RULE,
    Comparison,
    Difference,
    Judgement,
    Unit,
    compare,
    judged,
)
from crdtstream.drill.report.compare_table import print_comparison
from crdtstream.drill.report.terminal import WIDTH, console_on
from tests.drill.making import a_failed_run, a_run, all_drills, an_aborted_run
from tests.page.elements import HOSTILE


@pytest.mark.parametrize(
    ("unit", "before", "after", "judgement"),
    [
        # More than a fifth, and more than the least amount.
        (Unit.MILLISECONDS, 10.0, 30.0, "worse"),
        (Unit.MILLISECONDS, 30.0, 10.0, "better"),
        (Unit.MILLISECONDS, 1.0, 5.9, "noise"),
        (Unit.MILLISECONDS, 1.0, 6.1, "worse"),
        (Unit.MILLISECONDS, 100.0, 119.0, "noise"),
        (Unit.MILLISECONDS, 100.0, 121.0, "worse"),
        (Unit.MILLISECONDS, 119.0, 100.0, "noise"),
        (Unit.MILLISECONDS, 121.0, 100.0, "better"),
        (Unit.LAG_MILLISECONDS, 10.0, 109.0, "noise"),
        (Unit.LAG_MILLISECONDS, 10.0, 111.0, "worse"),
        (Unit.SECONDS, 4.0, 4.7, "noise"),
        (Unit.SECONDS, 4.0, 4.9, "worse"),
        (Unit.SECONDS, 0.1, 0.5, "noise"),
        (Unit.COUNT, 0, 10, "noise"),
        (Unit.COUNT, 0, 11, "worse"),
        (Unit.BYTES, 0, 65_536, "noise"),
        (Unit.BYTES, 0, 65_537, "worse"),
        (Unit.MEMORY_BYTES, 100 * 2**20, 115 * 2**20, "noise"),
        (Unit.MEMORY_BYTES, 100 * 2**20, 121 * 2**20, "worse"),
        # What ought to be 0 has no noise.
        (Unit.EXACT, 0, 1, "worse"),
        (Unit.EXACT, 1_000, 999, "better"),
        (Unit.EXACT, 0, 0, "noise"),
        # Never is longer than any time.
        (Unit.SECONDS, 3.0, "never", "worse"),
        (Unit.SECONDS, "never", 300.0, "better"),
        (Unit.SECONDS, "never", "never", "noise"),
        # In one report only.
        (Unit.SECONDS, None, 3.0, "changed"),
        (Unit.BYTES, 3.0, None, "changed"),
        (Unit.WORDS, "a", "b", "changed"),
    ],
)
def test_a_change_counts_beyond_noise(
    unit: Unit, before: float | str | None, after: float | str | None, judgement: str
) -> None:
    assert judged(unit, before, after) == judgement


def test_there_and_back_are_judged_alike() -> None:
    opposite = {
        Judgement.BETTER: Judgement.WORSE,
        Judgement.WORSE: Judgement.BETTER,
        Judgement.NOISE: Judgement.NOISE,
    }
    for unit in NOISE:
        for before in (0, 1, 50, 100, 119, 121, 124, 1e6, 1.22e6, 1e8, 1.24e8):
            for after in (0, 1, 50, 100, 119, 121, 124, 1e6, 1.22e6, 1e8, 1.24e8):
                assert judged(unit, before, after) is opposite[judged(unit, after, before)]


def of(before: Run, after: Run) -> dict[str, Difference]:
    (drill,) = compare(Report(runs=[before]), Report(runs=[after])).drills
    return {one.what: one for one in drill.differences}


def beyond_noise(before: Run, after: Run) -> dict[str, str]:
    return {
        what: one.judgement.value
        for what, one in of(before, after).items()
        if one.judgement is not Judgement.NOISE
    }


def test_a_run_equals_itself() -> None:
    assert beyond_noise(a_run(), a_run()) == {}
    comparison = compare(all_drills(), all_drills())
    assert len(comparison.drills) == 13
    assert all(
        one.judgement is Judgement.NOISE for drill in comparison.drills for one in drill.differences
    )


def changed(part: str, at: int = 0, **fields: Any) -> Run:
    """A run in which one value of a list has other fields."""
    values = list(getattr(a_run(), part))
    values[at] = values[at].model_copy(update=fields)
    whole: dict[str, Any] = {part: values}
    return a_run(**whole)


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (changed("produced", lost=1), "plain: lost"),
        (changed("produced", unknown=40), "plain: no answer"),
        (changed("produced", refused=40), "plain: refused"),
        (changed("produced", at=1, repeated=40), "idempotent: repeated"),
        (changed("consumed", never=1), "workers: never delivered"),
        (changed("consumed", out_of_order=99), "workers: out of order"),
        (changed("read", skipped=99), "xread: skipped"),
        (changed("read", again=99), "xread: again"),
        (changed("read", at=1, out_of_order=99), "crdt.xread: out of order"),
        (changed("stalls", recovery_s=9.0), "plain producer: recovery"),
        (changed("stalls", recovery_s=None), "plain producer: recovery"),
        (changed("stalls", longest_s=9.0), "plain producer: longest stall"),
        (changed("stalls", errors={"TimeoutError": 99}), "plain producer: errors"),
        (changed("convergences", seconds=9.0), "equal digests (region 1: started again)"),
        (changed("convergences", seconds=None), "equal digests (region 1: started again)"),
        (changed("links", lag_ms=[9e9] * 120), "link 2 → 1: highest lag"),
        (changed("links", bytes_received=9_000_000), "link 2 → 1: received"),
        (changed("links", bytes_again=900_000), "link 2 → 1: received again"),
        (changed("nodes", rss_bytes=[9e9] * 60), "region 1: most memory"),
        (changed("alerts", fired_at=None), "alert CrdtstreamRegionDown: missing"),
        (changed("checks", is_met=False), "check lost"),
        (changed("latencies", p50_ms=100.0), "plain, before: p50"),
        (changed("latencies", at=1, p99_ms=900.0), "plain, during: p99"),
        (changed("latencies", at=2, p999_ms=900.0), "plain, after: p99.9"),
    ],
)
def test_each_figure_is_compared(after: Run, what: str) -> None:
    before = a_run()
    assert beyond_noise(before, after) == {what: "worse"}
    assert beyond_noise(after, before) == {what: "better"}


def test_alerts_are_the_same_whatever_ports_their_regions_had() -> None:
    before = changed("alerts", labels={"region": "1", "instance": "127.0.0.1:23081"})
    after = changed("alerts", labels={"region": "1", "instance": "127.0.0.1:29981"})
    [drill] = compare(Report(runs=[before]), Report(runs=[after])).drills
    found = [one for one in drill.differences if one.what.startswith("alert ")]
    assert {(one.before, one.after) for one in found} == {(0, 0)}


def test_reasons_for_which_entries_came_again_are_compared_one_by_one() -> None:
    after = changed("consumed", again={"moved to another region": 112, "no such reason": 80})
    assert beyond_noise(a_run(), after) == {
        "workers: again, no such reason": "worse",
        "workers: again, not acknowledged in time": "better",
    }


@pytest.mark.parametrize(("count", "judgement"), [(99, "changed"), (100, "worse")])
def test_a_percentile_of_few_requests_is_not_judged(count: int, judgement: str) -> None:
    def with_p99(p99_ms: float) -> Run:
        latency = Latency(
            kind="plain",
            phase=Phase.DURING,
            count=count,
            p50_ms=1,
            p99_ms=p99_ms,
            p999_ms=1_000,
            max_ms=2_000,
        )
        return a_run(latencies=[latency])

    assert beyond_noise(with_p99(10), with_p99(500)) == {"plain, during: p99": judgement}


def test_latencies_are_not_compared_if_the_load_was_not_made() -> None:
    load = LoadMade(asked_per_s=9, made_per_s=1, late_ms_p99=9, is_made=False, problem="too slow")
    after = a_run(load=load, latencies=[])
    (drill,) = compare(Report(runs=[a_run()]), Report(runs=[after])).drills
    assert drill.note == "after the load was not made, so latencies are not compared: too slow"
    assert not any(one.unit is Unit.MILLISECONDS for one in drill.differences)


def test_of_an_aborted_run_only_the_verdict_is_compared() -> None:
    (drill,) = compare(
        Report(runs=[a_run("slow-link")]), Report(runs=[an_aborted_run("slow-link")])
    ).drills
    assert [(one.what, one.judgement) for one in drill.differences] == [
        ("verdict", Judgement.WORSE)
    ]
    assert drill.note.startswith("after was not judged: region 2 does not answer")


def test_a_verdict_that_became_better_is_better() -> None:
    assert beyond_noise(a_failed_run("x"), a_run("x"))["verdict"] == "better"


def test_drills_in_one_report_only_are_listed() -> None:
    before = Report(runs=[a_run("a"), a_run("b"), a_run("b")])
    after = Report(runs=[a_run("b"), a_run("c")])
    found = compare(before, after)
    assert [one.drill for one in found.drills] == ["b"]
    assert found.only_before == ["a", "b (2)"]
    assert found.only_after == ["c"]


def test_another_machine_is_told() -> None:
    other = a_run(environment={**a_run().environment, "cores": "64"})
    found = compare(Report(runs=[a_run()]), Report(runs=[other]))
    assert found.environment == [("cores", "2", "64")]


def printed(comparison: Comparison) -> str:
    file = StringIO()
    print_comparison(console_on(file), comparison)
    return file.getvalue()


def test_differences_are_printed_in_80_columns() -> None:
    after = a_failed_run(
        "x",
        stalls=changed("stalls", recovery_s=9.0).stalls,
        convergences=[Convergence(after="region 1: started again", seconds=None)],
    )
    text = printed(compare(Report(runs=[a_run("x"), a_run()]), Report(runs=[after, a_run()])))
    # The rule is one line, which a terminal folds.
    assert all(len(line) <= WIDTH for line in text.splitlines()[:-1])
    words = " ".join(text.split())
    assert "x: passed → failed" in words
    assert "plain: lost 0 2 worse" in words
    assert "plain producer: recovery 3.90 s 9.00 s +131 % worse" in words
    assert "equal digests (region 1: started again) 1.87 s never worse" in words
    assert "region-loss: passed, nothing changed beyond noise" in words
    assert "2 drills in both: 0 better, 5 worse, 1 changed" in words
    assert RULE in words


def test_reports_without_a_common_drill_say_so() -> None:
    text = printed(compare(Report(runs=[a_run("a")]), Report(runs=[])))
    assert "only before: a" in text
    assert "no drill is in both reports" in text


def test_hostile_names_steer_no_terminal() -> None:
    name = f"\x1b[31m[red]{HOSTILE}"
    after = a_failed_run(name, environment={name: name})
    text = printed(compare(Report(runs=[a_run(name)]), Report(runs=[after])))
    assert "\x1b" not in text
    assert "[red]" in text


def test_programs_get_everything() -> None:
    found = json.loads(compare(Report(runs=[a_run()]), Report(runs=[a_run()])).as_json())
    assert found.keys() == {"rule", "environment", "drills", "only_before", "only_after"}
    (drill,) = found["drills"]
    assert drill["before"] == "passed"
    assert {
        "what": "plain, during: p99",
        "unit": "ms",
        "before": 45.5,
        "after": 45.5,
        "judgement": "noise",
    } in drill["differences"]
