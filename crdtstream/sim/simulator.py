"""Several regions in one process, driven by one seed: a target for scenarios.

Nothing here knows what an effect does.  The simulator moves clocks, carries bytes, and ends and
begins processes; what comes of it is for the core to say.
"""

from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, Region
from crdtstream.scenario.replies import WAITING, Answer, ReplyReader
from crdtstream.scenario.rows import Script, Settings
from crdtstream.sim.network import Message, Network
from crdtstream.sim.node import NodeSettings, SimNode

# Where clocks begin if nothing sets them: the autumn of 2020, so that IDs look like IDs.
CLOCK_START: Final = Millis(1_600_000_000_000)
_DUPLICATE_RATES: Final = (0.0, 0.1, 0.5)
# A sync that takes more rounds than this goes in circles: two regions that keep issuing effects
# because of each other's, which nothing may ever do.
_ROUNDS_MAX: Final = 1000


class Simulator:
    """Regions, their network, clocks and disks; a ``scenario.target.Target``.

    Args:
        seed: decides in which order a sync delivers, what it delivers twice, and what goes by
            way of a third region.
    """

    has_real_clock = False

    def __init__(self, regions: Iterable[Region], *, seed: int) -> None:
        self._random = Random(seed)
        self._regions = tuple(regions)
        self._network = self._new_network()
        self._nodes: dict[Region, SimNode] = {}
        self.vv_before: VersionVector = {}

    def _new_network(self) -> Network:
        # Some runs without any duplicate, some full of them: uniform noise finds less.
        return Network(self._random, duplicate_rate=self._random.choice(_DUPLICATE_RATES))

    # --- Runs ---------------------------------------------------------------------------------

    def refusal(self, script: Script) -> str:
        return ""

    def begin(self, settings: Settings, regions: Collection[Region]) -> None:
        """Forget everything and start all regions anew."""
        assert set(regions) <= set(self._regions)
        node_settings = NodeSettings(settings.id_mode, settings.implicit_mkstream)
        self._network = self._new_network()
        self._nodes = {
            region: SimNode(
                region,
                [peer for peer in self._regions if peer != region],
                node_settings,
                CLOCK_START,
            )
            for region in self._regions
        }

    def end(self) -> None:
        pass

    # --- Clients ------------------------------------------------------------------------------

    def call(
        self, region: Region, client: str, argv: tuple[bytes, ...], *, may_wait: bool
    ) -> Answer:
        self._nodes[region].call(client, argv)
        return self.answer(region, client, may_wait=may_wait)

    def answer(self, region: Region, client: str, *, may_wait: bool) -> Answer:
        encoded = self._nodes[region].take_reply(client)
        if encoded is None:
            return WAITING
        reader = ReplyReader()
        reader.feed(encoded)
        return reader.next()

    def digest(self, region: Region) -> str:
        return self._nodes[region].replica.digest().decode()

    # --- Network ------------------------------------------------------------------------------

    def sync(self, regions: Collection[Region]) -> None:
        """Let these regions exchange batches until none lacks what it can reach.

        Deliveries of one round mix with what the next one sends, so that a region relays to
        others what it has just received while the origin's own message is still on its way.
        """
        nodes = [self._nodes[region] for region in regions if self._nodes[region].is_up]
        for _ in range(_ROUNDS_MAX):
            self._send(nodes)
            if not self._network:
                return
            for _ in range(self._random.randint(1, len(self._network))):
                self._deliver(self._network.take())
        raise AssertionError("the regions never become equal")

    def _send(self, nodes: list[SimNode]) -> None:
        links = [
            (source, puller)
            for source in nodes
            for puller in nodes
            if source is not puller and self._network.connects(source.region, puller.region)
        ]
        self._random.shuffle(links)
        for source, puller in links:
            for encoded in source.batches_beyond(puller.vv):
                self._network.send(Message(source.region, puller.region, encoded))

    def _deliver(self, message: Message) -> None:
        self._nodes[message.target].deliver(message.payload)

    def partition(self, pairs: Collection[tuple[Region, Region]]) -> None:
        self._network.cut(pairs)

    def heal(self) -> None:
        self._network.heal()

    # --- Processes and clocks -----------------------------------------------------------------

    def crash(self, region: Region) -> None:
        self._network.lose_messages_of(region)
        self._nodes[region].crash()

    def restart(self, region: Region) -> None:
        self._nodes[region].restart()

    def set_clocks(self, clocks: Mapping[Region, Millis]) -> None:
        for region, ms in clocks.items():
            self._nodes[region].clock = ms
            self._nodes[region].let_time_pass()

    def skew(self, by_ms: Mapping[Region, int]) -> None:
        clocks = {region: self._nodes[region].clock + ms for region, ms in by_ms.items()}
        self.set_clocks({region: Millis(ms) for region, ms in clocks.items()})

    def wait(self, ms: Millis) -> None:
        self.skew(dict.fromkeys(self._nodes, ms))
