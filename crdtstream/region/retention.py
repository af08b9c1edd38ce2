"""Up to where the log may be cut, and whom its records are kept for; without any IO.

A record is needed here until a checkpoint has what it did, and by a member until that has it
*durably*: what a power cut could take back there has to be sent again.

    log        1 ·············· 40 ·················· 70 ······· 100
               └─ cut may go ──┘└── member 3 lacks ──────────────┘
                                    from 41 on                   checkpoint: 90

A member that stays *away* is waited for only so far: until the log has grown by
``backlog_bytes_max`` behind what it lacks, or ``backlog_ttl_s`` has passed since it last came on.
From then on the log is cut without regard to it, and when it comes back it needs a *bootstrap*
(``rules`` 17).

But a record stays, whatever the bounds and the checkpoints say, while it has an effect that no
other member is known to durably have: it may be the *only copy*, of whatever origin.  Else two
regions, each alone for longer than the bounds, cut what only they have, and never become equal
again.  One other member that has the effect will do; a region without members keeps nothing for
this.

    log        1 ·············· 40 ·················· 70 ······· 100
               └─ member 3 has ─┘                     │
               └─ member 2 has ───────────────────────┘
                                 both given up: cut up to 70; only copies from 71 on

``maxdisk`` and ``replication_lag_action`` bound how much that can be.

Since when a member is away outlives this region's process (``absences``): a node that restarts
each hour does not keep its log for ever.  But while the node was down the member may have come
back, so it is given a moment to open its link before time is a reason to give it up.

Away is who has no link to this region, and who has one but has made nothing durable for
``STALLED_MS`` though it lacks something: a member whose disk is full must not fill this one's.  A
member that is behind and comes on is never given up.

A member that takes over the state of another region needs from here only what that state lacks,
and up to ``bootstrap_backlog_size`` of it is kept while it goes on: else the state would be old
before it is there.  What it will have is no copy that anybody else may rely on.

A member's own word counts, as it does for WAIT; but a link that opens with less than the member
had is believed at once: it lost its disk.  What others tell of it counts from then on only when
the member itself has said as much again.

A member that joins needs what lies behind the state that it begins with (``floor_vv``), before it
has that too.  It may be given up yet, so what it has is no copy to rely on.

Local changes, which no other region ever sees, need nobody but the checkpoint.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join, meet
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.region.bootstrap_bounds import BootstrapBounds
from crdtstream.region.peers import Peers, PeersChange

# A link over which nothing becomes durable for so long does not help: a minute is longer than any
# pause of a member that is well, its restart with a large log included.
STALLED_MS: Final = Size(60_000, least=1000)
BACKLOG_BYTES_DEFAULT: Final = 1 << 30
BACKLOG_TTL_S_DEFAULT: Final = 86_400


@dataclass(frozen=True, slots=True)
class Lack:
    """What a member lacks of the log.

    Attributes:
        seq: its first record with effects that the member does not durably have; the next one to
            be written, if it has all.
        bytes: of the log's records from there on.
    """

    seq: int
    bytes: int


class Keeping(StrEnum):
    """What the log does for a member."""

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
    """How the log stands to one member, at the last look.

    Attributes:
        keeping: what is done for it.
        since_ms: when it last came on, or had all; by this region's clock.
        bytes: of the log from what it lacks on.
    """

    keeping: Keeping
    since_ms: Millis
    bytes: int

    @property
    def holds(self) -> bool:
        """Whether the log is not cut because of it."""
        return self.keeping in (
            Keeping.KEPT,
            Keeping.AWAY,
            Keeping.ONLY_COPY,
            Keeping.STAGING,
        )


@dataclass(slots=True)
class _Member:
    """What is known of a member.

    Attributes:
        durable_vv: what it durably has; None: nobody has said so since this region started.
        staging_vv: what it will have when it has taken over a state; None: it takes over none.
        floor_vv: what it will have when it has joined; None: it does not join.
        word_after: what was known before it said less: others' word counts again when its own has
            come to this; None: it never said less.
        since_ms: when it last came on, had all, or had its link made or lost.
        came_on: it did so since the last look.
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
        """What it durably has, or will have from elsewhere; None: nobody has said."""
        if self.staging_vv is None and self.floor_vv is None:
            return self.durable_vv
        vv = dict(self.durable_vv or {})
        join(vv, self.staging_vv or {})
        join(vv, self.floor_vv or {})
        return vv


class Retention:
    """Whom the log is kept for, and up to where it may be cut.

    Attributes:
        backlog_bytes_max, backlog_ttl_s: how much of the log is kept for a member that is away, and
            for how long; 0: nothing is but the only copies.
        bootstrap: bounds of what is sent to a region that lacks what was cut.
        first_seq: the log's first record; of an empty log the next one to be written.
        begins: of each origin the last effect that was cut: what the log has lies beyond it.
        covered_seq: the last record that a verified checkpoint covers.
        cutting_seq: what is being cut up to here may be gone by now; 0: nothing is.
        held: how it stands to each member, as of the last ``cut_upto``.
        log_bytes: what all its records take, as of the last look.
    """

    def __init__(self, peers: Peers, *, now: Millis) -> None:
        """A region that starts: nobody has said anything yet, and who is away is so from now."""
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
        peers.on_change.append(self._follow)

    def _add(self, number: RegionId, durable_vv: MutableVersionVector | None, now: Millis) -> None:
        member = _Member(now, durable_vv)
        if self._peers.is_joining(number):
            member.floor_vv = self._peers.has[number]
        self._members[number] = member
        self.held = {**self.held, number: Held(Keeping.AWAY, now, 0)}

    def _follow(self, change: PeersChange) -> None:
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
        """How much of the log is kept for members, at the last look."""
        return max((one.bytes for one in self.held.values() if one.holds), default=0)

    @property
    def absences(self) -> dict[RegionId, Millis]:
        """Since when members are away for which the log is kept, or was until they were given up.

        Given back to ``note_absences`` when this region starts again.
        """
        return {
            number: one.since_ms
            for number, one in self.held.items()
            if one.keeping in (Keeping.AWAY, Keeping.GIVEN_UP, Keeping.ONLY_COPY)
        }

    def note_absences(self, since: Mapping[RegionId, int]) -> None:
        """Members were away before this region started; who is no member any more is passed over.

        To be called before the first look.
        """
        for number, since_ms in since.items():
            member = self._members.get(number)
            if member is not None:
                member.since_ms = Millis(since_ms)

    # --- What members are known to have -------------------------------------------------------

    @property
    def will_have_vvs(self) -> Mapping[RegionId, VersionVector]:
        """What each member durably has, or will have from elsewhere: the log is asked from where on
        it lacks records.

        Who has said nothing yet may lack all that the log has; what was cut it had, or it was given
        up.
        """
        vvs = {number: member.will_have_vv for number, member in self._members.items()}
        return {number: self.begins if vv is None else vv for number, vv in vvs.items()}

    @property
    def elsewhere_vv(self) -> VersionVector:
        """What at least one active member durably has: beyond it the log has the only copies."""
        elsewhere: MutableVersionVector = dict(self.begins)
        for number in self._peers.active:
            join(elsewhere, self._members[number].durable_vv or {})
        return elsewhere

    def note_durable(self, region: RegionId, durable_vv: VersionVector) -> None:
        """A member itself says what it durably has."""
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
        """Another member says what this one durably has."""
        member = self._members.get(region)
        if member is not None and member.word_after is None:
            self.note_durable(region, durable_vv)

    def note_staging(self, region: RegionId, vv: VersionVector | None) -> None:
        """A member goes on taking over a state with these effects; None: it takes none over."""
        member = self._members.get(region)
        if member is not None:
            member.staging_vv = vv
            member.came_on = member.came_on or vv is not None

    def note_opened(self, region: RegionId, vv: VersionVector) -> None:
        """A member opens a link with what it has, durable or not: it has no more than that."""
        member = self._members.get(region)
        if member is None:
            return
        # It says so again, if it still takes one over.
        member.staging_vv = None
        if member.durable_vv is None or covers(vv, member.durable_vv):
            return
        if member.word_after is None:
            member.word_after = dict(member.durable_vv)
        member.durable_vv = meet([member.durable_vv, vv])

    # --- The log ------------------------------------------------------------------------------

    def note_beginning(self, first_seq: int, begins: VersionVector) -> None:
        """Where the log begins: when it was opened, and when it was cut."""
        assert first_seq >= self.first_seq, "a log does not grow at its beginning"
        assert covers(begins, self.begins), "a log does not grow at its beginning"
        self.first_seq = first_seq
        self.begins = dict(begins)

    def is_gone(self, seq: int) -> bool:
        """Whether a record is in the log no more, or may not be."""
        return seq < self.first_seq or seq <= self.cutting_seq

    def note_covered(self, seq: int) -> None:
        """A checkpoint of the state after record ``seq`` was written and verified."""
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
            lacks: what each member lacks of the log, by what ``will_have_vvs`` said.
            linked: the members that pull from this region now.
            only_copy_seq: the first record with effects beyond ``elsewhere_vv``; the next one to be
                written, if there is none.
        """
        if not lacks.keys() >= self._members.keys():
            # One was added while the log was asked: the next look knows what it lacks.
            return self.first_seq - 1
        self.held = {
            number: self._look(
                member,
                lacks[number],
                now,
                is_linked=number in linked,
                # Of what it lacks nothing may be cut: each record from there on stays.
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
        # A clock that was set back makes nobody stay away for longer.
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
        # Who was away before this region started had no chance yet to say that it is back.
        is_in_time = away_ms <= ttl_ms or now - self._started_ms <= min(ttl_ms, STALLED_MS.value)
        if lack.bytes <= self.backlog_bytes_max and is_in_time:
            return Keeping.AWAY
        return Keeping.GIVEN_UP
