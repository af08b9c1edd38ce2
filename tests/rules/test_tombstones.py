"""Delete-wins over time: how long a destroy is remembered, and which of several."""

from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId
from crdtstream.core.keyspace.tombstones import Tombstones
from tests.harness.regions import Node, sync

R1, R2 = RegionId(1), RegionId(2)


def test_a_tombstone_stays_until_the_very_last_dot_is_stable() -> None:
    """R3's create had not observed the destroy.  While the destroy itself is not stable, the create
    may still be on its way, and the group must not come to life in any region."""
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r1.run("XADD x 1-1 f v", "XGROUP CREATE x g 0")
    sync(*nodes)
    r3.run("XGROUP CREATE x g 0")
    r1.run("XADD x 2-1 f v", "XGROUP DESTROY x g")
    r2.pull(r1)
    # The destroy is effect 4 of region 1; stable is what came before it.
    r1.replica.forget_stable({R1: 3})
    sync(*nodes)
    assert [node("XINFO GROUPS x") for node in nodes] == [[], [], []]
    assert r1.replica.tombstone_count == 1


def test_a_later_destroy_is_remembered_when_an_earlier_one_is_stable() -> None:
    tombstones = Tombstones()
    noted: list[bytes] = []
    tombstones.add(Dot(R1, 2), b"x", b"g")
    tombstones.add(Dot(R1, 3), b"y", None)
    tombstones.add(Dot(R1, 5), b"x", b"g")
    tombstones.forget_stable({R1: 4}, note=noted.append)
    assert noted == [b"y"]
    assert not tombstones.observed_by({R1: 4}, b"x", b"g")
    assert tombstones.observed_by({R1: 5}, b"x", b"g")
    tombstones.forget_stable({R1: 5}, note=noted.append)
    assert len(tombstones) == 0
    assert noted == [b"y", b"x"]


def test_a_create_must_have_observed_the_last_destroy_of_every_origin() -> None:
    tombstones = Tombstones()
    tombstones.add(Dot(R1, 2), b"x", b"g")
    tombstones.add(Dot(R1, 5), b"x", b"g")
    tombstones.add(Dot(R2, 1), b"x", None)
    assert not tombstones.observed_by({R1: 4, R2: 1}, b"x", b"g")
    assert not tombstones.observed_by({R1: 5}, b"x", b"g")
    assert tombstones.observed_by({R1: 5, R2: 1}, b"x", b"g")
    # Of another group only the key's own tombstone speaks.
    assert tombstones.observed_by({R2: 1}, b"x", b"h")


def test_tombstones_of_a_key_are_told_and_forgotten_together() -> None:
    tombstones = Tombstones()
    for dot, key, group in [
        (Dot(R1, 1), b"x", b"g"),
        (Dot(R2, 1), b"x", b"g"),
        (Dot(R1, 2), b"x", None),
        (Dot(R1, 3), b"y", b"g"),
    ]:
        tombstones.add(dot, key, group)
    assert tombstones.of(b"x") == {None: {R1: 2}, b"g": {R1: 1, R2: 1}}
    tombstones.forget_stable({R1: 2}, note=bytes)
    # The other origin's destroy of the group stays.
    assert tombstones.of(b"x") == {b"g": {R2: 1}}
    assert b"x" in tombstones
    tombstones.forget(b"x")
    assert b"x" not in tombstones
    assert tombstones.of(b"x") == {}
    assert tombstones.of(b"y") == {b"g": {R1: 3}}


def test_a_delete_leaves_no_part_of_producers_that_are_forgotten() -> None:
    node = Node(1)
    node("XADD x IDMP producer one * f v")
    node.replica.forget_stable(dict(node.replica.vv))
    node("DEL x")
    assert list(node.replica._state.parts.producers()) == []
