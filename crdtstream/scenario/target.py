"""Target on which a scenario runs: the simulator, or live nodes.  Both do the same few things.

Between rows a region receives nothing from the others; only ``sync`` carries effects.  The tables
rely on that.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.scenario.replies import Answer
from crdtstream.scenario.rows import Script, Settings


class Target(Protocol):
    """Regions that can do what the rows of a scenario say.

    Attributes:
        has_real_clock: generated IDs are then not those that the file writes.
        vv_before: effects that the regions had issued when ``begin`` was done.
    """

    has_real_clock: bool
    vv_before: VersionVector

    def refusal(self, script: Script) -> str:
        """Why this target cannot run the script; "" if it can."""

    def begin(self, settings: Settings, regions: Collection[RegionId]) -> None:
        """Empty databases, equal everywhere, with these settings, and links held."""

    def end(self) -> None:
        """Put settings and links back as they were before ``begin``."""

    def call(
        self, region: RegionId, client: str, argv: tuple[bytes, ...], *, may_wait: bool
    ) -> Answer:
        """Send one command and wait for its reply, or see that it blocks.

        Args:
            may_wait: the command is expected to block: then no long wait for its reply.
        """

    def answer(self, region: RegionId, client: str, *, may_wait: bool) -> Answer:
        """The reply of the command that this client sent before and that blocked."""

    def sync(self, regions: Collection[RegionId]) -> None:
        """Carry everything between these regions, over links that are not cut, until they agree."""

    def partition(self, pairs: Collection[tuple[RegionId, RegionId]]) -> None: ...

    def heal(self) -> None: ...

    def crash(self, region: RegionId) -> None: ...

    def restart(self, region: RegionId) -> None: ...

    def set_clocks(self, clocks: Mapping[RegionId, Millis]) -> None: ...

    def skew(self, by_ms: Mapping[RegionId, int]) -> None: ...

    def wait(self, ms: Millis) -> None: ...

    def digest(self, region: RegionId) -> str:
        """The canonical digest of all the region's keys."""
