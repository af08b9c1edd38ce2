"""Slips in the changes that effects make to the state: contexts, stability, groups, streams."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from crdtstream.commands.groups import delivery
from crdtstream.core import clock
from crdtstream.core.applying import apply_batch, apply_effect
from crdtstream.core.checkpoint.parts import NO_IMAGE
from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, join, meet
from crdtstream.core.effects import DeleteKey, EffectBatch, ExpireKey, IdempotentId, Record
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.lane_pel import LanePel
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.pel_chunk import PelChunk
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.keyspace.keyspace import Keyspace
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.keyspace.tombstones import Tombstones
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.producers.idempotency import IdempotencyRecords
from crdtstream.core.replica import Replica
from crdtstream.core.stability import StabilityTracker
from crdtstream.core.whole.state import State
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.region.links.serve import Serve
from tests.planted.bug import Bug, Patch, everywhere

# --- Contexts, batches ----------------------------------------------------------------------------


def _context_off_by_one() -> Sequence[Patch]:
    def covers_dot(vv: VersionVector, dot: clock.Dot) -> bool:
        return vv.get(dot.region, 0) > dot.n

    return everywhere(clock.covers_dot, covers_dot)


def _causal_wait_skipped() -> Sequence[Patch]:
    def ready(self: Replica, batch: EffectBatch) -> bool:
        return batch.first_n == self.vv.get(batch.origin, 0) + 1

    # Assertions would stop the node at once; the simulator's own checks have to notice it, too.
    unchecked = [(one, "covers", _all_is_covered) for one in (apply_batch, apply_effect)]
    return [(Replica, "ready", ready), *unchecked]


def _all_is_covered(_vv: VersionVector, _other: VersionVector) -> bool:
    return True


def _relay_recut() -> Sequence[Patch]:
    """A server cuts what it relays into batches of one effect."""
    take = Serve.take

    def cut(self: Serve, records: Sequence[Record]) -> None:
        at = len(self._batches)
        take(self, records)
        sent, self._batches[at:] = self._batches[at:], []
        for encoded in sent:
            self._batches += _halves(encoded, own=self._own.identity.region)

    return [(Serve, "take", cut)]


def _halves(encoded: bytes, *, own: RegionId) -> list[bytes]:
    batch = decode_batch(encoded)
    if batch.origin == own or batch.count < 2 or len(batch.others) != batch.count:
        return [encoded]
    first = replace(batch, count=1, others=batch.others[:1])
    others = [(offset - 1, effect) for offset, effect in batch.others[1:]]
    rest = replace(batch, first_n=batch.first_n + 1, count=batch.count - 1, others=others)
    return [encode_batch(first), encode_batch(rest)]


# --- Stability ------------------------------------------------------------------------------------


def _tombstone_dropped_one_ack_early() -> Sequence[Patch]:
    """The last member to acknowledge is not waited for."""

    def stable(self: StabilityTracker, own_vv: VersionVector) -> MutableVersionVector:
        heard = sorted(self.heard().values(), key=lambda vv: sum(vv.values()))
        return meet([own_vv, *heard[1:]])

    return [(StabilityTracker, "stable", stable)]


def _stability_before_own_component() -> Sequence[Patch]:
    """A version vector counts although effects of its region are still on their way (rule 3)."""

    def stable(self: StabilityTracker, own_vv: VersionVector) -> MutableVersionVector:
        return meet([own_vv, *self.heard().values()])

    return [(StabilityTracker, "stable", stable)]


def _tombstones_are_not_asked() -> Sequence[Patch]:
    def observed_by(
        _self: Tombstones, _context: VersionVector, _key: bytes, _group: bytes | None = None
    ) -> bool:
        return True

    return [(Tombstones, "observed_by", observed_by)]


# --- Groups ---------------------------------------------------------------------------------------


def _frontier_as_a_maximum() -> Sequence[Patch]:
    """An acknowledged run counts from the beginning of its lane."""
    unite = Group.unite

    def wrong(self: Group, region: RegionId, start: StreamId, *rest: Any) -> None:
        del start
        unite(self, region, ID_MIN, *rest)

    return [(Group, "unite", wrong)]


def _an_absorbed_chunk_is_used_again() -> Sequence[Patch]:
    """A chunk of pending entries that another has absorbed counts as an empty one."""
    drop = Pel._drop

    def wrong(self: Pel, lane: LanePel, chunk: PelChunk) -> None:
        drop(self, lane, chunk)
        if not chunk.held and chunk.image == NO_IMAGE and not self._claims:
            self._spare = chunk

    return [(Pel, "_drop", wrong)]


def _pel_survives_its_incarnation() -> Sequence[Patch]:
    """A group that is destroyed leaves its PEL to the next one of its name."""
    kept: dict[tuple[RegionId, bytes, bytes], Group] = {}
    destroy, create = apply_effect._destroy_group, apply_effect._create_group

    def wrong_destroy(state: State, effect: Any, dot: Any) -> None:
        stream = state.keys.streams.get(effect.key)
        if stream is not None and effect.group in stream.groups:
            kept[state.region, effect.key, effect.group] = stream.groups[effect.group]
        destroy(state, effect, dot)

    def wrong_create(state: State, effect: Any, dot: Any, context: VersionVector) -> None:
        create(state, effect, dot, context)
        stream = state.keys.streams.get(effect.key)
        before = kept.pop((state.region, effect.key, effect.group), None)
        group = None if stream is None else stream.groups.get(effect.group)
        if before is not None and group is not None:
            group.pel, group.consumers = before.pel, before.consumers
            group.lanes.update(before.lanes)
            before.pel._lanes = group.lanes

    def deliver_upto(self: LaneProgress, entry_id: StreamId, entries_read: int | None) -> None:
        # Without the assertion, which a replay fails: the simulator's own checks have to notice it.
        self.last_delivered = entry_id
        self.entries_read = entries_read

    return [
        (apply_effect, "_destroy_group", wrong_destroy),
        (apply_effect, "_create_group", wrong_create),
        (LaneProgress, "deliver_upto", deliver_upto),
    ]


def _home_is_not_asked() -> Sequence[Patch]:
    """Each region delivers, whatever the group's mode says."""

    def require_home(*_arguments: Any) -> None:
        pass

    def lanes_handed_out(_region: RegionId, stream: Stream, _group: Group) -> Any:
        return stream.lanes.values()

    return [
        *everywhere(delivery.require_home, require_home),
        *everywhere(delivery.lanes_handed_out, lanes_handed_out),
    ]


# --- Streams --------------------------------------------------------------------------------------


def _trim_by_id_alone() -> Sequence[Patch]:
    """A trim removes entries that it had not observed."""

    def trim(state: State, effect: Any, context: VersionVector) -> None:
        everything: MutableVersionVector = dict(context)
        join(everything, dict.fromkeys(effect.up_to, 1 << 62))
        stream = state.keys.streams.get(effect.key)
        if stream is not None:
            stream.trim(effect.up_to, everything)
            state.keys.drop_if_gone(effect.key, stream)

    return [(apply_effect, "_trim", trim)]


def _remove_by_id_alone() -> Sequence[Patch]:
    remove = Stream.remove

    def wrong(self: Stream, ids: Any, context: VersionVector, **named: Any) -> Any:
        everything: MutableVersionVector = dict(context)
        join(everything, dict.fromkeys(ids, 1 << 62))
        return remove(self, ids, everything, **named)

    return [(Stream, "remove", wrong)]


def _delete_keeps_the_last_id() -> Sequence[Patch]:
    """The register of a last ID only grows (rule 5)."""
    clear = Stream.clear_covered_by

    def wrong(self: Stream, context: VersionVector) -> None:
        before = dict(self.last_ids)
        clear(self, context)
        self.last_ids.update(before)

    return [(Stream, "clear_covered_by", wrong)]


def _expiry_deletes_as_a_user_does() -> Sequence[Patch]:
    """Deletes by expiry leave a tombstone, and end groups that were made again."""

    def wrong(state: State, effect: ExpireKey, dot: Any, context: VersionVector) -> None:
        apply_effect._delete_key(state, DeleteKey(effect.key), dot, context)

    return [(apply_effect, "_expire_key", wrong)]


def _a_window_names_the_smallest_dot() -> Sequence[Patch]:
    """A window also names the dot of an entry that was removed with its key."""

    def recognised(
        self: IdempotencyRecords, key: bytes, idempotent: IdempotentId
    ) -> tuple[Dot, StreamId]:
        return min(self._by_key[key].by_name[idempotent].items())

    return [(IdempotencyRecords, "recognised", recognised)]


def _a_del_takes_any_string() -> Sequence[Patch]:
    """A delete of a string takes values that it had not observed."""

    def wrong(self: StringRegister, context: VersionVector) -> None:
        self._values.clear()

    return [(StringRegister, "forget_covered_by", wrong)]


def _a_string_s_deadline_is_the_key_s() -> Sequence[Patch]:
    """EXPIRE reaches values that it had not observed."""

    def wrong(
        self: StringRegister, dot: Dot, deadline: Millis | None, context: VersionVector
    ) -> None:
        for _, value in self.values():
            value.expiry.set(dot, deadline, context)

    return [(StringRegister, "set_expiry", wrong)]


def _what_comes_late_is_taken_for_given() -> Sequence[Patch]:
    """To a new connection an ID stands for all that is below it by now."""

    def wrong(self: Lane, arrived: Millis) -> int:
        return 0 if self.tail is None else self.tail.n[-1]

    return [(Lane, "last_n_before", wrong)]


def _arrivals_go_back_with_the_clock() -> Sequence[Patch]:
    """Entries that arrive after the clock was set back count as having arrived before."""
    advance = Keyspace.advance

    def wrong(self: Keyspace, now: Millis) -> None:
        self.arrival = now
        advance(self, now)

    return [(Keyspace, "advance", wrong)]


def _local_changes_are_not_replayed() -> Sequence[Patch]:
    def replay(self: Replica, record: Record) -> None:
        right(self, Record(record.origin, record.first_n, record.last_n, record.batch, None))

    right = Replica.replay
    return [(Replica, "replay", replay)]


IN_STATE: Final = (
    Bug(
        "context-off-by-one",
        "a delete spares what it had observed last",
        _context_off_by_one,
        frozenset({"I1", "I13"}),
    ),
    Bug(
        "causal-wait-skipped",
        "a remove overtakes the add that it removes",
        _causal_wait_skipped,
        frozenset({"I2"}),
        seed=4,
    ),
    Bug(
        "relay-recut",
        "version vectors stand within a batch",
        _relay_recut,
        frozenset({"I3"}),
        seed=5,
    ),
    Bug(
        "tombstone-dropped-one-ack-early",
        "a group lives on in one region after it was destroyed",
        _tombstone_dropped_one_ack_early,
        frozenset({"I1", "I13"}),
        seed=4,
    ),
    Bug(
        "stability-before-own-component",
        "a create that is on its way finds its tombstone gone",
        _stability_before_own_component,
        frozenset({"I1", "I13"}),
        seed=4,
    ),
    Bug(
        "tombstones-are-not-asked",
        "a group that was destroyed comes back with a late create",
        _tombstones_are_not_asked,
        frozenset({"I1"}),
    ),
    Bug(
        "frontier-as-a-maximum",
        "entries between two acks are skipped",
        _frontier_as_a_maximum,
        frozenset({"I1", "I9"}),
        seed=210,
    ),
    Bug(
        "pel-survives-its-incarnation",
        "consumers of a new group find entries that they never read",
        _pel_survives_its_incarnation,
        frozenset({"I9"}),
        seed=50,
    ),
    Bug(
        "an-absorbed-chunk-is-used-again",
        "a node ends when a consumer reads on that had acknowledged nearly all of what it read",
        _an_absorbed_chunk_is_used_again,
        frozenset({"assertion"}),
        seed=17,
    ),
    Bug(
        "home-is-not-asked",
        "two regions deliver the same entry",
        _home_is_not_asked,
        frozenset({"I12"}),
        seed=7,
    ),
    Bug(
        "trim-by-id-alone",
        "a trim takes what it had not seen",
        _trim_by_id_alone,
        frozenset({"I1"}),
        seed=6,
    ),
    Bug(
        "remove-by-id-alone",
        "XDEL takes an entry appended again",
        _remove_by_id_alone,
        frozenset({"I1"}),
        seed=472,
    ),
    Bug(
        "delete-keeps-the-last-id",
        "two orders, two last IDs",
        _delete_keeps_the_last_id,
        frozenset({"I1"}),
    ),
    Bug(
        "expiry-deletes-as-a-user-does",
        "a group made again after the deadline is gone",
        _expiry_deletes_as_a_user_does,
        frozenset({"I1"}),
        seed=8,
    ),
    Bug(
        "a-window-names-the-smallest-dot",
        "a retry of a message that was deleted and appended again makes a second entry",
        _a_window_names_the_smallest_dot,
        frozenset({"rule 20"}),
        seed=82,
    ),
    Bug(
        "a-del-takes-any-string",
        "a lock that was taken is gone, in some regions",
        _a_del_takes_any_string,
        frozenset({"I1"}),
    ),
    Bug(
        "a-string-s-deadline-is-the-key-s",
        "a lock ends before its time, in some regions",
        _a_string_s_deadline_is_the_key_s,
        frozenset({"I1"}),
    ),
    Bug(
        "what-comes-late-is-taken-for-given",
        "an XREAD that may skip nothing skips an entry",
        _what_comes_late_is_taken_for_given,
        frozenset({"I17"}),
        seed=6,
    ),
    Bug(
        "arrivals-go-back-with-the-clock",
        "an XREAD that may skip nothing skips an entry",
        _arrivals_go_back_with_the_clock,
        frozenset({"I17"}),
        seed=90,
    ),
    Bug(
        "local-changes-are-not-replayed",
        "what was pending is forgotten at a restart",
        _local_changes_are_not_replayed,
        frozenset({"I8", "I9"}),
        seed=16,
    ),
)
