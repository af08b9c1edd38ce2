"""Retention: how far the log may be cut, and for which members records are kept; without IO.

A record is needed here until a checkpoint has what it did, and by a member until the member has it
*durably*: what a power cut could take back there has to be sent again.

    log        1 ·············· 40 ·················· 70 ······· 100
               └─ cut may go ──┘└── member 3 lacks ──────────────┘
                                    from 41 on                   checkpoint: 90

For a member that stays *away*, the log is kept only so far: until the log has grown by
``backlog_bytes_max`` behind what it lacks, or ``backlog_ttl_s`` has passed since it last made
progress.  From then on the log is cut without regard to it.  When it reconnects it needs a
*bootstrap* (``rules`` 17).

But a record stays, whatever the bounds and the checkpoints say, while it has an effect that no
other member is known to durably have: it may be the *only copy*, of whatever origin.  Otherwise two
regions, each alone for longer than the bounds, would cut what only they have, and never become
equal again.  One other member that has the effect will do; a region without members keeps nothing
for this.

    log        1 ·············· 40 ·················· 70 ······· 100
               └─ member 3 has ─┘                     │
               └─ member 2 has ───────────────────────┘
                                 both given up: cut up to 70; only copies from 71 on

``maxdisk`` and ``replication_lag_action`` bound how much that can be.

The time since when a member is away outlives this region's process (``absences``): a node that
restarts each hour does not keep its log for ever.  But while the node was down the member may have
returned, so it gets a moment to open its link before time is a reason to give it up.

A member is *away* if it has no link here, or if it lacks something and has made nothing durable for
``STALLED_MS``: a member whose disk is full must not fill this one's.  A member that is behind and
makes progress is never given up.

A member that takes over the state of another region needs from here only what that state lacks.  Up
to ``bootstrap_backlog_size`` of that is kept while the copy makes progress: otherwise the state
would be outdated before it has arrived.  The effects that it will have are no copy that another
member may rely on.

A member's own word counts, as it does for WAIT.  If a link opens with less than the member had,
that is believed at once: the member lost its disk.  From then on nothing counts that others report
of it, until the member itself has reported as much again.

A member that joins needs what lies behind the state that it begins with (``floor_vv``), before it
has that state.  Its joining may still be given up, so what it has is no copy to rely on.

Local changes, which no other region ever sees, are needed by the checkpoint only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from crdtstream.core.clock import (
    MutableVersionVector,
    VersionVector,
    capped,
    covers,
    join,
    meet,
)
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.region.bootstrap_bounds import BootstrapBounds
from crdtstream.region.peers import Peers, PeersChange

# A link over which nothing becomes durable for this time does not help: a minute is longer than any
# pause of a member that is well, its restart with a large log included.
STALLED_MS: Final = Size(60_000, least=1000)
BACKLOG_BYTES_DEFAULT: Final = 1 << 30
BACKLOG_TTL_S_DEFAULT: Final = 86_400


@dataclass(frozen=True, slots=True)
class Lack:
    """The part of the log that a member lacks.

    Attributes:
        seq: its first record with effects that the member does not durably have; the next one to
            be written, if it has all.
        bytes: size of the log's records from there on.
    """

    seq: int
    bytes: int


class Keeping(StrEnum):
    """Service of the log for a member."""

    NOTHING = "nothing"  # it has all
    KEPT = "kept"  # what it lacks is kept while it comes on
    AWAY = "away"  # it is away, and waited for up to the bounds
    # It was away for too long, and is waited for all the same: no other member has what it lacks.
    ONLY_COPY = "only-copy"
    GIVEN_UP = "given-up"  # it was away for too long: the log may be cut without it
    STAGING = "staging"  # it takes over a state, and what that lacks is kept
    BOOTSTRAP = "bootstrap"  # what it lacks was cut


@dataclass(frozen=True, slots=True)
class Held:
    """State of the log for one member, at the last look.

    Attributes:
        keeping: what the log does for it.
        since_ms: time at which it last made progress, or had all; by this region's clock.
        bytes: size of the log from what it lacks on.
    """

    keeping: Keeping
    since_ms: Millis
    bytes: int

    @property
    def holds(self) -> bool:
        """True if the log is not cut because of it."""
        return self.keeping in (
            Keeping.KEPT,
            Keeping.AWAY,
            Keeping.ONLY_COPY,
            Keeping.STAGING,
        )


@dataclass(slots=True)
class _Member:
    """Knowledge of a member.

    Attributes:
        durable_vv: what it durably has; None: unknown, as no region has reported it since this one
            started.
        staging_vv: what it will have when it has taken over a state; None: it does not take one
            over.
        floor_vv: what it will have when it has joined; None: it does not join.
        word_after: what was known before it reported less: others' word counts again when its own
            has reached this; None: it never reported less.
        since_ms: time at which it last made progress, had all, or had its link made or lost.
        came_on: it made progress since the last look.
        is_linked: it had a link then.
    """

    since_ms: Millis
    durable_vv: MutableVersionVector | None = None
    staging_vv: VersionVector | None = None
    floor_vv: VersionVector | None = None
    word_after: VersionVector | None = None
    came_on: bool = False
    is_linked: bool = False

    @property
    def will_have_vv(self) -> VersionVector | None:
        """Effects that it durably has, or will have from elsewhere; None: unknown."""
        if self.staging_vv is None and self.floor_vv is None:
            return self.durable_vv
        vv = dict(self.durable_vv or {})
        join(vv, self.staging_vv or {})
        join(vv, self.floor_vv or {})
        return vv


class Retention:
    """Records that are kept for members, and the place up to which the log may be cut.

    Attributes:
        backlog_bytes_max, backlog_ttl_s: bounds of the log that is kept for a member that is away,
            by size and by time; 0: only the only copies are kept.
        bootstrap: bounds of what is sent to a region that lacks what was cut.
        first_seq: the log's first record; of an empty log the next one to be written.
        begins: of each origin the last effect that was cut: the log has only effects beyond it.
        covered_seq: the last record that a verified checkpoint covers.
        cutting_seq: records up to this one are being cut, and may be gone by now; 0: none are.
        held: state of the log for each member, as of the last ``cut_upto``.
        log_bytes: size of all its records, as of the last look.
    """

    def __init__(self, peers: Peers, *, now: Millis) -> None:
        """Begin as a region starts: no member has spoken yet, and absences count from now."""
        self.backlog_bytes_max = BACKLOG_BYTES_DEFAULT
        self.backlog_ttl_s = BACKLOG_TTL_S_DEFAULT
        self.bootstrap = BootstrapBounds()
        self.first_seq = 1
        self.begins: VersionVector = {}
        self.covered_seq = 0
        self.cutting_seq = 0
        self.log_bytes = 0
        self._started_ms = now
        self._peers = peers
        self._members: dict[RegionId, _Member] = {}
        self.held: Mapping[RegionId, Held] = {}
        for member in peers.addresses:
            self._add(member, None, now)

    def _add(self, number: RegionId, durable_vv: MutableVersionVector | None, now: Millis) -> None:
        member = _Member(now, durable_vv)
        if self._peers.is_joining(number):
            member.floor_vv = self._peers.has[number]
        self._members[number] = member
        self.held = {**self.held, number: Held(Keeping.AWAY, now, 0)}

    def follow_peers(self, change: PeersChange) -> None:
        for number in change.removed:
            del self._members[number]
        for number in change.added:
            joins = self._peers.is_joining(number)
            self._add(number, {} if joins else dict(self._peers.has[number]), change.now)
        for number in change.activated:
            self._members[number].floor_vv = None
        self.held = {number: self.held[number] for number in sorted(self._members)}
        self._members = {number: self._members[number] for number in self.held}

    @property
    def backlog_bytes(self) -> int:
        """Size of the log that is kept for members, at the last look."""
        return max((one.bytes for one in self.held.values() if one.holds), default=0)

    @property
    def absences(self) -> dict[RegionId, Millis]:
        """Start of each absence of a member for which the log is kept, or was until given up.

        They are passed to ``note_absences`` when this region starts again.
        """
        return {
            number: one.since_ms
            for number, one in self.held.items()
            if one.keeping in (Keeping.AWAY, Keeping.GIVEN_UP, Keeping.ONLY_COPY)
        }

    def note_absences(self, since: Mapping[RegionId, int]) -> None:
        """Note absences that began before this region started; skip those of former members.

        To be called before the first look.
        """
        for number, since_ms in since.items():
            member = self._members.get(number)
            if member is not None:
                member.since_ms = Millis(since_ms)

    # --- What members are known to have -------------------------------------------------------

    @property
    def will_have_vvs(self) -> Mapping[RegionId, VersionVector]:
        """Effects that each member durably has, or will have from elsewhere.

        With them the log is asked from which record on a member lacks effects.

        A member that has said nothing yet may lack all that the log has; what was cut it had, or it
        was given up.
        """
        vvs = {number: member.will_have_vv for number, member in self._members.items()}
        return {number: self.begins if vv is None else vv for number, vv in vvs.items()}

    @property
    def elsewhere_vv(self) -> VersionVector:
        """Effects that some active member durably has: beyond them the log has the only copies."""
        elsewhere: MutableVersionVector = dict(self.begins)
        for number in self._peers.active:
            join(elsewhere, self._members[number].durable_vv or {})
        return elsewhere

    def note_durable(self, region: RegionId, durable_vv: VersionVector) -> None:
        """Note what a member durably has, as it says itself."""
        member = self._members.get(region)
        if member is None:
            return
        if member.durable_vv is None:
            member.durable_vv = {}
        if not covers(member.durable_vv, durable_vv):
            join(member.durable_vv, durable_vv)
            member.came_on = True
        if member.word_after is not None and covers(member.durable_vv, member.word_after):
            member.word_after = None

    def note_told(self, region: RegionId, durable_vv: VersionVector) -> None:
        """Note what a member durably has, as another member says."""
        member = self._members.get(region)
        if member is not None and member.word_after is None:
            self.note_durable(region, durable_vv)

    def note_staging(self, region: RegionId, vv: VersionVector | None) -> None:
        """Note that a member goes on taking over a state with these effects; None: it does not."""
        member = self._members.get(region)
        if member is not None:
            member.staging_vv = vv
            member.came_on = member.came_on or vv is not None

    def note_opened(self, region: RegionId, vv: VersionVector) -> None:
        """Note that a member opens a link with what it has, durable or not: it has no more."""
        member = self._members.get(region)
        if member is None:
            return
        # It says so again if it still takes one over.
        member.staging_vv = None
        if member.durable_vv is None or covers(vv, member.durable_vv):
            return
        if member.word_after is None:
            member.word_after = dict(member.durable_vv)
        member.durable_vv = meet([member.durable_vv, vv])

    def note_ends(self, ends: Mapping[RegionId, int]) -> None:
        """Note that effects beyond these ends do not count: no region has those that get these
        numbers from now on."""
        for member in self._members.values():
            if member.durable_vv is not None:
                member.durable_vv = dict(capped(member.durable_vv, ends))
            if member.staging_vv is not None:
                member.staging_vv = capped(member.staging_vv, ends)
            if member.floor_vv is not None:
                member.floor_vv = capped(member.floor_vv, ends)
            if member.word_after is not None:
                member.word_after = capped(member.word_after, ends)

    # --- The log ------------------------------------------------------------------------------

    def note_beginning(self, first_seq: int, begins: VersionVector) -> None:
        """Note where the log begins: after it was opened, and after it was cut."""
        assert first_seq >= self.first_seq, "a log does not grow at its beginning"
        assert covers(begins, self.begins), "a log does not grow at its beginning"
        self.first_seq = first_seq
        self.begins = dict(begins)

    def is_gone(self, seq: int) -> bool:
        """True if a record was cut from the log, or may be gone by now."""
        return seq < self.first_seq or seq <= self.cutting_seq

    def note_covered(self, seq: int) -> None:
        """Note that a checkpoint of the state after record ``seq`` was written and verified."""
        self.covered_seq = max(self.covered_seq, seq)

    def cut_upto(
        self,
        lacks: Mapping[RegionId, Lack],
        linked: Collection[RegionId],
        now: Millis,
        *,
        only_copy_seq: int,
    ) -> int:
        """The last record that may be cut; the one before ``first_seq``: none may.

        Args:
            lacks: what each member lacks of the log, by the value of ``will_have_vvs``.
            linked: the members that pull from this region now.
            only_copy_seq: the first record with effects beyond ``elsewhere_vv``; the next one to be
                written, if none has such.
        """
        if not lacks.keys() >= self._members.keys():
            # A member was added while the log was asked: the next look knows what it lacks.
            return self.first_seq - 1
        self.held = {
            number: self._look(
                member,
                lacks[number],
                now,
                is_linked=number in linked,
                # Nothing that it lacks may be cut: each record from there on stays.
                is_only_copy=lacks[number].seq >= only_copy_seq,
            )
            for number, member in self._members.items()
        }
        needed = [lacks[number].seq - 1 for number, one in self.held.items() if one.holds]
        if self._peers.active:
            needed.append(only_copy_seq - 1)
        return max(self.first_seq - 1, min([self.covered_seq, *needed]))

    def _look(
        self, member: _Member, lack: Lack, now: Millis, *, is_linked: bool, is_only_copy: bool
    ) -> Held:
        has_all = not lack.bytes
        # If the clock was set back, no member stays away for longer by that.
        if member.came_on or has_all or is_linked != member.is_linked or now < member.since_ms:
            member.since_ms = now
        member.came_on = False
        member.is_linked = is_linked
        keeping = self._keeping(member, lack, now)
        if keeping is Keeping.GIVEN_UP and is_only_copy:
            keeping = Keeping.ONLY_COPY
        return Held(keeping, member.since_ms, lack.bytes)

    def _keeping(self, member: _Member, lack: Lack, now: Millis) -> Keeping:
        vv = member.will_have_vv
        if vv is not None and not covers(vv, self.begins):
            return Keeping.BOOTSTRAP
        if not lack.bytes:
            return Keeping.NOTHING
        away_ms = now - member.since_ms
        if member.staging_vv is not None and away_ms < STALLED_MS.value:
            is_kept = lack.bytes <= self.bootstrap.backlog_bytes_max
            return Keeping.STAGING if is_kept else Keeping.GIVEN_UP
        if member.is_linked and away_ms < STALLED_MS.value:
            return Keeping.KEPT
        ttl_ms = self.backlog_ttl_s * 1000
        # A member that was away before this region started had no chance yet to report that it is
        # back.
        is_in_time = away_ms <= ttl_ms or now - self._started_ms <= min(ttl_ms, STALLED_MS.value)
        if lack.bytes <= self.backlog_bytes_max and is_in_time:
            return Keeping.AWAY
        return Keeping.GIVEN_UP
