"""Damage in a region's state, as a fault of memory or of a program leaves it: no effect says it.

Each kind changes what is replicated of the key ``x`` and tells whether it found something to
change.  A checkpoint that follows has the damage.
"""

import random
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from crdtstream.core.effects import Mode
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.ids import ID_MAX, U64_MAX, RegionId, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from tests.harness.regions import Node

KEY: Final = b"x"
Damaging: TypeAlias = Callable[[Node, random.Random], bool]


def stream_of(node: Node) -> Stream | None:
    return node.replica._state.keys.streams.get(KEY)


def lanes_of(node: Node) -> list[Lane]:
    stream = stream_of(node)
    return [] if stream is None else stream.filled_lanes()


def groups_of(node: Node) -> list[Group]:
    stream = stream_of(node)
    return [] if stream is None else list(stream.groups.values())


def lose_entry(node: Node, chance: random.Random) -> bool:
    lanes = lanes_of(node)
    if not lanes:
        return False
    lane = chance.choice(lanes)
    with node.replica.residency.in_place():
        entry_id = chance.choice([one for one, *_ in lane.scan(StreamId(0), ID_MAX)])
        return lane.remove(entry_id, n_max=U64_MAX) > 0


def flip_field(node: Node, chance: random.Random) -> bool:
    lanes = lanes_of(node)
    if not lanes:
        return False
    lane = chance.choice(lanes)
    with node.replica.residency.in_place():
        at = chance.choice(list(lane.macro_nodes()))
        columns = at.columns
        lane._note(at)
        index = chance.randrange(len(columns.n))
        columns.fields[columns.starts[index] + columns.lengths[index] - 3] ^= 1
    at.digest = None
    return True


def lose_lane(node: Node, chance: random.Random) -> bool:
    lanes = lanes_of(node)
    if not lanes:
        return False
    chance.choice(lanes).remove_prefix(up_to=ID_MAX, n_max=U64_MAX)
    return True


def move_last_id(node: Node, chance: random.Random) -> bool:
    stream = stream_of(node)
    if stream is None or not stream.last_ids:
        return False
    node.replica._state.parts.note(KEY)
    region = chance.choice(sorted(stream.last_ids))
    register = stream.last_ids[region]
    register.id = StreamId(register.id + 1)
    stream.last_id = max(stream.last_id, register.id)
    return True


def lose_group(node: Node, chance: random.Random) -> bool:
    stream = stream_of(node)
    if stream is None or not stream.groups:
        return False
    node.replica._state.parts.note(KEY)
    name = chance.choice(sorted(stream.groups))
    node.replica._state.grown_runs.forget((KEY, name))
    stream.drop_group(name)
    return True


def acknowledge_too_much(node: Node, chance: random.Random) -> bool:
    groups, lanes = groups_of(node), lanes_of(node)
    if not groups or not lanes:
        return False
    group, lane = chance.choice(groups), chance.choice(lanes)
    end = lane.last_id
    if group.intervals.get(lane.region, Intervals()).contains_all(StreamId(1), end):
        return False
    group._note()
    for _, create in group.creates.all():
        create.intervals.setdefault(lane.region, Intervals()).add(StreamId(0), end)
    group.creates.replace(dict(group.creates.all()))
    group.reading.skip_and_count(lane.region, group.reading.keep(lane.region), lane, {})
    return True


def acknowledge_too_little(node: Node, chance: random.Random) -> bool:
    acked = [
        (group, region)
        for group in groups_of(node)
        for region, intervals in group.intervals.items()
        if intervals
    ]
    if not acked:
        return False
    group, region = chance.choice(acked)
    group._note()
    for _, create in group.creates.all():
        create.intervals.pop(region, None)
    group.creates.replace(dict(group.creates.all()))
    return True


def set_mode(node: Node, chance: random.Random) -> bool:
    groups = groups_of(node)
    if not groups:
        return False
    group = chance.choice(groups)
    group._note()
    for _, create in group.creates.all():
        create.mode = ModeRegister(create.mode.epoch + 1, RegionId(2), Mode.HOME, RegionId(2))
    group.creates.replace(dict(group.creates.all()))
    return True


def lose_registers(node: Node, _chance: random.Random) -> bool:
    state = node.replica._state
    if KEY not in state.keys.registers:
        return False
    state.parts.note(KEY)
    state.keys.drop_registers(KEY)
    state.parts.settle(KEY)
    return True


def lose_string(node: Node, _chance: random.Random) -> bool:
    state = node.replica._state
    string = state.keys.strings.get(KEY)
    if string is None:
        return False
    state.parts.note(KEY)
    string.replace_values({})
    state.keys.note_string(KEY, string)
    state.parts.settle(KEY)
    return True


def lose_key(node: Node, chance: random.Random) -> bool:
    """All of a stream: its lanes, its last IDs and its groups."""
    stream = stream_of(node)
    if stream is None:
        return False
    state = node.replica._state
    while lose_group(node, chance):
        pass
    state.parts.note(KEY)
    if state.keeps_producers(KEY):
        state.parts.note_producers(KEY)
    for lane in stream.lanes.values():
        lane.remove_prefix(up_to=ID_MAX, n_max=U64_MAX)
    stream.replace_last_ids({})
    stream.window = None
    state.keys.drop_if_gone(KEY, stream)
    state.parts.settle(KEY)
    return True


KINDS: Final[dict[str, Damaging]] = {
    one.__name__: one
    for one in (
        lose_entry,
        flip_field,
        lose_lane,
        move_last_id,
        lose_group,
        acknowledge_too_much,
        acknowledge_too_little,
        set_mode,
        lose_registers,
        lose_string,
        lose_key,
    )
}


def damage(node: Node, seed: int) -> bool:
    """Some damage, if there is anything that can be damaged."""
    chance = random.Random(seed)
    return any(list(_all_done(node, chance)))


def _all_done(node: Node, chance: random.Random) -> Iterator[bool]:
    for kind in chance.sample(list(KINDS.values()), chance.randrange(1, 4)):
        yield kind(node, chance)
