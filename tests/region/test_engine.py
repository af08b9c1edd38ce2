"""The engine: when a tick ends, group commits, a disk that refuses, syncs, stopping."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from itertools import count

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.core.replica import Replica
from crdtstream.database.database import BATCH_BYTES_TARGET
from crdtstream.engine.agenda import SYNC_SECONDS
from crdtstream.engine.engine import Engine
from crdtstream.engine.programs import OutcomeUnknownError
from crdtstream.store.checkpoints import MemoryCheckpoints
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, MemoryLog
from crdtstream.store.replay import recover
from tests.harness.driven import Told, make_region
from tests.patience import seconds, until

R1 = RegionId(1)


class GatedLog(MemoryLog):
    """A log whose commits wait until they are let through, or fail.

    Attributes:
        at_once: whether it commits at once what need not wait.
    """

    def __init__(self, *, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: str | None = None
        self.commits: list[list[Record]] = []
        self.attempts: list[list[Record]] = []
        self.syncs = 0
        # What was asked of it, in order: commits, syncs, and what appendfsync became.
        self.asked: list[str] = []

    def append_at_once(self, records: Sequence[Record]) -> bool:
        if not self.at_once or not self.gate.is_set():
            return False
        self.attempts.append(list(records))
        return super().append_at_once(records)

    async def append(self, records: Sequence[Record]) -> None:
        self.attempts.append(list(records))
        await self.gate.wait()
        await super().append(records)

    def _put(self, records: Sequence[Record]) -> None:
        if self.failure is not None:
            raise StoreError(self.failure)
        super()._put(records)
        self.commits.append(list(records))
        self.asked.append("commit")

    async def sync(self) -> None:
        if self.failure is not None:
            raise StoreError(self.failure)
        self.syncs += 1
        self.asked.append("sync")

    async def set_fsync(self, fsync: Fsync) -> None:
        self.asked.append(fsync.value)


class Region1:
    """Region 1's engine over a gated log, with a client."""

    def __init__(
        self,
        fsync: Fsync = Fsync.ALWAYS,
        records: Sequence[Record] = (),
        *,
        at_once: bool = True,
    ) -> None:
        self.log = GatedLog(at_once=at_once)
        self.clock = 1000
        self.region = make_region(log=records)
        self.engine = Engine(self.region, self.log, fsync=fsync, now=self.now)
        self.client = Told(self.region)

    def now(self) -> Millis:
        return Millis(self.clock)

    def call(self, *argv: str) -> None:
        arguments = [argument.encode() for argument in argv]
        self.client.client.run(iter([arguments]), self.now(), bytes_max=1 << 20)

    def write(self, name: str) -> None:
        self.call("XADD", "s", "*", "field", name)

    @property
    def certainties(self) -> list[bool]:
        """Of each parcel told so far, whether its outcome was known."""
        return [certain for _, certain in self.client.told]

    @property
    def fault(self) -> str | None:
        return self.region.fault

    @property
    def durable_vv(self) -> VersionVector:
        return self.region.outstanding.durable_vv


@contextlib.asynccontextmanager
async def running(region: Region1) -> AsyncIterator[Region1]:
    await region.engine.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(region.engine.run())
        yield region
        # Also where a test failed while it held the disk back.
        region.log.gate.set()
        region.log.failure = None
        region.engine.stop()


@pytest.fixture(params=["at once", "by the committer"])
async def region(request: pytest.FixtureRequest) -> AsyncIterator[Region1]:
    async with running(Region1(at_once=request.param == "at once")) as region:
        yield region


async def ticks(count: int = 5) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_write_is_told_of_after_its_commit(region: Region1) -> None:
    region.log.gate.clear()
    region.write("a")
    await ticks()
    assert region.client.told == []
    region.log.gate.set()
    await ticks()
    assert region.certainties == [True]
    assert region.durable_vv == {R1: 1}


async def test_a_tick_ends_once_after_what_the_event_loop_has_ready(region: Region1) -> None:
    region.call("XLEN", "s")
    region.call("XLEN", "s")
    assert region.client.told == []
    await asyncio.sleep(0)
    assert region.certainties == [True, True]
    assert region.log.attempts == []


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
    assert len(region.client.told) == 11


async def test_one_tick_of_many_commands_is_one_record(region: Region1) -> None:
    for index in range(100):
        region.write(str(index))
    await ticks(10)
    assert [len(commit) for commit in region.log.commits] == [1]
    assert region.log.commits[0][0].last_n == 100


async def test_a_failed_commit_is_repeated_with_the_same_content(region: Region1) -> None:
    region.log.failure = "disk full"
    region.write("a")
    await ticks()
    assert region.certainties == [False]
    assert region.fault == "disk full"
    region.log.failure = None
    while region.region.fault is not None:
        await asyncio.sleep(0.01)
    assert len({tuple(map(repr, attempt)) for attempt in region.log.attempts}) == 1
    assert region.durable_vv == {R1: 1}
    region.write("b")
    await ticks(10)
    assert region.certainties == [False, True]
    assert [record.first_n for commit in region.log.commits for record in commit] == [1, 2]


async def test_ticks_during_a_failed_commit_are_logged_behind_it(region: Region1) -> None:
    """Records of a tick are not committed past a refused commit that the committer holds."""
    region.log.failure = "disk full"
    region.write("first")
    await ticks()
    region.log.failure = None
    # Clients' writes are refused by now; what comes otherwise is logged all the same.
    region.region.replica.append(b"s", make_id(2_000, 0), encode_fields([b"f", b"v"]))
    region.region.tick.open()
    await ticks()
    while region.durable_vv != {R1: 2}:
        await asyncio.sleep(0.01)
    assert [record.first_n for commit in region.log.commits for record in commit] == [1, 2]


async def test_replies_queued_behind_a_failed_commit_are_uncertain(region: Region1) -> None:
    region.log.gate.clear()
    region.log.failure = "no space"
    region.write("a")
    await ticks()
    region.write("b")
    region.call("XLEN", "s")
    await ticks()
    region.log.gate.set()
    await ticks()
    assert region.certainties == [False, False, False]
    region.log.failure = None
    while region.region.fault is not None:
        await asyncio.sleep(0.01)
    await ticks(10)
    assert region.durable_vv == {R1: 2}
    assert len(region.client.told) == 3


@pytest.mark.parametrize("fsync", [Fsync.EVERYSEC, Fsync.NO])
async def test_without_fsync_replies_wait_for_the_log_but_not_for_the_disk(fsync: Fsync) -> None:
    async with running(Region1(fsync)) as region:
        region.log.gate.clear()
        region.write("a")
        await ticks()
        assert region.client.told == []
        assert region.region.outstanding.logged_vv == {}
        region.log.gate.set()
        await ticks()
        assert region.certainties == [True]
        # Committed, so links may send it; but only a sync makes it proof against a power cut.
        assert region.region.outstanding.logged_vv == {R1: 1}
        assert region.durable_vv == {}


async def test_everysec_syncs_about_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYNC_SECONDS, Fsync.EVERYSEC, 0.01)
    async with running(Region1(Fsync.EVERYSEC)) as region:
        region.write("a")
        while region.durable_vv != {R1: 1}:
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
    await ticks(10)

    def beginning() -> Replica:
        replica = Replica(R1)
        replica.begin(region.region.replica.members)
        return replica

    again = (await recover(region.log, MemoryCheckpoints(region.log), beginning)).replica
    assert again.vv == region.durable_vv == {R1: 4}
    assert again.digest() == region.region.replica.digest()


async def test_a_blocked_reader_whose_time_is_over_is_answered(region: Region1) -> None:
    region.call("XREAD", "BLOCK", "20", "STREAMS", "s", "$")
    await asyncio.sleep(0.005)
    assert region.client.told == []
    region.clock += 20
    while not region.client.told:
        await asyncio.sleep(0.001)


async def test_a_deadline_before_the_one_that_is_armed_is_armed(region: Region1) -> None:
    region.call("XREAD", "BLOCK", "60000", "STREAMS", "s", "$")
    await ticks()
    other = Told(region.region)
    other.client.run(
        iter([[b"XREAD", b"BLOCK", b"20", b"STREAMS", b"s", b"$"]]), region.now(), bytes_max=1 << 20
    )
    await ticks()
    assert region.engine._armed == region.clock + 20


async def test_a_timer_stays_while_the_deadline_moves_to_a_later_time(region: Region1) -> None:
    """The clock of the region stands still, and the timers are fired by hand."""
    region.call("XREAD", "BLOCK", "100000", "STREAMS", "s", "$")
    await ticks()
    timer = region.engine._deadline_timer
    assert timer is not None
    writer = Told(region.region)
    writer.client.run(
        iter([[b"XADD", b"s", b"*", b"field", b"value"]]), region.now(), bytes_max=1 << 20
    )
    while not region.client.told:
        await asyncio.sleep(0)
    region.call("XREAD", "BLOCK", "300000", "STREAMS", "s", "$")
    await ticks()
    assert region.engine._deadline_timer is timer
    # It fires too early, looks, and is set to the deadline.
    fire(region.engine)
    await ticks()
    assert region.engine._armed == region.clock + 300_000
    assert len(region.client.told) == 1
    region.clock += 300_000
    fire(region.engine)
    while len(region.client.told) == 1:
        await asyncio.sleep(0)


def fire(engine: Engine) -> None:
    """Have the timer of the next deadline fire now."""
    assert engine._deadline_timer is not None
    engine._deadline_timer.cancel()
    engine._pass_time()


async def test_a_program_that_asks_while_the_disk_refuses_hears_so(region: Region1) -> None:
    ids = count(1)

    def append(replica: Replica, _now: Millis) -> str:
        replica.append(b"s", make_id(next(ids), 0), encode_fields([b"f", b"v"]))
        return "done"

    assert await region.engine.change(append) == "done"
    region.log.failure = "disk full"
    with pytest.raises(OutcomeUnknownError):
        await region.engine.change(append)
    with pytest.raises(CommandError, match="MISCONF disk full"):
        await region.engine.change(append)


@pytest.mark.pure
async def test_a_bug_in_a_tick_stops_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region1()

    def broken(_now: Millis) -> list[Record]:
        raise AssertionError("a bug")

    await region.engine.begin()
    monkeypatch.setattr(region.region.replica, "take_records", broken)
    region.write("never")
    with pytest.raises(BaseExceptionGroup) as group:
        await asyncio.wait_for(region.engine.run(), seconds())
    assert group.group_contains(AssertionError, match="a bug")
    assert region.client.told == []


async def test_stopping_commits_what_is_queued() -> None:
    region = Region1()
    await region.engine.begin()
    running_engine = asyncio.create_task(region.engine.run())
    region.log.gate.clear()
    region.write("a")
    await ticks()
    region.write("b")
    region.engine.stop()
    await ticks()
    assert not running_engine.done()
    region.log.gate.set()
    await asyncio.wait_for(running_engine, seconds())
    assert region.certainties == [True, True]


@pytest.mark.pure
async def test_a_bug_in_applying_a_batch_stops_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region1()
    await region.engine.begin()

    def broken(_now: Millis) -> bool:
        raise RuntimeError("a bug")

    monkeypatch.setattr(region.region.links, "apply", broken)
    region.region.tick.may_apply = True
    region.call("XLEN", "s")
    with pytest.raises(BaseExceptionGroup) as group:
        await asyncio.wait_for(region.engine.run(), seconds())
    assert group.group_contains(RuntimeError, match="a bug")


@pytest.mark.pure
async def test_a_bug_in_what_the_clock_brings_stops_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    region = Region1()
    await region.engine.begin()
    region.call("XREAD", "BLOCK", "1", "STREAMS", "s", "$")
    region.clock += 1

    def broken(_now: Millis) -> object:
        raise RuntimeError("a bug")

    monkeypatch.setattr(region.region.database, "expire", broken)
    with pytest.raises(BaseExceptionGroup) as group:
        await asyncio.wait_for(region.engine.run(), seconds())
    assert group.group_contains(RuntimeError, match="a bug")


# --- appendfsync while the node runs ------------------------------------------------------------


async def settled(region: Region1) -> None:
    """Wait until all that was written is committed."""
    while region.region.outstanding.logged_seq < region.region.outstanding.left_seq:
        await asyncio.sleep(0)
    await ticks()


async def test_always_begins_with_a_sync_of_what_was_committed_without_one() -> None:
    async with running(Region1(Fsync.NO)) as region:
        region.write("a")
        await ticks()
        await settled(region)
        assert region.durable_vv == {}
        region.region.durability.tune("always")
        region.write("b")
        await ticks()
        await settled(region)
        assert region.log.asked == ["commit", "sync", "always", "commit"]
        assert region.durable_vv == {R1: 2}
        assert region.engine.fsync is Fsync.ALWAYS


async def test_of_two_syncs_the_one_that_began_first_may_end_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SYNC_SECONDS, Fsync.EVERYSEC, 0.01)
    async with running(Region1(Fsync.EVERYSEC)) as region:
        sync, slow = region.log.sync, asyncio.Event()

        async def slow_sync() -> None:
            monkeypatch.setattr(region.log, "sync", sync)
            await slow.wait()

        monkeypatch.setattr(region.log, "sync", slow_sync)
        region.write("a")
        await settled(region)
        await until(lambda: region.log.sync != slow_sync, "the slow sync has begun")
        region.write("b")
        await settled(region)
        region.region.durability.tune("always")
        await until(lambda: region.durable_vv == {R1: 2}, "both are durable")
        slow.set()
        await ticks()
        region.write("c")
        await settled(region)
        assert region.durable_vv == {R1: 3}


async def test_commits_are_synced_now_and_then_from_everysec_on(
    region: Region1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SYNC_SECONDS, Fsync.EVERYSEC, 0.01)
    region.region.durability.tune("everysec")
    region.write("a")
    await ticks()
    await settled(region)
    assert region.log.asked[:2] == ["everysec", "commit"]
    await until(lambda: region.durable_vv == {R1: 1}, "it is durable")
    assert region.log.asked == ["everysec", "commit", "sync"]


async def test_a_disk_that_cannot_sync_leaves_appendfsync_as_it_was() -> None:
    async with running(Region1(Fsync.EVERYSEC)) as region:
        region.log.failure = "no sync"
        region.region.durability.tune("always")
        await ticks()
        assert region.engine.fsync is Fsync.EVERYSEC
        assert region.fault == "no sync"
        assert "always" not in region.log.asked


class Pipelining(Told):
    """A client that has a write behind what blocks it, and goes on when it is woken."""

    def resume(self) -> None:
        super().resume()
        if not self.client.is_blocked:
            words = [b"XADD", b"behind", b"*", b"f", b"v"]
            self.client.run(iter([words]), Millis(1000), bytes_max=1 << 20)


@pytest.mark.parametrize("batch_bytes", [BATCH_BYTES_TARGET.default, 1])
async def test_a_tick_ended_for_a_checkpoint_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    """Also if the batch of a client that is woken was closed at once, as it is large."""
    monkeypatch.setattr(BATCH_BYTES_TARGET, "value", batch_bytes)
    one = Region1()
    await one.engine.begin()
    blocked = Pipelining(one.region)
    words = [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]
    blocked.client.run(iter([words]), one.now(), bytes_max=1 << 20)
    one.engine.end_tick()
    one.call("XADD", "s", "*", "f", "v")
    one.engine.end_tick()
    assert one.region.replica.stream(b"behind") is not None
    one.region.replica.cut()
