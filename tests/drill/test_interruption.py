"""Ctrl-C in each phase of a drill: it ends, and leaves no process and no fault."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from crdtstream.drill.drill import Drill
from crdtstream.drill.outcome import Mark, MarkKind, Run, Verdict
from crdtstream.drill.rehearsal import Local
from crdtstream.drill.runner import INTERRUPTED, Progress
from tests.conftest import program
from tests.patience import seconds, wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

DRILL = Drill.model_validate(
    {
        "about": "A drill that somebody stops.",
        "regions": 2,
        "seconds": 60,
        "groups": [{"name": "g"}],
        "load": [
            {"kind": "idempotent", "region": 1},
            {"kind": "multidb", "region": 1},
            {"kind": "consumer", "group": "g", "region": 2},
            {"kind": "herd", "region": 2, "clients": 300},
        ],
        "steps": [
            {"do": "freeze", "region": 1, "at": 0.2},
            {"do": "flapping-links", "at": 0.3, "down_ms": 100, "up_ms": 100},
            {"do": "clock-skew", "region": 2, "at": 0.5, "offset_ms": 1000},
        ],
    }
)


class Watcher:
    """Notes whether the load has begun, what was done, and what is going on."""

    def __init__(self) -> None:
        self.has_begun = False
        self.marks: list[Mark] = []
        self.note = ""

    def began(self, name: str, drill: Drill) -> None:
        self.has_begun = True

    def mark(self, mark: Mark) -> None:
        self.marks.append(mark)

    def progress(self, progress: Progress) -> None:
        self.note = progress.note


Phase = Callable[[Path, Watcher], bool]


def regions_start(folder: Path, _: Watcher) -> bool:
    return (folder / "nodes" / "region-1.toml").exists()


def the_herd_connects(folder: Path, _: Watcher) -> bool:
    return any(folder.glob("herd-*.plan"))


def faults_are_made(_: Path, watcher: Watcher) -> bool:
    return len(watcher.marks) == 3


@pytest.mark.parametrize(
    "phase",
    [
        regions_start,
        pytest.param(the_herd_connects, marks=pytest.mark.long),
        pytest.param(faults_are_made, marks=pytest.mark.long),
    ],
)
def test_a_drill_that_is_stopped_ends_and_leaves_nothing(tmp_path: Path, phase: Phase) -> None:
    before = children()
    run, watcher = stopped(tmp_path, DRILL, phase)
    assert (run.verdict, run.problem) == (Verdict.ABORTED, INTERRUPTED)
    assert watcher.has_begun == (phase is faults_are_made)
    assert children() == before
    made = [mark for mark in watcher.marks if mark.kind is MarkKind.FAULT]
    over = [mark for mark in watcher.marks if mark.kind is MarkKind.END]
    assert len(made) == len(over)


@pytest.mark.long
def test_a_drill_that_is_stopped_while_it_settles_ends_and_leaves_nothing(tmp_path: Path) -> None:
    before = children()
    short = DRILL.model_copy(
        update={"seconds": 2.0, "steps": DRILL.steps[1:2], "load": DRILL.load[:3]}
    )
    run, _ = stopped(tmp_path, short, lambda _, watcher: watcher.note == "consumers finish")
    assert (run.verdict, run.problem) == (Verdict.ABORTED, INTERRUPTED)
    # What was found so far is told.
    assert run.produced
    assert children() == before


def stopped(tmp_path: Path, drill: Drill, phase: Phase) -> tuple[Run, Watcher]:
    """A drill in a thread of its own, told to stop once a phase has come."""
    program("toxiproxy-server")
    watcher, stop, runs = Watcher(), threading.Event(), []
    local = Local(stop=stop.is_set, watches_alerts=False, keep=tmp_path / "kept")
    thread = threading.Thread(target=lambda: runs.append(local.run("a", drill, watcher)))
    thread.start()
    wait_until(
        lambda: phase(tmp_path / "kept" / "a", watcher) or not thread.is_alive(), "the phase"
    )
    stop.set()
    thread.join(seconds())
    assert not thread.is_alive(), "it goes on"
    [run] = runs
    return run, watcher


def children() -> set[int]:
    """The processes that were started by this one."""
    found: set[int] = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except FileNotFoundError:
            continue
    return found
