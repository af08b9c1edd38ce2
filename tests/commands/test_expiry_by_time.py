"""Keys end by the clock alone, in the engine and in the simulator: nobody needs to ask for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from crdtstream.core.effects import ExpireKey, Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.expiry import EXPIRED_AT_ONCE_MAX
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import WAITING
from crdtstream.engine.engine import Engine
from crdtstream.sim.simulated_node import SimNode, SimSettings
from crdtstream.store.log import MemoryLog
from tests.harness.driven import Capture, Told, make_region
from tests.patience import until

START_MS = 1_000_000


class Region1:
    """Region 1's engine over a log in memory, with a client; its clock moves by hand.

    The engine's timers are those of the event loop.
    """

    def __init__(self, log: MemoryLog, records: list[Record], clock_ms: int) -> None:
        self.clock_ms = clock_ms
        self.capture = Capture()
        region = make_region(1, (), log=records, encode=self.capture)
        self.replica = region.replica
        self.engine = Engine(region, log, now=self.now)
        self.client = Told(region)

    def now(self) -> Millis:
        return Millis(self.clock_ms)

    async def let_pass(self, ms: int) -> None:
        """Once the tick has ended and its timer is set."""
        await asyncio.sleep(0)
        self.clock_ms += ms

    def call(self, line: str, client: Told | None = None) -> object:
        return self.capture.call((client or self.client).client, self.now(), *line.encode().split())


async def deletes_in(log: MemoryLog) -> list[bytes]:
    """The keys of the ExpireKeys that are in the log."""
    rows = await log.read_from(1, bytes_max=1 << 30)
    batches = [decode_batch(row.record.batch) for row in rows if row.record.batch is not None]
    return [
        effect.key
        for batch in batches
        for _, effect in batch.others
        if isinstance(effect, ExpireKey)
    ]


@contextlib.asynccontextmanager
async def running(log: MemoryLog, *, clock_ms: int = START_MS) -> AsyncIterator[Region1]:
    rows = await log.read_from(1, bytes_max=1 << 30)
    region = Region1(log, [row.record for row in rows], clock_ms)
    await region.engine.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(region.engine.run())
        yield region
        region.engine.stop()


async def test_the_engine_deletes_a_key_whose_time_has_come() -> None:
    log = MemoryLog()
    async with running(log) as region:
        region.call("XADD x * f v")
        region.call("XADD y * f v")
        region.call("PEXPIRE x 30")
        region.call("EXPIRE y 1000")
        await region.let_pass(30)
        await until(lambda: region.replica.keys.known() == [b"y"])
    assert await deletes_in(log) == [b"x"]


async def test_the_engine_looks_again_when_the_deadline_was_put_off_or_brought_forward() -> None:
    log = MemoryLog()
    async with running(log) as region:
        for key in "xyz":
            region.call(f"XADD {key} * f v")
            region.call(f"PEXPIRE {key} 40")
        region.call("EXPIRE y 1000")
        region.call("PERSIST z")
        await region.let_pass(40)
        await until(lambda: region.replica.keys.known() == [b"y", b"z"])
        region.call("PEXPIRE y 30")
        await region.let_pass(30)
        await until(lambda: region.replica.keys.known() == [b"z"])
    assert await deletes_in(log) == [b"x", b"y"]


async def test_keys_that_expired_during_a_downtime_are_deleted_at_the_start() -> None:
    log = MemoryLog()
    async with running(log) as region:
        region.call("XADD x * f v")
        region.call("EXPIRE x 100")
    assert await deletes_in(log) == []
    async with running(log, clock_ms=START_MS + 100_000) as region:
        await until(lambda: not region.replica.keys.known())
    assert await deletes_in(log) == [b"x"]


async def test_a_command_that_comes_just_before_the_timer_does_not_make_it_forget() -> None:
    """The command finds that the key is over, and so there is no deadline to wait for any more."""
    log = MemoryLog()
    async with running(log) as region:
        region.call("XADD x * f v")
        region.call("PEXPIRE x 30")
        await region.let_pass(30)
        # The event loop is too late.
        assert region.call("EXISTS x") == 0
        assert region.replica.keys.known() == [b"x"]
        await until(lambda: not region.replica.keys.known())
    assert await deletes_in(log) == [b"x"]


async def test_the_engine_comes_back_to_many_keys_that_end_at_once() -> None:
    log = MemoryLog()
    keys = [f"k{number:04}" for number in range(2 * EXPIRED_AT_ONCE_MAX.value + 1)]
    async with running(log) as region:
        for key in keys:
            region.call(f"XADD {key} * f v")
        deadline = region.now() + 30
        for key in keys:
            region.call(f"PEXPIREAT {key} {deadline}")
        await region.let_pass(30)
        await until(lambda: not region.replica.keys.known())
    assert sorted(await deletes_in(log)) == [key.encode() for key in keys]


async def test_a_client_that_waits_is_answered_when_its_key_ends() -> None:
    async with running(MemoryLog()) as region:
        reader = Told(region.engine.region)
        region.call("XADD x * f v")
        region.call("XGROUP CREATE x g $")
        assert region.call("XREADGROUP GROUP g c BLOCK 0 STREAMS x >", reader) is WAITING
        region.call("PEXPIRE x 30")
        await region.let_pass(30)
        await until(lambda: bool(reader.told))
    ((reply, _),) = reader.told
    assert reply.startswith(b"-NOGROUP")


# --- The simulator -----------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_a_simulated_region_deletes_when_its_clock_says_so(restarts: bool) -> None:
    node = SimNode(RegionId(1), {}, SimSettings(), Millis(1000))
    node.call("", (b"XADD", b"x", b"*", b"f", b"v"))
    node.call("", (b"PEXPIRE", b"x", b"50"))
    node.settle()
    if restarts:
        node.crash()
        node.start()
    node.clock = Millis(1049)
    node.pass_time()
    assert node.region.replica.keys.known() == [b"x"]
    node.clock = Millis(1050)
    node.pass_time()
    node.settle()
    assert node.region.replica.keys.known() == []
    (*_, last) = [record.batch for record in node.disk.records if record.batch is not None]
    assert [effect for _, effect in decode_batch(last).others] == [ExpireKey(b"x")]
