"""The ledger: the files that hold the published entries, as they were when they were read back.

    state …12.json     {…, ledger: {path: "_archive/ledger/…", sha256: …}}
    ledger/…12-….json  a row each: path, bytes, SHA-256, entries, first and last ms of their IDs

Publishing writes a new ledger before the state that names it, so a ledger never changes, and the
state has its checksum.  A file that is deleted, cut off, changed, or replaced by another sound one
is none of those that the ledger names: nothing is trimmed because of it, and nothing is read from
it as if it were whole.

    faults        every byte is read again and compared; before a trim
    missing       existence and length only; before a reading
"""

import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import Final

from crdtstream.spark.jobs.archive_layout import LEDGER, Partition
from crdtstream.spark.jobs.folder import ArchiveError, Folder, FolderError

# Files that are read at a time, to compute what SHA-256 they have.
READS_AT_A_TIME: Final = 4
# Names in a message; the rest are counted.
NAMES_MAX: Final = 10


class DamagedArchiveError(ArchiveError):
    """The archive lacks files that its state names.  The text has their names and what to do."""


class LedgerGoneError(DamagedArchiveError):
    """The ledger itself is missing; a reader of an old state looks for the newest one."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A published file.

    Attributes:
        path, file_bytes, sha256: which file, and its content.
        entries: how many it holds.
        first_ms, last_ms: of the IDs in it; None where its footer does not say.
    """

    path: str
    file_bytes: int
    sha256: str
    entries: int
    first_ms: int | None
    last_ms: int | None

    def may_hold(self, first_ms: int, last_ms: int) -> bool:
        """True if entries between two times, both included, may be in it."""
        begins_later = self.first_ms is not None and self.first_ms > last_ms
        ends_before = self.last_ms is not None and self.last_ms < first_ms
        return not (begins_later or ends_before)


@dataclass(frozen=True, slots=True)
class LedgerName:
    """A ledger, as a state names it."""

    path: str
    sha256: str


Ledger = Mapping[str, Noted]


def note_all(folder: Folder, paths: Iterable[str]) -> dict[str, Noted]:
    """Note length, SHA-256 and content of Parquet files; each is read now.

    Raises:
        FolderError: one of them cannot be read.
    """
    with ThreadPoolExecutor(READS_AT_A_TIME) as reading:
        return {noted.path: noted for noted in reading.map(lambda path: _note(folder, path), paths)}


def _note(folder: Folder, path: str) -> Noted:
    try:
        file_bytes, sha256 = folder.digest(path)
    except FileNotFoundError as error:
        raise FolderError(f"{error} is gone") from error
    footer = folder.parquet_footer(path)
    return Noted(path, file_bytes, sha256, footer.rows, footer.first_ms, footer.last_ms)


def write_ledger(folder: Folder, number: int, ledger: Ledger) -> LedgerName:
    """Write a ledger that no state names yet."""
    rows = [astuple(ledger[path]) for path in sorted(ledger)]
    content = json.dumps(rows, separators=(",", ":")).replace("],", "],\n").encode()
    path = f"{LEDGER}/{number:020}-{uuid.uuid4().hex[:8]}.json"
    folder.create(path, content)
    return LedgerName(path, hashlib.sha256(content).hexdigest())


def read_ledger(folder: Folder, name: LedgerName | None) -> Ledger:
    """The ledger that a state names; an empty one if it names none.

    Raises:
        DamagedArchiveError: it is missing, or another one.
    """
    if name is None:
        return {}
    try:
        content = folder.read(name.path)
    except FileNotFoundError:
        raise LedgerGoneError(
            f"{folder.url(name.path)}, the list of the archive's files, is gone: {_WHAT_TO_DO}"
        ) from None
    if hashlib.sha256(content).hexdigest() != name.sha256:
        raise DamagedArchiveError(
            f"{folder.url(name.path)}, the list of the archive's files, was changed: {_WHAT_TO_DO}"
        )
    return {row[0]: Noted(*row) for row in json.loads(content)}


def missing(folder: Folder, files: Iterable[Noted], *, moving: Mapping[str, str]) -> list[str]:
    """Of which files existence or length is not as noted, in words.

    Args:
        moving: from where a file is about to come that is not in its place yet.
    """
    wanted = list(files)
    there: dict[str, int] = {}
    roots = {Partition.folder_of(one.path) for one in wanted}
    for root in sorted(roots | {source.rpartition("/")[0] for source in moving.values()}):
        there |= {file.path: file.file_bytes for file in folder.files(root)}
    found = []
    for one in wanted:
        file_bytes = there.get(one.path, there.get(moving.get(one.path, "")))
        if file_bytes is None:
            found.append(f"{one.path} is gone")
        elif file_bytes != one.file_bytes:
            found.append(f"{one.path} has {file_bytes:,} bytes, not {one.file_bytes:,}")
    return found


def faults(folder: Folder, files: Iterable[Noted], *, moving: Mapping[str, str]) -> list[str]:
    """Texts about files that are not as noted; each file is read from its first byte to its last.

    Args:
        moving: as of ``missing``.
    """
    with ThreadPoolExecutor(READS_AT_A_TIME) as reading:
        found = reading.map(lambda one: _fault(folder, one, moving.get(one.path, one.path)), files)
        return [fault for fault in found if fault]


def _fault(folder: Folder, noted: Noted, source: str) -> str:
    try:
        try:
            file_bytes, sha256 = folder.digest(noted.path)
        except FileNotFoundError:
            file_bytes, sha256 = folder.digest(source)
    except FileNotFoundError:
        return f"{noted.path} is gone"
    except FolderError as error:
        return f"{noted.path} cannot be read: {error}"
    if file_bytes != noted.file_bytes:
        return f"{noted.path} has {file_bytes:,} bytes, not {noted.file_bytes:,}"
    return "" if sha256 == noted.sha256 else f"{noted.path} has other content"


_WHAT_TO_DO: Final = (
    "bring it back from a backup, and run again; or archive into another folder what the database "
    "still holds"
)


def damaged(folder: Folder, found: Collection[str], *, outcome: str) -> DamagedArchiveError:
    """An error that names files.

    Args:
        found: of ``missing`` or ``faults``.
        outcome: sentence that says what was not done because of it.
    """
    names = [*list(found)[:NAMES_MAX]]
    if len(found) > NAMES_MAX:
        names.append(f"and {len(found) - NAMES_MAX} more, see `pipeline archive PATH --verify`")
    return DamagedArchiveError(
        f"{folder.url()} lacks files as its state names them: {'; '.join(names)}. {outcome} To go "
        f"on, {_WHAT_TO_DO}"
    )
