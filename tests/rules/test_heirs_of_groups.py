"""``rules`` 4, 13: what only a removed region handed out, its heir hands out, and no other."""

from itertools import permutations

import pytest

from crdtstream.core.effects import SetGroupMode
from crdtstream.core.ids import RegionId
from tests.harness.group_modes import (
    claim,
    issued,
    lanes_of,
    mode_of,
    owners,
    pending,
    positions,
    read,
    set_mode,
)
from tests.harness.members import RESTARTS, members, remove, save_and_restart
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type

R1 = RegionId(1)


# --- A home that was removed ----------------------------------------------------------------------


def home_3(count: int = 3, entries: int = 4) -> list[Node]:
    """Region 3 is the home, has handed out all entries, and had the first and the third back."""
    nodes = members(count)
    r3 = nodes[2]
    r3.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 3")
    sync(*nodes)
    for number in range(1, entries + 1):
        node = nodes[number % count]
        node.run(f"XADD x {number}00-{node.region} f v")
        sync(*nodes)
    assert len(read(r3)) == entries
    ids = pending(r3)
    r3.run(f"XACK x g {ids[0]}")
    sync(*nodes)
    return nodes


def test_the_heir_goes_on_from_what_is_known_to_be_acknowledged() -> None:
    """Entries that the home delivered come again, except those known to be acknowledged."""
    r1, r2, r3 = nodes = home_3(entries=6)
    assert pending(r3) == ["200-3", "300-1", "400-2", "500-3", "600-1"]
    # Of lane 1 in a row, and so it is known; of lane 3 not.
    r3.run("XACK x g 300-1 500-3")
    sync(*nodes)
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert read(r1) == []
    assert read(r2) == ["200-3", "400-2", "500-3", "600-1"]
    assert r2.run("XACK x g 200-3 400-2 500-3 600-1") == 4
    sync(r1, r2)
    assert pending(r1) == pending(r2) == []
    for node in (r1, r2):
        why = list_of(dict, node("CRDT.WHY x 500-3"))[0]["groups"]["g"]
        assert why == {"state": "covered-by-frontier"}


def test_only_the_heir_reads_claims_and_hands_over() -> None:
    r1, r2, _ = home_3()
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert read(r2, 1) == ["200-3"]
    assert str(r1("XREADGROUP GROUP g c STREAMS x >")).startswith(
        "NOTHOME Group 'g' of key 'x' is handed out by region 2 only"
    )
    assert str(r1("XAUTOCLAIM x g c 0 0")).startswith("NOTHOME")
    assert str(set_mode(r1, "home 1")).startswith("ERR Region 2 is the home")
    assert claim(r2, "200-3") == ["200-3"]
    assert set_mode(r2, "home 1") == "OK"
    effect = issued(r2)[-1]
    assert isinstance(effect, SetGroupMode)
    assert not effect.forced
    assert effect.handover
    sync(r1, r2)
    assert owners(r1) == {"200-3": ""}
    assert read(r1) == ["300-1", "400-2"]


def test_the_views_name_the_region_that_hands_out_now() -> None:
    r1, r2, _ = home_3()
    remove(r1, 3, heir=2)
    sync(r1, r2)
    for node in (r1, r2):
        assert mode_of(node) == ("home", 2, 1, 3)
        assert list_of(dict, node("CRDT.XINFO GROUPS x"))[0]["home"] == 2
        why = list_of(dict, node("CRDT.WHY x 400-2"))[0]["groups"]["g"]
        assert why["handed-out-by"] == 2
    assert list_of(dict, r1("CRDT.XINFO GROUPS x"))[0]["undelivered"] == 0
    assert list_of(dict, r2("CRDT.XINFO GROUPS x"))[0]["undelivered"] == 3


def test_a_removed_region_stands_for_its_heir_as_a_home() -> None:
    r1, r2, _ = home_3()
    remove(r1, 3, heir=2)
    sync(r1, r2)
    before = len(issued(r2))
    assert set_mode(r2, "home 3") == set_mode(r2, "home 2") == "OK"
    assert len(issued(r2)) == before
    set_mode(r2, "home 1")
    sync(r1, r2)
    assert set_mode(r1, "home 3") == "OK"
    effect = issued(r1)[-1]
    assert isinstance(effect, SetGroupMode)
    assert effect.home == 2, "a handover to a removed region would reach nobody"


def test_the_heir_does_not_repeat_its_own_deliveries() -> None:
    r1, r2, r3 = nodes = members()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(*nodes)
    assert read(r2, 2) == ["1-1", "2-1"]
    set_mode(r1, "home 3")
    sync(*nodes)
    assert read(r3) == ["1-1", "2-1", "3-1"]
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert read(r2) == ["3-1"]
    assert pending(r2) == ["1-1", "2-1", "3-1"]


def test_the_heir_reads_what_it_had_jumped_while_the_home_handed_out() -> None:
    r1, r2, r3 = nodes = members()
    r3.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 3")
    r3.run("XADD x 1-3 f v", "XADD x 2-3 f v")
    sync(*nodes)
    r2.run("XGROUP SETID x g 500")
    r1.run("XADD x 3-1 f v")
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert read(r2) == ["1-3", "2-3", "3-1"]


def test_the_heir_of_an_heir_hands_out_for_both() -> None:
    """M15: region 3 is removed and then its heir, which was a home itself."""
    r1, r2, _, r4 = nodes = home_3(4)
    r2.run("XGROUP CREATE y g 0 MKSTREAM", "CRDT.XGROUP SETMODE y g home 2", "XADD y 1-2 f v")
    sync(*nodes)
    remove(r1, 3, heir=2)
    sync(r1, r2, r4)
    assert len(read(r2, 2)) == 2
    r2.run(f"XACK x g {pending(r2)[0]}")
    sync(r1, r2, r4)
    remove(r1, 2, heir=4)
    sync(r1, r4)
    assert read(r1) == []
    assert read(r4) == ["300-4", "400-1"]
    reply = r4.run("XREADGROUP GROUP g c STREAMS y >")
    assert of_type(dict, reply)["y"] == ["1-2"]
    assert mode_of(r1) == mode_of(r4) == ("home", 4, 1, 3)


@pytest.mark.parametrize("how", RESTARTS)
@pytest.mark.parametrize("saved", ["before", "between", "after"])
def test_an_heir_that_starts_again_hands_out_the_same_next(how: str, saved: str) -> None:
    restart = RESTARTS[how]
    r1, r2, _ = home_3()
    if saved == "before":
        restart(r2)
    remove(r1, 3, heir=2)
    r2.pull(r1)
    before = positions(r2)
    if saved == "between":
        restart(r2)
    assert positions(r2) == before
    assert read(r2, 1) == ["200-3"]
    if saved == "after":
        restart(r2)
    assert read(r2) == ["300-1", "400-2"]
    assert pending(r2) == ["200-3", "300-1", "400-2"]


def test_a_checkpoint_has_what_the_heir_took_up() -> None:
    """The one before the removal has the lanes as they were left to the home."""
    r1, r2, r3 = nodes = members()
    r3.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-3 f v", "XADD x 2-3 f v")
    sync(*nodes)
    r2.run("XGROUP SETID x g 500")
    set_mode(r3, "home 3")
    sync(*nodes)
    save_and_restart(r2)
    remove(r1, 3, heir=2)
    r2.pull(r1)
    save_and_restart(r2)
    assert read(r2) == ["1-3", "2-3"]


def test_an_heir_that_hears_of_it_by_a_merge_hands_out() -> None:
    r1, r2, _ = home_3()
    r1.run("XADD x 500-1 f v")
    remove(r1, 3, heir=2)
    r2.merge(r1)
    assert read(r2) == ["200-3", "300-1", "400-2", "500-1"]
    assert r2.digest == r1.digest


def test_a_region_that_learns_of_group_and_removal_by_a_merge_hands_out() -> None:
    r1, _, r3, r4 = members(4)
    r3.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 3", "XADD x 1-3 f v")
    r1.pull(r3)
    remove(r1, 3, heir=4)
    r4.merge(r1)
    assert read(r4) == ["1-3"]


# --- Orders ---------------------------------------------------------------------------------------


def test_a_mode_that_names_the_removed_region_is_one_whenever_it_comes() -> None:
    """Region 2 hands the group over to region 3 while region 1 removes that, with heir 4."""
    outcomes = []
    for order in permutations(range(3)):
        r1, r2, r3, r4 = nodes = members(4)
        r2.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 2")
        sync(*nodes)
        r2.run("XADD x 100-2 f v", "XADD x 200-2 f v", "XADD x 300-2 f v")
        sync(*nodes)
        assert read(r2) == ["100-2", "200-2", "300-2"]
        r2.run("XACK x g 100-2 300-2")
        set_mode(r2, "home 3")
        r3.run("XADD x 400-3 f v")
        remove(r1, 3, heir=4)
        # Region 1 relays what is within the cut.
        sources = [r1, r2, r3]
        for at in order:
            r4.pull(sources[at])
        outcomes.append((positions(r4), read(r4), pending(r4)))
        r1.pull(r2, r3)
        sync(r1, r2, r4)
        assert read(r1) == read(r2) == []
    assert {str(one) for one in outcomes} == {str(outcomes[0])}
    assert outcomes[0][1] == ["200-2", "300-2", "400-3"]


def test_the_heir_keeps_its_position_in_any_order_of_mode_and_removal() -> None:
    """Every region hands out; region 2 makes region 3 the home while region 1 removes that."""
    outcomes = []
    for order in permutations(range(3)):
        r1, r2, r3, r4 = nodes = members(4)
        r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
        sync(*nodes)
        assert read(r4, 2) == ["1-1", "2-1"]
        r4.run("XACK x g 2-1")
        r3.run("XADD x 4-3 f v")
        set_mode(r2, "home 3")
        remove(r1, 3, heir=4)
        for at in order:
            r4.pull((r1, r2, r3)[at])
        outcomes.append((positions(r4), read(r4), pending(r4)))
        r1.pull(r2, r3)
        sync(r1, r2, r4)
    assert {str(one) for one in outcomes} == {str(outcomes[0])}
    assert outcomes[0][1:] == (["3-1", "4-3"], ["1-1", "3-1", "4-3"])


def test_a_handover_of_the_removed_region_that_comes_late_counts() -> None:
    """It had named region 1; that it was removed meanwhile, with heir 2, changes nothing there."""
    for late in (False, True):
        r1, r2, r3 = home_3()
        set_mode(r3, "home 1")
        if not late:
            r1.pull(r3)
            r2.pull(r3)
        remove(r2, 3, heir=2)
        r1.pull(r2)
        r1.pull(r3)
        sync(r1, r2)
        assert mode_of(r1) == mode_of(r2) == ("home", 1, 2, 3)
        assert read(r1) == read(r2) == []
        assert owners(r1) == {"200-3": "", "300-1": "", "400-2": ""}


def test_the_heir_skips_an_xack_in_flight_in_either_order_of_arrival() -> None:
    for order in permutations(range(2)):
        r1, r2, r3 = home_3()
        r3.run("XACK x g 200-3")
        remove(r1, 3, heir=2)
        for at in order:
            r2.pull((r1, r3)[at])
        assert read(r2) == ["300-1", "400-2"]
        sync(r1, r2)


def test_xacks_of_the_heir_are_replicated_before_it_takes_over() -> None:
    """Of the tick in which it issues the removal itself, as of any tick before."""
    r1, r2, _ = nodes = members()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(*nodes)
    r2.run("XGROUP SETID x g 1-1")
    assert read(r2) == ["2-1", "3-1"]
    set_mode(r1, "home 3")
    sync(*nodes)
    r2("XACK x g 2-1 3-1")
    remove(r2, 3, heir=2)
    sync(r1, r2)
    assert read(r2) == ["1-1"]
    for node in (r1, r2):
        stream = node.replica.stream(b"x")
        assert stream is not None
        assert [(low >> 64, high >> 64) for low, high in stream.groups[b"g"].intervals[R1]] == [
            (1, 3)
        ]


# --- Lanes of their own ---------------------------------------------------------------------------


def partitioned(count: int = 3) -> list[Node]:
    """Each region has handed out two entries of its lane and acknowledged the first."""
    nodes = members(count)
    nodes[0].run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g partitioned")
    sync(*nodes)
    for node in nodes:
        at = node.region
        node.run(*[f"XADD x {at}{number}0-{at} f v" for number in (1, 2, 3)])
        assert len(read(node, 2)) == 2
        node.run(f"XACK x g {at}10-{at}")
    sync(*nodes)
    return nodes


def test_the_heir_hands_out_the_lane_of_the_removed_region_once() -> None:
    r1, r2, _ = partitioned()
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert read(r1) == ["130-1"]
    assert read(r2) == ["230-2", "320-3", "330-3"]
    assert read(r1) == read(r2) == []
    why = list_of(dict, r1("CRDT.WHY x 330-3"))[0]["groups"]["g"]
    assert why["handed-out-by"] == 2
    assert r2.run("XACK x g 320-3 330-3") == 2
    sync(r1, r2)
    # Whoever hands a lane out says what was acknowledged of it.
    frontiers = {node.region: lanes_of(node)[3].last_delivered for node in (r1, r2)}
    assert frontiers[1] == frontiers[2]
    why = list_of(dict, r1("CRDT.WHY x 330-3"))[0]["groups"]["g"]
    assert why == {"state": "covered-by-frontier"}


def test_a_lane_that_nobody_had_read_yet_begins_at_its_frontier_at_the_heir() -> None:
    """Also if the heir jumped ahead before the lane began: that was its own reading."""
    r1, r2, r3 = nodes = members()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g partitioned")
    sync(*nodes)
    r2.run("XGROUP SETID x g 500")
    r3.run("XADD x 1-3 f v", "XADD x 2-3 f v")
    assert read(r3, 1) == ["1-3"]
    r3.run("XACK x g 1-3")
    r1.pull(r3)
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert read(r2) == ["2-3"]


def test_a_waiting_reader_gets_the_inherited_lane() -> None:
    r1, r2, _ = partitioned()
    assert read(r2) == ["230-2"]
    r2.replica.touched.clear()
    remove(r1, 3, heir=2)
    r2.pull(r1)
    assert r2.replica.touched == {b"x"}


def test_a_group_that_every_region_hands_out_does_not_change() -> None:
    r1, r2, r3 = nodes = members()
    r3.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-3 f v", "XADD x 2-3 f v")
    sync(*nodes)
    assert read(r2, 1) == ["1-3"]
    before = positions(r2)
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert positions(r2) == before
    assert (read(r1), read(r2)) == (["1-3", "2-3"], ["2-3"])


def test_the_heir_of_an_heir_hands_out_three_lanes() -> None:
    r1, r2, _, r4 = partitioned(4)
    remove(r1, 3, heir=2)
    sync(r1, r2, r4)
    assert read(r2) == ["230-2", "320-3", "330-3"]
    r2.run("XACK x g 220-2 230-2 320-3")
    remove(r1, 2, heir=4)
    r4.pull(r2, r1)
    sync(r1, r4)
    assert read(r1) == ["130-1"]
    assert read(r4) == ["330-3", "430-4"]


@pytest.mark.parametrize("how", RESTARTS)
def test_an_heir_that_starts_again_has_the_lane(how: str) -> None:
    restart = RESTARTS[how]
    r1, r2, _ = partitioned()
    remove(r1, 3, heir=2)
    r2.pull(r1)
    restart(r2)
    assert read(r2, 2) == ["230-2", "320-3"]
    restart(r2)
    assert read(r2) == ["330-3"]


def test_lanes_are_one_in_whatever_order_removal_and_mode_come() -> None:
    outcomes = []
    for order in permutations(range(3)):
        r1, r2, r3, r4 = nodes = members(4)
        r1.run("XGROUP CREATE x g 0 MKSTREAM")
        r3.run("XADD x 1-3 f v", "XADD x 2-3 f v")
        sync(*nodes)
        assert read(r4, 1) == ["1-3"]
        r4.run("XGROUP SETID x g 500")
        set_mode(r2, "partitioned")
        r3.run("XADD x 3-3 f v")
        remove(r1, 3, heir=4)
        for at in order:
            r4.pull((r1, r2, r3)[at])
        outcomes.append((positions(r4), read(r4), pending(r4)))
        r1.pull(r2, r3)
        sync(r1, r2, r4)
        assert read(r1) == read(r2) == []
    assert {str(one) for one in outcomes} == {str(outcomes[0])}
    assert outcomes[0][1] == ["2-3", "3-3"]


# --- The removed region itself --------------------------------------------------------------------


def test_a_region_that_applies_its_own_removal_hands_out_no_more() -> None:
    r1, _, r3 = nodes = home_3()
    remove(r1, 3, heir=2)
    sync(*nodes)
    r3.run("XADD x 500-3 f v")
    assert str(r3("XREADGROUP GROUP g c STREAMS x >")).startswith("NOTHOME")
