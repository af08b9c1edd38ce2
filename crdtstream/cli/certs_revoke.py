"""``crdtstream certs revoke`` and ``certs revoked``: certificates that all regions refuse."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from crdtstream.access.basic import Login
from crdtstream.admin.client import Survey
from crdtstream.certificates.chain import time_text
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.files import read_certificates
from crdtstream.cli.crdb import DryRunOption, asked
from crdtstream.cli.tables import print_columns
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.reach import Reach
from crdtstream.core.member_changes import SECONDS_MAX, SERIAL_BYTES_MAX
from crdtstream.core.membership.revoked import serial_bytes, shown_serial
from crdtstream.v1 import admin_pb2 as pb

DAY_SECONDS: Final = 86_400
_HEADER: Final = ("SERIAL", "REVOKED", "REFUSED-UNTIL", "EPOCH")


@with_groups
def revoke(
    reach: Reach,
    certificate: Annotated[
        str,
        typer.Argument(
            metavar="CERT", help="File of the certificate, or its serial in hexadecimal digits."
        ),
    ],
    until: Annotated[
        datetime.datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="The day on which the certificate expires, in UTC. A serial needs it.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also a certificate that a region uses now: others refuse the region until it has"
            " a new one.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Have all regions refuse a certificate whose key was stolen, or whose holder has left.

    More than half of the regions must be up, as for any change of the members. Calls, links and
    Redis clients with the certificate end within a second or two, and new ones are refused. The
    region of a revoked certificate is refused as well, until it has a new one: replace it first.
    What a region that answers uses now is revoked with --force only, and not by that region.

    Example: crdtstream certs revoke ca/operator-ann/cert.pem

    Exit status: 0 revoked, 1 it was not decided or that is unknown, 2 misuse.
    """
    wanted = _wanted(certificate, until)
    _check_is_not_own(wanted, reach.login())
    with asked(reach) as client:
        before = client.members()
        if any(one.serial == wanted.serial for one in before.revoked):
            typer.echo(f"{shown_serial(wanted.serial)} is revoked already", err=as_json)
            _show(before, as_json=as_json)
            return
        if not force:
            _check_is_not_used(wanted, reach.find_regions())
        request = pb.ChangeMembersRequest(dry_run=dry_run, revoke=wanted)
        reply = client.change_members(request)
    if dry_run:
        typer.echo("Nothing has changed. It would be:", err=as_json)
    _show(reply.members, as_json=as_json)


@with_groups
def revoked(
    reach: Reach,
    as_json: JsonOption = False,
) -> None:
    """Show the certificates that all regions refuse.

    A certificate leaves the list by itself, some time after it has expired.

    Example: crdtstream certs revoked

    Exit status: 0 shown, 1 no node answers.
    """
    with asked(reach) as client:
        reply = client.members()
    _show(reply, as_json=as_json)


def _wanted(certificate: str, until: datetime.datetime | None) -> pb.RevokeCertificate:
    path = Path(certificate)
    if path.exists():
        if until is not None:
            refuse("--until is for a serial; a file says when it expires")
        try:
            leaf = read_certificates(path)[0]
        except CertificateError as error:
            refuse(error)
        if leaf.is_authority:
            refuse(f"{path} is an authority: take it out of the CA files of all nodes instead")
        return _request(leaf.serial, int(leaf.not_after.timestamp()))
    try:
        # As openssl writes them, too.
        serial = int(certificate.replace(":", ""), 16)
    except ValueError:
        refuse(f"{certificate} is no file, and no serial in hexadecimal digits")
    if not 0 < serial < 1 << 8 * SERIAL_BYTES_MAX:
        refuse(f"a serial has 1 to {2 * SERIAL_BYTES_MAX} hexadecimal digits")
    if until is None:
        refuse(
            "--until YYYY-MM-DD is missing: a serial does not say when its certificate expires;"
            " until then all regions refuse it"
        )
    # The whole day, wherever the certificate was issued.
    end_s = int(until.replace(tzinfo=datetime.UTC).timestamp()) + DAY_SECONDS
    return _request(serial, min(end_s, SECONDS_MAX))


def _request(serial: int, not_after_s: int) -> pb.RevokeCertificate:
    return pb.RevokeCertificate(serial=serial_bytes(serial), not_after_s=max(0, not_after_s))


def _check_is_not_own(wanted: pb.RevokeCertificate, login: Login) -> None:
    used = login.certificates
    if used is not None and serial_bytes(used.serial) == wanted.serial:
        refuse(
            "this command would use the certificate that it revokes, and could not show what became"
            " of it; present another one"
        )


def _check_is_not_used(wanted: pb.RevokeCertificate, found: Survey) -> None:
    """End the program if a region uses the certificate: all others would refuse its links."""
    for region, reply in found.replies.items():
        if reply.certificate_serial == wanted.serial:
            fail(
                f"region {region} uses certificate {shown_serial(wanted.serial)}: issue a new one"
                " for it, replace its files, and then revoke the former one; or revoke it now with"
                " --force, and other regions refuse its links until it has a new one"
            )
    for problem in found.unreachable.values():
        typer.echo(f"not known if that region uses the certificate: {problem}", err=True)


def _show(reply: pb.MembersReply, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_as_json(reply), indent=2))
        return
    if not reply.revoked:
        typer.echo("no certificate is revoked")
        return
    rows: list[Sequence[str]] = [
        (
            shown_serial(one.serial),
            time_text(_time(one.revoked_s)),
            time_text(_time(one.not_after_s)),
            str(one.epoch),
        )
        for one in reply.revoked
    ]
    print_columns(_HEADER, rows)


def _as_json(reply: pb.MembersReply) -> dict[str, object]:
    return {
        "epoch": reply.epoch,
        "revoked": [
            {
                "serial": shown_serial(one.serial),
                "revoked": _time(one.revoked_s).isoformat(),
                "not_after": _time(one.not_after_s).isoformat(),
                "epoch": one.epoch,
            }
            for one in reply.revoked
        ],
    }


def _time(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
