"""What the pages of the HTTP port look at."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crdtstream.engine import Engine
from crdtstream.settings import NodeSettings


@dataclass(frozen=True, slots=True)
class HttpParts:
    """The parts of a node that its pages look at.

    Attributes:
        version: of this program.
        metrics_text: the page for Prometheus, as it is now.
    """

    settings: NodeSettings
    engine: Engine
    version: str
    metrics_text: Callable[[], Awaitable[bytes]]
