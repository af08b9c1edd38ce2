"""State of an archive: what it holds, as one small file that is replaced in one step.

    state/…11.json  {batch 6, vector {1: 400}, segments [a]}
    state/…12.json  {batch 7, vector {1: 500}, segments [a, b]}    ← is valid: the highest number

A program that changes something writes the file of the next number, and is refused if another one
was faster.  So of two programs that each believe to be alone, one goes on and the other ends.  A
program begins with such a step.  After it an earlier program cannot commit what it still has under
way, and its remains can be deleted.

A file that the newest state does not name is garbage or (below the partitions' folders) published.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from crdtstream.spark.jobs.archive_layout import STATE
from crdtstream.spark.jobs.content import Content
from crdtstream.spark.jobs.folder import ArchiveError, Folder, TakenError
from crdtstream.spark.jobs.ledger import LedgerName
from crdtstream.spark.vectors import Vector, offset_of, parse_vector

FORMAT: Final = 4
# Readers that have listed the folder still find what they saw.
STATES_KEPT: Final = 3
_TRIES_MAX: Final = 50
_VECTORS: Final = ("vector", "beyond", "published")


@dataclass(frozen=True, slots=True)
class Segment:
    """Entries of a micro-batch: Parquet without partitions.

    Attributes:
        path: a folder.
        entries, file_bytes: how many, and in how many bytes.
        digest: of the entries, see ``content``.
    """

    path: str
    entries: int
    file_bytes: int
    digest: int

    @property
    def content(self) -> Content:
        return Content(self.entries, self.digest)


@dataclass(frozen=True, slots=True)
class Move:
    """Of one partition: files that go, and where the new ones come from and to."""

    hide: tuple[str, ...]
    show: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """Moves that are decided: all of them will be done, if need be by the next program.

    Attributes:
        number: of this publication, for the folder of the files that are replaced.
        staging: the folder in which the new files stand.
        segments: those that the moves publish.
        entries: in all new files.
    """

    number: int
    staging: str
    moves: tuple[Move, ...]
    segments: tuple[str, ...]
    entries: int


@dataclass(frozen=True, slots=True)
class State:
    """Content of an archive.

    Attributes:
        version: counts the states of this archive.
        database: the name of the database it is of; empty until something was read.
        database_uid: its identity; empty until something was read.
        streams: the patterns it is an archive of, as text with surrogates for other bytes.
        query: Spark's name for the checkpoint that the last batch came from.
        batch: the last one that is archived; -1: none of this query.
        vector: all dots at or below are archived, of those streams.
        beyond: for regions whose effects end earlier, how far their entries are archived: such a
            region was removed, or goes on in another folder and used these numbers again.
        entries: how many, in all.
        published: all dots at or below are published, too.
        segments: archived, and not published.
        publication: decided, and perhaps not done.
        ledger: names the published files, those of ``publication`` among them; None: there are
            none yet.
        table_digest: of all entries in a table of Delta Lake, see ``content``.
    """

    version: int = 0
    database: str = ""
    database_uid: str = ""
    streams: tuple[str, ...] = ()
    query: str = ""
    batch: int = -1
    vector: Vector = field(default_factory=Vector)
    beyond: Vector = field(default_factory=Vector)
    entries: int = 0
    published: Vector = field(default_factory=Vector)
    segments: tuple[Segment, ...] = ()
    publication: Publication | None = None
    ledger: LedgerName | None = None
    table_digest: int = 0

    def to_json(self) -> str:
        vectors = {name: offset_of(getattr(self, name)) for name in _VECTORS}
        return json.dumps(asdict(self) | vectors | {"format": FORMAT}, indent=1)

    @classmethod
    def of_json(cls, text: str | bytes) -> "State":
        """
        Raises:
            ArchiveError: it is of a later program.
        """
        told: dict[str, Any] = json.loads(text)
        if told.pop("format") != FORMAT:
            raise ArchiveError("the archive was written by a newer version: use that one")
        publication = told["publication"]
        told["publication"] = None if publication is None else _publication(publication)
        ledger = told["ledger"]
        told["ledger"] = None if ledger is None else LedgerName(**ledger)
        told["segments"] = tuple(Segment(**segment) for segment in told["segments"])
        told["streams"] = tuple(told["streams"])
        for name in _VECTORS:
            told[name] = parse_vector(told[name])
        return cls(**told)


def _publication(told: dict[str, Any]) -> Publication:
    moves = tuple(
        Move(tuple(move["hide"]), tuple((source, target) for source, target in move["show"]))
        for move in told["moves"]
    )
    return Publication(
        number=told["number"],
        staging=told["staging"],
        moves=moves,
        segments=tuple(told["segments"]),
        entries=told["entries"],
    )


def load(folder: Folder) -> State | None:
    """The newest state; None: nothing was archived here yet.

    Raises:
        ArchiveError: it is not what we write.
    """
    for _ in range(_TRIES_MAX):
        names = _names(folder)
        if not names:
            return None
        try:
            return State.of_json(folder.read(f"{STATE}/{names[-1]}"))
        except FileNotFoundError:
            continue  # Newer ones came since, and this one was removed.
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{folder.url(STATE)}/{names[-1]} is damaged: {error}") from error
    raise ArchiveError(f"{folder.url(STATE)} changes faster than it can be read")


def commit(folder: Folder, state: State) -> State:
    """Make ``state`` the one that holds, as the next version.

    Raises:
        ArchiveError: another program did so; nothing has changed.
    """
    committed = replace(state, version=state.version + 1)
    try:
        folder.create(_path(committed.version), committed.to_json().encode())
    except TakenError:
        raise ArchiveError(
            f"another program writes to the archive {folder.url()}: let one alone do it"
        ) from None
    for name in _names(folder)[:-STATES_KEPT]:
        folder.delete(f"{STATE}/{name}")
    return committed


def check_database(archive: str, state: State, *, database: str, uid: str, advice: str) -> None:
    """Return if the archive is of this database.

    Args:
        archive: the folder, in words.
        advice: another way than to name nodes of the other database.

    Raises:
        ArchiveError: it is of another one.
    """
    if (state.database, state.database_uid) != (database, uid):
        raise ArchiveError(
            f"{archive} is an archive of database {state.database!r}, "
            f"{state.database_uid}; the nodes hold "
            f"{database!r}, {uid}, where its dots mean other entries. Name nodes of the one that "
            f"was archived, or {advice}"
        )


def _names(folder: Folder) -> list[str]:
    """Of states, ascending; drafts of one are left out."""
    return [name for name in folder.names(STATE) if name.endswith(".json")]


def _path(version: int) -> str:
    return f"{STATE}/{version:020}.json"
