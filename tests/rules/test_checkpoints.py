"""A checkpoint is the state at its cut, byte for byte, whatever happens until it is written.  A
region that begins with one goes on as if it had never ended."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from crdtstream.core.checkpoint.contents import ContentError, KeyContent, packed, unpacked
from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.ids import IdMode, RegionId
from tests.conftest import examples
from tests.harness.regions import Node, nodes_of
from tests.harness.sizes import SIZES
from tests.rules.test_convergence import LINES, Regions

LINES_OF_A_STEP = st.lists(LINES, min_size=2, max_size=8)


class Checkpoints(Regions):
    """As ``Regions``, and the first region makes checkpoints all the time.

    At the end of each its images are compared with what there was at the cut
    (``tests/harness/checkpoints.py``).  A crash begins with the newest, and lives through the log
    behind it.
    """

    @initialize(mode=st.sampled_from([IdMode.STRICT, IdMode.LIBERAL]), sizes=SIZES)
    def start(self, mode: IdMode, sizes: int | None) -> None:
        super().start(mode, sizes)

    @rule(
        before=LINES_OF_A_STEP,
        between=st.lists(st.tuples(LINES, st.integers(0, 3)), max_size=6),
        end=st.sampled_from(["finish", "finish", "finish", "abandon", "crash", "leave"]),
        data=st.data(),
    )
    def checkpoint(
        self,
        before: list[str],
        between: list[tuple[str, int]],
        end: str,
        data: st.DataObject,
    ) -> None:
        """Changes, a cut, more changes while it is written, and its end."""
        node = self.nodes[0]
        if node.checkpoints.is_running:
            node.checkpoints.finish(node.replica)
        self.transaction(0, before, data)
        node.replica.compaction().go_on(bool)
        node.cut()
        for line, parts in between:
            node.checkpoints.write(parts)
            self.transaction(0, [line], data)
        if end == "finish":
            node.checkpoints.finish(node.replica)
            node.replica.residency.drop_all()
        elif end == "abandon":
            node.checkpoints.abandon()
        elif end == "crash":
            self.crash(0)

    @rule()
    def crash_at_once(self) -> None:
        self.crash(0)


def test_keys_and_groups_keep_their_order() -> None:
    node = Node(1)
    for key in ("b", "c", "a"):
        node.run(f"XADD {key} 1-1 f v", f"XGROUP CREATE {key} z 0", f"XGROUP CREATE {key} y 0")
    node.run("DEL c", "SET s v", "XADD c 2-1 f v")
    before = [node("KEYS *"), node("XINFO GROUPS a")]
    node.cut()
    node.checkpoints.finish(node.replica)
    node.restart()
    assert [node("KEYS *"), node("XINFO GROUPS a")] == before


def test_a_checkpoint_writes_what_changed_and_nothing_else() -> None:
    node = Node(1)
    for key in range(20):
        node.run(f"XADD k{key} 1-1 f v")
    node.cut()
    node.checkpoints.finish(node.replica)
    node.run("XADD k7 2-1 f v")
    node.cut()
    # The root, the key, and the new node; the old one of the lane is as it was.
    assert node.checkpoints.left == 3
    node.checkpoints.finish(node.replica)
    node.cut()
    assert node.checkpoints.left == 1


@pytest.mark.parametrize(
    "line",
    [
        "PEXPIRE k 100000",
        "XSETID k 9-9",
        "SET other v",
        "XGROUP DESTROY k g",
        "DEL k",
        "XDEL k 1-1",
    ],
)
def test_every_change_of_a_key_is_in_the_next_checkpoint(line: str) -> None:
    """The state at the cut is compared when the checkpoint is finished."""
    node = Node(1)
    node.run("XADD k 1-1 f v", "XADD k 2-1 f v", "XGROUP CREATE k g 0")
    node.cut()
    node.checkpoints.finish(node.replica)
    node.run(line)
    before = node.digest
    node.cut()
    node.checkpoints.finish(node.replica)
    node.restart()
    assert node.digest == before


def test_entries_of_another_region_are_in_the_next_checkpoint() -> None:
    node, other = nodes_of(1, 2)
    other.run("XADD k 1-1 f v", "XADD l 1-1 f v", "XADD k 2-1 f v")
    node.pull(other)
    node.cut()
    node.checkpoints.finish(node.replica)
    other.run("XADD k 3-1 f v", "XADD l 3-1 f v", "XADD k 4-1 f v", "XDEL k 4-1")
    node.pull(other)
    before = node.digest
    node.cut()
    node.checkpoints.finish(node.replica)
    node.restart()
    assert node.digest == before
    assert node("XADD k 4-1 f v") == other("XADD k 4-1 f v")


def test_a_window_goes_from_its_image_with_the_stream() -> None:
    """The key has expired, and stayed for a group that was made meanwhile; its window is empty."""
    node, other = nodes_of(1, 2)
    node.run("XADD k IDMP p a * f v")
    other.pull(node)
    other.run("PEXPIRE k 100")
    node.run("XGROUP CREATE k g 0")
    other.now += 1000
    other.expire()
    node.pull(other)
    assert node("XINFO GROUPS k")
    node.cut()
    node.checkpoints.finish(node.replica)
    node.run("XGROUP DESTROY k g")
    assert node("EXISTS k") == 0
    node.cut()
    node.checkpoints.finish(node.replica)
    # An image of a window without a stream would be refused.
    node.restart()


def test_a_checkpoint_of_another_region_is_refused() -> None:
    node = Node(1)
    node.run("XADD k 1-1 f v")
    node.cut()
    node.checkpoints.finish(node.replica)
    with pytest.raises(ContentError, match="region 1"):
        Node(2).replica.restore(node.checkpoints.images.values())


def with_tombstones_twice(image: Image) -> Image:
    key = unpacked(image.head, KeyContent)
    key.tombstones.extend([(b"g", {RegionId(1): 1}), (b"g", {RegionId(1): 1})])
    return image._replace(head=packed(key))


def with_an_earlier_last_id(image: Image) -> Image:
    key = unpacked(image.head, KeyContent)
    assert key.stream is not None
    ((region, _, n),) = key.stream.last_ids
    key.stream.last_ids[0] = (region, bytes(16), n)
    return image._replace(head=packed(key))


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (Kind.KEY, with_an_earlier_last_id, "lane 1 goes beyond its last ID"),
        (Kind.KEY, with_tombstones_twice, "tombstones of one group twice"),
        (Kind.NODE, lambda image: image._replace(head=image.head[:-1]), "a macro node's head has"),
        (Kind.NODE, lambda image: image._replace(lane=1024), "entries of a lane 1024"),
    ],
)
def test_an_image_that_says_what_cannot_be_is_refused_at_a_start(
    kind: Kind, change: Callable[[Image], Image], reason: str
) -> None:
    """Then the checkpoint before it is read; other errors would end the start."""
    node = Node(1)
    node.run("XADD k 1-1 f v")
    node.cut()
    node.checkpoints.finish(node.replica)
    images = [
        change(image) if image.kind is kind else image for image in node.checkpoints.images.values()
    ]
    with pytest.raises(ContentError, match=reason):
        Node(1).replica.restore(images)


# Seconds on a quiet machine; the bound is for a busy one.
TestCheckpoints = pytest.mark.timeout(900)(Checkpoints.TestCase)
TestCheckpoints.settings = settings(
    max_examples=examples(200), stateful_step_count=20, deadline=None
)
