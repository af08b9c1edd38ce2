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

from functools import partial
from heapq import merge
from itertools import islice

from crdtstream.commands.arguments import SYNTAX_ERROR, integer, timeout_ms
from crdtstream.commands.beyond_redis.version_vectors import (
    NOTHING_NAMED,
    Named,
    encode_named,
    encode_version_vector,
    named_here,
    parse_version_vector,
    refuse_lost,
)
from crdtstream.commands.lookup import refuse_string
from crdtstream.commands.reply import Blocked, CommandError, Encoded, Reply
from crdtstream.commands.streams.entries import encode_entry
from crdtstream.commands.streams.never_skip import beyond_in_lane
from crdtstream.core.clock import MutableVersionVector, VersionVector, join
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.replica import Replica


def crdt_xread(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """CRDT.XREAD key cursor [COUNT n] [BLOCK ms]: the entries that a cursor has not had.

    ``0`` or ``-`` is the cursor of a reader that has had nothing; ``$`` is that of a reader that
    has had everything that this region has.

    Returns:
        The next cursor, and entries as in XRANGE, by ID, at most COUNT.  Without any: at once, or,
        with BLOCK, at the timeout.

    Raises:
        CommandError: the cursor does not parse, an option is wrong, or the key is a string; or
            LOST: its reader has had effects that exist nowhere, as their region was removed or goes
            on without them in another folder.

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


def _cursor(replica: Replica, text: bytes) -> Named:
    if text == b"-":
        return NOTHING_NAMED
    if text == b"$":
        return named_here(replica, replica.vv)
    return parse_version_vector(text, replica.database_uid, what="cursor")


def _answer_or_block(
    key: bytes,
    cursor: Named,
    count: int | None,
    block_ms: int | None,
    replica: Replica,
    now: Millis,
) -> Reply | Blocked:
    # Looked at each time: while it waits, it may become known that effects are lost.
    refuse_lost(replica, cursor)
    if replica.are_unheard(cursor.vv, cursor.numbers):
        # What its dots are is not known here: nothing can be said to lie beyond them.
        next_text, entries = encode_named(replica, cursor), list[bytes]()
    else:
        entries, next_cursor = _read(replica, key, cursor.vv, count)
        next_text = encode_version_vector(replica, next_cursor)
    answer: Reply = [
        next_text,
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
    if stream is None and replica.keys.expiry.of(key) is not None:
        # It expired, by the clock.  Until the DeleteKey comes, a PERSIST from another region may
        # bring its entries back, and they were not read.
        return [], dict(cursor)
    lanes = {} if stream is None else stream.lanes
    reached = {region: cursor.get(region, 0) for region in lanes}
    entries = []
    sources = [beyond_in_lane(lane, reached[region]) for region, lane in lanes.items()]
    for _, region, node, index in islice(merge(*sources), count):
        entries.append(encode_entry(node, index))
        reached[region] = node.n[index]

    next_cursor = dict(cursor)
    unfinished = {region for region, lane in lanes.items() if _has_beyond(lane, reached[region])}
    join(next_cursor, {region: n for region, n in replica.vv.items() if region not in unfinished})
    join(next_cursor, reached)
    return entries, next_cursor


def _has_beyond(lane: Lane, n: int) -> bool:
    return lane.tail is not None and lane.tail.last_n > n
