"""Incarnations as a value: which dots count, which histories differ, and how they are written."""

import random

import pytest

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import (
    BEGINS_MAX,
    NO_LINEAGE,
    Begin,
    IncarnationError,
    Incarnations,
    Lineage,
    Marked,
    decode_incarnations,
    differ,
    encode_incarnations,
    granted,
    joined,
    lost,
    marked_by,
    unheard,
)

R1 = RegionId(1)


def begin(number: int, after_n: int, folder: int = 0) -> Begin:
    return Begin(number, bytes([(folder or number + 1) % 256]) * 16, after_n)


def lineage(*begins: Begin) -> Lineage:
    found = NO_LINEAGE
    for one in begins:
        found = found.begun(one)
    return found


@pytest.mark.parametrize(
    ("number", "counting"),
    [
        (0, 3),  # the least of all that follow
        (1, 3),
        (2, None),
    ],
)
def test_of_an_incarnation_counts_what_no_later_one_ended(
    number: int, counting: int | None
) -> None:
    assert lineage(begin(1, 5), begin(2, 3)).counting(number) == counting


def test_nothing_counts_of_an_incarnation_that_nobody_remembers() -> None:
    assert lineage(begin(1, 5), begin(3, 9)).counting(2) == 0
    assert lineage(begin(1, 5), begin(3, 9)).counting(1) == 9


def test_forgotten_incarnations_count_for_less_and_never_for_more() -> None:
    many = lineage(*(begin(number, 10 + number) for number in range(1, BEGINS_MAX + 11)))
    assert len(many.begins) == BEGINS_MAX
    assert many.counting(0) == 11
    assert many.counting(5) == 11
    assert many.counting(20) == 10 + 21


def test_a_number_is_the_time_and_above_all_that_are_known() -> None:
    assert NO_LINEAGE.next_number(Millis(1000)) == 1000
    assert NO_LINEAGE.next_number(Millis(0)) == 1
    assert lineage(begin(1200, 0)).next_number(Millis(1000)) == 1201
    assert NO_LINEAGE.with_bid(begin(4, 0)).next_number(Millis(0)) == 5


def test_a_number_without_an_incarnation_is_of_the_first_one() -> None:
    fresh, later = lineage(begin(1000, 0)), lineage(begin(1000, 5))
    assert (fresh.counting(0), later.counting(0)) == (None, 5)
    assert fresh.begun(begin(2000, 7)).counting(0) == 7


@pytest.mark.parametrize(
    ("known", "named"),
    [
        # Most regions never have another one: their dots are named by numbers alone.
        (lineage(begin(1000, 0)), 0),
        (lineage(begin(1000, 0), begin(2000, 7)), 2000),
        # There were effects before.
        (lineage(begin(1000, 5)), 1000),
        # A bid that was granted may have begun, and its dots were named so.
        (NO_LINEAGE.with_bid(begin(1000, 0)).begun(begin(2000, 0)), 2000),
        (NO_LINEAGE.with_bid(begin(1000, 0)).begun(begin(1000, 0)), 0),
        (NO_LINEAGE.with_bid(begin(1, 0)).with_bid(begin(2, 4)).begun(begin(3, 5)), 3),
        # Not if there were effects before it: then they were named by its number.
        (NO_LINEAGE.with_bid(begin(1000, 3)).begun(begin(2000, 5)), 2000),
        (lineage(*(begin(number, 0) for number in range(1, BEGINS_MAX + 2))), BEGINS_MAX + 1),
    ],
)
def test_dots_of_a_region_s_first_incarnation_are_named_without_a_number(
    known: Lineage, named: int
) -> None:
    assert known.named == named
    assert marked_by({R1: known}, {R1: 9}) == {R1: Marked(9, named)}
    assert known.counting(known.named) is None


def test_a_number_without_an_incarnation_is_lost_if_the_first_one_is_unsure() -> None:
    """The first folder began, wrote, and died before any member heard that it had begun."""
    asked = NO_LINEAGE.with_bid(begin(1000, 0))
    for known in (asked.begun(begin(2000, 0)), asked.with_bid(begin(1500, 4)).begun(begin(2, 5))):
        assert known.counting(0) == 0
        assert lost({R1: known}, {R1: Marked(1, 0)}) == {R1: 1}
    # Two members were asked by two folders; the region hears both before it begins.
    other = NO_LINEAGE.with_bid(begin(1100, 0))
    for heard in (joined(asked, 0, other), joined(other, 0, asked)):
        assert heard.begun(begin(1100, 0)).counting(0) == 0
        told = decode_incarnations(encode_incarnations(Incarnations(None, {R1: heard})))
        assert told.lineages == {R1: heard}
    # Who was restored to before that takes the lineage as it is.
    assert joined(NO_LINEAGE, 0, asked.begun(begin(2000, 0))).counting(0) == 0
    # One that would end what is here was never granted here, and has not begun.
    assert not joined(NO_LINEAGE, 3, asked).is_first_unsure


def test_two_restores_of_one_backup_are_two_incarnations() -> None:
    """The second knows nothing of the first, and no region remembers it."""
    second = {R1: lineage(begin(2000, 5))}
    assert lost(second, {R1: Marked(6, 1000)}) == {R1: 1}
    assert lost(second, {R1: Marked(6, 2000)}) == {}


def test_the_newer_lineage_stands_if_it_ends_nothing_that_is_here() -> None:
    older, newer = lineage(begin(1, 5)), lineage(begin(1, 5), begin(2, 7))
    assert joined(older, 7, newer) == newer
    assert joined(newer, 9, older) == newer
    with pytest.raises(IncarnationError, match="from 8 on"):
        joined(older, 8, newer)


def test_two_of_one_number_differ_from_where_they_parted() -> None:
    one, other = lineage(begin(1, 5), begin(2, 7, 8)), lineage(begin(1, 5), begin(2, 6, 9))
    assert differ(one, 6, other, 20) is None
    assert differ(one, 7, other, 20) == 6
    assert differ(other, 20, one, 7) == 6
    assert joined(one, 6, other) == other
    assert joined(other, 20, one) == other


def test_a_bid_is_granted_to_one_folder_and_ends_nothing_that_is_here() -> None:
    bid, rival = begin(1, 5, 8), begin(1, 5, 9)
    found = granted(NO_LINEAGE, 5, bid)
    assert found is not None
    assert granted(found, 5, bid) == found
    assert granted(found, 5, rival) is None
    assert granted(NO_LINEAGE, 6, bid) is None
    later = begin(2, 9, 9)
    assert granted(found, 9, later) == NO_LINEAGE.with_bid(later)
    # It begins: nobody has to be asked again.
    assert joined(found, 5, lineage(bid)) == lineage(bid)


def test_a_token_of_effects_that_ended_is_lost_and_one_of_an_unheard_incarnation_waits() -> None:
    known = {R1: lineage(begin(1, 5))}
    assert lost(known, {R1: Marked(5, 0)}) == {}
    assert lost(known, {R1: Marked(7, 0)}) == {R1: 6}
    assert lost(known, {R1: Marked(7, 1)}) == {}
    assert lost(known, {R1: Marked(7, 2)}) == {}
    assert unheard(known, {R1: Marked(7, 2)}) == {R1}
    assert unheard(known, {R1: Marked(7, 1)}) == set()
    assert marked_by(known, {R1: 9}) == {R1: Marked(9, 1)}


def test_they_are_written_and_read() -> None:
    one = Incarnations(
        begin(2, 7), {R1: lineage(begin(1, 5), begin(2, 7)).with_bid(begin(3, 8))}, begin(9, 1)
    )
    assert decode_incarnations(encode_incarnations(one)) == one


@pytest.mark.parametrize(
    "wrong",
    [
        Incarnations(Begin(1, b"short", 0)),
        Incarnations(begin(-1, 0, 1)),
        Incarnations(begin(1, -1)),
        Incarnations(None, {RegionId(2000): NO_LINEAGE}),
        Incarnations(None, {R1: Lineage((begin(2, 1), begin(1, 1)))}),
        Incarnations(None, {R1: Lineage((begin(2, 1),), None, begin(2, 1))}),
    ],
)
def test_impossible_incarnations_are_refused(wrong: Incarnations) -> None:
    with pytest.raises(ContentError):
        decode_incarnations(encode_incarnations(wrong))
    with pytest.raises(ContentError):
        decode_incarnations(b"\xc1")


@pytest.mark.parametrize("seed", range(300))
def test_folders_in_turns_never_mix_two_histories(seed: int) -> None:
    """Two folders of region 1, copied over each other and started in any order; their members have
    granted a bid before it begins, and hear of that late.

    Content is what was written, so a dot that means two things shows.
    """
    world = World(random.Random(seed))
    for _ in range(60):
        world.step()
    world.check()


class World:
    """The two folders, two members, and what clients were told."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.members: list[tuple[Lineage, list[str]]] = [(NO_LINEAGE, [])] * 2
        self.folders: list[tuple[Lineage, list[str]]] = [(NO_LINEAGE, [])] * 2
        self.is_proven = [False, False]
        self.told: list[tuple[Marked, list[str]]] = []

    def step(self) -> None:
        at = self.rng.randrange(2)
        known, log = self.folders[at]
        match self.rng.choice(["write", "write", "send", "send", "copy", "bid", "look"]):
            case "write" if self.is_proven[at]:
                log = [*log, f"{at}/{len(self.told)}"]
                self.folders[at] = known, log
                self.told.append((Marked(len(log), known.named), log))
            case "send" if self.is_proven[at]:
                self.send(known, log, self.rng.randrange(2))
            case "copy":
                self.folders[1 - at] = known, log[: self.rng.randint(0, len(log))]
                self.is_proven[1 - at] = False
            case "bid" if not self.is_proven[at]:
                self.bid(at)
            case "look":
                self.check()

    def send(self, known: Lineage, log: list[str], to: int) -> None:
        theirs, had = self.members[to]
        highest = theirs.highest
        is_earlier = highest is not None and known.number < highest.number
        if is_earlier or differ(known, len(log), theirs, len(had)) is not None:
            return
        theirs = joined(theirs, len(had), known)
        self.members[to] = theirs, max(had, log, key=len)

    def bid(self, at: int) -> None:
        """All members answer, and give back what they have; then they are asked to grant."""
        known, log = self.folders[at]
        for theirs, had in self.members:
            if differ(known, len(log), theirs, len(had)) is not None:
                return
            known, log = joined(known, len(log), theirs), max(log, had, key=len)
        bid = Begin(known.next_number(Millis(0)), self.rng.randbytes(16), len(log))
        is_granted = True
        for to, (theirs, had) in enumerate(self.members):
            found = granted(joined(theirs, len(had), known), len(had), bid)
            is_granted &= found is not None and self.rng.random() < 0.8
            if found is not None:
                self.members[to] = found, had
        if is_granted:
            self.folders[at], self.is_proven[at] = (known.begun(bid), log), True

    def check(self) -> None:
        for theirs, had in self.members:
            for mark, meant in self.told:
                marked = {R1: mark}
                if lost({R1: theirs}, marked) or unheard({R1: theirs}, marked):
                    continue
                if len(had) >= mark.n:
                    assert had[: mark.n] == meant
        (one, ones), (other, others) = self.members
        if differ(one, len(ones), other, len(others)) is None:
            count = min(len(ones), len(others))
            assert ones[:count] == others[:count]
