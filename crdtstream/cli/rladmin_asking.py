"""The regions that a command of ``rladmin`` is about; it ends if there is no such one."""

import typer

from crdtstream.admin.client import AdminError, Survey
from crdtstream.cli.rladmin_tables import DB_ID, Cluster
from crdtstream.cli.rladmin_words import WordsError, node_number
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.command_line.printable import printable_lines
from crdtstream.command_line.reach import answering
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2


def cluster_of(found: Survey) -> Cluster:
    asked = one_of(found, None)
    try:
        with found.client(asked) as client:
            members = client.members().members
    except AdminError as error:
        fail(error)
    return Cluster(found, asked, {RegionId(one.region): one.name for one in members})


def one_of(found: Survey, region: int | None) -> RegionId:
    """The region that was named, else the one whose address was given first."""
    if region is not None:
        return answering(found, region)
    return next(iter(found.addresses))


def number_of(text: str) -> int:
    try:
        return node_number(text)
    except WordsError as error:
        refuse(error)


def check_node(cluster: Cluster, number: int) -> None:
    if number not in cluster.nodes:
        refuse(f"no node {number}; there are {', '.join(map(str, cluster.nodes))}")


def check_database(reply: admin_pb2.StatusReply, name: str) -> None:
    if name not in (reply.database_id, DB_ID):
        refuse(f"no database {name}; there is {reply.database_id} ({DB_ID})")


def fail_if_unreachable(found: Survey) -> None:
    for why in found.unreachable.values():
        typer.echo(f"error: {printable_lines(why)}", err=True)
    if found.unreachable:
        raise typer.Exit(code=FAILED)
