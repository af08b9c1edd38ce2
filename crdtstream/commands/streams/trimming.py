"""Trimming: which entries MAXLEN or MINID ask to remove, and the words in which they are asked.

Exact trimming removes the lowest IDs over all lanes.  Approximate trimming (``~``) removes whole
macro nodes only, the one with the lowest first ID next, and never more than was asked for.  A node
that compaction made counts as the nodes that its entries would fill: what ``~`` leaves too much is
less than one of those, as in Redis.

With DELREF and ACKED entries are removed one by one, by ID.  Of a macro node that ``~`` would
remove, ACKED removes what it may, and continues with the next.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, integer, strict_id
from crdtstream.commands.lookup import stream_or_none
from crdtstream.commands.reply import CommandError
from crdtstream.commands.streams.delete_policies import (
    ReferencePolicy,
    is_settled,
    parse_policy,
    remove,
)
from crdtstream.core.effects import Trim
from crdtstream.core.groups.group import Group
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.bulk_reading import ids_of
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size

# What LIMIT is when it is not given, times stream-node-max-entries (Redis: 100 nodes' worth).
LIMIT_NODES_DEFAULT: Final = 100
LIMIT_DEFAULT_MAX: Final = 1_000_000
LIMIT_DEFAULT_UNLIMITED_NODES: Final = 10_000
# Number of IDs that one command removes at most: an ID takes 16 bytes, and all are in one batch.
# The rest is removed with the next one.
REMOVED_IDS_MAX: Final = Size((256 << 20) // 16, least=1, scope=Scope.CLIENTS)


@dataclass(slots=True)
class Trimming:
    """MAXLEN or MINID with their options.

    Attributes:
        maxlen: keep that many entries; None with MINID.
        minid: remove IDs below; None with MAXLEN.
        approximate: whole macro nodes only.
        limit: with ``approximate``, remove at most that many entries; 0 is no limit.
        policy: what happens to what is pending of them.
    """

    maxlen: int | None = None
    minid: StreamId | None = None
    approximate: bool = False
    limit: int = 0
    policy: ReferencePolicy = ReferencePolicy.KEEPREF


class TrimmingParser:
    """Collects the trimming options of XADD and XTRIM, which may stand in any order."""

    def __init__(self) -> None:
        self._trimming: Trimming | None = None
        self._limit: int | None = None
        self._policy: ReferencePolicy | None = None

    def take(self, argv: list[bytes], at: int) -> int:
        """Read the option at ``at``; return how many arguments it took, 0 if it is none.

        A second policy is none.
        """
        option = argv[at].lower()
        more = len(argv) - 1 - at
        if more and option in (b"maxlen", b"minid"):
            return self._take_strategy(option, argv, at)
        if more and option == b"limit":
            self._limit = integer(argv[at + 1])
            if self._limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            return 2
        if self._policy is None:
            self._policy = parse_policy(option)
            return 0 if self._policy is None else 1
        return 0

    def _take_strategy(self, option: bytes, argv: list[bytes], at: int) -> int:
        if self._trimming is not None:
            raise CommandError(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
            )
        trimming = Trimming()
        taken = 2
        if at + 2 < len(argv) and argv[at + 1] in (b"~", b"="):
            trimming.approximate = argv[at + 1] == b"~"
            taken = 3
        threshold = argv[at + taken - 1]
        if option == b"maxlen":
            trimming.maxlen = integer(threshold)
            if trimming.maxlen < 0:
                raise CommandError("ERR The MAXLEN argument must be >= 0.")
        else:
            trimming.minid = strict_id(threshold)
        self._trimming = trimming
        return taken

    def finish(self, node_entries_max: int) -> Trimming:
        """XTRIM: the trimming that was asked for; one must be."""
        if self._trimming is None and not self._limit:
            raise CommandError(f"{SYNTAX_ERROR}, XTRIM must be called with a trimming strategy")
        return self._finish(node_entries_max)

    def finish_if_any(self, node_entries_max: int) -> Trimming | None:
        """XADD: the trimming that was asked for, None if none was."""
        if self._trimming is None and self._limit is None:
            return None
        return self._finish(node_entries_max)

    def _finish(self, node_entries_max: int) -> Trimming:
        trimming = self._trimming
        if self._limit is not None and (trimming is None or not trimming.approximate):
            raise CommandError(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
                if trimming is None and self._limit
                else "ERR syntax error, LIMIT cannot be used without the special ~ option"
            )
        assert trimming is not None
        trimming.policy = self._policy or ReferencePolicy.KEEPREF
        if trimming.approximate:
            trimming.limit = (
                _default_limit(node_entries_max) if self._limit is None else self._limit
            )
        return trimming


def _default_limit(node_entries_max: int) -> int:
    limit = LIMIT_NODES_DEFAULT * node_entries_max
    return min(limit, LIMIT_DEFAULT_MAX) if limit > 0 else LIMIT_DEFAULT_UNLIMITED_NODES


def trim(replica: Replica, key: bytes, trimming: Trimming) -> int:
    """Remove what the options ask for; return how many entries were removed."""
    stream = stream_or_none(replica, key)
    if stream is None:
        return 0
    if trimming.policy is not ReferencePolicy.KEEPREF:
        ids = _plan_ids(stream, trimming, alone=replica.is_alone)
        remove(replica, key, ids, trimming.policy, trims=True)
        return sum(map(len, ids.values()))
    up_to = _plan(stream, trimming)
    if not up_to:
        return 0
    before = stream.length
    replica.issue(Trim(key, up_to))
    return before - stream.length


def look_ahead(replica: Replica, key: bytes, trimming: Trimming) -> None:
    """Read what ``trim`` will read once there is one more entry.

    Raises:
        ColdError: it is on disk only.
    """
    stream = stream_or_none(replica, key)
    if stream is None or not replica.residency.absent_count:
        return
    if trimming.policy is not ReferencePolicy.KEEPREF:
        _plan_ids(stream, trimming, alone=replica.is_alone, more=1)
    elif up_to := _plan(stream, trimming, more=1):
        replica.look_ahead([Trim(key, up_to)])


def _plan(stream: Stream, trimming: Trimming, *, more: int = 0) -> dict[RegionId, StreamId]:
    """Per lane the highest ID that is removed; a lane that loses nothing is left out.

    Args:
        more: this many entries more than there are.
    """
    if trimming.approximate:
        return _plan_nodes(stream, trimming, more=more)
    if trimming.minid is not None:
        return {
            region: StreamId(trimming.minid - 1)
            for region, lane in stream.lanes.items()
            if lane.length and lane.first_id < trimming.minid
        }
    assert trimming.maxlen is not None
    excess = stream.length + more - trimming.maxlen
    if excess <= 0:
        return {}
    return _plan_exactly(stream, excess)


def _plan_exactly(stream: Stream, excess: int) -> dict[RegionId, StreamId]:
    """Ends of the first ``excess`` entries in each lane.

    Cost: O(macro nodes removed, and entries of two nodes of each lane).  Whole nodes are removed
    without being read.
    """
    up_to, left = _surely_first(stream, excess)
    start = StreamId(max(up_to.values(), default=ID_MIN) + 1)
    for entry_id, region, _, _ in stream.scan(start) if left else ():
        up_to[region] = entry_id
        left -= 1
        if not left:
            break
    return up_to


def _surely_first(stream: Stream, excess: int) -> tuple[dict[RegionId, StreamId], int]:
    """Some of the first ``excess`` entries: all up to the end of some macro node, in all lanes.

    The end is the last one for which even whole nodes in place of those in which it falls, in the
    other lanes, would not be too many.

    Returns:
        The last of them in each lane that has any, and how many of ``excess`` are left.
    """
    heads = {lane.region: lane.head for lane in stream.lanes.values() if lane.head is not None}
    whole = 0
    end: StreamId | None = None
    while heads:
        region, node = min(heads.items(), key=lambda head: head[1].last_id)
        whole += len(node)
        cut = sum(
            len(other)
            for lane, other in heads.items()
            if lane != region and other.first_id <= node.last_id
        )
        if whole + cut > excess:
            whole -= len(node)
            break
        end = node.last_id
        if node.next is None:
            del heads[region]
        else:
            heads[region] = node.next
    if end is None:
        return {}, excess
    up_to: dict[RegionId, StreamId] = {}
    for lane in stream.lanes.values():
        node_or_none = heads.get(lane.region)
        index = 0 if node_or_none is None else node_or_none.index_from(StreamId(end + 1))
        before = lane.tail if node_or_none is None else node_or_none.prev
        if node_or_none is not None and index:
            up_to[lane.region] = node_or_none.id_at(index - 1)
            whole += index
        elif before is not None:
            up_to[lane.region] = before.last_id
    return up_to, excess - whole


def _plan_nodes(stream: Stream, trimming: Trimming, *, more: int) -> dict[RegionId, StreamId]:
    nodes = _Nodes(stream, trimming, more=more)
    up_to: dict[RegionId, StreamId] = {}
    while (found := nodes.next_whole()) is not None:
        lane, piece = found
        nodes.take(lane, piece, len(piece))
        up_to[lane] = piece.last_id
    return up_to


@dataclass(frozen=True, slots=True)
class _Piece:
    """Entries that ``~`` removes together: a macro node, or a part of a large one."""

    node: MacroNode
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def first_id(self) -> StreamId:
        return self.node.id_at(self.start) if self.start else self.node.first_id

    @property
    def last_id(self) -> StreamId:
        node = self.node
        return node.last_id if self.stop == len(node) else node.id_at(self.stop - 1)

    @property
    def highest_id(self) -> StreamId:
        """The highest ID that was ever put in, also if its entry is gone."""
        return self.node.highest_id if self.stop == len(self.node) else self.last_id


class _Nodes:
    """The macro nodes of all lanes, the one with the lowest first ID next, as ``~`` sees them."""

    def __init__(self, stream: Stream, trimming: Trimming, *, more: int) -> None:
        self._heads: dict[RegionId, _Piece] = {
            lane.region: _Piece(lane.head, 0, len(lane.head))
            for lane in stream.lanes.values()
            if lane.head is not None
        }
        self._limits = {lane.region: lane.limits for lane in stream.lanes.values()}
        self._trimming = trimming
        self._length = stream.length + more
        self._removed = 0

    def next_whole(self) -> tuple[RegionId, _Piece] | None:
        """The next node, if all of it may go, or what would be the first node of a large one."""
        heads = self._heads
        if not heads:
            return None
        if len(heads) == 1:
            ((lane, piece),) = heads.items()
        else:
            lane, piece = min(heads.items(), key=lambda head: (head[1].first_id, head[0]))
        if self._may_go(piece):
            return lane, piece
        if not self._may_go_in_part(piece):
            return None
        piece = _first_node_of(piece, self._limits[lane])
        return (lane, piece) if self._may_go(piece) else None

    def _may_go(self, piece: _Piece) -> bool:
        trimming = self._trimming
        if trimming.limit and self._removed + len(piece) > trimming.limit:
            return False
        if trimming.maxlen is not None:
            return self._length - len(piece) >= trimming.maxlen
        return piece.highest_id < (trimming.minid or ID_MIN)

    def _may_go_in_part(self, piece: _Piece) -> bool:
        """True if its first entry may be removed: if not, its entries need not be looked at."""
        trimming = self._trimming
        if trimming.limit and self._removed >= trimming.limit:
            return False
        if trimming.maxlen is not None:
            return self._length > trimming.maxlen
        return piece.first_id < (trimming.minid or ID_MIN)

    def take(self, lane: RegionId, piece: _Piece, removed: int) -> None:
        """Step past a node that loses ``removed`` entries."""
        self._length -= removed
        self._removed += removed
        node = piece.node
        if piece.stop < len(node):
            self._heads[lane] = _Piece(node, piece.stop, len(node))
        elif node.next is None:
            self.leave(lane)
        else:
            self._heads[lane] = _Piece(node.next, 0, len(node.next))

    def leave(self, lane: RegionId) -> None:
        """Nothing more of a lane is to be removed."""
        del self._heads[lane]


def _first_node_of(piece: _Piece, limits: NodeLimits) -> _Piece:
    """The first entries of a large node, as many as fill a node; a small one as it is."""
    node, start, stop = piece.node, piece.start, piece.stop
    if limits.entries_max:
        stop = min(stop, start + limits.entries_max)
    if limits.bytes_max and node.fields_bytes > limits.bytes_max:
        ends = list(accumulate(node.lengths[start:stop]))
        stop = start + max(1, bisect_right(ends, limits.bytes_max))
    return _Piece(node, start, stop)


# --- By ID: DELREF and ACKED --------------------------------------------------------------------


def _plan_ids(
    stream: Stream, trimming: Trimming, *, alone: bool, more: int = 0
) -> dict[RegionId, Ids]:
    """Per lane the IDs to be removed, ascending; ``alone`` as in ``Group.are_settled``, ``more`` as
    above."""
    if trimming.policy is ReferencePolicy.DELREF:
        up_to = _plan(stream, trimming, more=more)
        if _count_up_to(stream, up_to) <= REMOVED_IDS_MAX.value:
            # No group is asked about any of them, so they need not be looked at one by one.
            return {
                region: ids_of(list(stream.lanes[region].scan_nodes(ID_MIN, limit)))
                for region, limit in up_to.items()
            }
    ids: dict[RegionId, list[StreamId]] = {}
    choose = _approximate_ids if trimming.approximate else _exact_ids
    for lane, entry_id in islice(
        choose(stream, trimming, alone=alone, more=more), REMOVED_IDS_MAX.value
    ):
        ids.setdefault(lane, []).append(entry_id)
    return {lane: IdColumns.of(lane_ids) for lane, lane_ids in ids.items()}


def _count_up_to(stream: Stream, up_to: Mapping[RegionId, StreamId]) -> int:
    lanes = [(stream.lanes[region], limit) for region, limit in up_to.items()]
    return sum(lane.length - lane.count_above(limit) for lane, limit in lanes)


def _exact_ids(
    stream: Stream, trimming: Trimming, *, alone: bool, more: int
) -> Iterator[tuple[RegionId, StreamId]]:
    last = ID_MAX
    excess = stream.length + more
    if trimming.maxlen is not None:
        excess -= trimming.maxlen
    elif trimming.minid is not None:
        last = StreamId(trimming.minid - 1)
    groups = _groups_that_matter(stream, trimming)
    for group in groups:
        settled_end = max((group.settled_end(lane) for lane in stream.lanes), default=ID_MIN)
        last = min(last, settled_end)
    if excess <= 0 or last < ID_MIN:
        return
    for entry_id, lane, _, _ in stream.scan(ID_MIN, last):
        if is_settled(groups, lane, entry_id, alone=alone):
            yield lane, entry_id
            excess -= 1
            if not excess:
                return


def _approximate_ids(
    stream: Stream, trimming: Trimming, *, alone: bool, more: int
) -> Iterator[tuple[RegionId, StreamId]]:
    groups = _groups_that_matter(stream, trimming)
    nodes = _Nodes(stream, trimming, more=more)
    while (found := nodes.next_whole()) is not None:
        lane, piece = found
        if any(piece.first_id > group.settled_end(lane) for group in groups):
            # From here on no group has come so far.
            nodes.leave(lane)
            continue
        ids = _settled_in(groups, lane, piece, alone=alone)
        nodes.take(lane, piece, len(ids))
        for entry_id in ids:
            yield lane, entry_id


def _groups_that_matter(stream: Stream, trimming: Trimming) -> list[Group]:
    """Groups that must be done with an entry before it is removed."""
    return list(stream.groups.values()) if trimming.policy is ReferencePolicy.ACKED else []


def _settled_in(
    groups: list[Group], lane: RegionId, piece: _Piece, *, alone: bool
) -> list[StreamId]:
    """The entries of a macro node that all groups are done with."""
    ids = [piece.node.id_at(index) for index in range(piece.start, piece.stop)]
    undecided = []
    for group in groups:
        pel = group.progress(lane).pel
        pending_count = pel.count_within(StreamId(ids[0] - 1), ids[-1])
        if pending_count >= len(ids) and len(pel.among(ids)) == len(ids):
            # Usual in a backlog, which may be long.
            return []
        if pending_count or not group.are_settled(lane, ids[0], ids[-1], alone=alone):
            undecided.append(group)
    return [entry_id for entry_id in ids if is_settled(undecided, lane, entry_id, alone=alone)]
