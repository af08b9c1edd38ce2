"""XREAD that skips nothing (``crdt_xread_mode never-skip``), for clients that know IDs only.

Entries of other regions arrive late, with IDs below one that was read.  So an ID says too little of
what its reader has had.  A version vector says it: per lane, the dot up to which the reader has had
all.  An ID becomes one like this:

    XREAD … x 130-1
      └─> is a reply of this connection remembered that had 130-1?
          yes ──>  what its reader had had then: {1:3, 2:0}       skips nothing, repeats nothing
          no  ──>  lane 1, where 130-1 stands: its own dot
                   lane 2: what had arrived here before 130-1
                   did, but nothing above 130-1                   skips nothing, repeats some

Nothing is skipped: IDs of a reply ascend, so a reader that ends at an entry got everything below it
that had arrived by then.  All else is above it, or arrived later than it did.

Always so: what is sent of a lane is a prefix, in dot order, of what the reader lacks of it.  The
vectors of a connection are bounded, and what is forgotten becomes the second case.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice
from typing import Final

from crdtstream.commands.arguments import strict_id
from crdtstream.commands.lookup import stream_or_none
from crdtstream.commands.reply import Blocked, CommandError, Encoded, Null, PerKey, Reply
from crdtstream.commands.streams.budget import Budget
from crdtstream.commands.streams.entries import encode_entry
from crdtstream.commands.streams.read_options import ReadOptions, parse_read
from crdtstream.commands.streams.xread import NEW_IS_FOR_GROUPS, answer_or_block
from crdtstream.core.clock import MutableVersionVector, VersionVector
from crdtstream.core.ids import (
    ID_MAX,
    ID_MIN,
    SEQ_STRIDE,
    Millis,
    RegionId,
    StreamId,
    id_seq,
)
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.slices import Found
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size

# Per connection; of the key that was read longest ago all is forgotten first.
KEYS_MAX: Final = Size(64, least=1)
# Per key; the oldest is forgotten first.
REPLIES_MAX: Final = Size(8, least=1)


@dataclass(frozen=True, slots=True)
class _Given:
    """One reply's part for one key.

    Attributes:
        first_id, last_id: of its entries, which ascend.
        before, after: what the reader had had then.
    """

    first_id: StreamId
    last_id: StreamId
    before: VersionVector
    after: VersionVector


class GivenReplies:
    """Replies of XREAD to one connection: of each key the last few."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: OrderedDict[bytes, deque[_Given]] = OrderedDict()

    def copied(self) -> "GivenReplies":
        """A copy that continues from here by itself."""
        copy = GivenReplies()
        for key, replies in self._by_key.items():
            copy._by_key[key] = replies.copy()
        return copy

    def note(self, key: bytes, given: _Given) -> None:
        replies = self._by_key.get(key)
        if replies is None:
            self._by_key[key] = replies = deque(maxlen=REPLIES_MAX.value)
            if len(self._by_key) > KEYS_MAX.value:
                self._by_key.popitem(last=False)
        else:
            self._by_key.move_to_end(key)
        replies.append(given)

    def had(self, key: bytes, stream: Stream | None, entry_id: StreamId) -> VersionVector | None:
        """Vector of a reader that got this ID last; None: this connection did not get it.

        Within a reply it is what stands up to the ID: its reader may have failed behind it.  Of
        several replies that have the ID the latest counts: a connection is one reader.
        """
        for given in reversed(self._by_key.get(key, ())):
            had = _had_at(given, stream, entry_id)
            if had is not None:
                return had
        return None


def _had_at(given: _Given, stream: Stream | None, entry_id: StreamId) -> VersionVector | None:
    """Vector of a reader that took a reply up to this ID; None: it is not in the reply."""
    if entry_id == given.last_id:
        return given.after
    if stream is None or not given.first_id <= entry_id < given.last_id:
        return None
    for _, region, node, index in stream.find(entry_id):
        if given.before.get(region, 0) < node.n[index] <= given.after.get(region, 0):
            # Of entries that share the ID only the first one is known to have been taken.
            return _had_below(given, stream, entry_id) | {region: node.n[index]}
    return None


def _had_below(given: _Given, stream: Stream, entry_id: StreamId) -> MutableVersionVector:
    """Vector of a reader that took a reply up to an ID, but not that entry."""
    had = dict(given.before)
    for region, after_n in given.after.items():
        lane = stream.lanes.get(region)
        n = 0 if lane is None else lane.last_n_below(entry_id)
        had[region] = max(had.get(region, 0), min(n, after_n))
    return had


@dataclass(frozen=True, slots=True)
class _Start:
    """A reader's position in one stream.

    Attributes:
        had: what the reader has had.
        shows_last: ``+``: the last entry is sent, though the reader has had all.
    """

    had: VersionVector
    shows_last: bool = False


def xread_never_skip(
    given: GivenReplies, replica: Replica, now: Millis, argv: list[bytes]
) -> Reply | Blocked:
    """XREAD [COUNT n] [MAXCOUNT n] [MAXSIZE bytes] [BLOCK ms] STREAMS key … id …: the entries that
    a reader at each ID has not had, by ID.

    ``$`` and ``+`` stand for a reader that has had all that this region has; ``+`` shows the last
    entry if there is one, and waits like ``$`` if not.

    Args:
        given: replies of the connection; the reply of this command is noted there.

    Cost: O(log n) per lane to begin, O(m * log r) for m entries from r lanes.
    """
    options = parse_read(argv, now, command="XREAD")
    starts = [
        (key, _start(given, replica, key, text))
        for key, text in zip(options.keys, options.ids, strict=True)
    ]
    return answer_or_block(replica, now, options, partial(_read, given, starts, options))


def _start(given: GivenReplies, replica: Replica, key: bytes, text: bytes) -> _Start:
    stream = stream_or_none(replica, key)
    if text in (b"$", b"+"):
        is_empty = stream is None or not stream.length
        return _Start(dict(replica.vv), shows_last=text == b"+" and not is_empty)
    if text == b">":
        raise CommandError(NEW_IS_FOR_GROUPS)
    entry_id = strict_id(text)
    had = given.had(key, stream, entry_id)
    if had is not None:
        return _Start(had)
    if stream is None or entry_id == ID_MIN:
        return _Start({})
    return _Start(had_by_arrival(stream, entry_id))


# --- IDs of earlier connections -----------------------------------------------------------------


def had_by_arrival(stream: Stream, entry_id: StreamId) -> VersionVector:
    """Vector, at least, of a reader that got this ID last from this region."""
    arrivals = _arrivals(stream, entry_id)
    # Of the entry's own lane the reader has had all up to it.
    own = next(iter(arrivals)) if len(arrivals) == 1 else None
    arrived = min(arrivals.values(), default=None)
    had: MutableVersionVector = {}
    for region, lane in stream.lanes.items():
        n = lane.last_n_below(entry_id)
        if region == own:
            found = lane.find(entry_id)
            n = n if found is None else found[0].n[found[1]]
        elif arrived is not None:
            n = min(n, lane.last_n_before(arrived))
        if n:
            had[region] = n
    return had


def _arrivals(stream: Stream, entry_id: StreamId) -> dict[RegionId, Millis]:
    """Earliest arrival of the entry with this ID, by lane; empty: there never was one.

    An entry that is gone arrived in its lane after the one that stands before it there.  If nothing
    stands before it, it may have arrived at any time, and all that is here counts as later.
    """
    found = {region: node.arrived_at(index) for _, region, node, index in stream.find(entry_id)}
    if id_seq(entry_id) % SEQ_STRIDE in found:
        # A generated ID: no other region generates it.
        return found
    # Of an ID that two regions made, the one that the reader was given may be gone.
    gone = {
        region: _arrival_below(stream.lanes[region], entry_id)
        for region in _lanes_it_may_have_been_in(stream, entry_id)
    }
    return gone | found


def _arrival_below(lane: Lane, entry_id: StreamId) -> Millis:
    for _, node, index in lane.scan_back(ID_MIN, StreamId(entry_id - 1)):
        return node.arrived_at(index)
    return Millis(0)


def _lanes_it_may_have_been_in(stream: Stream, entry_id: StreamId) -> Iterator[RegionId]:
    """The lanes that may have had the entry, and have it no more.

    The ID does not say: COPY, RENAME and RESTORE keep it, in the lane of their own region.
    """
    for region, register in stream.last_ids.items():
        lane = stream.lanes.get(region)
        if register.id < entry_id or lane is None:
            continue
        n_below = lane.last_n_below(entry_id)
        above = next(lane.scan(entry_id, ID_MAX), None)
        if above is not None and above[1].n[above[2]] == n_below + 1:
            continue  # Nothing was ever between the two.
        if stream.lost.get(region, 0) > n_below or lane.max_deleted_id >= entry_id:
            yield region


# --- Reading ------------------------------------------------------------------------------------


def _read(
    given: GivenReplies,
    starts: list[tuple[bytes, _Start]],
    options: ReadOptions,
    replica: Replica,
    now: Millis,
) -> Reply:
    budget = options.budget()
    answers: list[tuple[bytes, Reply]] = []
    for key, start in starts:
        stream = replica.stream(key)
        if stream is None:
            continue
        entries = _read_stream(given, replica, key, stream, start, options.count, budget)
        if entries:
            answers.append((key, Encoded(b"*%d\r\n" % len(entries) + b"".join(entries))))
        if budget is not None and budget.is_spent:
            break
    return PerKey(answers) if answers else Null.ARRAY


def _read_stream(
    given: GivenReplies,
    replica: Replica,
    key: bytes,
    stream: Stream,
    start: _Start,
    count: int | None,
    budget: Budget | None,
) -> list[bytes]:
    """The entries that a reader lacks, as many as there is room for; then it has had them."""
    found = _beyond(stream, start.had)
    if start.shows_last:
        found, count = stream.scan_back(), 1
    if budget is not None:
        budget.begin_stream(key)
    entries: list[bytes] = []
    ids: list[StreamId] = []
    after: MutableVersionVector = dict(start.had)
    for entry_id, region, node, index in islice(found, count):
        entry = encode_entry(node, index)
        if budget is not None and not budget.take(entry):
            break
        entries.append(entry)
        ids.append(entry_id)
        after[region] = max(after.get(region, 0), node.n[index])
    if ids:
        given.note(key, _Given(ids[0], ids[-1], start.had, after))
    return entries


def _beyond(stream: Stream, had: VersionVector) -> Iterator[Found]:
    """Entries beyond a version vector, by ID."""
    lanes = [
        beyond_in_lane(lane, had.get(region, 0))
        for region, lane in stream.lanes.items()
        if lane.tail is not None and lane.tail.last_n > had.get(region, 0)
    ]
    return lanes[0] if len(lanes) == 1 else merge(*lanes)


def beyond_in_lane(lane: Lane, n: int) -> Iterator[Found]:
    """Entries of a lane whose dots lie beyond ``n``, ascending by ID."""
    region = lane.region
    for entry_id, node, index in lane.scan_dots(n):
        yield entry_id, region, node, index
