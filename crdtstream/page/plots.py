"""Lines over time as SVG, in a page that is complete in itself.

    max ┤      ╭╮            a label at each grid line, times below,
        ┤   ╭──╯╰─╮          one line per series; colours, and with them
      0 ┤───╯     ╰──        light and dark, are the page's classes s0 … s7
        └┬────┬────┬──

A plot is drawn for a width of 720 units and grows and shrinks with the page.  There is no script:
the numbers of the points are in the tables.

Events during the measurement can be marked: a span is shaded; a mark is a line with a number and,
where there is room, its words.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

from crdtstream.page.markup import Markup, element

WIDTH: Final = 720.0
HEIGHT: Final = 200.0
# Room for labels.
LEFT: Final = 58.0
RIGHT: Final = 14.0
TOP: Final = 24.0
BOTTOM: Final = 26.0
COLOURS: Final = 8
# Between the numbers of two marks, so that a phone's large ones do not touch.
MARK_GAP: Final = 22.0
# Of a mark's words; a character of the label's font is about as wide.
MARK_CHAR_WIDTH: Final = 5.2
MARK_CHARS_MIN: Final = 6
STRIP_HEIGHT: Final = 58.0

_TICKS_UP: Final = 4
_TICKS_ALONG: Final = 5
_STEPS_MS: Final = tuple(
    count * unit
    for unit, counts in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 3, 6, 12)),
        (86_400_000, (1, 2, 7, 14, 30, 61, 91, 182, 365, 730, 1826, 3652)),
    )
    for count in counts
)


# A time, and how far apart labels are, both in ms, as a label.
TickText: TypeAlias = Callable[[float, float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """A line: a name, and per time (ms) a value; None: no value, the line is interrupted.

    Attributes:
        times_ms: ascending; None: the plot's.
    """

    name: str
    values: Sequence[float | None]
    times_ms: Sequence[float] | None = None


class MarkStyle(StrEnum):
    """Style of a mark: the name of a class of the page."""

    BAD = "bad"
    GOOD = "good"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A moment: a line from top to bottom.

    Attributes:
        number: distinguishes it from others; the words beside it may be cut or left out.
    """

    at_ms: float
    number: int
    words: str
    style: MarkStyle


@dataclass(frozen=True, slots=True)
class Moments:
    """Marks and spans in a plot.

    Attributes:
        spans: times (first, last) that are shaded.
    """

    marks: Sequence[PlotMark] = ()
    spans: Sequence[tuple[float, float]] = ()


NO_MOMENTS: Final = Moments()


def line_plot(
    title: str,
    times_ms: Sequence[float],
    series: Sequence[Series],
    *,
    unit: str,
    band: tuple[int, int] | None = None,
    moments: Moments = NO_MOMENTS,
    tick_text: TickText | None = None,
) -> Markup:
    """A plot with its legend.

    Args:
        title: text for readers who cannot see the plot.
        times_ms: ascending; of all series that have no own ones.  The plot is as wide as these.
        unit: of the values, beside the highest label.
        band: two of the series, between which is shaded; both with the plot's times.
        tick_text: text at the ticks of the time axis; None: times in UTC.
    """
    timed = [(one, times_ms if one.times_ms is None else one.times_ms) for one in series]
    assert all(len(one.values) == len(times) for one, times in timed)
    known = [value for one in series for value in one.values if value is not None]
    scale = Scale.over(times_ms, known)
    marks = [
        _spans(scale, moments.spans, HEIGHT - BOTTOM),
        grid(scale, unit),
        time_labels(scale, HEIGHT - 8, tick_text or time_text),
        None if band is None else _band(scale, times_ms, series[band[0]], series[band[1]]),
        *[line(scale, times, one, at) for at, (one, times) in enumerate(timed)],
        _marks(scale, moments.marks, HEIGHT - BOTTOM),
    ]
    drawing = element(
        "svg",
        element("title", title),
        marks,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label=title,
    )
    return element("figure", drawing, _legend(series), class_="plot")


def strip(
    title: str, first_ms: float, last_ms: float, moments: Moments, tick_text: TickText
) -> Markup:
    """Only what is marked, and when: a plot without lines."""
    scale = Scale.over([first_ms, last_ms], [])
    floor = STRIP_HEIGHT - BOTTOM
    drawing = element(
        "svg",
        element("title", title),
        _spans(scale, moments.spans, floor),
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=floor, y2=floor, class_="grid"),
        time_labels(scale, STRIP_HEIGHT - 8, tick_text),
        _marks(scale, moments.marks, floor),
        viewBox=f"0 0 {WIDTH:g} {STRIP_HEIGHT:g}",
        role="img",
        aria_label=title,
    )
    return element("figure", drawing, class_="plot")


def spark_line(title: str, values: Sequence[float]) -> Markup:
    """A small line without labels, as wide as a word."""
    width, height = 96.0, 22.0
    most = max([*values, 1.0])
    step = width / max(1, len(values) - 1)
    points = [(at * step, height - 2 - (height - 4) * v / most) for at, v in enumerate(values)]
    return element(
        "svg",
        element("title", title),
        element("path", d=path_of(points), class_="line s0"),
        viewBox=f"0 0 {width:g} {height:g}",
        class_="spark",
        role="img",
        aria_label=title,
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale by which points are drawn; its horizontal axis has times, or another growing value.

    Attributes:
        step: between two lines of the grid.
    """

    first: float
    last: float
    low: float
    high: float
    step: float

    @classmethod
    def over(cls, times_ms: Sequence[float], values: Sequence[float]) -> "Scale":
        low, high = min([0.0, *values]), max([0.0, *values])
        step = round_step((high - low or 1.0) / _TICKS_UP)
        return cls(
            min(times_ms, default=0.0),
            max(times_ms, default=0.0),
            math.floor(low / step) * step,
            max(math.ceil(high / step) * step, math.floor(low / step) * step + step),
            step,
        )

    def x(self, at: float) -> float:
        span = self.last - self.first
        share = (at - self.first) / span if span else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def inside(self, at: float) -> float:
        """As ``x``; points outside are drawn at the edge."""
        return self.x(min(max(at, self.first), self.last))

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, at least ``rough``."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough * (1 - 1e-9))


def short(value: float) -> str:
    """A number in few characters: 1,234,000 is 1.23M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if suffix == 'k' else limit):.3g}{suffix}"
    if value and abs(value) < 0.01:
        return f"{value:.1e}"
    return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.0f}"


def grid(scale: Scale, unit: str = "", value_text: Callable[[float], str] = short) -> list[Markup]:
    """Lines across a plot, each with its value."""
    found = []
    count = round((scale.high - scale.low) / scale.step)
    for at in range(count + 1):
        value = scale.low + at * scale.step
        y = scale.y(value)
        text = value_text(value) + (f" {unit}" if at == count and unit else "")
        found.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        if at == count:
            # Above the line, where there is room for the unit.
            label = element("text", text, x=2.0, y=y - 5, class_="label")
        else:
            label = element("text", text, x=LEFT - 6, y=y + 3.5, class_="label end")
        found.append(label)
    return found


def time_labels(scale: Scale, y: float, tick_text: TickText) -> list[Markup]:
    """Times below a plot."""
    return [
        element("text", text, x=scale.x(time_ms), y=y, class_="label middle")
        for time_ms, text in _time_ticks(scale.first, scale.last, tick_text)
    ]


def _time_ticks(first_ms: float, last_ms: float, tick_text: TickText) -> list[tuple[float, str]]:
    span = last_ms - first_ms
    if span <= 0:
        return [(first_ms, tick_text(first_ms, span))]
    step = next((one for one in _STEPS_MS if span / one <= _TICKS_ALONG), _STEPS_MS[-1])
    step *= max(1, math.ceil(span / step / _TICKS_ALONG))
    first = math.ceil(first_ms / step) * step
    ticks = [first + at * step for at in range(int((last_ms - first) // step) + 1)]
    # Labels are centred: one at the very edge would be cut.
    margin = span * 0.08
    inside = [tick for tick in ticks if first_ms + margin <= tick <= last_ms - margin]
    return [(tick, tick_text(tick, step)) for tick in inside]


def time_text(time_ms: float, step_ms: float) -> str:
    """A time in UTC, as exactly as steps of this length need it."""
    moment = datetime.fromtimestamp(time_ms / 1_000, UTC)
    if step_ms >= 86_400_000:
        return moment.strftime("%Y-%m-%d")
    if step_ms >= 3_600_000:
        return moment.strftime("%m-%d %H:%M")
    if step_ms >= 60_000:
        return moment.strftime("%H:%M")
    if step_ms >= 1_000:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 1_000:03}"


def since_text(time_ms: float, step_ms: float) -> str:
    """A time since the first one: 1.5 s, 20 s; 3 min where steps are as long."""
    if step_ms >= 60_000 and step_ms % 60_000 == 0:
        return f"{time_ms / 60_000:g} min"
    return f"{time_ms / 1_000:g} s"


def line(scale: Scale, times_ms: Sequence[float], one: Series, at: int) -> Markup:
    """The line of a series, in the colour with the number ``at``."""
    pieces: list[str] = []
    lonely: list[Markup] = []
    colour = f"s{at % COLOURS}"
    for run in _runs(scale, times_ms, one.values):
        if len(run) == 1:
            lonely.append(element("circle", cx=run[0][0], cy=run[0][1], r=2.2, class_=colour))
        else:
            pieces.append(path_of(run))
    path = element("path", d=" ".join(pieces), class_=f"line {colour}") if pieces else Markup()
    return Markup(path + "".join(lonely))


def _runs(
    scale: Scale, times_ms: Sequence[float], values: Sequence[float | None]
) -> list[list[tuple[float, float]]]:
    """The points of a line, cut where values are missing."""
    runs: list[list[tuple[float, float]]] = [[]]
    for time_ms, value in zip(times_ms, values, strict=True):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((scale.x(time_ms), scale.y(value)))
    return [run for run in runs if run]


def _band(scale: Scale, times_ms: Sequence[float], lower: Series, upper: Series) -> Markup:
    pieces = []
    pairs = zip(
        _runs(scale, times_ms, lower.values), _runs(scale, times_ms, upper.values), strict=True
    )
    for below, above in pairs:
        if len(below) > 1:
            pieces.append(path_of([*below, *reversed(above)]) + "Z")
    return element("path", d=" ".join(pieces), class_="band")


def _spans(scale: Scale, spans: Sequence[tuple[float, float]], floor: float) -> list[Markup]:
    found = []
    for first_ms, last_ms in spans:
        left, right = scale.inside(first_ms), scale.inside(last_ms)
        # However short it was, it is seen.
        width = max(right - left, 1.5)
        found.append(element("rect", x=left, y=TOP, width=width, height=floor - TOP, class_="span"))
    return found


def _marks(scale: Scale, marks: Sequence[PlotMark], floor: float) -> list[Markup]:
    """Lines at the moments; a number above each that has room, and words if they have."""
    placed = [(scale.inside(mark.at_ms), mark) for mark in marks]
    lines = [
        element(
            "line",
            element("title", f"{mark.number}: {mark.words}"),
            x1=x,
            x2=x,
            y1=TOP - 6,
            y2=floor,
            class_=f"mark {mark.style}",
        )
        for x, mark in placed
    ]
    numbered: list[tuple[float, PlotMark]] = []
    for x, mark in placed:
        if not numbered or x - numbered[-1][0] >= MARK_GAP:
            numbered.append((x, mark))
    labels = []
    for at, (x, mark) in enumerate(numbered):
        end = numbered[at + 1][0] - 6 if at + 1 < len(numbered) else WIDTH
        words = _fitting(mark.words, end - x - 2 * MARK_CHAR_WIDTH)
        labels.append(
            element(
                "text",
                element("tspan", mark.number),
                element("tspan", f" {words}", class_="words") if words else None,
                x=x,
                y=TOP - 9,
                class_=f"label mark-number {mark.style}",
            )
        )
    return lines + labels


def _fitting(words: str, width: float) -> str:
    """Words that are cut to a width, or nothing where little of them would be left."""
    chars = int(width / MARK_CHAR_WIDTH)
    if len(words) <= chars:
        return words
    return words[: chars - 1] + "…" if chars >= MARK_CHARS_MIN else ""


def path_of(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _legend(series: Sequence[Series]) -> Markup:
    return element(
        "figcaption",
        [
            element("span", element("i", class_=f"s{at % COLOURS}"), element("bdi", one.name))
            for at, one in enumerate(series)
        ],
    )
