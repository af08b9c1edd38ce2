"""A key of another region's checkpoint merged into this region's state.

    this region's state at ``here``  ┐
                                     ├─ merge ─> the state of a region that has applied both
    images, a cut at ``there``       ┘

The result is what a region shows that reached the joined version vector by effects alone (I1); the
tests hold that against every kind of effect.  How two states are told apart without tombstones of
entries is in ``presence.py``.  Local state - consumers, pending entries, positions - stays this
region's own, and changes as the effects that it had not applied would have changed it
(``groups.py``).

Source: ``rules`` 16.
"""

from crdtstream.core.checkpoint.contents import id_of
from crdtstream.core.ids import ID_MAX, Millis
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.merge.groups import merge_groups
from crdtstream.core.merge.keys import (
    merge_ended_shares,
    merge_floors,
    merge_last_ids,
    merge_lost,
    merge_registers,
    merge_string,
    merge_tombstones,
)
from crdtstream.core.merge.lanes import NO_PLANS, LanePlans, merge_lane
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.producers import merge_producers
from crdtstream.core.merge.sent import NOTHING_OF_PRODUCERS, SentKey
from crdtstream.core.whole.state import State


def merge_key(state: State, sent: SentKey, both: Both, plans: LanePlans = NO_PLANS) -> None:
    """Merge all that another region has of a key.

    ``tombstones``, ``ended_shares``, ``idempotency``, ``numbered`` and ``settings`` are to be told
    when all keys are merged: ``restore_order``.

    Args:
        plans: of lanes that were looked at; the key has not changed since.

    Raises:
        ContentError: an image says what cannot be.
        UnreadableError: an entry that must be read cannot be.

    Cost: O(macro nodes of both).  Entries are read where the two sides differ.
    """
    keys, key = state.keys, sent.key
    state.parts.note(key)
    stream = keys.streams.get(key)
    if stream is None and (has_stream(sent) or state.keeps_producers(key)):
        # It may turn out to have nothing that is new here, and is dropped again then.
        stream = keys.stream_or_new(key)
    merge_lost(state, sent, stream)
    merge_registers(state, sent, both)
    merge_string(state, sent, both)
    merge_ended_shares(state, sent)
    merge_floors(state, sent)
    if stream is not None:
        merge_lanes(stream, sent, both, plans, arrived=keys.arrival)
        merge_last_ids(stream, sent, both)
        if stream.groups or sent.groups:
            merge_groups(state, stream, sent, both)
        if sent.producers is not NOTHING_OF_PRODUCERS or state.keeps_producers(key):
            merge_producers(state, stream, sent, both, arrived=keys.arrival)
    merge_tombstones(state, sent)
    if stream is not None:
        keys.drop_if_gone(key, stream)
    keys.touched.add(key)
    state.parts.settle(key)


def has_stream(sent: SentKey) -> bool:
    """True if the other region has a stream of the key, or knows producers of one."""
    return sent.content.stream is not None or sent.producers is not NOTHING_OF_PRODUCERS


def merge_lanes(
    stream: Stream, sent: SentKey, both: Both, plans: LanePlans, *, arrived: Millis
) -> None:
    """Merge all lanes of a key; arguments as of ``merge_key``."""
    content = sent.content.stream
    # Of a lane whose entries are all gone there are facts and no macro nodes.
    facts_of_lanes = () if content is None else content.lanes
    for region in sorted({*stream.lanes, *sent.lanes, *(one.region for one in facts_of_lanes)}):
        there_n = both.there.get(region, 0)
        if region not in stream.lanes and there_n <= both.here.get(region, 0):
            continue
        nodes = sent.lanes.get(region, [])
        lane = stream.lane(region)
        if nodes:
            here_n = both.here.get(region, 0)
            plan = plans.get(region)
            merge_lane(lane, nodes, here_n=here_n, there_n=there_n, arrived=arrived, plan=plan)
        elif content is None and sent.content.gone is None:
            # Losses of keys that are gone are forgotten in time: what is removed is noted here
            # again.
            stream.trim({region: ID_MAX}, both.there)
        else:
            lane.remove_prefix(up_to=ID_MAX, n_max=there_n)
    for facts in facts_of_lanes:
        known = stream.lanes.get(facts.region)
        if known is not None:
            known.entries_added = max(known.entries_added, facts.entries_added)
            known.max_deleted_id = max(known.max_deleted_id, id_of(facts.max_deleted_id))
