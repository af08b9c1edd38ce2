"""Several regions, the lines between them, and their clocks."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from crdtstream.core.ids import Millis, RegionId
from crdtstream.sim.network import Line
from crdtstream.sim.node import SimNode, SimSettings


class World:
    """Everything that is simulated.

    Attributes:
        nodes: by region.
        lines: by puller and server.
        steady_ms: the clock that only goes forward, the same for all.
        cuts: (from, to): no message gets from the one to the other.
    """

    def __init__(
        self, regions: Iterable[RegionId], settings: SimSettings, *, clock: Millis
    ) -> None:
        numbers = sorted(regions)
        self.steady_ms = 0
        self.cuts: set[tuple[RegionId, RegionId]] = set()
        self.nodes = {
            number: SimNode(
                number,
                {peer: f"region-{peer}" for peer in numbers if peer != number},
                settings,
                clock,
            )
            for number in numbers
        }
        self.lines = {
            (puller, server): Line(self.nodes[puller], self.nodes[server])
            for puller in numbers
            for server in numbers
            if puller != server
        }
        for node in self.nodes.values():
            node.on_link = self._wake
            node.reach = partial(self._reached, node.number)

    def _reached(self, region: RegionId, other: RegionId) -> SimNode | None:
        """A region's node, if calls to it are answered."""
        gets_there = self.carries(region, other) and self.carries(other, region)
        return self.nodes[other] if gets_there and self.nodes[other].is_up else None

    def _wake(self, link: object) -> None:
        for line in self.lines.values():
            line.wake(link)

    @property
    def at(self) -> float:
        return self.steady_ms / 1000

    def up(self) -> Iterator[SimNode]:
        return (node for node in self.nodes.values() if node.is_up)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Whoever looks at the replicas without a command reads in place."""
        with ExitStack() as stack:
            for node in self.up():
                stack.enter_context(node.looking())
            yield

    # --- The network --------------------------------------------------------------------------

    def carries(self, source: RegionId, target: RegionId) -> bool:
        """Whether a message gets from the one to the other."""
        return (source, target) not in self.cuts

    def step(self, line: Line, *, reaches: bool | None = None) -> bool:
        """Let both ends of a line do one thing each; returns whether they did any."""
        puller, server = line.pair
        if reaches is None:
            reaches = self.carries(puller, server) and self.carries(server, puller)
        did = line.step_puller(self.at, reaches=reaches)
        return line.step_server(self.at) or did

    def deliver(self, line: Line) -> bool:
        """Deliver the oldest message of each direction; returns whether there was any."""
        puller, server = line.pair
        did = False
        if line.requests and self.carries(puller, server):
            line.deliver_request(self.at)
            did = True
        if line.may_deliver_response and self.carries(server, puller):
            line.deliver_response(self.at)
            did = True
        return did

    def cut(self, pairs: Collection[tuple[RegionId, RegionId]]) -> None:
        self.cuts.update(pairs)

    # --- Processes and clocks -----------------------------------------------------------------

    def crash(self, region: RegionId, *, commits: bool = False) -> None:
        node = self.nodes[region]
        node.crash(commits=commits)
        for line in self.lines.values():
            if region in line.pair:
                line.process_died(node)

    def pass_time(self, ms: int) -> None:
        """All clocks go on."""
        self.steady_ms += ms
        for node in self.nodes.values():
            node.clock = Millis(node.clock + ms)
