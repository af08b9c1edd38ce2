"""The manifest of a backup: ``manifest.json`` beside its files.

crdtstream_backup   1: which manifest this is
region, database_id, database_uid    of the folder that was backed up
format              of that folder
cut                 first and last row, the last row that the checkpoint has (0: there is none),
                    the version vector and the node's clock
files               by name their bytes and SHA-256
sha256              of all this, as JSON without blanks, names in order
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from crdtstream.core.clock import VersionVector, format_vv
from crdtstream.core.ids import RegionId
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.format_number import FORMAT, FORMAT_KEY, renumbered
from crdtstream.upkeep.check_report import Progress
from crdtstream.upkeep.folder_reading import DamagedBackupError, UpkeepError

MANIFEST: Final = "manifest.json"
MANIFEST_FORMAT: Final = 1
HASHED_BYTES: Final = 1 << 20
_MARK: Final = "crdtstream_backup"
# Errors of JSON that holds something else.  Numbers may be infinite, and lists nested too deep.
_WRONG: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class FileSum:
    """A file, as it was written."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """See the module's text.

    Attributes:
        version: of the node's program.
        cut_ms: the node's clock at the cut.
        first_seq, last_seq: the rows of its log that are in the backup.
        checkpoint_seq: the last row whose effects are in the checkpoint; 0 without one.
        vv: the effects that are in it.
        files: by name.
    """

    region: RegionId
    database_id: str
    database_uid: str
    version: str
    cut_ms: int
    first_seq: int
    checkpoint_seq: int
    last_seq: int
    vv: VersionVector
    files: Mapping[str, FileSum]

    @property
    def cut_text(self) -> str:
        """The cut in one line."""
        seq = self.checkpoint_seq
        checkpoint = f"checkpoint at row {seq}, " if seq else ""
        is_all = self.last_seq < self.first_seq
        rows = "no rows behind it" if is_all else f"rows {self.first_seq} to {self.last_seq}"
        return f"{checkpoint}{rows}, version vector {format_vv(self.vv) or '-'}"


def sum_of(path: Path, progress: Progress) -> FileSum:
    """A file's size and SHA-256, as it can be read now.

    Raises:
        OSError: it cannot.
    """
    digest = hashlib.sha256()
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while data := file.read(HASHED_BYTES):
            digest.update(data)
            done += len(data)
            progress(f"reading {path.name}", done, total)
    return FileSum(done, digest.hexdigest())


def manifest_text(manifest: Manifest) -> str:
    """Text of the file."""
    plain = _plain(manifest)
    return json.dumps({**plain, "sha256": _sum_of_plain(plain)}, indent=2) + "\n"


def _plain(manifest: Manifest) -> dict[str, Any]:
    return {
        _MARK: MANIFEST_FORMAT,
        FORMAT_KEY: FORMAT,
        "region": manifest.region,
        "database_id": manifest.database_id,
        "database_uid": manifest.database_uid,
        "version": manifest.version,
        "cut": {
            "time_ms": manifest.cut_ms,
            "first_seq": manifest.first_seq,
            "checkpoint_seq": manifest.checkpoint_seq,
            "last_seq": manifest.last_seq,
            "vv": {str(region): n for region, n in sorted(manifest.vv.items())},
        },
        "files": {name: asdict(one) for name, one in sorted(manifest.files.items())},
    }


def _sum_of_plain(plain: Mapping[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_manifest(backup: Path) -> Manifest:
    """Read the manifest of a backup.

    Raises:
        DamagedBackupError: it was cut short or altered.
        UpkeepError: it is none, or is of a format that this program does not read.
    """
    path = backup / MANIFEST
    if not path.is_file():
        raise UpkeepError(
            f"{backup}: no backup, as it has no {MANIFEST}; name the folder that "
            "`crdtstream backup` wrote"
        )
    try:
        plain = json.loads(path.read_bytes())
        if not isinstance(plain, dict) or _MARK not in plain:
            raise UpkeepError(f"{path}: not of a backup of crdtstream")
        if plain[_MARK] != MANIFEST_FORMAT:
            raise UpkeepError(
                f"{path}: a backup of format {plain[_MARK]}, this program reads format "
                f"{MANIFEST_FORMAT}; use the program that wrote it"
            )
        told = plain.pop("sha256", None)
        if told != _sum_of_plain(plain):
            raise DamagedBackupError(f"{path}: was altered (checksum); take another backup")
        _check_format(path, plain)
        return _manifest(plain)
    except OSError as error:
        raise UpkeepError(f"{path}: {error.strerror}; check path and rights") from error
    except _WRONG as error:
        raise DamagedBackupError(
            f"{path}: cut short or altered ({error}); take another backup"
        ) from error


def _check_format(path: Path, plain: Mapping[str, Any]) -> None:
    try:
        renumbered(plain)
    except ValueError as error:
        raise UpkeepError(f"{path}: of a folder {error}") from error


def _manifest(plain: Mapping[str, Any]) -> Manifest:
    """
    Raises:
        ValueError: it names other files than a backup has, which may stand anywhere.  Other errors
            (``_WRONG``): it holds something else.
    """
    cut = plain["cut"]
    if set(plain["files"]) != {LOG_FILE}:
        raise ValueError(f"its files are {', '.join(map(str, plain['files'])) or 'none'}")
    return Manifest(
        region=RegionId(int(plain["region"])),
        database_id=str(plain["database_id"]),
        database_uid=str(plain["database_uid"]),
        version=str(plain["version"]),
        cut_ms=int(cut["time_ms"]),
        first_seq=int(cut["first_seq"]),
        checkpoint_seq=int(cut["checkpoint_seq"]),
        last_seq=int(cut["last_seq"]),
        vv={RegionId(int(region)): int(n) for region, n in cut["vv"].items()},
        files={
            name: FileSum(int(one["bytes"]), str(one["sha256"]))
            for name, one in plain["files"].items()
        },
    )


def check_files(backup: Path, manifest: Manifest, progress: Progress) -> None:
    """See that every file of a backup is as it was written.

    Raises:
        DamagedBackupError: one is missing, cut short or altered; the text says which.
    """
    for name, wanted in manifest.files.items():
        path = backup / name
        try:
            found = sum_of(path, progress)
        except OSError as error:
            raise DamagedBackupError(f"{path}: {error.strerror}; take another backup") from error
        check_sum(path, found, wanted)


def check_sum(path: Path, found: FileSum, wanted: FileSum) -> None:
    """See that a file of a backup is as it was written.

    Raises:
        DamagedBackupError: it is not.
    """
    if found.bytes != wanted.bytes:
        raise DamagedBackupError(
            f"{path}: {found.bytes} bytes where {wanted.bytes} were written: cut short or altered; "
            "take another backup"
        )
    if found.sha256 != wanted.sha256:
        raise DamagedBackupError(f"{path}: was altered (checksum); take another backup")
