"""Actions of a pulling link: their order and conditions, without any IO."""

from dataclasses import replace

import pytest

from crdtstream.core.effects import ChangeMembers, EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Incarnations, encode_incarnations
from crdtstream.core.member_changes import Removal
from crdtstream.core.membership.encoding import Kept, Said, encode_said
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.replica import Replica
from crdtstream.core.uid import NO_UID, DatabaseUid
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.acks import (
    ACK_BYTES_MAX,
    ACK_SECONDS_AWAITED,
    ACK_SECONDS_MIN,
    NEXT_MS_MAX,
)
from crdtstream.region.links.link import Failed, LinkState, Refused
from crdtstream.region.links.messages import (
    PROTOCOL_VERSION,
    Open,
    Progress,
    Received,
    Standing,
    Welcome,
)
from crdtstream.region.links.pull import (
    WATCH_SECONDS,
    Connect,
    HangUp,
    Pull,
    PullAction,
    Send,
    Sleep,
)
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from tests.harness.driven import PROVEN, SAID, UID, Driven, make_region, said_of
from tests.membership.world import founded, instance, moved, removal

R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))
NOW = Millis(1000)
STANDING = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
LIMITS = RegionLimits(
    heartbeat_interval_ms=250,
    link_silence_ms_max=3_000,
    backoff_ms_min=100,
    backoff_ms_max=1_000,
    inbox_batches_max=2,
    inbox_wait_ms_max=500,
)


def batches(count: int, *, region: RegionId = R2) -> list[tuple[EffectBatch, bytes]]:
    """The first batches of a region, one XADD each."""
    replica = Replica(region)
    database, session = Database(replica), Session(1)
    for index in range(count):
        database.call(session, Millis(5 + index), [b"XADD", b"s", b"*", b"f", b"v"])
        replica.seal(Millis(5 + index))
    encoded = [record.batch for record in replica.take_records(Millis(100))]
    return [(decode_batch(data), data) for data in encoded if data is not None]


class Puller:
    """Region 1's link to region 2, whose loop is this test."""

    def __init__(self, folder: FolderState | None = None) -> None:
        self.driven = Driven(make_region(limits=LIMITS, folder=folder))
        self.pull: Pull = self.driven.region.links.pulls[R2]
        self.at = 0.0
        self.said = SAID

    def next(self) -> PullAction:
        return self.pull.next(self.driven.now, self.at)

    def drain(self) -> list[PullAction]:
        """Everything that it does before it sleeps."""
        actions: list[PullAction] = []
        while not isinstance(action := self.next(), Sleep):
            actions.append(action)
        return actions

    def welcome(self, **vv: int) -> None:
        self.receive(Welcome(R2, 7, counts(vv), STANDING, own_n=0, membership=self.said))

    def heartbeat(self, **vv: int) -> None:
        self.receive(Progress(counts(vv), self.driven.now, STANDING))

    def receive(self, message: Welcome | Progress | Received) -> None:
        self.pull.receive(message, self.driven.now, self.at)

    # Methods, as the type checker takes a property for what it was found to be.

    def state(self) -> LinkState:
        return self.pull.link.state

    def may_read(self) -> bool:
        return self.pull.may_read

    def live(self) -> None:
        """Up, and caught up."""
        self.drain()
        self.welcome()
        self.heartbeat()
        assert self.state() is LinkState.LIVE

    def apply(self) -> None:
        self.driven.region.apply_arrivals(self.driven.now)
        self.driven.end_tick()

    def acks(self) -> list[Progress]:
        return [
            action.message
            for action in self.drain()
            if isinstance(action, Send) and isinstance(action.message, Progress)
        ]


def counts(named: dict[str, int]) -> dict[RegionId, int]:
    return {RegionId(int(name.removeprefix("r"))): n for name, n in named.items()}


def test_a_call_begins_with_open() -> None:
    puller = Puller()
    connect, send = puller.drain()
    assert connect == Connect()
    assert isinstance(send, Send)
    incarnations = encode_incarnations(Incarnations())
    expected = Open(
        R1, "crdb", 1, frozenset({R2}), {}, STANDING, incarnations=incarnations, membership=SAID
    )
    assert send.message == expected
    assert puller.pull.link.state is LinkState.CONNECTING


def test_welcomed_it_catches_up_and_with_the_heartbeat_it_is_live() -> None:
    puller = Puller()
    puller.drain()
    puller.welcome(r2=2)
    assert puller.state() is LinkState.CATCHING_UP
    puller.heartbeat(r2=2)
    assert puller.state() is LinkState.CATCHING_UP
    puller.receive(Received(batches(2)))
    puller.apply()
    puller.heartbeat(r2=2)
    assert puller.state() is LinkState.LIVE


def test_a_failed_call_is_tried_again_after_a_pause_that_doubles() -> None:
    puller = Puller()
    pauses = []
    for _ in range(6):
        puller.drain()
        puller.pull.lost(Failed("no way"), NOW)
        assert puller.next() == HangUp()
        sleep = puller.next()
        assert isinstance(sleep, Sleep)
        assert sleep.until is not None
        pauses.append(round(sleep.until - puller.at, 3))
        puller.at = sleep.until
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_refusal_waits_the_longest_pause() -> None:
    puller = Puller()
    puller.drain()
    puller.pull.lost(Refused("another database"), NOW)
    assert puller.next() == HangUp()
    assert puller.next() == Sleep(1.0)
    assert puller.pull.link.error == "another database"


def test_a_node_that_is_refused_as_a_duplicate_issues_nothing() -> None:
    puller = Puller()
    puller.drain()
    puller.pull.lost(Refused("another node is linked as region 1", is_duplicate=True), NOW)
    assert "another node" in str(puller.driven.region.refuses_writes)
    puller.at = 1.0
    puller.drain()
    puller.at = 2.0
    puller.drain()
    puller.welcome()
    assert puller.driven.region.refuses_writes is None


def tried(puller: Puller) -> str:
    """The address of the next attempt, which fails."""
    puller.at += 10.0
    puller.drain()
    address = puller.pull.address
    puller.pull.lost(Failed("refused"), NOW)
    puller.drain()
    return address


def test_the_former_address_goes_on_until_the_new_one_answers() -> None:
    puller = Puller()
    former = puller.pull.address
    puller.live()
    puller.pull.move("wrong:1", NOW)
    assert [tried(puller) for _ in range(4)] == ["wrong:1", former, "wrong:1", former]

    # A second correction: the wrong one never answered, so it is not tried again.
    puller.pull.move("right:1", NOW)
    assert [tried(puller) for _ in range(3)] == ["right:1", former, "right:1"]
    assert tried(puller) == former
    puller.at += 10.0
    puller.drain()
    puller.welcome()
    assert puller.pull.address == "right:1"
    puller.pull.lost(Failed("gone"), NOW)
    puller.drain()
    assert [tried(puller) for _ in range(2)] == ["right:1", "right:1"]


def test_a_link_up_at_the_former_address_stays_and_ends_at_the_new_one() -> None:
    puller = Puller()
    former = puller.pull.address
    puller.live()
    puller.pull.move("new:1", NOW)
    assert tried(puller) == "new:1"
    puller.at += 10.0
    puller.live()
    assert puller.pull.address == former
    puller.pull.lost(Failed("it stopped"), NOW)
    puller.drain()
    assert tried(puller) == "new:1"


def test_a_refusal_at_one_address_is_followed_by_the_other() -> None:
    puller = Puller()
    former = puller.pull.address
    puller.live()
    puller.pull.move("other-database:1", NOW)
    puller.drain()
    puller.pull.lost(Refused("another database"), NOW)
    puller.drain()
    assert tried(puller) == former


def test_each_address_is_logged_once_for_one_reason() -> None:
    puller = Puller()
    puller.live()
    puller.pull.move("wrong:1", NOW)
    puller.driven.end_tick()
    for _ in range(6):
        tried(puller)
    notices = [one for one in puller.driven.end_tick().notices if one.level == "warning"]
    assert len(notices) == 2


def test_after_a_restart_the_file_s_address_goes_on_if_a_changed_one_does_not_answer() -> None:
    members = apply(founded(2), moved(2, "wrong"))
    folder = replace(PROVEN, membership=Kept(instance(1), members=members))
    driven = Driven(make_region(1, (2,), folder=folder))
    configured = make_region(1, (2,)).peers.addresses[R2]
    assert driven.region.peers.addresses[R2] == "wrong:7000"
    assert driven.region.peers.formers[R2] == configured


@pytest.mark.parametrize(("after_s", "is_up"), [(2.9, True), (3.1, False)])
def test_a_silent_peer_is_given_up(after_s: float, is_up: bool) -> None:
    puller = Puller()
    puller.live()
    puller.at = after_s
    puller.drain()
    assert puller.pull.link.is_up is is_up


def test_it_acknowledges_soon_after_something_is_durable_and_now_and_then() -> None:
    puller = Puller()
    puller.live()
    puller.acks()
    puller.at = 0.1
    first, second = batches(2)
    puller.receive(Received([first]))
    puller.apply()
    assert puller.acks() == [], "nothing is durable yet"
    puller.driven.commit()
    (ack,) = puller.acks()
    assert (ack.durable_vv, ack.taken_bytes) == ({R2: 1}, len(first[1]))
    puller.receive(Received([second]))
    puller.apply()
    puller.driven.commit()
    assert puller.acks() == [], "they are gathered"
    puller.at += ACK_SECONDS_MIN.value
    (ack,) = puller.acks()
    assert ack.durable_vv == {R2: 2}
    sleep = puller.next()
    assert sleep == Sleep(puller.at + WATCH_SECONDS.value)
    puller.at += 0.25
    assert len(puller.acks()) == 1


@pytest.mark.parametrize(("awaited", "count"), [(True, 3), (False, 0)])
def test_acks_are_gathered_where_nobody_waits_for_them(awaited: bool, count: int) -> None:
    puller = Puller()
    puller.live()
    puller.acks()
    puller.receive(replace(Progress({}, puller.driven.now, STANDING), acks_awaited=awaited))
    acks = []
    for batch in batches(3):
        puller.at += ACK_SECONDS_AWAITED.value
        puller.receive(Received([batch]))
        puller.apply()
        puller.driven.commit()
        acks += puller.acks()
    assert len(acks) == count


def test_an_ack_waits_for_nothing_once_the_window_has_come_far() -> None:
    puller = Puller()
    puller.live()
    puller.acks()
    (smallest,) = batches(1)
    taken_bytes = 0
    for batch, encoded in batches(ACK_BYTES_MAX.value // len(smallest[1]) + 1):
        assert puller.acks() == []
        puller.receive(Received([(batch, encoded)]))
        puller.apply()
        taken_bytes += len(encoded)
        if taken_bytes >= ACK_BYTES_MAX.value:
            break
    (ack,) = puller.acks()
    assert ack.taken_bytes == taken_bytes >= ACK_BYTES_MAX.value


def test_it_reads_nothing_more_while_nothing_is_applied() -> None:
    puller = Puller()
    puller.live()
    region = puller.driven.region
    region.memory.holds_links = True
    puller.receive(Received(batches(1)))
    assert not puller.may_read(), "the inbox takes memory too"
    puller.apply()
    assert not puller.may_read()
    region.memory.holds_links = False
    puller.apply()
    assert puller.may_read()
    assert region.replica.vv[R2] == 1


def test_a_full_inbox_stops_the_reading_and_moves_no_window() -> None:
    puller = Puller()
    puller.live()
    first, second, third = batches(3)
    puller.receive(Received([second, third]))
    assert not puller.may_read()
    puller.at = 10.0
    puller.drain()
    assert puller.pull.link.is_up, "a peer that is not read is not silent"
    acks = puller.acks()
    assert len(acks) <= 1
    assert all(ack.taken_bytes == 0 for ack in acks)
    puller.pull.inbox.offer(*first)
    puller.apply()
    assert puller.may_read()
    puller.at = 11.0
    assert puller.acks()[-1].taken_bytes == len(second[1]) + len(third[1])


def test_a_batch_of_an_origin_that_was_not_asked_for_ends_the_link() -> None:
    puller = Puller()
    puller.live()
    puller.receive(Received(batches(1, region=R3)))
    assert puller.next() == HangUp()
    assert "batch 3:1: origin: not asked for" in puller.pull.link.error
    assert puller.driven.region.links.waiting == (0, 0)


def test_a_paused_link_does_nothing_until_it_is_resumed() -> None:
    puller = Puller()
    puller.live()
    puller.receive(Received(batches(2)[1:]))
    puller.pull.pause(NOW)
    assert puller.next() == HangUp()
    assert puller.next() == Sleep(None)
    assert len(puller.pull.inbox) == 0
    puller.pull.lost(Failed("the call that was hung up"), NOW)
    assert puller.pull.link.state is LinkState.PAUSED
    puller.receive(Received(batches(1)))
    assert len(puller.pull.inbox) == 0
    puller.pull.resume(NOW)
    assert puller.next() == Connect()


def test_batches_that_wait_for_another_origin_make_the_link_ask_for_it() -> None:
    """Rule 2."""
    driven_other = Driven(make_region(2, (1, 3)))
    third = batches(1, region=R3)
    driven_other.region.replica.receive(*third[0], driven_other.now)
    driven_other.ask("XADD", "s", "*", "f", "v")
    encoded = next(one.batch for one in driven_other.log if one.origin == R2)
    assert encoded is not None

    puller = Puller()
    puller.live()
    driven = puller.driven
    # The direct link to region 3 is up, and brings nothing.
    driven.region.links.pulls[R3]._own.routes.note(R3, is_up=True, paused=False, now=NOW)
    puller.receive(Received([(decode_batch(encoded), encoded)]))
    puller.apply()
    assert puller.pull.waits_since == NOW
    driven.clock += LIMITS.inbox_wait_ms_max + 1
    assert [type(action) for action in puller.drain()] == [HangUp, Connect, Send]
    assert puller.pull.origins == {R2, R3}
    assert len(puller.pull.inbox) == 0


def test_a_batch_that_cannot_be_applied_ends_the_link() -> None:
    puller = Puller()
    puller.live()
    puller.pull.reject("batch 2:1: IDs do not ascend")
    assert puller.next() == HangUp()
    assert "IDs do not ascend" in puller.pull.link.error


def test_a_link_that_was_open_brings_no_other_history_than_the_one_that_is_known() -> None:
    """M3: the peer went on without a majority, and so did others, whose members are known here;
    their effects have not come yet."""
    known = apply(founded(3), removal(3, 1, Removal.WITHOUT_MAJORITY))
    puller = Puller(folder_with(known, is_proven=True))
    puller.live()
    other = Replica(R2)
    other.begin(founded(3))
    change = removal(3, 2, Removal.WITHOUT_MAJORITY)
    other.issue(ChangeMembers(2, other.members.hash, change))
    other.seal(NOW)
    sent = [record.batch for record in other.take_records(NOW) if record.batch is not None]
    puller.receive(Received([(decode_batch(data), data) for data in sent]))
    puller.apply()
    assert puller.driven.region.replica.members.hash == founded(3).hash
    puller.drain()
    assert "epoch 2 was decided twice" in puller.pull.link.error


def test_a_region_that_recovers_asks_and_the_welcome_is_the_answer() -> None:
    puller = Puller(FolderState(is_proven=False, database=DatabaseIdentity(UID)))
    _, send = puller.drain()
    assert isinstance(send, Send)
    assert isinstance(send.message, Open)
    assert send.message.standing.recovering
    puller.receive(Welcome(R2, 7, {R1: 2}, STANDING, own_n=2, membership=SAID))
    assert "waits for region 3" in str(puller.driven.region.refuses_writes)


def test_a_peer_of_another_database_is_refused() -> None:
    puller = Puller()
    puller.drain()
    other = Standing(DatabaseIdentity(DatabaseUid(b"\xff" * 16)), recovering=False, regains=False)
    puller.receive(Welcome(R2, 7, {}, other, own_n=0, membership=SAID))
    assert puller.next() == HangUp()
    assert puller.pull.link.state is LinkState.REFUSED


def test_a_link_that_begins_again_tells_of_what_its_peer_lost() -> None:
    """Effects that a peer lost with its disk are in no other region any more."""
    puller = Puller()
    driven = puller.driven
    driven.write("a")
    driven.write("b")
    driven.end_tick()
    driven.commit()
    puller.drain()
    # It has them from this region: nobody has what was never sent.
    driven.region.links.accept(
        Open(R2, "crdb", 7, frozenset({R1}), {R1: 2}, STANDING, membership=SAID), 0.0
    )
    puller.receive(Welcome(R2, 7, {RegionId(1): 2}, STANDING, own_n=2, membership=SAID))
    puller.heartbeat(r1=2)
    assert driven.region.staleness.lag.known_n == 2
    puller.pull.lost(Failed("reset"), driven.now)
    puller.drain()
    puller.at += 60
    puller.drain()
    puller.receive(Welcome(R2, 8, {RegionId(1): 1}, STANDING, own_n=1, membership=SAID))
    assert driven.region.staleness.lag.known_n == 1


def test_a_peer_of_another_number_is_refused() -> None:
    puller = Puller()
    puller.drain()
    puller.receive(Welcome(R3, 7, {}, STANDING, own_n=0, membership=SAID))
    assert puller.pull.link.state is LinkState.REFUSED
    assert "is region 3, not region 2" in puller.pull.link.error


def test_effects_of_a_peer_that_recovers_are_not_asked_for() -> None:
    puller = Puller()
    puller.drain()
    recovering = Standing(DatabaseIdentity(NO_UID), recovering=True, regains=True)
    puller.receive(Welcome(R2, 7, {}, recovering, own_n=0, membership=SAID))
    assert [type(action) for action in puller.drain()] == [HangUp, Connect, Send]
    assert puller.pull.origins == frozenset()
    puller.receive(Welcome(R2, 7, {}, recovering, own_n=0, membership=SAID))
    puller.heartbeat()
    assert [type(action) for action in puller.drain()] == [HangUp, Connect, Send]
    assert puller.pull.origins == {R2}


def test_clocks_that_differ_much_are_told_once() -> None:
    puller = Puller()
    puller.live()
    told = []
    for skew in (0, 5_000, 5_100, 0, -5_000):
        puller.receive(Progress({}, Millis(NOW + skew), STANDING))
        told.append([n.text for n in puller.driven.end_tick().notices].count("clocks differ"))
    assert told == [0, 1, 0, 0, 1]


def test_a_message_that_comes_late_is_no_sign_of_a_clock_that_differs() -> None:
    """Two seconds pass between the stamp that the peer returns and its answer."""
    puller = Puller()
    puller.live()
    told = []
    puller.at = 10.0
    for skew, skew_found in ((-2_000, 0), (-1_500, 0), (2_000, 2_000), (-5_000, -3_000)):
        puller.receive(Progress({}, Millis(NOW + skew), STANDING, echo_ms=8_000))
        told.append([n.text for n in puller.driven.end_tick().notices].count("clocks differ"))
        assert puller.pull.stats.clock_skew_ms == skew_found
    assert told == [0, 0, 1, 0]


def test_a_peer_may_be_silent_for_as_long_as_it_said() -> None:
    """Its operator may have it speak less often than this region's would have it."""
    puller = Puller()
    puller.live()
    puller.receive(Progress({}, puller.driven.now, STANDING, next_ms=5_000))
    puller.at = 5.99
    puller.acks()
    assert puller.state() is LinkState.LIVE
    puller.at = 6.01
    puller.drain()
    assert puller.pull.link.error == "region 2: silent for 6 s"


@pytest.mark.parametrize("protocol", [1, PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1])
def test_a_peer_that_answers_in_another_protocol_is_refused(protocol: int) -> None:
    puller = Puller()
    puller.drain()
    puller.receive(Welcome(R2, 7, {}, STANDING, own_n=0, protocol=protocol, membership=SAID))
    assert puller.pull.link.error.endswith(
        f"region 2 speaks link protocol {protocol}, not 3; run the same version everywhere"
    )
    assert puller.state() is LinkState.REFUSED


def test_a_puller_never_speaks_later_than_it_announced() -> None:
    """An Open announces nothing, so the first ack comes a heartbeat's interval after it."""
    puller = Puller()
    puller.live()
    puller.pull.peer_pulls = True
    puller.at = 0.25
    (first,) = puller.acks()
    assert first.next_ms == 1_500
    puller.receive(Progress({}, puller.driven.now, STANDING, next_ms=1_000))
    puller.at = 0.25 + 1.5
    (second,) = puller.acks()
    assert second.next_ms == 1_500
    puller.pull.peer_pulls = False
    puller.at += 0.25
    (third,) = puller.acks()
    puller.pull.peer_pulls = True
    assert third.next_ms == 250
    puller.at += 0.25
    assert puller.acks()


def test_no_peer_is_waited_for_without_end() -> None:
    puller = Puller()
    puller.live()
    puller.receive(Progress({}, puller.driven.now, STANDING, next_ms=(1 << 32) - 1))
    puller.at = NEXT_MS_MAX / 1000 + 1.01
    puller.drain()
    assert puller.state() is LinkState.WAITING


def test_a_link_looks_at_its_routes_only_while_time_can_change_them() -> None:
    puller = Puller()
    puller.live()
    puller.pull.peer_pulls = True
    now, other = puller.driven.now, puller.driven.region.links.pulls[R3]
    while not isinstance(other.next(now, puller.at), Sleep):
        pass
    other.receive(Welcome(R3, 7, {}, STANDING, own_n=0, membership=SAID), now, puller.at)
    puller.driven.end_tick()
    puller.at = 0.25
    assert puller.acks(), "from here on it has said when it speaks"
    sleep = puller.next()
    assert isinstance(sleep, Sleep)
    assert sleep.until is not None
    assert sleep.until > puller.at + WATCH_SECONDS.value, "until it acknowledges"
    other.lost(Failed("broken"), now)
    assert puller.pull in puller.driven.end_tick().links
    assert puller.next() == Sleep(puller.at + WATCH_SECONDS.value)


def test_a_heartbeat_of_what_was_never_sent_ends_the_call_and_teaches_nothing() -> None:
    puller = Puller()
    driven = puller.driven
    puller.live()
    driven.write("a")
    driven.end_tick()
    driven.commit()
    puller.heartbeat(r1=1, r2=3)
    assert puller.state() is LinkState.WAITING
    assert "region 2: durable_vv: it says to have 1 effects of region 1" in puller.pull.link.error
    assert driven.region.knowledge.vvs.get(R2, {}) == {}
    assert driven.region.staleness.lag.known_n == 0
    assert not driven.region.opening.is_recovering


def test_a_heartbeat_of_more_than_was_issued_makes_the_region_recover_and_teaches_no_more() -> None:
    """Rule 18: it may have lost the end of its log."""
    puller = Puller()
    driven = puller.driven
    puller.live()
    puller.heartbeat(r1=7)
    assert driven.region.opening.is_recovering
    assert driven.region.knowledge.vvs.get(R2, {}) == {}
    assert driven.region.staleness.lag.known_n == 0


# --- Members --------------------------------------------------------------------------------------


def folder_with(members: Members, *, is_proven: bool) -> FolderState:
    kept = Kept(instance(1), members=members)
    return FolderState(is_proven=is_proven, database=DatabaseIdentity(UID), membership=kept)


def test_a_recovering_region_applies_nothing_before_all_members_have_answered() -> None:
    """One of those that it still knows may have been removed: its effects may not count."""
    puller = Puller(folder_with(founded(3), is_proven=False))
    puller.drain()
    puller.receive(Welcome(R2, 7, {R2: 2}, STANDING, own_n=0, membership=SAID))
    puller.receive(Received(batches(2)))
    puller.apply()
    assert dict(puller.driven.region.replica.vv) == {}
    other = puller.driven.region.links.pulls[R3]
    while not isinstance(other.next(puller.driven.now, 0.0), Sleep):
        pass
    other.receive(Welcome(R3, 8, {}, STANDING, own_n=0, membership=SAID), puller.driven.now, 0.0)
    puller.apply()
    assert dict(puller.driven.region.replica.vv) == {R2: 2}


@pytest.mark.parametrize("known", [Members(), founded(3)], ids=["disk lost", "restored"])
def test_a_recovering_region_applies_nothing_of_a_region_removed_meanwhile(known: Members) -> None:
    """V10: region 2 does not know it, and region 3 is the last one to answer.  What this region had
    of region 2 before it lost it has been counted."""
    puller = Puller(folder_with(known, is_proven=False))
    driven, region = puller.driven, puller.driven.region
    puller.drain()
    puller.receive(Welcome(R2, 7, {R2: 2}, STANDING, own_n=0, membership=SAID))
    puller.receive(Received(batches(2)))
    puller.apply()
    assert dict(region.replica.vv) == {}
    other = region.links.pulls[R3]
    while not isinstance(other.next(driven.now, 0.0), Sleep):
        pass
    said = encode_said(Said(instance(3), apply(founded(3), removal(2, 3))))
    other.receive(Welcome(R3, 8, {}, STANDING, own_n=0, membership=said), driven.now, 0.0)
    puller.apply()
    while (change := region.folder.next_change) is not None:
        region.folder.note_written(change, driven.now)
        driven.end_tick()
    puller.apply()
    assert region.membership.known.removed == (R2,)
    assert dict(region.replica.vv) == {}


def test_a_recovering_region_asks_for_effects_once_all_members_have_answered() -> None:
    """Before, it could apply none, and would drop them where its links begin again."""
    puller = Puller(folder_with(founded(3), is_proven=False))
    driven, region = puller.driven, puller.driven.region
    _, send = puller.drain()
    assert asked_origins(send) == frozenset()
    puller.welcome(r2=2)
    puller.heartbeat(r2=2)
    assert puller.pull.lag_effects == 2
    puller.at += WATCH_SECONDS.value
    assert HangUp() not in puller.drain()
    other = region.links.pulls[R3]
    while not isinstance(other.next(driven.now, puller.at), Sleep):
        pass
    other.receive(Welcome(R3, 8, {}, STANDING, own_n=0, membership=SAID), driven.now, puller.at)
    hang_up, _, send = puller.drain()
    assert hang_up == HangUp()
    assert asked_origins(send) == {R2}


def asked_origins(action: PullAction) -> frozenset[RegionId]:
    """The origins for which the first message of a call asks."""
    assert isinstance(action, Send)
    assert isinstance(action.message, Open)
    return action.message.origins


def test_a_recovering_region_takes_no_state_over_before_all_members_answered() -> None:
    """V10: nor that of a region that may have been removed."""
    puller = Puller(folder_with(founded(3), is_proven=False))
    driven, region = puller.driven, puller.driven.region
    puller.drain()
    puller.receive(Welcome(R2, 7, {R2: 9}, STANDING, own_n=0, begins={R2: 5}, membership=SAID))
    late = Millis(driven.now + 3_600_000)
    for now in (driven.now, late):
        assert region.bootstrap_wanted(now) is None
    other = region.links.pulls[R3]
    while not isinstance(other.next(driven.now, 0.0), Sleep):
        pass
    other.receive(Welcome(R3, 8, {}, STANDING, own_n=0, membership=SAID), driven.now, 0.0)
    for now in (driven.now, late):
        wanted = region.bootstrap_wanted(now)
    assert wanted == R2


def test_effects_of_a_removed_region_beyond_its_cut_are_refused() -> None:
    """No link may bring them: no other member has them, and none will."""
    removed = apply(founded(4), removal(4, 1)).with_cut(R4, 0)
    puller = Puller(folder_with(removed, is_proven=True))
    puller.said = said_of(1, 2, 3, 4)
    # Batches of others wait for it, so that this link asks for it as well.
    puller.pull._own.routes.ask(R2, {R4}, NOW)
    puller.live()
    assert R4 in puller.pull.origins
    puller.receive(Received(batches(1, region=R4)))
    puller.apply()
    assert dict(puller.driven.region.replica.vv) == {}
    told = [notice.text for notice in puller.driven.last.notices]
    assert "effects of a removed region that do not count are refused" in told
