"""Rules 9 to 12: what a group hands out, and its frontier; each with its counterexample."""

from array import array

import pytest

from crdtstream.core.effects import (
    AckFrontier,
    AppendColumns,
    DeleteKey,
    EffectBatch,
    RareEffect,
    Remove,
)
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.core.wire.codec import BatchError, encode_batch
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type


def frontiers(node: Node) -> list[dict[int, tuple[str, str]]]:
    """The intervals of every AckFrontier that the node issued, IDs as text."""
    return [
        {
            lane: (f"{start >> 64}-{start & 0xFFFF}", f"{end >> 64}-{end & 0xFFFF}")
            for lane, (start, end) in effect.intervals.items()
        }
        for batch in node.batches()
        if batch.origin == node.region
        for _, effect in batch.others
        if isinstance(effect, AckFrontier)
    ]


def pending_count(node: Node) -> int:
    return of_type(int, of_type(list, node("XPENDING x g"))[0])


def handed_out(reply: object) -> list[str]:
    """The IDs of x that XREADGROUP replied with."""
    return list_of(str, of_type(dict, reply)["x"])


def test_dollar_starts_at_each_lanes_last_id_not_at_the_merged_maximum() -> None:
    r1, r2 = Node(1), Node(2)
    r2.run("XADD x 100 f v")
    r1.pull(r2)
    r1.run("XADD x 200 f v", "XGROUP CREATE x g $")
    r2.run("XADD x 150 f v")  # has not observed 200
    sync(r1, r2)
    assert r1("XREADGROUP GROUP g a STREAMS x >") == {"x": ["150-0"]}


def test_late_low_id_is_never_skipped() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 110 f v", "XADD x 120 f v", "XGROUP CREATE x g 0")
    r2.run("XADD x 115 f v")
    assert r1("XREADGROUP GROUP g a STREAMS x >") == {"x": ["110-0", "120-0"]}
    sync(r1, r2)
    assert r1("XREADGROUP GROUP g a STREAMS x >") == {"x": ["115-0"]}


def test_frontier_is_sent_as_in_the_reference_table() -> None:
    """AA, "Replication performance optimizations"."""
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in (110, 120, 130)], "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g Alice STREAMS x >")
    r1.run("XACK x g 110-0")
    assert frontiers(r1) == [{1: ("0-0", "110-0")}]
    r1.run("XACK x g 130-0")
    assert len(frontiers(r1)) == 1
    r1.run("XACK x g 120-0")
    assert frontiers(r1)[1:] == [{1: ("0-0", "130-0")}]
    sync(r1, r2)
    assert r2("XREADGROUP GROUP g Alice STREAMS x >") is not None
    assert pending_count(r2) == 0


def test_acknowledging_one_by_one_costs_one_effect_per_tick() -> None:
    r1 = Node(1)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 101)], "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g a STREAMS x >")
    r1.run(*[f"XACK x g {ms}" for ms in range(100, 0, -1)])
    assert frontiers(r1) == [{1: ("0-0", "100-0")}]


def test_acknowledging_in_any_order_over_ticks_sends_only_progress() -> None:
    r1 = Node(1)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 101)], "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g a STREAMS x >")
    for ms in range(100, 0, -1):
        r1.run(f"XACK x g {ms}")
    assert frontiers(r1) == [{1: ("0-0", "100-0")}]


def test_dollar_in_one_region_and_zero_in_another_skips_nothing() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 101)])
    sync(r1, r2)
    r1.run("XGROUP CREATE x g $")
    r2.run("XGROUP CREATE x g 0")
    r1.run(*[f"XADD x {ms} f v" for ms in range(101, 131)])
    delivered = handed_out(r1.run("XREADGROUP GROUP g a STREAMS x >"))
    assert delivered == [f"{ms}-0" for ms in range(101, 131)]
    r1.run("XACK x g " + " ".join(delivered))
    sync(r1, r2)
    assert r2("XREADGROUP GROUP g b STREAMS x >") == {"x": [f"{ms}-0" for ms in range(1, 101)]}
    # R1 has learned of the lower start: it goes back, and skips what it acknowledged.
    assert r1("XREADGROUP GROUP g a STREAMS x >") == {"x": [f"{ms}-0" for ms in range(1, 101)]}


def test_pending_entries_are_not_delivered_again_when_the_start_moves_back() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 1")
    r2.run("XGROUP CREATE x g 0")
    assert r1.run("XREADGROUP GROUP g a STREAMS x >") == {"x": ["2-0"]}
    sync(r1, r2)
    assert r1.run("XREADGROUP GROUP g b STREAMS x >") == {"x": ["1-0"]}
    rows = list_of(list, r1("XPENDING x g - + 10"))
    assert [row[:2] for row in rows] == [["1-0", "b"], ["2-0", "a"]]
    r1.run("XACK x g 1 2")
    assert frontiers(r1)[-1] == {1: ("0-0", "2-0")}


@pytest.mark.parametrize(
    "jump",
    [
        "XGROUP SETID x g 3",
        "XCLAIM x g a 0 1 LASTID 3",
        "XCLAIM x g a 0 4 FORCE",
        "XGROUP DELCONSUMER x g gone",
    ],
)
def test_one_xack_after_a_hole_vouches_for_nothing_before_it(jump: str) -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 6)], "XGROUP CREATE x g 0")
    r1.run(
        "XREADGROUP GROUP g a COUNT 1 STREAMS x >", "XREADGROUP GROUP g gone COUNT 1 STREAMS x >"
    )
    sync(r1, r2)
    r1.run(jump)
    r1.run("XREADGROUP GROUP g a COUNT 1 STREAMS x >")
    pending = [of_type(str, row[0]) for row in list_of(list, r1("XPENDING x g - + 10 a"))]
    r1.run("XACK x g " + " ".join(pending))
    sync(r1, r2)
    left = set(handed_out(r2("XREADGROUP GROUP g b STREAMS x >")))
    never_acknowledged = {f"{ms}-0" for ms in range(1, 6)} - set(pending)
    assert never_acknowledged <= left


def test_a_region_set_back_ignores_intervals_until_it_has_passed_them() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 6)], "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g a COUNT 3 STREAMS x >", "XACK x g 1 2 3")
    sync(r1, r2)
    r1.run("XGROUP SETID x g 0")
    assert r1.run("XREADGROUP GROUP g a COUNT 2 STREAMS x >") == {"x": ["1-0", "2-0"]}
    # An interval that arrives meanwhile does not move it ...
    assert r2.run("XREADGROUP GROUP g b COUNT 1 STREAMS x >") == {"x": ["4-0"]}
    r2.run("XACK x g 4")
    sync(r1, r2)
    assert pending_count(r1) == 2
    # ... and counts once it is reached.
    assert r1.run("XREADGROUP GROUP g a STREAMS x >") == {"x": ["3-0", "5-0"]}


def test_looking_leaves_no_trace_in_what_a_group_vouches_for() -> None:
    """XINFO between a SETID and a concurrent create, then a restart: nothing may be skipped."""
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 50 f v", "XGROUP CREATE x g 0", "XGROUP SETID x g 500")
    r2.run("XADD x 100 f v")
    r1.pull(r2)
    r1.run("XINFO GROUPS x", "XREADGROUP GROUP g c STREAMS x >")
    r3.run("XGROUP CREATE x g 0")
    r1.pull(r3)
    r2.run("XADD x 600 f v")
    r1.pull(r2)
    lived = r1.run("XREADGROUP GROUP g c STREAMS x >")
    r1.restart()
    r1.run("XACK x g 600")
    sync(r1, r2, r3)
    everywhere = handed_out(lived) + handed_out(r3("XREADGROUP GROUP g c STREAMS x >"))
    assert "100-0" in everywhere


def test_a_create_with_a_lower_start_never_moves_a_region_on() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in (10, 20, 30, 40, 50)])
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 40", "XGROUP SETID x g 0")
    r2.run("XGROUP CREATE x g 30")
    sync(r1, r2)
    assert r1("XREADGROUP GROUP g a STREAMS x >") == {"x": ["10-0", "20-0", "30-0", "40-0", "50-0"]}


@pytest.mark.parametrize("hole", ["XGROUP SETID x g 40", "XGROUP DELCONSUMER x g gone"])
def test_a_lower_start_does_not_take_pending_entries_from_their_consumer(hole: str) -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in (10, 20, 30, 40, 50)])
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 10", "XREADGROUP GROUP g w COUNT 2 STREAMS x >")
    r1.run("XREADGROUP GROUP g gone COUNT 1 STREAMS x >", hole)
    r2.run("XGROUP CREATE x g 0")
    sync(r1, r2)
    delivered = handed_out(r1("XREADGROUP GROUP g v STREAMS x >"))
    assert "10-0" in delivered
    assert not {"20-0", "30-0"} & set(delivered)


def test_a_peers_batch_cannot_bring_a_lane_out_of_order_behind_a_delete() -> None:
    r1 = Node(1)
    appends = columns(["9-1", "5-1", "5-1"])
    others: list[tuple[int, RareEffect]] = [
        (0, DeleteKey(b"x")),
        (2, Remove(b"x", {RegionId(2): (make_id(1, 1),)})),
        (4, Remove(b"x", {RegionId(2): (make_id(1, 1),)})),
    ]
    batch = EffectBatch(RegionId(2), 1, 6, {}, Millis(0), appends, others)
    with pytest.raises(BatchError, match="ascend"):
        r1.replica.receive(batch, encode_batch(batch), Millis(0))
    assert r1("EXISTS x") == 0
    assert r1.replica.vv == {}


def columns(ids: list[str]) -> AppendColumns:
    """Appends of one field each to ``x``."""
    halves = [[int(half) for half in entry_id.split("-")] for entry_id in ids]
    fields = encode_fields([b"f", b"v"])
    return AppendColumns(
        [b"x"],
        array("I", bytes(4 * len(ids))),
        array("Q", [ms for ms, _ in halves]),
        array("Q", [seq for _, seq in halves]),
        array("I", [len(fields)] * len(ids)),
        fields * len(ids),
    )


def test_a_frontier_belongs_to_the_group_it_was_measured_in() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g a STREAMS x >")
    r1.run("XACK x g 1", "XGROUP DESTROY x g", "XGROUP CREATE x g 0")
    sync(r1, r2)
    for node in (r1, r2):
        assert node("XREADGROUP GROUP g b STREAMS x >") == {"x": ["1-0"]}


def test_a_frontier_that_arrives_after_the_destroy_changes_nothing() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XGROUP CREATE x g 0")
    sync(r1, r2)
    r1.run("XREADGROUP GROUP g a STREAMS x >", "XACK x g 1")
    r2.run("XGROUP DESTROY x g", "XGROUP CREATE x g 0")
    sync(r1, r2)
    for node in (r1, r2):
        assert node("XREADGROUP GROUP g b STREAMS x >") == {"x": ["1-0"]}


def test_received_intervals_end_what_is_pending_inside_them() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XGROUP CREATE x g 0")
    sync(r1, r2)
    for node in (r1, r2):
        node.run("XREADGROUP GROUP g a STREAMS x >")
    r1.run("XACK x g 1")
    sync(r1, r2)
    assert [row[0] for row in list_of(list, r2("XPENDING x g - + 10"))] == ["2-0"]


def test_consumers_and_pending_entries_are_local() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g Alice STREAMS x >", "XGROUP SETID x g 0")
    sync(r1, r2)
    assert r2("XINFO CONSUMERS x g") == []
    assert r2("XREADGROUP GROUP g Bob STREAMS x >") == {"x": ["1-0"]}
