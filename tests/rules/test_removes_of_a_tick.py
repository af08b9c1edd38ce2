"""Deletes of one tick: neighbours become one effect, if nothing lies between them."""

from crdtstream.core.effects import Remove
from crdtstream.core.issuing.open_batch import REMOVE_IDS_MAX
from tests.harness.regions import Node, sync


def removed(node: Node) -> list[list[str]]:
    """Per Remove that the node issued the IDs, lane by lane."""
    return [
        [f"{lane}:{entry_id >> 64}" for lane in sorted(effect.ids) for entry_id in effect.ids[lane]]
        for batch in node.batches()
        if batch.origin == node.region
        for _, effect in batch.others
        if isinstance(effect, Remove)
    ]


def with_entries(*ms: int) -> tuple[Node, Node]:
    nodes = Node(1), Node(2)
    nodes[0].run(*[f"XADD x {one} f v" for one in ms])
    sync(*nodes)
    return nodes


def restarted(node: Node) -> Node:
    before = node.digest, node("XPENDING x g"), node("XINFO STREAM x")
    node.restart()
    assert (node.digest, node("XPENDING x g"), node("XINFO STREAM x")) == before
    return node


def test_deletes_one_by_one_are_one_effect() -> None:
    nodes = r1, _ = with_entries(1, 2, 3, 4)
    assert [r1(f"XDEL x {ms}") for ms in (1, 2, 2, 4)] == [1, 1, 0, 1]
    assert removed(r1) == [["1:1", "1:2", "1:4"]]
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [["3-0"]] * 2
    assert restarted(r1)("XRANGE x - +") == ["3-0"]


def test_lanes_join_each_other() -> None:
    nodes = r1, r2 = with_entries(1, 3)
    r2.run("XADD x 5 f v", "XADD x 6 f v")
    sync(*nodes)
    r1.run("XDEL x 1", "XDEL x 6", "XDEL x 3")
    assert removed(r1) == [["1:1", "1:3", "2:6"]]
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [["5-0"]] * 2


def test_xdels_in_descending_order_are_separate_effects() -> None:
    nodes = r1, _ = with_entries(1, 2, 3)
    r1.run("XDEL x 2", "XDEL x 1", "XDEL x 3")
    assert removed(r1) == [["1:2"], ["1:1", "1:3"]]
    sync(*nodes)


def test_an_entry_that_came_between_is_taken_by_its_own_effect() -> None:
    """The first one had not observed it."""
    nodes = r1, _ = with_entries(1)
    r1.run("XDEL x 1", "XADD x 2 f v", "XDEL x 2")
    assert removed(r1) == [["1:1"], ["1:2"]]
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [[]] * 2


def test_a_delivery_between_stays_between() -> None:
    """When the record is replayed it comes where it came."""
    r1, _ = with_entries(1, 2, 3)
    r1.run("XGROUP CREATE x g 0")
    r1.run("XDEL x 1", "XREADGROUP GROUP g a COUNT 1 STREAMS x >", "XDEL x 2")
    assert removed(r1) == [["1:1"], ["1:2"]]
    assert restarted(r1)("XRANGE x - +") == ["3-0"]


def test_of_another_key_or_with_references_is_another_effect() -> None:
    r1, _ = with_entries(1, 2, 3)
    r1.run("XADD y 1 f v")
    r1.run("XDEL x 1", "XDEL y 1", "XDEL x 2", "XDELEX x DELREF IDS 1 3")
    assert removed(r1) == [["1:1"], ["1:1"], ["1:2"], ["1:3"]]


def test_an_effect_stays_small() -> None:
    count = REMOVE_IDS_MAX.value + 1
    r1, _ = with_entries(*range(1, count + 1))
    r1.run(*[f"XDEL x {ms}" for ms in range(1, count + 1)])
    assert list(map(len, removed(r1))) == [REMOVE_IDS_MAX.value, 1]


def test_wait_waits_for_the_effect_that_took_it_in() -> None:
    r1, _ = with_entries(1, 2)
    r1("XDEL x 1")
    waits_for = r1.waits_for()
    r1("XDEL x 2")
    assert r1.waits_for() == waits_for == r1.replica.issued
