"""Up to where the log may be cut: against a model that keeps what everybody has."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.clock import covers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.retention import STALLED_MS, Held, Keeping, Lack, Retention
from tests.conftest import examples
from tests.harness.peers import peers_of

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
MEMBERS = (R2, R3)
ORIGINS = (R1, R2, R3)
RECORD_BYTES = 10


class LogAndMembers(RuleBasedStateMachine):
    """Region 1's log, and members that have things first in memory, and then durably.

    The log is a list of (origin, n), or None of local changes.  What a member durably has is the
    model's own; the retention hears of it late, by the member or by the other one, or never.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000
        self.retention = Retention(peers_of(R1, *MEMBERS), now=Millis(self.now))
        self.retention.backlog_bytes_max = 5 * RECORD_BYTES
        self.retention.backlog_ttl_s = 100
        self.log: list[tuple[RegionId, int] | None] = []
        self.cut = 0
        self.issued = dict.fromkeys(ORIGINS, 0)
        self.applied = {member: dict.fromkeys(ORIGINS, 0) for member in MEMBERS}
        self.durable = {member: dict.fromkeys(ORIGINS, 0) for member in MEMBERS}
        self.linked: set[RegionId] = set()
        # What the retention was told last by the member itself.
        self.said: dict[RegionId, dict[RegionId, int]] = {}

    @rule(origin=st.sampled_from(ORIGINS), count=st.integers(1, 3))
    def append(self, origin: RegionId, count: int) -> None:
        for _ in range(count):
            self.issued[origin] += 1
            self.log.append((origin, self.issued[origin]))
            if origin in MEMBERS:
                # It came from there, and it is durable there before it is sent.
                self.applied[origin][origin] = self.issued[origin]
                self.durable[origin][origin] = self.issued[origin]

    @rule()
    def change_locally(self) -> None:
        self.log.append(None)

    @rule(member=st.sampled_from(MEMBERS), origin=st.sampled_from(ORIGINS), count=st.integers(1, 9))
    def apply(self, member: RegionId, origin: RegionId, count: int) -> None:
        has = self.applied[member]
        has[origin] = min(self.issued[origin], has[origin] + count)

    @rule(member=st.sampled_from(MEMBERS))
    def sync(self, member: RegionId) -> None:
        self.durable[member] = dict(self.applied[member])

    @rule(member=st.sampled_from(MEMBERS))
    def say(self, member: RegionId) -> None:
        """The member acknowledges what it durably has."""
        self.retention.note_durable(member, _vv(self.durable[member]))
        self.said[member] = dict(self.durable[member])

    @rule(member=st.sampled_from(MEMBERS))
    def gossip(self, member: RegionId) -> None:
        """The other member tells what this one had said, maybe before it lost its disk."""
        if member in self.said:
            self.retention.note_told(member, _vv(self.said[member]))

    @rule(member=st.sampled_from(MEMBERS))
    def link(self, member: RegionId) -> None:
        """It opens a link with what it has, durable or not."""
        self.linked.add(member)
        self.retention.note_opened(member, _vv(self.applied[member]))

    @rule(member=st.sampled_from(MEMBERS), keeps=st.integers(0, 3))
    def lose_power(self, member: RegionId, keeps: int) -> None:
        """All that is not durable is lost; with keeps 0 the disk is, too."""
        self.linked.discard(member)
        if not keeps:
            own = self.durable[member][member]
            self.durable[member] = dict.fromkeys(ORIGINS, 0) | {member: own // 2}
        self.applied[member] = dict(self.durable[member])
        self.link(member)

    @rule(member=st.sampled_from(MEMBERS))
    def unlink(self, member: RegionId) -> None:
        self.linked.discard(member)

    @rule(seconds=st.sampled_from([1, 50, 70, 200]))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds * 1000

    @precondition(lambda self: len(self.log) > self.cut)
    @rule(data=st.data())
    def cut_log(self, data: st.DataObject) -> None:
        """A checkpoint is verified, and the log is cut as far as it may."""
        covered = data.draw(st.integers(self.cut, len(self.log)))
        retention = self.retention
        retention.note_covered(covered)
        lacks = {member: self._lack(vv) for member, vv in retention.will_have_vvs.items()}
        only_copy_seq = self._lack(retention.elsewhere_vv).seq
        upto = retention.cut_upto(lacks, self.linked, Millis(self.now), only_copy_seq=only_copy_seq)
        assert self.cut <= upto <= retention.covered_seq
        self._check(upto, retention.held)
        begins = {
            origin: max((one[1] for one in self.log[:upto] if one and one[0] == origin), default=0)
            for origin in ORIGINS
        }
        self.cut = upto
        retention.note_beginning(upto + 1, _vv(begins))

    def _lack(self, vv: object) -> Lack:
        assert isinstance(vv, dict)
        for seq, one in enumerate(self.log[self.cut :], self.cut + 1):
            if one is not None and one[1] > vv.get(one[0], 0):
                return Lack(seq, (len(self.log) - seq + 1) * RECORD_BYTES)
        return Lack(len(self.log) + 1, 0)

    def _check(self, upto: int, held: object) -> None:
        """Another member has the records cut now; all have them, except those away for too long."""
        assert isinstance(held, dict)
        for entry in self.log[self.cut : upto]:
            if entry is not None:
                origin, n = entry
                assert any(self.durable[member][origin] >= n for member in MEMBERS), entry
        for member in MEMBERS:
            one: Held = held[member]
            going = [
                entry
                for entry in self.log[self.cut : upto]
                if entry is not None and entry[1] > self.durable[member][entry[0]]
            ]
            if one.holds or one.keeping is Keeping.NOTHING:
                assert not going, f"region {member} does not have {going}"
            if one.keeping in (Keeping.GIVEN_UP, Keeping.ONLY_COPY):
                assert member not in self.linked or self.now - one.since_ms >= STALLED_MS.value
                assert one.bytes > 50 or self.now - one.since_ms > 100_000

    @invariant()
    def the_beginning_is_where_the_log_was_cut(self) -> None:
        assert self.retention.first_seq == self.cut + 1


def _vv(has: dict[RegionId, int]) -> dict[RegionId, int]:
    return {origin: n for origin, n in has.items() if n}


LogAndMembers.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestLogAndMembers = LogAndMembers.TestCase


def looked(
    retention: Retention,
    lack: Lack,
    *,
    linked: bool = False,
    now: int = 1_000,
    only_copy_seq: int = 1_000_000,
) -> tuple[int, Held]:
    """The cut of the log and its reason; another member has all before ``only_copy_seq``."""
    linked_members = {R2} if linked else set()
    upto = retention.cut_upto({R2: lack}, linked_members, Millis(now), only_copy_seq=only_copy_seq)
    return upto, retention.held[R2]


def of_two(*, covered: int = 100) -> Retention:
    retention = Retention(peers_of(R1, R2), now=Millis(1_000))
    retention.backlog_bytes_max, retention.backlog_ttl_s = 500, 60
    retention.note_covered(covered)
    return retention


def test_a_region_alone_keeps_what_no_checkpoint_covers() -> None:
    retention = Retention(peers_of(R1), now=Millis(1_000))
    assert retention.cut_upto({}, (), Millis(1_000), only_copy_seq=1) == 0
    retention.note_covered(7)
    assert retention.cut_upto({}, (), Millis(1_000), only_copy_seq=1) == 7


@pytest.mark.parametrize(
    ("lack", "linked", "after_s", "upto", "keeping"),
    [
        (Lack(101, 0), False, 9_999, 100, Keeping.NOTHING),
        (Lack(41, 600), True, 1, 40, Keeping.KEPT),
        (Lack(41, 500), False, 60, 40, Keeping.AWAY),
        (Lack(41, 501), False, 1, 100, Keeping.GIVEN_UP),
        (Lack(41, 500), False, 61, 100, Keeping.GIVEN_UP),
    ],
)
def test_the_log_is_kept_for_a_peer_within_the_backlog_bounds(
    lack: Lack, linked: bool, after_s: int, upto: int, keeping: Keeping
) -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 40})
    looked(retention, lack, linked=linked)
    found, held = looked(retention, lack, linked=linked, now=1_000 + after_s * 1000)
    assert (found, held.keeping) == (upto, keeping)


@pytest.mark.parametrize(
    ("lack", "linked", "only_copy_seq", "upto", "keeping"),
    [
        # Nobody else has the first record that it lacks.
        (Lack(41, 501), False, 41, 40, Keeping.ONLY_COPY),
        (Lack(41, 501), True, 41, 40, Keeping.ONLY_COPY),
        # Somebody has the first ones, and those may be cut.
        (Lack(41, 501), False, 71, 70, Keeping.GIVEN_UP),
        # Within the bounds it is away as ever.
        (Lack(41, 500), False, 41, 40, Keeping.AWAY),
        # A checkpoint does not have all of it anyway.
        (Lack(201, 501), False, 201, 100, Keeping.ONLY_COPY),
    ],
)
def test_a_record_that_no_other_member_has_is_kept_beyond_the_bounds(
    lack: Lack, linked: bool, only_copy_seq: int, upto: int, keeping: Keeping
) -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 40})
    looked(retention, lack, linked=linked)
    late = 1_000 + (STALLED_MS.value if linked else 0)
    found, held = looked(retention, lack, linked=linked, now=late, only_copy_seq=only_copy_seq)
    assert (found, held.keeping) == (upto, keeping)
    assert held.holds is (keeping is not Keeping.GIVEN_UP)


def test_a_member_that_takes_over_a_state_needs_what_that_lacks() -> None:
    retention = of_two()
    retention.note_beginning(31, {R1: 30})
    retention.note_durable(R2, {R1: 12})
    assert looked(retention, Lack(31, 400))[1].keeping is Keeping.BOOTSTRAP
    retention.note_staging(R2, {R1: 60})
    assert retention.will_have_vvs == {R2: {R1: 60}}
    assert retention.elsewhere_vv == {R1: 30}, "it is no copy yet that counts"
    upto, held = looked(retention, Lack(61, 400))
    assert (upto, held.keeping, held.holds) == (60, Keeping.STAGING, True)
    # It goes on, without a link to this region, and lacks more than who is away may.
    retention.bootstrap.backlog_bytes_max = 900
    retention.note_staging(R2, {R1: 60})
    later = 1_000 + STALLED_MS.value
    assert looked(retention, Lack(61, 900), now=later)[1] == Held(
        Keeping.STAGING, Millis(later), 900
    )
    upto, held = looked(retention, Lack(61, 901), now=later)
    assert (upto, held.keeping) == (100, Keeping.GIVEN_UP)


def test_a_member_that_stops_to_take_over_a_state_is_as_any_other() -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 12})
    retention.note_staging(R2, {R1: 60})
    assert looked(retention, Lack(61, 501))[1].keeping is Keeping.STAGING
    late = 1_000 + STALLED_MS.value
    assert looked(retention, Lack(61, 501), now=late)[1].keeping is Keeping.GIVEN_UP
    retention.note_staging(R2, None)
    assert retention.will_have_vvs == {R2: {R1: 12}}
    retention.note_staging(R2, {R1: 60})
    retention.note_opened(R2, {R1: 12})
    assert retention.will_have_vvs == {R2: {R1: 12}}, "it starts again, with nothing staged"


def test_a_member_that_needs_a_bootstrap_holds_what_only_this_log_has() -> None:
    retention = of_two()
    retention.note_beginning(31, {R1: 30})
    retention.note_durable(R2, {R1: 12})
    assert retention.elsewhere_vv == {R1: 30}, "what was cut is not looked for in the log"
    upto, held = looked(retention, Lack(31, 400), only_copy_seq=31)
    assert (upto, held.keeping) == (30, Keeping.BOOTSTRAP)


def test_effects_that_any_member_has_are_elsewhere() -> None:
    retention = Retention(peers_of(R1, R2, R3), now=Millis(1_000))
    assert retention.elsewhere_vv == {}, "nobody has said anything since the start"
    retention.note_durable(R2, {R1: 40, R3: 1})
    retention.note_told(R3, {R1: 10, R3: 9})
    assert retention.elsewhere_vv == {R1: 40, R3: 9}
    retention.note_opened(R2, {R1: 5})
    assert retention.elsewhere_vv == {R1: 10, R3: 9}, "region 2 lost its disk"


def test_an_absence_for_which_only_copies_are_kept_outlives_a_restart() -> None:
    retention = of_two()
    looked(retention, Lack(41, 501), only_copy_seq=41)
    assert retention.held[R2].keeping is Keeping.ONLY_COPY
    assert retention.absences == {R2: 1_000}


def test_a_link_over_which_nothing_becomes_durable_counts_as_away() -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 40})
    lack = Lack(41, 600)
    assert looked(retention, lack, linked=True)[0] == 40
    assert looked(retention, lack, linked=True, now=999 + STALLED_MS.value)[0] == 40
    assert looked(retention, lack, linked=True, now=1_000 + STALLED_MS.value)[0] == 100


def test_a_member_that_comes_on_is_not_given_up_however_far_behind() -> None:
    retention = of_two(covered=10_000)
    for n in range(1, 50):
        retention.note_durable(R2, {R1: n})
        upto, held = looked(
            retention, Lack(n + 1, 100_000), linked=True, now=1_000 + n * STALLED_MS.value
        )
        assert (upto, held.keeping) == (n, Keeping.KEPT)


def test_a_peer_silent_since_the_start_may_lack_the_whole_log() -> None:
    retention = of_two()
    retention.note_beginning(31, {R1: 30})
    assert retention.will_have_vvs == {R2: {R1: 30}}
    assert looked(retention, Lack(31, 400))[0] == 30
    retention.note_durable(R2, {R1: 12})
    assert looked(retention, Lack(31, 400)) == (100, Held(Keeping.BOOTSTRAP, Millis(1_000), 400))


def test_a_member_that_lost_its_disk_is_taken_at_its_own_word() -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 40, R2: 3})
    retention.note_opened(R2, {R1: 10})
    assert retention.will_have_vvs == {R2: {R1: 10}}
    retention.note_told(R2, {R1: 40, R2: 3})
    assert retention.will_have_vvs == {R2: {R1: 10}}, "that is what it had before"
    retention.note_durable(R2, {R1: 40, R2: 3})
    retention.note_told(R2, {R1: 41})
    assert retention.will_have_vvs == {R2: {R1: 41, R2: 3}}


def test_the_version_vector_that_opens_a_link_is_not_taken_for_durable() -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 10})
    retention.note_opened(R2, {R1: 40})
    assert retention.will_have_vvs == {R2: {R1: 10}}


@given(back_ms=st.integers(1, 10**9))
def test_a_clock_set_back_makes_nobody_stay_away_for_longer(back_ms: int) -> None:
    retention = of_two()
    retention.note_durable(R2, {R1: 40})
    lack = Lack(41, 500)
    start = 2 * 10**9
    looked(retention, lack, now=start)
    looked(retention, lack, now=start - back_ms)
    _, held = looked(retention, lack, now=start - back_ms + 61_000)
    assert held.keeping is Keeping.GIVEN_UP
    assert covers(retention.will_have_vvs[R2], {R1: 40})


def restarted(before: Retention, *, now: int) -> Retention:
    retention = Retention(peers_of(R1, R2), now=Millis(now))
    retention.backlog_bytes_max, retention.backlog_ttl_s = 500, before.backlog_ttl_s
    retention.note_covered(100)
    retention.note_absences(before.absences)
    return retention


def test_a_restart_does_not_prolong_how_long_a_member_is_waited_for() -> None:
    retention, lack, hour_ms = of_two(), Lack(41, 500), 3_600_000
    retention.backlog_ttl_s = 24 * 3600
    for hour in range(1, 24):
        assert looked(retention, lack, now=1_000 + hour * hour_ms)[1].keeping is Keeping.AWAY
        retention = restarted(retention, now=1_000 + hour * hour_ms)
    _, held = looked(retention, lack, now=1_001 + 24 * hour_ms)
    assert held == Held(Keeping.GIVEN_UP, Millis(1_000), 500)
    assert retention.absences == {R2: 1_000}


def test_an_away_peer_has_a_minute_to_reconnect_after_a_restart() -> None:
    retention, lack, later = of_two(), Lack(41, 500), 10**9
    looked(retention, lack)
    retention = restarted(retention, now=later)
    assert looked(retention, lack, now=later + 59_000)[1].keeping is Keeping.AWAY
    back = restarted(retention, now=later)
    assert looked(back, lack, linked=True, now=later + 59_000)[1].keeping is Keeping.KEPT
    assert back.absences == {}
    assert looked(retention, lack, now=later + 61_000)[1].keeping is Keeping.GIVEN_UP


def test_the_log_is_not_kept_for_a_removed_member() -> None:
    retention = of_two()
    retention.note_absences({R3: 5})
    assert retention.absences == {R2: 1_000}
