"""A run of XADDs: what one client sends of them for one stream, one right behind the other.

    XADD s * f a      XADD s * f b      XADD s * f c
         └──────────────────┴──────────────────┘
    fields   *2..f..a..  *2..f..b..  *2..f..c..        one piece of memory
    lengths  [ 13, 13, 13 ]

All of them add to the end of one lane, under IDs that follow from the first.  So their columns are
added at once, and each entry costs a few steps of loops in C, where a command by itself costs
hundreds of the interpreter's.

Always so: a run has the effects, the IDs and the replies that its commands have one by one.  If
that is not sure - the stream does not exist, IDs run out - it does not fit, and its commands are
called one by one.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from crdtstream.core.fields import decode_fields
from crdtstream.core.ids import (
    SEQ_STRIDE,
    U64_MAX,
    IdExhaustedError,
    Millis,
    StreamId,
    id_ms,
    id_seq,
    next_id,
)
from crdtstream.core.issuing.open_batch import COLUMN_BYTES
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.replica import Replica


@dataclass(slots=True)
class XaddRun:
    """Plain XADDs - key, ``*``, fields - with one key.

    Attributes:
        name: the command as the client spells it.
        key: the stream's.
        lengths: of each entry, what it takes in ``fields``.
        fields: what ``encode_fields`` makes of each entry, one behind the other.
    """

    name: bytes
    key: bytes
    lengths: "array[int]"
    fields: bytes

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def batch_bytes(self) -> int:
        """Bytes that it adds to the open batch."""
        return len(self.fields) + COLUMN_BYTES * len(self.lengths)

    def requests(self) -> Iterator[list[bytes]]:
        """Its commands, as the client sent them."""
        end = 0
        for length in self.lengths:
            end += length
            yield [self.name, self.key, b"*", *decode_fields(self.fields, end - length, end)]

    def behind(self, count: int) -> "XaddRun":
        """The rest of it behind the first ``count`` commands."""
        at = sum(self.lengths[:count])
        return XaddRun(self.name, self.key, self.lengths[count:], self.fields[at:])


def fits(replica: Replica, now: Millis, run: XaddRun) -> bool:
    """True if the run can be added as one: its stream exists, and has IDs for all of it."""
    return _first_id(replica, now, run) is not None


def xadd_run(replica: Replica, now: Millis, run: XaddRun) -> bytes:
    """XADD key * field value … for each of a run, which must fit.

    Returns:
        The replies, one behind the other: each the ID of an entry as a bulk string.
    """
    first = _first_id(replica, now, run)
    assert first is not None, "who calls it asks whether it fits"
    count = len(run)
    ms, seq = id_ms(first), id_seq(first)
    # The ID after one of this region is the region's next sequence in the same millisecond.
    seqs = range(seq, seq + SEQ_STRIDE * count, SEQ_STRIDE)
    entries = EntryRun(array("Q", [ms]) * count, array("Q", seqs), run.lengths, run.fields)
    replica.append_run(run.key, entries)
    return _encoded_ids(ms, seqs)


def _first_id(replica: Replica, now: Millis, run: XaddRun) -> StreamId | None:
    """The ID of its first entry; None if the run does not fit."""
    stream = replica.stream(run.key)
    if stream is None:
        # A string may be there; what is left of an expired stream has to be deleted first.
        return None
    last = max(replica.floor_of(run.key), stream.last_id)
    try:
        first = next_id(replica.region, now=now, last=last)
    except IdExhaustedError:
        return None
    return first if id_seq(first) + SEQ_STRIDE * (len(run) - 1) <= U64_MAX else None


def _encoded_ids(ms: int, seqs: range) -> bytes:
    """The IDs of a run as bulk strings: those with equally long sequences by one template."""
    parts: list[bytes] = []
    while seqs:
        digits = len(str(seqs[0]))
        # How many lie below the next power of ten; `range` knows by arithmetic.
        count = len(range(seqs[0], min(10**digits, seqs[-1] + 1), SEQ_STRIDE))
        prefix = b"%d-" % ms
        template = b"$%d\r\n%b%%d\r\n" % (len(prefix) + digits, prefix)
        parts.append(template * count % tuple(seqs[:count]))
        seqs = seqs[count:]
    return b"".join(parts)
