"""A table of a report as HTML."""

from typing import Final

from crdtstream.drill.outcome import Verdict
from crdtstream.drill.report.table import Cell, Kind, Table, Tone
from crdtstream.drill.report.tables import VERDICT_TONES
from crdtstream.page import elements
from crdtstream.page.markup import Child, Markup, element

_CLASSES: Final = {
    Kind.NUMBER: None,
    Kind.WORD: "text time",
    Kind.NAME: "text time",
    Kind.TEXT: "text",
    Kind.LIST: "text long",
}
_TONES: Final = {
    Tone.GOOD: "verdict passed",
    Tone.WARN: "verdict aborted",
    Tone.BAD: "verdict failed",
}


def html_of(table: Table) -> Markup | None:
    """The table without its title; None if it is empty."""
    if not table.rows or table.is_narrow:
        return None
    headings = [elements.Heading(one.heading, _CLASSES[one.kind]) for one in table.columns]
    rows = [
        [
            _content(Cell.of(cell), column.kind)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.rows
    ]
    return elements.table(headings, rows)


def verdict_of(verdict: Verdict) -> Markup:
    """Word of a verdict, in its colour."""
    return _coloured(verdict.value, VERDICT_TONES[verdict])


def _content(cell: Cell, kind: Kind) -> Child:
    if cell.tone in _TONES:
        return _coloured(cell.text, cell.tone) if cell.text else None
    match kind:
        case Kind.NAME:
            name = elements.name_of(cell.text)
            return element("a", name, href=cell.link) if cell.link else name
        case Kind.TEXT | Kind.LIST if cell.text:
            # Foreign text never reverses its surroundings.
            return element("bdi", cell.text)
        case _:
            return cell.text


def _coloured(text: str, tone: Tone) -> Markup:
    return element("span", text, class_=_TONES[tone])
