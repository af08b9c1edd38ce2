"""Options by which commands reach region nodes: where these are, and what is presented to them.

They are declared here alone, so they have the same names, texts and order in every command, and are
read in the same way.  ``groups.py`` makes options of the fields.

    Reach           --dir, --address      the regions of a database
    ReachOne        --address             one node
    LoginOptions    --user, --password-file, --tls-cert-file, --tls-key-file, --tls-ca-cert-file
                                          behind those of both
"""

import datetime
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

import typer

from crdtstream.access.basic import DEFAULT_USER, NO_LOGIN, Login
from crdtstream.admin.client import AdminError, Survey, survey
from crdtstream.command_line.exit import fail, refuse
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.local.regions import CERTIFICATES_FOLDER, admin_addresses, has_certificates
from crdtstream.secrets.secret_files import SecretError, others_may_read, read_secret
from crdtstream.settings.addresses import GRPC_PORT_BASE, HOST_DEFAULT

if TYPE_CHECKING:
    from crdtstream.certificates.node_files import Paths

ADMIN_VARIABLE: Final = "CRDTSTREAM_ADMIN"
USER_VARIABLE: Final = "CRDTSTREAM_USER"
PASSWORD_VARIABLE: Final = "CRDTSTREAM_PASSWORD"  # noqa: S105 - a name
CERTIFICATE_VARIABLE: Final = "CRDTSTREAM_OPERATOR_TLS_CERT_FILE"
KEY_VARIABLE: Final = "CRDTSTREAM_OPERATOR_TLS_KEY_FILE"
AUTHORITIES_VARIABLE: Final = "CRDTSTREAM_OPERATOR_TLS_CA_CERT_FILE"
ADMIN_DEFAULT: Final = f"{HOST_DEFAULT}:{GRPC_PORT_BASE + 1}"

PasswordFileOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="PATH",
        help=f"File whose first line is the password; default: the variable {PASSWORD_VARIABLE}.",
        exists=True,
        dir_okay=False,
    ),
]
RegionOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--region", metavar="N", min=1, max=REGION_MAX, help="Only this region."),
]


class CertificateFiles(NamedTuple):
    """Files of the certificate to present, its key, and the nodes' authorities; None: not named."""

    certificate: Path | None
    key: Path | None
    authorities: Path | None

    def paths(self) -> "Paths | None":
        """All three, as mutual TLS needs them; None without any.  Ends the program between."""
        if not any(self):
            return None
        certificate, key, authorities = self
        if certificate is None or key is None or authorities is None:
            refuse(
                "--tls-cert-file, --tls-key-file and --tls-ca-cert-file belong together; name all"
                " three"
            )
        # Here, not above: commands to nodes without TLS start faster without it.
        from crdtstream.certificates.node_files import Paths

        return Paths(certificate, key, authorities)


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """A command presents these to nodes: user and password, a certificate, or both."""

    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="NAME",
            envvar=USER_VARIABLE,
            help=f"For nodes that have a password; default: {DEFAULT_USER}.",
        ),
    ] = None
    password_file: PasswordFileOption = None
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(
            "--tls-cert-file",
            metavar="PATH",
            envvar=CERTIFICATE_VARIABLE,
            help="For nodes that ask for a certificate: that of an operator, for jobs of `pipeline`"
            " also of a reader. With --dir the one that `crdtstream up --tls` made.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    tls_key_file: Annotated[
        Path | None,
        typer.Option(
            "--tls-key-file",
            metavar="PATH",
            envvar=KEY_VARIABLE,
            help="Its key.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    tls_ca_cert_file: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca-cert-file",
            metavar="PATH",
            envvar=AUTHORITIES_VARIABLE,
            help="The authorities of the nodes.",
            exists=True,
            dir_okay=False,
        ),
    ] = None

    def password(self) -> str | None:
        """The password of the options and the environment; ends the program if it is missing."""
        found = password_of(self.password_file)
        if self.user is not None and found is None:
            refuse(
                f"--user {self.user}: its password is missing; name --password-file, or set"
                f" {PASSWORD_VARIABLE}"
            )
        return found

    def files(self, folder: Path | None = None) -> CertificateFiles:
        """The named files, else those of the operator that `crdtstream up --tls` made in a folder.

        Ends the program if a certificate is named without its key.
        """
        named = CertificateFiles(self.tls_cert_file, self.tls_key_file, self.tls_ca_cert_file)
        if any(named):
            if (named.certificate is None) != (named.key is None):
                refuse("--tls-cert-file and --tls-key-file belong together")
            return named
        if folder is None or not has_certificates(folder):
            return named
        # Here, not above: commands to nodes without TLS start faster without it.
        from crdtstream.local.certificates import operator_paths

        found = operator_paths(folder / CERTIFICATES_FOLDER)
        return CertificateFiles(found.certificate, found.key, found.ca)

    def login(self, folder: Path | None = None) -> Login:
        """The login for calls of Admin; ends the program if a file cannot be used.

        Args:
            folder: of `crdtstream up`, which may have an operator's certificate.
        """
        password = self.password()
        paths = self.files(folder).paths()
        if paths is None:
            return NO_LOGIN if password is None else Login(password, self.user or DEFAULT_USER)
        # Here, not above: commands to nodes without TLS start faster without it.
        from crdtstream.certificates.checking import Wanted
        from crdtstream.certificates.errors import CertificateError
        from crdtstream.certificates.node_files import read_set

        try:
            used, _ = read_set(paths, Wanted(), datetime.datetime.now(datetime.UTC))
        except CertificateError as error:
            refuse(error)
        return Login(password or "", self.user or DEFAULT_USER, used)


@dataclass(frozen=True, slots=True)
class Reach:
    """Options of a command that is about the regions of a database."""

    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="PATH",
            help="Folder of `crdtstream up`, to find its regions.",
            file_okay=False,
        ),
    ] = None
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="host:port of a node's gRPC service; several with commas, or repeated. One leads"
            f" to all others. Without --dir and --address: {ADMIN_VARIABLE}, else {ADMIN_DEFAULT}.",
        ),
    ] = None
    presented: LoginOptions = LoginOptions()

    def addresses(self) -> list[str]:
        """Addresses to ask first; there is at least one.  Ends the program without any."""
        if self.folder is None:
            return split_addresses(
                self.address or [os.environ.get(ADMIN_VARIABLE) or ADMIN_DEFAULT]
            )
        if self.address:
            refuse("--dir and --address: use only one of them")
        found = admin_addresses(self.folder)
        if not found:
            fail(
                f"{self.folder}: no regions here; start them with: crdtstream up --dir"
                f" {self.folder}"
            )
        return found

    def login(self) -> Login:
        """The login for calls of Admin; ends the program if a file cannot be used."""
        return self.presented.login(self.folder)

    def find_regions(self, *, with_streams: bool = False) -> Survey:
        """Ask all regions for their status; ends the program if none answers."""
        return find_regions(self.addresses(), self.login(), with_streams=with_streams)


@dataclass(frozen=True, slots=True)
class ReachOne:
    """Options of a command that is about one node."""

    address: Annotated[
        str,
        typer.Option(
            "--address", metavar="HOST:PORT", help="host:port of the node's gRPC service."
        ),
    ]
    presented: LoginOptions = LoginOptions()

    def checked(self) -> str:
        """The address; ends the program if it is none."""
        found = split_addresses([self.address])
        if len(found) > 1:
            refuse(f"--address {self.address}: name one node")
        return found[0]


def split_addresses(given: Iterable[str]) -> list[str]:
    """Addresses, of which one text may name several; ends the program if one is none."""
    found = [part.strip() for text in given for part in text.split(",")]
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
            refuse(f"--address: {address!r} is not host:port, as in {ADMIN_DEFAULT}")
    return list(dict.fromkeys(found))


def password_of(path: Path | None) -> str | None:
    """The password in a file, else in the environment; ends the program if the file has none."""
    if path is None:
        return os.environ.get(PASSWORD_VARIABLE) or None
    try:
        password = read_secret(path)
    except SecretError as error:
        refuse(error)
    warn_if_others_may_read(path)
    return password


def warn_if_others_may_read(path: Path) -> None:
    """Say on stderr if every user of this machine can read a secret."""
    if others_may_read(path):
        typer.echo(f"warning: all users can read {path}; chmod 600 {path}", err=True)


def find_regions(addresses: Iterable[str], login: Login, *, with_streams: bool = False) -> Survey:
    """Ask all regions for their status; ends the program if none answers."""
    try:
        found = survey(addresses, login=login, with_streams=with_streams)
    except AdminError as error:
        fail(error)
    if not found.replies:
        fail("\n       ".join(found.unreachable.values()))
    return found


def answering(found: Survey, number: int) -> RegionId:
    """The region with this number; ends the program if it did not answer."""
    region = RegionId(number)
    if region not in found.replies:
        known = ", ".join(map(str, found.replies))
        fail(f"region {number} does not answer, or does not exist; those that answer: {known}")
    return region
