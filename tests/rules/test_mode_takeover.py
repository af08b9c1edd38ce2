"""``rules`` 13: who ends up handing out owes everything that was left to others, in any order.

What a region jumps (XGROUP SETID) or gives up (XGROUP DELCONSUMER) while others hand out too is
theirs to deliver.  The tests let one region hear of the changes of mode in every order.
"""

from itertools import permutations, product

import pytest

from crdtstream.commands.reply import Null
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type


def read(node: Node) -> list[str]:
    """Entries that ``>`` delivers; none where another region is the home."""
    reply = node.run("XREADGROUP GROUP g again STREAMS x >")
    if reply is Null.ARRAY or (isinstance(reply, str) and reply.startswith("NOTHOME")):
        return []
    return list_of(str, of_type(dict, reply)["x"])


def pending(node: Node) -> list[str]:
    return [row[0] for row in list_of(list, node("XPENDING x g - + 100"))]


LEAVE_OUT = {
    "given up": ("XREADGROUP GROUP g c STREAMS x >", "XGROUP DELCONSUMER x g c"),
    "jumped": ("XGROUP SETID x g 500",),
}


@pytest.mark.parametrize("how", LEAVE_OUT)
@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_concurrent_modes_heard_in_either_order_leave_nothing_out(
    how: str, order: tuple[int, ...]
) -> None:
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 10 f v")
    sync(*nodes)
    r3.run(*LEAVE_OUT[how])
    r1.run("CRDT.XGROUP SETMODE x g home 3")
    r2.run("CRDT.XGROUP SETMODE x g home 2")
    for at in order:
        r3.pull(nodes[at])
    assert read(r3) == ["10-0"]
    sync(*nodes)


def test_a_lane_that_began_behind_a_jump_is_read_from_its_frontier_by_the_new_home() -> None:
    """Also if something of it was acknowledged elsewhere before the mode changed."""
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    sync(*nodes)
    r2.run("XGROUP SETID x g 500")
    r1.run("XADD x 10 f v", "XADD x 20 f v")
    assert read(r1) == ["10-0", "20-0"]
    r1.run("XACK x g 10-0")
    sync(*nodes)
    r1.run("CRDT.XGROUP SETMODE x g home 2")
    sync(*nodes)
    assert read(r2) == ["20-0"]


def test_partitioned_a_jump_speaks_of_no_lane_to_come() -> None:
    """Those are of other regions; whoever takes them by FORCE reads them from the frontier."""
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g partitioned")
    sync(*nodes)
    r2.run("XGROUP SETID x g 500")
    r2.run("XADD x 10 f v", "XADD x 600 f v")
    assert read(r2) == ["600-0"], "its own lane it jumped"
    r1.run("XADD x 20 f v")
    sync(*nodes)
    r2.run("CRDT.XGROUP SETMODE x g home 2 FORCE")
    assert read(r2) == ["10-0", "20-0"]


def test_an_empty_handover_is_one() -> None:
    """The home hands over a stream without lanes to a region that had jumped ahead."""
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1")
    sync(*nodes)
    r2.run("XGROUP SETID x g 500")
    r1.run("CRDT.XGROUP SETMODE x g home 2")
    r1.run("XADD x 10 f v")
    sync(*nodes)
    assert read(r2) == ["10-0"]


def test_entries_skipped_by_the_only_home_stay_skipped() -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1")
    r1.run("XADD x 10 f v", "XADD x 20 f v", "XGROUP SETID x g 10")
    sync(*nodes)
    r1.run("CRDT.XGROUP SETMODE x g home 2")
    sync(*nodes)
    assert read(r2) == ["20-0"]


def test_a_forced_home_does_not_repeat_deliveries_of_the_old_one() -> None:
    """R2 hands over to R3 while R1 forces R3 to be the home, and R1's setting counts."""
    for order in permutations(range(2)):
        r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
        r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 2")
        r1.run("XADD x 10 f v", "XADD x 20 f v", "XADD x 30 f v")
        sync(*nodes)
        assert read(r2) == ["10-0", "20-0", "30-0"]
        r2.run("XACK x g 20-0")
        r2.run("CRDT.XGROUP SETMODE x g home 3")
        r1.run("CRDT.XGROUP SETMODE x g home 3 FORCE")
        for at in order:
            r3.pull(nodes[at])
        assert read(r3) == []
        assert pending(r3) == ["10-0", "30-0"]
        sync(*nodes)


# --- ACKED ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", LEAVE_OUT)
def test_acked_spares_what_was_left_out_at_the_old_home(how: str) -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1", "XADD x 10 f v")
    sync(*nodes)
    assert read(r1) == ["10-0"]
    r1.run("CRDT.XGROUP SETMODE x g home 2")
    sync(*nodes)
    r1.run(*LEAVE_OUT[how], "XGROUP DELCONSUMER x g again")
    for trim in ("XTRIM x MAXLEN 0 ACKED", "XTRIM x MAXLEN ~ 0 ACKED", "XTRIM x MINID 50 ACKED"):
        assert r1.run(trim) == 0
    assert r1.run("XDELEX x ACKED IDS 1 10-0") == [2]
    r2.run("XAUTOCLAIM x g c 0 0")
    assert r2.run("XACK x g 10-0") == 1
    sync(*nodes)
    assert r1.run("XTRIM x MAXLEN 0 ACKED") == 1


def test_acked_at_the_old_home_spares_what_the_new_one_has_pending() -> None:
    """Acknowledged late at the old home, not in a row: nobody else hears of it."""
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1")
    r1.run("XADD x 10 f v", "XADD x 20 f v")
    sync(*nodes)
    assert read(r1) == ["10-0", "20-0"]
    r1.run("CRDT.XGROUP SETMODE x g home 2")
    sync(*nodes)
    assert r1.run("XACK x g 20-0") == 1
    assert r1.run("XTRIM x MAXLEN 0 ACKED") == 0
    sync(*nodes)
    assert pending(r2) == ["10-0", "20-0"]


@pytest.mark.parametrize("how", LEAVE_OUT)
def test_acked_spares_what_others_have_yet_to_hand_out(how: str) -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 10 f v")
    r2.run("XADD y 1 f v")
    sync(*nodes)
    r1.run(*LEAVE_OUT[how])
    assert r1.run("XTRIM x MAXLEN 0 ACKED") == 0
    assert read(r2) == ["10-0"]


@pytest.mark.parametrize("how", LEAVE_OUT)
def test_acked_takes_what_was_left_out_where_there_is_no_other_region(how: str) -> None:
    """As in Redis, where it is in no list of pending entries and behind last-delivered."""
    node = Node(1)
    node.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 10 f v")
    node.run(*LEAVE_OUT[how])
    assert node.run("XTRIM x MAXLEN 0 ACKED") == 1


def test_acked_takes_what_was_acknowledged_before_a_hole_and_not_the_hole() -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM", *[f"XADD x {ms} f v" for ms in (1, 2, 3, 4)])
    r2.run("XADD y 1 f v")
    sync(*nodes)
    r1.run("XREADGROUP GROUP g keeps COUNT 1 STREAMS x >")
    r1.run("XREADGROUP GROUP g acks COUNT 1 STREAMS x >", "XACK x g 2")
    r1.run("XREADGROUP GROUP g leaves COUNT 1 STREAMS x >", "XGROUP DELCONSUMER x g leaves")
    assert r1.run("XTRIM x MAXLEN 0 ACKED") == 1
    assert r1("XRANGE x - +") == ["1-0", "3-0", "4-0"]


@pytest.mark.parametrize("others", [True, False])
def test_acked_spares_what_a_group_that_was_set_back_has_ahead(*, others: bool) -> None:
    r1, r2 = Node(1), Node(2)
    if others:
        r2.run("XADD y 1 f v")
        r1.pull(r2)
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XGROUP CREATE x g 0")
    assert read(r1) == ["1-0", "2-0"]
    r1.run("XACK x g 1 2")
    r1.run("XGROUP SETID x g 1")
    assert r1.run("XDELEX x ACKED IDS 2 1 2") == [1, 2]
    assert r1.run("XTRIM x MAXLEN 0 ACKED") == 0
    assert read(r1) == ["2-0"]


# --- Any order ------------------------------------------------------------------------------------

HISTORIES = {
    "nothing": (),
    "read": ("XREADGROUP GROUP g c COUNT 2 STREAMS x >",),
    "acknowledged, not in a row": ("XREADGROUP GROUP g c COUNT 3 STREAMS x >", "XACK x g 15"),
    "given up": ("XREADGROUP GROUP g c COUNT 2 STREAMS x >", "XGROUP DELCONSUMER x g c"),
    "jumped": ("XREADGROUP GROUP g c COUNT 1 STREAMS x >", "XGROUP SETID x g 20"),
    "jumped all": ("XGROUP SETID x g 500",),
    "set back": ("XREADGROUP GROUP g c STREAMS x >", "XACK x g 10 15", "XGROUP SETID x g 0"),
}
MODES = ("at-least-once", "home 2", "home 3", "home 3 FORCE", "partitioned")


@pytest.mark.parametrize(
    "first",
    [
        "at-least-once",
        pytest.param("home 2", marks=pytest.mark.long),
        pytest.param("home 3", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("own", HISTORIES)
@pytest.mark.parametrize(
    "other", ["nothing", pytest.param("acknowledged, not in a row", marks=pytest.mark.long)]
)
def test_deliveries_do_not_depend_on_the_order_of_concurrent_modes(
    first: str, own: str, other: str
) -> None:
    """Region 3 hears what regions 1 and 2 set at the same time, in both orders."""
    for modes in product(MODES, MODES):
        outcomes = set()
        for order in permutations(range(2)):
            r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
            r1.run("XADD x 10 f v", "XADD x 20 f v", "XADD x 30 f v", "XGROUP CREATE x g 0")
            r2.run("XADD x 15 f v", "XADD x 40 f v")
            r2.pull(r1)
            r2.run(f"CRDT.XGROUP SETMODE x g {first}")
            r1.pull(r2)
            r3.pull(r2)
            for line in HISTORIES[other]:
                r2.run(line)
            for line in HISTORIES[own]:
                r3.run(line)
            for node, mode in zip(nodes, modes, strict=False):
                node.run(f"CRDT.XGROUP SETMODE x g {mode}")
            for at in order:
                r3.pull(nodes[at])
            read(r3)
            outcomes.add(tuple(pending(r3)))
        assert len(outcomes) == 1, modes
