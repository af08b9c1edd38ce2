"""Parts of a node from which the figures are read."""

from collections.abc import Callable
from dataclasses import dataclass

from crdtstream.access.callers import Callers
from crdtstream.access.logins import Logins
from crdtstream.certificates.watching import Certificates
from crdtstream.engine.engine import Engine
from crdtstream.settings.node_settings import NodeSettings


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """The clients of a node together.

    Attributes:
        connected: now.
        clients_max: how many may be connected.
        blocked: clients whose command waits.
        connections: that were ever made.
        rejected: of these, those that were not admitted.
        cut_off_unread: of these, those that left too much unread.
        cut_off_newcomers: of these, those that were ended before their login.
        received_bytes, sent_bytes: from and to all of them.
        handshakes_done, handshakes_failed, handshakes_late: of the port with TLS.
    """

    connected: int
    clients_max: int
    blocked: int
    connections: int
    rejected: int
    cut_off_unread: int
    cut_off_newcomers: int
    received_bytes: int
    sent_bytes: int
    handshakes_done: int = 0
    handshakes_failed: int = 0
    handshakes_late: int = 0


@dataclass(frozen=True, slots=True)
class FigureSources:
    """The parts of a node that are measured.

    Attributes:
        version: of this program.
        clients: asked at each scrape.
        log_bytes: returns the size of the log's records; called at each scrape.
        logins: of gRPC calls and HTTP requests.
        certificates: of this node; None: it has none.
        callers: of the gRPC port, if it speaks mutual TLS.
    """

    settings: NodeSettings
    engine: Engine
    version: str
    clients: Callable[[], ClientFigures]
    log_bytes: Callable[[], int]
    logins: Logins
    certificates: Certificates | None = None
    callers: Callers | None = None
