"""A drill while it runs: on a terminal a picture that is redrawn, otherwise lines.

    region-loss                                              0:27 of 1:00
    faults          ━━━━━━━━━━━━▼━━━━●─────────△─────────────────────────
    now             region 1: kill -9, for 7 s
    next            in 8 s: region 1: started again
    acknowledged /s
      region 1      ▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁▁                                   0
      region 2      ▄▄▄▄▄▄▄▄▄▄▄▄▇▇▇▇▇                                 150

All rows have one scale of time, the drill's, so that the effects of a fault are below it.  Samples
and marks may come from any thread.
"""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crdtstream.drill.outcome import Mark, MarkKind
from crdtstream.drill.report.figures import NOTHING, fault_spans, milliseconds
from crdtstream.drill.report.tables import MARK_TONES
from crdtstream.drill.report.terminal import STYLES
from crdtstream.page.markup import showable

FRAMES_PER_SECOND: Final = 4
# Without a terminal: seconds between two lines.
LINE_SECONDS: Final = 5.0
ROWS_MAX: Final = 8
# Beyond these, every second sample is dropped.
SAMPLES_MAX: Final = 2_000
# A lag that fills a bar, if none is higher: lags below it are nothing to worry about.
LAG_MS_FULL_MIN: Final = 200.0

_BARS: Final = "▁▂▃▄▅▆▇█"
_UNHEARD: Final = "·"
_LABEL_WIDTH: Final = 16
_VALUE_WIDTH: Final = 10
_BAR_WIDTH_MIN: Final = 10
_SYMBOLS: Final = {MarkKind.FAULT: "▼", MarkKind.END: "▲", MarkKind.NOTE: "◆"}


@dataclass(frozen=True, slots=True)
class LiveSample:
    """State of a running drill.

    Attributes:
        at: seconds since the load began.
        acknowledged_per_s: by region.
        lag_ms: by (puller, peer); None: nothing is heard.
        errors: requests that failed, since the load began.
        note: present activity of the drill; empty: none to show.
        acknowledged, delivered: entries since the load began.
    """

    at: float
    acknowledged_per_s: Mapping[int, float]
    delivered_per_s: float
    lag_ms: Mapping[tuple[int, int], float | None]
    errors: int
    note: str = ""
    acknowledged: int = 0
    delivered: int = 0


@dataclass(slots=True)
class LiveView:
    """Shows a drill from ``with`` to the end of it.

    Args:
        planned: times at which faults are to be made or taken back, in seconds since the load
            begins.
        duration_s: of the load, as planned; the drill may take longer.
    """

    console: Console
    title: str
    planned: Sequence[tuple[float, str]]
    duration_s: float
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _samples: list[LiveSample] = field(default_factory=list)
    _marks: list[Mark] = field(default_factory=list)
    _live: Live | None = None
    _line_at: float = -math.inf
    _note: str = ""

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            # Removed at the end: the report follows, and has all that this showed.
            self._live = Live(
                console=self.console,
                get_renderable=self.picture,
                refresh_per_second=FRAMES_PER_SECOND,
                transient=True,
            )
            self._live.start()
        else:
            self._print(f"{self.title}: {self.duration_s:.0f} s of load")
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, sample: LiveSample) -> None:
        """Show a new sample."""
        with self._lock:
            self._samples.append(sample)
            if len(self._samples) > SAMPLES_MAX:
                # The newest stays.
                self._samples = self._samples[::-1][::2][::-1]
            is_due = sample.at >= self._line_at + LINE_SECONDS
            is_said = sample.note in ("", self._note)
            self._note = sample.note
            if is_due:
                self._line_at = sample.at
        if self._live is not None:
            return
        # Nodes are looked at before the load begins.
        at = max(sample.at, 0.0)
        if not is_said:
            self._print(f"{at:7.1f} s  {sample.note}")
        if is_due:
            self._print(f"{at:7.1f} s  {_line(sample)}")

    def mark(self, mark: Mark) -> None:
        """Show a fault that is made or taken back."""
        with self._lock:
            self._marks.append(mark)
        if self._live is None:
            kind = "" if mark.kind is MarkKind.NOTE else f"{mark.kind}: "
            self._print(f"{mark.at:7.1f} s  {kind}{mark.what}")

    def picture(self) -> RenderableType:
        """Present state, as drawn on a terminal."""
        with self._lock:
            samples, marks = list(self._samples), list(self._marks)
        now = max([0.0, *(one.at for one in samples[-1:]), *(one.at for one in marks)])
        width = max(_BAR_WIDTH_MIN, self.console.width - _LABEL_WIDTH - _VALUE_WIDTH - 2)
        axis = _Axis(max(self.duration_s, now), width)
        rows = Table.grid(padding=(0, 1, 0, 0))
        rows.add_column(width=_LABEL_WIDTH, no_wrap=True)
        # Of words only those in one line are shown, or the picture would jump.
        rows.add_column(width=width, no_wrap=True, overflow="ellipsis")
        rows.add_column(width=_VALUE_WIDTH, justify="right", no_wrap=True)
        for row in self._rows(axis, samples, marks, now):
            rows.add_row(*row)
        head = Text.assemble(
            (showable(self.title), "bold"),
            f"  {_clock(now)} of {_clock(self.duration_s)}",
        )
        return Group(head, rows)

    def _rows(
        self, axis: "_Axis", samples: Sequence[LiveSample], marks: Sequence[Mark], now: float
    ) -> Iterable[tuple[Text, Text, Text]]:
        yield _row("faults", _timeline(axis, self.planned, marks, now))
        yield _row("now", _now(marks, now, samples[-1].note if samples else ""))
        yield _row("next", self._next(now))
        if not samples:
            return
        newest = samples[-1]
        yield _row("", Text())
        yield from _throughput_rows(axis, samples)
        yield _row("", Text())
        yield from _lag_rows(axis, samples)
        yield _row("", Text())
        yield _row(
            "so far",
            Text.assemble(
                f"acknowledged {newest.acknowledged:,}, delivered {newest.delivered:,}, ",
                (f"errors {newest.errors:,}", "red" if newest.errors else ""),
            ),
        )

    def _next(self, now: float) -> Text:
        coming = [(at, what) for at, what in self.planned if at > now]
        if coming:
            at, what = min(coming)
            return Text(showable(f"in {math.ceil(at - now)} s: {what}"))
        if now < self.duration_s:
            return Text(f"in {math.ceil(self.duration_s - now)} s: the load ends")
        return Text("regions become equal; then the verdict")

    def _print(self, text: str) -> None:
        self.console.print(Text(showable(text)), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Time axis of the drill, on a number of characters."""

    seconds: float
    width: int

    def column(self, at: float) -> int:
        share = at / self.seconds if self.seconds > 0 else 0.0
        return min(max(int(share * self.width), 0), self.width - 1)


def _timeline(
    axis: _Axis, planned: Sequence[tuple[float, str]], marks: Sequence[Mark], now: float
) -> Text:
    cursor = axis.column(now)
    cells = [("━", "") if one < cursor else ("─", "dim") for one in range(axis.width)]
    for span in fault_spans(marks):
        end = cursor if span.end is None else axis.column(span.end)
        for column in range(axis.column(span.begin), end):
            cells[column] = ("━", "red")
    for at, _ in planned:
        if at > now:
            cells[axis.column(at)] = ("▽", "dim")
    cells[cursor] = ("●", "bold")
    for mark in marks:
        cells[axis.column(mark.at)] = (_SYMBOLS[mark.kind], STYLES[MARK_TONES[mark.kind]])
    return Text.assemble(*cells)


def _now(marks: Sequence[Mark], now: float, note: str) -> Text:
    """The newest fault if one lasts, the drill's note, or the newest mark."""
    found: list[str | tuple[str, str]] = []
    faults = [mark for mark in marks if mark.kind is MarkKind.FAULT]
    spans = fault_spans(marks)
    if faults and spans[-1].end is None:
        newest = faults[-1]
        found.append((showable(f"{newest.what}, for {now - newest.at:.0f} s"), "red"))
    elif marks:
        found.append(showable(f"{marks[-1].what}, {now - marks[-1].at:.0f} s ago"))
    if note:
        found.append(showable(f"; {note}" if found else note))
    return Text.assemble(*found)


def _throughput_rows(
    axis: _Axis, samples: Sequence[LiveSample]
) -> Iterable[tuple[Text, Text, Text]]:
    regions = sorted({region for one in samples for region in one.acknowledged_per_s})
    most = max((value for one in samples for value in one.acknowledged_per_s.values()), default=0.0)
    yield _row("acknowledged /s", Text())
    for region in regions[:ROWS_MAX]:
        points = [(one.at, one.acknowledged_per_s.get(region)) for one in samples]
        bars = Text(_bars(axis, points, most, min), style="green")
        yield _row(f"  region {region}", bars, _rate(points[-1][1]))
    yield from _more_row(len(regions))
    points = [(one.at, one.delivered_per_s) for one in samples]
    most = max(value or 0.0 for _, value in points)
    bars = Text(_bars(axis, points, most, min), style="cyan")
    yield _row("delivered /s", bars, _rate(points[-1][1]))


def _lag_rows(axis: _Axis, samples: Sequence[LiveSample]) -> Iterable[tuple[Text, Text, Text]]:
    links = sorted({link for one in samples for link in one.lag_ms}, key=lambda one: one[::-1])
    highest = {
        link: max((one.lag_ms.get(link) or 0.0 for one in samples), default=0.0) for link in links
    }
    if len(links) > ROWS_MAX:
        # Links that were furthest behind, and these in their order.
        worst = set(sorted(links, key=lambda link: -highest[link])[:ROWS_MAX])
        shown = [link for link in links if link in worst]
    else:
        shown = links
    most = max([LAG_MS_FULL_MIN, *highest.values()])
    yield _row("lag ms", Text())
    for link in shown:
        puller, peer = link
        points = [(one.at, one.lag_ms.get(link)) for one in samples]
        bars = Text(_bars(axis, points, most, max), style="yellow")
        yield _row(f"  {peer} → {puller}", bars, milliseconds(points[-1][1]))
    yield from _more_row(len(links))


def _more_row(count: int) -> Iterable[tuple[Text, Text, Text]]:
    if count > ROWS_MAX:
        yield _row("", Text(f"and {count - ROWS_MAX} more", style="dim"))


def _bars(
    axis: _Axis,
    points: Sequence[tuple[float, float | None]],
    most: float,
    worst: Callable[[Iterable[float]], float],
) -> str:
    """A bar per column, for the worst value in it; a dot where nothing was heard.

    A column without a sample is like the one before: samples may be further apart than columns.

    Args:
        worst: min of a throughput, max of a lag: a short fault must be seen.
    """
    by_column: dict[int, list[float | None]] = {}
    for at, value in points:
        by_column.setdefault(axis.column(at), []).append(value)
    if not by_column:
        return ""
    cells = [" "] * min(by_column)
    for column in range(min(by_column), max(by_column) + 1):
        values = by_column.get(column)
        if values is None:
            cells.append(cells[-1])
            continue
        known = [value for value in values if value is not None]
        cells.append(_bar(worst(known), most) if known else _UNHEARD)
    return "".join(cells)


def _bar(value: float, most: float) -> str:
    share = value / most if most > 0 else 0.0
    return _BARS[min(max(round(share * (len(_BARS) - 1)), 0), len(_BARS) - 1)]


def _row(label: str, content: Text, value: str = "") -> tuple[Text, Text, Text]:
    return Text(label), content, Text(value)


def _rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def _line(sample: LiveSample) -> str:
    """A sample in one line."""
    by_region = ", ".join(
        f"{region}: {value:,.0f}" for region, value in sorted(sample.acknowledged_per_s.items())
    )
    regions = f" ({by_region})" if by_region else ""
    total = sum(sample.acknowledged_per_s.values())
    known = {link: value for link, value in sample.lag_ms.items() if value is not None}
    lag = ""
    if known:
        puller, peer = link = max(known, key=lambda one: known[one])
        lag = f", highest lag {milliseconds(known[link])} ms ({peer} → {puller})"
    return (
        f"acknowledged {total:,.0f} /s{regions}, delivered {sample.delivered_per_s:,.0f} /s"
        f"{lag}, errors {sample.errors:,}"
    )
