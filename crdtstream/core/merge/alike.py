"""Keys that a merge leaves as they are; most keys, where two regions lack little of each other.

They are found without changing anything, so no checkpoint writes them again, and clients that wait
for them or watch them are not disturbed.  Strings, deadlines and plain streams are looked at:
entries, last IDs and groups.  Other keys count as changed.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from crdtstream.core.checkpoint.contents import (
    GroupContent,
    RegistersContent,
    StreamContent,
    StringContent,
    id_of,
)
from crdtstream.core.clock import Dot
from crdtstream.core.groups.group import Group
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.merge.lanes import are_alike
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import NOTHING_OF_PRODUCERS, SentKey
from crdtstream.core.whole.restoring import create_of, shares_of
from crdtstream.core.whole.state import State


def is_unchanged(state: State, sent: SentKey, both: Both) -> bool:
    """True if merging a key would change nothing; False: it may change something.

    Cost: O(macro nodes of the key).
    """
    key, content, keys = sent.key, sent.content, state.keys
    stream = keys.streams.get(key)
    if stream is None and key not in keys.strings and key not in keys.registers:
        return False
    if sent.producers is not NOTHING_OF_PRODUCERS or state.keeps_producers(key):
        return False
    if content.floors or content.tombstones or content.gone or content.ended_shares:
        return False
    if key in state.floors or key in state.tombstones or key in state.ended_shares:
        return False
    if not _has_registers(keys.registers.get(key), sent.registers, both):
        return False
    string = keys.strings.get(key)
    if not _has_values(string, content.string, both) or not _has_shares(string, content.string):
        return False
    if stream is None:
        return content.stream is None
    if content.stream is None:
        return _is_new_there(stream, both)
    return _has_all(stream, content.stream, sent) and _are_alike(stream.groups, sent.groups)


def _has_dots(here: Iterable[Dot], there: Iterable[Dot], both: Both) -> bool:
    """True if all that was sent is here, and the other region removed none of what is here."""
    mine, theirs = set(here), set(there)
    return theirs <= mine and all(map(both.is_new_there, mine - theirs))


def _has_registers(here: KeyRegisters | None, there: RegistersContent, both: Both) -> bool:
    mine = here or KeyRegisters()
    return (
        _has_dots(mine.expiry.values, _dots_of(there.expiry), both)
        and _has_dots(mine.idmp_duration_s.values, _dots_of(there.idmp_duration_s), both)
        and _has_dots(mine.idmp_maxsize.values, _dots_of(there.idmp_maxsize), both)
    )


def _has_values(here: StringRegister | None, there: StringContent | None, both: Both) -> bool:
    """As ``_has_dots``, of a string's values and their deadlines."""
    mine = {} if here is None else dict(here.values())
    theirs = {} if there is None else {one.dot: one for one in there.values}
    return _has_dots(mine, theirs, both) and all(
        _has_dots(mine[dot].expiry.values, _dots_of(one.expiry), both)
        for dot, one in theirs.items()
    )


def _has_shares(here: StringRegister | None, there: StringContent | None) -> bool:
    """True if both sides know the same of what regions added."""
    mine = {} if here is None else dict(here.shares())
    theirs = shares_of(there)
    return mine.keys() == theirs.keys() and all(
        share.facts() == theirs[region].facts()
        and share.expiry.values == theirs[region].expiry.values
        for region, share in mine.items()
    )


def _dots_of(values: Iterable[tuple[Dot, object]]) -> list[Dot]:
    return [dot for dot, _ in values]


def _is_new_there(stream: Stream, both: Both) -> bool:
    """True if the other region, which lacks a stream, has never seen anything of it."""
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
    """True if a stream has the entries and last IDs that were sent, and no others."""
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
    """True if both sides know the same of each group."""
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
