"""The report as one HTML page: complete in itself, without scripts, light or dark as the reader is.

What stands in it comes from strangers - names of streams, fields and groups, values - and becomes
markup nowhere; see ``markup``.  The page's own policy forbids scripts and loading, besides.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from crdtstream.spark.jobs.markup import Child, Markup, element, joined
from crdtstream.spark.jobs.plots import Series, line_plot, short, spark_line, time_text
from crdtstream.spark.jobs.report_dead_letters import DeadLetter, moment_of, text_of
from crdtstream.spark.jobs.report_samples import LinkSample, RegionSummary
from crdtstream.spark.jobs.report_style import STYLE

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
# More than these in a plot cannot be told apart.
ORIGINS_MAX: Final = 8
# More regions than this make a table of pairs too wide; the list has them all.
MATRIX_REGIONS_MAX: Final = 12
VALUE_CHARS_MAX: Final = 200
FIELDS_SHOWN_MAX: Final = 30
# Lag in ms from which on a pair is shown in the next colour.
_LEVELS_MS: Final = (10, 100, 1_000, 10_000)


@dataclass(frozen=True, slots=True)
class FieldWindow:
    """What the numbers of a field are in one window; None where there are none."""

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
    """What the page says of one stream.

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


@dataclass(frozen=True, slots=True)
class Page:
    """All that the page says.

    Attributes:
        source: where the entries are from, in words.
        absent: regions that do not answer, and why.
        missing_fields: that were asked for, and that no entry of the streams meant has.
        streams: those that are shown; there are ``streams_count``.
        letters: those that are shown; there are ``letters_count``.
    """

    database_id: str
    made_at: datetime
    source: str
    window_ms: int
    entries: int
    undated: int
    missing_fields: Sequence[str]
    streams_count: int
    streams: Sequence[StreamPart]
    regions: Sequence[RegionSummary]
    absent: Mapping[str, str]
    links: Sequence[LinkSample]
    letters_count: int
    deliveries_max: int
    letters: Sequence[DeadLetter]


def page_of(page: Page) -> str:
    """The page's text."""
    title = f"crdtstream report: {page.database_id}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        _header(page),
        element("main", _tiles(page), _regions(page), _lag(page), _streams(page), _letters(page)),
        element("footer", _notes(page)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(page: Page) -> Markup:
    return element(
        "header",
        element("h1", "crdtstream report"),
        element(
            "p",
            ["database ", element("bdi", page.database_id), " · "],
            f"{page.made_at:%Y-%m-%d %H:%M:%S} UTC · entries from ",
            element("bdi", page.source),
        ),
        element(
            "nav",
            [
                element("a", text, href=f"#{anchor}")
                for anchor, text in (
                    ("regions", "Regions"),
                    ("lag", "Lag"),
                    ("streams", "Streams"),
                    ("dead-letters", "Dead letters"),
                )
            ],
        ),
    )


def _tiles(page: Page) -> Markup:
    newest = _newest(page.links)
    worst = max((link.lag_ms_p99 for link in newest), default=0)
    behind = max((link.lag_effects for link in page.links), default=0)
    down = sum(link.state != "up" for link in newest)
    tiles = [
        ("streams", f"{page.streams_count:,}", ""),
        ("entries", short(page.entries), ""),
        ("lag p99, worst pair", f"{worst:,} ms", "warn" if worst >= _LEVELS_MS[2] else ""),
        ("most effects behind", f"{behind:,}", ""),
        ("links not up", f"{down:,}", "bad" if down else "good"),
        ("regions silent", f"{len(page.absent):,}", "bad" if page.absent else "good"),
        ("dead letters", f"{page.letters_count:,}", "bad" if page.letters_count else "good"),
    ]
    return element(
        "section",
        [
            element(
                "div", element("b", value), element("span", name), class_=f"tile {kind}".strip()
            )
            for name, value, kind in tiles
        ],
        class_="tiles",
    )


# --- Regions --------------------------------------------------------------------------------------


def _regions(page: Page) -> Markup:
    rows: list[list[Child]] = [
        [
            one.region,
            element("bdi", one.address),
            f"{one.issued_per_second:,.1f}",
            f"{one.applied_per_second:,.1f}",
            f"{one.effects_issued:,}",
            f"{one.lacks:,}",
            f"{one.keys:,}",
            f"{one.clients:,}",
            f"{one.log_bytes / 2**20:,.1f}",
            one.fault or "ok",
        ]
        for one in page.regions
    ]
    seconds = max((one.seconds for one in page.regions), default=0.0)
    columns = [
        *numbers("region"),
        *times("address"),
        *numbers("issued /s", "applied /s", "effects issued", "lacks", "keys", "clients"),
        *numbers("log MiB"),
        *texts("state"),
    ]
    return element(
        "section",
        element("h2", "Regions"),
        element("p", f"Watched for {seconds:.1f} s.", class_="note"),
        _table(columns, rows),
        [
            element("p", element("b", "No answer: "), element("bdi", why), class_="bad")
            for why in page.absent.values()
        ],
        id="regions",
    )


# --- Replication lag ------------------------------------------------------------------------------


def _lag(page: Page) -> Markup:
    newest = _newest(page.links)
    by_pair = {
        pair: list(found)
        for pair, found in groupby(page.links, key=lambda one: (one.source, one.target))
    }
    rows = [
        [
            f"{one.source} → {one.target}",
            one.state,
            spark_line(
                f"lag from {one.source} to {one.target} while watched, ms",
                [sample.lag_ms for sample in by_pair[one.source, one.target]],
            ),
            *(f"{ms:,}" for ms in (one.lag_ms, one.lag_ms_p50, one.lag_ms_p95, one.lag_ms_p99)),
            f"{one.lag_ms_max:,}",
            f"{max(sample.lag_effects for sample in by_pair[one.source, one.target]):,}",
            "never" if one.silent_ms is None else f"{one.silent_ms:,}",
            f"{one.clock_skew_ms:+,}" if one.clock_skew_ms else "0",
            one.error,
        ]
        for one in newest
    ]
    columns = [
        *times("from → to", "link", "lag ms while watched"),
        *numbers("now", "p50", "p95", "p99", "max", "effects behind, most", "silent ms"),
        *numbers("clock skew ms"),
        *texts("error"),
    ]
    return element(
        "section",
        element("h2", "Replication lag"),
        element(
            "p",
            "From an effect's sealing at its origin to its durable application, in ms, over the"
            " last batches that came by each link; it includes the difference of the two clocks.",
            class_="note",
        ),
        _matrix(newest),
        _table(columns, rows),
        id="lag",
    )


def _newest(links: Sequence[LinkSample]) -> list[LinkSample]:
    """Of each pair the last sample."""
    return list({(one.source, one.target): one for one in links}.values())


def _matrix(newest: Sequence[LinkSample]) -> Markup | None:
    """p99 of each pair, sources down, targets across."""
    regions = sorted({region for one in newest for region in (one.source, one.target)})
    if not 2 <= len(regions) <= MATRIX_REGIONS_MAX:
        return None
    of_pair = {(one.source, one.target): one for one in newest}
    head = element(
        "tr",
        element("th", "p99, ms"),
        [element("th", f"to {region}", scope="col") for region in regions],
    )
    rows = [
        element(
            "tr",
            element("th", f"from {source}", scope="row"),
            [_matrix_cell(of_pair.get((source, target))) for target in regions],
        )
        for source in regions
    ]
    return _scrolled(element("table", head, rows, class_="matrix"))


def _matrix_cell(link: LinkSample | None) -> Markup:
    if link is None:
        return element("td", "·", class_="none")
    if link.state != "up":
        return element("td", link.state, class_="l4")
    level = sum(link.lag_ms_p99 >= limit for limit in _LEVELS_MS)
    return element("td", f"{link.lag_ms_p99:,}", class_=f"l{level}")


# --- Streams --------------------------------------------------------------------------------------


def _streams(page: Page) -> Markup:
    left_out = page.streams_count - len(page.streams)
    rows = [
        [
            element("a", _name(part.name), href=f"#stream-{at}"),
            f"{part.entries:,}",
            _moment(part.first_ms),
            _moment(part.last_ms),
            short(part.entries * 1_000 / (part.last_ms - part.first_ms + part.width_ms)),
            ", ".join(f"{origin}: {count:,}" for origin, count in _by_origin(part).items()),
        ]
        for at, part in enumerate(page.streams)
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
        _table(columns, rows),
        [_stream(part, at, page.window_ms) for at, part in enumerate(page.streams)],
        id="streams",
    )


def _by_origin(part: StreamPart) -> dict[int, int]:
    return {origin: sum(of.values()) for origin, of in sorted(part.entries_by_origin.items())}


def _stream(part: StreamPart, at: int, window_ms: int) -> Markup:
    wider = None
    if part.width_ms != window_ms:
        wider = element(
            "p",
            f"Windows of {_duration(part.width_ms)} here; the tables have those of"
            f" {_duration(window_ms)}.",
            class_="note",
        )
    return element(
        "article",
        element("h3", _name(part.name)),
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
        [_moment(start), *(f"{part.entries_by_origin[one].get(start, 0):,}" for one in shown)]
        for start in starts
    ]
    return joined(
        [
            element("h4", "Entries a second, by origin region"),
            line_plot(f"{part.name}: entries a second", starts, series, unit="/s"),
            _folded(
                "entries by window",
                _table([*times("window"), *numbers(*(one.name for one in series))], rows),
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
            _moment(one.start_ms),
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
    heading = element("h4", "Field ", _name(name))
    if not any(one.numbers for one in found):
        return joined([heading, element("p", "No numbers.", class_="note")])
    return joined(
        [
            heading,
            line_plot(f"{part.name}: percentiles of {name}", starts, series, unit="", band=(0, 2)),
            _folded("numbers by window", _table(columns, rows)),
        ]
    )


# --- Dead letters ---------------------------------------------------------------------------------


def _letters(page: Page) -> Markup:
    more = page.letters_count - len(page.letters)
    note = f"Pending entries that were handed out more than {page.deliveries_max} times."
    if more:
        note += f" {more:,} more are in the table."
    rows = [
        [
            one.region,
            _name(text_of(one.key)),
            _name(text_of(one.group)),
            "(nobody)" if one.consumer is None else _name(text_of(one.consumer)),
            str(one.id),
            one.origin,
            f"{one.deliveries:,}",
            f"{moment_of(one.delivered_ms):%Y-%m-%d %H:%M:%S}",
            _fields(one.fields),
        ]
        for one in page.letters
    ]
    columns = [
        *numbers("region"),
        *texts("stream", "group", "consumer"),
        *times("entry"),
        *numbers("origin", "deliveries"),
        *times("last"),
        *texts("fields"),
    ]
    return element(
        "section",
        element("h2", "Dead letters"),
        element("p", note, class_="note"),
        _table(columns, rows) if rows else element("p", "None."),
        id="dead-letters",
    )


def _fields(fields: Mapping[str, str] | None) -> Child:
    if fields is None:
        return element("i", "removed since, or not looked up")
    shown = list(fields.items())[:FIELDS_SHOWN_MAX]
    more = len(fields) - len(shown)
    return element(
        "dl",
        [
            (element("dt", _shortened(name)), element("dd", _shortened(value)))
            for name, value in shown
        ],
        element("dt", f"and {more} more") if more else None,
    )


def _name(name: str) -> Markup:
    """A name that somebody gave: whatever it holds, the text around it stays as it is."""
    return element("bdi", _shortened(name) if name else "(no name)")


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "…"


# --- Parts ----------------------------------------------------------------------------------------


def _notes(page: Page) -> Child:
    undated = None
    if page.undated:
        undated = element(
            "p",
            f"{page.undated:,} entries have IDs that are no time up to the year 9999, and are in no"
            " window.",
        )
    missing = [
        element("p", "No entry of the streams meant has the field ", _name(name), ".")
        for name in page.missing_fields
    ]
    return [
        undated,
        missing,
        element(
            "p",
            "Times are UTC; an entry's time is that of its ID. Percentiles are exact in windows of"
            " up to 10,000 different values, and off by one rank in 10,000 at most in larger ones.",
        ),
    ]


class Heading(NamedTuple):
    """A column's name, and the class of its cells; None for numbers."""

    name: str
    kind: str | None


def texts(*names: str) -> list[Heading]:
    """Columns of text."""
    return [Heading(name, "text") for name in names]


def times(*names: str) -> list[Heading]:
    """Columns of times, and of what else must not be broken."""
    return [Heading(name, "text time") for name in names]


def numbers(*names: str) -> list[Heading]:
    """Columns of numbers."""
    return [Heading(name, None) for name in names]


def _table(columns: Sequence[Heading], rows: Iterable[Sequence[Child]]) -> Markup:
    head = [element("th", one.name, scope="col", class_=one.kind) for one in columns]
    body = [
        element(
            "tr",
            [element("td", cell, class_=one.kind) for cell, one in zip(row, columns, strict=True)],
        )
        for row in rows
    ]
    return _scrolled(
        element("table", element("thead", element("tr", head)), element("tbody", body))
    )


def _scrolled(table: Markup) -> Markup:
    """Wide tables scroll on their own; the page never does sideways."""
    return element("div", table, class_="scroll", tabindex="0")


def _folded(title: str, content: Markup) -> Markup:
    return element("details", element("summary", title), content)


def _moment(ms: int) -> str:
    return f"{time_text(ms, 86_400_000)} {time_text(ms, 1_000)}"


def _duration(ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms % unit_ms == 0:
            return f"{ms // unit_ms:,} {unit}"
    return f"{ms:,} ms"
