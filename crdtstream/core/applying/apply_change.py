"""Applying of local changes, each to the group that it names.

Local changes are about consumers, pending entries and positions: what one region knows of a group
and does not send to the others.  Replaying a record applies exactly the changes that were noted.
So they decide nothing either: entries, owner and time are part of the change.
"""

from collections.abc import Iterable
from typing import assert_never

from crdtstream.core.effects import (
    Ack,
    Claim,
    CreateConsumer,
    DeleteConsumer,
    Deliver,
    LocalChange,
    Redeliver,
    Release,
    SetPosition,
    counted,
)
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import RegionId
from crdtstream.core.whole.state import State


def apply_change(state: State, change: LocalChange) -> None:
    """Apply a local change; its stream and group exist."""
    stream = state.keys.streams[change.key]
    group = stream.groups[change.group]
    match change:
        case Deliver():
            if not change.noack:
                _touch_if_idle_matters(state, group, change)
            group.deliver(change, stream.lanes, stream.last_ids)
            if change.noack:
                _note_grown(state, change, change.ids)
        case Redeliver():
            group.redeliver(change.ids, change.consumer, change.now)
        case Ack():
            group.acknowledge(change.ids)
            state.acknowledged_count += sum(map(len, change.ids.values()))
            _note_grown(state, change, change.ids)
        case Claim():
            # One may be idle for longer than it was (XCLAIM IDLE), or newly pending.
            _touch_if_idle_matters(state, group, change)
            group.claim(change, stream.lanes)
            _note_grown(state, change, change.dropped)
        case Release():
            group.release(change)
            state.keys.touched.add(change.key)
        case CreateConsumer():
            group.consumer(change.consumer, change.now)
        case DeleteConsumer():
            group.delete_consumer(change.consumer)
        case SetPosition():
            read = change.entries_read
            group.set_position(
                change.position, stream.lanes, None if read is None else counted(read)
            )
        case _:
            assert_never(change)


def begins_new_run(change: LocalChange) -> bool:
    """True if the change makes a hole in a group's run, so that the run must be issued before."""
    match change:
        case DeleteConsumer() | SetPosition():
            return True
        case Claim():
            return change.last_id is not None
        case Deliver() | Redeliver() | Ack() | Release() | CreateConsumer():
            return False
        case _:
            assert_never(change)


def _touch_if_idle_matters(state: State, group: Group, change: Deliver | Claim) -> None:
    """Wake the readers that wait for idle entries: all that they knew of may be gone."""
    if group.claims_idle:
        state.keys.touched.add(change.key)


def _note_grown(state: State, change: LocalChange, lanes: Iterable[RegionId]) -> None:
    state.grown_runs.note(change.key, change.group, lanes)
