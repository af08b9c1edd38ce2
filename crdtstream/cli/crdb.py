"""``crdtstream crdb``: the members of the database, and changes of them.

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
from crdtstream.admin.region_reports import report_of, silent_report
from crdtstream.cli.crdb_removal import (
    SEALED_SECONDS_DEFAULT,
    Removal,
    remove_forced,
    remove_sealed,
)
from crdtstream.cli.tables import print_columns
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption, YesOption
from crdtstream.command_line.reach import Reach
from crdtstream.command_line.watching import Watchable, WatchOption, print_json, watched
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.member_changes import TOKEN_BYTES, TOKEN_HOURS
from crdtstream.v1 import admin_pb2 as pb

# The keys of --instance; crdb-cli has the first three.
INSTANCE_KEYS: Final = ("fqdn", "replication_endpoint", "url", "endpoint")
STATUSES: Final = {
    pb.MemberStatus.Status.JOINING: "joining",
    pb.MemberStatus.Status.ACTIVE: "active",
    pb.MemberStatus.Status.REMOVED: "removed",
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
DryRunOption: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be decided, and change nothing.")
]


@app.command("list", cls=Watchable)
@with_groups
def list_(
    reach: Reach,
    as_json: JsonOption = False,
    watch: WatchOption = None,
) -> None:
    """Show all regions that are, or were, members.

    Example: crdtstream crdb list

    Exit status: 0 shown, 1 no node answers.
    """

    def show() -> None:
        with asked(reach) as client:
            reply = client.members()
        if as_json:
            print_json(_as_json(reply), watch=watch)
        else:
            _print_list(reply)

    watched(watch, show, as_json=as_json)


@app.command(cls=Watchable)
@with_groups
def get(
    reach: Reach,
    guid: GuidOption = None,
    as_json: JsonOption = False,
    watch: WatchOption = None,
) -> None:
    """Show the database and each region in full.

    Example: crdtstream crdb get

    Exit status: 0 shown, 1 no node answers, 2 it is another database.
    """

    def show() -> None:
        with asked(reach) as client:
            reply = client.members()
        check_guid(reply, guid)
        if as_json:
            print_json(_as_json(reply), watch=watch)
        else:
            _print_database(reply)

    watched(watch, show, as_json=as_json)


@app.command("health-report", cls=Watchable)
@with_groups
def health_report(
    reach: Reach,
    guid: GuidOption = None,
    watch: WatchOption = None,
) -> None:
    """Show what each region knows of the members, and its links, as JSON.

    Look for regions that know different epochs, and for links that are down. `status` of a region
    is ok if it takes writes and all its links are up; regions that agree have the same `history`.

    Example: crdtstream crdb health-report

    Exit status: 0 all answer, agree and are linked, 1 they do not, 2 it is another database.
    """

    def show() -> None:
        with asked(reach) as client:
            members = client.members()
            check_guid(members, guid)
            found = survey([client.address], login=client.login)
        removed = pb.MemberStatus.Status.REMOVED
        wanted = {one.region: one for one in members.members if one.status != removed}
        report = [_health(wanted[region], members, found) for region in sorted(wanted)]
        print_json(report, watch=watch)
        hashes = {str(one["history"]) for one in report}
        is_well = len(hashes) == 1 and all(one["status"] == "ok" for one in report)
        raise typer.Exit(code=0 if is_well else FAILED)

    watched(watch, show, as_json=True)


def _health(member: pb.MemberStatus, members: pb.MembersReply, found: Survey) -> dict[str, object]:
    """One region of the report: crdb-cli's keys behind those of ours."""
    region = RegionId(member.region)
    about = {"id": region, "status": "error", "history": "", "fault": ""}
    if region not in found.addresses:
        error = found.unreachable.get(member.grpc_address, "it does not answer")
        return {**about, **silent_report(member, members, ""), "connection_error": error}
    try:
        with found.client(region) as client:
            its = client.members()
    except AdminError as error:
        return {**about, **silent_report(member, members, ""), "connection_error": str(error)}
    reply = found.replies[region]
    links = {RegionId(link.peer): link.state == UP for link in reply.links}
    about |= {"history": its.hash.hex(), "fault": reply.fault}
    if all(links.values()) and not reply.fault:
        about["status"] = "ok"
    return {**about, **report_of(its, links, encrypted=found.login.certificates is not None)}


@app.command("add-instance")
@with_groups
def add_instance(
    reach: Reach,
    instance: InstanceOption,
    token_file: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="New file for the token with which the node of the region joins.",
        ),
    ],
    hours: Annotated[
        float, typer.Option(help="How long the token is valid.", min=0.01, max=24 * 365)
    ] = TOKEN_HOURS,
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let one more region join, and write the token for its node.

    More than half of the regions must be up, and so must every region that has not yet heard of
    the previous change. Each number is used once: that of a removed region is not used again.

    Example: crdtstream crdb add-instance --token-file eu.token --instance
    fqdn=eu,replication_endpoint=10.0.0.4:7384,endpoint=10.0.0.4:6384,url=10.0.0.4:8384

    Exit status: 0 it may join, 1 it was not decided or that is unknown, 2 misuse.
    """
    given = _parsed(instance)
    for key in ("fqdn", "replication_endpoint"):
        if key not in given:
            refuse(f"--instance: {key}=… is missing")
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
    with asked(reach) as client:
        check_guid(client.members(), guid)
        if dry_run:
            _tell(client.change_members(request).members, dry_run=True, as_json=as_json)
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
    _tell(reply.members, dry_run=False, as_json=as_json)
    until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(expires_ms / 1000))
    typer.echo(
        f"Region {reply.region} may join until {until} UTC. Bring {token_file} to its machine, and"
        f" start its node there:\ncrdtstream node --join {client.address} --token-file"
        f" {token_file} --config region-{reply.region}.toml",
        err=as_json,
    )


@app.command()
@with_groups
def update(
    reach: Reach,
    region: IdOption,
    instance: InstanceOption,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Take the address although the region does not answer there yet."
        ),
    ] = False,
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the name or the addresses of a region; keys that are not named stay as they are.

    The node that is asked first tries a new replication_endpoint, and refuses it if another region,
    or none, answers there. With --force it is taken; the other regions use the address before until
    the region answers at the new one. They need no restart. An address can be corrected also while
    nobody reaches the region.

    Example: crdtstream crdb update --instance-id 2
    --instance replication_endpoint=10.0.0.9:7382

    Exit status: 0 changed, 1 it was not decided or that is unknown, 2 misuse.
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
            force=force,
        ),
    )
    with asked(reach) as client:
        before = client.members()
        check_guid(before, guid)
        if any(one.region == region and _has(one, given) for one in before.members):
            typer.echo(f"region {region} has this name and these addresses already", err=as_json)
            if as_json:
                _show(before, as_json=True)
            return
        _tell(client.change_members(request).members, dry_run=dry_run, as_json=as_json)


@app.command("remove-instance")
@with_groups
def remove_instance(
    reach: Reach,
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
            help="No majority of the active regions is left: those that answer go on alone.",
        ),
    ] = False,
    heir: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=REGION_MAX,
            help="Region that takes over what only it did. Default: the lowest that remains.",
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
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    guid: GuidOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a region for good: one that runs, one that has not joined yet, or one that is dead.

    A region that runs takes no more writes, and hands the groups whose home it is over to the heir.
    When the others have all that it issued, it is removed: nothing is lost. If they do not get it
    in time, the command says which region lacks what, and the region takes writes again.

    A dead region is removed with --force. The command first shows what is known to be lost, and
    asks. More than half of all active regions must agree, and the dead one cannot. Where fewer are
    left, --without-majority goes on with those that answer. Never use it while the others may be
    alive behind a partition: both parts would go on, and could not be joined again.

    Example: crdtstream crdb remove-instance --instance-id 3

    Exit status: 0 it is no member, 1 it was not decided or that is unknown, 2 misuse.
    """
    if without_majority and not force:
        refuse("--without-majority belongs to --force")
    with asked(reach) as client:
        before = client.members()
        check_guid(before, guid)
        removal = Removal(region, heir, yes=yes, dry_run=dry_run, as_json=as_json)
        status = next((one.status for one in before.members if one.region == region), None)
        if status == pb.MemberStatus.Status.REMOVED:
            typer.echo(f"region {region} is removed already", err=as_json)
            if as_json:
                _show(before, as_json=True)
            return
        if force:
            reply = remove_forced(client, removal, without_majority=without_majority)
        elif status == pb.MemberStatus.Status.JOINING or status is None:
            request = pb.RemoveRegion(region=region, heir=heir)
            changes = pb.ChangeMembersRequest(dry_run=dry_run, remove=request)
            reply = client.change_members(changes).members
        else:
            reply = remove_sealed(client, removal, seconds=timeout)
        _tell(reply, dry_run=dry_run, as_json=as_json)


# --- Asking ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def asked(reach: Reach) -> Iterator[AdminClient]:
    """The first node that answers; ends the program if none does, or if it refuses."""
    login = reach.login()
    failures = []
    for address in reach.addresses():
        with AdminClient(address, login=login) as client:
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


def check_guid(reply: pb.MembersReply, guid: str | None) -> None:
    if guid not in (None, reply.database_uid):
        refuse(f"no database {guid}; there is {reply.database_uid} ({reply.database_id})")


def _parsed(instance: str) -> dict[str, str]:
    """``fqdn=eu,url=…`` as a mapping; ends the program if it is something else."""
    found: dict[str, str] = {}
    for part in instance.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in INSTANCE_KEYS or not value:
            known = ", ".join(INSTANCE_KEYS)
            refuse(f"--instance: {part!r} is no KEY=VALUE; keys are {known}")
        if key in found:
            refuse(f"--instance: {key} stands there twice")
        if key == "url":
            value = value.removeprefix("http://").removeprefix("https://").rstrip("/")
        found[key] = value
    return found


def _has(member: pb.MemberStatus, given: dict[str, str]) -> bool:
    """True if a member has the name and addresses in ``given``."""
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
        refuse(f"{path} exists already; name a new file")
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror}")
    with open(file, "w", encoding="ascii") as token:
        token.write(f"{secret.hex()}\n")


# --- Telling --------------------------------------------------------------------------------------


def _tell(reply: pb.MembersReply, *, dry_run: bool, as_json: bool) -> None:
    """Show the members as they are after a change, or would be."""
    if dry_run:
        typer.echo("Nothing has changed. It would be:", err=as_json)
    _show(reply, as_json=as_json)


def _show(reply: pb.MembersReply, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_as_json(reply), indent=2))
    else:
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
    pending = f"; epoch {reply.pending_epoch} is decided" if reply.pending_epoch else ""
    return f"Members: epoch {reply.epoch} ({reply.hash[:4].hex()}){pending}"


def _print_database(reply: pb.MembersReply) -> None:
    typer.echo(f"CRDB-GUID: {reply.database_uid or '-'}")
    typer.echo(f"Name: {reply.database_id}")
    typer.echo(f"Epoch: {reply.epoch}")
    typer.echo(f"History: {reply.hash.hex()}")
    typer.echo(f"Region numbers left: {reply.numbers_left}")
    scheme = "https" if reply.http_tls else "http"
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
            typer.echo(f"    URL: {scheme}://{one.http_address}")
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
