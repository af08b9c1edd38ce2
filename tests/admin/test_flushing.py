"""A flush deletes all that a region has, in slices, and says who does not have that yet."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from crdtstream.admin import flushing
from crdtstream.admin.flushing import FlushError, Flushing
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.cold import ColdError
from crdtstream.engine.turns import Turn
from crdtstream.region.staleness import LagAction
from crdtstream.v1 import admin_pb2 as pb
from tests.cold_nodes import freeze
from tests.region.test_engine import R1, Region1, running, ticks

R2, R3 = RegionId(2), RegionId(3)


@pytest.fixture
async def region() -> AsyncIterator[Region1]:
    async with running(Region1()) as region:
        yield region


def over() -> Turn:
    """A turn that is over after each step: a slice is one key."""
    return Turn(iter(range(0, 1 << 60, 1 << 40)).__next__)


def endless() -> Turn:
    """A turn that never ends, however slow the machine is."""
    return Turn(lambda: 0)


def flush(
    region: Region1, *, seconds: float = 0.0, make_turn: Callable[[], Turn] = over
) -> Flushing:
    return Flushing(region.engine, seconds=seconds, make_turn=make_turn)


async def last(of: Flushing) -> pb.FlushReply:
    replies = [reply async for reply in of.run()]
    assert [reply.is_last for reply in replies] == [False] * (len(replies) - 1) + [True]
    return replies[-1]


def fill(region: Region1) -> None:
    """One key of each kind, two entries, and one key that has expired."""
    region.call("XADD", "stream", "*", "f", "v")
    region.call("XADD", "stream", "*", "f", "w")
    region.call("XGROUP", "CREATE", "grouped", "g", "0", "MKSTREAM")
    region.call("SET", "string", "v")
    region.call("XADD", "expired", "1000-*", "f", "v")
    region.call("PEXPIRE", "expired", "1")
    region.clock += 10
    region.call("PING")


async def test_all_that_is_kept_of_any_key_is_deleted(region: Region1) -> None:
    fill(region)
    await ticks()
    replica = region.region.replica
    assert await flush(region).counted() == pb.FlushReply(keys=3, entries=2, is_last=True)
    assert len(replica) == 3
    done = await last(flush(region))
    assert (done.keys, done.entries) == (3, 2)
    assert done.is_deleted
    assert len(replica) == 0
    assert replica.remembered_keys() == []


async def test_a_second_flush_changes_nothing(region: Region1) -> None:
    fill(region)
    await last(flush(region))
    issued = region.region.replica.issued
    assert await last(flush(region)) == pb.FlushReply(is_deleted=True, is_last=True)
    assert region.region.replica.issued == issued


async def test_others_have_their_turn_between_two_slices(region: Region1) -> None:
    for number in range(50):
        region.call("SET", f"k{number}", "v")
    await ticks()
    sizes = []

    async def look() -> None:
        while len(region.region.replica):
            sizes.append(len(region.region.replica))
            await asyncio.sleep(0)

    await asyncio.gather(look(), last(flush(region)))
    assert len(set(sizes)) > 40


async def test_a_slice_has_no_more_keys_than_the_bound_on_what_lags(
    region: Region1, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound that refuses is waited for; the flush ends early if it stays so."""
    monkeypatch.setattr(flushing.REFUSED_SECONDS, "value", 0.001)
    for number in range(6):
        region.call("SET", f"k{number}", "v")
    await ticks()
    replica = region.region.replica
    lag = region.region.staleness.lag
    lag.note_durable(R2, replica.issued)
    region.region.staleness.tune(lag_effects_max=2, action=LagAction.REFUSE)
    with pytest.raises(FlushError, match=r"LAGGED .* 2 keys are deleted, others are left: run"):
        await last(flush(region, seconds=0.05, make_turn=endless))
    assert len(replica) == 4

    async def hear() -> None:
        while True:
            lag.note_durable(R2, replica.issued)
            await asyncio.sleep(0)

    flushed = flush(region, seconds=0.05, make_turn=endless)
    hearing = asyncio.create_task(hear())
    done = await last(flushed)
    hearing.cancel()
    assert done.keys == 4


async def test_it_says_who_lacks_how_many_effects(
    region: Region1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing.TELLS_EVERY_SECONDS, "value", 0.001)
    region.call("SET", "k", "v")
    await ticks()
    region.region.stability.learn(R2, {R1: 2})
    done = await last(flush(region, seconds=0.01))
    assert list(done.lacks) == [pb.FlushLack(region=3, effects=2)]
    region.region.stability.learn(R3, {R1: 2})
    done = await last(flush(region, seconds=60.0))
    assert not done.lacks


async def test_without_waiting_nobody_is_asked(region: Region1) -> None:
    region.call("SET", "k", "v")
    assert not (await last(flush(region, seconds=0.0))).lacks


async def test_a_disk_that_refuses_ends_it(region: Region1) -> None:
    region.call("SET", "k", "v")
    await ticks()
    region.log.failure = "disk full"
    with pytest.raises(FlushError, match="unknown") as caught:
        await last(flush(region))
    assert caught.value.is_unknown
    with pytest.raises(FlushError, match=r"MISCONF .*0 keys are deleted") as caught:
        await last(flush(region))
    assert not caught.value.is_unknown


async def test_a_key_that_needs_entries_is_deleted_once_they_were_read(region: Region1) -> None:
    replica = region.region.replica
    replica.node_limits.entries_max = 2
    region.call("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    for entry_id in ("1000-*", "1001-*", "1002-*", "1003-*"):
        region.call("XADD", "x", entry_id, "f", "v")
    region.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
    await ticks()
    images = freeze(replica.node_limits)
    region.call("XACK", "x", "g", "1000-1", "1001-1", "1002-1")
    flushed = flush(region, make_turn=endless)
    with pytest.raises(ColdError) as cold:
        flushed._slice(100)(replica, region.now())
    for image in cold.value.images:
        replica.residency.arrive(image, images[image])
    done = await last(flushed)
    assert (done.keys, done.entries) == (1, 4)
    assert len(replica) == 0


async def test_it_reads_no_entry_that_is_on_disk_only(region: Region1) -> None:
    """No image can be read here: the engine has no disk."""
    for entry_id in ("1000-*", "1001-*"):
        region.call("XADD", "x", entry_id, "f", "v")
    region.call("XDEL", "x", "1000-1")
    await ticks()
    freeze(region.region.replica.node_limits)
    done = await last(flush(region))
    assert (done.keys, done.entries) == (1, 1)
    assert len(region.region.replica) == 0
