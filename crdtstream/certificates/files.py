"""Files of certificates and keys: bounded when they are read, whole or absent when written.

A certificate and its key belong together, so they are written as one folder: under another name
first, synced, then renamed.  A rename never replaces a folder that has files in it, so nothing is
ever overwritten, not even by a second process at the same moment.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from crdtstream.certificates.authority import Authority
from crdtstream.certificates.certificate import (
    Certificate,
    PublicKey,
    parse_certificates,
    parse_key,
    parse_request,
)
from crdtstream.certificates.checking import Access, Pair
from crdtstream.certificates.errors import CertificateError

# A file with all authorities that a Linux distribution trusts has 0.2 MiB.
FILE_BYTES_MAX: Final = 1 << 20
# Of files: one that everyone may read, and a key.
PUBLIC: Final = 0o644
PRIVATE: Final = 0o600

# The files of an authority, and of a holder, who has ca.pem as well.
CA_CERTIFICATE: Final = "ca.pem"
CA_KEY: Final = "ca-key.pem"
CERTIFICATE: Final = "cert.pem"
KEY: Final = "key.pem"

_UNFINISHED: Final = ".unfinished-"
_D = TypeVar("_D")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file's bytes, and the access to the file that they were read from."""

    data: bytes
    access: Access


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be written."""

    data: bytes
    mode: int


def read_file(path: Path) -> FileRead:
    """Read a file of at most FILE_BYTES_MAX; links are followed.

    Raises:
        CertificateError: it cannot be read, is too large, or is no regular file.
    """
    try:
        # Opening a FIFO that nobody writes to would wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CertificateError(f"{path}: no regular file; name the file itself")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}; check path and rights") from error
    if len(data) > FILE_BYTES_MAX:
        raise CertificateError(
            f"{path}: more than {FILE_BYTES_MAX >> 20} MiB, so no file of certificates; name"
            " another one"
        )
    return FileRead(data, Access(stat.S_IMODE(status.st_mode) & 0o777, status.st_uid))


def read_certificates(path: Path) -> tuple[Certificate, ...]:
    """The certificates of a file.

    Raises:
        CertificateError: it cannot be read, or has none.
    """
    return _parsed(path, read_file(path).data, parse_certificates)


def read_request(path: Path) -> PublicKey:
    """The public key of a file with a signing request.

    Raises:
        CertificateError: it cannot be read, or is none.
    """
    return _parsed(path, read_file(path).data, parse_request)


def read_pair(*, certificate: Path, key: Path, ca: Path) -> Pair:
    """A certificate and its key, and the CA file to check them against.

    Raises:
        CertificateError: a file cannot be read, or holds something else.
    """
    found = read_file(key)
    return Pair(
        certificates=read_certificates(certificate),
        key=_parsed(key, found.data, parse_key),
        key_access=found.access,
        roots=read_certificates(ca),
    )


def read_authority(folder: Path) -> Authority:
    """The authority in a folder that ``crdtstream certs init`` made.

    Raises:
        CertificateError: a file cannot be read, or it is no such authority.
    """
    certificates = read_certificates(folder / CA_CERTIFICATE)
    path = folder / CA_KEY
    key = _parsed(path, read_file(path).data, parse_key)
    return _parsed(folder, key, lambda key: Authority.of(certificates, key))


def _parsed(path: Path, data: _D, parse: Callable[[_D], _T]) -> _T:
    """The content of a file; an error names the file."""
    try:
        return parse(data)
    except CertificateError as error:
        raise CertificateError(f"{path}: {error}") from error


def check_free(folder: Path) -> None:
    """See that a folder is new, or empty.

    Raises:
        CertificateError: it has files, or cannot be read.
    """
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise CertificateError(f"{folder}: exists, and is no folder; name another one")
        if folder.is_dir() and any(folder.iterdir()):
            raise _exists(folder)
    except OSError as error:
        raise CertificateError(f"{folder}: {error.strerror}; check path and rights") from error


def write_folder(folder: Path, files: Mapping[str, NewFile]) -> None:
    """Make a folder of mode 0700 with these files: all of them, or, if that fails, nothing.

    If the process is killed meanwhile, a folder ``.NAME.unfinished-…`` may stay beside it, which
    can be deleted.

    Raises:
        CertificateError: it has files already, or cannot be written.
    """
    folder = folder.absolute()
    check_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(
            tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}{_UNFINISHED}")
        )
    except OSError as error:
        raise CertificateError(f"{folder}: {error.strerror}; check path and rights") from error
    try:
        for name, one in files.items():
            _write(unfinished / name, one)
        _sync(unfinished)
        unfinished.rename(folder)
        _sync(folder.parent)
    except OSError as error:
        if folder.is_dir() and any(folder.iterdir()):
            raise _exists(folder) from error
        raise CertificateError(
            f"{folder}: {error.strerror}; nothing was written: make room, or check path and rights"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _exists(folder: Path) -> CertificateError:
    return CertificateError(
        f"{folder}: exists already, and nothing is overwritten; name another folder, or move this"
        " one away"
    )


def _write(path: Path, one: NewFile) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, one.mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(one.data)
        file.flush()
        os.fsync(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
