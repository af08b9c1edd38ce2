"""Groups of two states made one (``rules`` 10 to 13): what is replicated, and what is local."""

import pytest

from crdtstream.core.ids import RegionId
from tests.harness.group_modes import (
    home_with_pending,
    mode_of,
    owners,
    pending,
    read,
    regions,
    set_mode,
)
from tests.harness.merging import local_facts, merge_as_by_links, twin_of
from tests.harness.regions import Node, sync


def read_by_both() -> tuple[Node, Node]:
    """Both regions have g from 0 on and five entries of region 1, delivered in both."""
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    r1.run(*[f"XADD x {ms}-1 f v" for ms in (110, 120, 130, 140, 150)])
    sync(r1, r2)
    assert read(r1) == read(r2)
    return r1, r2


# --- Creates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("destroy", ["XGROUP DESTROY x g", "DEL x"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_create_dies_by_a_destroy_that_had_not_observed_it(destroy: str, at: int) -> None:
    nodes = regions()
    nodes[0].run("XADD x 1 f v")
    sync(*nodes)
    nodes[0].run("XGROUP CREATE x g 0")
    nodes[1].run("XGROUP CREATE x g 0", destroy)
    nodes[at].merge(nodes[1 - at])
    assert not local_facts(nodes[at])
    nodes[1 - at].merge(nodes[at])
    sync(*nodes)


@pytest.mark.parametrize("at", [0, 1])
def test_a_create_that_had_observed_the_destroy_lives(at: int) -> None:
    nodes = regions()
    nodes[0].run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1 f v")
    sync(*nodes)
    nodes[0].run("XGROUP DESTROY x g", "XGROUP CREATE x g 0")
    nodes[at].merge(nodes[1 - at])
    nodes[1 - at].merge(nodes[at])
    assert read(nodes[1]) == ["1-0"]
    sync(*nodes)


def test_of_creates_of_both_sides_the_lowest_start_counts() -> None:
    """C5: a region goes back to the frontier; what is pending there is not delivered again."""
    r1, r2 = regions()
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XADD x 3 f v")
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 2", "XREADGROUP GROUP g c STREAMS x >")
    r2.run("XGROUP CREATE x g 0")
    merge_as_by_links(r1, r2)
    assert read(r1) == ["1-0", "2-0"]


# --- 1: none of the creates lives (C4) ------------------------------------------------------------


def test_all_that_is_local_goes_with_the_creates() -> None:
    r1, r2 = read_by_both()
    r1.run("XGROUP DESTROY x g", "XGROUP CREATE x g 130-1")
    merge_as_by_links(r2, r1)
    assert pending(r2) == []
    assert read(r2) == ["140-1", "150-1"]


def test_unsent_runs_of_a_group_are_dropped_with_its_creates() -> None:
    r1, r2 = read_by_both()
    r2("XACK x g 110-1")
    r1.run("XGROUP DESTROY x g", "XGROUP CREATE x g 0")
    # A region that recovers keeps its effects back.
    r2.replica.may_issue = False
    r2.replica._state.grown_runs.note(b"x", b"g", (RegionId(1),))
    r2.merge(r1)
    assert not r2.replica._state.grown_runs.lanes
    assert len(read(r2)) == 5


def test_local_facts_stay_while_one_of_the_creates_lives() -> None:
    r1, r2 = regions()
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 0")
    r2.run("XGROUP CREATE x g 0")
    r1.pull(r2)
    r1.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >")
    r2.run("PEXPIRE x 1")
    r2.now += 10
    r2.expire()
    r2.run("XADD x 3 f v")
    r1.merge(r2)
    assert owners(r1) == {"1-0": "c"}


# --- 3: intervals (C6) ----------------------------------------------------------------------------


def test_entries_acknowledged_in_the_merged_state_are_pending_no_more() -> None:
    r1, r2 = read_by_both()
    r1.run("XACK x g 110-1 120-1 130-1")
    merge_as_by_links(r2, r1)
    assert pending(r2) == ["140-1", "150-1"]


def test_unread_entries_acknowledged_in_the_merged_state_are_not_delivered() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(r1, r2)
    read(r1, 2)
    r1.run("XACK x g 1-1 2-1")
    merge_as_by_links(r2, r1)
    assert read(r2) == ["3-1"]


def test_a_position_inside_a_newly_acknowledged_run_moves_to_its_end() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(r1, r2)
    read(r2, 1)
    read(r1, 2)
    r1.run("XACK x g 1-1 2-1")
    merge_as_by_links(r2, r1)
    assert read(r2) == ["3-1"]


def test_a_group_set_back_delivers_acknowledged_entries_after_a_merge() -> None:
    """C6: only intervals that are new here move a position."""
    r1, r2 = read_by_both()
    r1.run("XACK x g 110-1 120-1 130-1 140-1 150-1")
    sync(r1, r2)
    r2.run("XGROUP SETID x g 0")
    r1.run("XADD x 160-1 f v")
    merge_as_by_links(r2, r1)
    assert read(r2) == ["110-1", "120-1", "130-1", "140-1", "150-1", "160-1"]


def test_a_claimed_acknowledged_entry_stays_pending_after_a_merge() -> None:
    r1, r2 = read_by_both()
    r1.run("XACK x g 110-1 120-1")
    sync(r1, r2)
    r2.run("XCLAIM x g d 0 120-1 FORCE")
    r1.run("XADD x 160-1 f v")
    merge_as_by_links(r2, r1)
    assert owners(r2)["120-1"] == "d"


def test_intervals_of_both_sides_are_united() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    r1.run(*[f"XADD x {ms}-1 f v" for ms in (110, 120, 130, 140, 150)])
    sync(r1, r2)
    read(r1)
    r1.run("XACK x g 110-1 120-1")
    r2.run("XGROUP SETID x g 130-1")
    read(r2)
    r2.run("XACK x g 140-1 150-1")
    merge_as_by_links(r2, r1)
    merge_as_by_links(r1, r2)
    assert pending(r1) == ["130-1"]


# --- What stays as it is --------------------------------------------------------------------------


def test_owners_counts_and_the_order_of_claims_stay() -> None:
    r1, r2 = read_by_both()
    r2.now += 5
    r2.run("XCLAIM x g d 0 130-1", "XNACK x g FAIL IDS 1 120-1", "XNACK x g SILENT IDS 1 110-1")
    r2.run("XGROUP CREATECONSUMER x g idle", "XGROUP DELCONSUMER x g d")
    r1.run("XACK x g 110-1", "XADD x 160-1 f v")
    merge_as_by_links(r2, r1)
    assert owners(r2) == {"120-1": "", "140-1": "c", "150-1": "c"}


def test_entries_given_up_by_delconsumer_stay_a_hole_after_a_merge() -> None:
    """The run that is vouched for does not reach over it after a merge."""
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(r1, r2)
    r2.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >", "XGROUP DELCONSUMER x g c")
    read(r2)
    r1.run("XADD x 4-1 f v")
    merge_as_by_links(r2, r1)
    r2.run("XACK x g 2-1 3-1")
    r1.pull(r2)
    assert read(r1) == ["1-1", "4-1"]


def test_entries_that_come_late_with_low_ids_are_delivered() -> None:
    r1, r2 = regions()
    r1.run("XADD x 5-1 f v")
    r2.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 9-2 f v")
    assert read(r2) == ["9-2"]
    merge_as_by_links(r2, r1)
    assert read(r2) == ["5-1"]


def test_entries_pending_in_the_merged_state_are_not_pending_here() -> None:
    r1, _ = read_by_both()
    r3 = Node(3)
    r3.merge(r1)
    assert pending(r3) == []
    assert len(read(r3)) == 5


def test_two_states_in_a_row_leave_what_their_effects_would_leave() -> None:
    r1, r2, r3 = regions(3)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    r1.run(*[f"XADD x {ms}-1 f v" for ms in (1, 2, 3, 4)])
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        read(node)
    r1.run("XACK x g 1-1")
    r2.run("XACK x g 1-1 2-1", "XADD x 9-2 f v")
    merge_as_by_links(r3, r1, r2)
    assert pending(r3) == ["3-1", "4-1"]


# --- 4: modes (C7, M12) ---------------------------------------------------------------------------


def test_entries_pending_at_the_old_home_are_pending_at_the_new_one() -> None:
    """M12: region 2 hears of the handover by region 3's state; 120 is pending, with nobody."""
    r1, r2, r3 = nodes = regions(3)
    home_with_pending(*nodes)
    r1.run("XACK x g 110-1")
    set_mode(r1, "home 2")
    r3.pull(r1)
    merge_as_by_links(r2, r3)
    assert owners(r2) == {"120-1": "", "130-1": ""}
    assert read(r2) == []


def test_a_handover_is_taken_in_also_if_another_setting_won() -> None:
    r1, r2, r3 = nodes = regions(3)
    home_with_pending(*nodes)
    set_mode(r1, "home 2")
    r3.pull(r1)
    set_mode(r3, "home 3 FORCE")
    merge_as_by_links(r2, r3)
    assert owners(r2) == {"110-1": "", "120-1": "", "130-1": ""}


def test_an_empty_handover_takes_up_what_was_left_out() -> None:
    """Region 2 skipped entries while others delivered too; as the home it delivers them itself."""
    r1, r2, r3 = nodes = regions(3)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v")
    sync(*nodes)
    r2.run("XGROUP SETID x g 2-1")
    set_mode(r1, "home 2")
    r3.pull(r1)
    merge_as_by_links(r2, r3)
    assert read(r2) == ["1-1", "2-1"]


def test_a_home_that_is_taken_by_force_begins_at_the_frontier() -> None:
    r1, r2, r3 = nodes = regions(3)
    home_with_pending(*nodes)
    r1.run("XACK x g 110-1")
    r3.pull(r1)
    set_mode(r3, "home 2 FORCE")
    merge_as_by_links(r2, r3)
    assert read(r2) == ["120-1", "130-1"]


def test_settings_are_applied_in_causal_order() -> None:
    """Home 1 to 2, by force to 3, and to 2: what 3 acknowledged is not pending at 2."""
    r1, r2, r3 = nodes = regions(3)
    home_with_pending(*nodes)
    set_mode(r1, "home 2")
    r3.pull(r1)
    set_mode(r3, "home 3 FORCE")
    assert len(read(r3)) == 3
    r3.run("XACK x g 120-1")
    set_mode(r3, "home 2")
    merge_as_by_links(r2, r3)
    assert owners(r2) == {"110-1": "", "130-1": ""}


def test_a_setting_that_was_heard_is_not_applied_again() -> None:
    r1, r2 = nodes = regions()
    home_with_pending(*nodes)
    set_mode(r1, "home 2")
    r2.pull(r1)
    r2.run("XCLAIM x g c 0 110-1 120-1 130-1", "XACK x g 120-1")
    r1.run("XADD y 1 f v")
    merge_as_by_links(r2, r1)
    assert owners(r2) == {"110-1": "c", "130-1": "c"}


def test_a_mode_that_is_stable_comes_with_its_create() -> None:
    nodes = regions(3)
    home_with_pending(*nodes)
    for node in nodes:
        node.replica.forget_stable(node.replica.vv)
    r4 = Node(4)
    r4.merge(nodes[2])
    assert mode_of(r4)[:2] == ("home", 1)
    assert read(r4) == []


def test_a_merge_without_a_mode_takes_up_no_skipped_entries() -> None:
    """C7: a merge without settings does not take up what a client jumped."""
    r1, r2 = nodes = regions()
    home_with_pending(*nodes)
    r1.run("XADD x 140-1 f v", "XADD x 150-1 f v", "XGROUP SETID x g 150-1")
    r2.run("XADD y 1 f v", "XADD x 160-2 f v")
    merge_as_by_links(r1, r2)
    assert read(r1) == ["160-2"]


def test_a_jump_stays_though_others_deliver_too() -> None:
    """C7: who delivers is not settled anew without a setting: the client jumped on purpose."""
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(r1, r2)
    r2.run("XGROUP SETID x g 2-1")
    r1.run("XADD x 4-1 f v")
    merge_as_by_links(r2, r1)
    assert read(r2) == ["3-1", "4-1"]


def test_settings_are_kept_with_the_group_that_came() -> None:
    """A chain: region 3 hears by region 2's state, region 4 by region 3's."""
    r1, r2, r3, r4 = nodes = regions(4)
    home_with_pending(*nodes)
    set_mode(r1, "home 4")
    r2.merge(r1)
    r3.merge(r2)
    merge_as_by_links_of(r4, r3, by=r1)
    assert owners(r4) == {"110-1": "", "120-1": "", "130-1": ""}


def merge_as_by_links_of(node: Node, source: Node, *, by: Node) -> None:
    """As ``merge_as_by_links``, of effects that only ``by`` has in its log."""
    twin = twin_of(node)
    twin.pull(by)
    node.merge(source)
    assert local_facts(node) == local_facts(twin)


def test_a_stable_setting_is_forgotten() -> None:
    r1, r2, r3 = nodes = regions(3)
    home_with_pending(*nodes)
    set_mode(r1, "home 2")
    r3.pull(r1)
    r2.merge(r3)
    sync(*nodes)
    assert len(r2.replica._state.settings) == 2
    r2.replica.forget_stable(r2.replica.vv)
    assert len(r2.replica._state.settings) == 0
    stream = r2.replica.stream(b"x")
    assert stream is not None
    assert not stream.groups[b"g"].settings


def test_a_partitioned_group_keeps_to_its_lanes() -> None:
    r1, r2, r3 = nodes = regions(3)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v")
    sync(*nodes)
    r2.run("XADD x 2-2 f v")
    set_mode(r1, "partitioned")
    r3.pull(r1)
    merge_as_by_links(r2, r3)
    assert read(r2) == ["2-2"]


def test_a_lane_that_others_deliver_is_left_to_them_whenever_it_is_kept() -> None:
    """By effects the mode comes first, then the acknowledgement; a merge takes in acks first."""
    r1, r2 = regions()
    r1.run("XADD x 1 f v", "XGROUP CREATE x g 0", "CRDT.XGROUP SETMODE x g HOME 1")
    r1.run("XREADGROUP GROUP g c STREAMS x >", "XACK x g 1-0")
    merge_as_by_links(r2, r1)
