"""From records to a verdict: what makes it red, and what leaves it open."""

from pathlib import Path

import pytest

from crdtstream.drill.drill import Drill
from crdtstream.drill.judging import Course, judge
from crdtstream.drill.outcome import Mark, MarkKind, Run, Verdict
from crdtstream.drill.records import Outcome, Record, encode
from tests.drill.recorded import client, drill, found, given, late, request, sent

GROUPLESS = {"groups": [], "load": [{"kind": "idempotent", "region": 1, "per_second": 0.2}]}


def judged(tmp_path: Path, wanted: Drill, *records: Record, **changes: object) -> Run:
    course = {
        "began_at": "2026-11-22T10:00:00+00:00",
        "began": 0.0,
        "seconds": 10.0,
        "marks": [Mark(at=2.0, kind=MarkKind.FAULT, what="region 1: kill -9")],
        "samples": [],
        "links": [],
        "regions": (1, 2),
        "convergences": [],
        "digests": {1: "aa", 2: "aa"},
        "taken_over": 0,
        "fired": [],
        "problem": "",
        **changes,
    }
    file = tmp_path / "a.records"
    file.write_text("".join(map(encode, [client("p", "idempotent"), *records])))
    return judge("a", wanted, [file], Course(**course))  # type: ignore[arg-type]


ALL_WELL: list[Record] = [request(2.1, 2.2), sent(1), *found(1)]


def test_all_is_well(tmp_path: Path) -> None:
    run = judged(tmp_path, drill(**GROUPLESS), *ALL_WELL)
    assert (run.verdict, run.problem, run.findings) == (Verdict.PASSED, "", [])


def test_a_region_that_does_not_come_back_is_a_failure_and_not_an_open_verdict(
    tmp_path: Path,
) -> None:
    why = "not well after 60 s:\n  region 1: no region node answers"
    run = judged(tmp_path, drill(**GROUPLESS), request(2.1, 2.2), sent(1), unwell=why, digests={})
    assert (run.verdict, run.problem) == (Verdict.FAILED, "")
    [check] = run.checks
    assert (check.name, check.found, check.is_met) == ("well", "not well after 60 s:", False)
    assert run.findings == why.splitlines()
    # Nobody has read the streams, so nothing can be said of them.
    assert run.produced[0].lost == 0


def test_regions_whose_streams_are_empty_have_lost_all(tmp_path: Path) -> None:
    run = judged(tmp_path, drill(**GROUPLESS), request(2.1, 2.2), sent(1))
    assert run.verdict is Verdict.FAILED
    assert [check.name for check in run.checks if not check.is_met] == ["lost"]


def test_times_of_a_load_that_was_not_made_leave_the_verdict_open(tmp_path: Path) -> None:
    wanted = drill(**GROUPLESS, must_hold={"recovers_within_s": 2})
    slow: list[Record] = [request(2.1, 5.0), sent(1), *found(1)]
    assert judged(tmp_path, wanted, *slow).verdict is Verdict.FAILED
    run = judged(tmp_path, wanted, *slow, late(0.2))
    assert run.verdict is Verdict.ABORTED
    assert run.problem.startswith("the load's own loop was late by 200 ms")
    # Within the bound although the load was late: it is so all the more.
    run = judged(tmp_path, wanted, *ALL_WELL, late(0.2))
    assert (run.verdict, run.problem, run.latencies) == (Verdict.PASSED, "", [])
    # What was lost is no matter of time.
    assert judged(tmp_path, wanted, request(2.1, 5.0), sent(1), late(0.2)).verdict is Verdict.FAILED


def test_a_row_that_is_never_answered_is_a_failure(tmp_path: Path) -> None:
    rows: list[Record] = [request(2.1, 2.2), sent(1, outcome=Outcome.UNKNOWN), sent(2), *found(2)]
    run = judged(tmp_path, drill(**GROUPLESS), *rows)
    assert [check.name for check in run.checks if not check.is_met] == ["unanswered"]


def test_a_drill_that_was_interrupted_is_not_judged(tmp_path: Path) -> None:
    run = judged(tmp_path, drill(), sent(1), given(1), problem="interrupted", digests={})
    assert (run.verdict, run.checks, run.findings) == (Verdict.ABORTED, [], [])


@pytest.mark.parametrize("alerts", [["A"], []])
def test_unwatched_alerts_are_a_finding(tmp_path: Path, alerts: list[str]) -> None:
    run = judged(tmp_path, drill(**GROUPLESS, alerts=alerts), *ALL_WELL, fired=None)
    assert run.verdict is Verdict.PASSED
    assert run.findings == ["alerts were not watched: there was no Prometheus"]


def test_a_deployment_may_have_more_regions_than_the_drill_wants(tmp_path: Path) -> None:
    digests = {1: "aa", 2: "aa", 3: "aa"}
    rows: list[Record] = [request(2.1, 2.2), sent(1), *found(1, regions=(1, 2, 3))]
    run = judged(tmp_path, drill(**GROUPLESS), *rows, regions=(1, 2, 3), digests=digests)
    assert run.verdict is Verdict.PASSED
