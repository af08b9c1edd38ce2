"""Bugs that can be planted, to see that the simulator notices them.

Each is a slip that somebody could make, at the place where it would be made.  ``planted`` puts one
into the running program and takes it out again.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from crdtstream import compiled
from crdtstream.commands.groups import delivery
from crdtstream.core import clock
from crdtstream.core.applying import apply_effect
from crdtstream.core.checkpoint.parts import Changes, Cut, Kind, Part
from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, join, meet
from crdtstream.core.effects import EffectBatch, ExpireKey, Record
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.inbox import Inbox
from crdtstream.core.keyspace.keyspace import Keyspace
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.keyspace.tombstones import Tombstones
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.replica import Replica
from crdtstream.core.stability import StabilityTracker
from crdtstream.core.state import State
from crdtstream.core.stream import Stream
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.database.database import Database
from crdtstream.query import planning
from crdtstream.region.links.messages import Progress
from crdtstream.region.links.pull import Pull
from crdtstream.region.links.serve import Serve
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.ready import Parcel
from crdtstream.region.region import Region
from crdtstream.region.retention import Retention
from crdtstream.region.staleness import Staleness
from crdtstream.region.tick import Tick
from crdtstream.sim.checkpoints import SimCheckpoints
from crdtstream.sim.disk import Disk
from crdtstream.store.checkpoints import CheckpointRow

# Where something is put, under which name, and what.
Patch: TypeAlias = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that can be planted.

    Attributes:
        harm: what users would see.
        patches: what it replaces.
        noticed_as: the numbers of invariants, one of which the simulator names.
        seed: from here on few seeds of 400 steps notice it.
        history: which kept history notices it instead, where random ones seldom come to it.
    """

    name: str
    harm: str
    patches: Callable[[], Sequence[Patch]]
    noticed_as: frozenset[str]
    seed: int = 0
    history: str = ""


class CompiledError(Exception):
    """A bug cannot be planted in compiled code, which calls its functions without looking them
    up."""


def require_sources() -> None:
    """Goes on where a planted bug has an effect.

    Raises:
        CompiledError: the program is compiled.
    """
    if compiled.is_compiled():
        raise CompiledError(
            f"a bug can be planted only where the sources run: set {compiled.PURE}=1"
        )


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have the bug of this name in the program.

    Raises:
        KeyError: there is none.
        CompiledError: the program is compiled.
    """
    patches = BUGS[name].patches()
    require_sources()
    before = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    try:
        for owner, attribute, wrong in patches:
            setattr(owner, attribute, wrong)
        yield
    finally:
        for owner, attribute, right in before:
            setattr(owner, attribute, right)


def _everywhere(function: Callable[..., Any], wrong: Callable[..., Any]) -> list[Patch]:
    """Replace a function in each module of ours that knows it."""
    return [
        (module, name, wrong)
        for module_name, module in sys.modules.items()
        if module_name.startswith("crdtstream.")
        for name, value in vars(module).items()
        if value is function
    ]


# --- Contexts, batches ----------------------------------------------------------------------------


def _context_off_by_one() -> Sequence[Patch]:
    def covers_dot(vv: VersionVector, dot: clock.Dot) -> bool:
        return vv.get(dot.region, 0) > dot.n

    return _everywhere(clock.covers_dot, covers_dot)


def _causal_wait_skipped() -> Sequence[Patch]:
    def ready(self: Replica, batch: EffectBatch) -> bool:
        return batch.first_n == self.vv.get(batch.origin, 0) + 1

    return [(Replica, "ready", ready)]


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


# --- Run, log, then tell --------------------------------------------------------------------------


def _reply_before_commit() -> Sequence[Patch]:
    def owe(self: Tick, parcel: Parcel) -> None:
        self.open()
        parcel.receiver.receive(parcel)

    return [(Tick, "owe", owe)]


def _read_does_not_wait() -> Sequence[Patch]:
    def hold(_self: Outstanding, _parcels: list[Parcel]) -> bool:
        return False

    return [(Outstanding, "hold", hold)]


def _client_is_not_woken() -> Sequence[Patch]:
    """What a client sent behind a blocked command is never run."""
    return [(Tick, "wake", lambda _self, _receiver: None)]


def _deadline_is_not_told() -> Sequence[Patch]:
    """Nobody passes time to a region whose blocked clients wait for it."""
    return [(Database, "next_deadline", lambda _self: None)]


def _uncertain_outcome_is_not_told() -> Sequence[Patch]:
    """Who waits while the disk refuses hears nothing."""

    def take_parcels(self: Outstanding) -> list[Parcel]:
        right(self)
        return []

    right = Outstanding.take_parcels
    return [(Outstanding, "take_parcels", take_parcels)]


def _reply_overtakes_the_one_before() -> Sequence[Patch]:
    """Of what a commit lets go, the last is told first."""

    def note_logged(self: Outstanding, seq: int) -> list[Parcel]:
        return right(self, seq)[::-1]

    right = Outstanding.note_logged
    return [(Outstanding, "note_logged", note_logged)]


def _tick_is_not_opened_for_batches() -> Sequence[Patch]:
    """What a peer's batch changed waits until somebody else asks."""

    def apply_arrivals(self: Region, now: Millis) -> None:
        self.tick.on_open, kept = (lambda: None), self.tick.on_open
        right(self, now)
        self.tick.on_open = kept

    right = Region.apply_arrivals
    return [(Region, "apply_arrivals", apply_arrivals)]


def _acks_from_logged() -> Sequence[Patch]:
    ack = Pull._ack

    def wrong(self: Pull, now: Any, at: float) -> Progress:
        return replace(ack(self, now, at), durable_vv=dict(self._own.outstanding.logged_vv))

    return [(Pull, "_ack", wrong)]


def _heartbeats_from_applied() -> Sequence[Patch]:
    heartbeat = Serve._heartbeat

    def wrong(self: Serve, now: Any, at: float) -> Progress:
        return replace(heartbeat(self, now, at), durable_vv=dict(self._own.replica.vv))

    return [(Serve, "_heartbeat", wrong)]


def _lag_is_looked_at_once_a_tick() -> Sequence[Patch]:
    """Effects of the open tick do not count yet when the next write is admitted."""

    def has_room(self: Staleness, count: int, now: Millis) -> bool:
        return self.lag._marked_n + count <= self._n_max and now <= self._until

    return [(Staleness, "_has_room", has_room)]


def _lag_counts_what_is_under_way() -> Sequence[Patch]:
    """What a link has sent counts as being in the other region."""
    take = Serve.take

    def wrong(self: Serve, records: Sequence[Record]) -> None:
        take(self, records)
        own = self._own.identity.region
        self._own.replication_lag.note_durable(self.region, self.sent_vv.get(own, 0))

    return [(Serve, "take", wrong)]


# --- Dots are never reused ------------------------------------------------------------------------


def _dot_reused_after_a_lost_tail() -> Sequence[Patch]:
    """A folder whose end was lost, or that was put back, counts as proven."""
    return [(Disk, "is_proven", property(lambda _self: True))]


def _unapplied_effects_survive_a_recovery() -> Sequence[Patch]:
    """A peer keeps what it holds unapplied of a region that recovers, from whatever link."""

    def keep(_self: Inbox) -> None:
        pass

    return [(Inbox, "discard", keep)]


# --- Groups ---------------------------------------------------------------------------------------


def _frontier_as_a_maximum() -> Sequence[Patch]:
    """An acknowledged run counts from the beginning of its lane."""
    unite = Group.unite

    def wrong(self: Group, region: RegionId, start: StreamId, *rest: Any) -> None:
        del start
        unite(self, region, ID_MIN, *rest)

    return [(Group, "unite", wrong)]


def _pel_survives_its_incarnation() -> Sequence[Patch]:
    """A group that is destroyed leaves its PEL to the one that is made next."""
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

    return [
        (apply_effect, "_destroy_group", wrong_destroy),
        (apply_effect, "_create_group", wrong_create),
    ]


def _home_is_not_asked() -> Sequence[Patch]:
    """Each region delivers, whatever the group's mode says."""

    def require_home(*_arguments: Any) -> None:
        pass

    def lanes_handed_out(_region: RegionId, stream: Stream, _group: Group) -> Any:
        return stream.lanes.values()

    return [
        *_everywhere(delivery.require_home, require_home),
        *_everywhere(delivery.lanes_handed_out, lanes_handed_out),
    ]


# --- Programs -------------------------------------------------------------------------------------


def _rows_are_appended_again() -> Sequence[Patch]:
    """A region does not look which rows it has."""

    def missing_rows(_self: Replica, _key: bytes, rows: Any, count: int) -> list[Any]:
        return [(rows.row, rows.row + count)]

    return [(Replica, "missing_rows", missing_rows)]


def _plan_passes_over_a_dot() -> Sequence[Patch]:
    """A plan begins one dot behind the end of the one before."""
    within = planning.Bounds.within

    def wrong(self: planning.Bounds, origin: RegionId) -> Any:
        found = within(self, origin)
        return found and replace(found, above_n=found.above_n + 1)

    return [(planning.Bounds, "within", wrong)]


# --- Streams --------------------------------------------------------------------------------------


def _trim_by_id_alone() -> Sequence[Patch]:
    """A trim takes what it had not observed."""

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
    """What expiry deletes leaves a tombstone, and ends groups that were made again."""

    def wrong(state: State, effect: ExpireKey, dot: Any, context: VersionVector) -> None:
        apply_effect._delete_key(state, effect, dot, context)  # type: ignore[arg-type]

    return [(apply_effect, "_expire_key", wrong)]


def _a_del_takes_any_string() -> Sequence[Patch]:
    """What deletes a string takes values that it had not observed."""

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
    """What comes after the clock was set back counts as there before."""
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


# --- Checkpoints ----------------------------------------------------------------------------------


def _a_change_is_not_noted() -> Sequence[Patch]:
    """What changes of a key or a group counts as it was written."""
    note = Changes.note

    def wrong(self: Changes, part: Part) -> None:
        if part.kind in (Kind.NODE, Kind.ROOT) or not part.image:
            note(self, part)

    return [(Changes, "note", wrong)]


def _not_noted(kind: Kind) -> Callable[[], Sequence[Patch]]:
    """What changes of a kind of parts counts as it was written."""
    note = Changes.note

    def wrong(self: Changes, part: Part) -> None:
        if part.kind is not kind or not part.image:
            note(self, part)

    return lambda: [(Changes, "note", wrong)]


def _a_node_that_is_gone_stays() -> Sequence[Patch]:
    """A checkpoint keeps macro nodes that the state has no more."""
    drop = Changes.drop

    def wrong(self: Changes, part: Part) -> None:
        if part.kind is not Kind.NODE:
            drop(self, part)

    return [(Changes, "drop", wrong)]


def _a_cut_has_what_came_later() -> Sequence[Patch]:
    """What changes while a checkpoint is written is not kept as it was at the cut."""
    return [(Cut, "keep", lambda _self, _part: None)]


def _members_are_not_asked() -> Sequence[Patch]:
    """The log is cut behind a checkpoint, whoever lacks what goes."""

    def cut_upto(self: Retention, *_arguments: object) -> int:
        return max(self.first_seq - 1, self.covered_seq)

    return [(Retention, "cut_upto", cut_upto)]


def _a_checkpoint_covers_the_open_tick() -> Sequence[Patch]:
    """A checkpoint says of one record more that it has it."""
    commit = SimCheckpoints.commit

    async def wrong(self: SimCheckpoints, row: CheckpointRow, dropped: Sequence[int]) -> None:
        await commit(self, replace(row, seq=min(row.seq + 1, self.log.last_seq)), dropped)

    return [(SimCheckpoints, "commit", wrong)]


_ALL: Final = (
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
    ),
    Bug("relay-recut", "version vectors stand within a batch", _relay_recut, frozenset({"I3"})),
    Bug(
        "tombstone-dropped-one-ack-early",
        "a group lives on in one region after it was destroyed",
        _tombstone_dropped_one_ack_early,
        frozenset({"I1", "I13"}),
    ),
    Bug(
        "stability-before-own-component",
        "a create that is on its way finds its tombstone gone",
        _stability_before_own_component,
        frozenset({"I1", "I13"}),
    ),
    Bug(
        "tombstones-are-not-asked",
        "a group that was destroyed comes back with a late create",
        _tombstones_are_not_asked,
        frozenset({"I1"}),
    ),
    Bug(
        "reply-before-commit",
        "a crash takes what a reply told",
        _reply_before_commit,
        frozenset({"I7"}),
    ),
    Bug(
        "read-does-not-wait",
        "a reader has seen what a crash takes",
        _read_does_not_wait,
        frozenset({"I7"}),
    ),
    Bug(
        "reply-overtakes-the-one-before",
        "a client takes a reply for another one",
        _reply_overtakes_the_one_before,
        frozenset({"I7"}),
    ),
    Bug(
        "uncertain-outcome-is-not-told",
        "a client waits without end while the disk refuses",
        _uncertain_outcome_is_not_told,
        frozenset({"I7"}),
    ),
    Bug(
        "client-is-not-woken",
        "a pipeline stops behind a blocked command",
        _client_is_not_woken,
        frozenset({"I7"}),
    ),
    Bug(
        "deadline-is-not-told",
        "XREAD BLOCK never comes back",
        _deadline_is_not_told,
        frozenset({"I7"}),
    ),
    Bug(
        "tick-is-not-opened-for-batches",
        "what a peer sent is logged when a client asks",
        _tick_is_not_opened_for_batches,
        frozenset({"assertion"}),
    ),
    Bug(
        "acks-from-logged",
        "WAIT counts what a power cut takes",
        _acks_from_logged,
        frozenset({"I3"}),
    ),
    Bug(
        "heartbeats-from-applied",
        "regions count on what is not durable",
        _heartbeats_from_applied,
        frozenset({"I3"}),
    ),
    Bug(
        "lag-is-looked-at-once-a-tick",
        "a region that is lost takes more with it than it may",
        _lag_is_looked_at_once_a_tick,
        frozenset({"I15"}),
        9,
    ),
    Bug(
        "lag-counts-what-is-under-way",
        "a region that is lost takes more with it than it may",
        _lag_counts_what_is_under_way,
        frozenset({"I15"}),
        9,
    ),
    Bug(
        "dot-reused-after-a-lost-tail",
        "two entries have one dot",
        _dot_reused_after_a_lost_tail,
        frozenset({"I3"}),
        35,
    ),
    Bug(
        "unapplied-effects-survive-a-recovery",
        "an effect of an earlier run is applied after its number was used again",
        _unapplied_effects_survive_a_recovery,
        frozenset({"I3", "I2", "I1"}),
        history="what-is-held-unapplied-is-forgotten-before-the-answer",
    ),
    Bug(
        "frontier-as-a-maximum",
        "entries between two acks are skipped",
        _frontier_as_a_maximum,
        frozenset({"I1", "I9"}),
        205,
    ),
    Bug(
        "pel-survives-its-incarnation",
        "consumers of a new group find entries that they never read",
        _pel_survives_its_incarnation,
        frozenset({"I9"}),
    ),
    Bug(
        "home-is-not-asked",
        "two regions deliver the same entry",
        _home_is_not_asked,
        frozenset({"I12"}),
    ),
    Bug(
        "rows-are-appended-again",
        "Spark's retry adds its rows twice",
        _rows_are_appended_again,
        frozenset({"I13"}),
    ),
    Bug(
        "plan-passes-over-a-dot",
        "Spark skips an entry",
        _plan_passes_over_a_dot,
        frozenset({"I14"}),
    ),
    Bug(
        "trim-by-id-alone",
        "a trim takes what it had not seen",
        _trim_by_id_alone,
        frozenset({"I1"}),
    ),
    Bug(
        "remove-by-id-alone",
        "XDEL takes an entry appended again",
        _remove_by_id_alone,
        frozenset({"I1"}),
        230,
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
    ),
    Bug(
        "arrivals-go-back-with-the-clock",
        "an XREAD that may skip nothing skips an entry",
        _arrivals_go_back_with_the_clock,
        frozenset({"I17"}),
    ),
    Bug(
        "local-changes-are-not-replayed",
        "what was pending is forgotten at a restart",
        _local_changes_are_not_replayed,
        frozenset({"I8", "I9"}),
    ),
    Bug(
        "a-change-is-not-noted",
        "a restart has a group as it was before",
        _a_change_is_not_noted,
        frozenset({"I1", "I8", "error", "assertion"}),
    ),
    Bug(
        "a-group-s-change-is-not-noted",
        "a restart has positions and consumers of a group as they were before",
        _not_noted(Kind.GROUP),
        frozenset({"I8", "I9", "I18", "error", "assertion"}),
    ),
    Bug(
        "a-pending-entry-s-change-is-not-noted",
        "a restart has entries pending that were acknowledged",
        _not_noted(Kind.PENDING),
        frozenset({"I8", "I9", "I18", "error", "assertion"}),
    ),
    Bug(
        "a-node-that-is-gone-stays",
        "a restart brings back what was deleted, or cannot read its checkpoint",
        _a_node_that_is_gone_stays,
        frozenset({"I8", "I18", "error", "assertion"}),
    ),
    Bug(
        "a-cut-has-what-came-later",
        "a restart finds in its checkpoint what it reads in the log again",
        _a_cut_has_what_came_later,
        frozenset({"I1", "I8", "I9", "error", "assertion"}),
        35,
    ),
    Bug(
        "a-checkpoint-covers-the-open-tick",
        "a restart loses what was acknowledged while a checkpoint began",
        _a_checkpoint_covers_the_open_tick,
        frozenset({"I1", "I2", "I7", "I8", "error"}),
    ),
    Bug(
        "members-are-not-asked",
        "the log is cut while another region lacks what goes",
        _members_are_not_asked,
        frozenset({"liveness"}),
    ),
)
BUGS: Final = {bug.name: bug for bug in _ALL}
