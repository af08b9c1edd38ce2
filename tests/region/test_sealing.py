"""A region that is to be removed seals itself: when it takes no writes, and when it may go back."""

import pytest

from crdtstream.core.effects import SetGroupMode
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import MembersError, Removal
from crdtstream.core.membership.encoding import Seal, decode_kept, encode_kept
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.members.membership import ISSUE_AFTER_MS
from crdtstream.region.members.sealing import LEASE_MS, Sealing
from crdtstream.region.region import Region
from crdtstream.region.write_gate import Cause
from tests.harness.driven import Told
from tests.membership.world import removal
from tests.region.test_membership import Asked, Council, forced, renaming

HEIR = RegionId(1)
R3 = RegionId(3)


@pytest.fixture
def council() -> Council:
    """Regions 1, 2 and 3 at epoch 1, which all have; region 3 is to be removed."""
    council = Council()
    level(council)
    return council


def region(council: Council) -> Region:
    return council.driven[3].region


def sealing(council: Council) -> Sealing:
    return region(council).membership.sealing


def level(council: Council) -> None:
    """All get what the others have, and hear that they have it."""
    council.spread()
    council.run()


def ask(council: Council, epoch: int = 0) -> None:
    region(council).membership.seal(HEIR, epoch, council.clock)
    council.run()


def call(council: Council, *words: str) -> object:
    """Region 3's reply to a command."""
    told = Told(region(council))
    argv = [word.encode() for word in words]
    told.client.run(iter([argv]), council.clock, bytes_max=1 << 20)
    council.run()
    return told.replies[-1]


def finish(council: Council) -> None:
    """Region 3 becomes final, for epoch 2."""
    ask(council)
    for _ in range(3):
        council.wait(1)
    level(council)
    ask(council, 2)
    assert sealing(council).kept == Seal(HEIR, 2)


def test_a_sealed_region_takes_no_writes_and_answers_reads(council: Council) -> None:
    call(council, "SET", "k", "v")
    ask(council)
    assert "MISCONF region 3 is sealed" in str(call(council, "SET", "k", "w"))
    assert call(council, "GET", "k") == b"v"
    sealing(council).end()
    council.run()
    assert call(council, "SET", "k", "w") == b"OK"


def test_a_seal_ends_when_nobody_asks_any_more(council: Council) -> None:
    ask(council)
    council.wait(LEASE_MS.value - 1)
    ask(council)
    council.wait(LEASE_MS.value - 1)
    assert region(council).refuses_writes is not None
    council.wait(1)
    assert region(council).refuses_writes is None
    assert council.kept[3].seal is None


def test_a_clock_that_is_set_back_seals_nothing_for_longer(council: Council) -> None:
    ask(council)
    council.clock = Millis(council.clock - 500)
    council.pass_time()
    council.wait(LEASE_MS.value)
    assert region(council).refuses_writes is None


def test_a_restart_stays_sealed_until_nobody_asks(council: Council) -> None:
    ask(council)
    council.restart(3)
    assert "is sealed" in str(region(council).refuses_writes)
    council.pass_time()
    council.wait(LEASE_MS.value)
    assert region(council).refuses_writes is None


def test_a_region_hands_over_every_group_whose_home_it_is(council: Council) -> None:
    for number in range(3):
        call(council, "XGROUP", "CREATE", f"s{number}", "g", "0", "MKSTREAM")
        call(council, "CRDT.XGROUP", "SETMODE", f"s{number}", "g", "HOME", "3")
    call(council, "XGROUP", "CREATE", "s0", "other", "0")
    ask(council)
    for _ in range(3):
        council.wait(1)
    assert sealing(council).is_handed_over
    batches = [
        decode_batch(record.batch)
        for record in council.driven[3].log
        if record.batch is not None and record.origin == 3
    ]
    given = [
        (effect.key, effect.home)
        for batch in batches
        for _, effect in batch.others
        if isinstance(effect, SetGroupMode) and effect.home == HEIR
    ]
    assert sorted(given) == [(b"s0", 1), (b"s1", 1), (b"s2", 1)]


def test_a_region_is_not_final_while_another_lacks_something(council: Council) -> None:
    ask(council)
    council.wait(1)
    assert sealing(council).lacking == {}
    sealing(council).end()
    council.run()
    call(council, "SET", "k", "v")
    ask(council)
    council.wait(1)
    assert sealing(council).lacking == {1: 1, 2: 1}
    ask(council, 2)
    assert sealing(council).kept == Seal(HEIR)
    level(council)
    ask(council, 2)
    assert sealing(council).kept == Seal(HEIR, 2)


def test_a_region_is_final_for_the_epoch_that_it_votes_for_and_no_other(council: Council) -> None:
    ask(council)
    council.wait(1)
    ask(council, 3)
    assert sealing(council).kept == Seal(HEIR)
    ask(council, 1)
    assert sealing(council).kept == Seal(HEIR)


def test_a_final_region_issues_nothing_and_does_not_go_back_by_itself(council: Council) -> None:
    finish(council)
    assert not region(council).replica.may_issue
    council.wait(10 * LEASE_MS.value)
    # Any word of a peer has it look.
    region(council).membership.look(council.clock)
    assert "its removal as epoch 2 may be decided" in str(region(council).refuses_writes)
    with pytest.raises(MembersError, match="may be decided any time"):
        sealing(council).end()
    council.restart(3)
    council.wait(10 * LEASE_MS.value)
    assert "its removal as epoch 2 may be decided" in str(region(council).refuses_writes)


def test_a_final_region_goes_back_once_another_change_has_its_epoch(council: Council) -> None:
    finish(council)
    assert council.wish(1, renaming(2, "us")).made is not None
    assert region(council).refuses_writes is not None
    level(council)
    assert sealing(council).kept == Seal(HEIR)
    council.wait(LEASE_MS.value)
    assert region(council).refuses_writes is None


def test_a_final_region_goes_back_by_its_own_change_if_all_others_are_gone() -> None:
    """Nobody else can issue the effect of that change."""
    council = Council((1, 3))
    level(council)
    finish(council)
    council.away.add(1)
    asked = Asked()
    region(council).membership.wish(
        lambda _: removal(1, 3, Removal.WITHOUT_MAJORITY), asked, council.clock, survivors=[R3]
    )
    council.full.add(3)
    council.wait(1)
    region(council).membership.look(council.clock)
    assert not region(council).replica.may_issue, "a power cut would take the decision back"
    council.full.clear()
    council.pass_time()
    assert asked.made is not None
    assert region(council).replica.members.epoch == 2
    council.wait(LEASE_MS.value)
    assert region(council).refuses_writes is None


def test_a_removed_region_does_not_issue_its_own_removal(council: Council) -> None:
    """V6: others would hear of it only from a region that they refuse by then."""
    finish(council)
    council.driven[1].region.gate.refuse(Cause.DISK, "the disk refuses")
    council.away.add(2)
    asked = Asked()
    council.driven[1].region.membership.wish(forced(3, Removal.SEALED), asked, council.clock)
    council.run()
    council.wait(ISSUE_AFTER_MS.value + 1)
    assert region(council).membership.part.votes.decided is not None
    assert council.issued() == []
    assert "was removed at epoch 2" in str(region(council).refuses_writes)


def test_a_sealed_region_that_is_removed_by_force_asks_for_no_time(council: Council) -> None:
    """Nothing depends on the end of its seal, also after a restart."""
    ask(council)
    council.driven[1].region.membership.wish(forced(3), Asked(), council.clock)
    council.run()
    assert "was removed at epoch 2" in str(region(council).refuses_writes)
    assert sealing(council).wanted == Seal(HEIR)
    council.wait(1)
    assert region(council).deadlines.earliest is None
    council.restart(3)
    council.pass_time()
    assert sealing(council).wanted == Seal(HEIR)
    assert region(council).deadlines.earliest is None


def test_the_last_region_is_not_sealed() -> None:
    council = Council((3,))
    with pytest.raises(MembersError):
        ask(council)
    assert region(council).refuses_writes is None


def test_a_seal_is_kept_as_it_is(council: Council) -> None:
    ask(council)
    kept = council.kept[3]
    assert kept.seal == Seal(HEIR)
    assert decode_kept(encode_kept(kept)) == kept
