"""CRDT.XGROUP and ``rules`` 13: who hands out a group's entries, and what a move carries along."""

from itertools import permutations

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import AckFrontier, SetGroupMode
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import Add, JoinToken
from crdtstream.database.database import WAITING
from tests.harness.clients import Clients
from tests.harness.group_modes import (
    claim,
    home_with_pending,
    issued,
    mode_of,
    owners,
    pending,
    positions,
    read,
    regions,
    set_mode,
)
from tests.harness.members import decide, members, remove
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type
from tests.membership.world import contact

# --- The command --------------------------------------------------------------------------------


def test_a_new_group_is_handed_out_everywhere() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v")
    sync(r1, r2)
    assert mode_of(r1) == ("at-least-once", None, 0, None)
    assert read(r1) == read(r2) == ["1-1"]


def test_the_mode_is_replicated_with_its_epoch_and_issuer() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    assert set_mode(r1, "HOME 2") == "OK"
    sync(r1, r2)
    assert mode_of(r1) == mode_of(r2) == ("home", 2, 1, 1)
    assert set_mode(r2, "Partitioned") == "OK"
    sync(r1, r2)
    assert mode_of(r1) == mode_of(r2) == ("partitioned", None, 2, 2)
    assert set_mode(r1, "at-least-once FORCE") == "OK"
    sync(r1, r2)
    assert mode_of(r1) == mode_of(r2) == ("at-least-once", None, 3, 1)


@pytest.mark.parametrize("mode", ["at-least-once", "home 1", "partitioned"])
def test_the_same_mode_again_issues_nothing(mode: str) -> None:
    r1 = Node(1)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    set_mode(r1, mode)
    before = len(issued(r1))
    assert set_mode(r1, mode) == set_mode(r1, f"{mode} FORCE") == "OK"
    assert len(issued(r1)) == before


def test_leaving_at_least_once_needs_no_force_and_hands_nothing_over() -> None:
    for mode in ("home 2", "partitioned", "home 2 FORCE"):
        r1 = Node(1)
        r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v")
        read(r1)
        assert set_mode(r1, mode) == "OK"
        effect = issued(r1)[-1]
        assert isinstance(effect, SetGroupMode)
        assert (effect.forced, effect.handover) == (False, {})


@pytest.mark.parametrize("mode", ["home 1", "home 3", "partitioned", "at-least-once"])
def test_only_the_home_hands_over(mode: str) -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 2")
    sync(r1, r2)
    refused = str(set_mode(r1, mode))
    assert refused.startswith("ERR Region 2 is the home of group 'g' and must hand over")
    assert "FORCE" in refused
    assert mode_of(r1) == ("home", 2, 1, 1)
    assert set_mode(r2, mode) == "OK"
    effect = issued(r2)[-1]
    assert isinstance(effect, SetGroupMode)
    assert not effect.forced


@pytest.mark.parametrize("mode", ["home 1", "home 2", "at-least-once"])
def test_leaving_partitioned_needs_force_everywhere(mode: str) -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g partitioned")
    sync(r1, r2)
    for node in (r1, r2):
        refused = str(set_mode(node, mode))
        assert refused.startswith("ERR Group 'g' is partitioned and every region owns a lane of it")
        assert "handed out again" in refused
    assert set_mode(r2, f"{mode} FORCE") == "OK"


def test_force_at_the_home_hands_over_all_the_same() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    set_mode(r1, "home 2 FORCE")
    sync(r1, r2)
    assert read(r2) == []
    assert pending(r2) == ["110-1", "120-1", "130-1"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("SETMODE y g home 1", "ERR no such key"),
        ("GETMODE y g", "ERR no such key"),
        ("SETMODE x h home 1", "NOGROUP No such consumer group 'h' for key name 'x'"),
        ("GETMODE x h", "NOGROUP No such consumer group 'h' for key name 'x'"),
        (
            "SETMODE x g exactly-once",
            "ERR Unknown mode 'exactly-once': at-least-once, home <region> or partitioned",
        ),
        ("SETMODE x g home", "ERR The home must be a region, a number from 1 to 1023"),
        ("SETMODE x g home FORCE", "ERR The home must be a region, a number from 1 to 1023"),
        ("SETMODE x g home 0", "ERR The home must be a region, a number from 1 to 1023"),
        ("SETMODE x g home 1024", "ERR The home must be a region, a number from 1 to 1023"),
        ("SETMODE x g home 1 2", "ERR syntax error"),
        ("SETMODE x g home 1 FORCE FORCE", "ERR syntax error"),
        ("SETMODE x g partitioned 1", "ERR syntax error"),
        ("SETMODE x g at-least-once please", "ERR syntax error"),
        (
            "SETMODE x g",
            "ERR wrong number of arguments for 'crdt.xgroup|setmode' command",
        ),
        ("RESET x g", "ERR unknown subcommand 'RESET'. Try CRDT.XGROUP HELP."),
    ],
)
def test_wrong_arguments_are_refused(line: str, error: str) -> None:
    r1 = Node(1)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    before = len(issued(r1))
    assert r1(f"CRDT.XGROUP {line}") == error
    assert len(issued(r1)) == before


def test_help_names_the_subcommands() -> None:
    lines = Node(1)("CRDT.XGROUP HELP")
    assert isinstance(lines, list)
    assert {"GETMODE", "SETMODE", "HELP"} <= {str(line).split(" ")[0] for line in lines}


# --- Home ---------------------------------------------------------------------------------------


def test_only_the_home_hands_out_and_all_the_lanes() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    r2.run("XADD x 140-2 f v")
    assert str(r2("XREADGROUP GROUP g c STREAMS x >")).startswith("NOTHOME")
    sync(r1, r2)
    assert read(r1) == ["140-2"]


def test_a_home_that_does_not_exist_hands_out_nothing_until_force() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 99", "XADD x 1-1 f v")
    sync(r1, r2)
    assert read(r1) == read(r2) == []
    set_mode(r2, "home 2 FORCE")
    assert read(r2) == ["1-1"]


def test_a_region_that_had_read_before_goes_on_where_it_was_when_it_becomes_the_home() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v")
    sync(r1, r2)
    assert read(r1) == ["1-1", "2-1"]
    assert read(r2, 1) == ["1-1"]
    set_mode(r1, "home 2")
    sync(r1, r2)
    assert read(r2) == ["2-1"]


def test_a_handover_with_120_pending_keeps_it_pending_at_the_new_home() -> None:
    """The counterexample of rule 13: the new home acknowledges 130, and 120 is never processed."""
    r1, r2 = regions()
    assert home_with_pending(r1, r2) == ["110-1", "120-1", "130-1"]
    r1.run("XACK x g 110-1 130-1")
    set_mode(r1, "home 2")
    sync(r1, r2)
    assert owners(r2) == {"120-1": ""}
    r2.run("XADD x 140-2 f v")
    assert read(r2) == ["140-2"]
    assert r2.run("XACK x g 140-2") == 1
    sync(r1, r2)
    # Neither frontier has passed it.
    assert pending(r1) == pending(r2) == ["120-1"]
    assert claim(r2, "120-1") == ["120-1"]
    assert r2.run("XACK x g 120-1") == 1
    sync(r1, r2)
    assert pending(r1) == pending(r2) == []
    for node in (r1, r2):
        facts = list_of(dict, node("XINFO GROUPS x"))
        assert facts[0]["last-delivered-id"] == "140-2" or node is r1
        became = list_of(dict, node("CRDT.WHY x 130-1"))[0]["groups"]
        assert became["g"] == {"state": "covered-by-frontier"}


def test_a_late_xack_at_the_old_home_still_counts() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    set_mode(r1, "home 2")
    sync(r1, r2)
    assert r1.run("XACK x g 110-1 120-1") == 2
    sync(r1, r2)
    assert owners(r1) == {"130-1": "c"}
    assert owners(r2) == {"130-1": ""}


def test_a_late_xack_counts_in_whichever_order_it_meets_a_second_handover() -> None:
    for late_first in (True, False):
        r1, r2, r3 = regions(3)
        home_with_pending(r1, r2, r3)
        set_mode(r1, "home 2")
        sync(r1, r2, r3)
        r1.run("XACK x g 110-1")
        set_mode(r2, "home 3")
        r3.pull(*([r1, r2] if late_first else [r2, r1]))
        assert pending(r3) == ["120-1", "130-1"]
        assert read(r3) == []
        sync(r1, r2, r3)


def test_a_new_home_does_not_repeat_its_earlier_deliveries() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(r1, r2)
    assert read(r2) == ["1-1", "2-1", "3-1"]
    set_mode(r1, "home 1")
    assert read(r1, 1) == ["1-1"]
    set_mode(r1, "home 2")
    sync(r1, r2)
    assert read(r2) == []
    assert pending(r2) == ["1-1", "2-1", "3-1"]


def test_the_old_home_stops_at_once() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    set_mode(r1, "home 2")
    r1.run("XADD x 140-1 f v")
    assert str(r1("XREADGROUP GROUP g c STREAMS x >")).startswith("NOTHOME")
    sync(r1, r2)
    assert read(r2) == ["140-1"]


def test_history_is_read_and_given_up_at_the_old_home() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    set_mode(r1, "home 2")
    assert r1.run("XREADGROUP GROUP g c STREAMS x 0") == {"x": ["110-1", "120-1", "130-1"]}
    assert str(r1("XCLAIM x g d 0 110-1")).startswith("NOTHOME")
    assert r1.run("XGROUP DELCONSUMER x g c") == 3
    sync(r1, r2)
    assert pending(r2) == ["110-1", "120-1", "130-1"]


def test_a_home_may_come_back() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    set_mode(r1, "home 2")
    sync(r1, r2)
    r2.run("XADD x 140-2 f v")
    assert read(r2) == ["140-2"]
    assert claim(r2, "120-1") == ["120-1"]
    set_mode(r2, "home 1")
    sync(r1, r2)
    assert read(r1) == []
    assert owners(r1) == {"110-1": "c", "120-1": "c", "130-1": "c", "140-2": ""}


def test_a_create_with_a_lower_start_is_not_lost_in_a_handover() -> None:
    """The new home has heard of it, the old one has not; or the other way round."""
    for orders in permutations(range(3)):
        nodes = regions(3)
        r1, r2, r3 = nodes
        r1.run("XADD x 10-1 f v", "XADD x 20-1 f v")
        sync(*nodes)
        r1.run("XGROUP CREATE x g 10-1")
        r3.run("XGROUP CREATE x g 0")
        r2.pull(r1)
        set_mode(r1, "home 1")
        assert read(r1) == ["20-1"]
        set_mode(r1, "home 2")
        for source in orders:
            r2.pull(nodes[source])
        sync(*nodes)
        assert read(r2) == ["10-1"]
        assert pending(r2) == ["10-1", "20-1"]


def test_a_new_home_delivers_entries_that_its_setid_had_skipped() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in (1, 2, 3)], "XGROUP CREATE x g 0")
    sync(r1, r2)
    r1.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >")
    r1.run("XGROUP SETID x g 3")
    r1.run("CRDT.XGROUP SETMODE x g home 1")
    sync(r1, r2)
    assert r1("XREADGROUP GROUP g c STREAMS x >") == {"x": ["2-0", "3-0"]}


def test_a_home_that_was_set_back_hands_that_over_too() -> None:
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XGROUP CREATE x g 0")
    r1.run("CRDT.XGROUP SETMODE x g home 1")
    r1.run("XREADGROUP GROUP g c STREAMS x >", "XACK x g 1 2")
    sync(*nodes)
    r1.run("CRDT.XGROUP SETMODE x g home 2")
    sync(*nodes)
    r2.run("XGROUP SETID x g 0")
    r2.run("CRDT.XGROUP SETMODE x g home 3")
    sync(*nodes)
    assert r3("XREADGROUP GROUP g c STREAMS x >") == {"x": ["1-0", "2-0"]}


def test_becoming_the_home_repeats_nothing_and_keeps_the_counters() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in (1, 2, 3)], "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g c COUNT 2 STREAMS x >", "XACK x g 2")
    before = r1("XINFO GROUPS x")
    r1.run("CRDT.XGROUP SETMODE x g home 1")
    sync(r1, r2)
    assert r1("XINFO GROUPS x") == before
    assert r1("XREADGROUP GROUP g c STREAMS x >") == {"x": ["3-0"]}


# --- FORCE --------------------------------------------------------------------------------------


def test_force_starts_at_the_replicated_frontier() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    r1.run("XACK x g 110-1")
    sync(r1, r2)
    r1.run("XACK x g 130-1")  # not in a row: nobody else knows
    set_mode(r2, "home 2 FORCE")
    assert read(r2) == ["120-1", "130-1"]
    sync(r1, r2)
    assert mode_of(r1) == ("home", 2, 2, 2)
    assert str(r1("XREADGROUP GROUP g c STREAMS x >")).startswith("NOTHOME")


def test_force_takes_up_what_xgroup_setid_had_jumped_over() -> None:
    for known_lane in (True, False):
        r1, r2 = regions()
        r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1")
        if known_lane:
            r1.run("XADD x 1-1 f v")
        sync(r1, r2)
        r2.run("XGROUP SETID x g 500")
        r1.run("XADD x 2-1 f v")
        sync(r1, r2)
        set_mode(r2, "home 2 FORCE")
        assert read(r2)[-1:] == ["2-1"]


def test_a_home_that_was_forced_out_hears_of_it_and_its_acks_still_count() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    set_mode(r2, "home 2 FORCE")
    r1.run("XADD x 140-1 f v")
    assert read(r1) == ["140-1"]  # it has not heard yet
    assert read(r2) == ["110-1", "120-1", "130-1"]
    r1.run("XACK x g 110-1 120-1")
    sync(r1, r2)
    assert pending(r2) == ["130-1"]
    assert read(r2) == ["140-1"]


# --- Concurrent settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (("home 2", 1), ("home 3 FORCE", 3), ("home", 2, 2, 1)),
        (("home 3", 1), ("home 2 FORCE", 2), ("home", 3, 2, 1)),
        (("partitioned", 1), ("home 2 FORCE", 2), ("partitioned", None, 2, 1)),
        (("home 3 FORCE", 3), ("home 2 FORCE", 2), ("home", 2, 2, 2)),
        (("at-least-once", 1), ("partitioned FORCE", 3), ("at-least-once", None, 2, 1)),
    ],
)
def test_of_concurrent_settings_the_lowest_region_s_counts(
    first: tuple[str, int], second: tuple[str, int], winner: tuple[object, ...]
) -> None:
    """Handover and FORCE, whichever comes first; and nothing is skipped."""
    for order in permutations(range(3)):
        nodes = regions(3)
        home_with_pending(*nodes)
        nodes[0].run("XACK x g 110-1 130-1")
        for mode, region in (first, second):
            assert set_mode(nodes[region - 1], mode) == "OK"
        for at in order:
            nodes[at].pull(*[nodes[other] for other in reversed(order)])
        sync(*nodes)
        assert {mode_of(node) for node in nodes} == {winner}
        for node in nodes:
            read(node)
        chosen = [nodes[winner[1] - 1]] if isinstance(winner[1], int) else nodes[:1]
        assert all("120-1" in pending(node) for node in chosen)


def test_a_setting_that_had_observed_another_beats_it() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1")
    sync(r1, r2)
    set_mode(r2, "home 2 FORCE")
    set_mode(r2, "partitioned")
    set_mode(r1, "home 2")
    sync(r1, r2)
    assert mode_of(r1) == mode_of(r2) == ("partitioned", None, 3, 2)


def test_destroy_and_create_reset_the_mode() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 2", "XADD x 1-1 f v")
    sync(r1, r2)
    r2.run("CRDT.XGROUP SETMODE x g home 1")  # of the group that goes
    r1.run("XGROUP DESTROY x g", "XGROUP CREATE x g 0")
    sync(r1, r2)
    assert mode_of(r1) == mode_of(r2) == ("at-least-once", None, 0, None)
    assert read(r1) == read(r2) == ["1-1"]


# --- Partitioned --------------------------------------------------------------------------------


def partitioned_regions() -> list[Node]:
    nodes = regions()
    nodes[0].run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g partitioned")
    sync(*nodes)
    nodes[0].run("XADD x 10-1 f v", "XADD x 30-1 f v")
    nodes[1].run("XADD x 20-2 f v")
    sync(*nodes)
    return nodes


def test_partitioned_each_region_hands_out_its_own_lane() -> None:
    r1, r2 = partitioned_regions()
    assert read(r1) == ["10-1", "30-1"]
    assert read(r2) == ["20-2"]


def test_partitioned_only_the_owner_tells_what_was_acknowledged() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 10-1 f v")
    r2.run("XADD x 20-2 f v")
    sync(r1, r2)
    assert read(r1) == ["10-1", "20-2"]
    set_mode(r1, "partitioned")
    r1.run("XACK x g 10-1 20-2")
    sync(r1, r2)
    told = [effect for effect in issued(r1) if isinstance(effect, AckFrontier)]
    assert [list(effect.intervals) for effect in told] == [[1]]
    assert read(r2) == ["20-2"]
    r2.run("XACK x g 20-2")
    (told_there,) = [effect for effect in issued(r2) if isinstance(effect, AckFrontier)]
    assert list(told_there.intervals) == [2]


def test_xacks_before_a_mode_change_of_the_tick_are_replicated() -> None:
    r1, r2 = regions()
    r2.run("XADD x 20-2 f v", "XGROUP CREATE x g 0")
    sync(r1, r2)
    assert read(r1) == ["20-2"]
    r1.run("XACK x g 20-2", "CRDT.XGROUP SETMODE x g partitioned")
    sync(r1, r2)
    assert read(r2) == []


def test_a_home_hands_each_lane_over_to_its_region() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1", "XADD x 10-1 f v")
    r2.run("XADD x 20-2 f v", "XADD x 40-2 f v")
    sync(r1, r2)
    assert read(r1, 2) == ["10-1", "20-2"]
    set_mode(r1, "partitioned")
    sync(r1, r2)
    assert owners(r2) == {"20-2": ""}
    assert read(r2) == ["40-2"]
    assert read(r1) == []
    assert claim(r2, "20-2") == ["20-2"]
    r2.run("XACK x g 20-2 40-2")
    sync(r1, r2)
    assert pending(r1) == ["10-1"]


def test_force_out_of_partitioned_starts_at_each_lane_s_frontier() -> None:
    r1, r2 = partitioned_regions()
    r1.run("XADD x 40-1 f v")
    assert read(r1) == ["10-1", "30-1", "40-1"]
    assert read(r2) == ["20-2"]
    r1.run("XACK x g 10-1 40-1")
    sync(r1, r2)
    set_mode(r2, "home 2 FORCE")
    assert read(r2) == ["30-1", "40-1"]
    assert pending(r2) == ["20-2", "30-1", "40-1"]


# --- Blocked readers, restarts ------------------------------------------------------------------


def test_a_blocked_reader_hears_that_the_home_has_moved() -> None:
    r1, r2 = regions()
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1")
    sync(r1, r2)
    told = "NOTHOME Group 'g' of key 'x' is handed out by region 2 only"
    clients = Clients(r1)

    assert clients.call("XREADGROUP GROUP g c BLOCK 0 STREAMS x >") is WAITING
    (reply,) = clients.write("CRDT.XGROUP SETMODE x g home 2")
    assert of_type(CommandError, reply).text.startswith(told)

    sync(r1, r2)
    set_mode(r2, "home 1")
    sync(r1, r2)
    assert clients.served() == []
    assert clients.call("XREADGROUP GROUP g c BLOCK 0 STREAMS x >") is WAITING
    set_mode(r2, "home 2 FORCE")
    r1.pull(r2)
    (reply,) = clients.served()
    assert of_type(CommandError, reply).text.startswith(told)


def test_a_restart_lives_through_the_same() -> None:
    r1, r2 = regions()
    home_with_pending(r1, r2)
    r1.run("XACK x g 110-1", "XACK x g 130-1", "CRDT.XGROUP SETMODE x g home 2")
    sync(r1, r2)
    assert claim(r2, "120-1") == ["120-1"]
    set_mode(r2, "partitioned")
    r2.run("XADD x 140-2 f v")
    read(r2)
    set_mode(r1, "home 1 FORCE")
    sync(r1, r2)
    for node in (r1, r2):
        before = positions(node), node.digest
        node.restart()
        assert (positions(node), node.digest) == before


@pytest.mark.parametrize(
    ("home", "reply"),
    [
        (2, "OK"),
        # Its heir takes over.
        (3, "OK"),
        (4, "ERR Region 4 is joining, and would hand nothing out: active are 1, 2"),
        (9, "ERR Region 9 is no member, and would hand nothing out: active are 1, 2"),
    ],
)
def test_a_home_is_an_active_region(home: int, reply: str) -> None:
    nodes = members(3)
    r1 = nodes[0]
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    sync(*nodes)
    remove(r1, 3, heir=2)
    decide(r1, Add(RegionId(4), contact(4), JoinToken(bytes(32), Millis(1 << 40))))
    assert set_mode(r1, f"home {home}") == reply


def test_before_members_are_adopted_nobody_knows_who_may_be_a_home() -> None:
    (r1,) = regions(1)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    assert set_mode(r1, "home 9") == "OK"
