"""Peers that come, move and go while regions run, over real gRPC in one process."""

import asyncio
import contextlib

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import WAITING
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.link import LinkState
from crdtstream.region.retention import Keeping
from crdtstream.replication.bootstrap_client import ended_with_links
from tests.conftest import free_base_port
from tests.harness.cutting_log import CuttingLog
from tests.harness.peers import peers_of, these
from tests.patience import until
from tests.replication.regions import LiveRegion, addresses, converged, live_regions
from tests.replication.test_cut_logs import add_each_by_itself, cut, live

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


def without(where: dict[int, str], *numbers: int) -> dict[int, str]:
    return {number: address for number, address in where.items() if number not in numbers}


def forget_a_tombstone(region: LiveRegion, key: str) -> None:
    """Make a tombstone; it stays until the destroy is causally stable."""
    assert region.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM") is not WAITING
    assert region.call("XGROUP", "DESTROY", key, "g") == 1


def has_tombstones(replica: Replica) -> bool:
    return replica.tombstone_count > 0


async def test_a_region_that_is_added_to_a_running_pair_replicates_in_both_directions() -> None:
    where = addresses()
    pair = without(where, 3)
    async with live_regions([live(1, where), live(2, where)]) as (first, second):
        for region in (first, second):
            region.change_peers(pair)
        await add_each_by_itself(first, 70)
        second.add(5)
        await converged([first, second])
        await until(lambda: first.knows_of(R2) == first.durable_vv)
        for region in (first, second):
            region.change_peers(where, joining=[R3])
        assert await cut(first) == 0, "the log is kept for it"
        async with live(3, where).running() as third:
            third.add(3)
            await converged([first, second, third])
            assert third.call("XLEN", "s") == 78
            # It joins: nobody relies on it.
            await until(lambda: first.knows_of(R3) == first.durable_vv)
            assert first.call("WAIT", "2", "1") is WAITING
            for region in (first, second):
                region.change_peers(where)
            first.add()
            first.answers.clear()
            assert first.call("WAIT", "2", "0") is WAITING
            await until(lambda: first.answers == [2])


async def test_nothing_is_stable_without_a_region_that_is_added() -> None:
    where = addresses()
    pair = without(where, 3)
    async with live_regions([live(1, where), live(2, where)]) as (first, second):
        for region in (first, second):
            region.change_peers(pair)
        forget_a_tombstone(first, "before")
        await until(lambda: first.replica.vv == second.replica.vv)
        await until(lambda: not has_tombstones(first.replica))
        for region in (first, second):
            region.change_peers(where, joining=[R3])
        forget_a_tombstone(first, "after")
        vv = first.replica.vv
        await until(lambda: first.knows_of(R2).get(R1) == vv[R1])
        assert has_tombstones(first.replica)
        async with live(3, where).running() as third:
            await converged([first, second, third])
            await until(
                lambda: not any(has_tombstones(one.replica) for one in (first, second, third))
            )


async def test_a_dead_region_that_is_removed_is_waited_for_by_nothing() -> None:
    """WAIT, the lag, causal stability and the log go on without it."""
    where = addresses()
    async with contextlib.AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(live(n, where).running()) for n in (1, 2)]
        async with live(3, where).running() as third:
            await add_each_by_itself(first, 5)
            await converged([first, second, third])
            await until(lambda: first.knows_of(R3) == first.durable_vv)
        forget_a_tombstone(first, "x")
        await add_each_by_itself(first, 100)
        await converged([first, second])
        await until(lambda: first.knows_of(R2) == first.durable_vv)
        assert has_tombstones(first.replica)
        assert await cut(first) == 0
        assert first.region.retention.held[R3].keeping is Keeping.AWAY
        loop = asyncio.get_running_loop()
        assert first.region.freshness(loop.time()).peers == 2
        for region in (first, second):
            region.change_peers(without(where, 3), leaving=[R3])
        assert await cut(first) > 64
        assert first.region.retention.held.keys() == first.pulls.keys() == {R2}
        assert first.region.freshness(loop.time()).peers == 1
        assert has_tombstones(first.replica), "its effects may still come from region 2"
        for region in (first, second):
            region.change_peers(without(where, 3))
        await until(lambda: not has_tombstones(first.replica))
        first.add()
        first.answers.clear()
        assert first.call("WAIT", "1", "0") is WAITING
        await until(lambda: first.answers == [1])
        assert first.region.staleness.lag.effects == 0
        await converged([first, second])


async def test_a_removed_region_that_runs_is_refused() -> None:
    where = addresses()
    async with live_regions(live(number, where) for number in where) as (first, second, third):
        third.add()
        await converged([first, second, third])
        pulls, serves = dict(first.pulls), dict(first.serves)
        for region in (first, second):
            region.change_peers(without(where, 3))
        await until(lambda: third.pulls[R1].link.state is LinkState.REFUSED)
        third.add()
        first.add()
        await converged([first, second])
        assert first.replica.vv[R3] == 1
        assert R1 in third.replica.vv or third.call("XLEN", "s") == 2
        await until(lambda: pulls[R3] not in first.engine.on_link)
        await until(lambda: serves[R3] not in first.engine.on_link)


async def test_a_region_that_moves_is_pulled_from_at_its_new_address() -> None:
    where = addresses(2)
    async with live(1, where).running() as first:
        log = CuttingLog()
        async with LiveRegion(2, where, log=log).running() as second:
            second.add()
            await converged([first, second])
        moved = where | {2: f"127.0.0.1:{free_base_port(1) + 1}"}
        async with LiveRegion(2, moved, log=log).running() as second:
            second.add()
            await until(lambda: first.serves.get(R2) is not None)
            first.change_peers(moved)
            await converged([first, second])
            await until(lambda: first.pulls[R2].link.state is LinkState.LIVE)
            assert first.pulls[R2].stats.effects == 2


async def test_a_link_to_the_old_address_ends_when_its_peer_moves() -> None:
    """Also one that works: whoever answers there is not the peer any more."""
    where = addresses(2)
    base = free_base_port(1)
    async with live_regions(live(number, where) for number in where) as (first, second):
        second.add()
        await converged([first, second])
        await until(lambda: R1 in second.serves)
        first.change_peers(where | {2: f"127.0.0.1:{base + 1}"})
        await until(lambda: R1 not in second.serves)
        assert not first.pulls[R2].link.is_up
        first.change_peers(where)
        second.add()
        await converged([first, second])


async def test_a_copy_from_a_peer_that_is_removed_ends() -> None:
    peers = peers_of(R1, R2, R3)
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: peers.change(Millis(0), these(R3)))

    async def copy() -> None:
        async with ended_with_links(peers, R2) as address:
            assert address == "region-2"
            await asyncio.Event().wait()

    with pytest.raises(PeerError, match="no peer any more"):
        await copy()
    assert peers.on_change == []
