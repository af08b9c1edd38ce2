"""Selection of the drills that a command is about, for every command of ``crdtstream drill``."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from crdtstream.command_line.exit import refuse
from crdtstream.drill.drill import Drill
from crdtstream.drill.parse import BUNDLED, DrillError, find, load, own_file

FolderOption: TypeAlias = Annotated[
    Path,
    typer.Option("--folder", metavar="PATH", help="Where drills that are named are looked for."),
]


def load_named(names: list[str], folder: Path) -> list[tuple[str, Drill]]:
    """The drills of these names, or all of the folder; ends the program if none exist."""
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
