"""``crdtstream fsck``: checks that a folder is sound."""

from pathlib import Path
from typing import Annotated

import typer

from crdtstream.cli.progress import progress_bar
from crdtstream.cli.tables import new_table, print_table
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.core.clock import format_vv
from crdtstream.upkeep.backup import UNFINISHED
from crdtstream.upkeep.check_report import Report
from crdtstream.upkeep.folder_reading import UpkeepError, locked, log_file
from crdtstream.upkeep.fsck import check_folder
from crdtstream.upkeep.manifest import MANIFEST
from crdtstream.upkeep.repair import repair_checkpoints, repair_index


def fsck(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a region (`dir` of its settings).")
    ],
    expect: Annotated[
        str, typer.Option(metavar="DIGEST", help="The digest that its state must have.")
    ] = "",
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended without losing anything.")
    ] = False,
) -> None:
    """Check a region's folder while its node is stopped; a backup's folder, too.

    It checks every checksum, SQLite's structures, dots and contexts, and each macro node of the
    checkpoints. It reads the newest sound checkpoint, replays the log behind it, and checks that
    lanes ascend and pending entries lie inside them. It prints the result of each check, and the
    digest that CRDT.DIGEST of the node would return. Without --repair nothing is changed.

    --repair makes the log's index again if only that is damaged. It deletes the remains of a
    checkpoint that was never finished, and a damaged newer checkpoint if the one before it and the
    log behind that are whole. It cannot restore lost data: start the region from a backup or with
    an empty folder; it takes its effects back from the other regions.

    Example: crdtstream fsck crdtstream-data/region-1

    Exit status: 0 sound, 1 damaged or not as expected, 2 no folder of a region, or a node has it
    open.
    """
    try:
        log_file(folder)
        with locked(folder), progress_bar() as progress:
            report = check_folder(folder, progress, expect=expect)
            if repair and report.is_index_lost:
                typer.echo("repair: makes the index of the log again, and reads it back", err=True)
                repair_index(folder)
                report = check_folder(folder, progress, expect=expect)
            elif repair and report.goes_back_to is not None:
                stays = f"checkpoint {report.goes_back_to}" if report.goes_back_to else "the log"
                typer.echo(
                    f"repair: deletes what was written of checkpoints behind {stays}, from which "
                    "the whole state can be read, and reads it back",
                    err=True,
                )
                repair_checkpoints(folder, report.goes_back_to)
                report = check_folder(folder, progress, expect=expect)
    except UpkeepError as error:
        refuse(error)
    _print(report)
    if not report.is_sound:
        if report.is_mendable:
            fail("damaged, and nothing is lost: crdtstream fsck --repair mends it", status=FAILED)
        if (folder / MANIFEST).exists():
            fail("damaged: this backup cannot be restored; take another backup")
        if UNFINISHED in folder.name:
            fail("damaged: a backup that was cut off; delete it, and take another backup")
        fail(
            "damaged: keep the folder as it is for inspection, and start this region from a backup "
            "or with an empty folder; the other regions have its effects"
        )
    if not report.is_as_expected:
        fail(
            "sound, but in another state than was expected: a digest is the same only with the "
            "same version vector"
        )


def _print(report: Report) -> None:
    table = new_table("checks", "check", "result", "found")
    for check in report.checks:
        table.add_row(check.name, check.verdict.value, check.found)
    print_table(table)
    if report.digest:
        typer.echo(f"version vector {format_vv(report.vv) or '-'}")
        typer.echo(f"digest {report.digest}")
