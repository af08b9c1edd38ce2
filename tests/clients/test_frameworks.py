"""FastStream on two real regions: what one region publishes, a group in the other consumes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
from faststream.redis import RedisBroker, StreamSub
from pydantic import BaseModel

from tests.conftest import ROOT
from tests.live.cluster import Cluster, running_regions
from tests.patience import seconds, wait_until

Work: TypeAlias = Callable[[dict[str, int]], Awaitable[None]]
Subscribe: TypeAlias = Callable[[Work], Work]


class Order(BaseModel):
    number: int
    text: str
    tags: list[str] = []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_regions(2, tmp_path_factory.mktemp("regions")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Two regions without any keys."""
    running.converge()
    running[1].client.flushall()
    running.converge()
    return running


def broker_of(cluster: Cluster, region: int) -> RedisBroker:
    # That there may be no logger, its types do not say.
    quiet: Any = None
    return RedisBroker(f"redis://127.0.0.1:{cluster[region].resp_port}", logger=quiet)


@asynccontextmanager
async def publishing(cluster: Cluster, region: int) -> AsyncIterator[RedisBroker]:
    async with broker_of(cluster, region) as broker:
        yield broker


@asynccontextmanager
async def consuming(broker: RedisBroker) -> AsyncIterator[None]:
    """The broker's subscribers run within the block."""
    await broker.start()
    try:
        yield
    finally:
        await broker.stop()


async def until(holds: Any, what: str) -> None:
    """``wait_until`` for a test whose own loop must go on."""
    await asyncio.to_thread(wait_until, holds, what)


def pending(cluster: Cluster, region: int, key: str) -> int:
    count: int = cluster[region].client.xpending(key, "workers")["pending"]
    return count


def orders(count: int) -> list[Order]:
    return [Order(number=n, text="Grüße\r\n\0" * n, tags=["a", "ü"]) for n in range(count)]


async def test_a_group_consumes_what_another_region_publishes(cluster: Cluster) -> None:
    got: list[Order] = []
    broker = broker_of(cluster, 2)

    @broker.subscriber(stream=StreamSub("orders", group="workers", consumer="one"))
    async def handle(order: Order) -> None:
        got.append(order)

    sent = orders(50)
    async with consuming(broker), publishing(cluster, 1) as publisher:
        for order in sent:
            await publisher.publish(order, stream="orders")
        await until(lambda: len(got) >= len(sent), "all consumed")
        await until(lambda: pending(cluster, 2, "orders") == 0, "all acknowledged")
    assert got == sent
    # The group is everywhere, and so is what it is done with.
    cluster.converge()
    assert pending(cluster, 1, "orders") == 0
    assert not cluster[1].client.xreadgroup("workers", "late", {"orders": ">"})


async def test_consumers_of_one_group_share_the_work(cluster: Cluster) -> None:
    got: dict[str, list[int]] = {"one": [], "two": []}
    broker = broker_of(cluster, 2)

    def subscribe(name: str) -> None:
        stream = StreamSub("orders", group="workers", consumer=name, max_records=1)

        @broker.subscriber(stream=stream)
        async def handle(order: Order) -> None:
            got[name].append(order.number)
            await asyncio.sleep(0)

    for name in got:
        subscribe(name)
    async with consuming(broker), publishing(cluster, 1) as publisher:
        for order in orders(40):
            await publisher.publish(order, stream="orders")
        await until(lambda: sum(map(len, got.values())) >= 40, "all consumed")
        await until(lambda: pending(cluster, 2, "orders") == 0, "all acknowledged")
    assert sorted(got["one"] + got["two"]) == list(range(40))


async def test_results_of_a_handler_are_published_to_the_first_region(cluster: Cluster) -> None:
    replies: list[int] = []
    worker, asker = broker_of(cluster, 2), broker_of(cluster, 1)

    @worker.subscriber(stream=StreamSub("orders", group="workers", consumer="one"))
    @worker.publisher(stream="done")
    async def handle(order: Order) -> int:
        return order.number * 2

    @asker.subscriber(stream=StreamSub("done", last_id="0"))
    async def note(number: int) -> None:
        replies.append(number)

    async with consuming(worker), consuming(asker):
        for order in orders(10):
            await asker.publish(order, stream="orders")
        await until(lambda: len(replies) >= 10, "all answered")
    assert replies == [n * 2 for n in range(10)]


async def test_batches(cluster: Cluster) -> None:
    got: list[list[int]] = []
    broker = broker_of(cluster, 2)
    stream = StreamSub("orders", group="workers", consumer="one", batch=True, max_records=10)

    @broker.subscriber(stream=stream)
    async def handle(batch: list[Order]) -> None:
        got.append([order.number for order in batch])

    async with consuming(broker), publishing(cluster, 1) as publisher:
        for order in orders(30):
            await publisher.publish(order, stream="orders")
        await until(lambda: sum(map(len, got)) >= 30, "all consumed")
        await until(lambda: pending(cluster, 2, "orders") == 0, "all acknowledged")
    assert [number for batch in got for number in batch] == list(range(30))
    assert max(map(len, got)) <= 10


@pytest.mark.parametrize("claims_while_reading", [False, True], ids=["XAUTOCLAIM", "CLAIM"])
async def test_entries_of_a_crashed_consumer_are_recovered(
    cluster: Cluster, claims_while_reading: bool
) -> None:
    async with publishing(cluster, 1) as publisher:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.clients.stuck_consumer", str(cluster[2].resp_port)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        ) as crashing:
            try:
                assert crashing.stdout is not None
                await until(lambda: cluster[2].client.exists("jobs"), "a group on jobs")
                await publisher.publish({"number": 7}, stream="jobs")
                took = await asyncio.wait_for(
                    asyncio.to_thread(crashing.stdout.readline), seconds()
                )
                assert took == "took 7\n"
            finally:
                crashing.kill()
    assert pending(cluster, 2, "jobs") == 1

    got: list[int] = []
    rescuer = broker_of(cluster, 2)
    option = "claim_min_idle_time" if claims_while_reading else "min_idle_time"
    given: dict[str, Any] = {"polling_interval": 10, option: 50}
    stream: Any = StreamSub("jobs", group="workers", consumer="rescuer", **given)
    subscribe: Subscribe = rescuer.subscriber(stream=stream)

    @subscribe
    async def work(job: dict[str, int]) -> None:
        got.append(job["number"])

    async with consuming(rescuer):
        await until(lambda: got, "the job is taken again")
        await until(lambda: pending(cluster, 2, "jobs") == 0, "it is acknowledged")
    assert got == [7]
