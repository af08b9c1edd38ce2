"""Parts of a node that the pages of the HTTP port read."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from crdtstream.access.logins import Logins
from crdtstream.certificates.watching import Certificates
from crdtstream.engine.engine import Engine
from crdtstream.settings.node_settings import NodeSettings


@dataclass(frozen=True, slots=True)
class PageSources:
    """The parts of a node that its pages look at.

    Attributes:
        version: of this program.
        metrics_text: the page for Prometheus, as it is now.
        health_reports: of each region that is a member, or of this one, what it knows of the
            database; objects as Redis Enterprise has them.
        logins: judges the logins of requests; None: pages ask for none.
        certificates: of this node; None: it has none.
        make_console: loads the console and makes it; slow, and called in a thread.  None: there is
            no console.
    """

    settings: NodeSettings
    engine: Engine
    version: str
    metrics_text: Callable[[], Awaitable[bytes]]
    health_reports: Callable[[int | None], Awaitable[list[dict[str, Any]]]]
    logins: Logins | None = None
    certificates: Certificates | None = None
    make_console: Callable[[], ASGIApp] | None = None
