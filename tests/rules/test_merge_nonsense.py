"""Images whose checksums are right and that say what cannot be: the region stays as it was."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from crdtstream.core.checkpoint.contents import (
    ContentError,
    EndedContent,
    GroupContent,
    HandoverContent,
    KeyContent,
    ModeContent,
    ProducersContent,
    RegistersContent,
    RootContent,
    RunContent,
    ShareContent,
    StringContent,
    id_content,
    packed,
    unpacked,
)
from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.clock import Dot
from crdtstream.core.effects import EPOCH_MAX, Mode
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.lanes.header import Header, decode_head, encode_head
from tests.harness.merging import local_facts
from tests.harness.regions import Node
from tests.rules.test_convergence import append_rows
from tests.rules.test_merge_slices import go_through, is_counted

Change = Callable[[Image], Image]
ZERO = id_content(ID_MIN)


def two_regions() -> tuple[Node, Node]:
    """Region 2 lacks an entry and an acknowledgement; both have removed some."""
    r1, r2 = Node(1), Node(2)
    r1.limit_nodes(3, 0)
    for ms in range(1, 8):
        r1.run(f"XADD x {ms} f v")
    r1.run("XGROUP CREATE x g 0")
    r1.run("CRDT.XGROUP SETMODE x g HOME 1")
    r2.pull(r1)
    r1.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >")
    r1.run("XACK x g 1")
    r1.run("XDEL x 2")
    r1.run("XADD x 8 f v")
    r1.run("XADD x 9 f v")
    append_rows(r1, 0, 0, 3)
    r2.run("XDEL x 5")
    return r1, r2


def with_header(**fields: object) -> Change:
    def change(image: Image) -> Image:
        found = decode_head(image.head)
        header: Header = found.header._replace(**fields)  # type: ignore[arg-type]
        key = header.first_id.to_bytes(16, "big")
        return image._replace(head=encode_head(found._replace(key=key, header=header)))

    return change


def with_an_empty_interval(image: Image) -> Image:
    group = unpacked(image.head, GroupContent)
    at_three = id_content(StreamId(3 << 64))
    for create in group.creates:
        for intervals in create.intervals.values():
            intervals.append((at_three, at_three))
    return image._replace(head=packed(group))


def with_a_short_id(image: Image) -> Image:
    key = unpacked(image.head, KeyContent)
    assert key.stream is not None
    region, _, n = key.stream.last_ids[0]
    key.stream.last_ids[0] = (region, b"short", n)
    return image._replace(head=packed(key))


def with_a_later_last_id(image: Image) -> Image:
    key = unpacked(image.head, KeyContent)
    assert key.stream is not None
    region, entry_id, _ = key.stream.last_ids[0]
    key.stream.last_ids[0] = (region, entry_id, 99)
    return image._replace(head=packed(key))


def without_last_ids(image: Image) -> Image:
    key = unpacked(image.head, KeyContent)
    assert key.stream is not None
    key.stream.last_ids.clear()
    return image._replace(head=packed(key))


def with_a_later_tombstone(image: Image) -> Image:
    key = unpacked(image.head, KeyContent)
    key.tombstones.append((b"g", {RegionId(1): 99}))
    return image._replace(head=packed(key))


def with_a_later_create(image: Image) -> Image:
    group = unpacked(image.head, GroupContent)
    (create,) = group.creates
    group.creates.append(replace(create, dot=Dot(RegionId(1), 99)))
    return image._replace(head=packed(group))


def with_a_create_twice(image: Image) -> Image:
    group = unpacked(image.head, GroupContent)
    group.creates.append(group.creates[0])
    return image._replace(head=packed(group))


def with_a_setting_twice(image: Image) -> Image:
    group = unpacked(image.head, GroupContent)
    group.settings.append(group.settings[0])
    return image._replace(head=packed(group))


def with_setting(**fields: object) -> Change:
    """The change of mode with other fields."""

    def change(image: Image) -> Image:
        group = unpacked(image.head, GroupContent)
        group.settings[0] = replace(group.settings[0], **fields)
        return image._replace(head=packed(group))

    return change


def with_handover(**fields: object) -> Change:
    """The change of mode with other fields in what it hands over."""

    def change(image: Image) -> Image:
        group = unpacked(image.head, GroupContent)
        handover = HandoverContent(RegionId(1), ZERO, ZERO, [], ZERO, [], None)
        group.settings[0] = replace(group.settings[0], handover=[replace(handover, **fields)])
        return image._replace(head=packed(group))

    return change


def with_mode(epoch: int, home: RegionId | None) -> Change:
    """The group's mode as no region has it."""

    def change(image: Image) -> Image:
        group = unpacked(image.head, GroupContent)
        mode = ModeContent(epoch, RegionId(1), Mode.HOME, home)
        group.creates[0] = replace(group.creates[0], mode=mode)
        return image._replace(head=packed(group))

    return change


def with_interval_in_lane(lane: int) -> Change:
    def change(image: Image) -> Image:
        group = unpacked(image.head, GroupContent)
        group.creates[0].intervals[RegionId(lane)] = [(ZERO, id_content(StreamId(1)))]
        return image._replace(head=packed(group))

    return change


def with_tombstone(n: int) -> Change:
    def change(image: Image) -> Image:
        key = unpacked(image.head, KeyContent)
        key.tombstones.append((b"g", {RegionId(1): n}))
        return image._replace(head=packed(key))

    return change


def with_registers(n: int, deadline: int) -> Change:
    def change(image: Image) -> Image:
        key = unpacked(image.head, KeyContent)
        expiry: list[tuple[Dot, Millis | None]] = [(Dot(RegionId(1), n), Millis(deadline))]
        return image._replace(head=packed(replace(key, registers=RegistersContent(expiry, [], []))))

    return change


def with_shares(*shares: ShareContent) -> Change:
    def change(image: Image) -> Image:
        key = unpacked(image.head, KeyContent)
        return image._replace(head=packed(replace(key, string=StringContent(1, [], [*shares]))))

    return change


def share(
    *, n: int = 2, base: Dot | None = None, taken_n: int = 0, total: bytes = b""
) -> ShareContent:
    return ShareContent(RegionId(1), base, n, total, taken_n, b"", [])


def with_ended_share(n: int, taker: int) -> Change:
    def change(image: Image) -> Image:
        ended = {RegionId(1): EndedContent(n, b"", {RegionId(1): taker})}
        return image._replace(
            head=packed(replace(unpacked(image.head, KeyContent), ended_shares=ended))
        )

    return change


def with_later_rows(image: Image) -> Image:
    producers = unpacked(image.head, ProducersContent)
    runs = producers.numbered[0].batches[0].runs
    runs.append(RunContent(3, 9, Dot(RegionId(1), 90), known=True))
    return image._replace(head=packed(producers))


def with_an_empty_run(image: Image) -> Image:
    producers = unpacked(image.head, ProducersContent)
    runs = producers.numbered[0].batches[0].runs
    runs.append(RunContent(3, 3, runs[0].first, known=True))
    return image._replace(head=packed(producers))


def with_known_rows_backwards(image: Image) -> Image:
    producers = unpacked(image.head, ProducersContent)
    producers.numbered[0].batches[0].known[0] = (2, 1)
    return image._replace(head=packed(producers))


def with_a_run_twice(image: Image) -> Image:
    producers = unpacked(image.head, ProducersContent)
    runs = producers.numbered[0].batches[0].runs
    runs.append(runs[0])
    return image._replace(head=packed(producers))


def with_another_body(image: Image) -> Image:
    return image._replace(body=image.body[:-1] + b"??", is_packed=False)


@pytest.mark.parametrize(
    ("kind", "at", "change", "reason"),
    [
        (Kind.KEY, 0, lambda image: image._replace(head=b"?"), "KeyContent"),
        (Kind.KEY, 0, with_a_short_id, "KeyContent: Expected `bytes` of length >= 16"),
        (Kind.KEY, 0, without_last_ids, "lane 1 goes beyond its last ID"),
        (Kind.WINDOW, 0, with_an_empty_run, "a run without rows"),
        (Kind.WINDOW, 0, with_known_rows_backwards, "a run without rows"),
        (Kind.WINDOW, 0, with_a_run_twice, "runs that do not ascend"),
        (Kind.GROUP, 0, with_an_empty_interval, "an interval without an ID in it"),
        (Kind.NODE, 0, with_another_body, "image [0-9]+: a frame of"),
        (Kind.NODE, 0, with_header(first_id=ID_MIN), "entries with IDs 0, 0 to"),
        (Kind.NODE, 1, with_header(first_id=StreamId(1 << 64)), "overlap"),
        (Kind.NODE, 1, with_header(first_n=1), "overlap"),
        (Kind.NODE, -1, with_header(last_n=99), "effects of region 1 that the state has not"),
        (Kind.KEY, 0, with_a_later_last_id, "effects of region 1 that the state has not"),
        (Kind.KEY, 0, with_a_later_tombstone, "effects of region 1 that the state has not"),
        (Kind.GROUP, 0, with_a_later_create, "effects of region 1 that the state has not"),
        (Kind.GROUP, 0, with_a_create_twice, "one effect twice"),
        (Kind.GROUP, 0, with_a_setting_twice, "one effect twice"),
        (Kind.GROUP, 0, with_setting(epoch=0), "mode cannot be"),
        (Kind.GROUP, 0, with_setting(epoch=EPOCH_MAX + 1), "mode cannot be"),
        (Kind.GROUP, 0, with_setting(home=None), "mode cannot be"),
        (Kind.GROUP, 0, with_setting(mode=Mode.PARTITIONED), "mode cannot be"),
        (Kind.GROUP, 0, with_setting(home=1024), "Expected `int` <= 1023"),
        (Kind.GROUP, 0, with_handover(run_from=id_content(StreamId(1))), "its run ends before"),
        (Kind.GROUP, 0, with_handover(pending=[(ZERO, 1), (ZERO, 1)]), "does not ascend"),
        (Kind.GROUP, 0, with_handover(handed_out=[(ZERO, ZERO)]), "an interval without an ID"),
        (Kind.GROUP, 0, with_handover(pending=[(ZERO, -1)]), "Expected `int` >= 0"),
        (Kind.GROUP, 0, with_mode(0, RegionId(1)), "mode cannot be"),
        (Kind.GROUP, 0, with_mode(1, None), "mode cannot be"),
        (Kind.GROUP, 0, with_interval_in_lane(0), "Expected `int` >= 1"),
        (Kind.KEY, 0, with_tombstone(0), "Expected `int` >= 1"),
        (Kind.KEY, 0, with_registers(0, 1), "effects of region 1 that the state has not"),
        (Kind.KEY, 0, with_registers(-1, 1), "effects of region 1 that the state has not"),
        (Kind.KEY, 0, with_registers(1, -1), "Expected `int` >= 0"),
        (Kind.KEY, 0, with_shares(share(), share()), "two shares of one region"),
        (Kind.KEY, 0, with_shares(share(taken_n=2)), "a share of region 1 that is taken"),
        (Kind.KEY, 0, with_shares(share(total=bytes(16))), "Expected `bytes` of length <= 15"),
        (Kind.KEY, 0, with_shares(share(n=99)), "effects of region 1 that the state has not"),
        (
            Kind.KEY,
            0,
            with_shares(share(base=Dot(RegionId(1), 99))),
            "effects of region 1 that the state has not",
        ),
        (Kind.KEY, 0, with_ended_share(99, 1), "effects of region 1 that the state has not"),
        (Kind.KEY, 0, with_ended_share(1, 99), "effects of region 1 that the state has not"),
        (Kind.WINDOW, 0, with_later_rows, "effects of region 1 that the state has not"),
    ],
)
def test_nonsense_is_found_before_anything_has_changed(
    kind: Kind, at: int, change: Change, reason: str
) -> None:
    r1, r2 = two_regions()
    r1.end_tick()
    before = r2.digest, local_facts(r2)
    merged = r2.checkpoints.stage(r1.replica)
    places = list(_of_kind(r2, merged.cut_id, kind))
    _change(r2, merged.cut_id, places[at], change)
    merging = r2.replica.merging(merged)
    with pytest.raises(ContentError, match=reason):
        go_through(merging)
    merging.give_up()
    assert (r2.digest, local_facts(r2)) == before
    is_counted(r2)


def without_histories(image: Image) -> Image:
    root = unpacked(image.head, RootContent)
    return image._replace(head=packed(replace(root, histories={})))


def two_clones(entries_max: int, *ids: int, known: int) -> tuple[Node, Node]:
    """A folder of region 1, and region 2, which has applied what another folder of it has: both
    have other entries under the same dots."""
    r1, clone, r2 = Node(1), Node(1), Node(2)
    for node in (r1, clone, r2):
        node.limit_nodes(entries_max, 0)
    for ms in (10, 11, 12)[:known]:
        clone.run(f"XADD x {ms} f v")
    for ms in ids:
        r1.run(f"XADD x {ms} f v")
    r2.pull(clone)
    return r1, r2


@pytest.mark.parametrize("entries_max", [1, 2, 3])
def test_lower_ids_under_later_dots_are_refused_without_points(
    entries_max: int,
) -> None:
    """It was found by an assertion, in the last step of the merge."""
    r1, r2 = two_clones(entries_max, 1, 2, 3, known=2)
    before = r2.digest
    merged = r2.checkpoints.stage(r1.replica)
    (root,) = _of_kind(r2, merged.cut_id, Kind.ROOT)
    _change(r2, merged.cut_id, root, without_histories)
    merging = r2.replica.merging(merged)
    with pytest.raises(ContentError, match="lane 1 goes on at 3-0, and here it has 11-0"):
        go_through(merging)
    merging.give_up()
    assert r2.digest == before


@pytest.mark.parametrize("entries_max", [1, 2, 3])
@pytest.mark.parametrize("delete", ["DEL x", "XTRIM x MAXLEN 0", "XDEL x 11"])
def test_lower_ids_behind_a_delete_are_taken(entries_max: int, delete: str) -> None:
    """A delete lets IDs begin again, and this region has not heard of it."""
    r1, r2 = Node(1), Node(2)
    for node in (r1, r2):
        node.limit_nodes(entries_max, 0)
    r1.run("XADD x 10 f v")
    r1.run("XADD x 11 f v")
    r2.pull(r1)
    r1.run(delete)
    r1.run("XADD x 1 f v" if delete == "DEL x" else "XADD x 12 f v")
    r2.merge(r1)
    assert r2.digest == r1.digest


def _of_kind(node: Node, cut_id: bytes, kind: Kind) -> Iterator[int]:
    for place, image in enumerate(node.checkpoints._states[cut_id]):
        if image.kind is kind:
            yield place


def _change(node: Node, cut_id: bytes, place: int, change: Change) -> None:
    """Change an image that is staged, as its sender would have made it."""
    images = node.checkpoints._states[cut_id]
    for number, staged in node.checkpoints.staged.items():
        if staged[1:4] == images[place][1:4] and staged.head == images[place].head:
            node.checkpoints.staged[number] = found = change(staged)
            images[place] = found._replace(number=images[place].number, body=b"")
            return
    raise AssertionError("it is not staged")
