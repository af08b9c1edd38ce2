"""CRDT.XREAD: reading a stream from any region with a cursor that never skips.

XREAD remembers one ID, and an entry that comes late below it is skipped.  The cursor here is a
version vector: per lane the dot up to which its reader has had everything.

    reader ── cursor 1:7,2:4 ──>  lane 1   … 7 | 9 12        beyond the cursor: 1:9, 1:12, 2:5
                                  lane 2   … 4 | 5
                                  lane 3   (nothing; 3:88 applied here)
           <── 1:9,2:5,3:88 ──    with COUNT 2, if 1:9 and 2:5 have the lowest IDs

A lane's IDs ascend with its dots.  So what is returned is always a prefix, in dot order, of what
the reader lacks of each lane.  For a lane that was read to its end, and for a region without one,
the next cursor names all that is applied here.

Dots mean the same everywhere, so a reader may continue in any region.  A region that is behind the
cursor returns nothing that it has yet to hear of, and later neither skips nor repeats it.
"""

from collections.abc import Iterator
from functools import partial
from heapq import merge
from itertools import islice

from crdtstream.commands.arguments import SYNTAX_ERROR, integer, timeout_ms
from crdtstream.commands.beyond_redis.version_vectors import (
    encode_version_vector,
    parse_version_vector,
    refuse_lost,
)
from crdtstream.commands.lookup import refuse_string
from crdtstream.commands.reply import Blocked, CommandError, Encoded, Reply
from crdtstream.commands.streams.entries import encode_entry
from crdtstream.core.clock import MutableVersionVector, VersionVector, join
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.slices import Found
from crdtstream.core.replica import Replica


def crdt_xread(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """CRDT.XREAD key cursor [COUNT n] [BLOCK ms]: the entries that a cursor has not had.

    ``0`` or ``-`` is the cursor of a reader who has had nothing; ``$`` is that of a reader who has
    had everything that this region has.

    Returns:
        The next cursor, and entries as in XRANGE, by ID, at most COUNT.  Without any: at once, or,
        with BLOCK, when time is over.

    Raises:
        CommandError: the cursor does not parse, an option is wrong, or the key is a string; or
            LOST: its reader has had effects of a removed region that exist nowhere.

    Cost: O(log n) per lane to begin, O(m * log r) for m entries from r lanes.
    """
    key = argv[1]
    count, block_ms = _options(argv, now)
    if replica.stream(key) is None:
        refuse_string(replica, key)
    cursor = _cursor(replica, argv[2])
    return _answer_or_block(key, cursor, count, block_ms, replica, now)


def _options(argv: list[bytes], now: Millis) -> tuple[int | None, int | None]:
    """COUNT (0 and less: no limit) and BLOCK; None where they are not given."""
    count: int | None = None
    block_ms: int | None = None
    options = argv[3:]
    if len(options) & 1:
        raise CommandError(SYNTAX_ERROR)
    for option, value in zip(options[::2], options[1::2], strict=True):
        match option.lower():
            case b"count":
                count = max(0, integer(value)) or None
            case b"block":
                block_ms = timeout_ms(value, now)
            case _:
                raise CommandError(SYNTAX_ERROR)
    return count, block_ms


def _cursor(replica: Replica, text: bytes) -> VersionVector:
    if text == b"-":
        return {}
    if text == b"$":
        return dict(replica.vv)
    return parse_version_vector(text, replica.database_uid, what="cursor")


def _answer_or_block(
    key: bytes,
    cursor: VersionVector,
    count: int | None,
    block_ms: int | None,
    replica: Replica,
    now: Millis,
) -> Reply | Blocked:
    # Looked at each time: while it waits, a removed region's end may become known.
    refuse_lost(replica, cursor)
    entries, next_cursor = _read(replica, key, cursor, count)
    answer: Reply = [
        encode_version_vector(next_cursor, replica.database_uid),
        Encoded(b"*%d\r\n" % len(entries) + b"".join(entries)),
    ]
    if entries or block_ms is None:
        return answer
    retry = partial(_answer_or_block, key, cursor, count, block_ms)
    return Blocked((key,), block_ms, retry, on_timeout=answer)


def _read(
    replica: Replica, key: bytes, cursor: VersionVector, count: int | None
) -> tuple[list[bytes], MutableVersionVector]:
    """Up to ``count`` encoded entries beyond the cursor, and the cursor that has had them."""
    stream = replica.stream(key)
    if stream is None and replica.deadline_of(key) is not None:
        # It expired, by the clock.  Until the DeleteKey comes, a PERSIST from another region may
        # bring its entries back, and they were not read.
        return [], dict(cursor)
    lanes = {} if stream is None else stream.lanes
    reached = {region: cursor.get(region, 0) for region in lanes}
    entries = []
    sources = [_beyond(lane, reached[region]) for region, lane in lanes.items()]
    for entry_id, region, node, index in islice(merge(*sources), count):
        entries.append(encode_entry(entry_id, node, index))
        reached[region] = node.n[index]

    next_cursor = dict(cursor)
    unfinished = {region for region, lane in lanes.items() if _has_beyond(lane, reached[region])}
    join(next_cursor, {region: n for region, n in replica.vv.items() if region not in unfinished})
    join(next_cursor, reached)
    return entries, next_cursor


def _beyond(lane: Lane, n: int) -> Iterator[Found]:
    region = lane.region
    for entry_id, node, index in lane.scan_dots(n):
        yield entry_id, region, node, index


def _has_beyond(lane: Lane, n: int) -> bool:
    return lane.tail is not None and lane.tail.last_n > n
