"""The engine: ticks, group commits, and what may be told when."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, Region
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import WAITING, Database
from crdtstream.database.session import Session
from crdtstream.engine import SYNC_SECONDS, Engine
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, MemoryLog

R1, R2, R3 = Region(1), Region(2), Region(3)


class GatedLog(MemoryLog):
    """A log whose commits wait until they are let through, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: str | None = None
        self.commits: list[list[Record]] = []
        self.attempts: list[list[Record]] = []
        self.syncs = 0

    async def append(self, records: Sequence[Record]) -> None:
        self.attempts.append(list(records))
        await self.gate.wait()
        if self.failure is not None:
            raise StoreError(self.failure)
        await super().append(records)
        self.commits.append(list(records))

    async def sync(self) -> None:
        self.syncs += 1


class Region1:
    """Region 1's engine over a gated log, with a client."""

    def __init__(self, fsync: Fsync = Fsync.ALWAYS, now: int = 1000) -> None:
        self.log = GatedLog()
        self.clock = now
        replica = Replica(R1)
        database = Database(replica)
        self.engine = Engine(replica, database, self.log, fsync=fsync, peers=[R2, R3], now=self.now)
        self.client = database.open_session()
        self.told: list[tuple[str, bool]] = []

    def now(self) -> Millis:
        return Millis(self.clock)

    def call(self, *argv: str, session: Session | None = None) -> object:
        arguments = [argument.encode() for argument in argv]
        reply = self.engine.database.call(session or self.client, self.now(), arguments)
        self.engine.settle()
        return reply

    def tell(self, name: str) -> None:
        self.engine.defer(lambda ok: self.told.append((name, ok)))

    def write(self, name: str) -> None:
        """A client's XADD, whose reply is ``name``."""
        self.call("XADD", "s", "*", "field", name)
        self.tell(name)


@contextlib.asynccontextmanager
async def running(region: Region1) -> AsyncIterator[Region1]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(region.engine.run())
        yield region
        # Also where a test failed while it held the disk back.
        region.log.gate.set()
        region.log.failure = None
        region.engine.stop()


@pytest.fixture
async def region() -> AsyncIterator[Region1]:
    async with running(Region1()) as region:
        yield region


async def ticks(count: int = 5) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_write_is_told_of_after_its_commit(region: Region1) -> None:
    region.log.gate.clear()
    region.write("a")
    await ticks()
    assert region.told == []
    assert region.engine.logged_vv == region.engine.durable_vv == {}
    region.log.gate.set()
    await ticks()
    assert region.told == [("a", True)]
    assert region.engine.durable_vv == {R1: 1}


async def test_a_tick_with_nothing_to_wait_for_is_told_of_at_its_end(region: Region1) -> None:
    region.tell("read")
    assert region.told == []
    await asyncio.sleep(0)
    assert region.told == [("read", True)]
    assert region.log.attempts == []


async def test_replies_of_a_tick_wait_for_all_commits_they_could_have_seen(
    region: Region1,
) -> None:
    """Rule 19: a read sees what the tick before wrote, so it waits for that commit too."""
    region.log.gate.clear()
    region.write("a")
    await ticks()
    region.tell("read of a")
    await ticks()
    region.write("b")
    region.tell("read of b")
    await ticks()
    assert region.told == []

    region.log.gate.set()
    await ticks(10)
    assert region.told == [(name, True) for name in ("a", "read of a", "b", "read of b")]


async def test_a_read_waits_for_the_write_queued_last_not_for_the_one_under_way(
    region: Region1,
) -> None:
    region.log.gate.clear()
    region.write("first")
    await ticks()
    region.write("second")
    await ticks()
    region.tell("read of second")
    await ticks()
    assert len(region.log.attempts) == 1
    region.log.gate.set()
    await ticks(10)
    assert [name for name, _ in region.told] == ["first", "second", "read of second"]


async def test_ticks_during_a_commit_share_the_next_one(region: Region1) -> None:
    region.log.gate.clear()
    region.write("first")
    await ticks()
    for index in range(10):
        region.write(f"later {index}")
        await ticks(2)
    assert len(region.log.attempts) == 1
    region.log.gate.set()
    await ticks(10)
    assert [len(commit) for commit in region.log.commits] == [1, 10]
    assert len(region.told) == 11


async def test_one_tick_of_many_clients_is_one_record(region: Region1) -> None:
    for index in range(100):
        region.write(str(index))
    await ticks(10)
    assert [len(commit) for commit in region.log.commits] == [1]
    assert region.log.commits[0][0].last_n == 100


async def test_a_failed_commit_is_repeated_with_the_same_content(region: Region1) -> None:
    region.log.failure = "disk full"
    region.write("a")
    await ticks()
    assert region.told == [("a", False)]
    assert region.engine.fault == region.engine.database.fault == "disk full"
    assert str(region.call("XADD", "s", "*", "f", "v")).startswith("MISCONF disk full")

    # Reads go on, and what they see was told to be of unknown outcome.
    assert region.call("XLEN", "s") == 1
    region.tell("read")
    await ticks()
    assert region.told[-1] == ("read", True)

    region.log.failure = None
    while region.engine.fault is not None:
        await asyncio.sleep(0.01)
    assert len({tuple(map(repr, attempt)) for attempt in region.log.attempts}) == 1
    assert region.engine.database.fault is None
    assert region.engine.durable_vv == {R1: 1}
    region.write("b")
    await ticks(10)
    assert region.told[-1] == ("b", True)
    assert [record.first_n for commit in region.log.commits for record in commit] == [1, 2]


async def test_what_was_queued_behind_a_failed_commit_hears_of_it(region: Region1) -> None:
    region.log.gate.clear()
    region.log.failure = "no space"
    region.write("a")
    await ticks()
    region.write("b")
    region.tell("read")
    await ticks()
    region.log.gate.set()
    await ticks()
    assert region.told == [("a", False), ("b", False), ("read", False)]
    region.log.failure = None
    while region.engine.fault is not None:
        await asyncio.sleep(0.01)
    await ticks(10)
    assert region.engine.durable_vv == {R1: 2}
    assert len(region.told) == 3


@pytest.mark.parametrize("fsync", [Fsync.EVERYSEC, Fsync.NO])
async def test_without_fsync_replies_wait_for_the_log_but_not_for_the_disk(fsync: Fsync) -> None:
    async with running(Region1(fsync)) as region:
        region.log.gate.clear()
        region.write("a")
        await ticks()
        assert region.told == []
        assert region.engine.logged_vv == {}
        region.log.gate.set()
        await ticks()
        assert region.told == [("a", True)]
        # Committed, so links may send it; but only a sync makes it proof against a power cut.
        assert region.engine.logged_vv == {R1: 1}
        assert region.engine.durable_vv == {}


async def test_everysec_syncs_about_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYNC_SECONDS, Fsync.EVERYSEC, 0.01)
    async with running(Region1(Fsync.EVERYSEC)) as region:
        region.write("a")
        while region.engine.durable_vv != {R1: 1}:
            await asyncio.sleep(0.001)
        syncs = region.log.syncs
        await asyncio.sleep(0.05)
        assert region.log.syncs == syncs, "nothing to sync, nothing synced"


async def test_recovery_lives_through_the_log_again(region: Region1) -> None:
    for index in range(3):
        region.write(str(index))
        await ticks()
    region.call("XGROUP", "CREATE", "s", "g", "0")
    region.call("XREADGROUP", "GROUP", "g", "alice", "COUNT", "2", "STREAMS", "s", ">")
    region.engine.schedule()
    await ticks(10)

    again = Region1()
    again.engine.log = region.log
    await again.engine.recover()
    assert again.engine.replica.vv == again.engine.durable_vv == {R1: 4}
    assert again.engine.replica.digest() == region.engine.replica.digest()
    assert again.call("XPENDING", "s", "g") == region.call("XPENDING", "s", "g")


async def test_too_much_queued_for_the_disk_is_congestion() -> None:
    region = Region1()
    region.engine._queue_records_max = 4
    relieved = []
    region.engine.on_relief.append(lambda: relieved.append(region.engine.congested))
    async with running(region):
        region.log.gate.clear()
        for index in range(5):
            region.write(str(index))
            await ticks(2)
        assert region.engine.congested
        region.log.gate.set()
        await ticks(10)
        assert not region.engine.congested
        assert relieved == [False]


async def test_a_blocked_reader_is_served_by_a_remote_batch_after_its_commit(
    region: Region1,
) -> None:
    delivered: list[object] = []
    region.engine.deliver = lambda _session, reply: region.engine.defer(
        lambda ok: delivered.append(reply)
    )
    other = Replica(R2)
    assert region.call("XREAD", "BLOCK", "0", "STREAMS", "s", "$") is WAITING
    Database(other).call(Session(1), Millis(5), [b"XADD", b"s", b"*", b"f", b"v"])
    (record,) = other.take_records(Millis(5))
    assert record.batch is not None
    region.log.gate.clear()
    region.engine.apply(decode_batch(record.batch), record.batch)
    region.engine.settle()
    await ticks()
    assert delivered == []
    region.log.gate.set()
    await ticks()
    assert len(delivered) == 1
    # The very bytes that came are what is logged.
    assert region.log.commits[0][0].batch == record.batch


async def test_a_blocked_reader_whose_time_is_over_is_answered(region: Region1) -> None:
    delivered: list[object] = []
    region.engine.deliver = lambda _session, reply: delivered.append(reply)
    assert region.call("XREAD", "BLOCK", "20", "STREAMS", "s", "$") is WAITING
    region.engine.schedule()
    await asyncio.sleep(0.005)
    assert delivered == []
    region.clock += 20
    while not delivered:
        await asyncio.sleep(0.001)


async def test_what_peers_have_only_grows(region: Region1) -> None:
    region.engine.learn_peer_vv(R2, {R1: 3})
    region.engine.learn_peer_vv(R2, {R1: 2})
    region.engine.learn_peer_vv(R1, {R1: 9})
    assert region.engine.peer_vvs() == {R2: {R1: 3}}


async def test_older_news_of_a_peer_add_to_what_is_known_and_take_nothing_back(
    region: Region1,
) -> None:
    region.engine.learn_peer_vv(R2, {R1: 3})
    region.engine.learn_peer_vv(R2, {R1: 2, R2: 5})
    assert region.engine.peer_vvs() == {R2: {R1: 3, R2: 5}}


async def test_a_stale_region_refuses_writes_until_it_has_its_effects(region: Region1) -> None:
    region.engine.set_stale("effects of this region are out there")
    assert str(region.call("XADD", "s", "*", "f", "v")).startswith("MISCONF effects of this")
    region.engine.set_stale(None)
    region.write("a")
    await ticks(10)
    assert region.told == [("a", True)]


async def test_a_bug_in_a_tick_stops_the_engine() -> None:
    region = Region1()

    def broken(_now: Millis) -> list[Record]:
        raise AssertionError("a bug")

    region.engine.replica.take_records = broken  # type: ignore[method-assign]
    region.tell("never")
    with pytest.raises(BaseExceptionGroup) as group:
        await asyncio.wait_for(region.engine.run(), 5)
    assert group.group_contains(AssertionError, match="a bug")
    assert region.told == []


async def test_stopping_commits_what_is_queued() -> None:
    region = Region1()
    running_engine = asyncio.create_task(region.engine.run())
    region.log.gate.clear()
    region.write("a")
    await ticks()
    region.write("b")
    region.engine.stop()
    await ticks()
    assert not running_engine.done()
    region.log.gate.set()
    await asyncio.wait_for(running_engine, 5)
    assert region.told == [("a", True), ("b", True)]


async def test_a_client_that_waits_for_a_token_is_served_by_a_remote_batch(
    region: Region1,
) -> None:
    delivered: list[object] = []
    region.engine.deliver = lambda _session, reply: delivered.append(reply)
    other = Replica(R2)
    Database(other).call(Session(1), Millis(5), [b"XADD", b"s", b"*", b"f", b"v"])
    (record,) = other.take_records(Millis(5))
    assert record.batch is not None
    assert region.call("CRDT.WAITFOR", "2:1", "0") is WAITING
    region.engine.apply(decode_batch(record.batch), record.batch)
    assert delivered == []
    region.engine.settle()
    assert delivered == [1]


async def test_idempotency_records_go_when_every_region_has_them(region: Region1) -> None:
    """Also where nothing was deleted, so that there is nothing else to forget."""
    replica = region.engine.replica
    region.call("XADD", "s", "IDMP", "producer", "1", "*", "f", "v")
    region.tell("added")
    await ticks(10)
    assert region.told == [("added", True)]
    region.engine.learn_peer_vv(R2, {R1: 1})
    assert (replica.idempotency_record_count, replica.tombstone_count) == (1, 0)
    region.engine.learn_peer_vv(R3, {R1: 1})
    assert replica.idempotency_record_count == 0


async def test_a_key_whose_time_came_while_writes_were_refused_is_deleted_afterwards(
    region: Region1,
) -> None:
    replica = region.engine.replica
    region.call("XADD", "s", "*", "f", "v")
    region.call("PEXPIRE", "s", "10")
    region.engine.schedule()
    await ticks(10)
    region.engine.set_stale("effects of this region are out there")
    region.clock += 10
    async with asyncio.timeout(10):
        while not replica.has_due:
            await asyncio.sleep(0.001)
    # The timer has been, and in vain.
    await ticks()
    assert replica.known_keys() == [b"s"]
    region.engine.set_stale(None)
    await ticks()
    assert replica.known_keys() == []
