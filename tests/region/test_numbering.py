"""Incarnations in regions (rule 18): who begins one, who hears of it, and who is refused."""

import pytest

from crdtstream.core.bids import Bid, BidAnswer, decode_bid_letter, encode_bid_letter
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Begin, Incarnations
from crdtstream.region.bidding import RESEND_MS
from crdtstream.region.events import BidUnanswered
from tests.harness.folders import NOW, Folder, bids
from tests.harness.regions import Node, sync

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
EARLIER = "goes on in another folder"


def nodes(count: int = 3, entries: int = 5) -> list[Node]:
    """Regions that have all the same, of which region 1 wrote most."""
    made = [Node(region) for region in range(1, count + 1)]
    for _ in range(entries):
        made[0]("XADD s * f v")
    sync(*made)
    return made


def folders(count: int = 3, *, entries: int = 5) -> list[Folder]:
    """Of regions that are linked, none of which ever recovered."""
    made = nodes(count, entries)
    return [Folder(node, [other.region for other in made if other is not node]) for node in made]


def copy_of(folder: Folder, *, run_id: int = 7) -> Folder:
    """A copy of a folder that is started on another machine: it recovers."""
    node = Node(folder.node.region)
    node.pull(folder.node)
    peers = [n for n in (1, 2, 3) if n != folder.here]
    return Folder(node, peers, disk=folder.disk, run_id=run_id, is_recovering=True)


def begun(copy: Folder, *others: Folder) -> None:
    """The copy asks all, begins an incarnation, and goes on; nobody has heard that it has."""
    for other in others:
        assert copy.link(other) is None
    copy.bid()
    copy.ask(*others)
    copy.go_on()


# --- Beginning ------------------------------------------------------------------------------------


def test_an_incarnation_begins_when_all_have_granted_it() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    for other in (second, third):
        assert copy.link(other) is None
    bid = copy.bid()
    assert bid.after_n == 5
    begins = []
    for other, at in ((second, 0), (third, RESEND_MS.value)):
        copy.ask(other, at=NOW + at)
        begins.append(copy.has_begun)
    assert begins == [False, True]
    assert copy.disk.own == bid
    for other in (second, third):
        assert other.disk.lineages[R1].bid == bid


def test_a_bid_is_answered_once_the_folder_has_it() -> None:
    old, second, _ = folders()
    copy = copy_of(old)
    copy.link(second)
    copy.bid()
    second.receive(copy, copy.take_letters())
    assert second.take_letters() == []
    second.keep()
    (answer,) = second.take_letters()
    assert isinstance(answer, BidAnswer)
    assert answer.is_granted


def test_a_bid_that_is_not_answered_is_sent_again() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    for other in (second, third):
        copy.link(other)
    copy.bid()
    assert bids(copy.take_letters()) == [R2, R3]
    assert copy.take_letters() == []
    again = NOW + RESEND_MS.value
    assert copy.numbering.bidding.deadline.at == again
    assert bids(copy.take_letters(at=again)) == [R2, R3]


def test_a_peer_whose_answers_are_lost_grants_a_bid_as_a_link_opens() -> None:
    """This region reaches its peer, and is not reached by it."""
    old, second, third = folders()
    copy = copy_of(old)
    for other in (second, third):
        copy.link(other)
    copy.bid()
    copy.ask(third)
    copy.events.clear()
    second.receive(copy, bids_again := copy.take_letters(at=NOW + RESEND_MS.value))
    assert bids(bids_again) == [R2]
    assert copy.events == [BidUnanswered(R2)]
    second.keep()
    # It opens the link again.
    begins = []
    for _ in range(2):
        copy.numbering.bid()
        copy.keep()
        begins.append(copy.has_begun)
        copy.hear(second)
    assert begins == [False, True]


def test_a_peer_with_more_effects_of_the_region_does_not_grant_its_bid() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    for other in (second, third):
        copy.link(other)
    copy.bid()
    old.node("XADD s * f v")
    third.node.pull(old.node)
    copy.ask(second, third)
    begins = [copy.has_begun]
    # It hears so, takes that back, and bids anew.
    copy.node.pull(third.node)
    assert copy.bid().after_n == 6
    copy.ask(second, third, at=NOW + RESEND_MS.value)
    assert [*begins, copy.has_begun] == [False, True]


def test_two_copies_never_begin_the_same_incarnation() -> None:
    old, second, third = folders()
    one, other = copy_of(old, run_id=7), copy_of(old, run_id=8)
    for member in (second, third):
        one.link(member)
    one.bid()
    one.ask(second)
    # The first one is cut off.
    for member in (second, third):
        other.link(member)
    assert other.bid().number > one.bid().number
    other.ask(second, third)
    one.ask(second, third, at=NOW + RESEND_MS.value)
    assert [one.has_begun, other.has_begun] == [False, True]


def test_a_bid_of_an_earlier_run_that_comes_late_locks_nobody_out() -> None:
    """The region has begun since, and has issued nothing."""
    old, second, third = folders()
    first = copy_of(old, run_id=7)
    for member in (second, third):
        first.link(member)
    # Its clock was ahead.
    first.numbering.bidding.note_number(Begin(5000, bytes(16), 0))
    first.bid()
    late = first.take_letters()
    again = copy_of(old, run_id=8)
    begun(again, second, third)
    for member in (second, third):
        assert again.link(member) is None
        before = member.disk
        member.receive(first, late)
        member.keep()
        assert member.disk == before


def test_a_peer_of_an_earlier_version_is_not_asked() -> None:
    """It says nothing of incarnations, and would not know what a bid is."""
    old, second, _ = folders()
    copy = copy_of(old)
    copy.link(second)
    assert copy.numbering.hear(R3, 1, {R1: 5}, b"", recovers=False) is None
    copy.bid()
    copy.ask(second)
    assert copy.has_begun


def test_a_region_without_peers_begins_at_once() -> None:
    alone = Folder(Node(1), [], is_recovering=True)
    assert alone.bid() == Begin(NOW, alone.bid().folder, 0)
    alone.keep()
    assert alone.has_begun


def test_all_that_recover_at_once_grant_each_other() -> None:
    made = [copy_of(folder) for folder in folders()]
    for one in made:
        for other in made:
            if other is not one:
                assert one.link(other) is None
    for one in made:
        one.bid()
        one.ask(*(other for other in made if other is not one))
        assert one.has_begun


def test_a_region_whose_bid_was_granted_answers_after_another_start() -> None:
    """It is not an earlier folder: it recovers, and says what it has."""
    old, second, _ = folders()
    copy = copy_of(old)
    copy.link(second)
    copy.bid()
    copy.ask(second)
    again = copy_of(old, run_id=8)
    assert second.link(again) is None
    assert second.numbering.is_newest(R1)


# --- V14, V15, V16 --------------------------------------------------------------------------------


def test_v14_a_newcomer_hears_in_which_folder_a_region_goes_on() -> None:
    """It would take the old folder's 1:6 for the region's."""
    old, second, third = folders()
    copy = copy_of(old)
    begun(copy, second, third)
    newcomer = Folder(Node(4), [1, 2, 3], is_recovering=True)
    assert newcomer.link(second) is None
    # By its own link to the old folder, or by the old folder's.
    assert EARLIER in (newcomer.hear(old) or "")
    assert EARLIER in (old.hear(newcomer) or "")


@pytest.mark.parametrize("hears", ["the bid", "that it has begun"])
def test_v14_a_member_that_was_put_back_hears_it_from_any_other(hears: str) -> None:
    old, second, third = folders()
    before = third.disk
    copy = copy_of(old)
    begun(copy, second, third)
    if hears == "that it has begun":
        assert copy.link(second) is None
    put_back = Folder(third.node, [1, 2], disk=before, run_id=9, is_recovering=True)
    # The old folder answers before anybody else; the answer is not one of its region.
    assert put_back.link(old) is None
    assert put_back.link(second) is None
    assert not put_back.numbering.is_newest(R1)
    assert put_back.news == [(R1, hears != "the bid")]
    assert EARLIER in (put_back.link(old) or "")


def test_v15_a_member_that_was_put_back_since_is_asked_again() -> None:
    """It granted the bid, and forgot: it would take the old folder's effects."""
    old, second, third = folders()
    before = second.disk
    copy = copy_of(old)
    for member in (second, third):
        copy.link(member)
    bid = copy.bid()
    copy.ask(second)
    put_back = Folder(second.node, [1, 3], disk=before, run_id=9, is_recovering=True)
    assert copy.hear(put_back) is None
    copy.ask(third, at=NOW + RESEND_MS.value)
    begins = [copy.has_begun]
    # An answer of the run before comes late.
    late = BidAnswer(R1, second.run_id, bid.folder, is_granted=True, number=bid.number)
    copy.numbering.receive(R2, late, NOW)
    copy.numbering.bid()
    begins.append(copy.has_begun)
    # It answers once it has heard the region in this run.
    assert put_back.hear(copy) is None
    copy.ask(put_back, at=NOW + 2 * RESEND_MS.value)
    assert [*begins, copy.has_begun] == [False, False, True]
    assert put_back.disk.lineages[R1].bid == bid


def test_v16_a_copy_that_not_all_answer_leaves_nothing_behind() -> None:
    """It was started by accident; the original goes on."""
    old, second, third = folders()
    copy = copy_of(old)
    assert copy.link(second) is None
    assert copy.take_letters() == []
    assert second.disk == Incarnations()
    assert old.link(second) is None
    assert old.link(third) is None
    assert old.numbering.obstacle is None


# --- The earlier folder ---------------------------------------------------------------------------


def test_an_earlier_folder_hears_so_at_its_first_link_and_keeps_that() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    begun(copy, second, third)
    assert EARLIER in (old.link(second) or "")
    assert EARLIER in (old.numbering.obstacle or "")
    again = Folder(old.node, [2, 3], disk=old.disk, run_id=9)
    assert EARLIER in (again.numbering.obstacle or "")
    assert copy.link(second) is None
    assert copy.numbering.obstacle is None


def test_an_earlier_folder_that_asks_all_may_go_on() -> None:
    """If the other one is gone for good.  If it is not, it is the earlier one from then on."""
    old, second, third = folders()
    copy = copy_of(old)
    begun(copy, second, third)
    old.link(second)
    again = Folder(old.node, [2, 3], disk=old.disk, run_id=9, is_recovering=True)
    begun(again, second, third)
    assert again.numbering.obstacle is None
    assert EARLIER in (copy.link(second) or "")
    assert EARLIER in (copy.numbering.obstacle or "")


def test_effects_that_count_no_more_are_for_salvage() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    begun(copy, second, third)
    assert copy.link(second) is None
    old.node("XADD s * f v")
    old.node("XADD s * f v")
    again = Folder(old.node, [2, 3], disk=old.disk, run_id=9, is_recovering=True)
    assert again.link(second) is not None
    told = again.numbering.obstacle or ""
    assert "Its effects from 6 to 7 are not in the other one" in told
    assert "salvage" in told


def test_regions_with_other_effects_of_a_third_one_are_refused_by_name() -> None:
    """Neither takes the other's, and both say whose effects differ, and from which one on."""
    old, second, third = folders()
    before = third.disk
    copy = copy_of(old)
    begun(copy, second, third)
    copy.node("XADD s * f copy")
    assert second.link(copy) is None
    second.node.pull(copy.node)
    # Put back to before that, it meets the old folder only.
    put_back = Folder(third.node, [1, 2], disk=before, run_id=9)
    old.node("XADD s * f old")
    assert put_back.link(old) is None
    put_back.node.pull(old.node)
    expected = "the effects of region 1 from 6 on are others in region"
    assert expected in (put_back.link(second) or "")
    assert expected in (second.link(put_back) or "")


# --- Effects and states ---------------------------------------------------------------------------


def test_effects_behind_a_bid_wait_until_it_has_begun() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    begun(copy, second, third)
    assert second.numbering.is_early(R1, 6)
    assert not second.numbering.is_early(R1, 5)
    assert "may have lost effects" in (second.numbering.wrong_state({R1: 6}) or "")
    assert second.numbering.wrong_state({R1: 5, R2: 99}) is None
    assert copy.link(second) is None
    assert not second.numbering.is_early(R1, 6)
    assert second.news == [(R1, False), (R1, True)]


def test_a_state_with_effects_that_count_no_more_is_not_copied() -> None:
    old, second, third = folders()
    copy = copy_of(old)
    begun(copy, second, third)
    assert copy.link(second) is None
    nothing_known = Incarnations()
    said = Folder(Node(3), [1, 2], disk=nothing_known).numbering.said()
    assert second.numbering.hear_state(R3, {R1: 5}, said) is None
    reason = second.numbering.hear_state(R3, {R1: 6}, said)
    assert "the effects of region 1 from 6 on are others" in (reason or "")


# --- Letters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "letter",
    [
        Bid(R2, 7, Begin(1000, bytes(16), 5)),
        BidAnswer(R2, 8, bytes(16), is_granted=True, number=-1),
        BidAnswer(R2, 2**64 - 1, bytes(16), is_granted=False, number=2**63 - 1),
    ],
)
def test_letters_are_written_and_read(letter: Bid | BidAnswer) -> None:
    assert decode_bid_letter(encode_bid_letter(letter), R2) == letter


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        encode_bid_letter(Bid(R2, 7, Begin(1, b"short", 5))),
        encode_bid_letter(Bid(R2, 7, Begin(1, bytes(16), -1))),
        encode_bid_letter(BidAnswer(R2, 8, b"short", is_granted=True, number=1)),
        encode_bid_letter(BidAnswer(R2, 8, bytes(16), is_granted=True, number=-2)),
        encode_bid_letter(BidAnswer(R2, -1, bytes(16), is_granted=True, number=1)),
    ],
)
def test_bytes_that_are_no_bid_letter_are_refused(data: bytes) -> None:
    with pytest.raises(ContentError):
        decode_bid_letter(data, R2)


def test_malformed_incarnations_of_a_peer_change_nothing() -> None:
    _, second, _ = folders()
    before = second.disk
    reason = second.numbering.hear(R1, 1, {R1: 5}, b"\xc1", recovers=False)
    assert reason is not None
    second.numbering.hear_refused(R1, b"\xc1")
    second.keep()
    assert second.disk == before
