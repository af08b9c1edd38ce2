"""Publications between regions: told once, in order, behind the effects they follow, or lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import grpc
import pytest

from crdtstream.commands.reply import CommandError, Push
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import encode_vv
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.link import LinkState
from crdtstream.region.links.messages import PROTOCOL_VERSION, Publications
from crdtstream.region.links.publications import (
    OUTBOX_BYTES_MAX,
    OVERHEAD_BYTES,
    PUBLICATION_BYTES_MAX,
    WINDOW_BYTES,
    Arrived,
    Outbox,
    Publication,
)
from crdtstream.replication.server import Context, Requests
from crdtstream.replication.wire import decode_publications, encode_publications
from crdtstream.scenario.replies import WAITING
from crdtstream.scenario.rows import Settings
from crdtstream.scenario.simulated import Simulator
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc
from tests.harness.driven import said_of
from tests.patience import until
from tests.replication.regions import (
    LIMITS,
    PATIENT,
    LiveRegion,
    addresses,
    converged,
    live_regions,
    meshed,
)

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
NOBODY = "127.0.0.1:1"
# Patient, so that nothing but what a test does ends a link.


def listen(region: LiveRegion, *channels: str) -> list[tuple[bytes, bytes]]:
    """Listen in a region; what is heard from now on, as (channel, payload)."""
    heard: list[tuple[bytes, bytes]] = []

    def hear(_listeners: object, push: Push) -> None:
        channel, payload = push.items[-2:]
        assert isinstance(channel, bytes)
        assert isinstance(payload, bytes)
        heard.append((channel, payload))

    for channel in channels:
        region.call("SUBSCRIBE", channel)
    region.region.database.channels.deliver = hear
    # LiveRegion.call is the only client there, and subscribers may not publish in RESP2.
    region.session.protocol = 3
    return heard


async def linked(regions: Iterable[LiveRegion]) -> None:
    """Wait until every link is live and stays so: one that asks for a third region's effects as
    well, as that was not linked yet, begins once more when it is."""
    regions = list(regions)
    await until(
        lambda: all(
            puller.link.state is LinkState.LIVE and puller.origins == {peer}
            for region in regions
            for peer, puller in region.pulls.items()
        )
    )


# --- Between regions ------------------------------------------------------------------------------


async def test_every_region_hears_once_and_in_order() -> None:
    async with meshed(limits=PATIENT) as regions:
        await linked(regions)
        heard = [listen(region, "c") for region in regions]
        await until(lambda: regions[0].call("PUBSUB", "NUMSUB", "c") == [b"c", 3])
        for index in range(500):
            assert regions[0].call("PUBLISH", "c", str(index)) == 3
            if index % 7 == 0:
                await asyncio.sleep(0)
        expected = [(b"c", b"%d" % index) for index in range(500)]
        await until(lambda: all(len(each) >= 500 for each in heard))
        assert heard == [expected] * 3
        assert [
            session.publications for session in regions[0].region.links.serve_stats.values()
        ] == [500] * 2
        assert regions[1].pulls[R1].stats.publications == 500
        assert [region.log.last_seq for region in regions] == [0, 0, 0]


async def test_shard_channels_are_told_too_and_apart() -> None:
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        heard = listen(second, "c")
        second.call("SSUBSCRIBE", "c")
        assert first.call("SPUBLISH", "c", "shard") == 0
        await until(lambda: heard == [(b"c", b"shard")])
        first.call("PUBLISH", "c", "plain")
        await until(lambda: len(heard) == 2)
        assert heard == [(b"c", b"shard"), (b"c", b"plain")]


async def test_a_transaction_publishes_when_it_is_executed() -> None:
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        heard = listen(second, "c")
        await until(lambda: first.call("PUBSUB", "NUMSUB", "c") == [b"c", 1])
        for words in (("MULTI",), ("PUBLISH", "c", "one"), ("PUBLISH", "c", "two")):
            first.call(*words)
        other = first.region.database.open_session()
        first.region.database.call(other, first.engine.now(), [b"PUBLISH", b"c", b"zero"])
        await until(lambda: heard)
        assert first.call("EXEC") == [1, 1]
        await until(lambda: len(heard) == 3)
        assert [payload for _, payload in heard] == [b"zero", b"one", b"two"]


async def test_an_entry_can_be_read_when_its_publication_arrives() -> None:
    """A publication never overtakes what its region had issued before it."""
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        late = []
        second.call("SUBSCRIBE", "added")

        def hear(_listeners: object, push: Push) -> None:
            entry_id = push.items[-1]
            assert isinstance(entry_id, bytes)
            argv = [b"XRANGE", b"s", entry_id, entry_id]
            reply = second.region.database.call(second.session, second.engine.now(), argv)
            late.append(entry_id) if reply == [] else found.append(entry_id)

        found: list[bytes] = []
        second.session.protocol = 3
        second.region.database.channels.deliver = hear
        for index in range(300):
            entry_id = first.call("XADD", "s", "*", "field", "value")
            assert isinstance(entry_id, bytes)
            first.call("PUBLISH", "added", entry_id.decode())
            if index % 5 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(found) + len(late) == 300)
        assert late == []


async def test_a_publication_waits_for_effects_that_cannot_be_applied_yet() -> None:
    """Region 1 adds an entry after one of region 3, from which region 2 pulls nothing.

    Nor does it ask region 1 for that: such a link begins again, and what it held is lost.
    """
    where = addresses()
    limits = replace(LIMITS, inbox_wait_ms_max=60_000)
    async with live_regions(
        LiveRegion(number, where, limits=limits) for number in where
    ) as regions:
        first, second, third = regions
        await linked(regions)
        heard = listen(second, "c")
        second.pause(R3)
        await until(lambda: R2 not in third.serves)
        third.add(1)
        await until(lambda: first.replica.vv == {R3: 1})
        first.call("PUBLISH", "c", "before")
        first.add(1)
        first.call("PUBLISH", "c", "after")
        link = second.pulls[R1]
        await until(lambda: link.stats.effects == 1)
        heard_ms = link.stats.heard_ms
        await until(lambda: first.region.links.serve_stats[R2].publications == 2)
        await until(lambda: link.stats.heard_ms > heard_ms + 100)
        assert heard == [(b"c", b"before")]
        assert second.replica.vv == {}
        second.resume(R3)
        await until(lambda: len(heard) == 2)
        assert heard == [(b"c", b"before"), (b"c", b"after")]
        assert second.replica.vv == {R1: 1, R3: 1}


# --- Links that are down --------------------------------------------------------------------------


async def test_publications_during_a_paused_link_are_lost() -> None:
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        heard = listen(second, "c")
        second.pause(R1)
        await until(lambda: R2 not in first.serves)
        first.call("PUBLISH", "c", "lost")
        assert first.region.links.serve_stats[R2].publications_lost == 1
        second.resume(R1)
        await linked([first, second])
        first.call("PUBLISH", "c", "heard")
        await until(lambda: heard)
        assert heard == [(b"c", b"heard")]


async def test_pausing_holds_back_what_is_on_its_way() -> None:
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        heard = listen(second, "c")
        first.call("PUBLISH", "c", "on its way")
        second.pause(R1)
        await until(lambda: R2 not in first.serves)
        second.resume(R1)
        await linked([first, second])
        first.call("PUBLISH", "c", "heard")
        await until(lambda: heard)
        assert heard == [(b"c", b"heard")]


async def test_nothing_is_repeated_when_a_link_comes_back() -> None:
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        heard = listen(second, "c")
        first.call("PUBLISH", "c", "before")
        await until(lambda: heard)
        before = second.pulls[R1].link.reconnects
        second.pulls[R1].reject("a test ends the link")
        await until(lambda: second.pulls[R1].link.reconnects > before)
        await linked([first, second])
        first.call("PUBLISH", "c", "after")
        await until(lambda: len(heard) == 2)
        first.add(1)
        await converged([first, second])
        assert heard == [(b"c", b"before"), (b"c", b"after")]


async def test_publications_are_not_relayed() -> None:
    """Region 3 has effects of region 1 by way of region 2, and no publications."""
    where = addresses()
    first, second = LiveRegion(1, where), LiveRegion(2, where)
    third = LiveRegion(3, {**where, 1: NOBODY})
    async with live_regions([first, second, third]) as regions:
        first.add(1)
        await converged(regions)
        at_second, at_third = listen(second, "c"), listen(third, "c")
        first.call("PUBLISH", "c", "direct only")
        first.add(1)
        await converged(regions)
        await until(lambda: at_second == [(b"c", b"direct only")])
        second.call("PUBLISH", "c", "from two")
        await until(lambda: at_third)
        assert at_third == [(b"c", b"from two")]
        assert first.region.links.serve_stats[R3].publications_lost == 1


# --- Slow links -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def slow_puller(region: int, address: str) -> AsyncIterator[list[pb.SyncResponse]]:
    """A puller that takes no publication; what it was sent."""
    received: list[pb.SyncResponse] = []
    async with grpc.aio.insecure_channel(address) as channel:
        call = rpc.ReplicationStub(channel).Sync()
        await call.write(
            pb.SyncRequest(
                open=pb.Open(
                    protocol=PROTOCOL_VERSION,
                    region=region,
                    database_id="crdb",
                    origins=[1],
                    vv=encode_vv({}),
                    run_id=1,
                    membership=said_of(1, region),
                )
            )
        )

        async def read() -> None:
            async for message in call:
                received.append(message)

        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read())
            yield received
            call.cancel()
            reading.cancel()


def received_weight(received: list[pb.SyncResponse]) -> int:
    return sum(
        len(each.channel) + len(each.payload) + OVERHEAD_BYTES
        for message in received
        for each in message.publications.publications
    )


async def test_a_flood_delays_no_batches_and_stays_within_bounds() -> None:
    """A puller that takes no publications still gets every batch."""
    where = addresses(2)
    first = LiveRegion(1, where, limits=PATIENT)
    payload = "x" * 10_000
    count = 2 * OUTBOX_BYTES_MAX.value // len(payload)
    async with first.running():
        stats = first.region.links.serve_stats[R2]
        async with slow_puller(2, where[1]) as received:
            await until(lambda: any(message.HasField("heartbeat") for message in received))
            for index in range(count):
                first.call("PUBLISH", "c", payload)
                if index % 100 == 0:
                    first.add(1)
                    await asyncio.sleep(0)
            first.add(1)
            outbox = first.serves[R2].outbox
            await until(lambda: stats.effects == first.replica.issued)
            await until(lambda: received_weight(received) >= WINDOW_BYTES.value)
            assert received_weight(received) <= WINDOW_BYTES.value + len(payload) + OVERHEAD_BYTES
            # It was full when the last ones left for the window.
            assert (
                OUTBOX_BYTES_MAX.value - 2 * WINDOW_BYTES.value
                < outbox.waiting_bytes
                <= OUTBOX_BYTES_MAX.value
            )
            assert stats.publications + stats.publications_lost + len(outbox) == count
            assert stats.publications_lost > count / 4
        # What waited for the link is lost with it.
        await until(lambda: stats.publications + stats.publications_lost == count)


async def test_a_burst_goes_through_a_link_that_is_quick_enough() -> None:
    """More than a window at once, less than an outbox: nothing is lost."""
    where = addresses(2)
    # The burst holds the loop up, in which both regions run: neither hears the other meanwhile.
    both = (LiveRegion(number, where, limits=PATIENT) for number in where)
    async with live_regions(both) as (first, second):
        await linked([first, second])
        heard = listen(second, "c")
        payload = "x" * 1_000
        for _ in range(10_000):
            first.call("PUBLISH", "c", payload)
        await until(lambda: len(heard) == 10_000)
        assert first.region.links.serve_stats[R2].publications_lost == 0


# --- Sizes ----------------------------------------------------------------------------------------


async def test_one_that_links_cannot_carry_is_refused_and_nobody_is_told() -> None:
    async with meshed(2, limits=PATIENT) as (first, second):
        await linked([first, second])
        here, there = listen(first, "c"), listen(second, "c")
        largest = "x" * (PUBLICATION_BYTES_MAX.value - 1)
        reply = first.call("PUBLISH", "c", largest + "x")
        assert isinstance(reply, CommandError)
        assert reply.text == (
            "ERR publication of 1048577 bytes: channel and message together may have 1048576 "
            "bytes, because links carry no more to other regions"
        )
        assert first.call("PUBLISH", "c", largest) == 1
        await until(lambda: there)
        assert here == there == [(b"c", largest.encode())]


async def test_a_region_without_peers_publishes_what_it_likes() -> None:
    alone = LiveRegion(1, {1: NOBODY})
    await alone.begin()
    assert alone.region.database.channels.forward_bytes_max is None


# --- What peers send ------------------------------------------------------------------------------


def one(payload: bytes = b"payload", after_n: int = 0) -> Publication:
    return Publication(b"channel", payload, sharded=False, after_n=after_n)


def test_publications_survive_the_way() -> None:
    publications = [one(), Publication(b"", b"\xff\0", sharded=True, after_n=(1 << 64) - 1)]
    message = pb.Publications.FromString(
        encode_publications(Publications(R2, publications)).SerializeToString()
    )
    assert decode_publications(R2, message) == Publications(R2, publications, [])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (encode_publications(Publications(R3, [one()])), "publications.origin: 3"),
        (pb.Publications(), "publications.origin: 0"),
        (
            encode_publications(Publications(R2, [one(), one(bytes(PUBLICATION_BYTES_MAX.value))])),
            r"publications\[1\]: 1048583 bytes",
        ),
    ],
)
def test_impossible_publications_are_refused(message: pb.Publications, reason: str) -> None:
    with pytest.raises(PeerError, match=f"region 2: {reason}"):
        decode_publications(R2, message)


@contextlib.asynccontextmanager
async def peer_that_sends(
    messages: list[pb.SyncResponse], *, heartbeats: bool = True
) -> AsyncIterator[str]:
    """Region 1, which says welcome, sends these, and then heartbeats, or nothing."""

    class Peer(rpc.ReplicationServicer):
        async def Sync(self, requests: Requests, context: Context) -> None:  # noqa: N802
            welcome = pb.Welcome(protocol=PROTOCOL_VERSION, region=1, membership=said_of(1, 2))
            for message in [pb.SyncResponse(welcome=welcome), *messages]:
                await context.write(message)
            while not heartbeats:
                await asyncio.sleep(0.02)
            while True:
                await context.write(pb.SyncResponse(heartbeat=pb.Progress(now_ms=1)))
                await asyncio.sleep(0.02)

    server = grpc.aio.server()
    rpc.add_ReplicationServicer_to_server(Peer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(grace=0)


async def test_a_peer_that_sends_what_it_must_not_loses_the_link() -> None:
    where = addresses(2)
    second = LiveRegion(2, where, limits=PATIENT)
    stolen = pb.SyncResponse(publications=encode_publications(Publications(R3, [one()])))
    async with peer_that_sends([stolen]) as address, second.running():
        second.pulls[R1].address = address
        heard = listen(second, "channel")
        link = second.pulls[R1].link
        await until(lambda: "publications.origin: 3" in link.error)
        assert heard == []


async def test_a_peer_that_ignores_the_window_fills_no_memory() -> None:
    """Publications that wait for effects which never come."""
    where = addresses(2)
    second = LiveRegion(2, where, limits=PATIENT)
    waiting = one(bytes(100_000), after_n=1_000)
    flood = [pb.SyncResponse(publications=encode_publications(Publications(R1, [waiting])))] * 10
    async with peer_that_sends(flood) as address, second.running():
        second.pulls[R1].address = address
        link = second.pulls[R1].link
        await until(lambda: "more than their window allows" in link.error)


# --- Without IO -----------------------------------------------------------------------------------


def test_an_outbox_gives_no_more_than_its_window() -> None:
    outbox = Outbox()
    sent: list[Publication] = []
    while outbox.offer(one(bytes(10_000))):
        pass
    assert outbox.waiting_bytes > OUTBOX_BYTES_MAX.value - 10_000 - 2 * OVERHEAD_BYTES
    while taken := outbox.take(0):
        assert len(taken) <= 4
        sent += taken
    weight = sum(publication.weight for publication in sent)
    assert WINDOW_BYTES.value <= weight < WINDOW_BYTES.value + sent[0].weight
    # A puller that claims more than it was sent opens nothing.
    assert not outbox.note_taken(weight + 1)
    assert outbox.take(0) == []
    assert outbox.note_taken(sent[0].weight)
    assert not outbox.note_taken(sent[0].weight)
    assert len(outbox.take(0)) == 1


def test_one_that_is_larger_than_the_window_goes_alone() -> None:
    outbox = Outbox()
    large = one(bytes(PUBLICATION_BYTES_MAX.value - len(b"channel")))
    assert outbox.offer(large)
    assert outbox.offer(one())
    assert outbox.take(0) == [large]
    assert outbox.take(0) == []
    assert outbox.note_taken(large.weight)
    assert outbox.take(0) == [one()]


def test_an_outbox_keeps_back_what_follows_effects_that_are_not_sent() -> None:
    outbox = Outbox()
    for after_n in (0, 3, 3, 5):
        assert outbox.offer(one(after_n=after_n))
    assert [publication.after_n for publication in outbox.take(2)] == [0]
    assert [publication.after_n for publication in outbox.take(4)] == [3, 3]
    assert outbox.close() == 1
    assert outbox.take(5) == []


def test_publications_wait_for_their_effects_in_order() -> None:
    arrived = Arrived()
    for after_n in (0, 3, 5):
        assert arrived.offer(one(after_n=after_n))
    assert [publication.after_n for publication in arrived.take(4)] == [0, 3]
    assert arrived.taken_bytes == 2 * one().weight
    arrived.clear()
    assert arrived.take(9) == []
    assert arrived.taken_bytes == 0


# --- In the simulator -----------------------------------------------------------------------------


def test_in_a_scenario_publications_stay_in_their_region() -> None:
    """As with live nodes, whose links a scenario holds between two syncs."""
    simulator = Simulator([R1, R2], seed=1)
    simulator.begin(Settings(), [R1, R2])

    def call(region: RegionId, client: str, *words: bytes) -> object:
        return simulator.call(region, client, words, may_wait=False)

    for region in (R1, R2):
        assert call(region, "listener", b"SUBSCRIBE", b"c", b"d") == [b"subscribe", b"c", 1]
        assert simulator.answer(region, "listener", may_wait=False) == [b"subscribe", b"d", 2]
    assert call(R1, "publisher", b"PUBLISH", b"c", b"hello") == 1
    simulator.sync([R1, R2])
    assert simulator.answer(R1, "listener", may_wait=True) == [b"message", b"c", b"hello"]
    assert simulator.answer(R2, "listener", may_wait=True) is WAITING
