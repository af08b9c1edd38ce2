"""``rladmin status``: tables of all regions, or one of them (``rladmin_tables.py``)."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from crdtstream.cli.rladmin_asking import check_database, check_node, cluster_of
from crdtstream.cli.rladmin_tables import (
    OK,
    USUAL_TABLES,
    Cluster,
    Row,
    Table,
    shown_columns,
    sorted_rows,
    tables_of,
)
from crdtstream.cli.rladmin_values import in_json, in_table
from crdtstream.cli.rladmin_words import Asked, WordsError, parse
from crdtstream.cli.tables import print_columns
from crdtstream.command_line.exit import FAILED, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.printable import printable_lines
from crdtstream.command_line.reach import Reach, find_regions
from crdtstream.command_line.watching import WatchOption, print_json, watched

# Tables that cost time in proportion to the keys.
_OF_STREAMS: Final = ("streams", "groups")


@with_groups
def status(
    reach: Reach,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORDS",
            help="A table: nodes, databases, endpoints, shards, modules; or links, streams, groups,"
            " which Redis Enterprise has not. Then: node ID, db DB, extra COLUMNS, sort TITLES,"
            " issues_only.",
        ),
    ] = None,
    as_json: JsonOption = False,
    watch: WatchOption = None,
) -> None:
    """Show nodes, databases, endpoints, shards and links.

    The node that was asked has a * before it. `extra` adds columns: all, backups, frag, nodestats,
    rack_id, redis_version, state_machine, watchdog; and address, of endpoints, which is no part of
    all. `sort` takes the titles of columns, of one table. `issues_only` leaves out what is OK.

    Example: rladmin status shards sort USED_MEMORY

    Exit status: 0 every region answered and takes writes, 1 at least one does not, 2 misuse.
    """
    asked = _parsed(words or [])
    addresses, login = reach.addresses(), reach.login()

    def show() -> None:
        with_streams = asked.table in _OF_STREAMS
        cluster = cluster_of(find_regions(addresses, login, with_streams=with_streams))
        _check_names(cluster, asked)
        if as_json:
            print_json(_status_json(cluster, asked), watch=watch)
        else:
            _print_status(cluster, asked)
        for why in cluster.found.unreachable.values():
            typer.echo(f"error: {printable_lines(why)}", err=True)
        raise typer.Exit(code=0 if cluster.is_well else FAILED)

    watched(watch, show, as_json=as_json)


def _parsed(words: Sequence[str]) -> Asked:
    try:
        return parse(words)
    except WordsError as error:
        refuse(error)


def _check_names(cluster: Cluster, asked: Asked) -> None:
    """End the program if a node or a database does not exist."""
    if asked.node is not None:
        check_node(cluster, asked.node)
    for name in asked.databases:
        check_database(cluster.reply, name)


def _rows(table: Table, asked: Asked) -> list[Row]:
    return [
        row
        for row in sorted_rows(table, asked.sort)
        if not (asked.issues_only and row.is_well)
        and (asked.node is None or not row.nodes or asked.node in row.nodes)
    ]


def _print_status(cluster: Cluster, asked: Asked) -> None:
    if asked.table is None:
        for line in _cluster_lines(cluster):
            typer.echo(line)
        typer.echo()
    tables = [
        table
        for key in ([asked.table] if asked.table else USUAL_TABLES)
        for table in tables_of(cluster, key)
    ]
    for at, table in enumerate(tables):
        if at:
            typer.echo()
        places = shown_columns(table, asked.extras)
        typer.echo(table.heading)
        print_columns(
            [table.columns[place].title for place in places],
            [
                [_marked(in_table(row.values[place]), table, place, cluster) for place in places]
                for row in _rows(table, asked)
            ],
        )


def _marked(text: str, table: Table, place: int, cluster: Cluster) -> str:
    """The node that was asked has a * before it, in the table of nodes."""
    is_asked = table.columns[place].title == "NODE:ID" and text == f"node:{cluster.asked}"
    return f"*{text}" if is_asked else text


def _cluster_lines(cluster: Cluster) -> list[str]:
    """The head of rladmin's status; there is no master, and failures are not counted."""
    word = OK if cluster.is_well else "NOT OK"
    return [
        "CLUSTER:",
        f"{word}. Cluster master: N/A (every region takes writes)",
        f"Cluster health: {word}, [N/A, N/A, N/A]",
        "failures/minute - avg1 N/A, avg15 N/A, avg60 N/A.",
    ]


def _status_json(cluster: Cluster, asked: Asked) -> dict[str, object]:
    """All columns of the tables, whatever ``extra`` says, and the reasons of what is missing."""
    shown: dict[str, object] = {
        "cluster": {
            "is_ok": cluster.is_well,
            "asked": f"node:{cluster.asked}",
            "nodes": len(cluster.nodes),
            "database": cluster.reply.database_id,
            "database_uid": cluster.reply.database_uid,
        }
    }
    for key in [asked.table] if asked.table else USUAL_TABLES:
        for table in tables_of(cluster, key):
            keys = [column.key for column in table.columns]
            shown[table.key] = [
                dict(zip(keys, map(in_json, row.values), strict=True))
                for row in _rows(table, asked)
            ]
    return {**shown, "unreachable": dict(cluster.found.unreachable)}
