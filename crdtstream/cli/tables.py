"""Tables on stdout: as wide as the terminal, or as wide as they need to be without one."""

import sys
from collections.abc import Sequence
from typing import Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_FILE_WIDTH: Final = 200


def new_table(title: str, *columns: str) -> Table:
    """A table; a column whose name begins with ``>`` holds numbers."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        name = column.removeprefix(">")
        table.add_column(name, justify="right" if name != column else "left", overflow="fold")
    return table


def print_table(table: Table) -> None:
    _console().print(table)


def print_text(text: str) -> None:
    """A sentence between tables; broken between words where a terminal ends, else one line."""
    _console().print(text, markup=False, highlight=False, soft_wrap=not sys.stdout.isatty())


def print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Left-aligned columns, two blanks between, as Redis Enterprise's tools write them."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
