"""Trimming: which entries MAXLEN or MINID ask to remove, and the words in which they are asked.

Exact trimming removes the lowest IDs over all lanes.  Approximate trimming (``~``) removes whole
macro nodes only, the one with the lowest first ID next, and never more than was asked for.

With DELREF and ACKED entries go one by one, by ID.  Of a macro node that ``~`` would remove ACKED
takes what it may, and goes on to the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
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
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId
from crdtstream.core.lanes.lane import MacroNode
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

# What LIMIT is when it is not given, times stream-node-max-entries (Redis: 100 nodes' worth).
LIMIT_NODES_DEFAULT: Final = 100
LIMIT_DEFAULT_MAX: Final = 1_000_000
LIMIT_DEFAULT_UNLIMITED_NODES: Final = 10_000
# What one command removes by ID at most, as an ID takes 16 bytes and all of them go in one batch.
# The rest goes with the next one.
REMOVED_IDS_MAX: Final = (256 << 20) // 16


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
        """Read the option at ``at``; tell how many arguments it took, 0 if it is none.

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
    """Remove what the options ask for and tell how many entries went."""
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


def _plan(stream: Stream, trimming: Trimming) -> dict[RegionId, StreamId]:
    """Per lane the highest ID that goes; a lane that loses nothing is left out."""
    if trimming.approximate:
        return _plan_nodes(stream, trimming)
    if trimming.minid is not None:
        return {
            region: StreamId(trimming.minid - 1)
            for region, lane in stream.lanes.items()
            if lane.length and lane.first_id < trimming.minid
        }
    assert trimming.maxlen is not None
    excess = stream.length - trimming.maxlen
    if excess <= 0:
        return {}
    up_to: dict[RegionId, StreamId] = {}
    for entry_id, region, _, _ in stream.scan():
        up_to[region] = entry_id
        excess -= 1
        if not excess:
            break
    return up_to


def _plan_nodes(stream: Stream, trimming: Trimming) -> dict[RegionId, StreamId]:
    nodes = _Nodes(stream, trimming)
    up_to: dict[RegionId, StreamId] = {}
    while (found := nodes.next_whole()) is not None:
        lane, node = found
        nodes.take(lane, node, len(node))
        up_to[lane] = node.last_id
    return up_to


class _Nodes:
    """The macro nodes of all lanes, the one with the lowest first ID next, as ``~`` sees them."""

    def __init__(self, stream: Stream, trimming: Trimming) -> None:
        self._heads: dict[RegionId, MacroNode] = {
            lane.region: lane.head for lane in stream.lanes.values() if lane.head is not None
        }
        self._trimming = trimming
        self._length = stream.length
        self._removed = 0

    def next_whole(self) -> tuple[RegionId, MacroNode] | None:
        """The next node, if all of it may go."""
        heads = self._heads
        if not heads:
            return None
        if len(heads) == 1:
            ((lane, node),) = heads.items()
        else:
            lane, node = min(heads.items(), key=lambda head: (head[1].first_id, head[0]))
        trimming = self._trimming
        if trimming.limit and self._removed + len(node) > trimming.limit:
            return None
        if trimming.maxlen is not None:
            goes = self._length - len(node) >= trimming.maxlen
        else:
            goes = node.highest_id < (trimming.minid or ID_MIN)
        return (lane, node) if goes else None

    def take(self, lane: RegionId, node: MacroNode, removed: int) -> None:
        """Step past a node that loses ``removed`` entries."""
        self._length -= removed
        self._removed += removed
        if node.next is None:
            self.leave(lane)
        else:
            self._heads[lane] = node.next

    def leave(self, lane: RegionId) -> None:
        """Nothing more of a lane is to go."""
        del self._heads[lane]


# --- By ID: DELREF and ACKED --------------------------------------------------------------------


def _plan_ids(stream: Stream, trimming: Trimming, *, alone: bool) -> dict[RegionId, set[StreamId]]:
    """Per lane the IDs that go; ``alone`` as in ``Group.are_settled``."""
    ids: dict[RegionId, set[StreamId]] = {}
    choose = _approximate_ids if trimming.approximate else _exact_ids
    for lane, entry_id in islice(choose(stream, trimming, alone=alone), REMOVED_IDS_MAX):
        ids.setdefault(lane, set()).add(entry_id)
    return ids


def _exact_ids(
    stream: Stream, trimming: Trimming, *, alone: bool
) -> Iterator[tuple[RegionId, StreamId]]:
    last = ID_MAX
    excess = stream.length
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
    stream: Stream, trimming: Trimming, *, alone: bool
) -> Iterator[tuple[RegionId, StreamId]]:
    groups = _groups_that_matter(stream, trimming)
    nodes = _Nodes(stream, trimming)
    while (found := nodes.next_whole()) is not None:
        lane, node = found
        if any(node.first_id > group.settled_end(lane) for group in groups):
            # From here on no group has come so far.
            nodes.leave(lane)
            continue
        ids = _settled_in(groups, lane, node, alone=alone)
        nodes.take(lane, node, len(ids))
        for entry_id in ids:
            yield lane, entry_id


def _groups_that_matter(stream: Stream, trimming: Trimming) -> list[Group]:
    """Those that must be done with an entry before it goes."""
    return list(stream.groups.values()) if trimming.policy is ReferencePolicy.ACKED else []


def _settled_in(
    groups: list[Group], lane: RegionId, node: MacroNode, *, alone: bool
) -> list[StreamId]:
    """The entries of a macro node that all groups are done with."""
    ids = [node.id_at(index) for index in range(len(node))]
    undecided = []
    for group in groups:
        pel = group.progress(lane).pel
        pending_count = pel.bisect_right(ids[-1]) - pel.bisect_left(ids[0])
        if pending_count >= len(ids) and all(map(pel.__contains__, ids)):
            # Usual in a backlog, which may be long.
            return []
        if pending_count or not group.are_settled(lane, ids[0], ids[-1], alone=alone):
            undecided.append(group)
    return [entry_id for entry_id in ids if is_settled(undecided, lane, entry_id, alone=alone)]
