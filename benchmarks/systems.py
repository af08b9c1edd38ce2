"""The systems that are measured, as processes of this machine.

Every system listens on ports that were free, keeps its data in a folder of the run, and tells its
pids, so that the processor time of all its nodes is counted.
"""

import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import redis
from prometheus_client.parser import text_string_to_metric_families
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchmarks.processes import (
    HOST,
    cpu_seconds,
    free_ports,
    running,
    wait_for_ping,
    wait_for_rest,
    wait_until,
)
from crdtstream import compiled
from crdtstream.core.ids import RegionId
from crdtstream.local.certificates import make_certificates, settings_of
from crdtstream.local.regions import LocalRegions, Settings
from crdtstream.settings.addresses import GRPC_PORT_BASE, HTTP_PORT_BASE, RESP_PORT_BASE
from crdtstream.settings.node_settings import DATABASE_ID_DEFAULT

TREE: Final = Path(__file__).resolve().parent.parent
PORT_SHIFTS: Final = (0, GRPC_PORT_BASE - RESP_PORT_BASE, HTTP_PORT_BASE - RESP_PORT_BASE)
CONVERGE_SECONDS_MAX: Final = 300


class Nodes(Protocol):
    """Processes, by number from 0."""

    def pids(self) -> list[int]: ...

    def pid(self, node: int) -> int: ...

    def stop(self, node: int) -> None: ...

    def start(self, node: int) -> None: ...


@dataclass(slots=True)
class System:
    """Some nodes with Redis's protocol.

    Attributes:
        ports: of the nodes; clients write to the first.
        writable: how many of them take writes.
        metrics_port: where the first node tells its metrics; None: nowhere.
        nodes: their processes.
    """

    name: str
    ports: Sequence[int]
    nodes: "Nodes"
    writable: int = 1
    metrics_port: int | None = None
    clients: dict[int, Any] = field(default_factory=dict)

    @property
    def pids(self) -> list[int]:
        """Of all nodes that run."""
        return self.nodes.pids()

    def client(self, node: int = 0) -> Any:
        """A client of the n-th node."""
        if node not in self.clients:
            # By itself it would try for seconds, with growing pauses: a node that starts meanwhile
            # would seem to be away for as long.
            self.clients[node] = redis.Redis(
                port=self.ports[node], socket_timeout=600, retry=Retry(NoBackoff(), 0)
            )
        return self.clients[node]

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pids)

    def rest(self) -> None:
        wait_for_rest(self.pids)

    def metric(self, name: str, **labels: str) -> float:
        """A figure of the first node's metrics; 0: it is not told.

        Raises:
            OSError: the system tells none.
        """
        if self.metrics_port is None:
            raise OSError(f"{self.name} has no metrics")
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}/metrics") as page:
            text = page.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def wait_for_length(self, key: str, length: int) -> None:
        """Wait until the stream is as long in every node."""
        for node in range(len(self.ports)):
            what = f"{length} entries in node {node + 1} of {self.name}"
            wait_until(partial(self._has_length, node, key, length), what, CONVERGE_SECONDS_MAX)

    def _has_length(self, node: int, key: str, length: int) -> bool:
        found: int = self.client(node).xlen(key)
        return found == length

    def drop(self, key: str) -> None:
        """Delete a key everywhere, and let all nodes come to rest."""
        self.client().delete(key)
        self.wait_for_length(key, 0)
        self.rest()


# A way to start a system in a folder of its own.
Starter = Callable[[Path], AbstractContextManager[System]]


@contextmanager
def started(starters: Mapping[str, Starter]) -> Iterator[dict[str, System]]:
    """All of them side by side; what they wrote goes with them."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        found = {}
        for at, (name, start) in enumerate(starters.items()):
            own = folder / str(at)
            own.mkdir()
            system = stack.enter_context(start(own))
            system.name = name
            found[name] = system
        yield found


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk of the working tree's machine, removed in the end."""
    with tempfile.TemporaryDirectory(prefix="crdtstream-bench-") as name:
        yield Path(name)


# --- Redis --------------------------------------------------------------------------------------


class RedisNodes:
    """redis-servers, each with its command."""

    def __init__(self, commands: Sequence[list[str]]) -> None:
        self._commands = commands
        self._running: dict[int, tuple[int, ExitStack]] = {}

    def pids(self) -> list[int]:
        return [pid for pid, _ in self._running.values()]

    def pid(self, node: int) -> int:
        return self._running[node][0]

    def start(self, node: int) -> None:
        stack = ExitStack()
        self._running[node] = stack.enter_context(running(self._commands[node])), stack

    def stop(self, node: int) -> None:
        self._running.pop(node)[1].close()

    def stop_all(self) -> None:
        for node in list(self._running):
            self.stop(node)


def redis_servers(
    fsync: str = "everysec", *, replicas: int = 0, options: Sequence[str] = ()
) -> Starter:
    """A redis-server with its append-only file, and replicas that have one too."""

    @contextmanager
    def start(folder: Path) -> Iterator[System]:
        ports = range(first := free_ports(1 + replicas), first + 1 + replicas)
        commands = []
        for port in ports:
            own = folder / str(port)
            own.mkdir()
            replica_of = [] if port == first else ["--replicaof", HOST, str(first)]
            commands.append([*redis_command(own, port, fsync), *replica_of, *options])
        nodes = RedisNodes(commands)
        try:
            for node, port in enumerate(ports):
                nodes.start(node)
                wait_for_ping(port)
            system = System("Redis", ports, nodes)
            for replica in range(1, 1 + replicas):
                wait_until(partial(is_linked, system, replica), f"replica {replica}")
            yield system
        finally:
            nodes.stop_all()

    return start


def is_linked(system: System, replica: int) -> bool:
    """True if the replica hears its master."""
    link: str = system.client(replica).info("replication")["master_link_status"]
    return link == "up"


def redis_command(folder: Path, port: int, fsync: str) -> list[str]:
    command = ["redis-server", "--port", str(port), "--bind", HOST, "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", fsync, "--dir", str(folder)]
    # Without the pause that is for replicas to come, which here stand ready.
    return [*command, "--maxclients", "15000", "--repl-diskless-sync-delay", "0"]


def is_there(program: str) -> bool:
    return shutil.which(program) is not None


# --- Regions ------------------------------------------------------------------------------------


class RegionNodes:
    """Nodes of regions; the n-th is region n + 1."""

    def __init__(self, local: LocalRegions) -> None:
        self.local = local
        self._running = [own.region for own in local.regions]

    def pids(self) -> list[int]:
        return [self.local.pid(region) for region in self._running]

    def pid(self, node: int) -> int:
        return self.local.pid(RegionId(node + 1))

    def start(self, node: int) -> None:
        self.local.start(RegionId(node + 1))
        self._running.append(RegionId(node + 1))

    def stop(self, node: int) -> None:
        """kill -9: the node knows nothing of it beforehand."""
        self._running.remove(RegionId(node + 1))
        self.local.kill(RegionId(node + 1))


def regions(
    fsync: str = "everysec",
    *,
    count: int = 1,
    tree: Path = TREE,
    settings: Settings | None = None,
    ways: Mapping[tuple[RegionId, RegionId], str] | None = None,
    base_port: int | None = None,
    node: Sequence[str] | None = None,
    is_pure: bool = False,
    tls_links: bool = False,
) -> Starter:
    """Regions of crdtstream, of this tree or of another checkout.

    Args:
        ways: as ``LocalRegions`` takes them.
        base_port: None: any whose ports are free.
        node: the words that start a node, before its options; None: this Python's.
        is_pure: run the sources, also where compiled code is there.
        tls_links: they speak mutual TLS to each other; their ports for clients and pages do not.
    """
    # Without the second one the working directory would come first.
    environment = {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    if is_pure:
        environment[compiled.PURE] = "1"

    @contextmanager
    def start(folder: Path) -> Iterator[System]:
        given: Settings = {"appendfsync": fsync, **(settings or {})}
        local = LocalRegions(
            count,
            folder,
            base_port=free_base_port(count) if base_port is None else base_port,
            settings=given,
            settings_of=links_by_tls(count, folder) if tls_links else None,
            ways=ways,
            environment=environment,
            node=node,
        )
        try:
            local.start_all()
            if tls_links:
                # Their gRPC ports answer only who has a certificate.
                for own in local.regions:
                    wait_until(partial(is_ready, own.http_port), f"region {own.region} is ready")
            else:
                local.wait_until_healthy()
            system = System(
                "crdtstream",
                [own.resp_port for own in local.regions],
                RegionNodes(local),
                writable=count,
                metrics_port=local.regions[0].http_port,
            )
            for port in system.ports:
                wait_for_ping(port)
            yield system
        finally:
            local.stop_all()
            local.close()

    return start


def links_by_tls(count: int, folder: Path) -> dict[RegionId, Settings]:
    """Settings of each region, with certificates that are made in the folder."""
    # Of another name than those by which all ports of local regions would speak TLS.
    root, found = folder / "of-links", [RegionId(number) for number in range(1, count + 1)]
    make_certificates(root, found, database_id=DATABASE_ID_DEFAULT, host=HOST)
    return {region: {**settings_of(root, region), "tls_http": False} for region in found}


def is_ready(http_port: int) -> bool:
    """True if a node takes writes."""
    with urllib.request.urlopen(f"http://{HOST}:{http_port}/readyz") as page:
        return bool(page.status == 200)


def free_base_port(count: int) -> int:
    # Region 1 listens on the base port + 1.
    return free_ports(count, shifts=tuple(shift + 1 for shift in PORT_SHIFTS))


def version(tree: Path = TREE) -> str:
    """The sources, as git names them; a plus at the end: changed since."""
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
