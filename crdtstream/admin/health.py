"""The HTTP port: whether this node is well, for load balancers and people.

``GET /health`` answers 200, or 503 while writes are refused, with the reason; the body is JSON.
"""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from crdtstream.core.uid import shown_uid
from crdtstream.engine import Engine

BACKLOG = 128


class HealthPages:
    """The pages of one node."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/health", self._health, methods=["GET"])])

    async def _health(self, _request: Request) -> JSONResponse:
        region = self._engine.region
        is_healthy = region.refuses_writes is None
        body = {
            "region": region.replica.region,
            "healthy": is_healthy,
            "fault": region.fault,
            "stale": region.opening.obstacle,
            "database_uid": shown_uid(region.replica.database_uid) or None,
            "vv": {str(origin): n for origin, n in sorted(region.outstanding.durable_vv.items())},
        }
        return JSONResponse(body, status_code=200 if is_healthy else 503)


class HttpServer(uvicorn.Server):
    """Uvicorn inside a loop that is not its own: it leaves signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: Starlette) -> HttpServer:
    """A server for ``serve(sockets=[...])``; set ``should_exit`` to end it."""
    config = uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    return HttpServer(config)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on the address.

    Raises:
        OSError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
