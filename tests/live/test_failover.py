"""redis-py's MultiDBClient moves to another region and back: the recipe of docs/failover.md."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
import redis
import trustme
from redis.asyncio.multidb.client import MultiDBClient as AsyncMultiDBClient
from redis.asyncio.multidb.config import DatabaseConfig as AsyncDatabaseConfig
from redis.asyncio.multidb.config import InitialHealthCheck as AsyncInitialHealthCheck
from redis.asyncio.multidb.config import MultiDbConfig as AsyncMultiDbConfig
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry
from toxiproxy import Toxiproxy

from crdtstream.settings.tables import Limits
from crdtstream.v1 import admin_pb2 as pb
from tests.certificates.making import make
from tests.conftest import ROOT, free_base_port, program, require
from tests.live.apart import Apart, Regions, get, regions_apart, stalling
from tests.live.cluster import Node, cluster_of
from tests.live.test_mutual_tls import Secure, files_of, settings_of
from tests.patience import seconds, wait_until

INTERVAL_SECONDS = 0.1
TOLERANCE_MS = 300
KEY = "s"
AnyRegions = TypeVar("AnyRegions", bound=Apart)


def _recipe() -> Any:
    spec = importlib.util.spec_from_file_location("recipe", ROOT / "docs" / "failover_redis_py.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recipe = _recipe()


def make_check(regions: Apart, kind: str) -> Any:
    if kind == "ping":
        return recipe.ping_check(**regions.connection)
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
    def __init__(self, regions: Apart, kind: str) -> None:
        self._client = recipe.failover_client(
            regions.addresses,
            make_check(regions, kind),
            interval_seconds=INTERVAL_SECONDS,
            **regions.connection,
        )

    def add(self) -> bytes:
        entry: bytes = self._client.xadd(KEY, {"field": "value"})
        return entry

    def close(self) -> None:
        self._client.close()


class AsyncMover:
    """The same in an event loop of its own, which goes on while the test waits."""

    def __init__(self, regions: Apart, kind: str) -> None:
        given = recipe.settings_of(
            regions.addresses,
            make_check(regions, kind),
            interval_seconds=INTERVAL_SECONDS,
            **regions.connection,
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
        # A test run that ends does not wait for it.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def connect() -> AsyncMultiDBClient:
            return AsyncMultiDBClient(AsyncMultiDbConfig(**given))

        self._client: Any = self._run(connect())

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds())

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


MOVERS: dict[str, Callable[[Apart, str], Mover]] = {"sync": SyncMover, "asyncio": AsyncMover}


class Writing:
    """An application that writes; what was acknowledged, and in which region the last one was."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self.acknowledged: list[bytes] = []

    def writes_in(self, region: int) -> bool:
        """Write once; whether this region took it."""
        try:
            entry = self._mover.add()
        except recipe.NO_REGION:
            return False
        self.acknowledged.append(entry)
        # The sequence of an ID tells the region that gave it.
        return int(entry.split(b"-")[1]) % 1024 == region

    def moves_to(self, region: int) -> None:
        wait_until(lambda: self.writes_in(region), f"the client writes in region {region}")


def killed(regions: Apart) -> Callable[[], None]:
    regions[1].end(signal.SIGKILL)
    return regions[1].start


def frozen(regions: Apart) -> Callable[[], None]:
    process = regions[1].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    return lambda: process.send_signal(signal.SIGCONT)


def slowed(regions: Regions) -> Callable[[], None]:
    """Writes of region 3 arrive late in region 1: it is reachable, and behind."""
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


def stalled(regions: Regions) -> Callable[[], None]:
    """It answers all, each time after 0.7 s: in time for the client, and too late for its users."""
    process = regions[1].process
    assert process is not None
    stack = contextlib.ExitStack()
    stack.enter_context(stalling(process))
    return stack.close


CASES = [
    (killed, "lag", "sync"),
    (killed, "ping", "asyncio"),
    (frozen, "lag", "asyncio"),
    (frozen, "ping", "sync"),
    (slowed, "lag", "sync"),
    (slowed, "lag", "asyncio"),
    (stalled, "lag", "sync"),
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
    moves_and_returns(regions, fault, check, kind)


def moves_and_returns(
    regions: AnyRegions, fault: Callable[[AnyRegions], Callable[[], None]], check: str, kind: str
) -> None:
    """A client writes while region 1 has a fault; nothing that was acknowledged is lost."""
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


class SecuredRegions(Apart):
    """Regions that speak TLS alone, to clients and among themselves.

    A client is the user of its certificate; nobody else may do anything.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        secure = Secure(self.cluster, folder)
        aclfile = folder / "users.acl"
        aclfile.write_text("user default off\nuser app on nopass ~* &* +@all\n")
        own = files_of(folder / "app", make(secure.ca.root, "app")).paths
        self.connection = {
            "ssl": True,
            "ssl_ca_certs": str(own.ca),
            "ssl_certfile": str(own.certificate),
            "ssl_keyfile": str(own.key),
        }
        for number, node in self.cluster.nodes.items():
            files = secure.ca.files(number)
            files.put_all(secure.ca.region(number, addresses=[node.host]))
            peers = {n: one.grpc_address for n, one in self.cluster.nodes.items() if n != number}
            secured = {
                "resp_port": 0,
                "tls_port": node.resp_port,
                "tls_auth_clients_user": "CN",
                "aclfile": str(aclfile),
            }
            node.configure(peers, **settings_of(files), **secured)
            node.client = redis.Redis(
                host=node.host,
                port=node.resp_port,
                retry=Retry(NoBackoff(), 0),
                **self.connection,
            )


@pytest.fixture(scope="module")
def secured_regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRegions]:
    regions = SecuredRegions(tmp_path_factory.mktemp("secured"))
    try:
        regions.cluster.start()
        yield regions
    finally:
        regions.cluster.end()


@pytest.mark.parametrize(
    ("fault", "check", "kind"),
    [
        pytest.param(killed, "lag", "sync", id="killed-lag-sync"),
        pytest.param(killed, "ping", "asyncio", id="killed-ping-asyncio"),
        pytest.param(frozen, "ping", "sync", id="frozen-ping-sync", marks=pytest.mark.long),
    ],
)
def test_a_client_with_a_certificate_moves_between_regions_that_speak_tls_alone(
    secured_regions: SecuredRegions,
    fault: Callable[[Apart], Callable[[], None]],
    check: str,
    kind: str,
) -> None:
    moves_and_returns(secured_regions, fault, check, kind)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def tls_before(ports: Sequence[int], authority: trustme.CA) -> Iterator[list[int]]:
    """A proxy that speaks TLS before each port; the ports that it listens on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def listen(upstream: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                ahead = await asyncio.open_connection("127.0.0.1", upstream)
            except OSError:
                writer.close()
                return
            await asyncio.gather(_pipe(reader, ahead[1]), _pipe(ahead[0], writer))

        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(seconds())

    servers = [run(listen(port)) for port in ports]
    try:
        yield [server.sockets[0].getsockname()[1] for server in servers]
    finally:
        for server in servers:
            loop.call_soon_threadsafe(server.close)
        run(_end_all_others())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.long
def test_the_recipe_takes_a_password_and_tls_and_outlives_a_time_without_regions(
    tmp_path: Path,
) -> None:
    node = Node(1, free_base_port(1), tmp_path)
    node.configure({}, requirepass="secret")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    def launched() -> None:
        node.launch()
        status = f"http://127.0.0.1:{node.http_port}/readyz"

        def is_ready() -> bool:
            try:
                return get(status)[0] == 200
            except OSError:
                return False

        wait_until(is_ready, "region 1 is ready")

    with (
        tls_before([node.resp_port, node.http_port], authority) as (resp_port, http_port),
        subprocess.Popen(
            [
                *(sys.executable, ROOT / "docs" / "failover_redis_py.py"),
                *(f"127.0.0.1:{resp_port}", "--http-port", str(http_port)),
                *("--tls-ca-cert-file", str(tmp_path / "ca.pem"), "--https"),
            ],
            env={**os.environ, "REDIS_PASSWORD": "secret"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        told = iter(process.stdout.readline, "")

        def says(begin: str) -> bool:
            line = next(told)
            print(line, end="")
            return line.startswith(begin)

        try:
            wait_until(lambda: says("no region at present: Initial"), "there is none yet")
            launched()
            wait_until(lambda: says("1"), "it writes")
            node.end(signal.SIGKILL)
            wait_until(
                lambda: says("no region at present: No database connections currently"),
                "it goes on without a region",
            )
            launched()
            wait_until(lambda: says("1"), "it writes again")
        finally:
            process.kill()
            if node.process is not None:
                node.end()


@pytest.mark.long
def test_of_two_regions_the_survivor_stays_available_with_the_recipes_tolerance(
    tmp_path: Path,
) -> None:
    with cluster_of(2, tmp_path) as cluster:
        # With the time after which a node that runs by itself takes a peer for lost.  The time in
        # which a busy loop comes to a request is no part of it.
        for node in cluster.nodes.values():
            node.link_silence_ms_max = Limits().link_silence_ms_max
        cluster.configure(availability_latency_tolerance_ms=0)
        cluster.start()
        page = f"http://127.0.0.1:{cluster[1].http_port}/v1/bdbs/1/availability?extend_check=lag"
        asked = f"{page}&availability_lag_tolerance_ms={recipe.LAG_MS_MAX}"
        cluster[1].client.xadd(KEY, {"field": "value"})
        cluster.converge()
        wait_until(lambda: get(asked)[0] == 200, "region 1 is available")
        frozen_process = cluster[2].process
        assert frozen_process is not None
        frozen_process.send_signal(signal.SIGSTOP)
        try:
            found = set()

            def has_lost_its_peer() -> bool:
                found.add(get(asked)[0])
                return cluster[1].link(2).state != pb.LinkStatus.State.UP

            wait_until(has_lost_its_peer, "region 1 takes region 2 for lost")
            found.add(get(asked)[0])
        finally:
            frozen_process.send_signal(signal.SIGCONT)
        assert found == {200}


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
