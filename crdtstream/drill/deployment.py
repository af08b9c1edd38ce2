"""Regions for a drill: our own, on this machine, or a deployment that already runs.

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

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.admin.client import AdminClient, AdminError, link_state
from crdtstream.certificates.errors import CertificateError
from crdtstream.core.ids import RegionId
from crdtstream.drill.access import NO_ACCESS, Access
from crdtstream.drill.drill import Drill
from crdtstream.drill.plan import Place
from crdtstream.drill.proxies import ProxyError, Server, Way, free_port
from crdtstream.local.regions import LocalRegions, LocalRegionsError
from crdtstream.v1 import admin_pb2

STOP_SECONDS_MAX: Final = 20.0
WELL_SECONDS_MAX: Final = 60.0
CALL_SECONDS_MAX: Final = 2.0
POLL_SECONDS: Final = 0.05
LOCALHOST: Final = "127.0.0.1"


class DeploymentError(Exception):
    """The regions do not answer, are not well, or cannot do this; the text says what to do."""


class UnwellError(DeploymentError):
    """A region does not return, has ended by itself, or is not heard: a finding of the drill."""


@dataclass(frozen=True, slots=True)
class Node:
    """Addresses of one region without any proxy.

    Attributes:
        pid: of its process, if it is one of this machine; else 0.
        resp_tls, http_tls: these ports speak TLS.
    """

    region: int
    resp: str
    grpc: str
    http: str
    pid: int = 0
    resp_tls: bool = False
    http_tls: bool = False


@dataclass(slots=True)
class Deployment:
    """Regions with proxies on all ways.

    Attributes:
        nodes: by region.
        links: by (puller, peer).
        clients: by region, the ways of its clients: RESP and health.
        places: by region, the addresses for its clients.
        access: presented to all regions.
        login: the same, for calls of the nodes.
        stop: called during waits; True: give up.
        is_taken_anyway: it was not well before the drill, so nothing waits until it is.
    """

    nodes: dict[int, Node]
    links: dict[tuple[int, int], Way]
    clients: dict[int, tuple[Way, ...]]
    places: dict[int, Place]
    access: Access = NO_ACCESS
    login: Login = NO_LOGIN
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
                " that the drill has started itself: run it without --address"
            )
        return self.processes

    def add_client_way(self, region: int, way: Way) -> None:
        """Add a way of a region's clients, which is cut with the others."""
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
        address = self.nodes[region].grpc
        with AdminClient(address, login=self.login, call_seconds_max=seconds_max) as admin:
            return admin.status(with_digest=with_digest)

    def connect(self, region: int) -> Any:
        """A redis client of a node, past all proxies; it tries once."""
        host, port = self.nodes[region].resp.rsplit(":", 1)
        return redis.Redis(
            host=host,
            port=int(port),
            **self.access.connection(tls=self.nodes[region].resp_tls),
            socket_timeout=10.0,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            protocol=2,
        )

    def not_well(self) -> list[str]:
        """Obstacles to the beginning of a drill: regions that do not answer, refuse, or lag."""
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
                f" {link.error or f'the link is {link_state(link)}'}"
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
        """Open every way, without toxics; processes are not touched.

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
        """Process of a region; 0 if it has none."""
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
        """Send SIGTERM, and wait for the end."""
        os.kill(self._running(region), signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while self.pid(region):
            if time.monotonic() > deadline:
                raise UnwellError(f"region {region} does not stop on SIGTERM")
            time.sleep(POLL_SECONDS)

    def freeze(self, region: int) -> None:
        os.kill(self._running(region), signal.SIGSTOP)

    def thaw(self, region: int) -> None:
        """Continue a process; nothing if it has ended."""
        if pid := self.pid(region):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def limit_files(self, region: int, bytes_max: int) -> None:
        """Let the process write nothing beyond a place in a file: to it, that is a full disk.

        This bounds no growth: the write-ahead log has room in it that is written again.
        """
        pid = self._running(region)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))

    def lift_limit(self, region: int) -> None:
        """Lift the limit; nothing if the process has ended."""
        if pid := self.pid(region):
            both = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, both)

    def log_tail(self, region: int) -> str:
        return self._local.regions[region - 1].log_tail()

    def _running(self, region: int) -> int:
        """Process that gets a signal: to the system, 0 would mean ourselves.

        Raises:
            UnwellError: it has ended.
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
    node: Sequence[str] | None = None,
) -> Iterator[Deployment]:
    """The drill's regions, started in a folder, with a proxy on every way.

    Args:
        base_port: see ``free_base_port``.
        stop: called during waits; True: give up.
        node: the words that start a node, before its options; None: ``crdtstream node``.

    Raises:
        DeploymentError: a region does not start.
    """
    numbers = range(1, drill.regions + 1)
    try:
        local = _own_regions(drill, folder, server, base_port, node)
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
    drill: Drill, folder: Path, server: Server, base_port: int, node: Sequence[str] | None
) -> tuple[LocalRegions, dict[tuple[int, int], Way]]:
    """Regions that reach each other through proxies; not started yet."""
    # Proxies are made first: their addresses are the ones that regions get.
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
        node=node,
    )
    return regions, links


def _let_end(processes: LocalProcesses, region: int) -> None:
    """Let a process stop in good order, although it is frozen or may write nothing."""
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
    """Port that is free at 127.0.0.1 to 127.0.0.N."""
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
    access: Access,
    anyway: bool,
    stop: Callable[[], bool],
) -> Deployment:
    """Deployment that already runs, and whose ways lead through a toxiproxy-server.

    Args:
        nodes: gRPC addresses, one of each region, that lead around the proxies.
        access: presented to all regions.
        anyway: take them even if they are not well.

    Raises:
        DeploymentError: a node does not answer, a proxy is missing, or they are not well.
    """
    found = {}
    try:
        login = access.login()
    except CertificateError as error:
        raise DeploymentError(str(error)) from error
    for address in nodes:
        try:
            with AdminClient(address, login=login) as admin:
                reply = admin.status()
        except AdminError as error:
            raise DeploymentError(f"--address {address}: {error}") from error
        found[int(reply.region)] = Node(
            int(reply.region),
            reply.resp_address,
            address,
            reply.http_address,
            int(reply.pid),
            resp_tls=reply.resp_tls,
            http_tls=reply.http_tls,
        )
    try:
        ways = server.proxies()
    except ProxyError as error:
        raise DeploymentError(f"--toxiproxy: {error}") from error
    deployment = _with_ways(found, ways, access)
    deployment.login, deployment.stop = login, stop
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


def _links_around(deployment: Deployment) -> list[str]:
    """Links whose region pulls from another address than its proxy's.

    Ports are compared, as a proxy may listen on all addresses of a host with several names.
    """
    found = []
    for region in deployment.regions:
        # A node that does not answer is reported as not well.
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


def _with_ways(nodes: dict[int, Node], ways: Mapping[str, Way], access: Access) -> Deployment:
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
    for region, node in nodes.items():
        host, port = ways[f"clients-of-{region}"].listen.rsplit(":", 1)
        http_port = ways[f"health-of-{region}"].listen.rsplit(":", 1)[1]
        places[region] = Place(
            host=host,
            port=int(port),
            http_port=int(http_port),
            resp_tls=node.resp_tls,
            http_tls=node.http_tls,
        )
    return Deployment(
        nodes,
        {(a, b): ways[f"{a}-pulls-{b}"] for a in nodes for b in nodes if a != b},
        {r: (ways[f"clients-of-{r}"], ways[f"health-of-{r}"]) for r in nodes},
        places,
        access,
    )
