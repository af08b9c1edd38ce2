"""Certificates of local regions, made by a development authority in their folder.

    crdtstream-data/certificates/
        ca/               the authority; its key makes a certificate of any of these regions
        region-1/ …       cert.pem, key.pem, ca.pem of each region
        operator-up/      the same of the commands that are given this folder by --dir

What exists is used, and nothing is overwritten.  All are valid as long as the authority, ten years:
a laptop's regions should start after a holiday.
"""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from crdtstream.certificates.authority import (
    AUTHORITY_DAYS_DEFAULT,
    LOCALHOST,
    Authority,
    issue,
    key_pem,
    make_authority,
    new_key,
)
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.files import (
    CA_CERTIFICATE,
    CA_KEY,
    CERTIFICATE,
    KEY,
    PRIVATE,
    PUBLIC,
    NewFile,
    read_authority,
    write_folder,
)
from crdtstream.certificates.names import TRUST_DOMAIN_DEFAULT, Holder, Role
from crdtstream.certificates.node_files import CertificateSet, Paths, read_set
from crdtstream.core.ids import RegionId

AUTHORITY: Final = "ca"
OPERATOR: Final = "up"

# Values of settings.
Value: TypeAlias = str | int


def make_certificates(
    root: Path, regions: Iterable[RegionId], *, database_id: str, host: str
) -> None:
    """Make what is missing of the certificates of these regions, and of the operator.

    Args:
        root: the folder of all certificates; made if missing.
        host: address of all regions, for clients that check it.

    Raises:
        CertificateError: something cannot be made, or the authority is of another database.
    """
    now = datetime.datetime.now(datetime.UTC)
    authority = _authority(root / AUTHORITY, database_id, now)
    if authority.database_id != database_id:
        raise CertificateError(
            f"{root} has certificates of database {authority.database_id}, not of {database_id};"
            " move that folder away, or start these regions with the database_id of before"
        )
    holders = [authority.holder(Role.REGION, str(region)) for region in regions]
    for holder in (*holders, authority.holder(Role.OPERATOR, OPERATOR)):
        target = root / holder.folder_name
        if not target.exists():
            _issue(authority, holder, target, host, now)


def settings_of(root: Path, region: RegionId) -> dict[str, Value]:
    """Settings by which a region speaks TLS; its port for Redis clients is not among them."""
    paths = _paths(root, f"{Role.REGION.value}-{region}")
    return {
        "tls_cert_file": str(paths.certificate),
        "tls_key_file": str(paths.key),
        "tls_ca_cert_file": str(paths.ca),
        "tls_replication": True,
        "tls_http": True,
    }


def operator_paths(root: Path) -> Paths:
    """The files that commands present to these regions."""
    return _paths(root, f"{Role.OPERATOR.value}-{OPERATOR}")


def operator_certificates(root: Path) -> CertificateSet:
    """The certificate that commands present.

    Raises:
        CertificateError: it cannot be used.
    """
    return read_set(operator_paths(root), Wanted(), datetime.datetime.now(datetime.UTC))[0]


def _paths(root: Path, name: str) -> Paths:
    within = root.absolute() / name
    return Paths(within / CERTIFICATE, within / KEY, within / CA_CERTIFICATE)


def _authority(folder: Path, database_id: str, now: datetime.datetime) -> Authority:
    if folder.exists():
        return read_authority(folder)
    made = make_authority(
        database_id=database_id,
        trust_domain=TRUST_DOMAIN_DEFAULT,
        domains=(),
        days=AUTHORITY_DAYS_DEFAULT,
        now=now,
    )
    files = {
        CA_CERTIFICATE: NewFile(made.certificate.pem, PUBLIC),
        CA_KEY: NewFile(key_pem(made.key), PRIVATE),
    }
    write_folder(folder, files)
    return made


def _issue(
    authority: Authority, holder: Holder, folder: Path, host: str, now: datetime.datetime
) -> None:
    key = new_key()
    days_left = (authority.certificate.not_after - now).days
    if days_left < 1:
        raise CertificateError(
            f"the authority beside {folder} expires; move the folder {folder.parent} away, and new"
            " certificates are made"
        )
    certificate = issue(
        authority,
        holder,
        key.public_key(),
        hosts=(LOCALHOST, host) if holder.role is Role.REGION else (),
        days=days_left,
        now=now,
    )
    files = {
        CERTIFICATE: NewFile(certificate.pem, PUBLIC),
        KEY: NewFile(key_pem(key), PRIVATE),
        CA_CERTIFICATE: NewFile(authority.certificate.pem, PUBLIC),
    }
    write_folder(folder, files)
