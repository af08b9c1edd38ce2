"""Tables on stdout: as wide as the terminal, or as wide as they need to be without one."""

import sys
from typing import Final

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
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    console.print(table)
