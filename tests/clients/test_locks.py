"""Frameworks that lock and cache with strings, on real nodes: redis-py's Lock, walrus, taskiq."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
import walrus
from redis.exceptions import LockError, LockNotOwnedError
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from tests.live.cluster import Cluster, running_regions
from tests.patience import exactly, seconds, wait_until

# What nothing here waits for.
LONG_S = exactly(600.0)


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


@pytest.fixture
def client(cluster: Cluster) -> Iterator[redis.Redis]:
    with redis.Redis(port=cluster[1].resp_port) as client:
        yield client


# --- redis-py -----------------------------------------------------------------------------------


def test_redis_py_s_lock(client: redis.Redis) -> None:
    first = client.lock("resource", timeout=LONG_S)
    second = client.lock("resource", timeout=LONG_S)
    assert first.acquire(blocking=False)
    assert not second.acquire(blocking=False)
    assert first.locked()
    assert first.owned()
    assert not second.owned()
    assert first.extend(LONG_S)
    assert client.pttl("resource") > LONG_S * 1000
    assert first.reacquire()
    assert client.pttl("resource") <= LONG_S * 1000
    assert first.extend(2 * LONG_S, replace_ttl=True)
    assert client.pttl("resource") > LONG_S * 1000
    second.local.token = b"not the owner's"
    for refused in (second.release, second.reacquire, lambda: second.extend(1)):
        second.local.token = b"not the owner's"
        with pytest.raises(LockNotOwnedError):
            refused()
    first.release()
    assert client.get("resource") is None
    with pytest.raises(LockError):
        first.release()
    with client.lock("resource", timeout=LONG_S, blocking_timeout=LONG_S):
        assert client.exists("resource")
    assert client.script_exists(first.lua_release.sha) == [True]


def test_redis_py_s_lock_excludes(client: redis.Redis) -> None:
    """Threads that count with GET and SET under the lock lose nothing."""
    client.set("count", 0)

    def count() -> None:
        for _ in range(10):
            with client.lock("resource", timeout=LONG_S, sleep=0.001):
                client.set("count", int(client.get("count") or 0) + 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("count") == b"40"


async def test_redis_py_s_lock_with_asyncio(cluster: Cluster) -> None:
    async with redis.asyncio.Redis(port=cluster[1].resp_port) as client:
        first = client.lock("resource", timeout=LONG_S)
        second = client.lock("resource", timeout=LONG_S)
        assert await first.acquire(blocking=False)
        assert not await second.acquire(blocking=False)
        assert await first.extend(1)
        assert await first.reacquire()
        await first.release()
        async with second:
            assert await second.owned()
        assert not await client.exists("resource")


def test_a_lock_excludes_within_its_region_only(cluster: Cluster) -> None:
    """Both regions take it while they do not hear each other; then the lowest dot's has it."""
    locks = {
        number: redis.Redis(port=cluster[number].resp_port).lock("resource", timeout=LONG_S)
        for number in (1, 2)
    }
    for number in (1, 2):
        cluster[number].set_links(paused=True)
    try:
        assert all(lock.acquire(blocking=False) for lock in locks.values())
    finally:
        for number in (1, 2):
            cluster[number].set_links(paused=False)
    cluster.converge()
    assert locks[1].owned()
    assert not locks[2].owned()
    with pytest.raises(LockNotOwnedError):
        locks[2].release()
    locks[1].release()
    cluster.converge()
    assert not cluster[2].client.exists("resource")


# --- walrus -------------------------------------------------------------------------------------


@pytest.fixture
def database(cluster: Cluster) -> Iterator[walrus.Database]:
    database = walrus.Database(port=cluster[1].resp_port)
    yield database
    database.close()


@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
def test_walrus_s_cache(database: walrus.Database) -> None:
    cache = database.cache(name="pages", default_timeout=int(LONG_S))
    assert cache.get("a") is None
    cache.set("a", {"n": [1, 2, None]})
    assert cache.get("a") == {"n": [1, 2, None]}
    assert 0 < database.ttl("pages:a") <= LONG_S
    cache.set_many({"b": 2, "c": "three"})
    assert cache.get_many(["a", "b", "c", "d"]) == {"a": {"n": [1, 2, None]}, "b": 2, "c": "three"}
    assert sorted(cache.keys()) == ["pages:a", "pages:b", "pages:c"]
    assert cache.delete("a")
    assert cache.get("a") is None

    calls = []

    @cache.cached()  # type: ignore[untyped-decorator]
    def square(n: int) -> int:
        calls.append(n)
        return n * n

    assert [square(3), square(3), square(4)] == [9, 9, 16]
    assert calls == [3, 4]
    cache.flush()
    assert list(cache.keys()) == []


def test_walrus_s_lock(database: walrus.Database) -> None:
    first = database.lock("resource", ttl=int(LONG_S * 1000))
    second = database.lock("resource", ttl=int(LONG_S * 1000))
    assert first.acquire()
    assert not second.acquire(block=False)
    assert not second.release()
    assert 0 < database.pttl("lock:resource") <= LONG_S * 1000
    assert first.release()
    with second:
        assert not first.acquire(block=False)
    assert database.keys() == []
    assert database.cas("name", "", "one")
    assert not database.cas("name", "two", "three")
    assert database.cas("name", "one", "two")
    assert database["name"] == b"two"


@pytest.mark.parametrize("region", [1, 2])
def test_a_waiter_for_a_walrus_lock_gets_it_when_it_is_released(
    cluster: Cluster, database: walrus.Database, region: int
) -> None:
    """Wherever in the database the lock is given back: its event is that it is gone."""
    holder = database.lock("resource", lock_id=b"holder")
    assert holder.acquire()
    cluster.converge()
    elsewhere = walrus.Database(port=cluster[region].resp_port)
    # Its BLPOP waits for so long that only the event can end it.
    waiter = elsewhere.lock("resource", ttl=int(LONG_S * 1000))
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(waiter.acquire()))
    thread.start()
    try:
        wait_until(
            lambda: cluster[region].client.info("clients")["blocked_clients"] == 1,
            "a client that waits for the lock",
        )
        assert got == []
    finally:
        assert holder.release()
        thread.join()
    assert got == [True]
    assert waiter.release()
    elsewhere.close()


def test_blpop_of_anything_else_is_refused(database: walrus.Database) -> None:
    with pytest.raises(redis.ResponseError, match="there are no lists here"):
        database.blpop("queue", 1)


# --- taskiq -------------------------------------------------------------------------------------


def broker_of(cluster: Cluster, region: int, **options: Any) -> RedisStreamBroker:
    url = f"redis://127.0.0.1:{cluster[region].resp_port}"
    results: RedisAsyncResultBackend[Any] = RedisAsyncResultBackend(
        url, result_ex_time=int(LONG_S), **options
    )
    return RedisStreamBroker(
        url,
        consumer_group_name="workers",
        consumer_id="0",
        xread_block=50,
        idle_timeout=0,
        unacknowledged_lock_timeout=LONG_S,
    ).with_result_backend(results)


@asynccontextmanager
async def working(broker: RedisStreamBroker) -> AsyncIterator[None]:
    """The broker's worker runs within the block."""
    broker.is_worker_process = True
    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker))
    try:
        yield
    finally:
        receiver.cancel()
        # Taskiq 0.13 waits for the read that it has cancelled, which goes on if redis-py was not
        # waiting just then: something to read ends it.
        while not (await asyncio.wait([receiver], timeout=exactly(2)))[0]:
            async with redis.asyncio.Redis(connection_pool=broker.connection_pool) as client:
                await client.xadd("taskiq", {b"data": b""})
        await broker.shutdown()


@pytest.mark.parametrize("keep_results", [True, False])
async def test_taskiq_runs_tasks_and_keeps_results(cluster: Cluster, keep_results: bool) -> None:
    """Tasks go to one region and are worked on there; the reclaim lock is taken in a pipeline."""
    broker = broker_of(cluster, 1, keep_results=keep_results)

    @broker.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with working(broker):
        tasks = [await add.kiq(n, 1) for n in range(20)]
        results = [await task.wait_result(timeout=seconds()) for task in tasks]
        assert [result.return_value for result in results] == [n + 1 for n in range(20)]
        assert not any(result.is_err for result in results)
        client = cluster[1].client
        await asyncio.to_thread(
            wait_until,
            lambda: client.xpending("taskiq", "workers")["pending"] == 0,
            "all acknowledged",
        )
        await asyncio.to_thread(
            wait_until,
            lambda: client.exists("autoclaim:workers:taskiq") == 0,
            "the reclaim lock given back",
        )
        assert bool(client.exists(tasks[0].task_id)) is keep_results


async def test_taskiq_reclaims_what_a_worker_left(cluster: Cluster) -> None:
    """Read by a worker that is gone, never acknowledged: another one claims it under the lock."""
    broker = broker_of(cluster, 1)
    done: list[int] = []

    @broker.task
    async def note(n: int) -> None:
        done.append(n)

    await broker.startup()
    await note.kiq(1)
    client = cluster[1].client
    client.xreadgroup("workers", "gone", {"taskiq": ">"})
    assert client.xpending("taskiq", "workers")["pending"] == 1
    async with working(broker):
        await note.kiq(2)
        # At least once: it may claim, too, what it has read itself and not acknowledged yet.
        await asyncio.to_thread(wait_until, lambda: set(done) == {1, 2}, "both tasks done")
        await asyncio.to_thread(
            wait_until,
            lambda: client.xpending("taskiq", "workers")["pending"] == 0,
            "both acknowledged",
        )


async def test_a_result_is_read_in_another_region(cluster: Cluster) -> None:
    broker, reader = broker_of(cluster, 1), broker_of(cluster, 2)

    @broker.task
    async def double(n: int) -> int:
        return 2 * n

    async with working(broker):
        task = await double.kiq(21)
        await task.wait_result(timeout=seconds())
        await asyncio.to_thread(cluster.converge)
        await reader.result_backend.startup()
        result = await reader.result_backend.get_result(task.task_id)
        assert result.return_value == 42
        await reader.result_backend.shutdown()
