"""A run as of each moment: what was measured last by then, and which faults lasted."""

import pytest

from crdtstream.drill.outcome import LinkSeries, Mark, MarkKind, NodeSeries, Run, Throughput
from crdtstream.replay.timeline import NO_FAULT, Timeline
from tests.drill.making import a_run, an_aborted_run

FAULT, END, NOTE = MarkKind.FAULT, MarkKind.END, MarkKind.NOTE


def run_of(*marks: tuple[float, MarkKind, str]) -> Run:
    return a_run(
        seconds=10.0,
        marks=[Mark(at=at, kind=kind, what=what) for at, kind, what in marks],
        links=[
            LinkSeries(
                puller=1,
                peer=2,
                at=[0.0, 1.0, 2.0, 3.0],
                lag_ms=[5.0, 999.0, 2_500.0, None],
                lag_effects=[0.0, 10.0, 1_234.0, None],
                bytes_received=0,
                bytes_again=0,
            )
        ],
        nodes=[
            NodeSeries(
                region=1,
                at=[1.0, 2.0, 3.0],
                rss_bytes=[1024.0 * 1024, None, 2048.0 * 1024],
                cpu_percent=[12.4, None, 80.0],
            )
        ],
        throughput=Throughput(
            at=[1.0, 2.0], acknowledged={1: [10.0, 0.0], 2: [20.0, 30.0]}, delivered=[7.0, 8.0]
        ),
        digests={},
    )


@pytest.mark.parametrize(
    ("at", "cell", "text"),
    [
        (0.0, "link.2-1.lag", "5 ms"),
        (0.99, "link.2-1.lag", "5 ms"),
        (1.0, "link.2-1.lag", "999 ms"),
        (1.0, "link.2-1.state", "ok"),
        (2.5, "link.2-1.lag", "2.5 s"),
        (2.5, "link.2-1.label", "2.5 s"),
        (2.5, "link.2-1.state", "behind"),
        (2.5, "link.2-1.behind", "1\u202f234"),
        (3.0, "link.2-1.lag", "–"),
        (3.0, "link.2-1.state", "unknown"),
        (9.0, "link.2-1.state", "unknown"),
        (0.5, "region.1.state", "not watched"),
        (1.5, "region.1.state", "ok"),
        (1.5, "region.1.memory", "1.0 MiB"),
        (1.5, "region.1.cpu", "12 %"),
        (2.5, "region.1.state", "no process"),
        (2.5, "region.1.memory", "–"),
        (3.5, "region.1.state", "ok"),
        (2.5, "region.2.state", "not watched"),
        (0.5, "region.1.writes", "–"),
        (1.5, "region.2.writes", "20/s"),
        (0.5, "total.acknowledged", "–"),
        (1.5, "total.acknowledged", "30/s"),
        (2.0, "total.acknowledged", "30/s"),
        (2.0, "total.delivered", "8.0/s"),
        (2.0, "at", "2.0 s"),
    ],
)
def test_a_moment_has_what_was_measured_last(at: float, cell: str, text: str) -> None:
    assert Timeline(run_of()).cells(at)[cell] == text


@pytest.mark.parametrize(
    ("at", "lasting"),
    [
        (0.9, []),
        (1.0, ["cut"]),
        (2.5, ["cut", "kill"]),
        (3.0, ["cut"]),
        (4.9, ["cut"]),
        (5.0, []),
        (9.0, []),
    ],
)
def test_faults_last_from_their_mark_to_that_of_their_end(at: float, lasting: list[str]) -> None:
    run = run_of(
        (1.0, FAULT, "cut"),
        (2.0, FAULT, "kill"),
        # By its words, not by its place.
        (3.0, END, "over: kill"),
        (4.0, NOTE, "the operator looks"),
        # Of other words: the one that is left.
        (5.0, END, "region 1: started again"),
    )
    timeline = Timeline(run)
    assert timeline.lasting(at) == lasting
    assert timeline.cells(at)["faults"] == (", ".join(lasting) or NO_FAULT)


def test_events_are_past_from_their_moment_on() -> None:
    timeline = Timeline(run_of((1.0, FAULT, "cut"), (3.0, END, "over: cut")))
    assert [timeline.cells(2.0)[f"mark.{n}.state"] for n in range(2)] == ["past", "to come"]
    assert [timeline.cells(3.0)[f"mark.{n}.state"] for n in range(2)] == ["past", "past"]


def test_a_moment_outside_of_the_run_is_its_nearest_one() -> None:
    timeline = Timeline(run_of((-1.0, NOTE, "before the load"), (12.0, NOTE, "behind it")))
    assert (timeline.begin, timeline.end) == (-1.0, 12.0)
    assert [timeline.within(at) for at in (-5.0, 3.0, 99.0)] == [-1.0, 3.0, 12.0]


def test_all_moments_have_the_same_cells() -> None:
    """A page shows them by name, so none may be missing."""
    timeline = Timeline(a_run())
    found = {frozenset(timeline.cells(at / 2)) for at in range(130)}
    assert len(found) == 1


def test_a_run_that_measured_nothing_has_a_timeline() -> None:
    timeline = Timeline(an_aborted_run())
    assert (timeline.begin, timeline.end) == (0.0, 0.0)
    assert timeline.cells(0.0)["faults"] == NO_FAULT
