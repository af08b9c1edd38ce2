"""The end of a command that cannot do its work: one line on stderr, and an exit status."""

from typing import Final, NoReturn

import typer

from crdtstream.command_line.printable import printable_lines

FAILED: Final = 1
MISUSED: Final = 2


def fail(text: object, *, status: int = FAILED) -> NoReturn:
    """Say why, and what to do; end."""
    typer.echo(f"error: {printable_lines(str(text))}", err=True)
    raise typer.Exit(code=status)


def refuse(text: object) -> NoReturn:
    """The same for a request that makes no sense, whatever the nodes are like."""
    fail(text, status=MISUSED)
