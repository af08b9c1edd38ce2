"""Outcomes as SVG: bars for cases, lines for curves; complete in itself, without a script.

rate, /s                    a panel for each figure; bars start at 0 and
400 k ┤ ██                  carry the lowest and highest round as a line
200 k ┤ ██ ██               curves have logarithmic axes, as what they
    0 ┼─██─██──             show grows tenfold from point to point
        everysec
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.aims import shown
from benchmarks.measured import Outcome, Spread
from benchmarks.tables import title
from crdtstream.page.markup import Markup, element
from crdtstream.page.plots import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    Series,
    TickText,
    grid,
    line,
    path_of,
    time_labels,
)
from crdtstream.page.style import LIGHT

LEGEND: Final = 22.0
# The classes of a page's plots, for a file that has no page around it.
STYLE: Final = (
    "svg{font:11px sans-serif;fill:#1c2127}.back{fill:#fff}.grid{stroke:#dfe3e8}"
    ".whisker{stroke:#1c2127}.end{text-anchor:end}.middle{text-anchor:middle}.title{font-weight:bold}"
    + "".join(f".s{at}{{fill:{one};stroke:{one}}}" for at, one in enumerate(LIGHT))
    + "path.line{fill:none;stroke-width:2}rect[class]{stroke:none}"
)


def drawing(outcome: Outcome, drawn: Sequence[str], curve: str) -> Markup:
    """All panels of a part, below each other.

    Args:
        curve: what the cases are numbers of; empty: they are words.
    """
    panels = [
        _curve(outcome, figure, curve) if curve else _bars(outcome, figure) for figure in drawn
    ]
    return _whole(outcome.about, outcome.systems, panels)


def lines(
    about: str,
    times: Sequence[float],
    panels: dict[str, Sequence[Series]],
    tick_text: TickText,
) -> Markup:
    """Panels by their titles, all of the same series, over times or what else grows."""
    found = []
    for words, series in panels.items():
        scale = Scale.over(times, [value or 0.0 for one in series for value in one.values])
        drawn = [line(scale, times, one, at) for at, one in enumerate(series)]
        labels = time_labels(scale, HEIGHT - 8, tick_text)
        found.append([_title(words), *grid(scale), *labels, *drawn])
    return _whole(about, [one.name for one in next(iter(panels.values()))], found)


def _whole(about: str, names: Sequence[str], panels: Sequence[Sequence[Markup]]) -> Markup:
    height = LEGEND + HEIGHT * len(panels)
    return element(
        "svg",
        element("title", about),
        element("style", Markup(STYLE)),
        element("rect", width=WIDTH, height=height, class_="back"),
        _legend(names),
        [
            element("g", panel, transform=f"translate(0,{LEGEND + at * HEIGHT:g})")
            for at, panel in enumerate(panels)
        ],
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
    )


def _legend(names: Sequence[str]) -> list[Markup]:
    found, x = [], LEFT
    for at, name in enumerate(names):
        found.append(element("rect", x=x, y=7.0, width=10.0, height=10.0, class_=f"s{at}"))
        found.append(element("text", name, x=x + 14, y=16.0))
        x += 40 + 6.2 * len(name)
    return found


def _bars(outcome: Outcome, figure: str) -> list[Markup]:
    spreads = {
        (case, system): spread
        for case in outcome.cases
        for system in outcome.systems
        if (spread := outcome.spread(case, system, figure)) is not None
    }
    if not spreads:
        return []
    room = (WIDTH - LEFT - RIGHT) / len(outcome.cases)
    width = room * 0.8 / len(outcome.systems)
    scale = Scale.over([], [one.high for one in spreads.values()])
    floor = HEIGHT - BOTTOM
    marks = [_title(title(figure)), *grid(scale, value_text=shown)]
    for place, case in enumerate(outcome.cases):
        left = LEFT + place * room
        marks.append(_below(case, left + room / 2))
        for at, system in enumerate(outcome.systems):
            if (spread := spreads.get((case, system))) is None:
                continue
            x = left + room * 0.1 + at * width
            top = scale.y(spread.median)
            marks.append(
                element(
                    "rect",
                    element("title", f"{system}, {case}: {shown(spread.median)}"),
                    x=x,
                    y=top,
                    width=width * 0.9,
                    height=max(0.5, floor - top),
                    class_=f"s{at}",
                )
            )
            marks.append(_whisker(x + width * 0.45, spread, scale.y))
    return marks


def _curve(outcome: Outcome, figure: str, axis: str) -> list[Markup]:
    # A point at 0 stands where 1 would; no curve has both.
    along = {case: math.log10(max(1.0, float(case))) for case in outcome.cases}
    points = {
        system: [
            (x, spread)
            for case, x in along.items()
            if (spread := outcome.spread(case, system, figure)) is not None
        ]
        for system in outcome.systems
    }
    spreads = [spread for found in points.values() for _, spread in found]
    positive = [value for one in spreads for value in (one.low, one.high) if value > 0]
    if not positive:
        return []
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    first, last = min(along.values()), max(along.values())
    edge = (last - first) * 0.04
    scale = Scale(first - edge, last + edge, low, max(high, low + 1), 1.0)

    def y(value: float) -> float:
        return scale.y(math.log10(max(value, 10.0**low)))

    marks = [_title(title(figure)), *grid(scale, value_text=lambda power: shown(10.0**power))]
    marks += [_below(shown(float(case)), scale.x(x)) for case, x in along.items()]
    marks.append(element("text", axis, x=WIDTH - RIGHT, y=TOP - 5, class_="end"))
    for at, found in enumerate(points.values()):
        path = path_of([(scale.x(x), y(one.median)) for x, one in found])
        marks.append(element("path", d=path, class_=f"line s{at}"))
        for x, one in found:
            cx, cy = scale.x(x), y(one.median)
            marks.append(element("circle", cx=cx, cy=cy, r=3.0, class_=f"s{at}"))
            marks.append(_whisker(cx, one, y))
    return marks


def _title(words: str) -> Markup:
    return element("text", words, x=LEFT, y=TOP - 5, class_="title")


def _below(words: str, x: float) -> Markup:
    return element("text", words, x=x, y=HEIGHT - 8, class_="middle")


def _whisker(x: float, spread: Spread, y: Callable[[float], float]) -> Markup:
    return element("line", x1=x, x2=x, y1=y(spread.low), y2=y(spread.high), class_="whisker")
