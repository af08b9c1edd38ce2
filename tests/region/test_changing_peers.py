"""Peers that come, move and go while a region runs: what each part of the region makes of it."""

import pkgutil
from collections.abc import Callable
from importlib import import_module

import pytest

import crdtstream.region as region_package
from crdtstream.compiled import is_compiled
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.region.catching_up import CatchingUp
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.freshness import Freshness, Lags
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.link import Failed, LinkState
from crdtstream.region.links.links import Links
from crdtstream.region.links.messages import (
    Open,
    Received,
    Refusal,
    RefusalKind,
    Standing,
    Welcome,
)
from crdtstream.region.links.pull import Connect, HangUp, Over, Pull, PullAction, Send, Sleep
from crdtstream.region.links.routes import Routes
from crdtstream.region.links.serve import End, Serve
from crdtstream.region.opening import FolderState
from crdtstream.region.peers import Peer, Peers, PeersChange
from crdtstream.region.readiness import Answer, DatabaseIdentity, Readiness
from crdtstream.region.retention import Keeping, Lack, Retention
from crdtstream.region.staleness import LagAction, LagState
from crdtstream.region.tick import Tick
from tests.harness.driven import SAID, UID, Driven, make_region, said_of
from tests.harness.parts import Applied, nothing_held
from tests.harness.parts import Links as HeldLinks
from tests.harness.peers import follow, peers_of, these
from tests.region.test_pull import batches

R1, R2, R3, R4 = (RegionId(number) for number in range(1, 5))
NOW = Millis(1_000)
STANDING = Standing(DatabaseIdentity(UID), recovering=False, regains=False)


def change(
    driven: Driven, peers: dict[RegionId, Peer], *, leaving: tuple[RegionId, ...] = ()
) -> None:
    driven.region.changing_peers.change(driven.now, peers, leaving=leaving)
    driven.end_tick()


def replies(driven: Driven) -> list[object]:
    """Asked for anew: the type checker takes a property for what it was found to be."""
    return driven.client.replies


def lag_state(driven: Driven) -> LagState:
    return driven.region.staleness.state


def is_alone(driven: Driven) -> bool:
    return driven.region.replica.is_alone


# --- All parts ------------------------------------------------------------------------------------


def parts_that_follow() -> list[type]:
    """The classes of a region that keep something for a peer."""
    names = [
        one.name for one in pkgutil.walk_packages(region_package.__path__, "crdtstream.region.")
    ]
    members = [vars(import_module(name)).values() for name in names]
    classes = {one for some in members for one in some if isinstance(one, type)}
    return sorted(
        (one for one in classes if "follow_peers" in vars(one)), key=lambda one: one.__name__
    )


@pytest.mark.skipif(is_compiled(), reason="no method of a compiled class can be watched")
def test_every_part_that_keeps_something_for_a_peer_follows_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed: list[type] = []

    def watched(part: type, right: Callable[[object, PeersChange], None]) -> Callable[..., None]:
        def follow_peers(self: object, change: PeersChange) -> None:
            followed.append(part)
            right(self, change)

        return follow_peers

    parts = parts_that_follow()
    assert {Links, Knowledge, Retention} <= set(parts)
    for part in parts:
        monkeypatch.setattr(part, "follow_peers", watched(part, vars(part)["follow_peers"]))
    change(Driven(), these(R2))
    assert sorted(one.__name__ for one in followed) == [one.__name__ for one in parts], "each once"


# --- What peers are known to have -----------------------------------------------------------------


def test_a_peer_that_is_added_counts_for_stability_at_once() -> None:
    peers = peers_of(R1, R2)
    knowledge = Knowledge(peers)
    knowledge.learn(R2, {R1: 5})
    follow(knowledge, peers.change(NOW, these(R2, joining=(R3,))))
    assert knowledge.stable({R1: 5}) == {}
    knowledge.learn(R3, {R1: 2})
    assert knowledge.stable({R1: 5}) == {R1: 2}


def test_a_peer_that_is_added_counts_with_what_it_begins_with() -> None:
    peers = peers_of(R1, R2)
    knowledge = Knowledge(peers)
    knowledge.learn(R2, {R1: 5})
    follow(knowledge, peers.change(NOW, these(R2) | {R3: Peer("", is_joining=True, has={R1: 3})}))
    assert knowledge.stable({R1: 5}) == {R1: 3}
    assert knowledge.of(R3) == {}, "nobody has said that it is durable there"
    restarted = Knowledge(Peers(R1, {R3: Peer("", is_joining=True, has={R1: 3})}))
    assert restarted.stable({R1: 5}) == {R1: 3}


def test_a_version_vector_heard_of_a_peer_before_it_was_added_counts() -> None:
    peers = peers_of(R1, R2)
    knowledge = Knowledge(peers)
    knowledge.learn(R2, {R1: 5})
    knowledge.learn(R3, {R1: 4})
    follow(knowledge, peers.change(NOW, these(R2, R3)))
    assert knowledge.stable({R1: 5}) == {R1: 4}


def test_a_peer_that_is_removed_holds_nothing_back_and_nothing_told_of_it_counts() -> None:
    peers = peers_of(R1, R2, R3)
    knowledge = Knowledge(peers)
    knowledge.learn(R2, {R1: 5})
    follow(knowledge, peers.change(NOW, these(R2)))
    assert knowledge.stable({R1: 5}) == {R1: 5}
    assert not knowledge.learn(R3, {R1: 5})
    assert knowledge.vvs.keys() == knowledge.counted.keys() == {R2}


def test_a_leaving_peer_counts_for_stability_until_it_is_gone() -> None:
    peers = peers_of(R1, R2, R3)
    knowledge = Knowledge(peers)
    knowledge.learn(R2, {R1: 5})
    knowledge.learn(R3, {R1: 2})
    follow(knowledge, peers.change(NOW, these(R2), leaving=[R3]))
    assert knowledge.stable({R1: 5}) == {R1: 2}
    assert knowledge.learn(R3, {R1: 3})
    assert knowledge.stable({R1: 5}) == {R1: 3}
    assert knowledge.count_with(R1, 1) == 1
    follow(knowledge, peers.change(NOW, these(R2)))
    assert knowledge.stable({R1: 5}) == {R1: 5}


def test_only_active_peers_count_for_wait() -> None:
    driven = Driven(make_region(peers=()))
    change(driven, these(R2, joining=(R3,)))
    driven.write("a")
    driven.call("WAIT", "1", "0")
    driven.end_tick()
    driven.commit()
    assert len(replies(driven)) == 1
    driven.region.stability.learn(R3, {R1: 1})
    driven.end_tick()
    assert replies(driven) == []
    change(driven, these(R2, R3))
    assert replies(driven) == [1], "who waits is tried again"


def test_a_peer_that_is_removed_does_not_count_for_wait() -> None:
    driven = Driven()
    driven.ask("XADD", "s", "*", "field", "a")
    for peer in (R2, R3):
        driven.region.stability.learn(peer, {R1: 1})
    driven.call("WAIT", "2", "0")
    driven.end_tick()
    assert replies(driven) == [2]
    change(driven, these(R2), leaving=(R3,))
    driven.region.stability.learn(R3, {R1: 1}, by=R2)
    driven.call("WAIT", "1", "0")
    driven.call("WAIT", "2", "5")
    driven.end_tick()
    assert replies(driven) == [1]
    driven.clock += 5
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert replies(driven) == [1]


# --- How far behind -------------------------------------------------------------------------------


def test_the_freshness_is_of_active_peers() -> None:
    peers = peers_of(R1, R2)
    applied = Applied()
    lags = Lags(peers, applied, heartbeat_interval_ms=100)
    lags.note(R2, {}, 1_000, 995)
    follow(lags, peers.change(NOW, these(R2, joining=(R3, R4))))
    assert lags.freshness([R2, R3], 1_010) == Freshness(5, 1, 1)
    follow(lags, peers.change(NOW, these(R2, R3, R4)))
    assert lags.freshness([R2], 1_010) == Freshness(5, 1, 3)
    assert not lags.freshness([R2], 1_010).is_minority
    follow(lags, peers.change(NOW, these(R3, R4)))
    assert lags.freshness([R2], 1_010) == Freshness(0, 0, 2)
    assert lags.lag_ms(R2, 1_010) is None


def issue(lag: ReplicationLag, replica: Replica, *, now: int) -> None:
    replica.vv[R1] = replica.vv.get(R1, 0) + 1  # as issuing an effect does
    lag.note_issued(Millis(now))


def test_a_joining_peer_reduces_replication_lag_only_once_it_is_active() -> None:
    replica, peers = Replica(R1), peers_of(R1, R2, joining=(R3,))
    lag = ReplicationLag(replica, peers, now=NOW)
    for at in (1_001, 1_002, 1_003):
        issue(lag, replica, now=at)
    lag.note_durable(R3, 3)
    lag.note_durable(R2, 1)
    assert (lag.effects, lag.since_ms) == (2, 1_002)
    follow(lag, peers.change(Millis(1_010), these(R2, R3)))
    assert (lag.effects, lag.since_ms) == (0, None)


def test_effects_that_only_a_removed_peer_has_count_as_lag() -> None:
    replica, peers = Replica(R1), peers_of(R1, R2, R3)
    lag = ReplicationLag(replica, peers, now=NOW)
    for at in (1_001, 1_002, 1_003):
        issue(lag, replica, now=at)
    lag.note_durable(R2, 1)
    lag.note_durable(R3, 2)
    assert lag.effects == 1
    follow(lag, peers.change(Millis(1_010), these(R2)))
    assert lag.effects == 2
    lag.note_durable(R2, 3)
    assert lag.effects == 0
    follow(lag, peers.change(Millis(1_020), {}))
    assert lag.is_alone
    assert lag.effects == 0


def test_the_first_peer_lacks_all_that_was_issued_before() -> None:
    replica, peers = Replica(R1), peers_of(R1)
    lag = ReplicationLag(replica, peers, now=NOW)
    for at in (1_001, 1_002):
        issue(lag, replica, now=at)
    assert (lag.is_alone, lag.effects) == (True, 0)
    follow(lag, peers.change(Millis(1_010), these(joining=(R2,))))
    assert (lag.is_alone, lag.effects) == (True, 0)
    follow(lag, peers.change(Millis(1_020), these(R2)))
    assert (lag.effects, lag.since_ms, lag.is_known) == (2, 1_020, False)
    lag.note_durable(R2, 2)
    assert (lag.effects, lag.since_ms, lag.is_known) == (0, None, True)


def test_a_bound_on_what_lags_holds_once_there_is_an_active_peer() -> None:
    driven = Driven(make_region(peers=()))
    driven.region.staleness.tune(lag_effects_max=1, action=LagAction.REFUSE)
    driven.ask("XADD", "s", "*", "f", "v")
    assert lag_state(driven) is LagState.ALONE
    change(driven, these(R2))
    assert lag_state(driven) is LagState.UNKNOWN
    assert "LAGGED" in str(driven.ask("XADD", "s", "*", "f", "v"))
    change(driven, {})
    assert lag_state(driven) is LagState.ALONE
    driven.ask("XADD", "s", "*", "f", "v")
    assert driven.ask("XLEN", "s") == 2


# --- The log --------------------------------------------------------------------------------------


def retention_of(peers: Peers) -> Retention:
    retention = Retention(peers, now=NOW)
    retention.note_covered(100)
    return retention


def test_the_log_is_kept_for_a_peer_that_is_added() -> None:
    peers = peers_of(R1, R2)
    retention = retention_of(peers)
    retention.note_durable(R2, {R1: 100})
    has_all = {R2: Lack(101, 0)}
    assert retention.cut_upto(has_all, {R2}, NOW, only_copy_seq=101) == 100
    follow(retention, peers.change(NOW, these(R2, joining=(R3,))))
    assert retention.will_have_vvs == {R2: {R1: 100}, R3: {}}
    lacks = has_all | {R3: Lack(1, 900)}
    assert retention.cut_upto(lacks, {R2}, NOW, only_copy_seq=101) == 0
    assert retention.held[R3].keeping is Keeping.AWAY


def test_a_joining_peer_needs_what_lies_behind_the_state_that_it_begins_with() -> None:
    peers = peers_of(R1, R2)
    retention = retention_of(peers)
    retention.note_beginning(11, {R1: 10})
    follow(retention, peers.change(NOW, these(R2) | {R3: Peer("", is_joining=True, has={R1: 40})}))
    retention.note_opened(R3, {})
    assert retention.will_have_vvs[R3] == {R1: 40}, "its folder is empty as yet"
    lacks = {R2: Lack(101, 0), R3: Lack(41, 600)}
    assert retention.cut_upto(lacks, {R2, R3}, NOW, only_copy_seq=101) == 40
    assert retention.held[R3].keeping is Keeping.KEPT
    follow(retention, peers.change(NOW, these(R2, R3)))
    assert retention.will_have_vvs[R3] == {}, "an active one has what it says"


def test_a_joining_peer_has_no_copy_to_rely_on() -> None:
    peers = peers_of(R1, R2, joining=(R3,))
    retention = retention_of(peers)
    retention.note_durable(R3, {R1: 50})
    assert retention.elsewhere_vv == {}
    follow(retention, peers.change(NOW, these(R2, R3)))
    assert retention.elsewhere_vv == {R1: 50}


def test_the_log_is_not_kept_for_a_peer_that_is_removed() -> None:
    peers = peers_of(R1, R2, R3)
    retention = retention_of(peers)
    lacks = {R2: Lack(101, 0), R3: Lack(1, 900)}
    assert retention.cut_upto(lacks, {R2}, NOW, only_copy_seq=101) == 0
    assert retention.absences == {R3: NOW}
    follow(retention, peers.change(NOW, these(R2), leaving=[R3]))
    assert retention.held.keys() == {R2}
    assert retention.absences == {}
    assert retention.cut_upto(lacks, {R2}, NOW, only_copy_seq=101) == 100
    retention.note_durable(R3, {R1: 5})
    retention.note_opened(R3, {R1: 5})
    assert retention.will_have_vvs.keys() == {R2}


def test_nothing_is_cut_by_a_look_that_did_not_ask_for_a_new_peer() -> None:
    """The log is asked without holding the region up, and peers may come meanwhile."""
    peers = peers_of(R1, R2)
    retention = retention_of(peers)
    lacks = {R2: Lack(101, 0)}
    follow(retention, peers.change(NOW, these(R2, R3)))
    assert retention.cut_upto(lacks, {R2}, NOW, only_copy_seq=101) == 0


# --- Starting -------------------------------------------------------------------------------------


def readiness_of(peers: Peers) -> Readiness:
    return Readiness(
        peers,
        database=DatabaseIdentity(UID),
        is_proven=False,
        has_effects=True,
        make_uid=lambda: UID,
    )


def test_a_recovering_region_does_not_wait_for_a_peer_that_is_removed() -> None:
    peers = peers_of(R1, R2, R3)
    readiness = readiness_of(peers)
    readiness.note_answer(R2, Answer(3, {R1: 3, R2: 7}))
    readiness.note_answer(R3, Answer(5, {R1: 5, R3: 9}))
    assert not readiness.has_recovered({R1: 3, R2: 7})
    follow(readiness, peers.change(NOW, these(R2), leaving=[R3]))
    assert readiness.has_recovered({R1: 3, R2: 7})
    peers = peers_of(R1, R2, R3)
    readiness = readiness_of(peers)
    readiness.note_answer(R2, Answer(0))
    assert readiness.is_asking
    follow(readiness, peers.change(NOW, these(R2)))
    assert readiness.has_recovered({})


def test_a_recovering_region_asks_a_joining_peer_too() -> None:
    """It may have joined so far that it has an effect that this region lost."""
    peers = peers_of(R1, R2)
    readiness = readiness_of(peers)
    readiness.note_answer(R2, Answer(3, {R1: 3}))
    follow(readiness, peers.change(NOW, these(R2, joining=(R3,))))
    assert "waits for region 3" in (readiness.obstacle({R1: 3}) or "")
    readiness.note_answer(R3, Answer(4, {R1: 4}))
    assert not readiness.has_recovered({R1: 3})
    assert readiness.has_recovered({R1: 4})


def test_a_region_that_runs_takes_writes_when_a_peer_is_added() -> None:
    driven = Driven()
    change(driven, these(R2, R3, R4))
    assert driven.region.opening.obstacle is None
    driven.ask("XADD", "s", "*", "f", "v")
    assert driven.ask("XLEN", "s") == 1


def test_a_region_that_starts_does_not_wait_for_a_removed_or_a_joining_peer() -> None:
    peers = peers_of(R1, R2, R3, joining=(R4,))
    one = CatchingUp(
        peers,
        Applied({R1: 1}),
        nothing_held(),
        Deadlines(),
        now=Millis(0),
        holding=HeldLinks(),
        answer_ms_max=2_000,
        stall_ms_max=10_000,
    )
    one.note_answer(R2, 7, {R1: 1})
    one.note_answer(R3, 7, {R3: 8})
    assert one.missing == 8
    follow(one, peers.change(Millis(1), these(R2, joining=(R4,))))
    assert one.missing == 0
    one.look(Millis(1))
    assert one.is_level


def test_a_region_that_recovers_goes_on_once_it_waits_only_for_a_removed_peer() -> None:
    driven = Driven(make_region(folder=FolderState(database=DatabaseIdentity(UID))))
    opening = driven.region.opening
    opening.note_cut_off(R3, "it has cut them")
    opening.note_answer(R2, Answer(0))
    opening.look()
    assert "waits for region 3" in (opening.obstacle or "")
    change(driven, these(R2))
    assert driven.last.folder is not None
    assert opening.readiness.cut_off == ""


# --- Links ----------------------------------------------------------------------------------------


def test_routes_follow_the_peers() -> None:
    peers = peers_of(R1, R2, R3)
    routes = Routes(peers, nothing_held(), Tick(), now=Millis(0), relay_after_ms=100)
    for peer in (R2, R3):
        routes.note(peer, is_up=True, paused=False, now=Millis(0))
    follow(routes, peers.change(Millis(1_000), these(R2, R3, joining=(R4,))))
    assert routes.wanted(R2, Millis(1_100)) == {R2}
    assert routes.wanted(R2, Millis(1_101)) == {R2, R4}
    routes.note(R4, is_up=True, paused=False, now=Millis(1_101))
    follow(routes, peers.change(Millis(2_000), these(R2, R4), leaving=[R3]))
    assert routes.wanted(R2, Millis(2_000)) == {R2, R3}, "it may have the last of its effects"
    assert routes.wanted(R4, Millis(2_000)) == {R3, R4}
    assert routes.ask(R2, [R3], Millis(2_000))
    follow(routes, peers.change(Millis(3_000), these(R2, R4)))
    assert routes.wanted(R2, Millis(3_000)) == {R2}


def actions(driven: Driven, pull: Pull) -> list[PullAction]:
    """The actions of a link until it sleeps or ends."""
    done: list[PullAction] = []
    while not done or not isinstance(done[-1], Sleep | Over):
        done.append(pull.next(driven.now, 0.0))
    return done


def test_links_with_a_peer_that_is_added_begin_by_themselves() -> None:
    driven = Driven(make_region(peers=(3,)))
    opening = Open(R2, "crdb", 7, frozenset({R1}), {}, STANDING, membership=said_of(1, 3))
    refused = driven.region.links.accept(opening, 0.0)
    assert isinstance(refused, Refusal)
    assert refused.kind is RefusalKind.UNKNOWN
    change(driven, these(R2, R3))
    assert list(driven.region.links.pulls) == [R2, R3]
    connect, send, _ = actions(driven, driven.region.links.pulls[R2])
    assert connect == Connect()
    assert isinstance(send, Send)
    assert isinstance(driven.region.links.accept(opening, 0.0), Serve)


def test_links_with_a_peer_that_is_removed_end_at_once() -> None:
    driven = Driven()
    links = driven.region.links
    pull = links.pulls[R3]
    actions(driven, pull)
    serve = links.accept(Open(R3, "crdb", 7, frozenset({R1}), {}, STANDING, membership=SAID), 0.0)
    assert isinstance(serve, Serve)
    change(driven, these(R2))
    assert {pull, serve} <= set(driven.last.links), "their loops are woken"
    assert actions(driven, pull) == [HangUp(), Over()]
    assert serve.next(driven.now, 0.0) == End()
    assert links.pulls.keys() == links.serve_stats.keys() == {R2}
    assert links.heard == []
    # What their loops still say is passed over.
    pull.lost(Failed("gone"), driven.now)
    links.hang_up(serve)
    assert actions(driven, pull) == [Over()]


def test_unapplied_batches_relayed_for_a_removed_peer_are_dropped() -> None:
    driven = Driven(make_region(limits=RegionLimits(inbox_wait_ms_max=100)))
    driven.clock += 101
    pull = driven.region.links.pulls[R2]
    actions(driven, pull)
    assert pull.origins == {R2, R3}
    pull.receive(Welcome(R2, 7, {}, STANDING, own_n=0, membership=SAID), driven.now, 0.0)
    second = batches(2, region=R3)[1]
    pull.receive(Received([second]), driven.now, 0.0)
    driven.region.apply_arrivals(driven.now)
    assert len(pull.inbox) == 1
    change(driven, these(R2), leaving=(R3,))
    assert len(pull.inbox) == 0
    assert actions(driven, pull)[:2] == [HangUp(), Connect()]
    assert pull.origins == {R2, R3}


def test_the_link_to_a_peer_that_moves_begins_again_at_the_new_address() -> None:
    driven = Driven()
    pull = driven.region.links.pulls[R2]
    actions(driven, pull)
    stats = pull.stats
    change(driven, these(R3) | {R2: Peer("elsewhere")})
    assert pull in driven.last.links
    hang_up, connect, send, _ = actions(driven, pull)
    assert (hang_up, connect) == (HangUp(), Connect())
    assert isinstance(send, Send)
    assert driven.region.links.pulls[R2] is pull
    assert (pull.address, pull.stats) == ("elsewhere", stats)


def test_the_link_to_a_peer_that_moves_does_not_wait_for_the_pause_to_end() -> None:
    driven = Driven()
    pull = driven.region.links.pulls[R2]
    actions(driven, pull)
    pull.lost(Failed("connection refused"), driven.now)
    assert actions(driven, pull)[0] == HangUp()
    change(driven, these(R3) | {R2: Peer("elsewhere")})
    assert actions(driven, pull)[0] == Connect()


def test_a_paused_link_stays_paused_when_its_peer_moves() -> None:
    driven = Driven()
    pull = driven.region.links.pulls[R2]
    actions(driven, pull)
    pull.pause(driven.now)
    actions(driven, pull)
    change(driven, these(R3) | {R2: Peer("elsewhere")})
    assert pull.link.state is LinkState.PAUSED
    assert actions(driven, pull) == [Sleep(None)]


def test_effects_of_a_removed_peer_are_held_no_longer() -> None:
    driven = Driven()
    runs = driven.region.opening.peer_runs
    runs.note_start(R3, 7, recovering=True)
    change(driven, these(R2), leaving=(R3,))
    assert not runs.is_held(R3)


def test_a_state_that_was_copied_before_is_of_no_use_if_it_has_more_of_a_removed_peer() -> None:
    driven = Driven()
    bootstrap = driven.region.bootstrap
    change(driven, these(R2))
    assert bootstrap.lost_by(Merged(bytes(16), R2, {R3: 1}), None) == R3
    assert bootstrap.lost_by(Merged(bytes(16), R2, {R2: 1}), None) is None


def test_one_peer_of_several_may_have_what_was_sent_to_another() -> None:
    """Its link does not end for what it had from a peer that was removed since."""
    driven = Driven(make_region(peers=(2,)))
    driven.ask("XADD", "s", "*", "f", "v")
    links = driven.region.links
    change(driven, these(R2, R3))
    sent = links.accept(
        Open(R3, "crdb", 7, frozenset({R1}), {R1: 1}, STANDING, membership=said_of(1, 2)), 0.0
    )
    assert isinstance(sent, Serve)
    change(driven, these(R2))
    claims = links._own.claims
    assert claims.check_ack(R2, {R1: 1}, sent_n=0)


def test_publications_go_to_the_peers_there_are() -> None:
    driven = Driven(make_region(peers=()))
    change(driven, these(R2))
    assert driven.ask("PUBLISH", "news", "hello") == 0
    assert driven.region.links.serve_stats[R2].publications_lost == 1
    change(driven, {})
    assert driven.ask("PUBLISH", "news", "hello") == 0


def test_a_region_with_a_joining_peer_is_not_alone() -> None:
    driven = Driven(make_region(peers=()))
    assert is_alone(driven)
    change(driven, these(joining=(R2,)))
    assert not is_alone(driven)
    change(driven, {})
    assert is_alone(driven)
