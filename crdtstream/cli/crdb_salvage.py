"""``crdtstream crdb salvage``: what only the folder of a removed region has, appended again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.cli.exit import MISUSED, fail
from crdtstream.cli.progress import progress_bar
from crdtstream.cli.spark_options import (
    PasswordFileOption,
    Reach,
    TlsCaOption,
    TlsCertOption,
    TlsKeyOption,
    TlsOption,
    UserOption,
)
from crdtstream.cli.tables import new_table, print_table
from crdtstream.upkeep.reading import Identity, UpkeepError
from crdtstream.upkeep.state import folder_state
from crdtstream.upkeep.stranded import stranded_in
from crdtstream.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from crdtstream.salvage import Salvaged


def salvage(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the removed region; its node is down.")
    ],
    into: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="gRPC address of a region that is a member."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be appended, and append nothing.")
    ] = False,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    tls: TlsOption = False,
    tls_ca: TlsCaOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
) -> None:
    """Append again, in a region that lives, what only the folder of a removed region has.

    Of the effects that its node acknowledged beyond those that count, the entries that still exist
    are appended, each once, however often this is run and wherever it was killed. They get new IDs.
    An entry that its own producer has appended again elsewhere is left out. Everything else stays
    where it is: deletes, acknowledgements, groups and strings.

    Example: crdtstream crdb salvage crdtstream-data/region-3 --into 127.0.0.1:7381

    Exit status: 0 all of it is there, 1 it stopped early (run it again), 2 it is no folder of a
    region that was removed, or a node has it open.
    """
    reach = Reach(
        nodes=[into],
        user=user,
        password_file=password_file,
        tls=tls,
        tls_ca=tls_ca,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    source = reach.source()
    from crdtstream.salvage import Salvage, Salvaged
    from crdtstream.spark.nodes import Nodes, NodesError, OtherDatabaseError

    done: list[Salvaged] = []
    try:
        with (
            progress_bar() as progress,
            folder_state(folder, progress) as (identity, replica),
            replica.residency.in_place(),
            Nodes.of(source.nodes) as nodes,
        ):
            if nodes.position().database_uid.hex() != identity.database_uid:
                raise OtherDatabaseError(f"{folder} is of another database than {into}")
            cut = _cut_of(identity, into)
            beyond = replica.issued - cut
            job = Salvage(nodes, identity.region, identity.database_uid)
            streams = list(stranded_in(replica, cut))
            for number, (key, entries) in enumerate(streams, 1):
                if dry_run:
                    done.append(Salvaged(key, appended=len(entries)))
                else:
                    done.append(job.append(key, entries))
                progress("streams", number, len(streams))
    except (UpkeepError, OtherDatabaseError) as error:
        fail(error, status=MISUSED)
    except (AdminError, NodesError) as error:
        fail(error)
    _tell(identity, cut, beyond, done, dry_run=dry_run)


def _cut_of(identity: Identity, address: str) -> int:
    """How many effects of the region count; ends the program if that is not known.

    Raises:
        AdminError: nobody answers.
    """
    region = identity.region
    with AdminClient(address) as client:
        members = client.members()
    found = next((one for one in members.members if one.region == region), None)
    if found is None or found.status != pb.MemberStatus.Status.REMOVED:
        fail(
            f"region {region} was not removed, as far as {address} knows: its node gives the others"
            " what only it has when it is started",
            status=MISUSED,
        )
    if not found.HasField("cut"):
        fail(
            f"{address} does not know yet how many effects of region {region} count: the others"
            " have still to say what they have of it; try again in a moment"
        )
    return found.cut


def _tell(
    identity: Identity, cut: int, beyond: int, done: "list[Salvaged]", *, dry_run: bool
) -> None:
    if done:
        table = new_table(
            "salvage", "stream", *((">entries",) if dry_run else (">appended", ">were there"))
        )
        for one in done:
            name = one.key.decode(errors="backslashreplace")
            counts = (one.appended,) if dry_run else (one.appended, one.known)
            table.add_row(name, *map(str, counts))
        print_table(table)
    entries = sum(one.appended + one.known for one in done)
    typer.echo(
        f"Of region {identity.region} {cut} effects count; {beyond} are beyond that, {entries} of"
        " them entries that still exist."
    )
    if entries < beyond:
        typer.echo(
            f"{beyond - entries} are left out: deletes, acknowledgements, groups, strings, and"
            " entries that were removed again."
        )
    if dry_run:
        typer.echo("Nothing has changed.")
