"""The cut of a removed region: everywhere the same, reached by somebody, and nothing beyond it."""

import os
import random
from dataclasses import dataclass, field

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.membership.region_cut import (
    Adoption,
    CutSearch,
    Word,
    word_of,
)
from tests.membership.world import founded, removal

R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))
WITHOUT_4 = apply(founded(4), removal(4, heir=1))
SEEDS = range(int(os.environ.get("CRDTSTREAM_SEEDS", "400")))


def search(members: Members = WITHOUT_4) -> CutSearch:
    return CutSearch(R4, members)


def heard(cut: CutSearch, *ns: int, epoch: int = 2) -> CutSearch:
    for region, n in enumerate(ns, 1):
        cut.hear(Word(RegionId(region), 0, epoch, n))
    return cut


# --- Which words count --------------------------------------------------------------------------


def test_the_cut_is_the_most_that_a_remaining_member_has() -> None:
    cut = heard(search(), 4, 7)
    assert (cut.cut, cut.silent) == (None, (3,))
    cut.hear(Word(R3, 0, 2, 0))
    assert cut.cut == 7
    # Also if nobody has anything.
    assert heard(search(), 0, 0, 0).cut == 0


def test_the_removed_region_has_no_word() -> None:
    cut = heard(search(), 4, 7, 0)
    cut.hear(Word(R4, 0, 2, 9))
    assert cut.cut == 7


def test_a_word_counts_when_all_that_was_applied_before_the_epoch_is_durable() -> None:
    """V7: the epoch came by Welcome, ahead of the log."""
    adoption = Adoption(2, {R4: 5, R1: 3})

    def word(**durable: int) -> Word | None:
        vv = {RegionId(int(name[1:])): n for name, n in durable.items()}
        return word_of(R4, here=R2, start=1, adoption=adoption, durable_vv=vv, recovers=False)

    assert word(r4=4, r1=3) is None
    assert word(r4=5, r1=2) is None
    assert word(r4=5, r1=3) == Word(R2, 1, 2, 5)
    assert word(r4=6, r1=9) == Word(R2, 1, 2, 6)


def test_a_member_that_recovers_has_no_word() -> None:
    """V11: it takes back what it had lost, and that may be more than it has now."""
    adoption = Adoption(2, {})
    assert (
        word_of(R4, here=R2, start=1, adoption=adoption, durable_vv={R4: 2}, recovers=True) is None
    )


def test_words_of_an_earlier_start_are_forgotten() -> None:
    """V8: what they spoke of may be lost since."""
    cut = heard(search(), 4, 7, 0)
    cut.started(R2, 1)
    assert cut.silent == (2,)
    cut.hear(Word(R2, 0, 2, 7))
    assert cut.silent == (2,), "it was on its way"
    cut.hear(Word(R2, 1, 2, 5))
    assert cut.cut == 5
    # And a word says which start it is of, too.
    cut.hear(Word(R1, 3, 2, 6))
    cut.hear(Word(R1, 2, 2, 9))
    assert cut.cut == 6


def test_words_of_an_earlier_epoch_are_forgotten() -> None:
    """V9: 3 relays 4's first effect to 2 after 1 and 2 have spoken, and then is removed."""
    cut = heard(search(), 0, 0, 1)
    assert cut.cut == 1
    later = apply(WITHOUT_4, removal(3, heir=1))
    cut.adopt(later)
    assert cut.silent == (R1, R2)
    heard(cut, 0, 0, epoch=2)
    assert cut.silent == (1, 2), "it was said before"
    assert heard(cut, 0, 1, epoch=3).cut == 1


def test_a_cut_is_final_once_it_is_reached() -> None:
    cut = heard(search(), 4, 7, 0)
    assert not cut.reach({R4: 6})
    assert cut.final is None
    assert cut.reach({R4: 7})
    assert not cut.reach({R4: 7}), "only once"
    # Nothing moves it.
    cut.started(R2, 1)
    cut.adopt(apply(WITHOUT_4, removal(3, heir=1)))
    assert cut.cut == 7
    assert CutSearch(R4, WITHOUT_4, final=7).cut == 7


# --- Random walks -------------------------------------------------------------------------------


@dataclass
class Member:
    """A member in the walk: of region 4's effects it knows how many are applied, and durable.

    Attributes:
        starts: by member its newest start that was answered here.
        answered: of one that recovers, who has answered it; and what they had.
    """

    region: RegionId
    search: CutSearch
    adoption: Adoption
    applied: int = 0
    durable: int = 0
    start: int = 0
    starts: dict[RegionId, int] = field(default_factory=dict)
    answered: dict[RegionId, int] | None = None

    def word(self) -> Word | None:
        return word_of(
            R4,
            here=self.region,
            start=self.start,
            adoption=self.adoption,
            durable_vv={R4: self.durable},
            recovers=self.answered is not None,
        )


@dataclass(frozen=True)
class Batch:
    """Effects of region 4 on a link, up to ``n``; a relay has them durably."""

    sender: RegionId
    sender_start: int
    to: RegionId
    to_start: int
    n: int


class Walk:
    """Four regions; 4 issues, is removed, and then perhaps 3 as well."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines = [founded(4)]
        before = self.lines[0]
        self.members = {
            region: Member(region, CutSearch(R4, before), Adoption(before.epoch, {}))
            for region in (R1, R2, R3)
        }
        self.issued = 0
        self.batches: list[Batch] = []
        self.words: list[tuple[RegionId, Word]] = []

    def run(self, steps: int) -> None:
        acts = [self.issue, self.relay, self.arrive, self.sync, self.adopt, self.say, self.hear]
        rare = [self.crash, self.restore, self.remove]
        for _ in range(steps):
            self.draw.choice(acts if self.draw.random() < 0.93 else rare)()
            self.answer()
            self.check()
        self.heal()

    def some(self) -> Member:
        return self.draw.choice([self.members[one] for one in self.remaining])

    @property
    def remaining(self) -> list[RegionId]:
        return [one for one in self.lines[-1].remaining if one != R4]

    def has_removed(self, member: Member, region: RegionId) -> bool:
        return region in self.lines[member.adoption.epoch - 1].removed

    # --- Steps ----------------------------------------------------------------------------------

    def issue(self) -> None:
        self.issued += self.issued < 9
        for member in self.members.values():
            if not self.has_removed(member, R4) and member.answered is None:
                self.batches.append(Batch(R4, 0, member.region, member.start, self.issued))

    def relay(self) -> None:
        sender, to = self.draw.choice(list(self.members.values())), self.some()
        if sender is not to and to.answered is None and not self.has_removed(to, sender.region):
            self.batches.append(
                Batch(sender.region, sender.start, to.region, to.start, sender.durable)
            )

    def arrive(self) -> None:
        if not self.batches:
            return
        batch = self.batches.pop(self.draw.randrange(len(self.batches)))
        to = self.members[batch.to]
        is_old = batch.to_start != to.start or batch.sender_start < to.starts.get(batch.sender, 0)
        if is_old or to.answered is not None or self.has_removed(to, batch.sender):
            return
        if to.search.final is None or batch.n <= to.search.final:
            to.applied = max(to.applied, batch.n)

    def sync(self) -> None:
        member = self.some()
        member.durable = member.applied

    def remove(self) -> None:
        if len(self.lines) == 1:
            self.lines.append(apply(self.lines[0], removal(4, heir=1)))
        elif len(self.lines) == 2 and self.draw.random() < 0.3:
            self.lines.append(apply(self.lines[1], removal(3, heir=1)))

    def adopt(self) -> None:
        self.learn(self.some(), self.draw.choice(self.lines))

    def learn(self, member: Member, members: Members) -> None:
        if members.epoch > member.adoption.epoch:
            member.adoption = Adoption(
                members.epoch, {R4: member.applied} if member.applied else {}
            )
            member.search.adopt(members)

    def say(self) -> None:
        member = self.some()
        word = member.word()
        if word is not None and word.epoch > 1:
            self.words += [(to, word) for to in self.remaining]

    def hear(self) -> None:
        if self.words:
            to, word = self.words.pop(self.draw.randrange(len(self.words)))
            self.take(to, word)

    def take(self, to: RegionId, word: Word) -> None:
        member = self.members[to]
        # A word comes with the epoch that it was said at: who is behind takes that over first.
        self.learn(member, self.lines[word.epoch - 1])
        if word.start >= member.starts.get(word.member, 0) and member.answered is None:
            member.search.hear(word)

    def crash(self) -> None:
        member = self.some()
        member.applied = member.durable
        self.begin(member)

    def restore(self) -> None:
        """To any earlier state; the membership comes with the answers."""
        member = self.some()
        member.durable = member.applied = self.draw.randint(0, member.durable)
        member.search = CutSearch(R4, self.lines[0])
        member.adoption = Adoption(1, {})
        member.starts = {}
        self.begin(member)

    def begin(self, member: Member) -> None:
        """Each start asks all members, and pulls nothing before all have answered (V10)."""
        member.start += 1
        member.answered = {}
        # All that is applied now is durable.
        member.adoption = Adoption(member.adoption.epoch, {})
        members = self.lines[member.adoption.epoch - 1]
        member.search = CutSearch(R4, members, member.search.final)

    def answer(self) -> None:
        """One of those that a member waits for answers, now and then."""
        member = self.some()
        if member.answered is None or self.draw.random() < 0.5:
            return
        others = [one for one in self.remaining if one != member.region]
        peer = self.members[self.draw.choice(others)]
        self.exchange(member, peer)
        if set(member.answered) >= set(others):
            # It takes what they had; of that it has had nothing before.
            member.applied = max([member.applied, *member.answered.values()])
            member.durable = member.applied
            member.answered = None

    def exchange(self, member: Member, peer: Member) -> None:
        assert member.answered is not None
        self.learn(peer, self.lines[member.adoption.epoch - 1])
        self.learn(member, self.lines[peer.adoption.epoch - 1])
        peer.starts[member.region] = member.start
        member.starts[peer.region] = peer.start
        peer.search.started(member.region, member.start)
        member.answered[peer.region] = peer.durable

    # --- Checks ---------------------------------------------------------------------------------

    def check(self) -> None:
        remaining = [self.members[region] for region in self.remaining]
        for member in remaining:
            member.search.reach({R4: member.durable})
        # A restored folder may have lost a cut with all that had been told of it.
        finals = {member.search.final for member in remaining} - {None}
        assert len(finals) <= 1, f"two cuts: {finals}"
        for final in finals:
            assert final is not None
            for member in remaining:
                if self.has_removed(member, R4):
                    assert member.durable <= final, f"region {member.region} is beyond {final}"

    def heal(self) -> None:
        """All that remain hear of each other: each finds the cut."""
        if len(self.lines) == 1:
            self.remove()
        members = [self.members[region] for region in self.remaining]
        self.batches.clear()
        self.words.clear()
        for member in members:
            self.learn(member, self.lines[-1])
        for member in members:
            if member.answered is not None:
                for peer in members:
                    if peer is not member:
                        self.exchange(member, peer)
                member.applied = max([member.applied, *member.answered.values()])
                member.answered = None
        for _ in range(2):
            most = max(member.applied for member in members)
            for member in members:
                member.durable = member.applied
                word = member.word()
                assert word is not None
                for to in self.remaining:
                    self.take(to, word)
            self.check()
            for member in members:
                member.applied = member.durable = most
            self.check()
        assert all(member.search.final is not None for member in members), "no cut was found"


@pytest.mark.parametrize("seed", SEEDS)
def test_all_find_one_cut_and_nobody_is_beyond_it(seed: int) -> None:
    Walk(seed).run(150)
