"""The certificate, key and authorities of a node, read from its files and checked as a whole.

A set is a frozen value: certificate, key and authorities that were on disk at one moment and fit
together.  Users compare its ``version`` with the one that they built something from.

    files ── read ──> bytes ── check ──> CertificateSet 1, 2, 3 …     or a CertificateError, and the
                                                                      former set is used further

The key stands decrypted in memory.  Python's ``ssl`` only takes files, and gets it from one in
memory, which has no name; systems without such files have one for a moment that only the node's
user can read.
"""

import contextlib
import datetime
import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from crdtstream.certificates.authority import key_pem
from crdtstream.certificates.certificate import (
    Certificate,
    parse_key,
)
from crdtstream.certificates.checking import (
    Pair,
    Verdict,
    Wanted,
    check,
    check_of_host,
)
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.files import read_certificates, read_file
from crdtstream.certificates.names import Holder

# A file as it was: device, inode, size, and when its content and its rights last changed.
Stamp: TypeAlias = tuple[int, int, int, int, int]

# In a folder of authorities; more are those of the whole web, which must not be trusted here.
AUTHORITY_FILES_MAX: Final = 64
# The hash of a subject and a number, as OpenSSL looks for it.
_HASHED: Final = re.compile("[0-9a-f]{8}[.][0-9]+")

# Reading is repeated this often if a file changed meanwhile.
READS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Paths:
    """The files.

    Attributes:
        ca: file of authorities that are trusted; without it and ``ca_folder`` no certificate of
            others can be checked.
        ca_folder: folder of further ones; of its files those with names as ``openssl rehash`` makes
            them are read, as OpenSSL does.
        key_password: file whose first line is the password of the key; None: it is not encrypted.
    """

    certificate: Path
    key: Path
    ca: Path | None = None
    key_password: Path | None = None
    ca_folder: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """All files and folders that a set is read from, as they are found now."""
        named = (self.certificate, self.key, self.ca, self.key_password, self.ca_folder)
        found = () if self.ca_folder is None else authority_files(self.ca_folder)
        return (*(path for path in named if path is not None), *found)


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """Certificate, key and authorities that fit together.

    Attributes:
        version: 1 for the first set of a node; each further one has the next number.
        ca_version: version with which the authorities last changed.
        certificates: PEM: the leaf, then authorities between it and a root.
        key: PEM, not encrypted.
        ca: PEM of the authorities that are trusted; empty: none.
        holder: the region that the certificate names; None if it names only hosts.
        not_before, not_after: of the leaf; of the whole chain the first end.
        serial: of the leaf.
    """

    version: int
    ca_version: int
    certificates: bytes
    key: bytes = field(repr=False)
    ca: bytes
    holder: Holder | None
    not_before: datetime.datetime
    not_after: datetime.datetime
    serial: int

    def is_same(self, other: "CertificateSet") -> bool:
        """True if both have the same content."""
        own = (self.certificates, self.key, self.ca)
        return own == (other.certificates, other.key, other.ca)

    def after(self, former: "CertificateSet") -> "CertificateSet":
        """The set, with the number that follows on the former one."""
        version = former.version + 1
        ca_version = former.ca_version if self.ca == former.ca else version
        return replace(self, version=version, ca_version=ca_version)

    def server_context(self, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
        """A context for the server's side, of TLS 1.2 and later; a new one at each call.

        Args:
            verify: what clients must show; their certificates are checked against ``ca``.

        Cost: below a millisecond; nothing is read from disk.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        with _in_memory(self.certificates) as certificates, _in_memory(self.key) as key:
            context.load_cert_chain(certificates, key)
        if verify is not ssl.CERT_NONE:
            assert self.ca, "without authorities no client can be checked"
            context.load_verify_locations(cadata=self.ca.decode("ascii"))
        context.verify_mode = verify
        return context

    def client_context(self) -> ssl.SSLContext:
        """A context for the client's side; the name of the server is the caller's to check."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        assert context.verify_mode is ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.ca.decode("ascii"))
        with _in_memory(self.certificates) as certificates, _in_memory(self.key) as key:
            context.load_cert_chain(certificates, key)
        return context


@dataclass(frozen=True, slots=True)
class Stamped:
    """Files as they were just before they were read; None: there is none."""

    stamps: tuple[Stamp | None, ...]

    @classmethod
    def of(cls, paths: Paths) -> "Stamped":
        """The files now.  Links are followed, so that a link to another file is another stamp."""
        return cls(tuple(map(_stamp, paths.all)))


def read_set(
    paths: Paths, wanted: Wanted | None, now: datetime.datetime
) -> tuple[CertificateSet, Stamped]:
    """Read and check the files.

    Args:
        wanted: the region that the certificate must name; None: clients look at its host names, and
            it need not name a region.

    Returns:
        The set, as version 1, and the stamps of its files.

    Raises:
        CertificateError: a file cannot be read, or they do not fit together; the text has all
            findings, and says what to do.
    """
    for _ in range(READS_MAX):
        before = Stamped.of(paths)
        found = _read(paths, wanted, now)
        if Stamped.of(paths) == before:
            break
    if isinstance(found, CertificateError):
        raise found
    return found, before


def _read(
    paths: Paths, wanted: Wanted | None, now: datetime.datetime
) -> CertificateSet | CertificateError:
    """The set; an error is returned, as it does not count if the files changed meanwhile."""
    try:
        pair = _read_pair(paths)
        verdict = check_of_host(pair, now) if wanted is None else check(pair, wanted, now)
        if not verdict.is_good:
            lines = (f"{finding.flaw.value}: {finding.text}" for finding in verdict.findings)
            raise CertificateError(f"{paths.certificate}, {paths.key}: {'; '.join(lines)}")
        made = _made(pair, verdict)
        _try(made, paths)
    except CertificateError as error:
        return error
    return made


def _read_pair(paths: Paths) -> Pair:
    key = read_file(paths.key)
    password = None if paths.key_password is None else _password(paths.key_password)
    try:
        parsed = parse_key(key.data, password)
    except CertificateError as error:
        raise CertificateError(f"{paths.key}: {error}") from error
    return Pair(
        certificates=read_certificates(paths.certificate),
        key=parsed,
        key_access=key.access,
        roots=_read_roots(paths),
    )


def _read_roots(paths: Paths) -> tuple[Certificate, ...]:
    """The authorities of the file and of the folder, each once."""
    found = [] if paths.ca is None else [*read_certificates(paths.ca)]
    if paths.ca_folder is not None:
        files = authority_files(paths.ca_folder)
        if not files:
            raise CertificateError(
                f"{paths.ca_folder}: no file in it is named as OpenSSL wants it (9d66eef0.0); run"
                f" `openssl rehash {paths.ca_folder}`, and see that the node may read the folder"
            )
        if len(files) > AUTHORITY_FILES_MAX:
            raise CertificateError(
                f"{paths.ca_folder}: {len(files)} authorities are more than {AUTHORITY_FILES_MAX};"
                " name a folder of those alone that issue for this database"
            )
        for path in files:
            found += read_certificates(path)
    return tuple({one.fingerprint: one for one in found}.values())


def authority_files(folder: Path) -> tuple[Path, ...]:
    """Files of a folder that ``openssl rehash`` has named, in the order of their names; none if the
    folder cannot be read."""
    try:
        names = sorted(one.name for one in os.scandir(folder))
    except OSError:
        return ()
    return tuple(folder / name for name in names if _HASHED.fullmatch(name))


def _password(path: Path) -> bytes:
    """The first line of a file that only its owner can read."""
    found = read_file(path)
    if found.access.is_open:
        raise CertificateError(
            f"{path}: other users can read or write this password, the file's mode is"
            f" {found.access.mode:04o}; chmod 600 it, and change the password if others had access"
        )
    first = found.data.splitlines()[:1]
    if not first or not first[0]:
        raise CertificateError(f"{path}: there is no password in its first line")
    return first[0]


def _made(pair: Pair, verdict: Verdict) -> CertificateSet:
    leaf = pair.certificates[0]
    return CertificateSet(
        version=1,
        ca_version=1,
        # Encoded again: text between the certificates of a file, in any encoding, is left out.
        certificates=_pem(pair.certificates),
        key=key_pem(pair.key),
        ca=_pem(pair.roots),
        holder=verdict.holder,
        not_before=leaf.not_before,
        not_after=verdict.not_after,
        serial=leaf.serial,
    )


def _pem(certificates: Iterable[Certificate]) -> bytes:
    return b"".join(one.pem for one in certificates)


def _try(made: CertificateSet, paths: Paths) -> None:
    """See that OpenSSL takes it, too: it may refuse what is weak, by a policy of this machine."""
    try:
        made.server_context(ssl.CERT_REQUIRED if made.ca else ssl.CERT_NONE)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(
            f"{paths.certificate}: OpenSSL refuses it ({error}); issue it with a stronger key or"
            " signature"
        ) from error


def _stamp(path: Path) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Path of a file that is gone afterwards: in memory, where the system has that (Linux)."""
    if not hasattr(os, "memfd_create"):
        # Only this user can read it.
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
