"""Live nodes as a target: real clients, real links, steered through the admin service.

All links are paused while commands run.  A sync resumes those between its regions, waits until
their version vectors are equal, and pauses them again.  A partition leaves a link out of syncs: for
its two nodes it is a link that carries nothing.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import Final, Protocol

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.admin.client import AdminClient, vv_of
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.scenario.connection import Connection, ConnectionClosedError
from crdtstream.scenario.replies import Answer, ErrorReply
from crdtstream.scenario.rows import Crash, Restart, Script, Settings

_REPLY_SECONDS_MAX: Final = 10.0
# Time for which a command that must block is watched for an answer that must not come.
_QUIET_SECONDS: Final = 0.05
_SYNC_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.01

_ID_MODE: Final = "crdt_xadd_id_uniqueness_mode"
_MKSTREAM: Final = "crdt_xgroup_create_mkstream"
_XREAD_MODE: Final = "crdt_xread_mode"


class LiveError(Exception):
    """The nodes do not do what a target must; says which do not."""


class Processes(Protocol):
    """The program that started the nodes, and so may end one."""

    def kill(self, region: RegionId) -> None:
        """End the process at once."""

    def start(self, region: RegionId) -> None:
        """Start it again with what its folder holds, and wait until it answers."""


class _Node:
    """One node: its admin service, and a connection per client."""

    def __init__(self, address: str, login: Login) -> None:
        self._open = ExitStack()
        self._admin = self._open.enter_context(AdminClient(address, login=login))
        self._login = login
        self.address = address
        status = self._admin.status()
        self.region = RegionId(status.region)
        self.peers = [RegionId(link.peer) for link in status.links]
        self._resp_address: str = status.resp_address
        self._resp_tls: bool = status.resp_tls
        self._connections: dict[str, Connection] = {}

    def vv(self) -> VersionVector:
        return vv_of(self._admin.status().vv)

    def digest(self) -> str:
        return self._admin.status(with_digest=True).digest

    def set_links(self, peers: Iterable[RegionId], *, paused: bool) -> None:
        peers = list(peers)
        if peers:  # none would mean all
            self._admin.set_links(peers, paused=paused)

    def tune(self, parameter: str, value: str) -> str:
        """Set a tunable; returns its value before."""
        return self._admin.tune(parameter, value).before

    def client(self, name: str) -> Connection:
        if name not in self._connections:
            self._connections[name] = Connection(
                self._resp_address, tls=self._resp_tls, login=self._login
            )
        return self._connections[name]

    def hang_up(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        self.hang_up()
        self._open.close()


class LiveTarget:
    """Running nodes; a ``scenario.target.Target``.

    Args:
        addresses: ``host:port`` of each node's gRPC service; the nodes name the rest.
        processes: None if the nodes are not ours to end.
        login: presented to every node, by calls and by clients.

    Raises:
        AdminError: no node answers at an address.
        LiveError: two addresses lead to one node.
    """

    has_real_clock = True

    def __init__(
        self,
        addresses: Iterable[str],
        processes: Processes | None = None,
        *,
        login: Login = NO_LOGIN,
    ) -> None:
        nodes = [_Node(address, login) for address in addresses]
        self._nodes = {node.region: node for node in nodes}
        if len(self._nodes) < len(nodes):
            raise LiveError("two addresses lead to one region")
        self._processes = processes
        self._login = login
        self._cut: set[frozenset[RegionId]] = set()
        self._down: set[RegionId] = set()
        self._tuned_before: list[tuple[_Node, str, str]] = []
        self.vv_before: VersionVector = {}

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()

    # --- Runs ---------------------------------------------------------------------------------

    def refusal(self, script: Script) -> str:
        if script.simulator_only:
            return f"simulator only: {script.simulator_only}"
        missing = sorted(set(script.columns.values()) - self._nodes.keys())
        if missing:
            return f"no node of region {', '.join(map(str, missing))}"
        kills = any(isinstance(row.step, Crash | Restart) for row in script.rows)
        if kills and self._processes is None:
            return "it crashes regions, and these nodes were not started here"
        return ""

    def begin(self, settings: Settings, regions: Collection[RegionId]) -> None:
        for node in self._nodes.values():
            self._tune(node, _ID_MODE, settings.id_mode.value)
            self._tune(node, _MKSTREAM, "implicit" if settings.implicit_mkstream else "explicit")
            self._tune(node, _XREAD_MODE, settings.xread_mode.value)
            node.set_links(node.peers, paused=False)
        for region in self._nodes:
            self._expect_ok(region, b"FLUSHALL")
        self._wait_until_equal([list(self._nodes)])
        self._hold_links()
        if settings.lag_effects_max or settings.lag_ms_max:
            for node in self._nodes.values():
                self._tune(node, "max_replication_lag_effects", str(settings.lag_effects_max))
                self._tune(node, "max_replication_lag_ms", str(settings.lag_ms_max))
                self._tune(node, "replication_lag_action", settings.lag_action.value)
        self.vv_before = self._nodes[min(self._nodes)].vv()

    def _tune(self, node: _Node, parameter: str, value: str) -> None:
        self._tuned_before.append((node, parameter, node.tune(parameter, value)))

    def end(self) -> None:
        for region in list(self._down):  # the run broke off
            self.restart(region)
        self._cut.clear()
        for node, parameter, value in reversed(self._tuned_before):
            node.tune(parameter, value)
        self._tuned_before.clear()
        for node in self._nodes.values():
            node.hang_up()
            node.set_links(node.peers, paused=False)

    def _expect_ok(self, region: RegionId, *argv: bytes) -> None:
        answer = self.call(region, "", argv, may_wait=False)
        if isinstance(answer, ErrorReply):
            raise LiveError(f"region {region}: {argv[0].decode()}: {answer.text}")

    # --- Clients ------------------------------------------------------------------------------

    def call(
        self, region: RegionId, client: str, argv: tuple[bytes, ...], *, may_wait: bool
    ) -> Answer:
        try:
            self._nodes[region].client(client).send(argv)
        except ConnectionClosedError as error:
            return ErrorReply(f"connection ended: {error}")
        return self.answer(region, client, may_wait=may_wait)

    def answer(self, region: RegionId, client: str, *, may_wait: bool) -> Answer:
        seconds_max = _QUIET_SECONDS if may_wait else _REPLY_SECONDS_MAX
        try:
            return self._nodes[region].client(client).read(seconds_max=seconds_max)
        except ConnectionClosedError as error:
            return ErrorReply(f"connection ended: {error}")

    def digest(self, region: RegionId) -> str:
        return self._nodes[region].digest()

    # --- Links --------------------------------------------------------------------------------

    def sync(self, regions: Collection[RegionId]) -> None:
        regions = [region for region in regions if region not in self._down]
        links = {
            region: {
                peer
                for peer in regions
                if peer != region and frozenset((region, peer)) not in self._cut
            }
            for region in regions
        }
        components = _components(links)
        _check_needs_no_detour(components, links)
        for region, peers in links.items():
            # Links to crashed regions too: only what is not paused is relayed by others.
            self._nodes[region].set_links(peers | self._down, paused=False)
        self._wait_until_equal(components)
        self._hold_links()

    def _hold_links(self) -> None:
        for region in self._nodes.keys() - self._down:
            self._nodes[region].set_links(self._nodes[region].peers, paused=True)

    def _wait_until_equal(self, components: Collection[Collection[RegionId]]) -> None:
        for component in components:
            self._wait_until(
                lambda component=component: self._are_equal(component),  # type: ignore[misc]
                f"regions {sorted(component)} to become equal",
            )

    def _are_equal(self, regions: Collection[RegionId]) -> bool:
        vectors = [self._nodes[region].vv() for region in regions]
        return all(vv == vectors[0] for vv in vectors)

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _SYNC_SECONDS_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise LiveError(f"waited {_SYNC_SECONDS_MAX:.0f} s for {what}")
            time.sleep(_POLL_SECONDS)

    def partition(self, pairs: Collection[tuple[RegionId, RegionId]]) -> None:
        self._cut.update(frozenset(pair) for pair in pairs)

    def heal(self) -> None:
        self._cut.clear()

    # --- Processes and time -------------------------------------------------------------------

    def crash(self, region: RegionId) -> None:
        assert self._processes is not None
        self._nodes[region].hang_up()
        self._processes.kill(region)
        self._down.add(region)

    def restart(self, region: RegionId) -> None:
        """The node's links begin unpaused and are held as soon as it answers."""
        assert self._processes is not None
        self._processes.start(region)
        self._down.remove(region)
        old = self._nodes[region]
        old.close()
        node = self._nodes[region] = _Node(old.address, self._login)
        node.set_links(node.peers, paused=True)
        self._tuned_before = [
            (node if tuned is old else tuned, parameter, value)
            for tuned, parameter, value in self._tuned_before
        ]

    def set_clocks(self, clocks: Mapping[RegionId, Millis]) -> None:
        """Live nodes have the time of day."""

    def skew(self, by_ms: Mapping[RegionId, int]) -> None:
        raise AssertionError("a script with a skew is for the simulator only")

    def wait(self, ms: Millis) -> None:
        time.sleep(ms / 1000)


def _check_needs_no_detour(
    components: Collection[Collection[RegionId]], links: Mapping[RegionId, Collection[RegionId]]
) -> None:
    """A cut is a paused link here, and nodes do not relay what an operator has paused.

    Raises:
        LiveError: two regions could hear of each other only by a third one.
    """
    for component in components:
        for region in component:
            if len(links[region]) < len(component) - 1:
                raise LiveError(
                    f"region {region} would need a detour around a cut link, which paused links "
                    "do not allow: such a scenario is 'simulator only'"
                )


def _components(links: Mapping[RegionId, Collection[RegionId]]) -> list[set[RegionId]]:
    """The regions that can reach each other, directly or not."""
    left = set(links)
    components = []
    while left:
        component: set[RegionId] = set()
        border = {min(left)}
        while border:
            component |= border
            border = {peer for region in border for peer in links[region]} - component
        components.append(component)
        left -= component
    return components
