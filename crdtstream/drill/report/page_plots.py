"""The plots of one drill, each with its faults marked.

A long drill has more samples than a screen has points.  Then several become one: the highest where
peaks matter (lag, memory), the mean where the sum does (entries a second).
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from crdtstream.drill.outcome import LinkSeries, MarkKind, Run
from crdtstream.drill.report.figures import fault_spans, highest, link_name
from crdtstream.page.markup import Markup, element, joined
from crdtstream.page.plots import (
    COLOURS,
    MarkStyle,
    Moments,
    PlotMark,
    Series,
    line_plot,
    since_text,
    strip,
)

POINTS_MAX: Final = 360

_STYLES: Final = {
    MarkKind.FAULT: MarkStyle.BAD,
    MarkKind.END: MarkStyle.GOOD,
    MarkKind.NOTE: MarkStyle.NOTE,
}


def moments_of(run: Run) -> Moments:
    """Marks, numbered as in the table of the timeline, and the spans of faults."""
    last = _last(run)
    return Moments(
        marks=[
            PlotMark(mark.at * 1_000, number, mark.what, _STYLES[mark.kind])
            for number, mark in enumerate(sorted(run.marks, key=lambda one: one.at), start=1)
        ],
        spans=[
            (span.begin * 1_000, (last if span.end is None else span.end) * 1_000)
            for span in fault_spans(run.marks)
        ],
    )


def timeline(run: Run, moments: Moments) -> Markup | None:
    """Times at which faults were made and taken back."""
    if not run.marks:
        return None
    title = f"{run.drill}: timeline"
    return strip(title, _first(run) * 1_000, _last(run) * 1_000, moments, since_text)


def throughput_plot(run: Run, moments: Moments) -> Markup | None:
    """Entries acknowledged by each region, and delivered to consumers, per second."""
    found = run.throughput
    if not found.at:
        return None
    regions = sorted(found.acknowledged)
    lines: list[tuple[str, Sequence[float | None]]] = []
    if len(regions) < COLOURS:
        lines += [(f"acknowledged by region {one}", found.acknowledged[one]) for one in regions]
    else:
        # If lines outnumber colours they say less than their sum.
        sums = [sum(each) for each in zip(*found.acknowledged.values(), strict=True)]
        lines.append((f"acknowledged by all {len(regions)} regions", sums))
    lines.append(("delivered to consumers", found.delivered))
    series = [_series(name, found.at, values, _mean) for name, values in lines]
    return _plot(run, "entries a second", series, "/s", moments)


def lag_plot(run: Run, moments: Moments) -> Markup | None:
    """Age of the oldest effect that a region lacks, by link."""
    return _of_links(run, "lag in ms", "ms", lambda link: link.lag_ms, moments)


def lag_effects_plot(run: Run, moments: Moments) -> Markup | None:
    """Number of effects that a region lacks, by link."""
    return _of_links(run, "effects behind", "", lambda link: link.lag_effects, moments)


def memory_plot(run: Run, moments: Moments) -> Markup | None:
    """Resident memory of each node's process, in MiB."""
    series = [
        _series(
            f"region {node.region}",
            node.at,
            [None if value is None else value / 2**20 for value in node.rss_bytes],
            highest,
        )
        for node in run.nodes
    ]
    return _plot(run, "resident memory in MiB", series, "MiB", moments)


def cpu_plot(run: Run, moments: Moments) -> Markup | None:
    """CPU of each node's process; 100 is one core."""
    series = [
        _series(f"region {node.region}", node.at, node.cpu_percent, highest) for node in run.nodes
    ]
    return _plot(run, "CPU in % of a core", series, "%", moments)


def thinned(
    at: Sequence[float],
    values: Sequence[float | None],
    one_of: Callable[[Sequence[float | None]], float | None],
) -> tuple[list[float], list[float | None]]:
    """At most ``POINTS_MAX`` points; ``one_of`` makes one value of several."""
    width = -(-len(at) // POINTS_MAX) or 1
    starts = range(0, len(at), width)
    return (
        [at[start] for start in starts],
        [one_of(values[start : start + width]) for start in starts],
    )


def _of_links(
    run: Run,
    title: str,
    unit: str,
    values: Callable[[LinkSeries], Sequence[float | None]],
    moments: Moments,
) -> Markup | None:
    """A line per link; if links outnumber colours, the worst ones."""
    measured = [link for link in run.links if highest(values(link)) is not None]
    worst = sorted(measured, key=lambda link: -(highest(values(link)) or 0.0))[:COLOURS]
    shown = sorted(worst, key=lambda link: (link.peer, link.puller))
    series = [_series(link_name(link), link.at, values(link), highest) for link in shown]
    plot = _plot(run, title, series, unit, moments)
    more = len(measured) - len(shown)
    if plot is None or not more:
        return plot
    note = f"The {len(shown)} links that were furthest behind; {more} more are in the table below."
    return joined([plot, element("p", note, class_="note")])


def _series(
    name: str,
    at: Sequence[float],
    values: Sequence[float | None],
    one_of: Callable[[Sequence[float | None]], float | None],
) -> Series:
    times, points = thinned(at, values, one_of)
    return Series(name, points, times_ms=[second * 1_000 for second in times])


def _plot(
    run: Run, title: str, series: Sequence[Series], unit: str, moments: Moments
) -> Markup | None:
    """A plot; None if nothing was measured; all plots of a run are as wide as the run."""
    if not any(value is not None for one in series for value in one.values):
        return None
    return line_plot(
        f"{run.drill}: {title}",
        [_first(run) * 1_000, _last(run) * 1_000],
        series,
        unit=unit,
        moments=moments,
        tick_text=since_text,
    )


def _first(run: Run) -> float:
    """Beginning of the plots: nodes are looked at before the load begins."""
    return min([0.0, *(at for times in _times(run) for at in times[:1])])


def _last(run: Run) -> float:
    """End of the plots: after all that was measured or marked."""
    ends = [at for times in _times(run) for at in times[-1:]]
    return max([run.seconds, *ends, *(mark.at for mark in run.marks)])


def _times(run: Run) -> list[list[float]]:
    return [run.throughput.at, *(one.at for one in run.links), *(one.at for one in run.nodes)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
