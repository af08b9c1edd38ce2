"""The region as a value: what comes out of which tick, and when."""

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import Database
from crdtstream.database.session import Session, Talk
from crdtstream.region.limits import RegionLimits
from crdtstream.region.ready import Parcel
from tests.harness.driven import Driven, Told, make_region

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


def record_of_region_2() -> Record:
    """Region 2's first XADD."""
    other = Replica(R2)
    Database(other).call(Session(1), Millis(5), [b"XADD", b"s", b"*", b"f", b"v"])
    (record,) = other.take_records(Millis(5))
    return record


def arrive(driven: Driven, record: Record) -> None:
    """A record of another region came by the link to it."""
    assert record.batch is not None
    pull = driven.region.links.pulls[RegionId(record.origin)]
    pull.inbox.offer(decode_batch(record.batch), record.batch)
    driven.region.tick.may_apply = True
    driven.region.apply_arrivals(driven.now)


def is_congested(driven: Driven) -> bool:
    """Looked at anew: the type checker takes a property for what it was found to be."""
    return driven.region.log.is_congested


def test_a_write_is_told_of_after_its_commit() -> None:
    driven = Driven()
    driven.write("a")
    ready = driven.end_tick()
    assert len(ready.records) == 1
    assert ready.parcels == []
    assert driven.region.outstanding.logged_vv == driven.region.outstanding.durable_vv == {}
    driven.commit()
    assert driven.client.replies == [b"1000-1"]
    assert driven.region.outstanding.durable_vv == {R1: 1}


def test_a_tick_with_nothing_to_wait_for_is_told_of_at_its_end() -> None:
    driven = Driven()
    driven.call("XLEN", "other")
    assert driven.client.told == []
    ready = driven.end_tick()
    assert driven.client.told == [(b":0\r\n", True)]
    assert not ready.records


def test_replies_of_a_tick_wait_for_all_commits_they_could_have_seen() -> None:
    """Rule 19: a read sees what the tick before wrote, so it waits for that commit too."""
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.call("XLEN", "s")
    driven.end_tick()
    driven.write("b")
    driven.call("XLEN", "s")
    driven.end_tick()
    assert driven.client.told == []
    driven.commit()
    first, seen, second, both = driven.client.replies
    assert (seen, both) == (1, 2)
    assert first != second


def test_a_read_waits_for_the_write_queued_last_not_for_the_one_under_way() -> None:
    driven = Driven()
    driven.write("first")
    driven.end_tick()
    driven.write("second")
    driven.end_tick()
    driven.call("XLEN", "s")
    driven.end_tick()
    driven.commit(count=1)
    assert len(driven.client.replies) == 1
    driven.commit()
    assert len(driven.client.replies) == 2


def test_a_parcel_says_after_which_record_it_leaves() -> None:
    driven = Driven()
    driven.call("XLEN", "other")
    driven.end_tick()
    driven.write("a")
    driven.end_tick()
    driven.call("XLEN", "s")
    driven.end_tick()
    driven.commit()
    assert [parcel.after for parcel in driven.client.parcels] == [0, 1, 1]


def test_one_tick_of_many_clients_is_one_record() -> None:
    driven = Driven()
    clients = [Told(driven.region) for _ in range(100)]
    for client in clients:
        driven.call("XADD", "s", "*", "f", "v", client=client)
    ready = driven.end_tick()
    assert [record.last_n for record in ready.records] == [100]
    driven.commit()
    assert all(len(client.told) == 1 for client in clients)


def test_a_tick_that_is_opened_is_asked_for_once() -> None:
    driven = Driven()
    opened: list[None] = []
    driven.region.tick.on_open = lambda: opened.append(None)
    driven.write("a")
    driven.call("XLEN", "other")
    driven.region.pass_time(driven.now)
    assert len(opened) == 1
    driven.end_tick()
    driven.write("b")
    assert len(opened) == 2


# --- A disk that refuses --------------------------------------------------------------------------


def test_clients_that_wait_for_a_failed_commit_get_an_unknown_outcome() -> None:
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.write("b")
    driven.call("XLEN", "s")
    driven.end_tick()
    ready = driven.refuse("disk full")
    assert [certain for _, certain in driven.client.told] == [False] * 3
    assert driven.region.fault == driven.region.database.fault == "disk full"
    assert [notice.level for notice in ready.notices] == ["error"]

    # Reads go on, and what they see was told to be of unknown outcome.
    driven.client.told.clear()
    driven.call("XADD", "s", "*", "f", "v")
    driven.call("XLEN", "s")
    driven.end_tick()
    assert driven.client.told == [(b"-MISCONF disk full\r\n", True), (b":2\r\n", True)]

    driven.commit()
    assert driven.region.refuses_writes is None
    assert driven.region.outstanding.durable_vv == {R1: 2}
    assert len(driven.client.told) == 2, "the outcome was told already"
    driven.write("c")
    driven.end_tick()
    driven.commit()
    assert driven.client.told[-1][1]


def test_replies_keep_their_order_where_the_disk_refuses_between_them() -> None:
    """The read's tick is open when the commit of the write before it is refused."""
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.call("XLEN", "s")
    driven.refuse("disk full")
    assert [certain for _, certain in driven.client.told] == [False, True]
    assert driven.client.told[1][0] == b":1\r\n"


def test_a_write_in_the_tick_that_is_open_when_the_disk_refuses_is_uncertain_too() -> None:
    """Reads that follow are answered at once, and must not overtake its reply."""
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.write("b")
    driven.refuse("disk full")
    driven.call("XLEN", "s")
    driven.end_tick()
    assert [certain for _, certain in driven.client.told] == [False, False, True]


def test_too_much_for_the_disk_is_congestion_until_half_of_it_is_gone() -> None:
    driven = Driven(make_region(limits=RegionLimits(commit_queue_records_max=4)))
    for index in range(5):
        driven.write(str(index))
        driven.end_tick()
    assert is_congested(driven)
    driven.commit(count=2)
    assert is_congested(driven)
    resumed = driven.client.resumed
    driven.commit(count=1)
    assert not is_congested(driven)
    assert driven.client.resumed == resumed + 1


def test_while_the_disk_refuses_nothing_is_held_back_and_nothing_of_peers_is_applied() -> None:
    driven = Driven(make_region(limits=RegionLimits(commit_queue_records_max=1)))
    for index in range(3):
        driven.write(str(index))
        driven.end_tick()
    assert is_congested(driven)
    arrive(driven, record_of_region_2())
    assert R2 not in driven.region.replica.vv
    driven.refuse("disk full")
    assert not is_congested(driven)
    arrive(driven, record_of_region_2())
    assert R2 not in driven.region.replica.vv
    assert driven.commit().applies
    driven.region.apply_arrivals(driven.now)
    assert driven.region.replica.vv[R2] == 1


def test_a_write_that_goes_unanswered_is_logged_all_the_same() -> None:
    """CLIENT REPLY OFF: nothing is told, and the tick ends."""
    driven = Driven()
    driven.client.client.session.talk = Talk.OFF
    opened: list[None] = []
    driven.region.tick.on_open = lambda: opened.append(None)
    driven.write("a")
    assert opened
    assert len(driven.end_tick().records) == 1


def test_a_client_that_ends_in_the_middle_of_its_requests_runs_no_more() -> None:
    driven = Driven()
    client = driven.client.client
    driven.region.database.on_call = lambda _session, argv: (
        client.end() if argv[0] == b"XLEN" else None
    )
    requests = iter([[b"XLEN", b"s"], [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]])
    client.run(requests, driven.now, bytes_max=1 << 20)
    assert driven.region.database.waiting_count == 0
    assert len(list(requests)) == 1


# --- Logged and durable ---------------------------------------------------------------------------


def test_a_logged_and_unsynced_write_is_answered_and_not_durable() -> None:
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.commit(durable=False)
    assert len(driven.client.replies) == 1
    # Committed, so links may send it; but only a sync makes it proof against a power cut.
    outstanding = driven.region.outstanding
    assert (outstanding.logged_vv, outstanding.durable_vv) == ({R1: 1}, {})
    mark = outstanding.mark()
    driven.write("b")
    driven.end_tick()
    driven.commit(durable=False)
    driven.region.log.note_synced(mark, driven.now)
    assert (outstanding.logged_vv, outstanding.durable_vv) == ({R1: 2}, {R1: 1})


def test_the_log_cannot_be_ahead_of_its_region() -> None:
    driven = Driven()
    with pytest.raises(AssertionError, match="ahead"):
        driven.region.log.note_logged(1, driven.now, durable=True)


def test_waitaof_waits_for_the_sync() -> None:
    driven = Driven()
    driven.write("a")
    driven.end_tick()
    driven.commit(durable=False)
    assert len(driven.client.replies) == 1
    driven.call("WAITAOF", "1", "0", "0")
    driven.end_tick()
    assert driven.client.replies == []
    driven.region.log.note_synced(driven.region.outstanding.mark(), driven.now)
    driven.end_tick()
    assert driven.client.replies == [[1, 0]]


def test_wait_counts_the_regions_that_durably_have_it() -> None:
    driven = Driven()
    driven.write("a")
    driven.call("WAIT", "1", "0")
    driven.end_tick()
    driven.commit()
    assert len(driven.client.replies) == 1
    driven.region.stability.learn(R2, {R1: 1})
    driven.end_tick()
    assert driven.client.replies == [1]


# --- Clients that wait ----------------------------------------------------------------------------


def test_a_blocked_reader_is_served_by_a_remote_batch_after_its_commit() -> None:
    driven = Driven()
    driven.call("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    driven.end_tick()
    record = record_of_region_2()
    arrive(driven, record)
    ready = driven.end_tick()
    assert driven.client.told == []
    assert ready.woken == [driven.client]
    driven.commit()
    assert len(driven.client.replies) == 1
    # The very bytes that came are what is logged.
    assert driven.log[-1].batch == record.batch


def test_a_blocked_reader_whose_time_is_over_is_answered() -> None:
    driven = Driven()
    driven.call("XREAD", "BLOCK", "20", "STREAMS", "s", "$")
    assert driven.end_tick().deadline == 1020
    driven.clock += 20
    driven.region.pass_time(driven.now)
    assert driven.end_tick().deadline is None
    assert driven.client.replies == [None]


def test_a_client_that_waits_for_a_token_is_served_by_a_remote_batch() -> None:
    driven = Driven()
    driven.call("CRDT.WAITFOR", "2:1", "0")
    driven.end_tick()
    arrive(driven, record_of_region_2())
    driven.end_tick()
    driven.commit()
    assert driven.client.replies == [1]


def test_a_client_with_much_to_run_gives_others_their_turn() -> None:
    now = iter(range(0, 10**9, 4_000_000))
    driven = Driven(make_region(clock=now.__next__))
    client = Told(driven.region)
    requests = iter([[b"PING"]] * 10)
    assert client.client.run(requests, driven.now, bytes_max=1 << 20).name == "TURN"
    assert len(list(requests)) == 8
    driven.end_tick()
    assert len(client.replies) == 2


def test_a_program_gets_its_result_after_the_commit() -> None:
    driven = Driven()
    results: list[object] = []

    class Program:
        def receive(self, parcel: Parcel) -> None:
            results.append((parcel.chunks[0], parcel.certain))

        def resume(self) -> None:
            raise AssertionError

    def append(_replica: Replica, _now: Millis) -> str:
        raise AssertionError("writes are refused")

    driven.region.change(driven.now, lambda _replica, _now: "read", Program())
    driven.end_tick()
    assert results == [("read", True)]
    driven.refuse("disk full")
    with pytest.raises(CommandError, match="MISCONF disk full"):
        driven.region.change(driven.now, append, Program())
    driven.end_tick()
    assert len(results) == 1


# --- Peers ----------------------------------------------------------------------------------------


def test_known_version_vectors_of_peers_only_grow() -> None:
    region = Driven().region
    region.stability.learn(R2, {R1: 3})
    region.stability.learn(R2, {R1: 2})
    region.stability.learn(R1, {R1: 9})
    assert region.knowledge.vvs == {R2: {R1: 3}}


def test_older_news_of_a_peer_add_to_what_is_known_and_take_nothing_back() -> None:
    region = Driven().region
    region.stability.learn(R2, {R1: 3})
    region.stability.learn(R2, {R1: 2, R2: 5})
    assert region.knowledge.vvs == {R2: {R1: 3, R2: 5}}


def test_idempotency_records_go_when_every_region_has_them() -> None:
    """Also where nothing was deleted, so that there is nothing else to forget."""
    driven = Driven()
    replica = driven.region.replica
    driven.ask("XADD", "s", "IDMP", "producer", "1", "*", "f", "v")
    driven.region.stability.learn(R2, {R1: 1})
    assert (replica.idempotency_record_count, replica.tombstone_count) == (1, 0)
    driven.region.stability.learn(R3, {R1: 1})
    assert replica.idempotency_record_count == 0


def make_stale(driven: Driven) -> None:
    """A peer has an effect of this region that it lost."""
    driven.region.opening.readiness.note_known(R2, driven.region.replica.issued + 1)
    driven.region.opening.look()


def test_a_region_that_lost_effects_forgets_nothing_before_it_has_them_back() -> None:
    """They are concurrent to what all others have by now."""
    driven = Driven()
    driven.ask("XADD", "s", "IDMP", "producer", "1", "*", "f", "v")
    make_stale(driven)
    for peer in (R2, R3):
        driven.region.stability.learn(peer, {R1: 1})
    assert driven.region.replica.idempotency_record_count == 1


def test_a_region_that_lost_effects_refuses_writes() -> None:
    driven = Driven()
    make_stale(driven)
    assert driven.end_tick().folder is not None, "the folder proves nothing any more"
    driven.call("XADD", "s", "*", "f", "v")
    driven.end_tick()
    (refusal,) = driven.client.replies
    assert str(refusal).startswith("MISCONF the folder of region 1")


def test_a_key_whose_time_came_while_writes_were_refused_is_deleted_afterwards() -> None:
    driven = Driven()
    replica = driven.region.replica
    driven.ask("XADD", "s", "*", "f", "v")
    driven.ask("PEXPIRE", "s", "10")
    driven.refuse("disk full")
    driven.clock += 10
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert replica.keys.known() == [b"s"]
    driven.region.log.note_logged(len(driven.log), driven.now, durable=True)
    driven.end_tick()
    assert replica.keys.known() == []


# --- Replay ---------------------------------------------------------------------------------------


def test_a_region_replayed_from_its_log_is_the_same() -> None:
    driven = Driven()
    for index in range(3):
        driven.write(str(index))
        driven.end_tick()
    driven.call("XGROUP", "CREATE", "s", "g", "0")
    driven.call("XREADGROUP", "GROUP", "g", "alice", "COUNT", "2", "STREAMS", "s", ">")
    driven.end_tick()
    driven.commit()
    again = make_region(log=driven.log)
    assert again.replica.digest() == driven.region.replica.digest()
    assert again.outstanding.durable_vv == driven.region.outstanding.durable_vv == {R1: 4}
