"""The state machine of a link, and the routes: without IO."""

from random import Random

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.links.link import (
    TRANSITIONS,
    BackoffOver,
    CaughtUp,
    Failed,
    Link,
    LinkEvent,
    LinkState,
    Pause,
    Refused,
    Reopen,
    Resume,
    Welcomed,
)
from crdtstream.region.links.routes import EXTRA_KEPT_MS, Routes
from crdtstream.region.tick import Tick
from tests.harness.parts import nothing_held
from tests.harness.peers import peers_of

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)

EVENTS: list[LinkEvent] = [
    Welcomed(),
    CaughtUp(),
    Failed("gone"),
    Refused("no"),
    BackoffOver(),
    Pause(),
    Resume(),
    Reopen(),
]


def link() -> Link:
    return Link(Random(1).uniform, backoff_ms_min=100, backoff_ms_max=5_000)


def state_of(one: Link) -> LinkState:
    """Looked at anew: the type checker takes an attribute for what it was found to be."""
    return one.state


def test_a_link_comes_up_fails_and_comes_up_again() -> None:
    one = link()
    states = []
    for event in (Welcomed(), CaughtUp(), Failed("gone"), BackoffOver(), Welcomed(), CaughtUp()):
        assert one.feed(event)
        states.append(one.state.value)
    assert states == ["catching up", "live", "waiting", "connecting", "catching up", "live"]
    assert (one.reconnects, one.failures, one.error) == (1, 0, "")


@pytest.mark.parametrize("state", LinkState)
def test_an_operator_may_pause_a_link_in_any_state(state: LinkState) -> None:
    one = link()
    one.state = state
    one.feed(Pause())
    assert state_of(one) is LinkState.PAUSED
    for event in EVENTS:
        if not isinstance(event, Resume):
            assert not one.feed(event)
    assert one.feed(Resume())
    assert state_of(one) is LinkState.CONNECTING


def test_every_state_is_reached_and_left() -> None:
    reached = {after for row in TRANSITIONS.values() for after in row.values()}
    assert reached == set(LinkState)
    assert all(TRANSITIONS[state] for state in LinkState)


def test_pauses_double_up_to_the_bound_and_vary() -> None:
    one = link()
    pauses = []
    for _ in range(10):
        one.feed(Failed("gone"))
        pauses.append(one.backoff_seconds())
        one.feed(BackoffOver())
    for index, pause in enumerate(pauses):
        whole = min(5.0, 0.1 * 2**index)
        assert whole / 2 <= pause <= whole
    assert len(set(pauses)) == len(pauses)
    one.feed(Refused("another database"))
    assert 2.5 <= one.backoff_seconds() <= 5.0


def routes() -> Routes:
    made = Routes(peers_of(R1, R2, R3), nothing_held(), Tick(), now=Millis(0), relay_after_ms=100)
    for peer in (R2, R3):
        made.note(peer, is_up=True, paused=False, now=Millis(0))
    return made


def test_a_link_asks_for_its_peer() -> None:
    assert routes().wanted(R2, Millis(10**6)) == {R2}


def test_an_origin_without_a_working_link_is_asked_of_others_after_a_while() -> None:
    table = routes()
    table.note(R3, is_up=False, paused=False, now=Millis(50))
    table.note(R3, is_up=False, paused=False, now=Millis(120))
    assert table.wanted(R2, Millis(150)) == {R2}
    assert table.wanted(R2, Millis(151)) == {R2, R3}
    table.note(R3, is_up=True, paused=False, now=Millis(200))
    assert table.wanted(R2, Millis(200)) == {R2}


def test_a_paused_origin_is_not_asked_of_others() -> None:
    table = routes()
    table.note(R3, is_up=False, paused=True, now=Millis(0))
    assert not table.ask(R2, [R3], Millis(10))
    assert table.wanted(R2, Millis(10_000)) == {R2}


def test_an_origin_that_batches_waited_for_is_asked_for_a_while() -> None:
    table = routes()
    assert table.ask(R2, [R3], Millis(10))
    assert not table.ask(R2, [R3], Millis(20))
    assert table.wanted(R2, Millis(30)) == {R2, R3}
    assert table.wanted(R3, Millis(30)) == {R3}
    assert table.wanted(R2, Millis(21 + EXTRA_KEPT_MS.value)) == {R2}


def test_own_lost_effects_are_asked_of_everybody() -> None:
    table = routes()
    table.own_lost = True
    assert table.wanted(R2, Millis(0)) == {R1, R2}
    assert table.wanted(R3, Millis(0)) == {R1, R3}
