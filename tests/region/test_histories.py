"""Copies of one folder that nothing tells apart (rule 18): whose links are refused, and why."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.histories import HistoryError, Point, heard, said
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.region.links.link import LinkState
from crdtstream.region.links.messages import (
    Open,
    Progress,
    Received,
    Refusal,
    RefusalKind,
    Standing,
    Welcome,
)
from crdtstream.region.links.pull import Sleep
from crdtstream.region.links.serve import Serve
from crdtstream.region.peers import Peer
from crdtstream.region.readiness import DatabaseIdentity
from tests.harness.driven import SAID, UID, Driven, make_region, said_of
from tests.harness.regions import Node

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
STANDING = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
COMMON = 5
FROM_IT = "the effects of region 1 are others in region 1 than in region 3: they are not the same"
APART = "the effects of region 1 are others in region 2 than in region"


def copies(*own: Sequence[str]) -> list[Node]:
    """Nodes of region 1 in copies of one folder, each with commands of its own, a tick each."""
    made = []
    for commands in own:
        node = Node(1)
        for ms in range(1, COMMON + 1):
            node.run(f"XADD s {ms} f common")
        for command in commands:
            node.run(*command.split(";"))
        made.append(node)
    return made


def adds(*values: str) -> list[str]:
    return [f"XADD s * f {value}" for value in values]


def member(region: int, *sources: Node) -> Node:
    """A region that has all that the sources have."""
    node = Node(region)
    node.pull(*sources)
    return node


def driven_of(node: Node, *peers: int) -> Driven:
    node.end_tick()
    return Driven(make_region(node.region, peers or (1, 2, 3), log=node.log))


class Linked:
    """A region's link to a peer, whose other end is this test."""

    def __init__(self, node: Node, *peers: int, to: RegionId = R2) -> None:
        self.driven = driven_of(node, *peers)
        self._said = said_of(*(peers or (1, 2, 3)))
        self.region = self.driven.region
        self.pull = self.region.links.pulls[to]
        self.at = 0.0
        self._drain()

    def _drain(self) -> list[object]:
        actions: list[object] = []
        while not isinstance(action := self.pull.next(self.driven.now, self.at), Sleep):
            actions.append(action)
        return actions

    def welcome(self, peer: Node | None, *, says: bool = True) -> LinkState:
        """The peer says what it has; the link's state."""
        node = Node(self.pull.peer) if peer is None else peer
        histories = said(node.replica.histories) if says else b""
        vv = dict(node.replica.vv)
        self._receive(
            Welcome(
                self.pull.peer,
                7,
                vv,
                STANDING,
                own_n=vv.get(R1, 0),
                histories=histories,
                membership=self._said,
            )
        )
        return self.pull.link.state

    def heartbeat(self, peer: Node, told: dict[RegionId, Point] | None = None) -> LinkState:
        """It says what is new there; the link's state."""
        peers_side = make_region(peer.region, (1, 2, 3), log=peer.log)
        news = peers_side.compared.news({} if told is None else told)
        vv = dict(peer.replica.vv)
        self._receive(Progress(vv, self.driven.now, STANDING, histories=news))
        return self.pull.link.state

    def bring(self, records: Sequence[Record]) -> LinkState:
        """These batches come; the link's state once they are applied, if they can be."""
        encoded = [record.batch for record in records if record.batch is not None]
        self._receive(Received([(decode_batch(one), one) for one in encoded]))
        self.region.apply_arrivals(self.driven.now)
        self.driven.end_tick()
        self._drain()
        return self.pull.link.state

    def again(self) -> None:
        """The pause after a refusal is over, and the link opens again."""
        self.at += 100
        self._drain()

    def _receive(self, message: Welcome | Progress | Received) -> None:
        self.pull.receive(message, self.driven.now, self.at)
        self._drain()


def open_of(node: Node, *, says: bool = True) -> Open:
    """A region pulls."""
    histories = said(node.replica.histories) if says else b""
    vv, region = dict(node.replica.vv), RegionId(node.region)
    return Open(
        region, "crdb", region, frozenset({R1}), vv, STANDING, histories=histories, membership=SAID
    )


# --- Links ----------------------------------------------------------------------------------------


def test_a_region_with_effects_of_a_copy_is_not_welcomed() -> None:
    copy, other = copies(adds("copy"), adds("other", "other"))
    served = driven_of(member(2, other))
    refusal = served.region.links.accept(open_of(copy), 0.0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.MISMATCH
    assert "others in region 1 than in region 2: they are the same up to 5, and" in refusal.reason
    assert "not up to 6" in refusal.reason
    assert isinstance(served.region.links.accept(open_of(other), 0.0), Serve)


def test_a_peer_that_welcomes_with_effects_of_a_clone_is_refused() -> None:
    copy, other = copies(adds("copy"), adds("other", "other"))
    link = Linked(copy)
    assert link.welcome(member(2, other)) is LinkState.REFUSED
    assert f"{APART} 1: they are the same up to 5, and not up to 6" in link.pull.link.error


def test_two_regions_differ_by_a_third_one_s_copies() -> None:
    copy, other = copies(adds("copy"), adds("other"))
    link = Linked(member(3, copy))
    assert link.welcome(member(2, other)) is LinkState.REFUSED
    assert f"{APART} 3" in link.pull.link.error
    assert "One of the two regions must begin with an empty folder" in link.pull.link.error
    assert link.region.refuses_writes is None or "copies" not in link.region.refuses_writes


@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_region_that_is_ahead_or_behind_is_linked(is_ahead: bool) -> None:
    ahead, behind = copies(adds("more", "more"), ())
    one, peer = (ahead, behind) if is_ahead else (behind, ahead)
    assert Linked(member(3, one)).welcome(member(2, peer)) is LinkState.CATCHING_UP


def test_a_region_of_an_earlier_version_is_linked() -> None:
    """It says nothing of histories; and of what it applied nothing may be known here."""
    copy, other = copies(adds("copy"), adds("other"))
    assert Linked(copy).welcome(member(2, other), says=False) is LinkState.CATCHING_UP
    served = driven_of(member(2, other))
    assert isinstance(served.region.links.accept(open_of(copy, says=False), 0.0), Serve)


def test_bytes_that_are_no_history_are_refused() -> None:
    served = driven_of(Node(2))
    refusal = served.region.links.accept(replace(open_of(Node(1)), histories=b"nothing"), 0.0)
    assert isinstance(refusal, Refusal)


# --- Heartbeats -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "is_apart"),
    [
        (adds("copy"), adds("copy"), False),
        (adds("copy"), adds("copy", "more"), False),
        (adds("copy", "more"), adds("copy"), False),
        (adds("copy"), adds("other"), True),
        (adds("copy", "more", "more"), adds("other"), True),
        # There a batch ends where none ends here.
        (["XADD s * f copy;XADD s * f copy"], adds("other"), True),
        # Of which nothing is known here yet; the next batch will tell.
        (adds("copy"), adds("other", "other"), False),
    ],
)
def test_two_regions_that_are_linked_hear_of_two_copies_by_the_next_heartbeat(
    mine: list[str], theirs: list[str], is_apart: bool
) -> None:
    """Each got its copy's effects from the region itself, behind the other one's back."""
    copy, other = copies(mine, theirs)
    link = Linked(member(3, copy))
    assert link.welcome(Node(2)) is LinkState.CATCHING_UP
    state = link.heartbeat(member(2, other))
    assert (state is LinkState.REFUSED) is is_apart
    assert (FROM_IT.replace("region 1 than", "region 2 than") in link.pull.link.error) is is_apart


def test_the_link_of_a_peer_that_has_others_ends_as_well() -> None:
    """The peer is behind: what is told of here lies beyond all that it has."""
    copy, other = copies(adds("copy", "more"), adds("other"))
    link = Linked(member(3, copy))
    link.welcome(Node(2))
    serve = link.region.links.accept(open_of(Node(2)), 0.0)
    assert isinstance(serve, Serve)
    assert link.heartbeat(member(2, other)) is LinkState.REFUSED
    assert serve.is_over


def test_the_link_to_a_peer_that_has_others_begins_again_when_it_opens_its_own() -> None:
    """This region is behind: what the peer tells lies beyond all that is here."""
    copy, other = copies(adds("copy"), adds("other", "more"))
    link = Linked(member(3, copy))
    link.welcome(Node(2))
    assert link.heartbeat(member(2, other)) is LinkState.LIVE
    assert isinstance(link.region.links.accept(open_of(member(2, other)), 0.0), Refusal)
    link.again()
    assert link.pull.link.state is LinkState.CONNECTING
    assert link.welcome(member(2, other)) is LinkState.REFUSED


def test_a_heartbeat_tells_what_is_new() -> None:
    (node,) = copies(adds("one"))
    other = member(2, node)
    region = make_region(2, log=other.log)
    told: dict[RegionId, Point] = {}
    assert heard(region.compared.news(told)).keys() == {R1}
    assert region.compared.news(told) == b""
    region.replica.histories.note(R3, 1, 7)
    assert heard(region.compared.news(told)) == {R3: [Point(1, 7)]}


def test_a_heartbeat_with_what_is_no_history_ends_the_link() -> None:
    link = Linked(Node(3))
    link.welcome(Node(2))
    link._receive(Progress({}, link.driven.now, STANDING, histories=b"nothing"))
    assert not link.pull.link.is_up


# --- Batches --------------------------------------------------------------------------------------


def test_a_batch_that_follows_another_one_is_not_applied() -> None:
    """The peer says nothing as the link opens, or did not know: the copy was started since."""
    copy, other = copies(adds("copy"), adds("other", "next"))
    link = Linked(member(3, copy), to=R1)
    link.welcome(None)
    had = dict(link.region.replica.vv)
    assert link.bring(other.log[COMMON + 1 :]) is LinkState.REFUSED
    assert (
        "others in region 1 than in region 3: they are not the same up to 6" in link.pull.link.error
    )
    assert dict(link.region.replica.vv) == had


def test_a_batch_of_which_only_a_part_is_here_is_of_a_copy() -> None:
    """A batch is applied as a whole; here, it would wait for ever."""
    copy, other = copies(adds("copy"), ["XADD s * f one;XADD s * f two"])
    link = Linked(member(3, copy), to=R1)
    link.welcome(None)
    assert link.bring(other.log[COMMON:]) is LinkState.REFUSED
    assert (
        "others in region 1 than in region 3: they are not the same up to 7" in link.pull.link.error
    )


def test_a_batch_of_an_earlier_version_is_applied() -> None:
    """It does not say what it follows."""
    (node,) = copies(adds("next", "then"))
    link = Linked(member(3, *copies(())), to=R1)
    link.welcome(None)
    earlier = [
        replace(record, batch=encode_batch(replace(decode_batch(record.batch), follows=0)))
        for record in node.log[COMMON:]
        if record.batch is not None
    ]
    assert link.bring(earlier) is LinkState.CATCHING_UP
    assert link.region.replica.vv[R1] == COMMON + 2


# --- Writes ---------------------------------------------------------------------------------------


def test_writes_are_refused_if_a_peer_has_others_and_none_has_these() -> None:
    copy, other = copies(adds("copy"), adds("other"))
    link = Linked(copy, 1, 2)
    link.welcome(member(2, other))
    told = link.region.refuses_writes
    assert told is not None
    assert f"{APART} 1: they are the same up to 5" in told
    assert "no region is linked that has those of this one" in told
    # The region begins with an empty folder.
    link.again()
    link.welcome(None)
    assert "others" not in str(link.region.refuses_writes)


def test_writes_are_taken_while_another_peer_has_the_same() -> None:
    copy, other = copies(adds("copy"), adds("other"))
    link = Linked(copy)
    assert isinstance(link.region.links.accept(open_of(member(3, copy)), 0.0), Serve)
    link.welcome(member(2, other))
    assert link.region.compared.obstacle is None


def test_a_peer_that_is_removed_is_in_nobody_s_way() -> None:
    copy, other = copies(adds("copy"), adds("other"))
    link = Linked(copy, 1, 2, 3)
    link.welcome(member(2, other))
    assert link.region.compared.obstacle is not None
    link.region.changing_peers.change(link.driven.now, {R3: Peer("region-3")})
    assert link.region.compared.obstacle is None


# --- Folders --------------------------------------------------------------------------------------


def test_known_histories_are_kept_in_the_folder() -> None:
    (node,) = copies(adds("more"))
    other = member(2, node)
    other.run("XADD s * f own")
    known = other.replica.histories.points()
    assert known.keys() == {R1, R2}
    other.restart()
    assert other.replica.histories.points() == known
    other.cut()
    other.checkpoints.finish(other.replica)
    other.restart()
    assert other.replica.histories.points() == known
    # And a batch goes on from it.
    node.run("XADD s * f next")
    other.pull(node)
    assert other.replica.vv[R1] == COMMON + 2


def test_it_comes_with_a_state_that_is_copied() -> None:
    (node,) = copies(adds("more"))
    other = member(2, *copies(()))
    other.merge(node)
    assert other.replica.histories.points()[R1] == node.replica.histories.points()[R1]
    node.run("XADD s * f next")
    other.pull(node)
    assert other.replica.vv[R1] == COMMON + 2


def test_a_state_of_another_history_is_not_merged() -> None:
    copy, other = copies(adds("copy"), adds("other", "other"))
    one, theirs = member(2, copy), member(3, other)
    merging = one.begin_merge(theirs)
    before = one.digest
    with pytest.raises(
        HistoryError, match="effects of region 1 up to 6 are others than those here"
    ):
        one.end_merge(merging)
    merging.give_up()
    assert one.digest == before
    assert one.replica.vv == {R1: COMMON + 1}


def test_lost_effects_come_back_with_it() -> None:
    """The next batch of the region then follows them."""
    (node,) = copies(adds("lost", "lost"))
    peer = member(2, node)
    (back,) = copies(())
    back.pull(peer)
    back.run("XADD s * f next")
    peer.pull(back)
    assert peer.replica.vv[R1] == COMMON + 3
    assert decode_batch(back.log[-1].batch or b"").follows == node.replica.histories.hash_at_end(
        R1, COMMON + 2
    )
