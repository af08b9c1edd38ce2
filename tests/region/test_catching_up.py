"""A region that starts takes no writes until it has what its peers had when it came back."""

from crdtstream.core.clock import MutableVersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.catching_up import OFF, CatchingUp
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.limits import RegionLimits
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import Answer, DatabaseIdentity
from crdtstream.region.ready import Confirm, StoreIncarnations, StoreMembership
from tests.harness.driven import UID, Driven, make_region
from tests.harness.parts import nothing_held
from tests.harness.peers import peers_of

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
ANSWER_MS, STALL_MS = 2_000, 10_000


class Starting:
    """Region 1 with two peers, started at 0."""

    def __init__(self, answer_ms_max: int = ANSWER_MS) -> None:
        self.vv: MutableVersionVector = {R1: 1}
        self.held = nothing_held()
        self.holds_links = False
        self.deadlines = Deadlines()
        self.one = CatchingUp(
            peers_of(R1, R2, R3),
            self,
            self.held,
            self.deadlines,
            now=Millis(0),
            holding=self,
            answer_ms_max=answer_ms_max,
            stall_ms_max=STALL_MS,
        )

    def look(self, now: int) -> str | None:
        self.one.look(Millis(now))
        return self.one.obstacle


def test_it_asks_all_peers_and_takes_writes_once_they_have_answered() -> None:
    starting = Starting()
    assert "asks region 2, 3 what it missed" in (starting.look(0) or "")
    starting.one.note_answer(R2, 7, {R1: 1})
    assert "asks region 3" in (starting.look(10) or "")
    starting.one.note_answer(R3, 7, {})
    assert starting.look(20) is None


def test_it_names_nobody_when_all_have_answered() -> None:
    """Found by the drill disk-full: a region that had just started asked "region  what"."""
    starting = Starting()
    starting.look(0)
    starting.one.note_answer(R2, 7, {R1: 1})
    starting.one.note_answer(R3, 7, {R1: 1})
    assert starting.one.obstacle == "region 1 starts; try again in a moment"


def test_peers_that_do_not_answer_hold_it_back_only_so_long() -> None:
    starting = Starting()
    assert starting.look(ANSWER_MS - 1) is not None
    assert starting.deadlines.earliest == ANSWER_MS
    assert starting.look(ANSWER_MS) is None
    assert starting.deadlines.earliest is None


def test_it_takes_no_writes_while_something_lacks_that_a_peer_had() -> None:
    starting = Starting()
    starting.one.note_answer(R2, 7, {R1: 1, R2: 5, R3: 2})
    starting.one.note_answer(R3, 7, {R1: 1, R2: 4, R3: 3})
    told = starting.look(10) or ""
    assert "came back behind its peers and catches up: 8 effects" in told
    starting.vv = {R1: 1, R2: 5, R3: 2}
    assert "1 effect that" in (starting.look(ANSWER_MS + 1) or "")
    starting.vv = {R1: 1, R2: 5, R3: 3}
    assert starting.look(ANSWER_MS + 2) is None
    assert not starting.one.gave_up


def test_effects_that_peers_get_during_catch_up_are_not_waited_for() -> None:
    """Else it would never begin under load."""
    starting = Starting()
    starting.one.note_answer(R2, 7, {R2: 5})
    starting.one.note_answer(R3, 7, {})
    starting.one.note_answer(R2, 7, {R2: 500})
    starting.vv = {R1: 1, R2: 5}
    assert starting.look(10) is None


def test_a_peer_that_started_again_says_anew_what_it_has() -> None:
    """Effects that it had and lost cannot be pulled."""
    starting = Starting()
    starting.one.note_answer(R2, 7, {R2: 5})
    starting.one.note_answer(R3, 7, {})
    starting.one.note_answer(R2, 8, {R2: 3})
    starting.vv = {R1: 1, R2: 3}
    assert starting.look(10) is None


def test_it_gives_up_when_nothing_has_come_for_long() -> None:
    starting = Starting()
    starting.one.note_answer(R2, 7, {R2: 5})
    starting.look(100)
    starting.vv = {R1: 1, R2: 1}
    assert starting.look(5_000) is not None
    assert starting.deadlines.earliest == 5_000 + STALL_MS
    assert starting.look(5_000 + STALL_MS - 1) is not None
    assert starting.look(5_000 + STALL_MS) is None
    assert starting.one.gave_up


def test_the_time_in_which_this_region_applies_nothing_does_not_count() -> None:
    starting = Starting()
    starting.one.note_answer(R2, 7, {R2: 5})
    starting.look(100)
    starting.holds_links = True
    assert starting.look(100 + STALL_MS) is not None
    starting.holds_links = False
    assert starting.look(100 + 2 * STALL_MS - 1) is not None
    assert starting.look(100 + 2 * STALL_MS) is None


def test_a_clock_that_is_set_back_makes_it_wait_no_longer() -> None:
    """A machine that starts may learn only then what time it is."""
    silent = Starting()
    silent.look(10)
    assert silent.look(-3_600_000) is not None
    assert silent.look(-3_600_000 + ANSWER_MS) is None
    behind = Starting()
    behind.one.note_answer(R2, 7, {R2: 5})
    behind.look(10)
    assert behind.look(-3_600_000) is not None
    assert behind.look(-3_600_000 + STALL_MS) is None


def test_effects_of_a_region_that_recovers_are_not_waited_for() -> None:
    """They are not taken until all have answered that region, and one of them may be lost."""
    starting = Starting()
    starting.held.note_start(R3, 7, recovering=True)
    starting.one.note_answer(R2, 7, {R3: 5})
    starting.one.note_answer(R3, 7, {R3: 5})
    assert starting.look(10) is None


def test_it_is_held_back_once_only() -> None:
    starting = Starting()
    starting.look(ANSWER_MS)
    starting.one.note_answer(R2, 7, {R2: 5})
    assert starting.look(ANSWER_MS + 1) is None


def test_switched_off_it_takes_writes_at_once() -> None:
    assert Starting(answer_ms_max=OFF).look(0) is None


def test_a_region_refuses_writes_and_answers_reads_until_time_has_passed() -> None:
    limits = RegionLimits(catch_up_answer_ms_max=ANSWER_MS, catch_up_stall_ms_max=STALL_MS)
    driven = Driven(make_region(limits=limits))
    refused = driven.ask("XADD", "s", "*", "f", "v")
    assert "MISCONF region 1 starts and asks region 2, 3" in str(refused)
    assert driven.ask("XLEN", "s") == 0
    assert driven.last.deadline == 1_000 + ANSWER_MS
    driven.clock = driven.last.deadline
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert isinstance(driven.ask("XADD", "s", "*", "f", "v"), bytes)


def test_a_region_that_has_recovered_takes_writes_at_once() -> None:
    """It had waited out the time that peers have for their answers, though they had answered."""
    folder = FolderState(is_proven=False, database=DatabaseIdentity(UID))
    limits = RegionLimits(catch_up_answer_ms_max=ANSWER_MS, catch_up_stall_ms_max=STALL_MS)
    driven = Driven(make_region(limits=limits, folder=folder))
    region, opening = driven.region, driven.region.opening
    for peer in (R2, R3):
        opening.note_answer(peer, Answer(0))
        opening.catching_up.note_answer(peer, 7, {})
        opening.note_time(driven.now)
        opening.look()
    # It begins an incarnation, keeps the members that its file names, and then it is confirmed.
    for expected in (StoreIncarnations, StoreMembership, Confirm):
        change = driven.end_tick().folder
        assert isinstance(change, expected)
        assert "MISCONF" in str(driven.ask("XADD", "s", "*", "f", "v"))
        region.folder.note_written(change, driven.now)
    driven.end_tick()
    assert isinstance(driven.ask("XADD", "s", "*", "f", "v"), bytes)


def test_the_error_about_cut_effects_does_not_promise_them_in_a_moment() -> None:
    starting = Starting()
    starting.one.note_answer(R2, 7, {R1: 1, R2: 5})
    starting.one.note_answer(R3, 7, {R1: 1})
    starting.one.cut_off = "region 2 has cut region 2's effects 1 to 5: a bootstrap"
    told = starting.look(10)
    assert told == f"region 1 came back and lacks 5 effects: {starting.one.cut_off}"
