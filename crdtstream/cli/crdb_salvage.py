"""``crdtstream crdb salvage``: appends again what only a folder has that counts no longer."""

import json
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from crdtstream.access.basic import Login
from crdtstream.admin.client import AdminClient, AdminError, vv_of
from crdtstream.cli.progress import progress_bar
from crdtstream.cli.spark_options import source_options
from crdtstream.cli.tables import new_table, print_table
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.reach import ReachOne
from crdtstream.core.histories import heard
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import decode_incarnations
from crdtstream.core.membership.members import NO_HASH, Members
from crdtstream.core.replica import Replica
from crdtstream.query.arrow_extra import NO_ARROW, is_arrow_installed
from crdtstream.upkeep.counting import (
    Beyond,
    Known,
    NotCountedError,
    Running,
    beyond_of,
    count_of,
)
from crdtstream.upkeep.folder_reading import Identity, UpkeepError, locked, log_file
from crdtstream.upkeep.membership import kept_members
from crdtstream.upkeep.state import folder_state
from crdtstream.upkeep.stranded import stranded_in
from crdtstream.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from crdtstream.upkeep.salvage import Salvaged

CONNECT_SECONDS_MAX: Final = 10.0
# After a removal members agree on how many effects count as soon as all of them are reached.
COUNTED_SECONDS_MAX: Final = 10.0
_LOOK_SECONDS: Final = 0.2


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
    is run again or was killed. So are entries of other regions that only this folder has: a region
    that lost its disk may have sent them to this one alone. They get new IDs. An entry that its own
    producer has appended again elsewhere is left out. Nothing else is taken over: no deletes,
    acknowledgements, groups and strings.

    Example: crdtstream crdb salvage crdtstream-data/region-3 --address 127.0.0.1:7381

    Exit status: 0 the region has all of them, 1 it stopped early, or cannot know yet whether it has
    all (run it again), 2 the folder is none of these, or a node has it open.
    """
    into, login = reach.checked(), reach.presented.login()
    source = source_options([into], reach.presented)
    if not is_arrow_installed():
        fail(NO_ARROW)
    from crdtstream.spark.nodes import Nodes, NodesError, OtherDatabaseError
    from crdtstream.upkeep.salvage import Clone, Salvage, Salvaged

    found: list[Origin] = []
    done: dict[RegionId, list[Salvaged]] = {}
    _check_answers(into)
    try:
        members = _kept_members(folder)
        with (
            progress_bar() as progress,
            folder_state(folder, progress) as (identity, replica),
            replica.residency.in_place(),
            Nodes.of(source.nodes) as nodes,
        ):
            if nodes.position().database_uid.hex() != identity.database_uid:
                raise OtherDatabaseError(f"{folder} is of another database than {into}")
            found = _counted(identity, replica, members, into, login)
            for origin in found:
                appended = done.setdefault(origin.region, [])
                for beyond in origin.beyond:
                    mark = replica.histories.mark(beyond.origin)
                    clone = None if beyond.apart is None else Clone(beyond.apart, mark)
                    job = Salvage(
                        nodes, beyond.origin, identity.database_uid, beyond.incarnation, clone
                    )
                    streams = list(stranded_in(replica, beyond))
                    for number, (key, entries) in enumerate(streams, 1):
                        if dry_run:
                            appended.append(Salvaged(key, appended=len(entries)))
                        else:
                            appended.append(job.append(key, entries))
                        progress("streams", number, len(streams))
    except (UpkeepError, OtherDatabaseError) as error:
        refuse(error)
    except (AdminError, NodesError, NotCountedError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps(_as_json(identity, found, done, dry_run=dry_run), indent=2))
    else:
        _tell(found, done, dry_run=dry_run)
    _tell_awaited(found, into)


@dataclass(frozen=True, slots=True)
class Origin:
    """One origin of the folder's effects.

    Attributes:
        count: how many of its effects count; all of the folder's, if it goes on with them.
        n: how many the folder has.
        beyond: those that count nowhere.
        awaited: number of those that the region at the address lacks, and that the origin has.
    """

    region: RegionId
    count: int
    n: int
    beyond: list[Beyond]
    awaited: int = 0

    @property
    def effects_beyond(self) -> int:
        return max(0, self.n - self.count)


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


def _kept_members(folder: Path) -> Members:
    """The members as the folder knows them.

    Raises:
        UpkeepError: it is no folder of a region, or a node has it open.
    """
    log_file(folder)
    with locked(folder):
        return kept_members(folder)[1]


def _running(address: str, login: Login) -> Running:
    """Knowledge of the region that runs at an address.

    Raises:
        AdminError: its node does not answer.
    """
    with AdminClient(address, login=login) as client:
        members, status = client.members(), client.status()
    removed = pb.MemberStatus.Status.REMOVED
    said = status.incarnations
    return Running(
        vv_of(status.vv),
        decode_incarnations(said).lineages if said else {},
        heard(status.histories),
        {
            RegionId(one.region): one.cut if one.HasField("cut") else None
            for one in members.members
            if one.status == removed
        },
        members.epoch,
        members.hash or NO_HASH,
        frozenset(RegionId(one.region) for one in members.members),
    )


def _counted(
    identity: Identity, replica: Replica, members: Members, address: str, login: Login
) -> "list[Origin]":
    """``_origins`` of the region at an address, which may have to hear first how many count.

    Raises:
        AdminError: its node does not answer.
        NotCountedError: it did not hear that in ``COUNTED_SECONDS_MAX``.
    """
    deadline = time.monotonic() + COUNTED_SECONDS_MAX
    while True:
        try:
            return _origins(identity, replica, members, _running(address, login), address)
        except NotCountedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def _origins(
    identity: Identity, replica: Replica, members: Members, there: Running, address: str
) -> list[Origin]:
    """The region of the folder, and the other origins of which it has effects that are not there.

    Ends the program if the region goes on in this folder.

    Raises:
        NotCountedError: it is not known yet how many effects of an origin count.
    """
    lineages, points = identity.incarnations.lineages, replica.histories.points()
    own = members.find(identity.region)
    cuts = {} if own is None or own.cut is None else {identity.region: own.cut}
    folder = Known(dict(replica.vv), lineages, points, cuts)
    found = []
    for region in sorted(folder.vv.keys() | {identity.region}):
        count, n = count_of(region, members, folder, there), folder.vv.get(region, 0)
        if region == identity.region and count.n is None:
            refuse(_goes_on(region, address))
        counts = n if count.n is None else count.n
        awaited = max(0, n - there.vv.get(region, 0)) if count.n is None else 0
        beyond = list(beyond_of(region, count, folder))
        if beyond or awaited or region == identity.region:
            found.append(Origin(region, counts, n, beyond, awaited))
    # Its own come first in what is told, and last in what is appended: they may follow the others.
    return sorted(found, key=lambda one: (one.region == identity.region, one.region))


def _goes_on(region: RegionId, address: str) -> str:
    return (
        f"region {region} was not removed, and does not go on in another folder or a clone of this"
        f" one, as far as {address} knows: start its node, and the others get what only it has. If"
        " they refuse its links because the database has split, and this part is to be given up,"
        f" stop its node and remove it: `crdtstream crdb remove-instance --instance-id {region}"
        f" --force --address {address}`"
    )


def _tell(found: "list[Origin]", done: "dict[RegionId, list[Salvaged]]", *, dry_run: bool) -> None:
    streams = _by_stream(done)
    if streams:
        table = new_table(
            "salvage", "stream", *((">entries",) if dry_run else (">appended", ">were there"))
        )
        for one in streams:
            counts = (one.appended,) if dry_run else (one.appended, one.known)
            table.add_row(_name(one), *map(str, counts))
        print_table(table)
    left_out = 0
    for origin in reversed(found):
        if not (origin.beyond or origin is found[-1]):
            continue
        entries = _entries(done[origin.region])
        left_out += origin.effects_beyond - entries
        typer.echo(
            f"Of region {origin.region} {origin.count} effects count; {origin.effects_beyond} are"
            f" beyond that, {entries} of them entries that still exist."
        )
    if left_out > 0:
        typer.echo(
            f"{left_out} are left out: deletes, acknowledgements, groups, strings, and"
            " entries that were removed again."
        )
    if dry_run:
        typer.echo("Nothing has changed.")


def _tell_awaited(found: list[Origin], address: str) -> None:
    """End the program if it is not known whether the folder has more that no member has."""
    lines = [
        f"{one.awaited} effects of region {one.region} are not at {address} yet, and region"
        f" {one.region} goes on in the folder that has them, as far as that node knows"
        for one in found
        if one.awaited
    ]
    if lines:
        fail(
            f"{'. '.join(lines)}. Start its node; if its folder is lost, or it is gone for good,"
            " replace or remove it. Then run this again: it appends what no member has"
        )


def _entries(streams: "list[Salvaged]") -> int:
    return sum(one.appended + one.known for one in streams)


def _by_stream(done: "dict[RegionId, list[Salvaged]]") -> "list[Salvaged]":
    """Counts of each stream, of all origins."""
    sums: dict[bytes, Salvaged] = {}
    for streams in done.values():
        for one in streams:
            if one.key in sums:
                sums[one.key].appended += one.appended
                sums[one.key].known += one.known
            else:
                sums[one.key] = replace(one)
    return list(sums.values())


def _as_json(
    identity: Identity,
    found: "list[Origin]",
    done: "dict[RegionId, list[Salvaged]]",
    *,
    dry_run: bool,
) -> dict[str, object]:
    *others, own = found
    return {
        **_origin_as_json(own, done),
        "guid": identity.database_uid,
        "status": "dry-run" if dry_run else "finished",
        "others": [_origin_as_json(one, done) for one in others if one.beyond],
        "streams": [
            {
                "key": _name(one),
                "appended": 0 if dry_run else one.appended,
                "known": 0 if dry_run else one.known,
                "entries": one.appended + one.known,
            }
            for one in _by_stream(done)
        ],
    }


def _origin_as_json(origin: Origin, done: "dict[RegionId, list[Salvaged]]") -> dict[str, object]:
    return {
        "id": origin.region,
        "counted_effects": origin.count,
        "effects_beyond": origin.effects_beyond,
        "entries": _entries(done[origin.region]),
    }


def _name(one: "Salvaged") -> str:
    return one.key.decode(errors="backslashreplace")
