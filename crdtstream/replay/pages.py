"""Pages of reports: the list, one report with its drills, and one drill on its timeline.

The page of a drill works without scripts: its slider is a form that asks for a moment.  With them
it asks for the texts of moments, and plays.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import urlencode

from starlette.responses import HTMLResponse

from crdtstream.console import words
from crdtstream.console.cells import Cells
from crdtstream.console.layout import (
    Column,
    cell,
    document,
    problem,
    region_mark,
    section,
    state_cell,
    table,
)
from crdtstream.console.map import region_map
from crdtstream.drill.outcome import MarkKind, Report, Run
from crdtstream.drill.report.figures import began_text, fault_spans
from crdtstream.page.markup import Child, Markup, element
from crdtstream.replay.folder import Listing, ReportFile
from crdtstream.replay.summaries import Summary
from crdtstream.replay.timeline import Timeline

# Of a slider, in seconds.
STEP: Final = "0.1"
SPEEDS: Final = (1, 2, 5, 10, 30)
MARKS_SHOWN_MAX: Final = 500
REFUSED_SHOWN_MAX: Final = 10
STRIP_WIDTH: Final = 1_000.0
STRIP_HEIGHT: Final = 26.0
KINDS: Final = {MarkKind.FAULT: "fault", MarkKind.END: "end of a fault", MarkKind.NOTE: "note"}


def report_path(name: str) -> str:
    """Address of a report."""
    return f"/report?{urlencode({'name': name})}"


def replay_path(name: str, run: int, at: float | None = None) -> str:
    """Address of a run of a report, as of a moment."""
    values = {"name": name, "run": str(run)} | ({} if at is None else {"at": f"{at:.1f}"})
    return f"/replay?{urlencode(values)}"


def reports(listing: Listing, summaries: Mapping[ReportFile, Summary], folder: str) -> HTMLResponse:
    """The list."""
    rows = [
        (
            element("a", words.name(one.name.encode()), href=report_path(one.name)),
            summaries[one].holds or words.UNKNOWN,
            _state(summaries[one].outcome),
            words.moment(one.changed_ms)[:16],
            words.size(one.size),
        )
        for one in listing.files
    ]
    columns = [
        Column("report", "key"),
        Column("holds"),
        Column("outcome"),
        Column("written, UTC", "key"),
        Column("size", "number"),
    ]
    content: Child = problem(
        "There are no reports in this folder.",
        "crdtstream drill run all --out FOLDER/NAME writes one: FOLDER/NAME/report.json;"
        " crdtstream scenario run FILE --report FOLDER/NAME.json does, too.",
    )
    if rows:
        content = table("Reports", columns, rows)
    more = f"{words.number_of(listing.older, 'older file')} more." if listing.older else ""
    refused = ""
    if listing.refused:
        named = ", ".join(map(words.name, map(str.encode, listing.refused[:REFUSED_SHOWN_MAX])))
        refused = (
            f"{words.number_of(len(listing.refused), 'name')} left out, as it is not UTF-8 or"
            f" cannot be read: {named}"
        )
    return page_of(
        "Reports",
        section(
            folder,
            content,
            element("p", more, class_="quiet"),
            element("p", refused, class_="quiet") if refused else None,
        ),
    )


def _state(text: str) -> Markup:
    return element("span", text, class_="state", data_state=text)


def report(name: str, found: Report) -> HTMLResponse:
    """The drills of one report."""
    rows = [
        (
            element("a", one.drill, href=replay_path(name, at)),
            _state(one.verdict.value),
            words.duration(1_000 * one.seconds),
            words.number_of(len(fault_spans(one.marks)), "time"),
            began_text(one),
            one.about,
        )
        for at, one in enumerate(found.runs)
    ]
    columns = [
        Column("drill", "key"),
        Column("verdict"),
        Column("took", "number"),
        Column("faults", "number"),
        Column("began", "key"),
        Column("about", "long"),
    ]
    return page_of(
        name,
        element("p", element("a", "← Reports", href="/")),
        section(
            "Drills",
            table("Drills", columns, rows)
            if rows
            else problem("No drill was run.", "Open another report."),
            note="A drill is replayed on its timeline. crdtstream drill report --html has all of"
            " its tables and plots.",
        ),
    )


def replay(name: str, at_run: int, run: Run, timeline: Timeline, at: float) -> HTMLResponse:
    """One run as of a moment."""
    cells = timeline.cells(at)
    drawn = region_map(timeline.regions_on_map(), timeline.links_on_map(cells), cells, own=0)
    return page_of(
        run.drill,
        element("p", element("a", f"← {words.name(name.encode())}", href=report_path(name))),
        element("p", run.about, class_="quiet"),
        section(
            "Timeline",
            controls(name, at_run, timeline, at, cells),
            _strip(run, timeline, at, cells),
            class_="card timeline-card",
        ),
        element(
            "div",
            section(
                "Map",
                drawn,
                note="Arrows are links; the numbers are their lag.",
                class_="card map-card",
            )
            if drawn
            else None,
            section("Regions", _regions(timeline, cells)),
            class_="beside",
        ),
        section(
            "Links",
            _links(timeline, cells)
            if timeline.links
            else problem(
                "No link was watched.", "The drill had one region, or could not see them."
            ),
            note="A link is behind if what it lacks is older than a second.",
        ),
        section("Events", _events(name, at_run, timeline, cells)),
        scripts=("console.js", "replay.js"),
    )


class Played(Protocol):
    """The moments that a slider goes through."""

    @property
    def begin(self) -> float: ...
    @property
    def end(self) -> float: ...


def controls(
    name: str, at_run: int, played: Played, at: float, cells: Cells, step: str = STEP
) -> Markup:
    """Play, a slider, a speed: a form that asks for a moment."""
    values = {"name": name, "run": str(at_run)}
    return element(
        "form",
        [element("input", type="hidden", name=key, value=value) for key, value in values.items()],
        element("button", "Play", type="button", id="play", hidden=""),
        element("label", "Moment", for_="at"),
        cell("at", cells, tag="output"),
        element("label", "Speed", for_="speed", hidden=""),
        element(
            "select",
            [
                element("option", f"{one} ×", value=str(one), selected="" if one == 1 else None)
                for one in SPEEDS
            ],
            id="speed",
            hidden="",
        ),
        element("button", "Show", type="submit", id="show"),
        # In a row of its own, as long as the strip below it.
        element(
            "input",
            id="at",
            name="at",
            type="range",
            min=f"{played.begin:.1f}",
            max=f"{played.end:.1f}",
            step=step,
            value=f"{at:.1f}",
            aria_valuetext=cells["at"],
        ),
        method="get",
        action="/replay",
        class_="decide replay",
        data_replay=f"/replay/at?{urlencode(values)}",
    )


def _strip(run: Run, timeline: Timeline, at: float, cells: Cells) -> Markup:
    """The whole run at a glance: times of faults are shaded, and a line is the moment."""
    length = max(timeline.end - timeline.begin, 0.001)

    def x(seconds: float) -> float:
        return STRIP_WIDTH * (seconds - timeline.begin) / length

    spans = [
        element(
            "rect",
            x=x(span.begin),
            y=0,
            width=x(timeline.end if span.end is None else span.end) - x(span.begin),
            height=STRIP_HEIGHT,
            class_="span",
        )
        for span in fault_spans(run.marks)
    ]
    marks = [
        element("line", x1=x(mark.at), x2=x(mark.at), y1=0, y2=STRIP_HEIGHT, class_=mark.kind.value)
        for mark in timeline.marks[:MARKS_SHOWN_MAX]
    ]
    return element(
        "div",
        element(
            "svg",
            spans,
            marks,
            element("line", x1=x(at), x2=x(at), y1=0, y2=STRIP_HEIGHT, class_="moment"),
            class_="strip",
            viewBox=f"0 0 {STRIP_WIDTH:.0f} {STRIP_HEIGHT:.0f}",
            preserveAspectRatio="none",
            aria_hidden="true",
        ),
        element(
            "p",
            element("span", "Faults that last: ", class_="quiet"),
            element(
                "b",
                cells["faults"],
                data_cell="faults",
                aria_live="polite",
            ),
        ),
        element(
            "p",
            element("span", "Entries: acknowledged ", class_="quiet"),
            cell("total.acknowledged", cells),
            element("span", ", delivered ", class_="quiet"),
            cell("total.delivered", cells),
        ),
    )


def _regions(timeline: Timeline, cells: Cells) -> Markup:
    columns = [
        Column("region"),
        Column("state"),
        Column("acknowledged", "number"),
        Column("memory", "number"),
        Column("processor", "number"),
    ]
    rows = [
        (
            element("span", region_mark(one), f" region {one}"),
            state_cell(f"region.{one}.state", cells),
            *(cell(f"region.{one}.{figure}", cells) for figure in ("writes", "memory", "cpu")),
        )
        for one in timeline.regions
    ]
    return table("Regions", columns, rows)


def _links(timeline: Timeline, cells: Cells) -> Markup:
    columns = [
        Column("link"),
        Column("state"),
        Column("lag", "number"),
        Column("effects behind", "number"),
    ]
    rows = [
        (
            element("span", region_mark(source), " → ", region_mark(to), class_="pair"),
            state_cell(f"link.{source}-{to}.state", cells),
            *(cell(f"link.{source}-{to}.{figure}", cells) for figure in ("lag", "behind")),
        )
        for source, to in timeline.links
    ]
    return table("Links", columns, rows)


def _events(name: str, at_run: int, timeline: Timeline, cells: Cells) -> Markup:
    if not timeline.marks:
        return element("p", "Nothing was done to the regions.", class_="empty")
    columns = [Column("at"), Column("state"), Column("kind"), Column("what", "long")]
    rows = [
        (
            element("a", f"{one.at:.1f} s", href=replay_path(name, at_run, one.at)),
            state_cell(f"mark.{at}.state", cells),
            KINDS[one.kind],
            element("span", one.what),
        )
        for at, one in enumerate(timeline.marks[:MARKS_SHOWN_MAX])
    ]
    left_out = len(timeline.marks) - len(rows)
    return element(
        "div",
        table("Events", columns, rows),
        element("p", f"{words.number_of(left_out, 'event')} more", class_="quiet")
        if left_out
        else None,
    )


def refused(status: int, title: str, reason: str, advice: str) -> HTMLResponse:
    """A page that says why there is no other one."""
    answer = page_of(
        title, problem(reason, advice), element("p", element("a", "Reports", href="/"))
    )
    answer.status_code = status
    return answer


def page_of(title: str, *content: Child, scripts: Sequence[str] = ("console.js",)) -> HTMLResponse:
    """A page under the head that all have."""
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element(
            "header",
            element(
                "div",
                element("a", "crdtstream", href="/", class_="brand"),
                element("span", "reports of drills and scenarios", class_="where"),
                class_="bar",
            ),
        ),
        element("main", element("h1", title), *content, id="content", tabindex="-1"),
    )
    return HTMLResponse(document(f"{title} · reports", body, scripts))
