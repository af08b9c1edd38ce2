"""Nodes that the runner starts for itself: three regions in a folder that is removed with them."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.local.regions import LocalRegions, LocalRegionsError
from crdtstream.scenario.live import LiveTarget

REGIONS_DEFAULT: Final = 3
# Below the range from which the system takes ports for outgoing connections, with room for the
# gRPC and HTTP ports above.
_BASE_PORTS: Final = range(10_000, 29_000, 50)
_ATTEMPTS_MAX: Final = 5


@contextmanager
def own_nodes(
    count: int = REGIONS_DEFAULT, *, base_ports: Sequence[int] = _BASE_PORTS
) -> Iterator[LiveTarget]:
    """A target of fresh nodes, regions 1 to ``count``; they and their data are gone at the end.

    Args:
        count: how many regions.
        base_ports: bases of the nodes' ports (see ``layout``) to choose from, at random.  Nobody
            else may take a port of theirs while a scenario has killed its node.

    Raises:
        LocalRegionsError: a node does not start; it says why.
    """
    with tempfile.TemporaryDirectory(prefix="crdtstream-scenario-") as folder:
        regions = _start(count, Path(folder), base_ports)
        try:
            target = LiveTarget(
                [own.grpc_address for own in regions.regions], _OwnProcesses(regions)
            )
            try:
                yield target
            finally:
                target.close()
        finally:
            regions.stop_all()
            regions.close()


def _start(count: int, folder: Path, base_ports: Sequence[int]) -> LocalRegions:
    """Start them on ports that are free.

    A port that was free a moment ago may be taken when the node comes to it: then on others.
    """
    for base_port in random.sample(base_ports, min(len(base_ports), _ATTEMPTS_MAX)):
        regions = LocalRegions(count, folder / str(base_port), base_port=base_port)
        try:
            regions.start_all()
            regions.wait_until_healthy()
        except LocalRegionsError as error:
            regions.stop_all()
            regions.close()
            problem = error
        else:
            return regions
    raise problem


class _OwnProcesses:
    """Ends and starts them one by one."""

    def __init__(self, regions: LocalRegions) -> None:
        self._regions = regions

    def kill(self, region: RegionId) -> None:
        self._regions.kill(region)

    def start(self, region: RegionId) -> None:
        self._regions.start(region)
        self._regions.wait_until_healthy()
