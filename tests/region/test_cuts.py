"""The cut of a removed region: whose counts are heard, and when they are said."""

from dataclasses import dataclass, field

from crdtstream.core.clock import MutableVersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import Add, JoinToken
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.replica import Replica
from crdtstream.region.members.cuts import Cuts
from crdtstream.region.members.known_members import without_cuts
from tests.membership.world import contact, founded, removal, renamed

R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))
RUN, LATER_RUN = 70, 71
EPOCH = 2


@dataclass
class Here:
    """Region 1 of three or more; region 3 is removed, and it has 5 of its effects, all durable."""

    members: Members = field(default_factory=lambda: apply(founded(3), removal(3, 1)))
    is_recovering: bool = False

    def __post_init__(self) -> None:
        self.replica = Replica(R1)
        self.replica.vv[R3] = 5
        self.durable_vv: MutableVersionVector = {R3: 5}
        self.cuts = self.made(self.members)

    def made(self, members: Members) -> Cuts:
        return Cuts(
            self.replica,
            members,
            durable=self,
            recovery=self,
        )

    def hear(self, peer: RegionId, n: int, *, epoch: int = EPOCH, run: int = RUN) -> None:
        self.cuts.note_run(peer, run)
        self.cuts.hear(peer, run, epoch, {R3: n})


def test_the_cut_is_the_most_that_any_member_has() -> None:
    here = Here()
    assert here.cuts.leaving == {R3}
    here.hear(R2, 3)
    assert here.cuts.look()
    assert here.cuts.final == {R3: 5}
    assert here.cuts.leaving == set()
    assert here.cuts.is_beyond(R3, 6)
    assert not here.cuts.is_beyond(R3, 5)
    assert not here.cuts.is_beyond(R2, 99)


def test_it_is_final_when_all_of_it_is_durable_here() -> None:
    here = Here()
    here.hear(R2, 7)
    assert not here.cuts.look()
    here.replica.vv[R3] = 7
    assert not here.cuts.look()
    here.durable_vv[R3] = 7
    assert here.cuts.look()
    assert here.cuts.final == {R3: 7}


def test_one_who_has_not_spoken_is_waited_for() -> None:
    here = Here(apply(founded(4), removal(3, 1)))
    here.hear(R2, 5)
    assert not here.cuts.look()
    assert here.cuts.missing(R3) == (R4,)


def test_a_region_that_joins_owes_its_word_until_it_is_taken_out() -> None:
    """It may have joined by a member that is gone since, and have from there what nobody has."""
    add = Add(R4, contact(4), JoinToken(bytes(32), Millis(1 << 40)))
    here = Here(apply(apply(founded(3), add), removal(3, 1)))
    here.hear(R2, 5, epoch=3)
    assert not here.cuts.look()
    assert here.cuts.missing(R3) == (R4,)
    here.cuts.adopt(apply(here.members, removal(4, 1)))
    here.hear(R2, 5, epoch=4)
    assert here.cuts.look()
    assert here.cuts.final == {R3: 5, R4: 0}


def test_counts_said_at_an_earlier_epoch_do_not_decide_a_cut() -> None:
    here = Here()
    here.hear(R2, 5, epoch=1)
    assert not here.cuts.look()
    here.hear(R2, 5)
    # Another change is known here before the cut was looked at.
    here.cuts.adopt(apply(here.members, renamed(1, "x")))
    assert not here.cuts.look()
    here.hear(R2, 6, epoch=3)
    here.durable_vv[R3] = here.replica.vv[R3] = 6
    assert here.cuts.look()
    assert here.cuts.final == {R3: 6}


def test_words_of_an_earlier_start_are_forgotten() -> None:
    here = Here()
    here.hear(R2, 5)
    here.cuts.note_run(R2, LATER_RUN)
    assert not here.cuts.look()
    # What the earlier one said arrives late.
    here.cuts.hear(R2, RUN, EPOCH, {R3: 5})
    assert not here.cuts.look()
    here.hear(R2, 4, run=LATER_RUN)
    assert here.cuts.look()


def test_nothing_is_said_before_all_that_was_applied_is_durable() -> None:
    here = Here()
    here.durable_vv[R3] = 4
    assert here.cuts.epoch_of_words == 0
    here.hear(R2, 4)
    assert not here.cuts.look()
    here.durable_vv[R3] = 5
    assert here.cuts.epoch_of_words == EPOCH


def test_a_region_that_recovers_says_nothing() -> None:
    here = Here(is_recovering=True)
    here.hear(R2, 5)
    assert here.cuts.epoch_of_words == 0
    assert not here.cuts.look()
    here.is_recovering = False
    assert here.cuts.look()


def test_a_removed_region_is_told_its_own_cut_once() -> None:
    """It hears no words, so it cannot find it."""
    here = Here(apply(founded(3), removal(1, 2)))
    assert here.cuts.leaving == {R1}
    assert here.cuts.learn_own(4)
    assert not here.cuts.learn_own(5)
    assert (here.cuts.final, set(here.cuts.leaving)) == ({R1: 4}, set())
    again = here.made(here.cuts.with_final(here.members))
    assert (again.final, set(again.leaving)) == ({R1: 4}, set())


def test_a_final_cut_is_kept_and_is_not_told() -> None:
    here = Here()
    here.hear(R2, 5)
    assert here.cuts.look()
    kept = here.cuts.with_final(here.members)
    again = here.made(kept)
    assert again.final == {R3: 5}
    assert again.leaving == set()
    told = here.made(without_cuts(kept))
    assert told.final == {}
    assert told.leaving == {R3}
