"""redis-py's MultiDBClient moves to another region and back: the recipe of docs/failover.md."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
import redis
from redis.asyncio.multidb.client import MultiDBClient as AsyncMultiDBClient
from redis.asyncio.multidb.config import DatabaseConfig as AsyncDatabaseConfig
from redis.asyncio.multidb.config import InitialHealthCheck as AsyncInitialHealthCheck
from redis.asyncio.multidb.config import MultiDbConfig as AsyncMultiDbConfig
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff
from redis.multidb.exception import NoValidDatabaseException, TemporaryUnavailableException
from toxiproxy import Toxiproxy

from tests.conftest import ROOT, program, require
from tests.live.apart import Regions, regions_apart
from tests.live.cluster import wait_until

pytestmark = pytest.mark.live

INTERVAL_SECONDS = 0.1
TOLERANCE_MS = 300
KEY = "s"
# What the application sees while its client looks for a region.
NO_REGION = (
    redis.RedisError,
    NoValidDatabaseException,
    TemporaryUnavailableException,
    ConnectionError,
    TimeoutError,
)


def _recipe() -> Any:
    spec = importlib.util.spec_from_file_location("recipe", ROOT / "docs" / "failover_redis_py.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recipe = _recipe()


def make_check(regions: Regions, kind: str) -> Any:
    if kind == "ping":
        return recipe.ping_check()
    return recipe.lag_check(regions.http_port, lag_ms_max=TOLERANCE_MS)


@pytest.fixture(scope="module")
def regions(
    tmp_path_factory: pytest.TempPathFactory, toxiproxy_server: Toxiproxy
) -> Iterator[Regions]:
    with regions_apart(tmp_path_factory.mktemp("failover"), toxiproxy_server) as found:
        yield found


class Mover(Protocol):
    """A client that moves by itself."""

    def add(self) -> bytes:
        """Append an entry; its ID."""

    def close(self) -> None: ...


class SyncMover:
    def __init__(self, regions: Regions, kind: str) -> None:
        self._client = recipe.failover_client(
            regions.addresses, make_check(regions, kind), interval_seconds=INTERVAL_SECONDS
        )

    def add(self) -> bytes:
        entry: bytes = self._client.xadd(KEY, {"field": "value"})
        return entry

    def close(self) -> None:
        self._client.close()


class AsyncMover:
    """The same in an event loop of its own, which goes on while the test waits."""

    def __init__(self, regions: Regions, kind: str) -> None:
        given = recipe.settings_of(
            regions.addresses, make_check(regions, kind), interval_seconds=INTERVAL_SECONDS
        )
        given["databases_config"] = [
            AsyncDatabaseConfig(
                weight=one.weight,
                health_check_url=one.health_check_url,
                client_kwargs=one.client_kwargs,
            )
            for one in given["databases_config"]
        ]
        given["initial_health_check_policy"] = AsyncInitialHealthCheck.ONE_AVAILABLE
        given["command_retry"] = AsyncRetry(ConstantBackoff(INTERVAL_SECONDS), retries=5)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

        async def connect() -> AsyncMultiDBClient:
            client = AsyncMultiDBClient(AsyncMultiDbConfig(**given))
            await client.initialize()
            return client

        self._client: Any = self._run(connect())

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def add(self) -> bytes:
        entry: bytes = self._run(self._client.xadd(KEY, {"field": "value"}))
        return entry

    def close(self) -> None:
        self._run(self._client.aclose())
        self._run(_end_all_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_all_others() -> None:
    """End the tasks of the loop, as ``asyncio.run`` does.

    The client leaves a round of its health checks running; who ends only the loop has it complain
    in whichever test the garbage collector comes upon it.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


MOVERS: dict[str, Callable[[Regions, str], Mover]] = {"sync": SyncMover, "asyncio": AsyncMover}


class Writing:
    """An application that writes; what was acknowledged, and in which region the last one was."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self.acknowledged: list[bytes] = []

    def writes_in(self, region: int) -> bool:
        """Write once; whether this region took it."""
        try:
            entry = self._mover.add()
        except NO_REGION:
            return False
        self.acknowledged.append(entry)
        # The sequence of an ID tells the region that gave it.
        return int(entry.split(b"-")[1]) % 1024 == region

    def moves_to(self, region: int) -> None:
        wait_until(lambda: self.writes_in(region), f"the client writes in region {region}")


def killed(regions: Regions) -> Callable[[], None]:
    regions[1].end(signal.SIGKILL)
    return regions[1].start


def frozen(regions: Regions) -> Callable[[], None]:
    process = regions[1].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    return lambda: process.send_signal(signal.SIGCONT)


def slowed(regions: Regions) -> Callable[[], None]:
    """What is written in region 3 comes late to region 1: it is reachable, and behind."""
    others = regions[3].connect()
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.01):
            others.xadd("written elsewhere", {"field": "value"})

    writer = threading.Thread(target=write)
    writer.start()
    proxies = [regions.proxies[1, peer] for peer in (2, 3)]
    for proxy in proxies:
        proxy.add_toxic(name="slow", type="latency", attributes={"latency": 2 * TOLERANCE_MS})

    def end() -> None:
        for proxy in proxies:
            proxy.destroy_toxic("slow")
        is_over.set()
        writer.join()

    return end


CASES = [
    (killed, "lag", "sync"),
    (killed, "ping", "asyncio"),
    (frozen, "lag", "asyncio"),
    (frozen, "ping", "sync"),
    (slowed, "lag", "sync"),
    (slowed, "lag", "asyncio"),
]
SHORT = (CASES[0], CASES[3])


@pytest.mark.parametrize(
    ("fault", "check", "kind"),
    [
        pytest.param(
            *case,
            id=f"{case[0].__name__}-{case[1]}-{case[2]}",
            marks=[] if case in SHORT else [pytest.mark.long],
        )
        for case in CASES
    ],
)
def test_a_client_moves_to_another_region_by_itself_and_back(
    regions: Regions, fault: Callable[[Regions], Callable[[], None]], check: str, kind: str
) -> None:
    with contextlib.closing(MOVERS[kind](regions, check)) as mover:
        writing = Writing(mover)
        writing.moves_to(1)
        end = fault(regions)
        try:
            writing.moves_to(2)
        finally:
            end()
        writing.moves_to(1)
    regions.cluster.converge()
    found = {entry for entry, _ in regions[3].client.xrange(KEY)}
    assert set(writing.acknowledged) <= found


@pytest.mark.long
def test_the_recipe_for_node_redis_moves_and_comes_back(regions: Regions) -> None:
    node = program("node", hint="apt-get install nodejs npm, then `make tools`")
    packages = ROOT / ".tools" / "node" / "node_modules"
    require(packages.is_dir(), "Node.js clients are missing: run `make tools` (wants npm)")
    with subprocess.Popen(
        [
            *(node, ROOT / "docs" / "failover_node_redis.cjs"),
            *(str(regions.http_port), *regions.addresses),
        ],
        env={**os.environ, "NODE_PATH": str(packages), "EVERY_MS": "100"},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        told = iter(process.stdout.readline, b"")
        acknowledged = []

        def writes_in(region: int) -> bool:
            line = next(told).strip()
            if b"no region" in line:
                return False
            number, entry = line.split()
            acknowledged.append(number)
            return int(entry.split(b"-")[1]) % 1024 == region

        try:
            for fault in (killed, frozen):
                wait_until(lambda: writes_in(1), "it writes in region 1")
                end = fault(regions)
                try:
                    wait_until(lambda: writes_in(2), "it writes in region 2")
                finally:
                    end()
            wait_until(lambda: writes_in(1), "it comes back to region 1")
        finally:
            process.kill()
    regions.cluster.converge()
    entries = regions[3].client.xrange("messages")
    numbers = [fields[b"n"] for _, fields in entries]
    # What was tried in two regions is one entry, with the ID of one of them.
    assert set(acknowledged) <= set(numbers)
    assert len(set(numbers)) == len(numbers), "a retry in another region is recognised"
