"""The target that runs a scenario in one process: the real regions in a simulated world.

Nothing here knows what an effect does.  It moves clocks, carries messages, and ends and starts
processes; the regions decide what follows from that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.uid import NO_UID
from crdtstream.scenario.replies import Answer, ReplyReader
from crdtstream.scenario.rows import Script, Settings
from crdtstream.sim.network import Line
from crdtstream.sim.simulated_node import LIMITS, SimClient, SimNode, SimSettings
from crdtstream.sim.world import World

# Start of clocks that nothing sets: the autumn of 2020, so that IDs look like IDs.
CLOCK_START: Final = Millis(1_600_000_000_000)
_DUPLICATE_RATES: Final = (0.0, 0.1, 0.5)
# Clocks stand still in a scenario: what a link lacks it asks for at once.
_LIMITS: Final = replace(LIMITS, inbox_wait_ms_max=-1)
# Longer than a heartbeat and every pause between attempts.
_ROUND_MS: Final = 300
# A sync that takes more rounds than this does not end: two regions keep issuing effects
# because of each other's, which must never happen.
_ROUNDS_MAX: Final = 1_000
# After the last effect is everywhere: all get the vector of each region, through others too.
_GOSSIP_ROUNDS: Final = 3


class Simulator:
    """Regions, their network, clocks and disks; a ``scenario.target.Target``.

    Args:
        seed: decides in which order a sync delivers, what it delivers twice, and what it sends by
            way of a third region.
    """

    has_real_clock = False

    def __init__(self, regions: Iterable[RegionId], *, seed: int) -> None:
        self._random = Random(seed)
        self._regions = tuple(regions)
        self._partitions: set[frozenset[RegionId]] = set()
        self._duplicate_rate = 0.0
        self._readers: dict[SimClient, ReplyReader] = {}
        self.vv_before: VersionVector = {}

    # --- Runs ---------------------------------------------------------------------------------

    def refusal(self, script: Script) -> str:
        return ""

    def begin(self, settings: Settings, regions: Collection[RegionId]) -> None:
        """Forget everything and start all regions again."""
        assert set(regions) <= set(self._regions)
        self._partitions.clear()
        self._readers.clear()
        # Some runs without any duplicate, some full of them: uniform noise finds less.
        self._duplicate_rate = self._random.choice(_DUPLICATE_RATES)
        self._world = World(
            self._regions,
            SimSettings(
                id_mode=settings.id_mode,
                implicit_mkstream=settings.implicit_mkstream,
                lag_effects_max=settings.lag_effects_max,
                lag_ms_max=settings.lag_ms_max,
                lag_action=settings.lag_action,
                xread_mode=settings.xread_mode,
                limits=_LIMITS,
            ),
            clock=CLOCK_START,
        )
        for node in self._world.nodes.values():
            _started(node)

    def end(self) -> None:
        pass

    # --- Clients ------------------------------------------------------------------------------

    def call(
        self, region: RegionId, client: str, argv: tuple[bytes, ...], *, may_wait: bool
    ) -> Answer:
        node = self._world.nodes[region]
        node.call(client, argv)
        node.settle()
        return self.answer(region, client, may_wait=may_wait)

    def answer(self, region: RegionId, client: str, *, may_wait: bool) -> Answer:
        told = self._world.nodes[region].clients[client]
        reader = self._readers.setdefault(told, ReplyReader())
        while told.received:
            reader.feed(told.received.popleft())
        return reader.next()

    def digest(self, region: RegionId) -> str:
        return self._world.nodes[region].region.replica.digest().decode()

    # --- Network ------------------------------------------------------------------------------

    def sync(self, regions: Collection[RegionId]) -> None:
        """Let these regions exchange batches until none lacks what it can reach.

        The seed decides what is delivered when, and on which line first.  Lines that are held, or
        cut, look down, so their effects go by way of others.
        """
        world = self._world
        reachable = {
            pair: {*pair} <= set(regions) and frozenset(pair) not in self._partitions
            for pair in world.lines
        }
        lines = [line for line in world.lines.values() if line.puller.is_up]
        calm = 0
        for _ in range(_ROUNDS_MAX):
            world.steady_ms += _ROUND_MS
            self._round(lines, reachable)
            calm = calm + 1 if self._is_calm(lines, reachable) else 0
            if calm > _GOSSIP_ROUNDS:
                break
        else:
            raise AssertionError("the regions never become equal")
        for line in lines:
            line.lose("held")
        for node in world.up():
            node.settle()

    def _round(
        self, lines: list[Line], reachable: Mapping[tuple[RegionId, RegionId], bool]
    ) -> None:
        """Let every line do what it has to do, in any order, and deliver some of what it sent."""
        world, random = self._world, self._random
        busy = lines
        while busy:
            random.shuffle(busy)
            still = []
            for line in busy:
                did = world.step(line, reaches=reachable[line.pair])
                if line.responses and random.random() < self._duplicate_rate:
                    self._deliver_twice(line)
                if random.random() < 0.7:
                    did = world.deliver(line) or did
                line.puller.settle()
                if line.server.is_up:
                    line.server.settle()
                if did or line.requests or line.may_deliver_response:
                    still.append(line)
            busy = still

    def _deliver_twice(self, line: Line) -> None:
        """No connection does that; but a link that breaks and begins again brings things twice."""
        if line.may_deliver_response:
            line.deliver_response(self._world.at, stays=True)

    def _is_calm(
        self, lines: list[Line], reachable: Mapping[tuple[RegionId, RegionId], bool]
    ) -> bool:
        return all(
            covers(line.puller.region.replica.vv, line.server.region.replica.vv)
            for line in lines
            if line.server.is_up and reachable[line.pair]
        )

    def partition(self, pairs: Collection[tuple[RegionId, RegionId]]) -> None:
        self._partitions.update(frozenset(pair) for pair in pairs)

    def heal(self) -> None:
        self._partitions.clear()

    # --- Processes and clocks -----------------------------------------------------------------

    def crash(self, region: RegionId) -> None:
        self._world.crash(region)

    def restart(self, region: RegionId) -> None:
        node = self._world.nodes[region]
        assert not node.is_up
        before = dict(node.region.outstanding.logged_vv)
        node.start()
        # A scenario's rows end with their ticks, whose commits have succeeded.
        assert dict(node.region.replica.vv) == before
        _started(node)

    def set_clocks(self, clocks: Mapping[RegionId, Millis]) -> None:
        for region, ms in clocks.items():
            node = self._world.nodes[region]
            node.clock = ms
            if node.is_up:
                node.pass_time()
                node.settle()

    def skew(self, by_ms: Mapping[RegionId, int]) -> None:
        clocks = {region: self._world.nodes[region].clock + ms for region, ms in by_ms.items()}
        self.set_clocks({region: Millis(ms) for region, ms in clocks.items()})

    def wait(self, ms: Millis) -> None:
        self.skew(dict.fromkeys(self._regions, ms))


def _started(node: SimNode) -> None:
    """Tokens and cursors name no database: which one a run makes, a file cannot know."""
    node.region.replica.database_uid = NO_UID
    node.settle()
