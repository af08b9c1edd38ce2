"""The streams of the report's page: each with its throughput, and percentiles of its fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from crdtstream.page.elements import (
    duration,
    folded,
    moment,
    name_of,
    numbers,
    table,
    texts,
    times,
)
from crdtstream.page.markup import Markup, element, joined
from crdtstream.page.plots import Series, line_plot, short

# More lines than these cannot be distinguished in a plot.
ORIGINS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class FieldWindow:
    """Statistics of a field's numbers in one window; None where there are no numbers."""

    start_ms: int
    entries: int
    numbers: int
    others: int
    min: float | None
    mean: float | None
    max: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class StreamPart:
    """Part of the page about one stream.

    Attributes:
        first_ms, last_ms: of the entries in windows.
        width_ms: of the windows that are shown.
        entries_by_origin: per origin region and window (its start) how many.
        fields: per field its windows, ascending.
    """

    name: str
    entries: int
    first_ms: int
    last_ms: int
    width_ms: int
    entries_by_origin: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    fields: Mapping[str, Sequence[FieldWindow]] = field(default_factory=dict)


def streams_section(streams: Sequence[StreamPart], *, streams_count: int, window_ms: int) -> Markup:
    """The section of the page; of ``streams_count`` streams it shows those that are given."""
    left_out = streams_count - len(streams)
    rows = [
        [
            element("a", name_of(part.name), href=f"#stream-{at}"),
            f"{part.entries:,}",
            moment(part.first_ms),
            moment(part.last_ms),
            short(part.entries * 1_000 / (part.last_ms - part.first_ms + part.width_ms)),
            ", ".join(f"{origin}: {count:,}" for origin, count in _by_origin(part).items()),
        ]
        for at, part in enumerate(streams)
    ]
    columns = [
        *texts("stream"),
        *numbers("entries"),
        *times("first", "last"),
        *numbers("entries /s"),
        *texts("by region"),
    ]
    return element(
        "section",
        element("h2", "Streams"),
        element("p", "The longest ones; ", f"{left_out:,} more are in the tables.", class_="note")
        if left_out
        else None,
        table(columns, rows),
        [_stream(part, at, window_ms) for at, part in enumerate(streams)],
        id="streams",
    )


def _by_origin(part: StreamPart) -> dict[int, int]:
    return {origin: sum(of.values()) for origin, of in sorted(part.entries_by_origin.items())}


def _stream(part: StreamPart, at: int, window_ms: int) -> Markup:
    wider = None
    if part.width_ms != window_ms:
        wider = element(
            "p",
            f"Windows of {duration(part.width_ms)} here; the tables have those of"
            f" {duration(window_ms)}.",
            class_="note",
        )
    return element(
        "article",
        element("h3", name_of(part.name)),
        wider,
        _throughput(part),
        [_field(part, name, found) for name, found in part.fields.items()],
        id=f"stream-{at}",
    )


def _starts(part: StreamPart) -> list[int]:
    """All windows from the first entry to the last, those without entries too."""
    first = part.first_ms // part.width_ms * part.width_ms
    return list(range(first, part.last_ms + 1, part.width_ms))


def _throughput(part: StreamPart) -> Markup:
    starts = _starts(part)
    largest = sorted(_by_origin(part).items(), key=lambda pair: (-pair[1], pair[0]))
    shown = sorted(origin for origin, _ in largest[:ORIGINS_MAX])
    seconds = part.width_ms / 1_000
    series = [
        Series(
            f"region {origin}",
            [part.entries_by_origin[origin].get(start, 0) / seconds for start in starts],
        )
        for origin in shown
    ]
    rows = [
        [moment(start), *(f"{part.entries_by_origin[one].get(start, 0):,}" for one in shown)]
        for start in starts
    ]
    return joined(
        [
            element("h4", "Entries a second, by origin region"),
            line_plot(f"{part.name}: entries a second", starts, series, unit="/s"),
            folded(
                "entries by window",
                table([*times("window"), *numbers(*(one.name for one in series))], rows),
            ),
        ]
    )


def _field(part: StreamPart, name: str, found: Sequence[FieldWindow]) -> Markup:
    by_start = {one.start_ms: one for one in found}
    starts = _starts(part)
    series = [
        Series(title, [getattr(by_start.get(start), title, None) for start in starts])
        for title in ("p50", "p90", "p99")
    ]
    rows = [
        [
            moment(one.start_ms),
            *(f"{count:,}" for count in (one.entries, one.numbers, one.others)),
            *(
                "" if value is None else short(value)
                for value in (one.min, one.mean, one.p50, one.p90, one.p95, one.p99, one.max)
            ),
        ]
        for one in found
    ]
    columns = [
        *times("window"),
        *numbers("entries", "numbers", "not a number"),
        *numbers("min", "mean", "p50", "p90", "p95", "p99", "max"),
    ]
    heading = element("h4", "Field ", name_of(name))
    if not any(one.numbers for one in found):
        return joined([heading, element("p", "No numbers.", class_="note")])
    return joined(
        [
            heading,
            line_plot(f"{part.name}: percentiles of {name}", starts, series, unit="", band=(0, 2)),
            folded("numbers by window", table(columns, rows)),
        ]
    )
