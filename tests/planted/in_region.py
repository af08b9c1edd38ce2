"""Slips of a region: replies that leave too early, dots, programs that ask, checkpoints."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from crdtstream.core.checkpoint.parts import Changes, Cut, Kind, Part
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.inbox import Inbox
from crdtstream.core.replica import Replica
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
from tests.planted.bug import Bug, Patch

# --- Run, log, then tell --------------------------------------------------------------------------


def reply_before_commit() -> Sequence[Patch]:
    def owe(self: Tick, parcel: Parcel) -> None:
        self.open()
        parcel.receiver.receive(parcel)

    return [(Tick, "owe", owe)]


def _read_does_not_wait() -> Sequence[Patch]:
    def hold(_self: Outstanding, _parcels: list[Parcel]) -> bool:
        return False

    return [(Outstanding, "hold", hold)]


def _client_is_not_woken() -> Sequence[Patch]:
    """Commands that a client sent behind a blocked one are never run."""
    return [(Tick, "wake", lambda _self, _receiver: None)]


def _deadline_is_not_told() -> Sequence[Patch]:
    """Time is never passed to a region whose blocked clients wait for it."""
    return [(Database, "next_deadline", lambda _self: None)]


def _uncertain_outcome_is_not_told() -> Sequence[Patch]:
    """Clients that wait while the disk refuses get no reply."""

    def take_parcels(self: Outstanding) -> list[Parcel]:
        right(self)
        return []

    right = Outstanding.take_parcels
    return [(Outstanding, "take_parcels", take_parcels)]


def _reply_overtakes_the_one_before() -> Sequence[Patch]:
    """The last reply of those that a commit lets go is sent first."""

    def note_logged(self: Outstanding, seq: int) -> list[Parcel]:
        return right(self, seq)[::-1]

    right = Outstanding.note_logged
    return [(Outstanding, "note_logged", note_logged)]


def _tick_is_not_opened_for_batches() -> Sequence[Patch]:
    """Changes by a peer's batch wait until a command comes."""

    def apply_arrivals(self: Region, now: Millis) -> None:
        self.tick.on_open, kept = (lambda: None), self.tick.on_open
        right(self, now)
        self.tick.on_open = kept

    right = Region.apply_arrivals
    return [(Region, "apply_arrivals", apply_arrivals)]


def _acks_from_logged() -> Sequence[Patch]:
    ack = Pull._ack

    def wrong(self: Pull, *args: Any) -> Progress:
        return replace(ack(self, *args), durable_vv=dict(self._own.outstanding.logged_vv))

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
    """Effects that a link has sent count as being in the other region."""
    take = Serve.take

    def wrong(self: Serve, records: Sequence[Record]) -> None:
        take(self, records)
        own = self._own.identity.region
        self._own.replication_lag.note_durable(self.region, self.sent_vv.get(own, 0))
        # As the region does before it notes an ack.
        self._own.tick.open()

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


# --- Programs -------------------------------------------------------------------------------------


def _rows_are_appended_again() -> Sequence[Patch]:
    """A region does not check which rows it has."""

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


# --- Checkpoints ----------------------------------------------------------------------------------


def _a_change_is_not_noted() -> Sequence[Patch]:
    """Changed parts of a key or a group count as written."""
    note = Changes.note

    def wrong(self: Changes, part: Part) -> None:
        if part.kind in (Kind.NODE, Kind.ROOT) or not part.image:
            note(self, part)

    return [(Changes, "note", wrong)]


def _not_noted(kind: Kind) -> Callable[[], Sequence[Patch]]:
    """Changed parts of one kind count as written."""
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
    """Parts that change while a checkpoint is written are not kept as they were at the cut."""
    return [(Cut, "keep", lambda _self, _part: None)]


def _members_are_not_asked() -> Sequence[Patch]:
    """The log is cut behind a checkpoint, even where members lack what is cut."""

    def cut_upto(self: Retention, *_arguments: object, **_named: object) -> int:
        return max(self.first_seq - 1, self.covered_seq)

    return [(Retention, "cut_upto", cut_upto)]


def _only_copies_are_cut() -> Sequence[Patch]:
    """A member that was away for too long is given up, also for effects that no other region
    has."""

    def cut_upto(self: Retention, *arguments: Any, only_copy_seq: int) -> int:
        return right(self, *arguments, only_copy_seq=max(only_copy_seq, self.covered_seq + 1))

    right = Retention.cut_upto
    return [(Retention, "cut_upto", cut_upto)]


def _a_checkpoint_covers_the_open_tick() -> Sequence[Patch]:
    """A checkpoint claims one record more than it has."""
    commit = SimCheckpoints.commit

    async def wrong(self: SimCheckpoints, row: CheckpointRow, dropped: Sequence[int]) -> None:
        await commit(self, replace(row, seq=min(row.seq + 1, self.log.last_seq)), dropped)

    return [(SimCheckpoints, "commit", wrong)]


IN_REGION: Final = (
    Bug(
        "reply-before-commit",
        "a crash takes what a reply told",
        reply_before_commit,
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
        seed=3,
    ),
    Bug(
        "deadline-is-not-told",
        "XREAD BLOCK never comes back",
        _deadline_is_not_told,
        frozenset({"assertion"}),
        seed=6,
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
        seed=9,
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
        seed=9,
    ),
    Bug(
        "lag-counts-what-is-under-way",
        "a region that is lost takes more with it than it may",
        _lag_counts_what_is_under_way,
        frozenset({"I15"}),
        seed=25,
    ),
    Bug(
        "dot-reused-after-a-lost-tail",
        "two entries have one dot",
        _dot_reused_after_a_lost_tail,
        frozenset({"I3"}),
        seed=236,
    ),
    Bug(
        "unapplied-effects-survive-a-recovery",
        "an effect of an earlier run is applied after its number was used again",
        _unapplied_effects_survive_a_recovery,
        frozenset({"I3", "I2", "I1"}),
        history="what-is-held-unapplied-is-forgotten-before-the-answer",
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
        seed=8,
    ),
    Bug(
        "a-change-is-not-noted",
        "a restart has a group as it was before",
        _a_change_is_not_noted,
        frozenset({"I1", "I8", "error", "assertion"}),
        seed=2,
    ),
    Bug(
        "a-group-s-change-is-not-noted",
        "a restart has positions and consumers of a group as they were before",
        _not_noted(Kind.GROUP),
        frozenset({"I8", "I9", "I18", "error", "assertion"}),
        seed=8,
    ),
    Bug(
        "a-pending-entry-s-change-is-not-noted",
        "a restart has entries pending that were acknowledged",
        _not_noted(Kind.PENDING),
        frozenset({"I8", "I9", "I18", "error", "assertion"}),
        seed=55,
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
        frozenset({"I1", "I8", "I9", "I18", "error", "assertion"}),
        seed=158,
    ),
    Bug(
        "a-checkpoint-covers-the-open-tick",
        "a restart loses what was acknowledged while a checkpoint began",
        _a_checkpoint_covers_the_open_tick,
        frozenset({"I1", "I2", "I7", "I8", "error"}),
        seed=2,
    ),
    Bug(
        "members-are-not-asked",
        "the log is cut while another region lacks what goes",
        _members_are_not_asked,
        frozenset({"liveness"}),
        seed=5,
    ),
    Bug(
        "only-copies-are-cut",
        "two regions that were alone for long never become equal again",
        _only_copies_are_cut,
        frozenset({"liveness"}),
        seed=125,
    ),
)
