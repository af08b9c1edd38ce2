"""``crdtstream crdb``: who is a member of the database, and changes of that.

Commands, options and tables are those of Redis Enterprise's crdb-cli where it has them.
"""

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from crdtstream.admin.client import (
    AdminClient,
    AdminError,
    OutcomeUnknownError,
    Survey,
    UnreachableError,
    survey,
)
from crdtstream.cli.crdb_removal import (
    SEALED_SECONDS_DEFAULT,
    Removal,
    remove_forced,
    remove_sealed,
)
from crdtstream.cli.discovery import AddressOption, DirOption, addresses_of
from crdtstream.cli.exit import FAILED, MISUSED, fail
from crdtstream.cli.tables import print_columns
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.v1 import admin_pb2 as pb

TOKEN_BYTES: Final = 32
HOURS_DEFAULT: Final = 24
# The keys of --instance; crdb-cli has the first three.
INSTANCE_KEYS: Final = ("fqdn", "replication_endpoint", "url", "endpoint")
STATUSES: Final = {
    pb.MemberStatus.Status.JOINING: "joining",
    pb.MemberStatus.Status.ACTIVE: "active",
    pb.MemberStatus.Status.REMOVED: "removed",
    pb.MemberStatus.Status.CONFIGURED: "configured",
}

UP: Final = pb.LinkStatus.State.UP

app = typer.Typer(
    help="The whole database: its members, and what its regions have.", no_args_is_help=True
)

GuidOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--crdb-guid",
        metavar="GUID",
        help="Only if the database is this one; `crdb list` shows it.",
    ),
]
IdOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--instance-id", metavar="N", min=1, max=REGION_MAX, help="The number of the region."
    ),
]
InstanceOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--instance",
        metavar="KEY=VALUE,…",
        help="fqdn=NAME,replication_endpoint=HOST:PORT (gRPC), endpoint=HOST:PORT (RESP),"
        " url=HOST:PORT (HTTP).",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="As JSON.")]
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be decided, and change nothing.")
]


@app.command("list")
def list_(
    as_json: JsonOption = False, folder: DirOption = None, address: AddressOption = None
) -> None:
    """Show all regions that are, or were, members.

    Example: crdtstream crdb list

    Exit status: 0 shown, 1 no node answers.
    """
    with _asked(folder, address) as client:
        reply = client.members()
    if as_json:
        typer.echo(json.dumps(_as_json(reply), indent=2))
        return
    _print_list(reply)


@app.command()
def get(
    guid: GuidOption = None,
    as_json: JsonOption = False,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Show the database and each region in full.

    Example: crdtstream crdb get

    Exit status: 0 shown, 1 no node answers, 2 it is another database.
    """
    with _asked(folder, address) as client:
        reply = client.members()
    _check_guid(reply, guid)
    if as_json:
        typer.echo(json.dumps(_as_json(reply), indent=2))
        return
    _print_database(reply)


@app.command("health-report")
def health_report(
    guid: GuidOption = None, folder: DirOption = None, address: AddressOption = None
) -> None:
    """Show what each region knows of the members, and its links, as JSON.

    Regions that know different epochs, or links that are down, are what to look for.

    Example: crdtstream crdb health-report

    Exit status: 0 all answer, agree and are linked, 1 not so, 2 it is another database.
    """
    with _asked(folder, address) as client:
        members = client.members()
        _check_guid(members, guid)
        found = survey([client.address])
    removed = pb.MemberStatus.Status.REMOVED
    wanted = {one.region: one for one in members.members if one.status != removed}
    report = [_health(region, wanted[region], found) for region in sorted(wanted)]
    typer.echo(json.dumps(report, indent=2))
    hashes = {str(one["history"]) for one in report}
    is_well = len(hashes) == 1 and all(one["status"] == "ok" for one in report)
    raise typer.Exit(code=0 if is_well else FAILED)


def _health(region: int, member: pb.MemberStatus, found: Survey) -> dict[str, object]:
    """One region of the report; the keys are those of crdb-cli where it has them."""
    name = member.name or f"region-{region}"
    about = {"cluster_name": name, "id": region, "history": "", "connections": []}
    address = found.addresses.get(RegionId(region))
    if address is None:
        error = found.unreachable.get(member.grpc_address, "it does not answer")
        return {**about, "status": "error", "connection_error": error}
    try:
        with AdminClient(address) as client:
            its = client.members()
    except AdminError as error:
        return {**about, "status": "error", "connection_error": str(error)}
    reply = found.replies[RegionId(region)]
    links = [
        {"id": link.peer, "status": "up" if link.state == UP else "down", "error": link.error}
        for link in reply.links
    ]
    is_well = not reply.fault and all(link["status"] == "up" for link in links)
    return {
        **about,
        "guid": its.database_uid,
        "name": its.database_id,
        "active_config_version": its.epoch,
        "history": its.hash.hex(),
        "instances": [{"id": one.region, "status": STATUSES[one.status]} for one in its.members],
        "fault": reply.fault,
        "connections": links,
        "status": "ok" if is_well else "error",
    }


@app.command()
def adopt(
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Make the regions that the nodes' files name the members of epoch 1.

    Any other change does so by itself before. All regions must be up and their files must name the
    same regions, each by one address; else the difference is printed, and nothing has changed.

    Example: crdtstream crdb adopt --dry-run

    Exit status: 0 they are, 1 a node did not answer or the files differ, 2 it is another database.
    """
    request = pb.ChangeMembersRequest(dry_run=dry_run, adopt=pb.AdoptRegions())
    with _asked(folder, address) as client:
        before = client.members()
        _check_guid(before, guid)
        if before.epoch:
            typer.echo("the members are adopted already")
            _print_list(before)
            return
        _tell(client.change_members(request).members, dry_run=dry_run)


@app.command("add-instance")
def add_instance(
    instance: InstanceOption,
    token_file: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Where the token is written with which the node of the region joins; a new file.",
        ),
    ],
    hours: Annotated[
        float, typer.Option(help="For how long the token is good.", min=0.01, max=24 * 365)
    ] = HOURS_DEFAULT,
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Let one more region join, and write the token for its node.

    More than half of the regions must be up; none may be missing that has not heard of the change
    before. Numbers are given once: a region that is removed leaves its number unused.

    Example: crdtstream crdb add-instance --token-file eu.token --instance
    fqdn=eu,replication_endpoint=10.0.0.4:7384,endpoint=10.0.0.4:6384,url=10.0.0.4:8384

    Exit status: 0 it may join, 1 it was not decided or nobody knows, 2 misuse.
    """
    given = _parsed(instance)
    for key in ("fqdn", "replication_endpoint"):
        if key not in given:
            fail(f"--instance: {key}=… is missing", status=MISUSED)
    secret = secrets.token_bytes(TOKEN_BYTES)
    expires_ms = round((time.time() + hours * 3600) * 1000)
    request = pb.ChangeMembersRequest(
        dry_run=dry_run,
        add=pb.AddRegion(
            name=given["fqdn"],
            grpc_address=given["replication_endpoint"],
            resp_address=given.get("endpoint", ""),
            http_address=given.get("url", ""),
            token_sha256=hashlib.sha256(secret).digest(),
            token_expires_ms=expires_ms,
        ),
    )
    with _asked(folder, address) as client:
        _check_guid(client.members(), guid)
        if dry_run:
            _tell(client.change_members(request).members, dry_run=True)
            return
        # Before the change: a region whose token is lost could only be removed again.
        _write_token(token_file, secret)
        try:
            reply = client.change_members(request)
        except (UnreachableError, OutcomeUnknownError):
            # The region may be added yet, and the token is its only one then.
            raise
        except AdminError:
            token_file.unlink()
            raise
    _tell(reply.members, dry_run=False)
    until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(expires_ms / 1000))
    typer.echo(
        f"Region {reply.region} may join until {until} UTC. Bring {token_file} to its machine, and"
        f" start its node there:\ncrdtstream node --join {client.address} --token-file"
        f" {token_file} --config region-{reply.region}.toml"
    )


@app.command()
def update(
    region: IdOption,
    instance: InstanceOption,
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Change the name or the addresses of a region; keys that are not named stay as they are.

    The others go on at the new address without a restart. Start the region's own node there.

    Example: crdtstream crdb update --instance-id 2
    --instance replication_endpoint=10.0.0.9:7382

    Exit status: 0 changed, 1 it was not decided or nobody knows, 2 misuse.
    """
    given = _parsed(instance)
    request = pb.ChangeMembersRequest(
        dry_run=dry_run,
        update=pb.UpdateRegion(
            region=region,
            name=given.get("fqdn", ""),
            grpc_address=given.get("replication_endpoint", ""),
            resp_address=given.get("endpoint", ""),
            http_address=given.get("url", ""),
        ),
    )
    with _asked(folder, address) as client:
        before = client.members()
        _check_guid(before, guid)
        if any(one.region == region and _has(one, given) for one in before.members):
            typer.echo(f"region {region} has this name and these addresses already")
            return
        _tell(client.change_members(request).members, dry_run=dry_run)


@app.command("remove-instance")
def remove_instance(
    region: IdOption,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="The region is active and its node is gone for good: what only it has is lost.",
        ),
    ] = False,
    without_majority: Annotated[
        bool,
        typer.Option(
            "--without-majority",
            help="Of all active regions less than half are left: those that answer go on alone.",
        ),
    ] = False,
    heir: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=REGION_MAX,
            help="Who takes over what only it did. Default: the lowest that remains.",
        ),
    ] = 0,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long the others may take to get all that the region issued.",
            min=0,
        ),
    ] = SEALED_SECONDS_DEFAULT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    folder: DirOption = None,
    address: AddressOption = None,
) -> None:
    """Remove a region for good: one that runs, one that has not joined yet, or one that is dead.

    One that runs takes no writes from then on. It hands the groups whose home it is over to the
    heir, the others get all that it issued, and it is removed: nothing is lost. If the others do
    not get it in time, the command says who lacks what, and the region takes writes again.

    A dead one is removed with --force, after the command has shown what is known to be lost and
    has asked. More than half of all active regions must agree, the dead one not among them. Where
    less are left, --without-majority goes on with those that answer: never do that while the
    others may be alive behind a partition, as both parts would go on and could not meet again.

    Example: crdtstream crdb remove-instance --instance-id 3

    Exit status: 0 it is no member, 1 it was not decided or nobody knows, 2 misuse.
    """
    if without_majority and not force:
        fail("--without-majority belongs to --force", status=MISUSED)
    with _asked(folder, address) as client:
        before = client.members()
        _check_guid(before, guid)
        removal = Removal(region, heir, yes=yes, dry_run=dry_run)
        status = next((one.status for one in before.members if one.region == region), None)
        if status == pb.MemberStatus.Status.REMOVED:
            typer.echo(f"region {region} is removed already")
            return
        if force:
            reply = remove_forced(client, removal, without_majority=without_majority)
        elif status == pb.MemberStatus.Status.JOINING or status is None:
            request = pb.RemoveRegion(region=region, heir=heir)
            changes = pb.ChangeMembersRequest(dry_run=dry_run, remove=request)
            reply = client.change_members(changes).members
        else:
            reply = remove_sealed(client, removal, seconds=timeout)
        _tell(reply, dry_run=dry_run)


# --- Asking ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _asked(folder: Path | None, given: list[str] | None) -> Iterator[AdminClient]:
    """The first node that answers; ends the program if none does, or if it refuses."""
    failures = []
    for address in addresses_of(folder, given):
        with AdminClient(address) as client:
            try:
                client.members()
            except AdminError as error:
                failures.append(str(error))
                continue
            try:
                yield client
            except AdminError as error:
                fail(error)
            return
    fail("\n       ".join(failures))


def _check_guid(reply: pb.MembersReply, guid: str | None) -> None:
    if guid not in (None, reply.database_uid):
        fail(
            f"no database {guid}; there is {reply.database_uid} ({reply.database_id})",
            status=MISUSED,
        )


def _parsed(instance: str) -> dict[str, str]:
    """``fqdn=eu,url=…`` as a mapping; ends the program if it is something else."""
    found: dict[str, str] = {}
    for part in instance.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in INSTANCE_KEYS or not value:
            known = ", ".join(INSTANCE_KEYS)
            fail(f"--instance: {part!r} is no KEY=VALUE; keys are {known}", status=MISUSED)
        if key in found:
            fail(f"--instance: {key} stands there twice", status=MISUSED)
        found[key] = value.removeprefix("http://").rstrip("/") if key == "url" else value
    return found


def _has(member: pb.MemberStatus, given: dict[str, str]) -> bool:
    """Whether a member is called and reached as it is given."""
    has = {
        "fqdn": member.name,
        "replication_endpoint": member.grpc_address,
        "endpoint": member.resp_address,
        "url": member.http_address,
    }
    return given.items() <= has.items()


def _write_token(path: Path, secret: bytes) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        fail(f"{path} exists already; name a new file", status=MISUSED)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}", status=MISUSED)
    with open(file, "w", encoding="ascii") as token:
        token.write(f"{secret.hex()}\n")


# --- Telling --------------------------------------------------------------------------------------


def _tell(reply: pb.MembersReply, *, dry_run: bool) -> None:
    if dry_run:
        typer.echo("Nothing has changed. It would be:")
    _print_list(reply)


_LIST: Final = ("CRDB-GUID", "NAME", "REPL-ID", "CLUSTER-FQDN", "STATUS", "REPLICATION-ENDPOINT")


def _print_list(reply: pb.MembersReply) -> None:
    typer.echo(_epoch(reply))
    rows: list[Sequence[str]] = [
        (
            reply.database_uid or "-",
            reply.database_id,
            str(one.region),
            one.name or f"region-{one.region}",
            STATUSES[one.status],
            one.grpc_address,
        )
        for one in reply.members
    ]
    print_columns(_LIST, rows)


def _epoch(reply: pb.MembersReply) -> str:
    if not reply.epoch:
        return "Members: as the nodes' files name them (epoch 0)"
    pending = f"; epoch {reply.pending_epoch} is decided" if reply.pending_epoch else ""
    return f"Members: epoch {reply.epoch} ({reply.hash[:4].hex()}){pending}"


def _print_database(reply: pb.MembersReply) -> None:
    typer.echo(f"CRDB-GUID: {reply.database_uid or '-'}")
    typer.echo(f"Name: {reply.database_id}")
    typer.echo(f"Epoch: {reply.epoch}")
    if reply.epoch:
        typer.echo(f"History: {reply.hash.hex()}")
        typer.echo(f"Region numbers left: {reply.numbers_left}")
    for one in reply.members:
        typer.echo("Instance:")
        typer.echo(f"  Id: {one.region}")
        typer.echo(f"  Status: {STATUSES[one.status]}")
        typer.echo("  Cluster:")
        typer.echo(f"    FQDN: {one.name or f'region-{one.region}'}")
        typer.echo(f"    Replication-Endpoint: {one.grpc_address}")
        if one.resp_address:
            typer.echo(f"    Endpoint: {one.resp_address}")
        if one.http_address:
            typer.echo(f"    URL: http://{one.http_address}")
        if one.changed_epoch:
            typer.echo(f"  Added at epoch: {one.added_epoch}")
            typer.echo(f"  Changed at epoch: {one.changed_epoch}")
        if one.token_expires_ms:
            until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.token_expires_ms / 1000))
            typer.echo(f"  Token is good until: {until} UTC")
        if one.heir:
            typer.echo(f"  Heir: {one.heir}")
        if one.HasField("cut"):
            typer.echo(f"  Effects that count: {one.cut}")


def _as_json(reply: pb.MembersReply) -> dict[str, object]:
    return {
        "guid": reply.database_uid,
        "name": reply.database_id,
        "epoch": reply.epoch,
        "hash": reply.hash.hex(),
        "numbers_left": reply.numbers_left,
        "asked": reply.region,
        "instances": [
            {
                "id": one.region,
                "name": one.name,
                "status": STATUSES[one.status],
                "replication_endpoint": one.grpc_address,
                "endpoint": one.resp_address,
                "url": one.http_address,
                "added_epoch": one.added_epoch,
                "changed_epoch": one.changed_epoch,
                "heir": one.heir or None,
                "cut": one.cut if one.HasField("cut") else None,
            }
            for one in reply.members
        ],
    }
