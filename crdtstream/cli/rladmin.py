"""The program ``rladmin``: the commands that operators of Redis Enterprise know, on our regions.

Where that tool speaks of a cluster, we have one region node; its database is called by the
database id (``crdb``) or ``db:1``.
"""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer

from crdtstream.admin.client import AdminClient, AdminError, Survey
from crdtstream.cli.discovery import AddressOption, DirOption, RegionOption, answering, find_regions
from crdtstream.cli.exit import FAILED, MISUSED, fail
from crdtstream.cli.status import keeping_word, link_state
from crdtstream.cli.tables import print_columns
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2

DB_NUMBER: Final = "db:1"

app = typer.Typer(
    name="rladmin",
    help="Status and tuning of region nodes, in rladmin's syntax.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
tune_app = typer.Typer(help="Change tunables, durably.", no_args_is_help=True)
info_app = typer.Typer(help="Show settings and tunables.", no_args_is_help=True)
app.add_typer(tune_app, name="tune")
app.add_typer(info_app, name="info")

DatabaseArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="DB", help=f"Database: its id (crdb), or {DB_NUMBER}.")
]


# A value such as -5 is for the node to refuse, with its reason; it is no option.
@tune_app.command("db", context_settings={"ignore_unknown_options": True})
def tune_db(
    database: DatabaseArgument,
    parameter: Annotated[
        str, typer.Argument(help="crdt_xadd_id_uniqueness_mode, max_replication_lag_effects …")
    ],
    value: Annotated[str, typer.Argument(help="strict, 10000 …")],
    every_region: Annotated[
        bool, typer.Option("--all", help="In every region, not only the one that is asked.")
    ] = False,
    region: RegionOption = None,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Set a tunable of one region, or with --all of every region; it is kept over restarts.

    Example: rladmin tune db crdb crdt_xadd_id_uniqueness_mode semi-strict --all

    Exit status: 0 set, 1 a node refused it or did not answer, 2 misuse.
    """
    if every_region and region is not None:
        fail("--all and --region: give one of them", status=MISUSED)
    found = find_regions(folder, address)
    targets = list(found.replies) if every_region else [_one(found, region)]
    for target in targets:
        _check_database(found.replies[target], database)
    if every_region and found.unreachable:
        fail("; ".join(found.unreachable.values()))

    typer.echo("Tuning database: o")
    for target in targets:
        try:
            with AdminClient(found.addresses[target]) as client:
                client.tune(parameter, value)
        except AdminError as error:
            fail(f"region {target}: {error}")
    typer.echo("Finished successfully")
    if not every_region and len(found.replies) > 1:
        typer.echo(f"in region {targets[0]} only; --all tunes every region", err=True)


@info_app.command("db")
def info_db(
    database: DatabaseArgument = DB_NUMBER,
    region: RegionOption = None,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Show the database as one region has it: tunables, sizes, version vector.

    Example: rladmin info db crdb

    Exit status: 0 shown, 1 the node does not answer, 2 no such database.
    """
    found = find_regions(folder, address)
    reply = found.replies[_one(found, region)]
    _check_database(reply, database)
    values = {tunable.name: tunable.value for tunable in reply.tunables}
    values["region"] = str(reply.region)
    values["keys"] = str(reply.keys)
    values["clients"] = str(reply.clients)
    values["log_size"] = _size(reply.log_bytes)
    values["effects_issued"] = str(reply.effects_issued)
    values["version"] = reply.version
    for kept in reply.storage.kept:
        values[f"log_kept_for_{kept.region}"] = keeping_word(kept)
    typer.echo(f"{DB_NUMBER} [{reply.database_id}]:")
    for name, text in sorted(values.items()):
        typer.echo(f"    {name}: {text}")


@app.command()
def status(folder: DirOption = None, address: AddressOption = None) -> None:
    """Show nodes, databases, endpoints and links; * marks the node that is asked.

    Example: rladmin status

    Exit status: 0 every region answered, 1 at least one did not.
    """
    found = find_regions(folder, address)
    asked = _one(found, None)
    healthy = not found.unreachable and not any(reply.fault for reply in found.replies.values())
    typer.echo(f"CLUSTER:\n{'OK' if healthy else 'NOT OK'}. Regions: {len(found.replies)}")
    _print_columns("CLUSTER NODES:", _NODES, [
        (f"{'*' if region == asked else ''}node:{region}", "region",
         reply.grpc_address.rpartition(":")[0], str(reply.clients), reply.version,
         f"FAULT: {reply.fault}" if reply.fault else "OK")
        for region, reply in found.replies.items()
    ])  # fmt: skip
    _print_columns("DATABASES:", _DATABASES, [
        (DB_NUMBER, reply.database_id, "crdb", "active", f"node:{region}", str(reply.keys),
         _tunable(reply, "appendfsync"), reply.resp_address)
        for region, reply in found.replies.items()
    ])  # fmt: skip
    _print_columns("ENDPOINTS:", _ENDPOINTS, [
        (DB_NUMBER, reply.database_id, f"endpoint:{region}:1", f"node:{region}", reply.resp_address)
        for region, reply in found.replies.items()
    ])  # fmt: skip
    _print_columns("LINKS:", _LINKS, [
        (f"node:{link.peer}", f"node:{region}", link_state(link), str(link.lag_ms),
         str(link.lag_effects), link.error or "-")
        for region, reply in found.replies.items() for link in reply.links
    ])  # fmt: skip
    for why in found.unreachable.values():
        typer.echo(f"error: {why}", err=True)
    raise typer.Exit(code=0 if healthy else FAILED)


_NODES: Final = ("NODE:ID", "ROLE", "ADDRESS", "CLIENTS", "VERSION", "STATUS")
_DATABASES: Final = (
    "DB:ID", "NAME", "TYPE", "STATUS", "NODE", "KEYS", "PERSISTENCE", "ENDPOINT",
)  # fmt: skip
_ENDPOINTS: Final = ("DB:ID", "NAME", "ID", "NODE", "ADDRESS")
_LINKS: Final = ("FROM", "TO", "STATUS", "LAG_MS", "LAG_EFFECTS", "ERROR")


def _one(found: Survey, region: int | None) -> RegionId:
    """The region that was named, else the one whose address was given first."""
    if region is not None:
        return answering(found, region)
    return next(iter(found.addresses))


def _check_database(reply: admin_pb2.StatusReply, name: str) -> None:
    if name not in (reply.database_id, DB_NUMBER):
        fail(f"no database {name}; there is {reply.database_id} ({DB_NUMBER})", status=MISUSED)


def _tunable(reply: admin_pb2.StatusReply, name: str) -> str:
    return next((tunable.value for tunable in reply.tunables if tunable.name == name), "-")


def _size(count: int) -> str:
    """``1.02MB (1073741 bytes)``, as rladmin writes it."""
    amount, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            break
        amount /= 1024
    return f"{amount:.3g}{unit} ({count} bytes)"


def _print_columns(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    typer.echo(title)
    print_columns(head, rows)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
