"""What is decided once of a replay and kept for all of its runs, and which runs are of one replay.

    _archive/replays/<id>/plan.json        which entries, in which chunks, into which database
                          database.json    the latter, if an earlier version made the plan
                          done/…           how far it is

What is done was done in one database, and dots, chunks and rows that are known there are unknown in
any other.  So a replay without a name gets one that is made of the database, too; and one with a
name goes on in no other.  An earlier version told databases apart by their names only: a replay
that it began is taken to be of the database that the nodes hold when it is first continued.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from crdtstream.spark.jobs.archive_layout import HIDDEN
from crdtstream.spark.jobs.folder import Folder
from crdtstream.spark.jobs.replay_options import ReplayError, ReplayOptions
from crdtstream.spark.vectors import Vector, offset_of, parse_vector

REPLAYS: Final = f"{HIDDEN}/replays"
# In a plan, and in what is noted beside one: the identity of the database.
UID: Final = "database_uid"

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided once.

    Attributes:
        what: the options that decide what is appended, and the database's name and identity.
        vector: of the archive: entries with dots above came later.
        partitions: tasks of a chunk.
        entries: how many there are, in all.
        bounds: of IDs' milliseconds, between chunks.
        copies: how many entries are left out, as copies of others.
    """

    what: dict[str, Any]
    vector: Vector
    partitions: int
    entries: int
    bounds: tuple[int, ...]
    copies: int

    @property
    def chunks(self) -> int:
        return len(self.bounds) + 1 if self.entries else 0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self) | {"vector": offset_of(self.vector)}, indent=1).encode()

    @classmethod
    def of_json(cls, text: bytes) -> "Plan":
        told = json.loads(text)
        told["vector"] = parse_vector(told["vector"])
        told["bounds"] = tuple(told["bounds"])
        return cls(**told)


def what_of(options: ReplayOptions) -> dict[str, Any]:
    """The options that decide what is appended, as JSON has them."""

    def text(name: bytes) -> str:
        return name.decode("utf-8", "surrogateescape")

    return {
        "streams": [text(pattern) for pattern in options.streams],
        "start_ms": options.start_ms,
        "end_ms": options.end_ms,
        "where": options.where,
        "target": text(options.target),
        "prefix": text(options.prefix),
        "id_field": options.id_field,
        "each_message_once": options.each_message_once,
    }


def derived_id(folder: Folder, what: Mapping[str, Any], uid: str) -> str:
    """The name of a replay that was given none.

    One that an earlier version began, in this database as far as is known, keeps the name that it
    had.
    """
    earlier = _id_of(what)
    path = f"{REPLAYS}/{earlier}/plan.json"
    if folder.exists(path) and _begun_in(folder, earlier, Plan.of_json(folder.read(path))) in (
        "",
        uid,
    ):
        return earlier
    return _id_of({**what, UID: uid})


def check_plan(
    folder: Folder, replay_id: str, plan: Plan, what: Mapping[str, Any], uid: str
) -> None:
    """Return if the plan of this replay is of the same options, and of this database.

    A plan that names no database is of this one from now on.

    Raises:
        ReplayError: it is of others.
    """
    differing = sorted(name for name in what if plan.what.get(name) != what[name])
    if differing:
        raise ReplayError(
            f"replay {replay_id!r} was begun with other {', '.join(differing)}: give it the same, "
            "or another replay_id"
        )
    begun_in = _begun_in(folder, replay_id, plan)
    if not begun_in:
        _LOG.warning(
            "replay %s does not say into which database it goes, as an earlier version began it: "
            "from now on that is %s, which the nodes hold",
            replay_id,
            uid,
        )
        folder.create(_noted_at(replay_id), json.dumps({UID: uid}).encode())
    elif begun_in != uid:
        raise ReplayError(
            f"replay {replay_id!r} was begun in database {begun_in}, the nodes hold {uid}, which "
            "has nothing of it: give another replay_id, which appends all there, or name nodes of "
            "the one that it was begun in"
        )


def _begun_in(folder: Folder, replay_id: str, plan: Plan) -> str:
    """Identity of the database that a replay is of; empty if nothing says it."""
    path = _noted_at(replay_id)
    told = json.loads(folder.read(path)) if folder.exists(path) else plan.what
    return str(told.get(UID, ""))


def _noted_at(replay_id: str) -> str:
    return f"{REPLAYS}/{replay_id}/database.json"


def _id_of(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
