"""Entries that only one folder has: those of effects that count nowhere (``counting.py``).

    issued   3:1 ……………………………… 3:50 │ 3:51 ………………… 3:80
    counts                    cut ┘   └ stranded: in this folder, and nowhere else

Those of them that append an entry that still exists can be appended again (``salvage.py``).
Deletes, acknowledgements, groups and strings cannot: their keys have changed without them since.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import StreamId
from crdtstream.core.replica import Replica
from crdtstream.upkeep.counting import Beyond


@dataclass(frozen=True, slots=True)
class Stranded:
    """One entry.

    Attributes:
        n: of its dot.
        id: in the folder; it gets another one.
        fields: as one RESP array of bulk strings.
        row: which row of its own numbered producer it is; None: of none.
        name: given by its own producer; None: it has no name, or is a row.
    """

    n: int
    id: StreamId
    fields: bytes
    row: Numbered | None
    name: IdempotentId | None


def stranded_in(replica: Replica, beyond: Beyond) -> Iterator[tuple[bytes, list[Stranded]]]:
    """By stream the entries of these effects, in the order of their dots.

    Also of streams that have expired: no other region could have made them last.
    """
    for key in replica.keys.known():
        stream = replica.keys.held_stream(key)
        lane = None if stream is None else stream.lanes.get(beyond.origin)
        if lane is None:
            continue
        found = []
        for entry_id, node, index in lane.scan_dots(beyond.above_n):
            columns = node.columns
            if columns.n[index] > beyond.upto_n:
                break
            row = columns.numbered_at(index)
            name = None if row is not None else columns.idempotent_at(index)
            fields = bytes(columns.fields_at(index))
            found.append(Stranded(columns.n[index], entry_id, fields, row, name))
        if found:
            yield key, found
