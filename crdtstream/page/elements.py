"""Parts of pages: tables that scroll on their own, names as clients chose them, times."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crdtstream.page.markup import Child, Markup, element
from crdtstream.page.plots import time_text

VALUE_CHARS_MAX: Final = 200


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


def table(columns: Sequence[Heading], rows: Iterable[Sequence[Child]]) -> Markup:
    """A table with a row of headings."""
    head = [element("th", one.name, scope="col", class_=one.kind) for one in columns]
    body = [
        element(
            "tr",
            [element("td", cell, class_=one.kind) for cell, one in zip(row, columns, strict=True)],
        )
        for row in rows
    ]
    return scrolled(element("table", element("thead", element("tr", head)), element("tbody", body)))


def scrolled(table: Markup) -> Markup:
    """Wide tables scroll on their own; the page never does sideways."""
    return element("div", table, class_="scroll", tabindex="0")


def whole(table: Markup) -> Markup:
    """A table that is shown to its last row, however long it is."""
    return element("div", table, class_="whole")


def folded(title: str, content: Markup) -> Markup:
    """Content that is shown when its title is clicked."""
    return element("details", element("summary", title), content)


def name_of(name: str) -> Markup:
    """A name that a client chose: it cannot change the text around it, whatever it holds."""
    return element("bdi", shortened(name) if name else "(no name)")


def shortened(text: str) -> str:
    """Values may be as long as they like, and the page may not."""
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "…"


def moment(ms: int) -> str:
    """A time in UTC."""
    return f"{time_text(ms, 86_400_000)} {time_text(ms, 1_000)}"


def duration(ms: int) -> str:
    """A length of time in the largest unit that divides it."""
    for unit_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms % unit_ms == 0:
            return f"{ms // unit_ms:,} {unit}"
    return f"{ms:,} ms"
