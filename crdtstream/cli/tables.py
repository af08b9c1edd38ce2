"""Tables on stdout: as wide as the terminal, or as wide as they need to be without one.

Always so: whatever a cell or a sentence holds, it drives no terminal.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from crdtstream.command_line.printable import printable, printable_lines

_FILE_WIDTH: Final = 200


class PlainTable(Table):
    """A table whose cells are texts, not markup."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        texts = (Text(printable_lines(one)) if isinstance(one, str) else one for one in cells)
        super().add_row(*texts, **options)


def new_table(title: str, *columns: str) -> Table:
    """A table; a column whose name begins with ``>`` holds numbers."""
    table = PlainTable(
        title=escape(printable(title)), title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        name = column.removeprefix(">")
        table.add_column(name, justify="right" if name != column else "left", overflow="fold")
    return table


def print_table(table: Table) -> None:
    _console().print(table)


def print_text(text: str) -> None:
    """A sentence between tables; broken between words where a terminal ends, else one line."""
    _console().print(
        printable(text), markup=False, highlight=False, soft_wrap=not sys.stdout.isatty()
    )


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Left-aligned columns, two blanks between, as Redis Enterprise's tools write them."""
    lines = [head, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
