"""The lag of a region behind its peers, by its own clock and by their reports."""

import pytest

from crdtstream.core.clock import MutableVersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.freshness import QUIET_HEARTBEATS, SAYINGS_MAX, Lags
from tests.harness.parts import Applied
from tests.harness.peers import peers_of, these

R1, R2, R3, R4, R5 = (RegionId(number) for number in range(1, 6))
HEARTBEAT_MS = 100
QUIET_MS = QUIET_HEARTBEATS * HEARTBEAT_MS


class Behind:
    """Region 1, and what it has applied."""

    def __init__(self, *peers: RegionId) -> None:
        self.vv: MutableVersionVector = {}
        self.lags = Lags(peers_of(R1, *peers), self, heartbeat_interval_ms=HEARTBEAT_MS)


def test_an_idle_peer_whose_effects_are_applied_adds_no_lag() -> None:
    one = Behind(R2)
    for at_ms in range(1_000, 5_000, HEARTBEAT_MS):
        one.lags.note(R2, {}, at_ms, at_ms - 3)
        assert one.lags.lag_ms(R2, at_ms + HEARTBEAT_MS - 1) == 3


def test_the_lag_grows_from_the_first_effect_that_lacks_until_it_is_applied() -> None:
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 1_000)
    one.lags.note(R2, {R2: 1}, 1_100, 1_090)
    one.lags.note(R2, {R2: 2}, 1_200, 1_190)
    assert one.lags.lag_ms(R2, 1_250) == 1_250 - 1_090
    one.vv = {R2: 1}
    assert one.lags.lag_ms(R2, 1_250) == 1_250 - 1_190
    one.vv = {R2: 2}
    assert one.lags.lag_ms(R2, 1_250) == 10


def test_the_lag_grows_while_a_peer_is_silent() -> None:
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 990)
    assert one.lags.lag_ms(R2, 1_000 + QUIET_MS) == 10
    assert one.lags.lag_ms(R2, 1_000 + QUIET_MS + 1) == 10 + QUIET_MS + 1
    assert one.lags.lag_ms(R2, 9_000) == 8_010
    one.lags.note(R2, {}, 9_000, 8_990)
    assert one.lags.lag_ms(R2, 9_000) == 10


def test_a_peer_that_says_when_it_speaks_next_is_silent_from_then_on() -> None:
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 990, next_ms=800)
    # What comes the other way says nothing of that.
    one.lags.note(R2, {}, 1_010, 1_000)
    due_ms = 1_000 + 800 + HEARTBEAT_MS
    assert one.lags.lag_ms(R2, due_ms) == 10
    assert one.lags.lag_ms(R2, due_ms + 1) == due_ms + 1 - 1_000
    # Its next heartbeat says that it speaks often again.
    one.lags.note(R2, {}, 2_000, 1_990, next_ms=HEARTBEAT_MS)
    assert one.lags.lag_ms(R2, 2_000 + QUIET_MS + 1) == 10 + QUIET_MS + 1


def test_an_announced_silence_ends_with_its_link() -> None:
    """It could not tell of what came after it was cut, so that may be as old as the cut."""
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 1_000, next_ms=2_000)
    one.lags.forget_announced(R2)
    one.lags.note(R2, {R2: 1}, 2_200)
    assert one.lags.lag_ms(R2, 2_210) == 2_210 - 1_000


def test_effects_reported_within_an_announced_silence_date_from_its_report() -> None:
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 990, next_ms=800)
    one.lags.note(R2, {R2: 1}, 1_700, 1_690, next_ms=HEARTBEAT_MS)
    assert one.lags.lag_ms(R2, 1_750) == 1_750 - 1_690
    two = Behind(R2)
    two.lags.note(R2, {}, 1_000, 990, next_ms=800)
    two.lags.note(R2, {R2: 1}, 3_000, 2_990)
    assert two.lags.lag_ms(R2, 3_000) == 3_000 - 990, "that was longer than it promised"


def test_a_silence_counts_until_what_happened_meanwhile_is_applied() -> None:
    """A line was cut for a minute: who is a minute behind is not current when it is mended."""
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 990)
    # Its first word after that does not say as of when.
    one.lags.note(R2, {R2: 9}, 61_000)
    one.lags.note(R2, {R2: 10}, 61_100, 61_090)
    assert one.lags.lag_ms(R2, 61_100) == 61_100 - 990
    one.vv = {R2: 9}
    assert one.lags.lag_ms(R2, 61_100) == 10
    one.vv = {R2: 10}
    assert one.lags.lag_ms(R2, 61_100) == 10


def test_a_slow_line_is_lag() -> None:
    one = Behind(R2)
    one.lags.note(R2, {}, 5_000, 3_000)
    assert one.lags.lag_ms(R2, 5_000) == 2_000


def test_of_two_ways_by_which_a_peer_speaks_the_faster_one_counts() -> None:
    """By its acks this region knows at once what it had; heartbeats of before change nothing."""
    one = Behind(R2)
    one.lags.note(R2, {}, 5_000, 4_990)
    one.lags.note(R2, {}, 5_020, 3_020)
    assert one.lags.lag_ms(R2, 5_020) == 10
    one.lags.note(R2, {R2: 1}, 5_050, 5_040)
    one.lags.note(R2, {}, 5_060, 3_060)
    assert one.lags.lag_ms(R2, 5_600) == 5_600 - 5_040


def test_a_peer_cannot_make_a_region_look_current_by_an_echo_of_the_future() -> None:
    one = Behind(R2)
    one.lags.note(R2, {}, 1_000, 1_000_000)
    assert one.lags.lag_ms(R2, 2_000) == 1_000


def test_a_long_silence_of_applying_is_bounded_in_memory_and_loses_no_lag() -> None:
    one = Behind(R2)
    count = SAYINGS_MAX.value * 2
    for n in range(1, count + 1):
        one.lags.note(R2, {R2: n}, n * 100, n * 100)
    assert one.lags.lag_ms(R2, count * 100) == count * 100 - 100
    one.vv = {R2: count}
    assert one.lags.lag_ms(R2, count * 100) == 0


# (peers, lags of those that are heard, the region's lag, whether it is a minority)
MAJORITIES = [
    ((), {}, 0, False),
    # Two regions: the other one may be lost, and then this one must serve.
    ((R2,), {R2: 700}, 700, False),
    ((R2,), {}, 0, False),
    # Three: with one of the others it is a majority; a third that lags behind does not matter.
    ((R2, R3), {R2: 700, R3: 5}, 5, False),
    ((R2, R3), {R3: 700}, 700, False),
    ((R2, R3), {}, 0, True),
    ((R2, R3, R4), {R2: 1, R3: 20, R4: 300}, 20, False),
    ((R2, R3, R4), {R2: 7}, 7, False),
    ((R2, R3, R4), {}, 0, True),
    ((R2, R3, R4, R5), {R2: 1, R3: 20, R4: 300, R5: 4_000}, 20, False),
    ((R2, R3, R4, R5), {R2: 7}, 7, True),
]


@pytest.mark.parametrize(("peers", "heard", "lag_ms", "is_minority"), MAJORITIES)
def test_a_majority_of_regions_counts(
    peers: tuple[RegionId, ...], heard: dict[RegionId, int], lag_ms: int, *, is_minority: bool
) -> None:
    one = Behind(*peers)
    for peer, lag in heard.items():
        one.lags.note(peer, {}, 10_000, 10_000 - lag)
    found = one.lags.freshness(heard, 10_000)
    assert (found.lag_ms, found.is_minority) == (lag_ms, is_minority)
    assert (found.linked, found.peers) == (len(heard), len(peers))


def test_a_peer_that_is_not_heard_any_more_does_not_count() -> None:
    """Else the loss of one region would make the survivor unavailable."""
    one = Behind(R2)
    one.lags.note(R2, {R2: 9}, 1_000, 1_000)
    assert one.lags.freshness([R2], 60_000).lag_ms == 59_000
    assert one.lags.freshness([], 60_000).lag_ms == 0


@pytest.mark.parametrize(
    ("peers", "is_active_here", "linked", "is_minority"),
    [
        # Of two regions one that is alone is half of them, and no minority.
        (1, True, 0, False),
        (2, True, 0, True),
        (2, True, 1, False),
        (3, True, 0, True),
        (3, True, 1, False),
        # A region that joins, or was removed, is none of them.
        (1, False, 0, True),
        (1, False, 1, False),
        (2, False, 0, True),
        (2, False, 1, False),
        (3, False, 1, True),
        (3, False, 2, False),
        (0, False, 0, False),
    ],
)
def test_only_an_active_region_counts_itself_for_the_majority(
    peers: int, is_active_here: bool, linked: int, is_minority: bool
) -> None:
    others = [R2, R3, R4][:peers]
    known = peers_of(R1, *others)
    known.change(Millis(1), these(*others), is_active_here=is_active_here)
    lags = Lags(known, Applied(), heartbeat_interval_ms=HEARTBEAT_MS)
    for peer in others[:linked]:
        lags.note(peer, {}, 1_000, 995)
    fresh = lags.freshness(others[:linked], 1_000)
    assert (fresh.linked, fresh.peers, fresh.is_minority) == (linked, peers, is_minority)


@pytest.mark.parametrize(
    ("is_active_here", "lag_ms"),
    [
        # With one of two peers it is a majority.
        (True, 5),
        (False, 9),
    ],
)
def test_a_region_that_joins_is_as_far_behind_as_a_majority_of_the_others(
    is_active_here: bool, lag_ms: int
) -> None:
    known = peers_of(R1, R2, R3)
    known.change(Millis(1), these(R2, R3), is_active_here=is_active_here)
    lags = Lags(known, Applied(), heartbeat_interval_ms=HEARTBEAT_MS)
    lags.note(R2, {}, 1_000, 995)
    lags.note(R3, {}, 1_000, 991)
    assert lags.freshness([R2, R3], 1_000).lag_ms == lag_ms
