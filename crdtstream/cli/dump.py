"""``crdtstream dump``: shows the content of a folder as text."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.command_line.exit import fail, refuse
from crdtstream.upkeep.dump import Part, dump_folder
from crdtstream.upkeep.folder_reading import UpkeepError


def dump(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a region (`dir` of its settings).")
    ],
    first: Annotated[
        int, typer.Option("--first", metavar="SEQ", min=1, help="Begin at this record.")
    ] = 1,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only effects and changes of this key.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Only the records of the log.")] = False,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="Only the newest checkpoint.")
    ] = False,
) -> None:
    """Print a region's folder as JSON lines: what it is, its newest checkpoint, then its log.

    Of the checkpoint each image is a line: keys, groups, pending entries, macro nodes with their
    entries. A record has its effects with their dots, and the local changes made with them. Bytes
    that are no UTF-8 text are shown as {"base64": "..."}. A damaged row or image is a line of kind
    "damaged", and the dump goes on behind it. The node may run: the records are those that were
    committed when the dump began. A line of kind "replaced" says that a newer checkpoint has
    replaced the one that was shown.

    Example: crdtstream dump crdtstream-data/region-1 --key messages

    Exit status: 0 printed, 1 printed with damaged rows, 2 no folder of a region.
    """
    if log and checkpoint:
        refuse("--log and --checkpoint: use one of them, or none for both")
    parts = [Part.LOG] if log else [Part.CHECKPOINT] if checkpoint else [*Part]
    wanted = None if key is None else os.fsencode(key)
    damaged = 0
    try:
        for line in dump_folder(folder, first=first, key=wanted, parts=parts):
            damaged += line["kind"] == "damaged"
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    except UpkeepError as error:
        refuse(error)
    except BrokenPipeError:
        # The reader has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None
    if damaged:
        fail(f"{damaged} lines report damage; crdtstream fsck {folder} shows more")
