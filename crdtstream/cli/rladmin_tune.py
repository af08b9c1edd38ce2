"""``rladmin tune db``: sets tunables of one region, or of all."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer

from crdtstream.admin.client import AdminError
from crdtstream.cli.rladmin_asking import check_database, one_of
from crdtstream.cli.rladmin_tables import DB_ID
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.printable import printable_lines
from crdtstream.command_line.reach import Reach, RegionOption
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import admin_pb2

CONTINUE: Final = "continue_on_error"
# A documented parameter, in MB, and ours, in bytes.
BACKLOG: Final = ("crdt_repl_backlog", "replication_backlog_size")
# As a value of the first one: the default of ours.
AUTO: Final = "auto"

DatabaseArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="DB", help=f"Database: its id (crdb), or {DB_ID}.")
]


@with_groups
def tune_db(
    reach: Reach,
    database: DatabaseArgument,
    parameters: Annotated[
        list[str],
        typer.Argument(
            metavar="PARAMETER VALUE …",
            help=f"As `info db` lists them. {BACKLOG[0]} takes MB or {AUTO}, as Redis"
            f" Enterprise's; {CONTINUE} skips regions that do not answer.",
        ),
    ],
    every_region: Annotated[
        bool, typer.Option("--all", help="In every region, not only the one that is asked.")
    ] = False,
    region: RegionOption = None,
) -> None:
    """Set tunables of one region, or with --all of every region; they are kept over restarts.

    Names are checked before anything changes. A value that a node refuses ends the command; what
    was set before stays so, and is named.

    Example: rladmin tune db crdb crdt_xadd_id_uniqueness_mode semi-strict --all

    Exit status: 0 set, 1 a node refused it or did not answer, 2 misuse.
    """
    if every_region and region is not None:
        refuse("--all and --region: use only one of them")
    goes_on, pairs = _pairs(parameters)
    found = reach.find_regions()
    targets = list(found.replies) if every_region else [one_of(found, region)]
    for target in targets:
        check_database(found.replies[target], database)
        _check_parameters(found.replies[target], pairs)
    if every_region and found.unreachable and not goes_on:
        fail("; ".join(found.unreachable.values()))

    typer.echo("Tuning database: o")
    done: list[str] = []
    for target in targets:
        for parameter, value in pairs:
            try:
                with found.client(target) as client:
                    client.tune(parameter, value)
            except AdminError as error:
                before = f"\n       set already: {', '.join(done)}" if done else ""
                fail(f"region {target}: {error}{before}")
            done.append(f"{parameter} {value} in region {target}")
    typer.echo("Finished successfully")
    if every_region:
        for why in found.unreachable.values():
            typer.echo(f"skipped: {printable_lines(why)}", err=True)
    elif len(found.replies) > 1:
        typer.echo(f"in region {targets[0]} only; --all tunes every region", err=True)


def _pairs(words: Sequence[str]) -> tuple[bool, list[tuple[str, str]]]:
    """Parameters and values, and whether regions that do not answer are skipped."""
    left = [word for word in words if word != CONTINUE]
    if not left or len(left) % 2:
        refuse(f"tune db: each parameter has one value; {left[-1] if left else 'it'} has none")
    pairs = [_ours(name, value) for name, value in zip(left[::2], left[1::2], strict=True)]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            refuse(f"tune db: {name} stands there twice")
    return len(left) < len(words), pairs


def _ours(name: str, value: str) -> tuple[str, str]:
    """A parameter as nodes know it."""
    if name != BACKLOG[0]:
        return name, value
    if value.lower() == AUTO:
        return BACKLOG[1], str(NodeSettings.model_fields[BACKLOG[1]].default)
    digits = re.fullmatch(r"(\d{1,12})(mb)?", value, re.ASCII | re.IGNORECASE)
    if digits is None:
        refuse(
            f"tune db: {name} is a number of MB, as 1024, or {AUTO}; {BACKLOG[1]} takes other units"
        )
    return BACKLOG[1], str(int(digits[1]) << 20)


def _check_parameters(reply: admin_pb2.StatusReply, pairs: Sequence[tuple[str, str]]) -> None:
    """End the program if a region does not know a parameter, before any region is changed."""
    known = sorted(one.name for one in reply.tunables if one.allowed)
    for name, _ in pairs:
        if name not in known:
            fail(f"region {reply.region}: no parameter {name!r}; there are {', '.join(known)}")
