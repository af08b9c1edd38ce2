"""Keys that a merge leaves as they are; most keys, where two regions lack little of each other.

They are found without changing anything, so no checkpoint writes them again, and clients that wait
for them or watch them are not disturbed.  Only plain streams are looked at: entries, last IDs and
groups.  Of other keys it is not told.
"""

from collections.abc import Mapping
from itertools import chain

from crdtstream.core.checkpoint.contents import GroupContent, StreamContent, id_of
from crdtstream.core.checkpoint.restoring import create_of
from crdtstream.core.groups.group import Group
from crdtstream.core.merge.lanes import are_alike
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import NOTHING_OF_PRODUCERS, SentKey
from crdtstream.core.state import State
from crdtstream.core.stream import Stream


def is_unchanged(state: State, sent: SentKey, both: Both) -> bool:
    """Whether merging a key would change nothing; False: it may.

    Cost: O(macro nodes of the key).
    """
    key, content = sent.key, sent.content
    stream = state.keys.streams.get(key)
    if stream is None or sent.producers is not NOTHING_OF_PRODUCERS:
        return False
    if content.registers or content.string or content.floors or content.tombstones or content.gone:
        return False
    keys = state.keys
    others = keys.registers, keys.strings, state.floors, state.tombstones
    if any(key in one for one in others) or state.keeps_producers(key):
        return False
    if content.stream is None:
        return _is_new_there(stream, both)
    return _has_all(stream, content.stream, sent) and _are_alike(stream.groups, sent.groups)


def _is_new_there(stream: Stream, both: Both) -> bool:
    """Whether the other region has seen nothing of a stream that it has not."""
    there = both.there
    return (
        all(n.n > there.get(region, 0) for region, n in stream.last_ids.items())
        and all(
            lane.head is None or lane.head.first_n > there.get(region, 0)
            for region, lane in stream.lanes.items()
        )
        and all(
            both.is_new_there(dot)
            for dot in chain.from_iterable(group.creates for group in stream.groups.values())
        )
    )


def _has_all(stream: Stream, content: StreamContent, sent: SentKey) -> bool:
    """Whether a stream has the entries and last IDs that were sent, and no others."""
    if len(content.last_ids) != len(stream.last_ids):
        return False
    for region, entry_id, n in content.last_ids:
        register = stream.last_ids.get(region)
        if register is None or register.n != n or register.id != id_of(entry_id):
            return False
    for region, n in content.lost.items():
        if n > stream.lost.get(region, 0):
            return False
    for facts in content.lanes:
        lane = stream.lanes.get(facts.region)
        if lane is None or facts.entries_added > lane.entries_added:
            return False
        if id_of(facts.max_deleted_id) > lane.max_deleted_id:
            return False
    return all(
        are_alike(
            list(lane.macro_nodes()) if (lane := stream.lanes.get(region)) is not None else [],
            sent.lanes.get(region, []),
        )
        for region in {*stream.lanes, *sent.lanes}
    )


def _are_alike(groups: Mapping[bytes, Group], sent: Mapping[bytes, GroupContent]) -> bool:
    """Whether both sides know the same of each group."""
    return groups.keys() == sent.keys() and all(
        _is_alike(group, sent[name]) for name, group in groups.items()
    )


def _is_alike(group: Group, content: GroupContent) -> bool:
    mine = dict(group.creates.all())
    theirs = dict(map(create_of, content.creates))
    return (
        mine.keys() == theirs.keys()
        and all(mine[dot].knows_as(theirs[dot]) for dot in mine)
        and not (group.settings or content.settings)
    )
