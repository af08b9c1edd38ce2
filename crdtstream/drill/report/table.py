"""A table of a report as a value, which the page and the terminal show each in its way.

    Table("clients", [*names("client"), *numbers("clients|", "slowest recovery|RTO")], rows)

The page has room for whole headings; a terminal has 80 columns.  So a heading may have a bar: the
part behind it is the heading on a terminal, and if that is empty the column is left out there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TypeAlias


class Tone(Enum):
    """Colour of a cell."""

    PLAIN = auto()
    GOOD = auto()
    WARN = auto()
    BAD = auto()


class Kind(Enum):
    """Contents of a column."""

    NUMBER = auto()
    # Our own words, never broken.
    WORD = auto()
    # Foreign text: a name, a text, a list that a narrow screen must not squeeze.
    NAME = auto()
    TEXT = auto()
    LIST = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and the one for a terminal; None: the column is left out there."""

    heading: str
    narrow: str | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with more than a text.

    Attributes:
        narrow: the text on a terminal; None: the same.
        link: the part of the page that it leads to; empty: none.
    """

    text: str
    tone: Tone = Tone.PLAIN
    narrow: str | None = None
    link: str = ""

    @classmethod
    def of(cls, content: "Content") -> "Cell":
        match content:
            case Cell():
                return content
            case int():
                return cls(f"{content:,}")
            case _:
                return cls(content)


Content: TypeAlias = Cell | str | int
Row: TypeAlias = Sequence[Content]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as wide as the columns; a table without rows is not shown.

    Attributes:
        is_narrow: only for the terminal, in place of a column that is left out there.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    is_narrow: bool = False


def columns(kind: Kind, *headings: str) -> list[Column]:
    """Columns of one kind; ``"wide|narrow"`` is a heading of two lengths."""
    found = []
    for one in headings:
        wide, bar, narrow = one.partition("|")
        found.append(Column(wide, (narrow or None) if bar else wide, kind))
    return found


numbers = partial(columns, Kind.NUMBER)
words = partial(columns, Kind.WORD)
names = partial(columns, Kind.NAME)
texts = partial(columns, Kind.TEXT)
lists = partial(columns, Kind.LIST)
