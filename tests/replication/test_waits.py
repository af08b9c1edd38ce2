"""WAIT and WAITAOF after an acknowledgement: what the other regions are told of it counts too."""

import asyncio

import pytest

from crdtstream.core.ids import IdMode, RegionId
from crdtstream.database.database import WAITING
from crdtstream.store.log import Fsync, MemoryLog
from tests.harness.replies import of_type, rows_of
from tests.patience import until
from tests.replication.regions import LiveRegion, addresses, meshed

R1, R2 = RegionId(1), RegionId(2)


async def group_with_pending(first: LiveRegion, second: LiveRegion) -> None:
    first.replica.id_mode = IdMode.LIBERAL
    first.call("XADD", "s", "1-1", "f", "v")
    first.call("XGROUP", "CREATE", "s", "g", "0")
    first.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    await until(lambda: first.knows_of(R2).get(R1, 0) == 2)
    second.pause(R1)


@pytest.mark.parametrize("same_tick", [True, False])
async def test_wait_waits_for_what_an_xack_tells(same_tick: bool) -> None:
    """In the tick of the XACK, and in a later one, when the effect has been issued."""
    async with meshed(2) as (first, second):
        await group_with_pending(first, second)
        assert first.call("XACK", "s", "g", "1-1") == 1
        if not same_tick:
            await until(lambda: first.logged_vv.get(R1) == 3)
        assert first.call("WAIT", "1", "0") is WAITING
        answers = first.answers
        answers.clear()
        await asyncio.sleep(0)
        assert answers == []
        second.resume(R1)
        await until(lambda: answers == [1])
        assert second.replica.vv[R1] == 3


class UnsyncedLog(MemoryLog):
    """A log whose syncs wait until they are allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = asyncio.Event()

    async def sync(self) -> None:
        await self.allowed.wait()


async def test_waitaof_waits_for_an_xack_that_tells_nobody_anything() -> None:
    """Acknowledged not in a row: durable here only with the next sync."""
    where = addresses(1)
    log = UnsyncedLog()
    log.allowed.set()
    region = LiveRegion(1, where, log=log, fsync=Fsync.EVERYSEC)
    async with region.running():
        for _ in range(2):
            region.add()
        region.call("XGROUP", "CREATE", "s", "g", "0")
        reply = region.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        await until(
            lambda: region.region.outstanding.durable_records == region.replica.record_count > 0
        )
        log.allowed.clear()
        rows = rows_of(region.call("XPENDING", "s", "g", "-", "+", "10"))
        assert len(rows) == 2, reply
        entry_id = of_type(bytes, rows[1][0])
        assert region.call("XACK", "s", "g", entry_id.decode()) == 1
        assert region.call("WAITAOF", "1", "0", "0") is WAITING
        answers = region.answers
        answers.clear()
        await until(lambda: region.engine.stats.records_committed == region.replica.record_count)
        assert answers == []
        log.allowed.set()
        await until(lambda: answers == [[1, 0]])
