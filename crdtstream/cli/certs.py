"""``crdtstream certs``: a development authority, and checks of certificates of any authority."""

import datetime
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from crdtstream.certificates.authority import (
    AUTHORITY_DAYS_DEFAULT,
    DAYS_MAX,
    LEAF_DAYS_DEFAULT,
    issue,
    key_pem,
    make_authority,
    new_key,
)
from crdtstream.certificates.certificate import PrivateKey, PublicKey
from crdtstream.certificates.chain import time_text
from crdtstream.certificates.checking import Verdict, Wanted, check
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.files import (
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    PRIVATE,
    PUBLIC,
    NewFile,
    check_free,
    read_authority,
    read_certificates,
    read_pair,
    read_request,
    write_folder,
)
from crdtstream.certificates.names import TRUST_DOMAIN_DEFAULT, Role, check_database_id
from crdtstream.certificates.showing import as_json as certificate_as_json
from crdtstream.certificates.showing import lines_of, printable
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.command_line.options import JsonOption
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.settings.node_settings import DATABASE_ID_DEFAULT

app = typer.Typer(
    help="Certificates of regions, operators, readers and clients; a development authority.",
    no_args_is_help=True,
)


@app.command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the authority; a new or an empty one.")
    ],
    database_id: Annotated[
        str, typer.Option(metavar="ID", help="The `database_id` of the nodes' settings.")
    ] = DATABASE_ID_DEFAULT,
    trust_domain: Annotated[
        str,
        typer.Option(metavar="NAME", help="First part of all holders' URIs; a name that is yours."),
    ] = TRUST_DOMAIN_DEFAULT,
    permit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DOMAIN",
            help="A DNS domain whose host names may stand in certificates; may be repeated.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=DAYS_MAX, help="The authority is valid this long."),
    ] = AUTHORITY_DAYS_DEFAULT,
) -> None:
    """Make a development authority, which issues the certificates of one database.

    DIR gets ca.pem, which every holder of a certificate needs, and ca-key.pem, which stays here:
    a program that has it can pose as every region. Nothing is overwritten.

    The authority may issue only for names within .crdtstream, localhost, the trust domain, and the
    domains of --permit. Addresses are always permitted.

    Example: crdtstream certs init ca --database-id crdb --permit example.com

    Exit status: 0 made, 1 it cannot be written, 2 a name is wrong, or DIR has files.
    """
    try:
        check_free(folder)
        authority = make_authority(
            database_id=database_id,
            trust_domain=trust_domain,
            domains=permit or (),
            days=days,
            now=_now(),
        )
    except CertificateError as error:
        refuse(error)
    files = {
        CA_CERTIFICATE: NewFile(authority.certificate.pem, PUBLIC),
        CA_KEY: NewFile(key_pem(authority.key), PRIVATE),
    }
    try:
        write_folder(folder, files)
    except CertificateError as error:
        fail(error)
    typer.echo(f"{folder / CA_CERTIFICATE}: give it to every holder of a certificate")
    typer.echo(f"{folder / CA_KEY}: keep it here, it can make a certificate of any region")
    typer.echo(f"database {database_id}, trust domain {trust_domain}")
    typer.echo(f"valid until {time_text(authority.certificate.not_after)}")


@app.command("issue")
def issue_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the authority (`certs init`).")
    ],
    role: Annotated[
        Role,
        typer.Argument(
            metavar="ROLE",
            help="A client speaks Redis's protocol; a query certificate is for programs that read"
            " regions in bulk.",
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The region's number; else a name that you choose."),
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host name or an address of the region's node; may be repeated.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=DAYS_MAX, help="The certificate is valid this long."),
    ] = LEAF_DAYS_DEFAULT,
    csr: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Issue for the key of this signing request, and make none. Names in it are"
            " ignored.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the files, a new or an empty one. Default: ROLE-NAME in DIR.",
        ),
    ] = None,
) -> None:
    """Issue a certificate of a region, an operator, a reader or a client.

    The folder gets cert.pem, key.pem (for its owner only) and the authority's ca.pem: all that the
    holder needs. They appear together or not at all, and nothing is overwritten: to replace
    certificates that expire, issue into a new folder with --out.

    Example: crdtstream certs issue ca region 1 --host localhost --host 127.0.0.1

    Exit status: 0 issued, 1 it cannot be written, 2 DIR is no authority, a name is wrong, or files
    exist already.
    """
    try:
        authority = read_authority(folder)
        holder = authority.holder(role, name)
        target = folder / holder.folder_name if out is None else out
        check_free(target)
        key, public = _keys(csr)
        certificate = issue(authority, holder, public, hosts=host or (), days=days, now=_now())
    except CertificateError as error:
        refuse(error)
    files = {CERTIFICATE: NewFile(certificate.pem, PUBLIC)}
    if key is not None:
        files[KEY] = NewFile(key_pem(key), PRIVATE)
    files[CA_CERTIFICATE] = NewFile(authority.certificate.pem, PUBLIC)
    try:
        write_folder(target, files)
    except CertificateError as error:
        fail(error)
    typer.echo(f"{target}: {', '.join(files)} of {holder.title}")
    names = [*certificate.dns_names, *map(str, certificate.addresses), *certificate.uris]
    typer.echo(f"names {', '.join(names)}")
    typer.echo(f"valid until {time_text(certificate.not_after)}")


@app.command()
def show(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files of certificates in PEM.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show holder, names, issuer and validity of certificates.

    Of a file with a chain all certificates are shown, in their order. Private keys are not read.

    Example: crdtstream certs show ca/region-1/cert.pem

    Exit status: 0 shown, 2 a file cannot be read, or has no certificate.
    """
    now = _now()
    try:
        found = [(path, one) for path in paths for one in read_certificates(path)]
    except CertificateError as error:
        refuse(error)
    if as_json:
        shown = [{"file": str(path), **certificate_as_json(one, now)} for path, one in found]
        typer.echo(json.dumps(shown, indent=2))
        return
    for place, (path, one) in enumerate(found):
        typer.echo(str(path) if not place else f"\n{path}")
        for line in lines_of(one, now):
            typer.echo(f"  {line}")


@app.command("check")
def check_command(
    certificate: Annotated[
        Path, typer.Argument(metavar="CERT", help="The certificate; authorities may follow in it.")
    ],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Its private key.")],
    ca: Annotated[Path, typer.Option(metavar="FILE", help="The authorities that peers trust.")],
    region: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=REGION_MAX, help="The region that it must name."),
    ] = None,
    database_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The database that it must name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a node can use a certificate and its key, whichever authority issued it.

    The key must fit and must not be open to others, a valid chain must lead to the CA file, and
    the names and usages must be those of one holder. Each finding is a line that says what to do.

    Example: crdtstream certs check cert.pem --key key.pem --ca ca.pem --region 1

    Exit status: 0 it can be used, 1 there are findings, 2 a file cannot be read or is something
    else.
    """
    try:
        if database_id is not None:
            check_database_id(database_id)
        pair = read_pair(certificate=certificate, key=key, ca=ca)
    except CertificateError as error:
        refuse(error)
    wanted = Wanted(None if region is None else RegionId(region), database_id)
    verdict = check(pair, wanted, _now())
    if as_json:
        typer.echo(json.dumps(_verdict_as_json(verdict), indent=2))
    else:
        for finding in verdict.findings:
            typer.echo(printable(f"{finding.flaw.value}: {finding.text}"))
        if verdict.is_good and verdict.holder is not None:
            until = time_text(verdict.not_after)
            typer.echo(f"{certificate}: {verdict.holder.title}, can be used until {until}")
    raise typer.Exit(code=0 if verdict.is_good else FAILED)


def _keys(csr: Path | None) -> tuple[PrivateKey | None, PublicKey]:
    """A new key; or the public half alone, of a request."""
    if csr is not None:
        return None, read_request(csr)
    key = new_key()
    return key, key.public_key()


def _verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "is_good": verdict.is_good,
        "holder": None if verdict.holder is None else verdict.holder.uri,
        "not_after": verdict.not_after.isoformat(),
        "findings": [
            {"flaw": finding.flaw.name.lower(), "text": finding.text}
            for finding in verdict.findings
        ],
    }


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
