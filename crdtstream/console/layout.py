"""The frame of all pages, and parts that several of them have.

Pages work without scripts; with them, cells and curves change as figures do.  Text is escaped by
construction (``page/markup.py``), and geometry stands in attributes of SVG: the policy forbids
styles inside a page.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from starlette.responses import HTMLResponse

from crdtstream.console import words
from crdtstream.console.attention import Notice
from crdtstream.page.markup import Child, Markup, element

CURVE_WIDTH: Final = 120.0
CURVE_HEIGHT: Final = 24.0
# Colours for regions; a ninth region has the first one again.
COLOURS: Final = 8
BAR_WIDTH: Final = 100.0


class Tab(NamedTuple):
    """A page in the navigation."""

    name: str
    path: str


TABS: Final = (
    Tab("Overview", "/"),
    Tab("Streams", "/console/streams"),
    Tab("Members", "/console/members"),
    Tab("Node", "/console/node"),
)


class Frame(NamedTuple):
    """The same on all pages of one node.

    Attributes:
        database: its name.
        assets: the version of scripts and styles.
        shape: of the picture; other figures need another page.
    """

    database: str
    region: int
    version: str
    assets: str
    shape: str


def page(
    frame: Frame, title: str, *content: Child, tab: str = "", live: bool = False, at: str = ""
) -> HTMLResponse:
    """A page with the navigation above it.

    Args:
        tab: the name of the tab that is open.
        live: its cells change as figures do.
        at: the time of its figures.
    """
    state = element(
        "p",
        element("span", "live" if live else "as of", class_="live-word", data_live_word=""),
        " ",
        element("time", at, data_cell="at" if live else None),
        class_="live",
        data_state="off" if live else "still",
    )
    header = element(
        "header",
        element(
            "div",
            element("a", "crdtstream", href="/", class_="brand"),
            element(
                "span", element("b", frame.database), f" region {frame.region}", class_="where"
            ),
            state,
            class_="bar",
        ),
        _navigation(tab),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        header,
        element("div", role="status", class_="banner", id="banner", hidden=""),
        element("main", element("h1", title), *content, id="content", tabindex="-1"),
        element("footer", f"crdtstream {frame.version}"),
        data_assets=frame.assets,
        data_shape=frame.shape,
        data_live="/console/live" if live else None,
    )
    return HTMLResponse(document(f"{title} · {frame.database} · region {frame.region}", body))


def _navigation(tab: str = "") -> Markup:
    """Ways to the pages, of which the one with this name is open."""
    return element(
        "nav",
        [
            element("a", one.name, href=one.path, aria_current="page" if one.name == tab else None)
            for one in TABS
        ],
        aria_label="Pages",
    )


def refusal_page(status: int, title: str, reason: str, advice: str) -> HTMLResponse:
    """A page that says why a request is refused, whatever page it asks for."""
    return _page_without_figures(status, title, problem(reason, advice), navigation=None)


def problem_page(status: int, title: str, reason: str, advice: str, path: str = "") -> HTMLResponse:
    """A page that says why there is no other one, with the ways to those that there are.

    Args:
        path: of the page to go on at; empty: none.
    """
    again = element("p", element("a", "Ask again", href=path)) if path else None
    return _page_without_figures(
        status, title, problem(reason, advice), again, navigation=_navigation()
    )


def _page_without_figures(
    status: int, title: str, *content: Child, navigation: Markup | None
) -> HTMLResponse:
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip") if navigation else None,
        element(
            "header",
            element("div", element("a", "crdtstream", href="/", class_="brand"), class_="bar"),
            navigation,
        ),
        element("main", element("h1", title), *content, id="content", tabindex="-1"),
    )
    return HTMLResponse(document(title, body), status_code=status)


def document(title: str, body: Markup, scripts: Sequence[str] = ("console.js",)) -> str:
    """The text of a whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="/console/static/icon.svg"),
        element("link", rel="stylesheet", href="/console/static/console.css"),
        [element("script", src=f"/console/static/{one}", defer="") for one in scripts],
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


# --- Parts ----------------------------------------------------------------------------------------


def problem(reason: str, advice: str) -> Markup:
    """Why something is not shown, and what to do."""
    return element(
        "section", element("p", reason), element("p", advice, class_="quiet"), class_="empty"
    )


def cell(name: str, cells: dict[str, str], *, tag: str = "span") -> Markup:
    """A text that changes as figures do."""
    return element(tag, cells.get(name, words.UNKNOWN), data_cell=name)


def state_cell(name: str, cells: dict[str, str]) -> Markup:
    """A state: a word, and a mark beside it whose form and colour say the same."""
    text = cells.get(name, words.UNKNOWN)
    return element("span", text, class_="state", data_cell=name, data_state=text)


def region_mark(region: int) -> Markup:
    """A region's number in its colour."""
    return element("b", str(region), class_=f"region r{region % COLOURS}")


def act_link(text: Child, what: str, path: str) -> Markup:
    """A way to change something; ``what`` is heard, as a table shows it."""
    return element("a", text, element("span", f" {what}", class_="hidden"), href=path, class_="act")


class Column(NamedTuple):
    """Head of a column; ``kind`` is "number", "text", "long" or "curve"."""

    name: str
    kind: str = "text"


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Child]]) -> Markup:
    """A table; on a phone each row becomes a card, with the names of the columns in it."""
    head = element("tr", [element("th", one.name, scope="col", class_=one.kind) for one in columns])
    body = [
        element(
            "tr",
            [
                element(
                    "th" if at == 0 else "td",
                    child,
                    class_=column.kind,
                    data_name=column.name,
                    scope="row" if at == 0 else None,
                )
                for at, (column, child) in enumerate(zip(columns, row, strict=True))
            ],
        )
        for row in rows
    ]
    return element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", head),
        element("tbody", body),
    )


def section(title: str, *content: Child, note: str = "", class_: str = "card") -> Markup:
    """A part of a page under its title."""
    return element(
        "section",
        element("h2", title),
        element("p", note, class_="quiet") if note else None,
        *content,
        class_=class_,
    )


def curve(name: str, points: Sequence[float | None], *, kind: str) -> Markup:
    """A small curve of the last two minutes, drawn by the script; the number stands beside it."""
    return element(
        "svg",
        element("path", class_="area"),
        element("path", class_="line"),
        class_=f"curve {kind}",
        viewBox=f"0 0 {CURVE_WIDTH:.0f} {CURVE_HEIGHT:.0f}",
        preserveAspectRatio="none",
        data_curve=name,
        data_points=" ".join("" if one is None else f"{one:g}" for one in points) or None,
        aria_hidden="true",
    )


def bar(shares: Sequence[tuple[int, int]], *, most: int) -> Markup:
    """Lanes side by side: of each its region and how many entries it has.

    Args:
        most: the number that fills the bar.
    """
    at, parts = 0.0, []
    for region, number in shares:
        width = BAR_WIDTH * number / most if most else 0.0
        parts.append(
            element(
                "rect",
                x=at,
                y=0,
                width=width,
                height=10,
                class_=f"r{region % COLOURS}",
            )
        )
        at += width
    return element(
        "svg",
        parts,
        class_="lanes",
        viewBox=f"0 0 {BAR_WIDTH:.0f} 10",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def notice_list(notices: Sequence[Notice]) -> Markup:
    """Conditions to act on, or word that there are none."""
    return element(
        "ul",
        [
            element(
                "li",
                element("b", one.severity, class_="severity"),
                element("div", element("p", one.text), element("p", one.advice, class_="quiet")),
                element("code", one.alert),
                data_severity=one.severity,
            )
            for one in notices
        ]
        or element("li", element("p", "Nothing needs attention."), data_severity="none"),
        class_="notices",
        data_notices="",
    )
