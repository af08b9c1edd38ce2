"""Trimming: which entries MAXLEN or MINID ask to remove, and the words in which they are asked.

Exact trimming removes the lowest IDs over all lanes.  Approximate trimming (``~``) removes whole
macro nodes only, the one with the lowest first ID next, and never more than was asked for.
"""

from dataclasses import dataclass
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, any_id, integer
from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import Trim
from crdtstream.core.ids import ID_MIN, Region, StreamId
from crdtstream.core.lane import MacroNode
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

# What LIMIT is when it is not given, times stream-node-max-entries (Redis: 100 nodes' worth).
LIMIT_NODES_DEFAULT: Final = 100
LIMIT_DEFAULT_MAX: Final = 1_000_000
LIMIT_DEFAULT_UNLIMITED_NODES: Final = 10_000


@dataclass(slots=True)
class Trimming:
    """MAXLEN or MINID with their options.

    Attributes:
        maxlen: keep that many entries; None with MINID.
        minid: remove IDs below; None with MAXLEN.
        approximate: whole macro nodes only.
        limit: with ``approximate``, remove at most that many entries; 0 is no limit.
    """

    maxlen: int | None = None
    minid: StreamId | None = None
    approximate: bool = False
    limit: int = 0


class TrimmingParser:
    """Collects the trimming options of XADD and XTRIM, which may stand in any order."""

    def __init__(self) -> None:
        self._trimming: Trimming | None = None
        self._limit: int | None = None

    def take(self, argv: list[bytes], at: int) -> int:
        """Read the option at ``at``; tell how many arguments it took, 0 if it is none."""
        option = argv[at].lower()
        more = len(argv) - 1 - at
        if not more:
            return 0
        if option == b"limit":
            self._limit = integer(argv[at + 1])
            if self._limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            return 2
        if option not in (b"maxlen", b"minid"):
            return 0
        if self._trimming is not None:
            raise CommandError(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
            )
        trimming = Trimming()
        taken = 2
        if more >= 2 and argv[at + 1] in (b"~", b"="):
            trimming.approximate = argv[at + 1] == b"~"
            taken = 3
        threshold = argv[at + taken - 1]
        if option == b"maxlen":
            trimming.maxlen = integer(threshold)
            if trimming.maxlen < 0:
                raise CommandError("ERR The MAXLEN argument must be >= 0.")
        else:
            trimming.minid = any_id(threshold)
        self._trimming = trimming
        return taken

    def finish(self, node_entries_max: int) -> Trimming | None:
        """The trimming that was asked for, None if none was."""
        trimming = self._trimming
        if trimming is None:
            if self._limit:
                raise CommandError(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
                )
            return None
        if trimming.approximate:
            trimming.limit = (
                _default_limit(node_entries_max) if self._limit is None else self._limit
            )
        elif self._limit is not None:
            raise CommandError(
                "ERR syntax error, LIMIT cannot be used without the special ~ option"
            )
        return trimming


def _default_limit(node_entries_max: int) -> int:
    limit = LIMIT_NODES_DEFAULT * node_entries_max
    return min(limit, LIMIT_DEFAULT_MAX) if limit > 0 else LIMIT_DEFAULT_UNLIMITED_NODES


def trim(replica: Replica, key: bytes, trimming: Trimming) -> int:
    """Remove what the options ask for and tell how many entries went."""
    stream = replica.stream(key)
    if stream is None:
        return 0
    up_to = _plan(stream, trimming)
    if not up_to:
        return 0
    before = stream.length
    replica.issue(Trim(key, up_to))
    return before - stream.length


def _plan(stream: Stream, trimming: Trimming) -> dict[Region, StreamId]:
    """Per lane the highest ID that goes; lanes of which nothing goes are left out."""
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
    up_to: dict[Region, StreamId] = {}
    for entry_id, region, _, _ in stream.scan():
        up_to[region] = entry_id
        excess -= 1
        if not excess:
            break
    return up_to


def _plan_nodes(stream: Stream, trimming: Trimming) -> dict[Region, StreamId]:
    heads: dict[Region, MacroNode] = {
        region: lane.head for region, lane in stream.lanes.items() if lane.head is not None
    }
    up_to: dict[Region, StreamId] = {}
    length = stream.length
    removed = 0
    while heads:
        region = min(heads, key=lambda region: (heads[region].first_id, region))
        node = heads[region]
        if trimming.limit and removed + len(node) > trimming.limit:
            break
        if trimming.maxlen is not None:
            goes = length - len(node) >= trimming.maxlen
        else:
            goes = node.last_id < (trimming.minid or ID_MIN)
        if not goes:
            break
        length -= len(node)
        removed += len(node)
        up_to[region] = node.last_id
        if node.next is None:
            del heads[region]
        else:
            heads[region] = node.next
    return up_to


def require_trimming(trimming: Trimming | None) -> Trimming:
    """XTRIM without a strategy is a syntax error."""
    if trimming is None:
        raise CommandError(f"{SYNTAX_ERROR}, XTRIM must be called with a trimming strategy")
    return trimming
