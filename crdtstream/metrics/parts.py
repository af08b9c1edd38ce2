"""What the figures are taken from."""

from collections.abc import Callable
from dataclasses import dataclass

from crdtstream.engine import Engine
from crdtstream.settings import NodeSettings


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """The clients of a node together.

    Attributes:
        connected: now.
        clients_max: how many may be connected.
        blocked: whose command waits.
        connections: that were ever made.
        rejected: of these, those that were not admitted.
        cut_off_unread: of these, those that left too much unread.
        received_bytes, sent_bytes: from and to all of them.
    """

    connected: int
    clients_max: int
    blocked: int
    connections: int
    rejected: int
    cut_off_unread: int
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class MetricsParts:
    """The parts of a node that are measured.

    Attributes:
        version: of this program.
        clients: asked at each scrape.
        log_bytes: what the log's records take; asked at each scrape.
    """

    settings: NodeSettings
    engine: Engine
    version: str
    clients: Callable[[], ClientFigures]
    log_bytes: Callable[[], int]
