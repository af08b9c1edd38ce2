"""What only the folder of a removed region has is appended again, in a region that lives.

Each entry is a row of a numbered producer that is named for the database and the region, and the
number of the row is that of the entry's dot.  So a region takes it once, however often it is sent,
also years later: rows of a producer's newest batch are never forgotten (``numbered.py``).

An entry whose own producer may have appended it again elsewhere meanwhile is not appended twice
either: a row of a numbered producer is sent under its own number; one with an idempotent id is left
out if the stream has an entry of that name.  A retry that comes after the salvage is not
recognised.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Scope, Size
from crdtstream.spark.nodes import Nodes, StaleAppendError, patterns_literal
from crdtstream.upkeep.stranded import Stranded
from crdtstream.v1 import query_pb2

ROWS_MAX: Final = Size(1_000, least=1, scope=Scope.CLIENTS)
BYTES_MAX: Final = Size(1 << 20, least=1, scope=Scope.CLIENTS)


@dataclass(slots=True)
class Salvaged:
    """What became of the entries of one stream.

    Attributes:
        appended: now.
        known: they were there: salvaged before, or appended again by their own producer.
    """

    key: bytes
    appended: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class Salvage:
    """The salvage of one folder, into one region.

    Attributes:
        database_uid: as 32 hexadecimal digits.  The folder's own uid would not do: a region that
            never heard of its removal may not have one yet.
    """

    nodes: Nodes
    region: RegionId
    database_uid: str

    @property
    def producer(self) -> bytes:
        return f"salvage-{self.database_uid}-{self.region}".encode()

    def append(self, key: bytes, entries: list[Stranded]) -> Salvaged:
        """Append those entries of a stream that are not there, in their order.

        Raises:
            NodesError: nobody takes them in time; run it again.
        """
        done = Salvaged(key)
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

    def _names_there(self, key: bytes, wanted: set[IdempotentId]) -> set[IdempotentId]:
        """Which of these names entries of a stream have by now."""
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
