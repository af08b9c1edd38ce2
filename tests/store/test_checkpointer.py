"""The checkpointer over a real folder: its turns of the event loop."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.core.replica import Replica
from crdtstream.engine.checkpointer import RETRY_SECONDS_FIRST, Checkpointer
from crdtstream.engine.engine import Engine
from crdtstream.store.checkpoints import MemoryCheckpoints
from crdtstream.store.failpoints import NO_FAILPOINTS, Armed, refuse
from crdtstream.store.log import Fsync, MemoryLog
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from tests.harness.driven import make_region

R1 = RegionId(1)
NOW = Millis(1_000)


def append(replica: Replica, first: int) -> None:
    fields = encode_fields([b"f", b"v"])
    for number in range(first, first + 500):
        replica.append(b"s", make_id(2_000 + number, 1), fields)
        replica.append(b"key %d" % number, make_id(2_000, 1), fields)


@pytest.mark.long
async def test_a_checkpoint_is_whole_though_every_turn_is_over_at_once(tmp_path: Path) -> None:
    """On a busy machine the processor may be taken away between any two steps of a turn."""
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    region = make_region()
    engine = Engine(region, log, now=lambda: NOW)
    await engine.begin()
    checkpoints = await SqliteCheckpoints.open(log)
    seconds = count(step=1_000_000_000)
    checkpointer = Checkpointer(
        region, log, checkpoints, engine, now=lambda: NOW, timer_ns=lambda: next(seconds)
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run())
        for number in range(3):
            await engine.change(lambda replica, _now, first=number: append(replica, 500 * first))  # type: ignore[misc]
            await checkpointer.checkpoint()
        engine.stop()
    newest = await checkpoints.newest()
    assert newest is not None
    assert newest.row.seq == log.last_seq
    restored = make_region().replica
    restored.restore(
        [image async for some in checkpoints.heads(newest.row.generation) for image in some]
    )
    restored.residency.loader = checkpoints.load
    with restored.residency.in_place():
        assert restored.digest() == region.replica.digest()
    await log.close()


async def test_a_checkpoint_that_failed_is_due_again_after_a_backoff_that_grows() -> None:
    log, region = MemoryLog(), make_region()
    engine = Engine(region, log, now=lambda: NOW)
    await engine.begin()
    checkpoints = MemoryCheckpoints(log)
    checkpointer = Checkpointer(region, log, checkpoints, engine, now=lambda: NOW)
    region.checkpointing.want()
    seconds = []
    for _ in range(3):
        checkpoints.failpoints = Armed("checkpoint.commit", refuse)
        await checkpointer.attempt()
        assert region.checkpointing.failure
        assert checkpointer.is_due()
        seconds.append(checkpointer.backoff.seconds)
    first = RETRY_SECONDS_FIRST.default
    assert seconds == [first, 2 * first, 4 * first]

    checkpoints.failpoints = NO_FAILPOINTS
    await checkpointer.attempt()
    assert not region.checkpointing.failure
    assert not checkpointer.is_due()
    assert checkpointer.backoff.seconds == 0
