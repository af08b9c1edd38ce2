"""Applying of effects: one function for each kind, called by ``apply_effect``.

An effect is applied once in every region, in the region that issues it too.  Its *context*, what
its issuer had observed, decides what it may remove and what it beats.  So nothing here asks in
which region it runs.

Appends are not here.  They come in columns and are applied in runs (``apply_batch.py``).
"""

from collections.abc import Mapping
from typing import assert_never

from crdtstream.core.clock import Dot, VersionVector, covers, covers_dot
from crdtstream.core.effects import (
    AckFrontier,
    AddToString,
    ChangeMembers,
    CreateGroup,
    DeleteKey,
    DeleteString,
    DestroyGroup,
    ExpireKey,
    KeyEffect,
    RareEffect,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetStreamConfig,
    SetString,
    SetStringExpiry,
    Taken,
    Trim,
    counted,
)
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import RegionId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.membership.members import follow
from crdtstream.core.whole.state import State


def apply_effect(state: State, effect: RareEffect, dot: Dot, context: VersionVector) -> None:
    """Apply an effect.

    Args:
        dot: of the effect; in ``state.vv`` it is not yet.
        context: what its issuer had observed; all of it has been applied here (I2).
    """
    # Effects issued here are given ``state.vv`` itself.
    assert context is state.vv or covers(state.vv, context)  # I2
    if isinstance(effect, ChangeMembers):
        state.set_members(follow(state.members, effect.epoch, effect.previous, effect.change, dot))
        return
    _apply_to_key(state, effect, dot, context)


def _apply_to_key(state: State, effect: KeyEffect, dot: Dot, context: VersionVector) -> None:
    state.parts.note(effect.key)
    # True if clients that watch the key or wait for it look again.
    touches = True
    match effect:
        case Remove():
            touches = _remove(state, effect, context)
        case Trim():
            touches = _trim(state, effect, context)
        case DeleteKey():
            _delete_key(state, effect, dot, context)
        case ExpireKey():
            _expire_key(state, effect, dot, context)
        case CreateGroup():
            _create_group(state, effect, dot, context)
        case DestroyGroup():
            _destroy_group(state, effect, dot)
        case AckFrontier():
            # There is not more to read by that, and XACK does not trip WATCH, as in Redis.
            touches = False
            _ack_frontier(state, effect, context)
        case SetLastId():
            _set_last_id(state, effect, dot)
        case SetExpiry():
            _set_expiry(state, effect, dot, context)
        case SetStreamConfig():
            _set_stream_config(state, effect, dot, context)
        case SetGroupMode():
            _set_group_mode(state, effect, dot, context)
        case SetString():
            _set_string(state, effect, dot, context)
        case SetStringExpiry():
            _set_string_expiry(state, effect, dot, context)
        case DeleteString():
            _delete_string(state, effect.key, effect.takes, dot, context)
        case AddToString():
            _add_to_string(state, effect, dot)
        case _:
            assert_never(effect)
    # A DeleteKey leaves a tombstone, which is kept; of producers nothing may be left.
    is_kept = isinstance(effect, DeleteKey) and not state.parts.has_producers
    if effect.key not in state.keys.streams and not is_kept:
        state.parts.settle(effect.key)
    if touches:
        state.keys.touched.add(effect.key)


# --- Entries ------------------------------------------------------------------------------------


def _remove(state: State, effect: Remove, context: VersionVector) -> bool:
    """Remove entries; True if any was here.  DELREF also ends what is pending of gone ones."""
    stream = state.keys.streams.get(effect.key)
    if stream is None:
        return False
    any_went = stream.remove(effect.ids, context, trims=effect.trims)
    if effect.with_references:
        _forget_references(state, effect.key, stream, effect.ids)
    state.keys.drop_if_gone(effect.key, stream)
    return any_went


def _forget_references(
    state: State, key: bytes, stream: Stream, ids: Mapping[RegionId, Ids]
) -> None:
    """End what is pending of removed entries, in all groups; the runs may grow past them."""
    for region, lane_ids in ids.items():
        gone = _gone(stream.lanes.get(region), lane_ids)
        for name, group in stream.groups.items():
            if gone and group.forget_pending(region, gone):
                state.grown_runs.note(key, name, (region,))


def _gone(lane: Lane | None, ids: Ids) -> Ids:
    """Those of the IDs without an entry.

    What is left was appended again, and was not observed by the issuer of the removal.
    """
    if lane is None or not lane.length or lane.first_id > ids[-1]:
        return ids
    return [entry_id for entry_id in ids if lane.find(entry_id) is None]


def _trim(state: State, effect: Trim, context: VersionVector) -> bool:
    """Trim a stream; True if any entry was removed."""
    stream = state.keys.streams.get(effect.key)
    if stream is None:
        return False
    any_went = stream.trim(effect.up_to, context)
    state.keys.drop_if_gone(effect.key, stream)
    return any_went


def _set_last_id(state: State, effect: SetLastId, dot: Dot) -> None:
    stream = state.keys.stream_or_new(effect.key)
    stream.set_last_id(dot.region, effect.id, dot.n)
    lane = stream.lane(dot.region)
    if effect.entries_added is not None:
        added = sum(one.entries_added for one in stream.lanes.values())
        in_other_lanes = added - lane.entries_added
        lane.entries_added = max(0, counted(effect.entries_added) - in_other_lanes)
    if effect.max_deleted_id:
        # 0-0 changes nothing, as in Redis.
        lane.max_deleted_id = effect.max_deleted_id


# --- Keys ---------------------------------------------------------------------------------------


def _delete_key(state: State, effect: DeleteKey, dot: Dot, context: VersionVector) -> None:
    """Observed-remove of the entries, last IDs and strings; delete-wins over groups and
    registers."""
    key, keys = effect.key, state.keys
    if keys.strings:
        _delete_string(state, key, effect.takes, dot, context)
    state.tombstones.add(dot, key, None)
    if state.floors.by_key:
        state.floors.forget_covered_by(key, context)
    _forget_producers(state, key, context)
    if keys.registers:
        keys.drop_registers(key)
    stream = keys.streams.get(key)
    if stream is not None:
        stream.clear_covered_by(context)
        if stream.groups:
            stream.drop_groups()
        assert not stream.groups, "delete-wins"
        keys.drop_if_gone(key, stream)


def _expire_key(state: State, effect: ExpireKey, dot: Dot, context: VersionVector) -> None:
    """Observed-remove of everything, so no tombstone is left."""
    key, keys = effect.key, state.keys
    _forget_producers(state, key, context)
    registers = keys.registers.get(key)
    if registers is not None:
        registers.forget_covered_by(context)
        keys.judge_deadline(key, registers)
        if registers.is_empty:
            del keys.registers[key]
    stream = keys.streams.get(key)
    if stream is not None:
        if not state.is_alone:
            for origin, last in stream.last_ids.items():
                if covers_dot(context, Dot(origin, last.n)):
                    state.floors.raise_to(key, origin, last.id, dot)
        stream.clear_covered_by(context)
        stream.drop_creates(context)
        keys.drop_if_gone(key, stream)


def _forget_producers(state: State, key: bytes, context: VersionVector) -> None:
    """The key was deleted: retries of what the deleter had observed are new entries."""
    if not state.keeps_producers(key):
        return
    state.parts.note_producers(key)
    state.numbered.forget_covered_by(key, context)
    state.idempotency.note_deleted(key, context)
    stream = state.keys.streams.get(key)
    if stream is not None and stream.window is not None:
        stream.window.clear_covered_by(context)


def _set_expiry(state: State, effect: SetExpiry, dot: Dot, context: VersionVector) -> None:
    if state.tombstones.observed_by(context, effect.key):
        registers = state.keys.registers_or_new(effect.key)
        registers.expiry.set(dot, effect.deadline, context)
        state.keys.judge_deadline(effect.key, registers)


def _set_stream_config(
    state: State, effect: SetStreamConfig, dot: Dot, context: VersionVector
) -> None:
    """A bound that changes makes the stream forget its window, never the records."""
    key, keys = effect.key, state.keys
    if not state.tombstones.observed_by(context, key):
        return
    before = keys.idmp_duration_of(key), keys.idmp_maxsize_of(key)
    registers = keys.registers_or_new(key)
    if effect.idmp_duration_s is not None:
        registers.idmp_duration_s.set(dot, effect.idmp_duration_s, context)
    if effect.idmp_maxsize is not None:
        registers.idmp_maxsize.set(dot, effect.idmp_maxsize, context)
    after = keys.idmp_duration_of(key), keys.idmp_maxsize_of(key)
    stream = keys.streams.get(key)
    if before != after and stream is not None and stream.window is not None:
        state.parts.note_producers(key)
        stream.window.clear()


# --- Strings ------------------------------------------------------------------------------------


def _set_string(state: State, effect: SetString, dot: Dot, context: VersionVector) -> None:
    string = state.keys.string_or_new(effect.key)
    string.set(dot, effect.value, effect.deadline, context)
    _take(state, effect.key, string, effect.takes, dot)
    state.keys.note_string(effect.key, string)


def _set_string_expiry(
    state: State, effect: SetStringExpiry, dot: Dot, context: VersionVector
) -> None:
    string = state.keys.strings.get(effect.key)
    if string is not None:
        string.set_expiry(dot, effect.deadline, context)
        state.keys.note_string(effect.key, string)


def _delete_string(
    state: State, key: bytes, takes: tuple[Taken, ...], dot: Dot, context: VersionVector
) -> None:
    """Observed-remove, so no tombstone is left."""
    string = state.keys.strings.get(key)
    if string is not None:
        string.forget_covered_by(context)
        _take(state, key, string, takes, dot)
        state.keys.note_string(key, string)


def _add_to_string(state: State, effect: AddToString, dot: Dot) -> None:
    string = state.keys.string_or_new(effect.key)
    string.add(dot, effect)
    state.keys.note_string(effect.key, string)


def _take(
    state: State, key: bytes, string: StringRegister, takes: tuple[Taken, ...], dot: Dot
) -> None:
    """Take of a counter what the issuer had observed."""
    for gone in string.take(takes):
        if not state.is_alone:
            state.ended_shares.add(key, gone, dot)


# --- Groups -------------------------------------------------------------------------------------


def _create_group(state: State, effect: CreateGroup, dot: Dot, context: VersionVector) -> None:
    """It lives unless some destroy of it lies outside the context."""
    if state.tombstones.observed_by(context, effect.key, effect.group):
        stream = state.keys.stream_or_new(effect.key)
        group = stream.groups.get(effect.group)
        if group is None:
            group = state.new_group(stream.part, effect.group)
            stream.add_group(effect.group, group)
        read = effect.entries_read
        group.add_create(dot, effect.start, None if read is None else counted(read), stream.lanes)


def _destroy_group(state: State, effect: DestroyGroup, dot: Dot) -> None:
    state.tombstones.add(dot, effect.key, effect.group)
    stream = state.keys.streams.get(effect.key)
    if stream is not None:
        stream.drop_group(effect.group)
        state.keys.drop_if_gone(effect.key, stream)


def _ack_frontier(state: State, effect: AckFrontier, context: VersionVector) -> None:
    stream = state.keys.streams.get(effect.key)
    group = None if stream is None else stream.groups.get(effect.group)
    # The group that was measured may be gone, and another one have its name.
    if stream is None or group is None or not group.creates.covers_any(context):
        return
    for region, (start, end) in effect.intervals.items():
        group.unite(region, start, end, context, stream.lanes.get(region), stream.last_ids)


def _set_group_mode(state: State, effect: SetGroupMode, dot: Dot, context: VersionVector) -> None:
    stream = state.keys.streams.get(effect.key)
    group = None if stream is None else stream.groups.get(effect.group)
    if group is not None and group.creates.covers_any(context):
        group.set_mode(effect, dot, dict(context))
        state.settings.note(dot, effect.key, effect.group)
