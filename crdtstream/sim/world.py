"""Several regions, the lines between them, and their clocks."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from crdtstream.core.ids import Millis, RegionId
from crdtstream.sim.network import Line
from crdtstream.sim.post import Post
from crdtstream.sim.simulated_node import Joins, SimNode, SimSettings


def address_of(region: RegionId, *, moves: int = 0) -> str:
    """Address of a region that has moved ``moves`` times."""
    return f"region-{region}:{moves + 1}"


class World:
    """Everything that is simulated.

    Attributes:
        nodes: by region.
        lines: by puller and server.
        steady_ms: the monotonic clock, the same for all.
        cuts: (from, to): no message gets from the one to the other.
        post: letters on their way.
        dead: nodes that are gone for good, with their folders.
    """

    def __init__(
        self, regions: Iterable[RegionId], settings: SimSettings, *, clock: Millis
    ) -> None:
        numbers = sorted(regions)
        self._settings = settings
        self.steady_ms = 0
        self.post = Post()
        self.dead: set[RegionId] = set()
        self.cuts: set[tuple[RegionId, RegionId]] = set()
        self.nodes = {
            number: SimNode(
                number,
                {peer: address_of(peer) for peer in numbers if peer != number},
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
            self._connect(node)

    def _connect(self, node: SimNode) -> None:
        node.on_link = self._wake
        node.on_letters = self.post.take_in
        node.reach = partial(self._reached, node.number)

    def join(
        self, number: RegionId, peers: Mapping[RegionId, str], joins: Joins, *, clock: Millis
    ) -> SimNode:
        """Let one more region begin, with an empty folder.

        Args:
            peers: the others that its file names.
            joins: what it was told of the members.
        """
        node = SimNode(number, peers, self._settings, clock, joins=joins)
        for other in self.nodes.values():
            for puller, server in ((node, other), (other, node)):
                self.lines[puller.number, server.number] = Line(puller, server)
        self.nodes[number] = node
        self._connect(node)
        return node

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
        """Look at the replicas without a command: they read in place."""
        with ExitStack() as stack:
            for node in self.up():
                stack.enter_context(node.looking())
            yield

    # --- The network --------------------------------------------------------------------------

    def carries(self, source: RegionId, target: RegionId) -> bool:
        """True if a message gets from one region to the other."""
        return (source, target) not in self.cuts

    def deliver_letters(self, line: Line) -> bool:
        """Deliver the oldest letter of each direction; return True if any existed."""
        did = False
        for source, target in (line.pair, line.pair[::-1]):
            if self.carries(source, target):
                did = self.post.deliver(source, self.nodes[target]) or did
        return did

    def step(self, line: Line, *, reaches: bool | None = None) -> bool:
        """Let both ends of a line do one thing each; return True if they did any."""
        puller, server = line.pair
        if reaches is None:
            reaches = self.carries(puller, server) and self.carries(server, puller)
        did = line.step_puller(self.at, reaches=reaches)
        return line.step_server(self.at) or did

    def deliver(self, line: Line) -> bool:
        """Deliver the oldest message of each direction; return True if any existed."""
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
        self.post.lose(target=region)
        for line in self.lines.values():
            if region in line.pair:
                line.process_died(node)

    def lose_folder(self, region: RegionId) -> None:
        """Note that an earlier folder of a region, an empty one or none replaces its own.

        Letters of its process that are on their way are lost.
        """
        self.post.lose(source=region)

    def pass_time(self, ms: int) -> None:
        """Let all clocks go on."""
        self.steady_ms += ms
        for node in self.nodes.values():
            node.clock = Millis(node.clock + ms)
