"""Causal stability: rule 3 and its counterexample."""

from crdtstream.core.ids import RegionId
from crdtstream.core.stability import StabilityTracker

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


def test_an_ack_does_not_count_before_what_its_sender_had_issued_is_applied() -> None:
    """R2 issued create C without having seen destroy D, applied D and acknowledged it; R1 hears
    the ack before C.  D is durable everywhere, and still C, concurrent to it, is on its way."""
    tracker = StabilityTracker(R1, [R1, R2])
    destroy_at_r1 = {R1: 1}
    tracker.learn(R2, {R1: 1, R2: 1})
    assert tracker.stable(destroy_at_r1) == {}
    with_create = {R1: 1, R2: 1}
    assert tracker.stable(with_create) == {R1: 1, R2: 1}


def test_nothing_is_stable_until_every_member_was_heard() -> None:
    tracker = StabilityTracker(R1, [R2, R3])
    tracker.learn(R2, {R1: 5})
    assert tracker.stable({R1: 5}) == {}
    tracker.learn(R3, {R1: 3})
    assert tracker.stable({R1: 5}) == {R1: 3}


def test_stable_is_what_all_have() -> None:
    tracker = StabilityTracker(R1, [R2, R3])
    tracker.learn(R2, {R1: 4, R2: 7, R3: 2})
    tracker.learn(R3, {R1: 6, R2: 3, R3: 2})
    assert tracker.stable({R1: 6, R2: 7, R3: 2}) == {R1: 4, R2: 3, R3: 2}


def test_a_member_that_is_always_ahead_does_not_hold_stability_back() -> None:
    """Under a steady stream of effects the newest version vector is never covered; an older one
    that was kept is."""
    tracker = StabilityTracker(R1, [R2])
    stable_n = 0
    for n in range(1, 101):
        tracker.learn(R2, {R1: n, R2: n})
        stable = tracker.stable({R1: 100, R2: n - 1})
        assert stable.get(R1, 0) >= max(0, n - 3)
        stable_n = stable.get(R1, 0)
    assert stable_n >= 97


def test_version_vectors_of_strangers_are_ignored() -> None:
    tracker = StabilityTracker(R1, [R2])
    tracker.learn(R3, {R1: 1})
    assert tracker.heard() == {R2: {}}


def test_a_region_alone_is_stable_at_once() -> None:
    assert StabilityTracker(R1, []).stable({R1: 2}) == {R1: 2}


def test_a_member_that_is_added_counts_at_once() -> None:
    tracker = StabilityTracker(R1, [R2])
    tracker.learn(R2, {R1: 5})
    assert tracker.stable({R1: 5}) == {R1: 5}
    tracker.count([R2, R3])
    assert tracker.stable({R1: 6}) == {}
    tracker.learn(R3, {R1: 4})
    assert tracker.stable({R1: 6}) == {R1: 4}


def test_effects_that_all_effects_of_an_added_member_observed_are_stable() -> None:
    tracker = StabilityTracker(R1, [R2])
    tracker.learn(R2, {R1: 5})
    tracker.count([R2, R3], has={R3: {R1: 3}, R2: {R1: 9}})
    assert tracker.stable({R1: 5}) == {R1: 3}
    tracker.learn(R3, {R3: 1})
    assert tracker.stable({R1: 5}) == {R1: 3}
    assert tracker.stable({R1: 5, R3: 1}) == {R1: 3}
    tracker.learn(R3, {R1: 4, R3: 1})
    assert tracker.stable({R1: 5, R3: 1}) == {R1: 4}


def test_a_member_that_is_removed_holds_nothing_back() -> None:
    tracker = StabilityTracker(R1, [R2, R3])
    tracker.learn(R2, {R1: 5})
    tracker.count([R2])
    assert tracker.stable({R1: 6}) == {R1: 5}
    tracker.learn(R3, {R1: 6})
    assert tracker.heard() == {R2: {R1: 5}}


def test_remaining_members_need_not_repeat_their_version_vectors() -> None:
    tracker = StabilityTracker(R1, [R2, R3])
    tracker.learn(R2, {R1: 5, R2: 2})
    tracker.learn(R3, {R1: 5})
    tracker.count([R2])
    assert tracker.stable({R1: 5}) == {}, "what R2 had issued by then is not here"
    assert tracker.stable({R1: 5, R2: 2}) == {R1: 5, R2: 2}


def test_a_member_that_numbers_effects_anew_has_to_say_again_what_it_has() -> None:
    """R2 said that it has issued three; it lost the third, of which R1 has only heard."""
    tracker = StabilityTracker(R1, [R2, R3])
    tracker.learn(R2, {R1: 5, R2: 3})
    tracker.learn(R3, {R1: 5, R2: 2})
    assert tracker.stable({R1: 5, R2: 2}) == {}
    tracker.note_ends({R2: 2})
    assert tracker.stable({R1: 5, R2: 2}) == {}
    tracker.learn(R2, {R1: 5, R2: 2})
    assert tracker.stable({R1: 5, R2: 2}) == {R1: 5, R2: 2}


def test_version_vectors_over_ended_effects_do_not_count_for_their_successors() -> None:
    """R2 and R3 had R2:3, and lost it; R2:3 is another effect now, which R3 lacks."""
    tracker = StabilityTracker(R1, [R2, R3])
    tracker.learn(R2, {R2: 3})
    tracker.learn(R3, {R2: 3})
    tracker.note_ends({R2: 2})
    tracker.learn(R2, {R2: 3})
    assert tracker.stable({R2: 3}) == {R2: 2}
    tracker.learn(R3, {R2: 3})
    assert tracker.stable({R2: 3}) == {R2: 3}


def test_effects_observed_by_all_of_a_member_stay_so_in_its_next_incarnation() -> None:
    tracker = StabilityTracker(R1, [R2])
    tracker.count([R2, R3], has={R3: {R1: 3}})
    tracker.learn(R2, {R1: 5})
    tracker.learn(R3, {R1: 4, R3: 1})
    tracker.note_ends({R3: 0})
    assert tracker.stable({R1: 5}) == {R1: 3}
