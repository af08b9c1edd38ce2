"""A mixed run: what one client sends of XADDs for several streams, one right behind the other.

    XADD s * f a      XADD t * f b      XADD s * f c
         └──────────────────┴──────────────────┘
    keys     s              t              s
    fields   *2..f..a..     *2..f..b..     *2..f..c..        one piece of memory
    lengths  [ 13, 13, 13 ]

Each entry is added to the lane of its own stream; words, checks, the columns of the open batch and
the replies are made together.  So an entry costs one look-up of its stream and one append.

Always so: a mixed run has the effects, in the order of its commands, the IDs and the replies that
its commands have one by one.  Only commands whose streams all exist are run together; the command
behind them is called by itself.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from crdtstream.core.fields import decode_fields
from crdtstream.core.ids import SEQ_STRIDE, U64_MAX, Millis
from crdtstream.core.issuing.open_batch import COLUMN_BYTES
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica


@dataclass(slots=True)
class MixedRun:
    """Plain XADDs - key, ``*``, fields - with the same field names.

    Attributes:
        name: the command as the client spells it.
        keys: of each entry, the key of its stream.
        lengths: of each entry, what it takes in ``fields``.
        fields: what ``encode_fields`` makes of each entry, one behind the other.
        starts: of each entry where it begins in ``fields``, and the end of the last one.
        batch_bytes: what it adds to the open batch at most.
        streams: of each entry its stream, once it is known to fit; empty before.
    """

    name: bytes
    keys: list[bytes]
    lengths: "array[int]"
    fields: bytes
    starts: list[int] = field(init=False)
    batch_bytes: int = field(init=False)
    streams: list[Stream] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = list(accumulate(self.lengths, initial=0))
        keys_bytes = sum(map(len, self.keys))
        self.streams = []
        self.batch_bytes = len(self.fields) + COLUMN_BYTES * len(self.keys) + keys_bytes

    def __len__(self) -> int:
        return len(self.keys)

    def request(self, at: int) -> list[bytes]:
        """One of its commands, as the client sent it."""
        start, end = self.starts[at : at + 2]
        return [self.name, self.keys[at], b"*", *decode_fields(self.fields, start, end)]

    def requests(self) -> Iterator[list[bytes]]:
        """Its commands, as the client sent them."""
        for at in range(len(self)):
            yield self.request(at)

    def part(self, start: int, stop: int) -> "MixedRun":
        """Some of its commands; all of them: the run itself."""
        if stop - start == len(self):
            return self
        return MixedRun(
            self.name,
            self.keys[start:stop],
            self.lengths[start:stop],
            self.fields[self.starts[start] : self.starts[stop]],
        )


def fitting(
    replica: Replica, run: MixedRun, start: int, is_seen: Callable[[bytes], bool] | None
) -> list[Stream]:
    """The streams of as many of its commands, from ``start`` on, as can be added together: they
    exist, and have IDs for all of the run.

    Args:
        is_seen: whether single commands for a key are noticed; None: they are for none.
    """
    # A sequence that is not above this one leaves room for the whole run.
    seq_max = U64_MAX - SEQ_STRIDE * (len(run) + 1)
    floor_of = replica.floor_of if replica.has_floors else None
    found: list[Stream] = []
    keys, stream_of = run.keys, replica.stream
    # No further than to the first key that does not fit: the look begins again behind it.
    for at in range(start, len(keys)):
        key = keys[at]
        stream = stream_of(key)
        if is_seen is not None and is_seen(key):
            break
        # A string may be there; what is left of an expired stream has to be deleted first.
        if (
            stream is None
            or stream.last_id & U64_MAX > seq_max
            or (floor_of is not None and floor_of(key) & U64_MAX > seq_max)
        ):
            break
        found.append(stream)
    return found


def mixed_run(replica: Replica, now: Millis, run: MixedRun) -> bytes:
    """XADD key * field value … for each of a run, whose ``streams`` are known.

    Returns:
        The replies, one behind the other: each the ID of an entry as a bulk string.
    """
    assert len(run.streams) == len(run)
    ms, seq = replica.append_mixed(
        run.keys, run.streams, now=now, starts=run.starts, lengths=run.lengths, fields=run.fields
    )
    texts = list(map(b"%d-%d".__mod__, zip(ms, seq, strict=True)))
    return b"".join(map(b"$%d\r\n%b\r\n".__mod__, zip(map(len, texts), texts, strict=True)))
