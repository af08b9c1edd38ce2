"""The plan of a replay, made once and kept for all its runs; and which runs are of one replay.

    _archive/replays/<id>/plan.json    which entries, in which chunks, into which database
                          done/…       the chunks that are done

Chunks are done in one database, and dots, chunks and rows that are known there are unknown in any
other.  So the name that is made for a replay without one depends on the database, too; and a replay
with a name goes on in no other database.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from crdtstream.spark.jobs.archive_layout import HIDDEN
from crdtstream.spark.jobs.replay_options import ReplayError, ReplayOptions
from crdtstream.spark.vectors import Vector, offset_of, parse_vector

REPLAYS: Final = f"{HIDDEN}/replays"
# In a plan: the identity of the database.
UID: Final = "database_uid"


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a replay.

    Attributes:
        what: the options that decide what is appended, and the database's name and identity.
        vector: of the archive: entries with dots above it are later ones.
        beyond: of the archive: see ``State``.
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
    beyond: Vector = field(default_factory=Vector)

    @property
    def chunks(self) -> int:
        return len(self.bounds) + 1 if self.entries else 0

    def to_json(self) -> bytes:
        vectors = {"vector": offset_of(self.vector), "beyond": offset_of(self.beyond)}
        return json.dumps(asdict(self) | vectors, indent=1).encode()

    @classmethod
    def of_json(cls, text: bytes) -> "Plan":
        told = json.loads(text)
        for name in ("vector", "beyond"):
            told[name] = parse_vector(told[name])
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


def derived_id(what: Mapping[str, Any], uid: str) -> str:
    """The name of a replay that was given none."""
    named = json.dumps({**what, UID: uid}, sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def check_plan(replay_id: str, plan: Plan, what: Mapping[str, Any], uid: str) -> None:
    """Return if the plan of this replay is of the same options, and of this database.

    Raises:
        ReplayError: it is of others.
    """
    differing = sorted(name for name in what if plan.what.get(name) != what[name])
    if differing:
        raise ReplayError(
            f"replay {replay_id!r} was begun with other {', '.join(differing)}: give it the same, "
            "or another replay_id"
        )
    begun_in = plan.what.get(UID)
    if begun_in != uid:
        raise ReplayError(
            f"replay {replay_id!r} was begun in database {begun_in}, the nodes hold {uid}, which "
            "has nothing of it: give another replay_id, which appends all there, or name nodes of "
            "the one that it was begun in"
        )
