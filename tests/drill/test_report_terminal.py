"""Reports as tables: all figures are there, in 80 columns, and nothing is cut."""

from io import StringIO

import pytest
from rich.console import Console

from crdtstream.drill.outcome import Alert, Check, Convergence, Mark, MarkKind, Report, Run
from crdtstream.drill.report.terminal import WIDTH, console_on, print_report, print_run
from tests.drill.making import DRILLS, a_failed_run, a_run, all_drills, an_aborted_run
from tests.page.elements import HOSTILE


def printed(report: Report, console: Console | None = None) -> str:
    file = StringIO()
    print_report(console or console_on(file), report)
    return file.getvalue()


def words(*runs: Run) -> str:
    """All that is printed, on one line."""
    return " ".join(printed(Report(runs=list(runs))).split())


@pytest.mark.parametrize("run", [a_run(), a_failed_run(), an_aborted_run()], ids=lambda r: r.drill)
def test_a_run_fits_80_columns(run: Run) -> None:
    text = printed(Report(runs=[run]))
    wide = [line for line in text.splitlines() if len(line) > WIDTH]
    assert all(line.startswith("- ") for line in wide), "only findings are lines of their own"


def test_thirteen_drills_have_a_row_each_with_their_whole_names() -> None:
    text = printed(all_drills())
    rows = text[text.index("13 drills") :].splitlines()
    assert all(len(row) <= WIDTH for row in rows)
    assert [row.split()[0] for row in rows[3:-1]] == list(DRILLS)
    assert rows[-1] == "verdict: failed"


def test_of_several_runs_those_are_whole_that_did_not_pass() -> None:
    text = printed(all_drills())
    assert "1795241607213-1, acknowledged by region 1 at 19.987 s, in no region" in text
    assert "not judged: region 2 does not answer: start it, or leave it out" in text
    assert text.count("latency as clients saw it") == 1, "that of the failed run"


@pytest.mark.parametrize(
    "told",
    [
        "region-loss: passed 62 s, began 2026-11-22 10:00:00 UTC",
        "lost met 0 0",
        "recovery met at most 15 s 4.21 s",
        "20.0 s fault region 1: kill -9",
        "idempotent 8,731 9 0 0 0 0",
        "workers partitioned 17,642 17,455 187 3 0",
        "workers moved to another region 112",
        "xread 17,400 55 0 0",
        "consumer 1/6 2.75 s 4.50 s 2 ConnectionError 14,",
        "crdt.xread 0/6 – 4.50 s 0",
        "idempotent during 4,000 8.4 46 98 217",
        "1 → 2 14,500 1,450 1.2 MiB 0 B",
        "region 3 74.8 MiB 30 %",
        "region 1: started again 1.87 s",
        "CrdtstreamRegionDown region=1 fired, as expected 23.0 s",
        "digest of all 3 regions at the end: 77d98c7fb5eba7d2980ec020b8402720ddb26031",
        "redis-py 8.1.0",
    ],
)
def test_all_measurements_are_printed(told: str) -> None:
    assert told in words(a_run())


def test_events_that_never_happened_are_printed() -> None:
    stall = a_run().stalls[0].model_copy(update={"recovery_s": None})
    run = a_run(
        stalls=[stall],
        convergences=[Convergence(after="heal", seconds=None)],
        alerts=[Alert(name="Absent", labels={}, is_expected=True, fired_at=None)],
        digests={1: "aa", 2: "bb"},
    )
    text = words(run)
    assert "plain producer 2/6 never" in text
    assert "heal never" in text
    assert "Absent should have fired" in text
    assert "digest of region 2 at the end: bb" in text


def test_no_runs_are_no_error() -> None:
    assert printed(Report(runs=[])) == "no drill was run\n"


def test_long_names_are_folded_and_never_cut() -> None:
    name = "n" * 100
    text = printed(Report(runs=[a_run(name), a_run()]))
    assert text.count("n" * 10) >= 4
    assert "…" not in text
    letters = "".join(line.split()[0] for line in text.splitlines() if line.startswith("nnn"))
    assert letters == name


def test_texts_never_steer_a_terminal() -> None:
    steering = "\x1b[31m[bold red]x[/bold red]\x07" + HOSTILE
    run = a_failed_run(
        steering,
        findings=[steering],
        about=steering,
        began=steering,
        problem=steering,
        environment={steering: steering},
        checks=[Check(name=steering, expected=steering, found=steering, is_met=False)],
        marks=[Mark(at=1.0, kind=MarkKind.FAULT, what=steering)],
    )
    text = printed(Report(runs=[run])) + printed(Report(runs=[run, run]))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold red]x[/bold red]" in text, "what stands in brackets is no style"


def test_colours_are_for_terminals() -> None:
    file = StringIO()
    print_run(Console(file=file, force_terminal=True, width=80), a_failed_run())
    assert "\x1b[" in file.getvalue()
    assert "\x1b[" not in printed(Report(runs=[a_failed_run()]))
