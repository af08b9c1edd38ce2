"""Comparing regions: damage is named, and effects on their way are not taken for it."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from crdtstream.admin import comparing
from crdtstream.admin.client import vv_of
from crdtstream.admin.comparing import Comparing, Pair, Verdict, verdict_of
from crdtstream.admin.digests import PAGE_BYTES, Digests, DigestsError
from crdtstream.core.clock import covers
from crdtstream.core.comparing import PartKind
from crdtstream.core.ids import RegionId, make_id
from crdtstream.v1 import admin_pb2 as pb
from tests.conftest import seeds
from tests.harness.regions import Node, sync

R1, R2 = RegionId(1), RegionId(2)
T = TypeVar("T")


class InPlace:
    """A loader that reads entries on disk only in place."""

    async def read(self, look: Callable[[], T]) -> T:
        return look()


class Side:
    """A region that is asked in this process; ``before`` is called before it answers."""

    def __init__(self, node: Node, others: list[Node], before: Callable[[], object] = list) -> None:
        self._node = node
        self._others = others
        self._before = before

    def digests(self, request: pb.DigestsRequest) -> Iterator[pb.DigestsReply]:
        self._before()
        if not covers(self._node.replica.vv, vv_of(request.at_least)):
            self._node.pull(*self._others)
        return iter(asyncio.run(answer(self._node, request)))


async def answer(node: Node, request: pb.DigestsRequest) -> list[pb.DigestsReply]:
    return [page async for page in Digests(node.replica, InPlace()).pages(request)]


def compared(
    one: Node, two: Node, before: Callable[[], object] = list, *, key: bytes | None = None
) -> Pair:
    sides = {R1: Side(one, [two], before), R2: Side(two, [one], before)}
    (pair,) = Comparing(
        sides, differences_max=10, seconds=0.0, key=key, sleep=lambda seconds: None
    ).pairs()
    return pair


def filled() -> tuple[Node, Node]:
    """Two regions with streams, a group and strings, which have the same."""
    one, two = Node(1), Node(2)
    for number in range(700):
        one(f"XADD x {5000 + number}-1 f v{number}")
    for number in range(30):
        two(f"XADD x{number} {5000 + number}-1 f v")
    two("XADD x 6000-2 f v")
    one("XGROUP CREATE x g 0")
    one("SET s v")
    sync(one, two)
    return one, two


def test_equal_regions_are_equal() -> None:
    pair = compared(*filled())
    assert pair.verdict is Verdict.EQUAL
    assert (pair.keys, pair.keys_left_out, pair.differences) == (32, 0, [])


def lose_an_entry(node: Node) -> None:
    stream = node.replica.stream(b"x")
    assert stream is not None
    assert stream.lanes[R1].remove(make_id(5400, 1), n_max=1 << 40)


def test_the_first_entry_that_differs_is_named() -> None:
    one, two = filled()
    lose_an_entry(two)
    pair = compared(one, two)
    assert pair.verdict is Verdict.DIFFERENT
    (found,) = pair.differences
    assert (found.key, found.part, found.lane) == (b"x", PartKind.LANE, 1)
    assert found.stretch == (256, 511)
    assert found.n == 401
    assert found.left is not None
    assert found.left.id == "5400-1"
    assert found.right is None


def test_fields_that_differ_are_told() -> None:
    one, two = filled()
    stream = two.replica.stream(b"x")
    assert stream is not None
    found = stream.lanes[R1].find(make_id(5400, 1))
    assert found is not None
    node, at = found
    node.fields[node.columns.starts[at] + node.lengths[at] - 3] ^= 1
    node.digest = None
    (difference,) = compared(one, two).differences
    assert (difference.verdict, difference.n) == (Verdict.DIFFERENT, 401)
    assert difference.left == difference.right != None  # noqa: E711


DAMAGE: dict[str, tuple[Callable[[Node], object], PartKind]] = {
    "a group": (
        lambda node: node.replica.stream(b"x").groups.pop(b"g"),  # type: ignore[union-attr]
        PartKind.CREATES,
    ),
    "a string": (
        lambda node: node.replica._strings.pop(b"s"),
        PartKind.STRING,
    ),
    "a last ID": (
        lambda node: setattr(node.replica.stream(b"x").last_ids[R2], "id", 7),  # type: ignore[union-attr]
        PartKind.LAST_ID,
    ),
    "a key": (lambda node: node.replica._streams.pop(b"x7"), PartKind.LANE),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_other_parts_that_differ_are_named(what: str) -> None:
    one, two = filled()
    damage, kind = DAMAGE[what]
    damage(two)
    pair = compared(one, two)
    assert pair.verdict is Verdict.DIFFERENT
    assert pair.differences[0].part is kind


COMMANDS = (
    "XADD x * f v", "XADD x * f v", "XADD x * f v", "XADD y * f v", "XTRIM x MAXLEN 500",
    "DEL y", "SET s v", "DEL s", "SET s w", "XGROUP CREATE x h 0", "XGROUP DESTROY x h",
    "XGROUP CREATE y h 0", "XREADGROUP GROUP g c COUNT 3 NOACK STREAMS x >", "EXPIRE y 1000",
    "PERSIST y", "XDEL x 5401-1", "CRDT.XGROUP SETMODE x g HOME 1",
    "CRDT.XGROUP SETMODE x g PARTITIONED",
)  # fmt: skip


class Traffic:
    """Commands in both regions between any two samples, of which some arrive and some do not."""

    def __init__(self, seed: int, one: Node, two: Node) -> None:
        self._chance = random.Random(seed)
        self._nodes = one, two

    def __call__(self) -> None:
        chance = self._chance
        for node in self._nodes:
            node.now += chance.randrange(3)
            for _ in range(chance.randrange(4)):
                node.run(chance.choice(COMMANDS))
        one, two = chance.sample(self._nodes, 2)
        if chance.random() < 0.4:
            one.pull(two)


@pytest.mark.parametrize("seed", seeds(60, few=12))
def test_effects_on_their_way_are_no_difference(seed: int) -> None:
    one, two = filled()
    pair = compared(one, two, Traffic(seed, one, two))
    assert pair.verdict is not Verdict.DIFFERENT, f"seed {seed}: {pair.differences}"


@pytest.mark.parametrize("seed", range(10))
def test_damage_is_found_while_writes_go_on(seed: int) -> None:
    one, two = filled()
    lose_an_entry(two)
    (found,) = [
        difference
        for difference in compared(one, two, Traffic(seed, one, two)).differences
        if difference.verdict is Verdict.DIFFERENT
    ]
    assert (found.key, found.n) == (b"x", 401)


def test_a_stream_that_only_grows_is_equal() -> None:
    one, two = filled()

    def grow() -> None:
        one.run("XADD x * f v")

    pair = compared(one, two, grow)
    assert pair.verdict is Verdict.EQUAL, pair.differences


def test_a_region_that_gets_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "WAIT_MS", 0)
    one, two = filled()
    one.run("XADD x * f v")
    sides = {R1: Side(one, []), R2: Side(two, [])}
    (pair,) = Comparing(sides, differences_max=10, seconds=0.0).pairs()
    assert pair.verdict is Verdict.UNDECIDED
    assert "region 2 has not applied 1 effects" in pair.obstacle


def test_enough_differences_are_enough() -> None:
    one, two = filled()
    for number in range(20):
        two.replica._streams.pop(b"x%d" % number)
    sides = {R1: Side(one, [two]), R2: Side(two, [one])}
    (pair,) = Comparing(sides, differences_max=3, seconds=0.0).pairs()
    assert len(pair.keys_different) == 3
    assert pair.keys_left_out == 17
    alone = compared(one, two, key=b"x5")
    assert alone.keys_different == {b"x5"}
    assert compared(one, two, key=b"x25").verdict is Verdict.EQUAL


X, Y, Z = b"x", b"y", b"z"


@pytest.mark.parametrize(
    ("digests", "verdict"),
    [
        ([X, X, X, X], Verdict.EQUAL),
        ([X, Y, Y, X], Verdict.EQUAL),
        ([None, None, None, X], Verdict.EQUAL),
        ([X, Y, X, Y], Verdict.DIFFERENT),
        ([X, None, X, None], Verdict.DIFFERENT),
        ([X, Y, X, Z], Verdict.UNDECIDED),
        ([X, Y, Z, Y], Verdict.UNDECIDED),
        ([X, Y, Z, X], Verdict.UNDECIDED),
    ],
)
def test_samples_in_turns_decide(digests: list[bytes | None], verdict: Verdict) -> None:
    assert verdict_of(digests) is verdict


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (pb.DigestsRequest(), "a kind that this version does not know"),
        (pb.DigestsRequest(keys=pb.KeysOf(first=3, last=2)), "there are 0 to 255"),
        (pb.DigestsRequest(keys=pb.KeysOf(first=3, last=256)), "there are 0 to 255"),
        (pb.DigestsRequest(stretches=pb.StretchesOf(origin=1, count=257, bits=8)), "at most 256"),
        (pb.DigestsRequest(stretches=pb.StretchesOf(origin=1, count=1, bits=7)), "2^8 to"),
        (pb.DigestsRequest(stretches=pb.StretchesOf(count=1, bits=8)), "lane 0"),
        (
            pb.DigestsRequest(stretches=pb.StretchesOf(origin=1, first=1 << 60, count=1, bits=8)),
            "the last one is",
        ),
        (pb.DigestsRequest(entries=pb.EntriesOf(origin=5000)), "lane 5000"),
        (
            pb.DigestsRequest(
                buckets=pb.BucketsOf(), at_least={"regions": [1, 1], "counts": [1, 1]}
            ),
            "repeated",
        ),
    ],
)
async def test_requests_that_make_no_sense_are_refused(
    request_: pb.DigestsRequest, reason: str
) -> None:
    with pytest.raises(DigestsError, match=reason.replace("^", r"\^")):
        await answer(Node(1), request_)


async def test_answers_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = filled()
    request = pb.DigestsRequest(keys=pb.KeysOf(first=0, last=255))
    (whole,) = await answer(one, request)
    monkeypatch.setattr(PAGE_BYTES, "value", 200)
    pages = await answer(one, request)
    assert len(pages) > 5
    assert [item for page in pages for item in page.items] == list(whole.items)
    assert [page.is_last for page in pages] == [False] * (len(pages) - 1) + [True]
