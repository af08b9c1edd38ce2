"""Records of what clients saw, written outside the nodes; the verdict has no other source.

Each line is a JSON array whose first word is its kind.  Times are of the monotonic clock of this
machine, in seconds, the same for all processes.  A client writes a record after the fact and before
its next request.

A row is an entry that a producer wants in the stream: (producer, n).  It is in the entry's fields,
so a client that gets the entry knows which row it is.
"""

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class Outcome(StrEnum):
    """End of a request."""

    OK = "ok"
    # An error reply: it was not done.
    REFUSED = "refused"
    # No reply: it may have been done.
    UNKNOWN = "unknown"


class How(StrEnum):
    """Request by which an entry came."""

    NEW = "new"
    CLAIMED = "claimed"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Client:
    """A client, written once, before all its other records.

    Attributes:
        kind: of the load: plain, idempotent, multidb, consumer, xread, crdt.xread, herd.
        group: of a consumer; else empty.
    """

    name: str
    kind: str
    home: int
    group: str
    moves: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A request of any client and its end.

    Attributes:
        due: when it should have begun; a producer that is held up is late.
        error: first word of the error, or the name of the exception; empty if none.
    """

    client: str
    region: int
    due: float
    began: float
    ended: float
    outcome: Outcome
    error: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The end of an attempt to add a row.

    Attributes:
        client: the producer.
        n: from 1, ascending.
        entry_id: as the region answered; empty without an answer.
        attempt: from 1; more than 1 is a retry of the same row.
    """

    client: str
    n: int
    stream: str
    region: int
    ended: float
    outcome: Outcome
    entry_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Given:
    """An entry that a consumer or reader got."""

    client: str
    stream: str
    region: int
    at: float
    how: How
    entry_id: str
    producer: str
    n: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Entries whose XACK ended; unknown ones may come again."""

    client: str
    stream: str
    region: int
    ended: float
    outcome: Outcome
    entry_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A move of a client to another region.

    Attributes:
        trusts_health: it moves home, because home says that it is well.
    """

    client: str
    at: float
    source: int
    target: int
    trusts_health: bool = False


@dataclass(frozen=True, slots=True)
class Late:
    """Lateness of the load's own loop, which latencies contain because of this machine."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a stream in a region, after all regions had become equal."""

    region: int
    stream: str
    entry_id: str
    producer: str
    n: int


Record = Client | Request | Sent | Given | Acknowledged | Moved | Late | Found
_KINDS: Final[dict[str, type[Record]]] = {
    "client": Client,
    "request": Request,
    "sent": Sent,
    "given": Given,
    "acknowledged": Acknowledged,
    "moved": Moved,
    "late": Late,
    "found": Found,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


# Regions' numbers in the IDs that they make; see docs/architecture.md, IDs.
_REGIONS: Final = 1024


def lane_of(entry_id: str) -> int:
    """The region that made a region-unique ID."""
    return int(entry_id.partition("-")[2]) % _REGIONS


def encode(record: Record) -> str:
    """The record's line."""
    return json.dumps([_NAMES[type(record)], *astuple(record)], separators=(",", ":")) + "\n"


def decode(line: str) -> Record:
    """The record of a line.

    Raises:
        ValueError: it is none.
    """
    kind, *values = json.loads(line)
    if kind not in _KINDS:
        raise ValueError(f"no record is called {kind!r}")
    # A StrEnum is equal to its text: restored values compare as before.
    return _KINDS[kind](*values)


def read(path: Path) -> Iterator[Record]:
    """The records of a file; a last line that was cut off is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield decode(line)
