"""Positions of a group are in the checkpoint: it reads on as if nothing had ended."""

from tests.harness.members import save_and_restart
from tests.harness.regions import Node, sync

TEN = [f"{ms}-0" for ms in range(1, 11)]


def read(node: Node) -> list[str]:
    reply = node.run("XREADGROUP GROUP g c STREAMS x >")
    return reply["x"] if isinstance(reply, dict) else []


def with_ten(node: Node) -> None:
    node.run(*[f"XADD x {entry_id} f v" for entry_id in TEN], "XGROUP CREATE x g 0")


def test_a_group_that_was_set_back_delivers_again_what_it_had_acknowledged() -> None:
    node = Node(1)
    with_ten(node)
    assert read(node) == TEN
    node.run(f"XACK x g {' '.join(TEN)}")
    node.run("XGROUP SETID x g 0")
    save_and_restart(node)
    assert read(node) == TEN


def test_a_region_that_becomes_home_delivers_what_it_had_left_out() -> None:
    """Entries that it skipped were for others to deliver; alone, it goes back to them."""
    r1, r2 = Node(1), Node(2)
    with_ten(r1)
    sync(r1, r2)
    r1.run("XGROUP SETID x g 8")
    save_and_restart(r1)
    r1.run("CRDT.XGROUP SETMODE x g HOME 1")
    assert read(r1) == TEN


def test_lanes_to_come_are_read_from_where_setid_said() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    sync(r1, r2)
    r1.run("XGROUP SETID x g 5")
    save_and_restart(r1)
    r2.run(*[f"XADD x {entry_id} f v" for entry_id in TEN])
    r1.pull(r2)
    assert read(r1) == TEN[5:]


def test_a_group_made_elsewhere_with_a_lower_start_begins_there_after_setid() -> None:
    """SETID spoke of the creates that were known when it came, and of no other."""
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 8 MKSTREAM", "XGROUP SETID x g 9")
    save_and_restart(r1)
    r2.run(*[f"XADD x {entry_id} f v" for entry_id in TEN], "XGROUP CREATE x g 0")
    r1.pull(r2)
    assert read(r1) == TEN
