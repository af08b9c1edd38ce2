"""``crdtstream crdb salvage``: appends again what only a folder has that counts no longer."""

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from crdtstream.access.basic import Login
from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.arrow_extra import NO_ARROW, is_arrow_installed
from crdtstream.cli.progress import progress_bar
from crdtstream.cli.spark_options import source_options
from crdtstream.cli.tables import new_table, print_table
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.reach import ReachOne
from crdtstream.core.histories import Difference, Points, difference, heard
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import NO_LINEAGE, decode_incarnations
from crdtstream.core.replica import Replica
from crdtstream.upkeep.membership import own_member
from crdtstream.upkeep.reading import Identity, UpkeepError, locked, log_file
from crdtstream.upkeep.state import folder_state
from crdtstream.upkeep.stranded import stranded_in
from crdtstream.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from crdtstream.salvage import Salvaged

CONNECT_SECONDS_MAX: Final = 10.0


@with_groups
def salvage(
    reach: ReachOne,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; its node is down.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be appended, and append nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Append again, in a region that runs, entries that only the folder of a removed region has.

    The node at --address appends them; its region must be a member. The folder may also be an
    earlier folder of a region that goes on in another one, or a clone of its folder that was used
    apart, such as a snapshot of a virtual machine. Its node may have acknowledged effects beyond
    those that count. The entries among these that still exist are appended, each once, even if this
    is run again or was killed. They get new IDs. An entry that its own producer has appended again
    elsewhere is left out. Nothing else is taken over: no deletes, acknowledgements, groups and
    strings.

    Example: crdtstream crdb salvage crdtstream-data/region-3 --address 127.0.0.1:7381

    Exit status: 0 the region has all of them, 1 it stopped early (run it again), 2 the folder is
    none of these, or a node has it open.
    """
    into, login = reach.checked(), reach.presented.login()
    source = source_options([into], reach.presented)
    if not is_arrow_installed():
        fail(NO_ARROW)
    from crdtstream.salvage import Clone, Salvage, Salvaged
    from crdtstream.spark.nodes import Nodes, NodesError, OtherDatabaseError

    done: list[Salvaged] = []
    _check_answers(into)
    try:
        kept = _kept_cut(folder)
        with (
            progress_bar() as progress,
            folder_state(folder, progress) as (identity, replica),
            replica.residency.in_place(),
            Nodes.of(source.nodes) as nodes,
        ):
            if nodes.position().database_uid.hex() != identity.database_uid:
                raise OtherDatabaseError(f"{folder} is of another database than {into}")
            cut, incarnation, apart = (
                (kept, None, None) if kept is not None else _cut_of(identity, replica, into, login)
            )
            beyond = max(0, replica.issued - cut)
            clone = None if apart is None else Clone(apart, replica.histories.mark(identity.region))
            job = Salvage(nodes, identity.region, identity.database_uid, incarnation, clone)
            streams = list(stranded_in(replica, cut))
            for number, (key, entries) in enumerate(streams, 1):
                if dry_run:
                    done.append(Salvaged(key, appended=len(entries)))
                else:
                    done.append(job.append(key, entries))
                progress("streams", number, len(streams))
    except (UpkeepError, OtherDatabaseError) as error:
        refuse(error)
    except (AdminError, NodesError) as error:
        fail(error)
    if as_json:
        shown = _as_json(identity, cut, beyond, done, dry_run=dry_run)
        typer.echo(json.dumps(shown, indent=2))
        return
    _tell(identity, cut, beyond, done, dry_run=dry_run)


def _check_answers(address: str) -> None:
    """End the program if no node listens there: the reader for Spark would try for a minute."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS_MAX).close()
    except OSError as error:
        fail(
            f"no node answers at {address} ({error.strerror or error}); name the gRPC address of a"
            " region that runs"
        )


def _kept_cut(folder: Path) -> int | None:
    """Number of the region's effects that count; None if its node has not heard of it.

    Raises:
        UpkeepError: it is no folder of a region, or a node has it open.
    """
    log_file(folder)
    with locked(folder):
        _, member = own_member(folder)
    return None if member is None else member.cut


def _cut_of(
    identity: Identity, replica: Replica, address: str, login: Login
) -> tuple[int, int | None, Difference | None]:
    """Number of effects of the folder that count; ends the program if it is not known.

    Returns:
        That number; for an earlier folder of a region that goes on, its incarnation; and for a
        clone, where its effects begin to differ from those at the address.

    Raises:
        AdminError: the node at the address does not answer.
    """
    region = identity.region
    with AdminClient(address, login=login) as client:
        members = client.members()
        status = client.status()
        said = status.incarnations
    found = next((one for one in members.members if one.region == region), None)
    if found is None or found.status != pb.MemberStatus.Status.REMOVED:
        lineages = decode_incarnations(said).lineages if said else {}
        count = lineages.get(region, NO_LINEAGE).counting(identity.incarnation)
        apart = difference(
            _of_region(replica.histories.points(), region),
            _of_region(heard(status.histories), region),
        )
        if apart is not None and (count is None or apart.same_n < count):
            return apart.same_n, identity.incarnation, apart
        if count is not None:
            return count, identity.incarnation, None
        refuse(
            f"region {region} was not removed, and does not go on in another folder or a clone of"
            " this one, as far as"
            f" {address} knows: start its node, and the others get what only it has"
        )
    if not found.HasField("cut"):
        fail(
            f"{address} does not know yet how many effects of region {region} count: the others"
            " must first say what they have of it; try again in a moment"
        )
    return found.cut, None, None


def _of_region(points: Points, region: RegionId) -> Points:
    return {region: points[region]} if region in points else {}


def _tell(
    identity: Identity, cut: int, beyond: int, done: "list[Salvaged]", *, dry_run: bool
) -> None:
    if done:
        table = new_table(
            "salvage", "stream", *((">entries",) if dry_run else (">appended", ">were there"))
        )
        for one in done:
            counts = (one.appended,) if dry_run else (one.appended, one.known)
            table.add_row(_name(one), *map(str, counts))
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


def _as_json(
    identity: Identity, cut: int, beyond: int, done: "list[Salvaged]", *, dry_run: bool
) -> dict[str, object]:
    return {
        "id": identity.region,
        "guid": identity.database_uid,
        "status": "dry-run" if dry_run else "finished",
        "counted_effects": cut,
        "effects_beyond": beyond,
        "entries": sum(one.appended + one.known for one in done),
        "streams": [
            {
                "key": _name(one),
                "appended": 0 if dry_run else one.appended,
                "known": 0 if dry_run else one.known,
                "entries": one.appended + one.known,
            }
            for one in done
        ],
    }


def _name(one: "Salvaged") -> str:
    return one.key.decode(errors="backslashreplace")
