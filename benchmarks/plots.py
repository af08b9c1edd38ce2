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
from crdtstream.page.plots import round_step

WIDTH: Final = 720.0
PANEL: Final = 200.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 14.0, 30.0, 24.0
LEGEND: Final = 22.0
COLOURS: Final = ("#0072b2", "#d55e00", "#00845f", "#b3478a", "#a06c00")
BACK, TEXT, GRID = "#ffffff", "#1c2127", "#dfe3e8"
FONT: Final = "11px sans-serif"
STEPS: Final = 4


def drawing(outcome: Outcome, drawn: Sequence[str], curve: str) -> Markup:
    """All panels of a part, below each other.

    Args:
        curve: what the cases are numbers of; empty: they are words.
    """
    panels = [
        _curve(outcome, figure, curve) if curve else _bars(outcome, figure) for figure in drawn
    ]
    height = LEGEND + PANEL * len(panels)
    placed = [
        element("g", panel, transform=f"translate(0,{LEGEND + at * PANEL:g})")
        for at, panel in enumerate(panels)
    ]
    return element(
        "svg",
        element("title", outcome.about),
        element("rect", width=WIDTH, height=height, fill=BACK),
        _legend(outcome.systems),
        placed,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        style=f"font:{FONT};fill:{TEXT}",
    )


def _legend(systems: Sequence[str]) -> list[Markup]:
    found, x = [], LEFT
    for at, system in enumerate(systems):
        found.append(element("rect", x=x, y=7.0, width=10.0, height=10.0, fill=_colour(at)))
        found.append(element("text", system, x=x + 14, y=16.0))
        x += 40 + 6.2 * len(system)
    return found


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def _bars(outcome: Outcome, figure: str) -> list[Markup]:
    spreads = {
        (case, system): spread
        for case in outcome.cases
        for system in outcome.systems
        if (spread := outcome.spread(case, system, figure)) is not None
    }
    if not spreads:
        return []
    step = round_step(max(one.high for one in spreads.values()) / STEPS or 1.0)
    count = math.ceil(max(one.high for one in spreads.values()) / step) or 1
    floor = PANEL - BOTTOM

    def y(value: float) -> float:
        return floor - value / (count * step) * (floor - TOP)

    marks = _grid(figure, [at * step for at in range(count + 1)], y)
    room = (WIDTH - LEFT - RIGHT) / len(outcome.cases)
    width = room * 0.8 / len(outcome.systems)
    for place, case in enumerate(outcome.cases):
        left = LEFT + place * room
        marks.append(_label(case, left + room / 2, PANEL - 8, anchor="middle"))
        for at, system in enumerate(outcome.systems):
            if (spread := spreads.get((case, system))) is None:
                continue
            x = left + room * 0.1 + at * width
            top = y(spread.median)
            marks.append(
                element(
                    "rect",
                    element("title", f"{system}, {case}: {shown(spread.median)}"),
                    x=x,
                    y=top,
                    width=width * 0.9,
                    height=max(0.5, floor - top),
                    fill=_colour(at),
                )
            )
            marks.append(_whisker(x + width * 0.45, spread, y))
    return marks


def _curve(outcome: Outcome, figure: str, axis: str) -> list[Markup]:
    points = {
        system: [
            (float(case), spread)
            for case in outcome.cases
            if (spread := outcome.spread(case, system, figure)) is not None
        ]
        for system in outcome.systems
    }
    values = [value for line in points.values() for _, one in line for value in (one.low, one.high)]
    positive = [value for value in values if value > 0]
    if not positive:
        return []
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    floor = PANEL - BOTTOM
    along = sorted({x for line in points.values() for x, _ in line})
    # A point at 0 stands where 1 would; no curve has both.
    logs = [math.log10(max(1.0, x)) for x in along]
    span = (logs[-1] - logs[0]) or 1.0

    def x_of(value: float) -> float:
        share = (math.log10(max(1.0, value)) - logs[0]) / span
        return LEFT + 10 + share * (WIDTH - LEFT - RIGHT - 40)

    def y(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return floor - share * (floor - TOP)

    marks = _grid(figure, [10.0**at for at in range(low, high + 1)], y)
    marks += [_label(shown(x), x_of(x), PANEL - 8, anchor="middle") for x in along]
    marks.append(_label(axis, WIDTH - RIGHT, TOP - 10, anchor="end"))
    for at, line in enumerate(points.values()):
        if not line:
            continue
        path = "M" + "L".join(f"{x_of(x):.1f},{y(one.median):.1f}" for x, one in line)
        marks.append(element("path", d=path, fill="none", stroke=_colour(at), stroke_width=2.0))
        for x, one in line:
            marks.append(element("circle", cx=x_of(x), cy=y(one.median), r=3.0, fill=_colour(at)))
            marks.append(_whisker(x_of(x), one, y))
    return marks


def _grid(figure: str, values: Sequence[float], y: Callable[[float], float]) -> list[Markup]:
    marks = [_label(title(figure), 4.0, TOP - 10, anchor="start", weight="bold")]
    for value in values:
        at = y(value)
        marks.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, stroke=GRID))
        marks.append(_label(shown(value), LEFT - 6, at + 4, anchor="end"))
    return marks


def _whisker(x: float, spread: Spread, y: Callable[[float], float]) -> Markup:
    return element("line", x1=x, x2=x, y1=y(spread.low), y2=y(spread.high), stroke=TEXT)


def _label(words: str, x: float, y: float, *, anchor: str, weight: str | None = None) -> Markup:
    return element("text", words, x=x, y=y, text_anchor=anchor, font_weight=weight)
