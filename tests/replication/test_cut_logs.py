"""Logs that are cut while a region is away: over real gRPC in one process (``rules`` 17)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from crdtstream.core.ids import RegionId
from crdtstream.engine.log_cutting import cut_log, look_at_log
from crdtstream.region.links.link import LinkState
from crdtstream.region.retention import Keeping
from crdtstream.store.log import Fsync
from tests.harness.cutting_log import CuttingLog
from tests.patience import until
from tests.replication.regions import PATIENT, LiveRegion, addresses, converged, live_regions

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


def live(number: int, where: dict[int, str]) -> LiveRegion:
    return LiveRegion(number, where, log=CuttingLog(), limits=PATIENT)


async def add_each_by_itself(region: LiveRegion, count: int) -> None:
    """So many records in the log."""
    for _ in range(count):
        before = region.log.last_seq
        region.add()
        await until(lambda before=before: region.log.last_seq > before)  # type: ignore[misc]


async def cut(region: LiveRegion) -> int:
    """Cut what may go, as if all that is logged were in a checkpoint."""
    assert isinstance(region.log, CuttingLog)
    region.region.retention.note_covered(region.log.last_seq)
    return await cut_log(region.region, region.log, region.log.cut_log, region.engine.now())


@contextlib.asynccontextmanager
async def third_was_away(
    *, cut_by: tuple[int, ...], paused: tuple[RegionId, ...] = ()
) -> AsyncIterator[list[LiveRegion]]:
    """Three regions of which the third was away when some of the others cut their logs.

    It comes back with its links to ``paused`` paused.
    """
    where = addresses()
    async with live_regions(live(number, where) for number in (1, 2)) as (first, second):
        log = CuttingLog()
        async with LiveRegion(3, where, log=log).running() as third:
            await add_each_by_itself(first, 5)
            await converged([first, second, third])
            await until(lambda: third.durable_vv == first.durable_vv)
            await until(lambda: first.knows_of(R3) == second.knows_of(R3) == first.durable_vv)
        await add_each_by_itself(first, 100)
        await add_each_by_itself(second, 100)
        await converged([first, second])
        await until(lambda: first.knows_of(R2) == second.knows_of(R1) == first.durable_vv)
        for region in (first, second):
            if region.number in cut_by:
                region.region.retention.backlog_bytes_max = 100
                assert await cut(region) > 100
                assert region.region.retention.held[R3].keeping is Keeping.GIVEN_UP
        third = LiveRegion(3, where, log=log, limits=PATIENT)
        await third.begin()
        for peer in paused:
            third.pause(peer)
        async with third.running():
            yield [first, second, third]


async def test_a_log_of_which_no_member_lacks_anything_is_not_asked() -> None:
    """A look-up of it costs a hop to a thread, for each member and origin, each second."""
    where = addresses(2)
    async with live_regions(live(number, where) for number in (1, 2)) as (first, second):
        await add_each_by_itself(first, 3)
        await add_each_by_itself(second, 2)
        await converged([first, second])
        retention, log = first.region.retention, first.log
        await until(lambda: retention.elsewhere_vv == first.durable_vv)
        assert isinstance(log, CuttingLog)
        seeks = log.seeks
        await look_at_log(first.region, log, first.engine.now())
        assert retention.held[R2].bytes == 0
        assert log.seeks == seeks


async def test_a_region_that_was_away_for_too_long_says_that_it_needs_a_bootstrap() -> None:
    async with third_was_away(cut_by=(1, 2)) as (first, second, third):
        links = [third.pulls[peer].link for peer in (R1, R2)]
        await until(lambda: all(link.state is LinkState.NEEDS_BOOTSTRAP for link in links))
        # Those of region 2 as well, if the link to region 2 was refused before.
        assert links[0].error.startswith("region 1 has cut region 1's effects 6 to 105")
        assert "from its log, and this region lacks them" in links[0].error
        # Clients who are refused meanwhile are not told to try again.
        told = third.region.opening.catching_up.cut_off
        assert "region 1 has cut region 1's effects" in told
        assert told.count("takes over the state of a peer by itself") == 1
        assert third.region.opening.readiness.cut_off == third.region.opening.catching_up.cut_off
        assert third.replica.vv == {R1: 5}, "nothing beyond a gap was applied"

        third.add()
        await converged_in(R3, [first, second, third])
        await asyncio.sleep(0.2)
        assert third.pulls[R1].link.reconnects == 0, "it was never up, so others may relay"


async def converged_in(origin: RegionId, regions: list[LiveRegion]) -> None:
    await until(lambda: len({one.replica.vv.get(origin, 0) for one in regions}) == 1)


async def test_a_peer_that_still_has_what_lacks_is_asked_for_it() -> None:
    async with third_was_away(cut_by=(1,), paused=(R2,)) as (first, second, third):
        await until(lambda: third.pulls[R1].link.state is LinkState.NEEDS_BOOTSTRAP)
        third.resume(R2)
        await converged([first, second, third])
        await until(lambda: third.pulls[R1].link.state is LinkState.LIVE)
        assert third.region.opening.catching_up.cut_off == ""
        first.add()
        await converged([first, second, third])


async def test_a_region_that_is_linked_keeps_its_place_in_a_log_that_is_cut() -> None:
    where = addresses()
    async with live_regions(live(number, where) for number in where) as regions:
        first = regions[0]
        for _ in range(5):
            await add_each_by_itself(first, 70)
            await converged(regions)
            await until(lambda: first.knows_of(R2) == first.knows_of(R3) == first.durable_vv)
            assert await cut(first) >= 70
            assert first.region.retention.first_seq == first.log.last_seq + 1
        assert all(pull.link.reconnects == 0 for one in regions for pull in one.pulls.values())


async def test_two_regions_that_were_alone_for_too_long_converge_by_their_logs() -> None:
    """Each writes while the other is down, and cuts as if that were gone for good."""
    where = addresses(2)
    logs = {number: CuttingLog() for number in where}
    for number in where:
        alone = LiveRegion(number, where, log=logs[number])
        async with alone.running():
            alone.region.retention.backlog_bytes_max = 100
            alone.region.retention.backlog_ttl_s = 0
            await add_each_by_itself(alone, 100)
            assert await cut(alone) == 0
            (held,) = alone.region.retention.held.values()
            assert held.keeping is Keeping.ONLY_COPY
    async with live_regions(
        LiveRegion(number, where, log=logs[number]) for number in where
    ) as both:
        await converged(both)
        await until(lambda: both[0].knows_of(R2) == both[1].knows_of(R1) == both[0].durable_vv)
        assert [await cut(one) for one in both] == [200, 200]


async def test_effects_of_a_third_region_that_no_member_has_are_kept() -> None:
    """Region 3 is gone and no member any more; its effects are in the log of region 1 alone."""
    where = addresses()
    log = CuttingLog()
    async with (
        LiveRegion(1, where, log=log).running() as first,
        LiveRegion(3, where, log=CuttingLog()).running() as third,
    ):
        await add_each_by_itself(third, 100)
        await converged([first, third])
        await until(lambda: first.knows_of(R3) == first.durable_vv)
    two = {number: where[number] for number in (1, 2)}
    async with LiveRegion(1, two, log=log).running() as first:
        first.region.retention.backlog_bytes_max = 0
        assert await cut(first) == 0
        async with LiveRegion(2, two, log=CuttingLog()).running() as second:
            # Region 2 asks for them once something waits for them (``rules`` 2).
            first.add()
            await converged([first, second])
            await until(lambda: first.knows_of(R2) == first.durable_vv)
            assert await cut(first) > 100


async def test_nothing_is_cut_that_a_member_has_not_made_durable() -> None:
    """Region 2 applies what it gets, and says so when it links anew, but no sync is ever done."""
    where = addresses(2)
    first = live(1, where)
    second = LiveRegion(2, where, log=CuttingLog(), fsync=Fsync.NO)
    async with live_regions([first, second]):
        await add_each_by_itself(first, 100)
        await converged([first, second])
        await until(lambda: second.logged_vv == first.logged_vv)
        links = first.region.links
        before = links.serves[R2]
        second.pulls[R1].reopen()
        await until(lambda: R2 in links.serves and links.serves[R2] is not before)
        await until(lambda: second.pulls[R1].link.state is LinkState.LIVE)
        assert not second.durable_vv
        assert await cut(first) == 0
