"""Health of this node.

    /healthz   the process runs and its event loop turns: restart it if this does not answer.  It
               also reports a fault of disk or folder.  Do not restart for a fault: if the folder is
               gone, its data may be left in the process alone
    /readyz    the node takes reads and writes: send clients here, or not
    /health    the same in more words, for people; and what will be wrong soon (``degraded``)

Each answers 200; ``/readyz`` and ``/health`` 503 while writes are refused, or answers take too
long, with the reason.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from crdtstream.core.membership.members import Status
from crdtstream.core.uid import shown_uid
from crdtstream.http.page_sources import PageSources


def routes(sources: PageSources) -> list[Route]:
    """These pages, for one node."""
    pages = HealthPages(sources)
    return [
        Route("/healthz", pages.healthz, methods=["GET"]),
        Route("/readyz", pages.readyz, methods=["GET"]),
        Route("/health", pages.health, methods=["GET"]),
    ]


class HealthPages:
    """The pages of one node."""

    def __init__(self, sources: PageSources) -> None:
        self._region = sources.engine.region
        self._certificates = sources.certificates

    async def healthz(self, _request: Request) -> JSONResponse:
        # An answer at all shows that the event loop turns.
        return JSONResponse({"alive": True, "fault": self._region.fault})

    async def readyz(self, _request: Request) -> JSONResponse:
        region = self._region
        reason = region.refuses_writes or region.answer_time.obstacle()
        body: dict[str, Any] = {
            "ready": reason is None,
            "reason": reason,
            "missing_effects": region.opening.missing_effects,
        }
        here = region.membership.members.here
        if here is not None and here.status is Status.REMOVED:
            # Number of its effects that count; null until a member has said it.
            body["counted_effects"] = here.cut
        return JSONResponse(body, status_code=200 if reason is None else 503)

    async def health(self, _request: Request) -> JSONResponse:
        region = self._region
        slow = region.answer_time.obstacle()
        is_healthy = region.refuses_writes is None and slow is None
        body = {
            "region": region.replica.region,
            "healthy": is_healthy,
            "fault": region.fault,
            "stale": region.opening.obstacle,
            "lagged": region.staleness.obstacle,
            "slow": slow,
            # Clients are served; somebody should look before they are not.
            "degraded": self._certificate_trouble(),
            "database_uid": shown_uid(region.replica.database_uid) or None,
            "vv": {str(origin): n for origin, n in sorted(region.outstanding.durable_vv.items())},
        }
        return JSONResponse(body, status_code=200 if is_healthy else 503)

    def _certificate_trouble(self) -> str | None:
        """Reason why somebody should look at the certificate; None: there is none."""
        certificates = self._certificates
        if certificates is None:
            return None
        if self._region.membership.members.is_revoked(certificates.current.serial):
            return "the certificate was revoked; replace it"
        return certificates.trouble
