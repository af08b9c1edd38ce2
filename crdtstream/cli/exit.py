"""How a command ends when it cannot do its work: one line on stderr, and an exit status."""

from typing import Final, NoReturn

import typer

FAILED: Final = 1
MISUSED: Final = 2


def fail(text: object, *, status: int = FAILED) -> NoReturn:
    """Say why, and what to do; end."""
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(code=status)
