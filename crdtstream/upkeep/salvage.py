"""Salvage: appends entries that only one folder has again, in a region that runs.

The folder is that of a removed region, or an earlier folder of a region that goes on, or a clone.
It may also have such entries of other origins.

Each entry is a row of a numbered producer that is named for the database, the entry's origin and
the incarnation in which that numbered it; the number of the row is that of the entry's dot.  So a
region takes it once, however often it is sent and from whichever folder, also years later: rows of
a producer's newest batch are never forgotten (``numbered.py``).

The entry's own producer may have appended it again elsewhere.  Then it is not appended twice
either: a row of a numbered producer is sent under its own number, and an entry with an idempotent
ID is left out if the stream has an entry of that name.  If the producer retries after the salvage,
a row is recognised.  An idempotent ID is not: the salvaged entry has another name, and only one.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.histories import SHORT_BITS, Difference
from crdtstream.core.ids import RegionId, StreamId, make_id
from crdtstream.core.size import Scope, Size
from crdtstream.spark.connecting import StaleAppendError
from crdtstream.spark.patterns import patterns_literal
from crdtstream.upkeep.stranded import Stranded
from crdtstream.v1 import query_pb2

ROWS_MAX: Final = Size(1_000, least=1, scope=Scope.CLIENTS)
BYTES_MAX: Final = Size(1 << 20, least=1, scope=Scope.CLIENTS)


class Names(Protocol):
    """Columns of entries, by a scan."""

    def column(self, name: str, /) -> Any:
        """Of the entries their producers or what these call them, their dots or IDs."""


class Reached(Protocol):
    """The region into which something is salvaged, as a client reaches it."""

    def append(self, request: query_pb2.AppendRequest) -> query_pb2.AppendReply:
        """Append the rows that are not there.

        Raises:
            StaleAppendError: later batches of their producer were committed since.
        """

    def streams(self, patterns: Sequence[bytes], /) -> Iterable[query_pb2.StreamDescription]:
        """The streams that match, with their lanes."""

    def scan(self, request: query_pb2.ScanRequest) -> Iterable[Names]:
        """The entries of a lane."""


@dataclass(slots=True)
class Salvaged:
    """Counts of the salvaged entries of one stream.

    Attributes:
        appended: now.
        known: they existed: salvaged before, or appended again by their own producer.
    """

    key: bytes
    appended: int = 0
    known: int = 0


class Clone(NamedTuple):
    """A folder that nothing but its effects tells apart from the one in which its region goes on.

    Attributes:
        apart: where its effects and those of the region into which it is salvaged part.
        mark: of all its effects; several clones may have other entries under one number.
    """

    apart: Difference
    mark: int


@dataclass(frozen=True, slots=True)
class Salvage:
    """The salvage of one origin's entries in one folder, into one region.

    Attributes:
        region: the origin.
        database_uid: as 32 hexadecimal digits.  The folder's own uid would not do: a region that
            never heard of its removal may not have one yet.
        incarnation: in which they were numbered: several may have other entries under one number.
        clone: they are of one; its entries beyond the last effect that is known to be the same.
    """

    nodes: Reached
    region: RegionId
    database_uid: str
    incarnation: int = 0
    clone: Clone | None = None

    @property
    def producer(self) -> bytes:
        clone = "" if self.clone is None else f"-{self.clone.mark:0{SHORT_BITS // 4}x}"
        numbered = f"{self.database_uid}-{self.region}-{self.incarnation}"
        return f"salvage-{numbered}{clone}".encode()

    def append(self, key: bytes, entries: list[Stranded]) -> Salvaged:
        """Append those entries of a stream that are not there, in their order.

        Raises:
            NodesError: no node takes them in time; run it again.
        """
        done = Salvaged(key)
        if self.clone is not None:
            entries = self._without_common(key, self.clone.apart, entries)
        wanted = {one.name for one in entries if one.name is not None}
        there = self._names_there(key, wanted) if wanted else set()
        left = [one for one in entries if one.name is None or one.name not in there]
        done.known = len(entries) - len(left)
        for run in self._runs(left):
            try:
                reply = self.nodes.append(run.request(key))
            except StaleAppendError:
                # Its producer has gone on behind it: what it lacked, it has sent elsewhere.
                done.known += len(run.lengths)
                continue
            done.appended += reply.appended
            done.known += reply.known
        return done

    def _runs(self, entries: list[Stranded]) -> Iterator["_Run"]:
        """Entries that one call can append: rows of one producer without gaps."""
        run: _Run | None = None
        for one in entries:
            row = one.row or Numbered(self.producer, self.region, one.n)
            if run is None or not run.takes(row):
                if run is not None:
                    yield run
                run = _Run(row)
            run.add(one)
        if run is not None:
            yield run

    def _without_common(
        self, key: bytes, apart: Difference, entries: list[Stranded]
    ) -> list[Stranded]:
        """Those that are of the clone alone.

        Where the histories part is known up to some batches.  Up to there an entry that is there as
        it is here is one that both have.
        """
        common: set[tuple[int, StreamId, bytes]] = set()
        for stream in self.nodes.streams(patterns_literal([key])):
            if any(lane.origin == self.region for lane in stream.lanes):
                request = query_pb2.ScanRequest(key=key, origin=self.region)
                request.above_n, request.upto_n = apart.same_n, apart.by_n
                for batch in self.nodes.scan(request):
                    columns = map(batch.column, ("n", "ms", "seq", "fields"))
                    rows = zip(*(column.to_pylist() for column in columns), strict=True)
                    common.update((n, make_id(ms, seq), fields) for n, ms, seq, fields in rows)
        return [one for one in entries if (one.n, one.id, one.fields) not in common]

    def _names_there(self, key: bytes, wanted: set[IdempotentId]) -> set[IdempotentId]:
        """Those of the names that entries of a stream have by now."""
        found: set[IdempotentId] = set()
        for stream in self.nodes.streams(patterns_literal([key])):
            for lane in stream.lanes:
                request = query_pb2.ScanRequest(key=key, origin=lane.origin)
                for batch in self.nodes.scan(request):
                    producers = batch.column("producer").to_pylist()
                    ids = batch.column("idempotent_id").to_pylist()
                    names = map(IdempotentId, producers, ids)
                    found.update(name for name in names if name in wanted)
        return found


@dataclass(slots=True)
class _Run:
    """Rows of one producer, without gaps."""

    first: Numbered
    lengths: "array[int]" = field(default_factory=lambda: array("I"))
    fields: bytearray = field(default_factory=bytearray)

    def takes(self, row: Numbered) -> bool:
        is_next = row == self.first.behind(len(self.lengths))
        return is_next and len(self.lengths) < ROWS_MAX.value and len(self.fields) < BYTES_MAX.value

    def add(self, one: Stranded) -> None:
        self.lengths.append(len(one.fields))
        self.fields += one.fields

    def request(self, key: bytes) -> query_pb2.AppendRequest:
        return query_pb2.AppendRequest(
            key=key,
            producer=self.first.producer,
            batch=self.first.batch,
            first_row=self.first.row,
            lengths=self.lengths.tobytes(),
            fields=bytes(self.fields),
        )
