"""Regions that a drill is run on: our own, on this machine, or some that run already.

             clients-of-1                     2-pulls-1
clients ────── proxy ──────> region 1 <──────── proxy ────── region 2
                                └──────────────── proxy ──────>
                                               1-pulls-2
"""

import contextlib
import os
import resource
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.core.ids import RegionId
from crdtstream.drill.drill import Drill
from crdtstream.drill.plan import Place
from crdtstream.drill.proxies import ProxyError, Server, Way, free_port
from crdtstream.local_regions import LocalRegions, LocalRegionsError
from crdtstream.v1 import admin_pb2

STOP_SECONDS_MAX: Final = 20.0
WELL_SECONDS_MAX: Final = 60.0
CALL_SECONDS_MAX: Final = 2.0
POLL_SECONDS: Final = 0.05
LOCALHOST: Final = "127.0.0.1"


class DeploymentError(Exception):
    """The regions are not there, not well, or cannot do this; the text says what to do."""


class UnwellError(DeploymentError):
    """A region does not come back, has ended by itself, or is not heard: a drill's finding."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where one region is reached without any proxy.

    Attributes:
        pid: of its process, if it is one of this machine; else 0.
    """

    region: int
    resp: str
    grpc: str
    http: str
    pid: int = 0


@dataclass(slots=True)
class Deployment:
    """Regions with proxies on all ways.

    Attributes:
        nodes: by region.
        links: by (puller, peer).
        clients: by region, the ways of its clients: RESP and health.
        places: by region, where clients are sent.
        stop: asked while one waits; true: give up.
        is_taken_anyway: it was not well before the drill; so nobody waits until it is.
    """

    nodes: dict[int, Node]
    links: dict[tuple[int, int], Way]
    clients: dict[int, tuple[Way, ...]]
    places: dict[int, Place]
    password: str = ""
    processes: "LocalProcesses | None" = None
    stop: Callable[[], bool] = lambda: False
    is_taken_anyway: bool = False

    @property
    def regions(self) -> tuple[int, ...]:
        return tuple(sorted(self.nodes))

    def own_processes(self) -> "LocalProcesses":
        """The processes, to kill and start.

        Raises:
            DeploymentError: they are not ours.
        """
        if self.processes is None:
            raise DeploymentError(
                "this step ends or changes a region's process, which can be done only to regions"
                " that the drill has started itself: run it without --nodes"
            )
        return self.processes

    def add_client_way(self, region: int, way: Way) -> None:
        """One more way of a region's clients, cut with the others."""
        self.clients[region] = (*self.clients[region], way)

    def remove_client_way(self, region: int, way: Way) -> None:
        """Forget a way: its proxy is about to end."""
        self.clients[region] = tuple(each for each in self.clients[region] if each is not way)

    def status(
        self, region: int, *, with_digest: bool = False, seconds_max: float = CALL_SECONDS_MAX
    ) -> admin_pb2.StatusReply:
        """Ask a node.

        Raises:
            AdminError: it does not answer.
        """
        with AdminClient(self.nodes[region].grpc, call_seconds_max=seconds_max) as admin:
            return admin.status(with_digest=with_digest)

    def connect(self, region: int) -> Any:
        """A redis client of a node, past all proxies; it tries once."""
        host, port = self.nodes[region].resp.rsplit(":", 1)
        return redis.Redis(
            host=host,
            port=int(port),
            password=self.password or None,
            socket_timeout=10.0,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            protocol=2,
        )

    def not_well(self) -> list[str]:
        """What keeps a drill from beginning: regions that do not answer, refuse, or lag."""
        problems = []
        replies = {}
        for region in self.regions:
            try:
                replies[region] = reply = self.status(region)
            except AdminError as error:
                problems.append(f"region {region}: {error}{self._last_words(region)}")
                continue
            if reply.fault:
                problems.append(f"region {region} refuses writes: {reply.fault}")
            problems += [
                f"region {region} hears nothing of region {link.peer}:"
                f" {link.error or f'the link is {_state(link)}'}"
                for link in reply.links
                if link.state != admin_pb2.LinkStatus.State.UP
            ]
        uids = {reply.database_uid for reply in replies.values()}
        if len(uids) > 1:
            problems.append("the nodes belong to several databases")
        return problems

    def wait_until_well(self) -> None:
        """Wait until all regions take writes and hear each other.

        Raises:
            UnwellError: they do not in time.
            DeploymentError: ``stop`` said to give up.
        """
        if self.is_taken_anyway:
            return
        deadline = time.monotonic() + WELL_SECONDS_MAX
        while problems := self.not_well():
            text = "\n  ".join(problems)
            if self.stop():
                raise DeploymentError(f"stopped while the regions were not well:\n  {text}")
            if time.monotonic() > deadline:
                raise UnwellError(f"not well after {WELL_SECONDS_MAX:g} s:\n  {text}")
            time.sleep(POLL_SECONDS)

    def make_whole(self) -> None:
        """Every way is open, without toxics; processes are not touched.

        Raises:
            ProxyError: some could not be mended; all others are.
        """
        errors = []
        for way in [*self.links.values(), *(way for ways in self.clients.values() for way in ways)]:
            try:
                way.make_whole()
            except ProxyError as error:
                errors.append(f"{way.name}: {error}")
        if errors:
            raise ProxyError("not taken back:\n  " + "\n  ".join(errors))

    def _last_words(self, region: int) -> str:
        """The end of the log of a region whose process has ended."""
        if self.processes is None or self.processes.pid(region):
            return ""
        return f"; its process has ended:\n{self.processes.log_tail(region)}"


class LocalProcesses:
    """The processes of regions that we started."""

    def __init__(self, local: LocalRegions) -> None:
        self._local = local

    def pid(self, region: int) -> int:
        """0 if there is no process."""
        if RegionId(region) in self._local.ended():
            return 0
        return self._local.pid(RegionId(region))

    def kill(self, region: int) -> None:
        self._running(region)
        self._local.kill(RegionId(region))

    def lose_disk(self, region: int) -> None:
        """Remove the data of a region that was killed."""
        assert self.pid(region) == 0
        shutil.rmtree(self._local.regions[region - 1].data)

    def start(self, region: int, settings: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Start a region whose process has ended; ``settings`` beat its own.

        Raises:
            DeploymentError: it runs; another step has started it.
        """
        if self.pid(region):
            raise DeploymentError(f"region {region} runs already: its steps overlap")
        if settings:
            self._local.configure(RegionId(region), settings)
        self._local.start(RegionId(region))

    def stop(self, region: int) -> None:
        """SIGTERM, and wait for the end."""
        os.kill(self._running(region), signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while self.pid(region):
            if time.monotonic() > deadline:
                raise UnwellError(f"region {region} does not stop on SIGTERM")
            time.sleep(POLL_SECONDS)

    def freeze(self, region: int) -> None:
        os.kill(self._running(region), signal.SIGSTOP)

    def thaw(self, region: int) -> None:
        """Nothing if there is no process any more."""
        if pid := self.pid(region):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def limit_files(self, region: int, bytes_max: int) -> None:
        """Let the process write nothing beyond a place in a file: to it, that is a full disk.

        Not a bound on their growth: the write-ahead log has room in it that is written again.
        """
        pid = self._running(region)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))

    def lift_limit(self, region: int) -> None:
        """Nothing if there is no process any more."""
        if pid := self.pid(region):
            both = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, both)

    def log_tail(self, region: int) -> str:
        return self._local.regions[region - 1].log_tail()

    def _running(self, region: int) -> int:
        """The process, to send it something: to the system, 0 would mean ourselves.

        Raises:
            UnwellError: there is none.
        """
        pid = self.pid(region)
        if not pid:
            raise UnwellError(f"region {region} has ended by itself:\n{self.log_tail(region)}")
        return pid


# --- Our own ----------------------------------------------------------------------------------


@contextlib.contextmanager
def local_deployment(
    drill: Drill,
    folder: Path,
    server: Server,
    *,
    base_port: int,
    stop: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Deployment]:
    """The drill's regions, started in a folder, with a proxy on every way.

    Args:
        base_port: see ``free_base_port``.
        stop: asked while one waits; true: give up.
        environment: further variables for the nodes.

    Raises:
        DeploymentError: a region does not start.
    """
    numbers = range(1, drill.regions + 1)
    try:
        local = _own_regions(drill, folder, server, base_port, environment or {})
    except LocalRegionsError as error:
        raise DeploymentError(str(error)) from error
    regions, links = local
    try:
        regions.start_all()
        if not regions.wait_until_healthy(stop=stop):
            raise DeploymentError("stopped while the regions start")
        http_port = _common_port(drill.regions)
        clients: dict[int, tuple[Way, ...]] = {}
        places = {}
        for r in numbers:
            own = regions.regions[r - 1]
            resp = server.create(f"clients-of-{r}", own.resp_address, f"127.0.0.{r}:0")
            http = server.create(f"health-of-{r}", own.http_address, f"127.0.0.{r}:{http_port}")
            clients[r] = (resp, http)
            host, port = resp.listen.rsplit(":", 1)
            places[r] = Place(host=host, port=int(port), http_port=http_port)
        nodes = {
            r: Node(r, own.resp_address, own.grpc_address, own.http_address)
            for r, own in enumerate(regions.regions, 1)
        }
        deployment = Deployment(
            nodes, links, clients, places, processes=LocalProcesses(regions), stop=stop
        )
        deployment.wait_until_well()
        yield deployment
    except LocalRegionsError as error:
        raise DeploymentError(str(error)) from error
    finally:
        for region in range(1, drill.regions + 1):
            _let_end(LocalProcesses(regions), region)
        regions.stop_all()
        regions.close()


def _own_regions(
    drill: Drill, folder: Path, server: Server, base_port: int, environment: Mapping[str, str]
) -> tuple[LocalRegions, dict[tuple[int, int], Way]]:
    """Regions that reach each other through proxies; not started yet."""
    # Proxies are made first: what a region is told are their addresses.
    links = {
        (puller, peer): server.create(
            f"{puller}-pulls-{peer}", f"{LOCALHOST}:{base_port + 1000 + peer}", f"{LOCALHOST}:0"
        )
        for puller in range(1, drill.regions + 1)
        for peer in range(1, drill.regions + 1)
        if peer != puller
    }
    regions = LocalRegions(
        drill.regions,
        folder,
        base_port=base_port,
        settings=drill.settings,
        settings_of={RegionId(r): given for r, given in drill.settings_of.items()},
        ways={(RegionId(a), RegionId(b)): way.listen for (a, b), way in links.items()},
        environment=environment,
    )
    return regions, links


def _let_end(processes: LocalProcesses, region: int) -> None:
    """A process that is frozen, or may write nothing, could not stop in good order."""
    with contextlib.suppress(KeyError):
        processes.thaw(region)
        processes.lift_limit(region)


def free_base_port(regions: int) -> int:
    """A base whose ports are free, below those that the system takes for outgoing connections."""
    for base in range(20_000 + os.getpid() % 5_000, 29_000, 10):
        numbers = range(1, regions + 1)
        if all(_is_free(base + shift + r) for shift in (0, 1000, 2000) for r in numbers):
            return base
    raise DeploymentError("no free ports between 20000 and 31000 for the regions")


def _common_port(regions: int) -> int:
    """A port that is free at 127.0.0.1 to 127.0.0.N."""
    for _ in range(100):
        port = free_port()
        if all(_is_free(port, f"127.0.0.{r}") for r in range(1, regions + 1)):
            return port
    raise DeploymentError("no port is free at 127.0.0.1 and its neighbours")


def _is_free(port: int, host: str = LOCALHOST) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


# --- Given ------------------------------------------------------------------------------------


def given_deployment(
    nodes: Sequence[str],
    server: Server,
    *,
    password: str,
    anyway: bool,
    stop: Callable[[], bool],
) -> Deployment:
    """Regions that run already, and whose ways lead through a toxiproxy-server.

    Args:
        nodes: gRPC addresses, one of each region, that lead around the proxies.
        anyway: take them even if they are not well.

    Raises:
        DeploymentError: a node does not answer, a proxy is missing, or they are not well.
    """
    found = {}
    for address in nodes:
        try:
            with AdminClient(address, call_seconds_max=CALL_SECONDS_MAX) as admin:
                reply = admin.status()
        except AdminError as error:
            raise DeploymentError(f"--nodes {address}: {error}") from error
        found[int(reply.region)] = Node(
            int(reply.region), reply.resp_address, address, reply.http_address, int(reply.pid)
        )
    try:
        ways = server.proxies()
    except ProxyError as error:
        raise DeploymentError(f"--toxiproxy: {error}") from error
    deployment = _with_ways(found, ways, password)
    deployment.stop = stop
    around = _links_around(deployment)
    if around:
        raise DeploymentError(
            "these links do not lead through their proxies, so no fault would reach them:\n  "
            + "\n  ".join(around)
            + "\nLet the [[peers]] of these regions name their proxies, and start them again"
        )
    problems = deployment.not_well()
    if problems and not anyway:
        raise DeploymentError(
            "the deployment is not well, and a drill would show its old troubles:\n  "
            + "\n  ".join(problems)
            + "\nMend that first, or say --anyway"
        )
    deployment.is_taken_anyway = bool(problems)
    return deployment


def _state(link: admin_pb2.LinkStatus) -> str:
    """``connecting``, ``needs bootstrap`` …"""
    return admin_pb2.LinkStatus.State.Name(link.state).lower().replace("_", " ")


def _links_around(deployment: Deployment) -> list[str]:
    """Links whose region pulls from another address than its proxy's.

    Ports are compared, as a proxy may listen on all addresses of a host with several names.
    """
    found = []
    for region in deployment.regions:
        # Who does not answer is told of as not well.
        with contextlib.suppress(AdminError):
            for link in deployment.status(region).links:
                way = deployment.links.get((region, int(link.peer)))
                if way is not None and _port(link.address) != _port(way.listen):
                    found.append(
                        f"region {region} pulls from region {link.peer} at {link.address};"
                        f" {way.name} listens on {way.listen}"
                    )
    return found


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _with_ways(nodes: dict[int, Node], ways: Mapping[str, Way], password: str) -> Deployment:
    names = {f"{a}-pulls-{b}": nodes[b].grpc for a in nodes for b in nodes if a != b}
    for region, node in nodes.items():
        names[f"clients-of-{region}"] = node.resp
        names[f"health-of-{region}"] = node.http
    missing = [f"{name} (to {upstream})" for name, upstream in names.items() if name not in ways]
    if missing:
        raise DeploymentError(
            "these proxies are missing in the toxiproxy-server: "
            + ", ".join(missing)
            + "; make them, e.g. toxiproxy-cli create -l HOST:PORT -u HOST:PORT NAME, and let the"
            " regions' [[peers]] and the clients go through them (docs/drills.md)"
        )
    places = {}
    for region in nodes:
        host, port = ways[f"clients-of-{region}"].listen.rsplit(":", 1)
        http_port = ways[f"health-of-{region}"].listen.rsplit(":", 1)[1]
        places[region] = Place(host=host, port=int(port), http_port=int(http_port))
    return Deployment(
        nodes,
        {(a, b): ways[f"{a}-pulls-{b}"] for a in nodes for b in nodes if a != b},
        {r: (ways[f"clients-of-{r}"], ways[f"health-of-{r}"]) for r in nodes},
        places,
        password,
    )
