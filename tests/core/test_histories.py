"""Histories of an origin's effects: which points are kept, and where two of them part."""

from random import Random

import pytest
from msgspec.structs import replace

from crdtstream.core.checkpoint.contents import ContentError, RootContent, packed, unpacked
from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.histories import (
    HASH_BITS,
    KEPT,
    POINTS_MAX,
    SAID_POINTS_MAX,
    Difference,
    Histories,
    Point,
    difference,
    hash_of,
    heard,
    points_of,
    rank_of,
    said,
)
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import decode_batch
from tests.harness.regions import Node
from tests.mutations.fields import images_of

R1, R2 = RegionId(1), RegionId(2)


def history(*batches: str, origin: RegionId = R1, sizes: int = 1) -> Histories:
    """One of batches that are told apart by a word, of so many effects each."""
    made = Histories()
    goes_on(made, *batches, origin=origin, sizes=sizes)
    return made


def goes_on(
    made: Histories, *batches: str, origin: RegionId = R1, n: int = 0, sizes: int = 1
) -> None:
    before = made.hash_at_end(origin, n)
    for word in batches:
        n += sizes
        before = hash_of(b"%d %s" % (before, word.encode()))
        made.note(origin, n, before)


def words(count: int, word: str = "b") -> list[str]:
    return [f"{word}{index}" for index in range(count)]


def parting(one: Histories, other: Histories) -> Difference | None:
    """The same, whichever of the two looks, and by bytes."""
    found = difference(one.points(), heard(said(other)))
    assert found == difference(other.points(), heard(said(one)))
    return found


SAME = words(5)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([], ["x"], None),
        (SAME, SAME, None),
        (SAME, [*SAME, "x", "y"], None),
        ([*SAME, "x"], [*SAME, "y"], (5, 6)),
        ([*SAME, "x"], [*SAME, "y", "z", "z"], (5, 6)),
        # What follows is called the same, and is not: it has the hash of what was before.
        ([*SAME, "x", "z"], [*SAME, "y", "z"], (5, 6)),
        (["x"], ["y"], (0, 1)),
    ],
)
def test_two_histories_part_where_a_batch_is_another(
    one: list[str], other: list[str], found: tuple[int, int] | None
) -> None:
    expected = None if found is None else Difference(R1, *found)
    assert parting(history(*one), history(*other)) == expected


def test_a_batch_that_ends_elsewhere_is_another_one() -> None:
    """There is no number at which both have a hash; yet each would have the other one's end."""
    one, other = history(*SAME), history(*SAME)
    goes_on(one, "x", n=5, sizes=1)
    goes_on(other, "y", n=5, sizes=3)
    assert parting(one, other) == Difference(R1, 5, 6)


def test_of_what_one_side_does_not_know_nothing_differs() -> None:
    """A region may know nothing of the first effects."""
    later = Histories()
    for points in (history(*words(9)).points()[R1][6:],):
        later.set_points(R1, points)
    assert parting(later, history(*words(9))) is None
    assert parting(later, history(*words(4))) is None
    assert parting(later, history("x", origin=R2)) is None
    assert heard(b"") == {}


def test_the_first_region_that_differs_is_told() -> None:
    one, other = history("x", origin=R2), history("y", origin=R2)
    goes_on(one, "same")
    goes_on(other, "same")
    assert parting(one, other) == Difference(R2, 0, 1)


@pytest.mark.parametrize("kept", [KEPT - 1, KEPT, 3 * KEPT])
def test_a_point_is_of_another_history_if_no_batch_ended_there_or_another_one(kept: int) -> None:
    made = history(*words(kept), sizes=2)
    points = made.points()[R1]
    newest = points[-1]
    assert made.newest() == {R1: newest}
    assert not any(made.parts_from(R1, point) for point in points)
    for point in points:
        assert made.parts_from(R1, Point(point.n, point.hash + 1))
    assert made.parts_from(R1, Point(newest.n - 1, 5))
    # Not known: it is beyond what is here, before all of that, or of another origin.
    assert not made.parts_from(R1, Point(newest.n + 1, 5))
    assert not made.parts_from(R1, Point(1, 5))
    assert not made.parts_from(R2, newest)


# --- What is kept ---------------------------------------------------------------------------------


def test_points_are_some_hundred_of_however_many_batches() -> None:
    made = history(*words(50_000))
    assert len(made.points()[R1]) < KEPT * 20
    made = history(*words(POINTS_MAX.value + 1))
    assert len(made.points()[R1]) < POINTS_MAX.value / 4


def test_when_they_are_dropped_does_not_matter() -> None:
    batches = words(3_000)
    looked_at = history(*batches[:700])
    looked_at.points()
    goes_on(looked_at, *batches[700:], n=700)
    assert looked_at.points() == history(*batches).points()


@pytest.mark.parametrize("rank", range(7))
def test_of_a_rank_the_newest_are_kept_and_none_between_them_is_dropped(rank: int) -> None:
    every = [Point(n, hash_of(b"%d" % n)) for n in range(1, 5_001)]
    made = Histories()
    for n, hash_ in every:
        made.note(R1, n, hash_)
    of_rank = [point for point in every if rank_of(point.hash) >= rank]
    kept = [point for point in made.points()[R1] if rank_of(point.hash) >= rank]
    assert kept[-KEPT:] == of_rank[-KEPT:]


@pytest.mark.parametrize("seed", range(40))
def test_a_region_that_is_far_behind_has_points_in_common_with_one_that_is_ahead(seed: int) -> None:
    """So what it has of another copy is noticed, if it is not little against what lies between."""
    random = Random(seed)
    count = random.randint(10, 3_000)
    ahead = words(count + random.randint(0, count // 2))
    behind = ahead[:count]
    assert parting(history(*behind), history(*ahead)) is None
    fork = count * 3 // 4
    copy = [*ahead[:fork], *words(count - fork, "copy")]
    found = parting(history(*copy), history(*ahead))
    assert found is not None
    assert found.same_n <= fork < found.by_n <= count


@pytest.mark.parametrize("seed", range(40))
def test_one_history_never_parts_from_itself(seed: int) -> None:
    """Batches of any size; one region is behind, or was restored, or does not say all."""
    random = Random(seed)
    one, other = Histories(), Histories()
    n = before = 0
    behind = random.randint(1, 1_500)
    for index in range(1_500):
        n += random.choice((1, 1, 1, 2, 7, 300))
        before = hash_of(b"%d %d" % (before, random.getrandbits(40)))
        one.note(R1, n, before)
        if index < behind:
            other.note(R1, n, before)
        if random.random() < 0.003:
            other.set_points(R1, other.points().get(R1, []))
    assert parting(one, other) is None
    for most in (1, 3, KEPT, 40):
        few = {R1: one.points()[R1][-most:]}
        assert difference(few, other.points()) is None
        assert difference(other.points(), few) is None


# --- Merging --------------------------------------------------------------------------------------


def test_a_merged_history_extends_the_own_one() -> None:
    ahead = history(*words(30))
    made = history(*words(4))
    goes_on(made, "own", origin=R2)
    made.take_over(ahead.points(), {R1: 4, R2: 1}, {R1: 30})
    assert made.points() == {**ahead.points(), R2: history("own", origin=R2).points()[R2]}


def test_of_what_is_merged_and_unknown_nothing_is_known_any_more() -> None:
    """Else what comes next would be taken for what follows."""
    made = history(*words(4))
    made.take_over({}, {R1: 4}, {R1: 30})
    assert made.points() == {}
    assert made.hash_at_end(R1, 30) == 0


def test_a_merged_history_that_is_behind_changes_nothing() -> None:
    made = history(*words(9))
    before = made.points()
    made.take_over(history(*words(4)).points(), {R1: 9}, {R1: 4})
    assert made.points() == before


# --- Bytes ----------------------------------------------------------------------------------------


def test_of_many_regions_the_newest_points_are_said() -> None:
    made = Histories()
    for region in range(1, 1_001):
        goes_on(made, *words(2 * KEPT), origin=RegionId(region))
    told = heard(said(made))
    most = max(KEPT, SAID_POINTS_MAX.value // 1_000)
    assert told == {region: points[-most:] for region, points in made.points().items()}


@pytest.mark.parametrize(
    "content",
    [
        {0: [(1, 1)]},
        {1024: [(1, 1)]},
        {1: []},
        {1: [(0, 1)]},
        {1: [(1, 0)]},
        {1: [(1, -1)]},
        {1: [(2**63, 1)]},
        {1: [(2, 1), (1, 1)]},
        {1: [(1, 1), (1, 1)]},
        {1: [(n, 1) for n in range(1, KEPT * HASH_BITS + 2)]},
    ],
)
def test_a_history_that_cannot_be_is_refused(
    content: dict[RegionId, list[tuple[int, int]]],
) -> None:
    with pytest.raises(ContentError, match="histories: that of region"):
        points_of(content)
    with pytest.raises(ContentError):
        heard(packed(content))
    with pytest.raises(ContentError, match="dict"):
        heard(b"nothing")


def test_a_checkpoint_whose_history_goes_beyond_what_was_applied_is_refused() -> None:
    """The next batch would have to follow one that comes after it."""
    node, again = Node(1), Node(1)
    node.run("XADD s 1-1 f v")
    images = images_of(node)
    (root,) = [image for image in images if image.kind is Kind.ROOT]
    ((origin, line),) = unpacked(root.head, RootContent).histories.items()
    longer = {origin: [*line, (line[-1][0] + 1, 1)]}
    head = packed(replace(unpacked(root.head, RootContent), histories=longer))
    with pytest.raises(ContentError, match="histories: that of region 1 has effects not applied"):
        again.replica.restore(
            [image for image in images if image != root] + [root._replace(head=head)]
        )


# --- Batches --------------------------------------------------------------------------------------


def test_a_batch_says_which_one_it_follows() -> None:
    node = Node(1)
    for _ in range(3):
        node.run("XADD s * f v")
    encoded = [record.batch for record in node.log if record.batch is not None]
    follows = [decode_batch(one).follows for one in encoded]
    assert follows == [0, *map(hash_of, encoded[:-1])]
