"""Which drills a command is about, for every command of ``crdtstream drill``."""

from pathlib import Path
from typing import Annotated, Final, NoReturn, TypeAlias

import typer

from crdtstream.drill.drill import Drill
from crdtstream.drill.parse import BUNDLED, DrillError, find, load, own_file

MISUSED: Final = 2

FolderOption: TypeAlias = Annotated[
    Path,
    typer.Option("--folder", metavar="PATH", help="Where drills that are named are looked for."),
]


def load_named(names: list[str], folder: Path) -> list[tuple[str, Drill]]:
    """The drills of these names, or all of the folder; ends the program if there are none."""
    if folder == BUNDLED and not folder.is_dir():
        # Called from another folder than that of the sources.
        folder = own_file(str(BUNDLED))
    try:
        found = [(name, load(path)) for name, path in find(names, folder)]
    except DrillError as error:
        refuse(str(error))
    if not found:
        refuse(f"there is no drill in {folder}; name another --folder")
    return found


def refuse(text: str) -> NoReturn:
    """End the program, as it was asked for something that cannot be."""
    typer.echo(f"error: {text}", err=True)
    raise typer.Exit(code=MISUSED)
