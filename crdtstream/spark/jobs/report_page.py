"""The report as one HTML page: complete in itself, without scripts, light or dark as the reader is.

Names of streams, fields and groups, and values, come from any client, and never become markup; see
``crdtstream.page.markup``.  The page's own policy also forbids scripts and loading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from crdtstream.page.document import document, tiles
from crdtstream.page.elements import (
    name_of,
    numbers,
    scrolled,
    shortened,
    table,
    texts,
    times,
)
from crdtstream.page.markup import Child, Markup, element
from crdtstream.page.plots import short, spark_line
from crdtstream.spark.jobs.report_dead_letters import DeadLetter, moment_of, text_of
from crdtstream.spark.jobs.report_page_streams import StreamPart, streams_section
from crdtstream.spark.jobs.report_samples import LinkSample, RegionSummary

# More regions than this make a table of pairs too wide; the list has them all.
MATRIX_REGIONS_MAX: Final = 12
FIELDS_SHOWN_MAX: Final = 30
# Lag in ms from which on a pair is shown in the next colour.
_LEVELS_MS: Final = (10, 100, 1_000, 10_000)


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
    database_uid: str
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
    return document(
        f"crdtstream report: {page.database_id}",
        _header(page),
        element(
            "main",
            _tiles(page),
            _regions(page),
            _lag(page),
            streams_section(
                page.streams, streams_count=page.streams_count, window_ms=page.window_ms
            ),
            _letters(page),
        ),
        element("footer", _notes(page)),
    )


def _header(page: Page) -> Markup:
    return element(
        "header",
        element("h1", "crdtstream report"),
        element(
            "p",
            ["database ", element("bdi", page.database_id), f" ({page.database_uid}) · "],
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
    found = [
        ("streams", f"{page.streams_count:,}", ""),
        ("entries", short(page.entries), ""),
        ("lag p99, worst pair", f"{worst:,} ms", "warn" if worst >= _LEVELS_MS[2] else ""),
        ("most effects behind", f"{behind:,}", ""),
        ("links not up", f"{down:,}", "bad" if down else "good"),
        ("regions silent", f"{len(page.absent):,}", "bad" if page.absent else "good"),
        ("dead letters", f"{page.letters_count:,}", "bad" if page.letters_count else "good"),
    ]
    return tiles(found)


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
        table(columns, rows),
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
        table(columns, rows),
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
    return scrolled(element("table", head, rows, class_="matrix"))


def _matrix_cell(link: LinkSample | None) -> Markup:
    if link is None:
        return element("td", "·", class_="none")
    if link.state != "up":
        return element("td", link.state, class_="l4")
    level = sum(link.lag_ms_p99 >= limit for limit in _LEVELS_MS)
    return element("td", f"{link.lag_ms_p99:,}", class_=f"l{level}")


# --- Dead letters ---------------------------------------------------------------------------------


def _letters(page: Page) -> Markup:
    more = page.letters_count - len(page.letters)
    note = f"Pending entries that were delivered more than {page.deliveries_max} times."
    if more:
        note += f" {more:,} more are in the table."
    rows = [
        [
            one.region,
            name_of(text_of(one.key)),
            name_of(text_of(one.group)),
            "(deleted)" if one.consumer is None else name_of(text_of(one.consumer)),
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
        table(columns, rows) if rows else element("p", "None."),
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
            (element("dt", shortened(name)), element("dd", shortened(value)))
            for name, value in shown
        ],
        element("dt", f"and {more} more") if more else None,
    )


# --- Notes ----------------------------------------------------------------------------------------


def _notes(page: Page) -> Child:
    undated = None
    if page.undated:
        undated = element(
            "p",
            f"{page.undated:,} entries have IDs that are no time up to the year 9999, and are in no"
            " window.",
        )
    missing = [
        element("p", "No entry of the streams meant has the field ", name_of(name), ".")
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
