"""Publishing between regions that are processes, through redis-py and networks that misbehave."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from toxiproxy import Proxy, Toxiproxy

from crdtstream.v1 import admin_pb2 as pb
from tests.live.cluster import Cluster, Node, cluster_of, running_regions
from tests.patience import seconds, wait_until

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])


@pytest.fixture
def two_regions(tmp_path: Path) -> Iterator[Cluster]:
    with running_regions(2, tmp_path) as cluster:
        wait_until_linked(cluster)
        yield cluster


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_regions(2, tmp_path_factory.mktemp("pair")) as cluster:
        wait_until_linked(cluster)
        yield cluster


@pytest.fixture
def pair(started: Cluster) -> Cluster:
    """Two regions for all tests that neither end them nor touch their links; nobody listens."""

    def are_left() -> bool:
        clients = [node.client for node in started.nodes.values()]
        return not any(
            client.pubsub_channels() or client.pubsub_shardchannels() or client.pubsub_numpat()
            for client in clients
        )

    wait_until(are_left, "nobody listens any more")
    return started


def wait_until_linked(cluster: Cluster) -> None:
    """Until a publication of each region is heard in each other one."""
    for region, node in cluster.nodes.items():
        for peer in cluster.nodes.keys() - {region}:
            wait_until(partial(is_up, node, peer), f"region {region} is linked to {peer}")


def is_up(node: Node, peer: int) -> bool:
    return node.link(peer).state == pb.LinkStatus.State.UP


class Listener:
    """A redis-py subscriber."""

    def __init__(self, node: Node, channel: str, protocol: int = 3) -> None:
        self.client = redis.Redis(port=node.resp_port, protocol=protocol, socket_timeout=seconds())
        self.pubsub = self.client.pubsub(ignore_subscribe_messages=True)
        self.pubsub.subscribe(channel)
        wait_until(lambda: self._counts(channel), "it has subscribed")

    def _counts(self, channel: str) -> int:
        self.pubsub.get_message()
        ((_, count),) = self.client.pubsub_numsub(channel)
        return int(count)

    def next(self) -> bytes:
        """The next message's data, which must come."""
        deadline = time.monotonic() + seconds()
        while time.monotonic() < deadline:
            message: Any = self.pubsub.get_message(timeout=seconds())
            if message is not None:
                data: bytes = message["data"]
                return data
        raise AssertionError("no message came")

    def close(self) -> None:
        self.pubsub.close()
        self.client.close()


@contextlib.contextmanager
def listening(node: Node, channel: str, protocol: int = 3) -> Iterator[Listener]:
    listener = Listener(node, channel, protocol)
    try:
        yield listener
    finally:
        listener.close()


@PROTOCOLS
def test_another_region_hears(pair: Cluster, protocol: int) -> None:
    publisher = pair[1].client
    with (
        listening(pair[1], "news", protocol) as here,
        listening(pair[2], "news", protocol) as there,
    ):
        wait_until(lambda: publisher.pubsub_numsub("news") == [(b"news", 2)], "both are known")
        for index in range(200):
            assert publisher.publish("news", index) == 2
        for listener in (here, there):
            assert [int(listener.next()) for _ in range(200)] == list(range(200))
        pair[2].client.publish("news", "back")
        assert here.next() == there.next() == b"back"


@PROTOCOLS
def test_patterns_and_shard_channels_reach_across(pair: Cluster, protocol: int) -> None:
    with contextlib.closing(
        redis.Redis(port=pair[2].resp_port, protocol=protocol, decode_responses=True)
    ) as client:
        there = client.pubsub()
        there.psubscribe("room:*")
        there.ssubscribe("room:7")
        told = [there.get_message(timeout=seconds()) for _ in range(2)]
        assert [message["type"] for message in told] == ["psubscribe", "ssubscribe"]
        pair[1].client.publish("room:7", "by pattern")
        pair[1].client.spublish("room:7", "by shard")
        heard = [there.get_message(timeout=seconds()) for _ in range(2)]
        there.close()
    assert [(message["type"], message["channel"], message["data"]) for message in heard] == [
        ("pmessage", "room:7", "by pattern"),
        ("smessage", "room:7", "by shard"),
    ]


@PROTOCOLS
async def test_another_region_hears_through_asyncio(pair: Cluster, protocol: int) -> None:
    ports = [node.resp_port for node in pair.nodes.values()]
    async with (
        redis.asyncio.Redis(port=ports[0], protocol=protocol) as first,
        redis.asyncio.Redis(port=ports[1], protocol=protocol) as second,
        second.pubsub() as there,
        asyncio.timeout(seconds()),
    ):
        await there.subscribe("news")
        messages = there.listen()
        assert (await anext(messages))["type"] == "subscribe"
        heard = []
        for index in range(100):
            await first.publish("news", index)
        async for message in messages:
            heard.append(int(message["data"]))
            if len(heard) == 100:
                break
        assert heard == list(range(100))


@PROTOCOLS
def test_subscribers_of_any_region_are_counted_in_every_region(
    pair: Cluster, protocol: int
) -> None:
    """The question of socket.io's fetchSockets() before it waits for answers."""
    first, second = pair[1], pair[2]
    with (
        listening(first, "room", protocol),
        listening(second, "room", protocol),
        listening(second, "room", protocol),
        contextlib.closing(
            redis.Redis(port=second.resp_port, protocol=protocol, decode_responses=True)
        ) as client,
    ):
        there = client.pubsub()
        there.psubscribe("ro*")
        there.ssubscribe("room")
        for node in (first, second):
            wait_until(lambda node=node: numbers(node.client) == (3, 1, 1), "all are known")  # type: ignore[misc]
            assert node.client.pubsub_channels() == node.client.pubsub_shardchannels() == [b"room"]
            assert node.client.publish("room", "hello") == 4
            assert node.client.spublish("room", "hello") == 1
        there.close()
    for node in (first, second):
        wait_until(lambda node=node: numbers(node.client) == (0, 0, 0), "nobody listens")  # type: ignore[misc]
        assert node.client.pubsub_channels() == []
        assert node.client.publish("room", "hello") == 0


def numbers(client: Any) -> tuple[int, int, int]:
    """Numbers of subscribers of the channel, of the shard channel, of patterns."""
    ((_, channel),) = client.pubsub_numsub("room")
    ((_, shard),) = client.pubsub_shardnumsub("room")
    return channel, shard, client.pubsub_numpat()


@pytest.mark.long
def test_a_region_that_is_gone_counts_no_more(two_regions: Cluster) -> None:
    first, second = two_regions[1], two_regions[2]
    with listening(second, "room"):
        wait_until(lambda: first.client.publish("room", "hello") == 1, "it is known")
        second.end(signal.SIGKILL)
        wait_until(lambda: numbers(first.client)[0] == 0, "it is forgotten")
        assert first.client.publish("room", "hello") == 0
    second.start()
    wait_until_linked(two_regions)
    with listening(second, "room"):
        wait_until(lambda: first.client.publish("room", "hello") == 1, "it is known again")


def test_an_entry_can_be_read_when_its_publication_arrives(pair: Cluster) -> None:
    first, second = pair[1].client, pair[2].client
    with listening(pair[2], "added") as there:
        for index in range(50):
            with first.pipeline(transaction=index % 2 == 0) as pipeline:
                pipeline.xadd("s", {"index": index})
                pipeline.publish("added", index)
                pipeline.execute()
        for index in range(50):
            assert int(there.next()) == index
            assert second.xlen("s") > index


def test_a_paused_link_carries_no_publications(two_regions: Cluster) -> None:
    first, second = two_regions[1], two_regions[2]
    with listening(second, "probe") as there:
        first.client.publish("probe", "before")
        assert there.next() == b"before"
        second.set_links(paused=True)
        assert second.link(1).state == pb.LinkStatus.State.PAUSED
        wait_until(lambda: first.client.publish("probe", "lost") == 0, "the link carries nothing")
        second.set_links(paused=False)
        wait_until_linked(two_regions)
        first.client.publish("probe", "after")
        assert there.next() == b"after"


@pytest.mark.long
def test_a_subscriber_that_does_not_read_is_cut_off_in_its_region_only(
    two_regions: Cluster,
) -> None:
    first, second = two_regions[1], two_regions[2]
    lazy = second.connect().pubsub()
    lazy.subscribe("flood")
    wait_until(lambda: second.client.pubsub_numsub("flood")[0][1] == 1, "it has subscribed")
    with listening(second, "flood") as eager:
        payload = b"x" * 500_000

        def is_cut_off() -> bool:
            first.client.publish("flood", payload)
            assert eager.next() == payload
            return bool(second.client.pubsub_numsub("flood")[0][1] == 1)

        wait_until(is_cut_off, "the lazy one is cut off")
        first.client.xadd("s", {"f": "v"})
        two_regions.converge()
    lazy.close()


# --- Through a proxy ------------------------------------------------------------------------------


class Proxied:
    """Two regions; region 2 pulls from region 1 through a proxy."""

    def __init__(self, cluster: Cluster, toxiproxy: Toxiproxy) -> None:
        self.cluster = cluster
        self.proxy: Proxy = toxiproxy.create(cluster[1].grpc_address, "2-pulls-1")
        cluster.configure({(2, 1): self.proxy.listen})
        cluster.start()
        wait_until_linked(cluster)


@pytest.fixture
def proxied(tmp_path: Path, toxiproxy: Toxiproxy) -> Iterator[Proxied]:
    with cluster_of(2, tmp_path) as cluster:
        yield Proxied(cluster, toxiproxy)


@pytest.mark.long
def test_only_publications_during_a_cut_of_the_link_are_lost(
    proxied: Proxied,
) -> None:
    cluster = proxied.cluster
    with listening(cluster[2], "probe") as there:
        cluster[1].client.publish("probe", "before")
        assert there.next() == b"before"
        proxied.proxy.disable()
        wait_until(
            lambda: cluster[2].link(1).state == pb.LinkStatus.State.BACKOFF, "region 2 is cut off"
        )
        for index in range(10):
            cluster[1].client.publish("probe", f"lost {index}")
        cluster[1].client.xadd("s", {"f": "v"})
        proxied.proxy.enable()
        cluster.converge()
        wait_until_linked(cluster)
        cluster[1].client.publish("probe", "after")
        assert there.next() == b"after"


def rss_bytes(node: Node) -> int:
    return int(node.client.info("memory")["used_memory_rss"])


@pytest.mark.long
def test_a_flood_over_a_slow_link_delays_no_entries_and_fills_no_memory(proxied: Proxied) -> None:
    """300 MB are published over a link of 500 KB/s; entries arrive all the same."""
    cluster = proxied.cluster
    first, second = cluster[1], cluster[2]
    proxied.proxy.add_toxic(type="bandwidth", attributes={"rate": 500})
    before = [rss_bytes(node) for node in (first, second)]
    payload = b"x" * 10_000
    reconnects = second.link(1).reconnects
    for index in range(30):
        with first.client.pipeline(transaction=False) as pipeline:
            for _ in range(1_000):
                pipeline.publish("flood", payload)
            pipeline.execute()
        first.client.xadd("s", {"index": index})
    # What is waiting by now would alone take longer than anyone waits here.
    cluster.converge()
    assert second.client.xlen("s") == 30
    grown = [rss_bytes(node) - was for node, was in zip((first, second), before, strict=True)]
    assert max(grown) < 100 << 20
    link = second.link(1)
    assert link.reconnects == reconnects, link.error


def test_each_region_notifies_of_the_changes_of_the_other(pair: Cluster) -> None:
    one, other = pair[1], pair[2]
    one.client.config_set("notify-keyspace-events", "K$gt")
    with listening(one, "__keyspace@0__:shared") as heard:
        other.client.xadd("shared", {"f": "v"})
        assert heard.next() == b"xadd"
        other.client.delete("shared")
        assert heard.next() == b"del"
        other.client.set("shared", "v")
        assert heard.next() == b"set"
    one.client.config_set("notify-keyspace-events", "")
