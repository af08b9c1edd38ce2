"""Whether this node is well.

    /healthz   the process is there and its loop turns: restart it if this does not answer.  A fault
               of disk or folder is told with it, and is no reason to: what a folder that is gone
               had may be left in the process alone
    /readyz    it takes reads and writes: send clients here, or not
    /health    the same in more words, for people

Each answers 200; ``/readyz`` and ``/health`` 503 while writes are refused, or answers take too
long, with the reason.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from crdtstream.core.uid import shown_uid
from crdtstream.http.parts import HttpParts


def routes(parts: HttpParts) -> list[Route]:
    """These pages, for one node."""
    pages = HealthPages(parts)
    return [
        Route("/healthz", pages.healthz, methods=["GET"]),
        Route("/readyz", pages.readyz, methods=["GET"]),
        Route("/health", pages.health, methods=["GET"]),
    ]


class HealthPages:
    """The pages of one node."""

    def __init__(self, parts: HttpParts) -> None:
        self._region = parts.engine.region

    async def healthz(self, _request: Request) -> JSONResponse:
        # That the loop came to it is the answer.
        return JSONResponse({"alive": True, "fault": self._region.fault})

    async def readyz(self, _request: Request) -> JSONResponse:
        region = self._region
        reason = region.refuses_writes or region.answer_time.obstacle()
        body = {
            "ready": reason is None,
            "reason": reason,
            "missing_effects": region.opening.missing_effects,
        }
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
            "database_uid": shown_uid(region.replica.database_uid) or None,
            "vv": {str(origin): n for origin, n in sorted(region.outstanding.durable_vv.items())},
        }
        return JSONResponse(body, status_code=200 if is_healthy else 503)
