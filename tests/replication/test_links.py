"""Links between regions, over real gRPC in one process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import grpc
import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import encode_vv
from crdtstream.region.links.link import LinkState
from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.replication.server import Context, Requests
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc
from tests.harness.driven import said_of
from tests.patience import until
from tests.replication.regions import LIMITS, LiveRegion, addresses, converged, live_regions, meshed

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
NOBODY = "127.0.0.1:1"


async def test_three_regions_converge() -> None:
    async with meshed() as regions:
        for _ in range(50):
            for region in regions:
                region.add(3)
            await asyncio.sleep(0)
        await converged(regions)
        assert regions[0].call("XLEN", "s") == 450


async def test_a_peer_that_starts_late_gets_what_it_missed() -> None:
    where = addresses(2)
    first, second = (LiveRegion(number, where) for number in where)
    async with first.running():
        for _ in range(20):
            first.add(10)
            await asyncio.sleep(0)
        async with second.running():
            await converged([first, second])
            await until(lambda: second.pulls[R1].link.state is LinkState.LIVE)
            assert second.pulls[R1].lag_effects == 0
            assert second.pulls[R1].stats.effects == 200


async def test_links_log_the_very_bytes_that_were_issued() -> None:
    async with meshed(2) as (first, second):
        first.call("XADD", "s", "*", "f", "v")
        first.call("DEL", "s")
        await converged([first, second])
        await until(lambda: second.logged_vv == {R1: 2})
        issued = [row.record.batch for row in await first.log.read_from(1, bytes_max=1 << 20)]
        received = [row.record.batch for row in await second.log.read_from(1, bytes_max=1 << 20)]
        assert issued == received


async def test_acks_reach_the_issuer() -> None:
    async with meshed() as regions:
        first = regions[0]
        first.add(5)
        await until(lambda: all(first.knows_of(peer).get(R1, 0) == 5 for peer in (R2, R3)))


async def test_tombstones_go_when_they_are_stable_everywhere() -> None:
    async with meshed() as regions:
        regions[0].add(1)
        regions[0].call("DEL", "s")
        await converged(regions)
        await until(lambda: all(region.replica.tombstone_count == 0 for region in regions))


async def test_an_idle_link_carries_no_batches() -> None:
    async with meshed(2) as (first, second):
        first.add(1)
        await converged([first, second])
        before = second.pulls[R1].stats.batches
        heard = second.pulls[R1].stats.heard_ms
        await until(lambda: second.pulls[R1].stats.heard_ms > heard + 100)
        assert second.pulls[R1].stats.batches == before == 1


async def test_a_paused_link_pulls_nothing_until_it_is_resumed() -> None:
    async with meshed(2) as (first, second):
        first.add(1)
        await converged([first, second])
        second.pause(R1)
        await until(lambda: R2 not in first.serves)
        first.add(1)
        second.add(1)
        await until(lambda: first.replica.vv == {R1: 2, R2: 1})
        assert second.replica.vv == {R1: 1, R2: 1}
        assert second.pulls[R1].link.state is LinkState.PAUSED
        second.resume(R1)
        await converged([first, second])


async def test_pausing_and_resuming_at_once_leaves_a_working_link() -> None:
    async with meshed(2) as (first, second):
        await until(lambda: second.pulls[R1].link.state is LinkState.LIVE)
        second.pause(R1)
        second.resume(R1)
        first.add(1)
        await converged([first, second])
        await until(lambda: second.pulls[R1].link.state is LinkState.LIVE)


async def test_effects_are_relayed_while_the_direct_link_is_down() -> None:
    where = addresses()
    first, second = LiveRegion(1, where), LiveRegion(2, where)
    third = LiveRegion(3, {**where, 1: NOBODY})
    async with live_regions([first, second, third]) as regions:
        first.add(3)
        await converged(regions)
        assert third.pulls[R2].origins == {R1, R2}

        # The way is free again: the direct link takes over, and relaying ends.
        third.pulls[R1].address = where[1]
        await until(lambda: third.pulls[R2].origins == {R2})
        batches = third.pulls[R2].stats.batches
        first.add(3)
        await converged(regions)
        assert third.pulls[R1].stats.batches == 1
        assert third.pulls[R2].stats.batches == batches


async def test_a_paused_origin_is_not_relayed() -> None:
    async with meshed() as regions:
        first, second, third = regions
        third.pause(R1)
        first.add(1)
        await until(lambda: second.replica.vv == {R1: 1})
        heard = third.pulls[R2].stats.heard_ms
        await until(lambda: third.pulls[R2].stats.heard_ms > heard + 2 * LIMITS.inbox_wait_ms_max)
        assert third.pulls[R2].origins == {R2}
        assert third.replica.vv == {}
        third.resume(R1)
        await converged(regions)


async def test_a_link_that_waits_for_an_origin_asks_for_it_too() -> None:
    """Rule 2: batches of R2 wait for R1's, which R2's link is not asked for; they must neither
    block it for ever nor fill it."""
    where = addresses()
    limits = replace(LIMITS, inbox_batches_max=2, link_silence_ms_max=60_000)
    first, second = LiveRegion(1, where), LiveRegion(2, where)
    async with contextlib.AsyncExitStack() as stack:
        for region in (first, second):
            await stack.enter_async_context(region.running())
        first.add(1)
        await until(lambda: second.replica.vv == {R1: 1})
        for _ in range(10):
            second.add(1)
            await asyncio.sleep(0.001)
        silent = await stack.enter_async_context(silent_peer(members=(1, 2, 3)))
        # The direct link is up as far as anyone can tell, and brings nothing.
        third = LiveRegion(3, {**where, 1: silent}, limits=limits)
        await stack.enter_async_context(third.running())
        await until(lambda: third.replica.vv == {R1: 1, R2: 10})
        assert third.pulls[R2].origins == {R1, R2}
        # It is opened anew, too, for what is wanted of it now.
        await until(lambda: third.pulls[R1].link.is_up)


@contextlib.asynccontextmanager
async def silent_peer(region: int = 1, *, members: tuple[int, ...] = (1, 2)) -> AsyncIterator[str]:
    """Region 1 as it looks when it says welcome, and then sends heartbeats and nothing else."""

    class Silent(rpc.ReplicationServicer):
        async def Sync(self, requests: Requests, context: Context) -> None:  # noqa: N802
            await context.write(
                pb.SyncResponse(
                    welcome=pb.Welcome(
                        protocol=PROTOCOL_VERSION, region=region, membership=said_of(*members)
                    )
                )
            )
            while True:
                await context.write(
                    pb.SyncResponse(heartbeat=pb.Progress(durable_vv=encode_vv({R1: 1}), now_ms=1))
                )
                await asyncio.sleep(0.02)

    server = grpc.aio.server()
    rpc.add_ReplicationServicer_to_server(Silent(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(grace=0)


async def test_a_large_backlog_goes_through_a_small_inbox() -> None:
    where = addresses(2)
    limits = replace(LIMITS, inbox_batches_max=1, link_message_bytes_target=1024)
    first, second = (LiveRegion(number, where, limits=limits) for number in where)
    async with first.running():
        for _ in range(500):
            first.add(1)
            await asyncio.sleep(0)
        async with second.running():
            await converged([first, second])


@pytest.mark.parametrize(
    ("number", "database_id", "reason"),
    [
        (2, "other", "region 1 holds database 'crdb', not 'other'; correct database_id"),
        (4, "crdb", "region 4 is no member, as far as region 1 knows"),
    ],
)
async def test_a_stranger_is_refused_and_told_why(
    number: int, database_id: str, reason: str
) -> None:
    where = addresses(2)
    first = LiveRegion(1, where)
    stranger = LiveRegion(number, {1: where[1], number: where[2]}, database_id=database_id)
    async with live_regions([first, stranger]):
        link = stranger.pulls[R1].link
        await until(lambda: link.state is LinkState.REFUSED)
        assert reason in link.error


async def test_the_same_region_on_both_sides_is_refused() -> None:
    where = addresses(2)
    first = LiveRegion(1, where)
    # It believes that the other one is region 2, but that is region 1 like itself.
    twin = LiveRegion(1, {1: where[2], 2: where[1]})
    async with live_regions([first, twin]):
        link = twin.pulls[R2].link
        await until(lambda: link.state is LinkState.REFUSED)
        assert "both sides are region 1; each region needs a number of its own" in link.error


async def test_a_peer_of_another_number_than_expected_is_refused() -> None:
    where = addresses(3)
    second = LiveRegion(2, where)
    third = LiveRegion(3, {1: where[2], 2: NOBODY, 3: where[3]})
    async with live_regions([second, third]):
        link = third.pulls[R1].link
        await until(lambda: link.state is LinkState.REFUSED)
        assert "is region 2, not region 1; correct the peer's address" in link.error


async def test_a_peer_that_is_not_there_is_told_of_in_few_words() -> None:
    """gRPC says it four times over, with the address, and `status` has a line for each link."""
    async with LiveRegion(1, addresses(2)).running() as first:
        link = first.pulls[R2].link
        await until(lambda: link.error)
        assert link.error == "UNAVAILABLE: Connection refused"


async def test_a_region_that_lost_its_log_takes_its_effects_back_before_issuing() -> None:
    """Rule 18: dots are never reused with other content."""
    where = addresses(2)
    first, second = (LiveRegion(number, where) for number in where)
    async with second.running():
        async with first.running():
            first.add(7)
            await converged([first, second])
        restored = LiveRegion(1, where, log=MemoryLog(), is_proven=False)
        await restored.begin()
        assert "waits for region 2" in str(restored.call("XADD", "s", "*", "f", "v"))
        async with restored.running():
            await until(lambda: restored.obstacle is None)
            assert restored.replica.vv == {R1: 7}
            restored.add(1)
            await converged([restored, second])
            assert second.replica.vv == {R1: 8}
            assert second.call("XLEN", "s") == 8


async def test_stability_counts_gossip() -> None:
    """R1 and R3 have no link; each learns of the other through R2."""
    where = addresses()
    first = LiveRegion(1, {**where, 3: NOBODY})
    third = LiveRegion(3, {**where, 1: NOBODY})
    async with live_regions([first, LiveRegion(2, where), third]) as regions:
        first.add(1)
        first.call("DEL", "s")
        await converged(regions)
        await until(lambda: first.replica.tombstone_count == 0)


@contextlib.contextmanager
def deaf_peer() -> Iterator[str]:
    """A port that takes connections and says nothing, not even in gRPC's words.

    The kernel takes them.  A server of asyncio's that closes while it accepts one leaves the
    connection's transport open, and a later test fails when it is collected.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        yield f"{host}:{port}"


async def test_a_link_that_cannot_write_is_silent_and_obeys() -> None:
    """gRPC waits for a connection as long as it likes; the link does not."""
    with deaf_peer() as address:
        region = LiveRegion(2, {1: address, 2: addresses(1)[1]})
        async with region.running():
            pull = region.pulls[R1]

            def state() -> LinkState:
                return pull.link.state

            await until(lambda: state() is LinkState.WAITING)
            assert "silent for 1 s" in pull.link.error
            await until(lambda: state() is LinkState.CONNECTING)
            region.pause(R1)
            await until(lambda: not pull._must_hang_up)
            assert state() is LinkState.PAUSED
