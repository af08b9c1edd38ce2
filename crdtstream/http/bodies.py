"""Bodies of requests: only the console reads one, and a large one is refused before it is sent."""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from crdtstream.http.answers import refusal
from crdtstream.http.server import BODY_BYTES_MAX


class BodyBound:
    """Answers requests that announce a large body before any page sees them.

    A body of unknown length is bounded by ``server.py``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = Request(scope).headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) <= BODY_BYTES_MAX:
            await self._app(scope, receive, send)
            return
        answer = refusal(413, "content_too_large", f"a body has at most {BODY_BYTES_MAX} bytes")
        answer.headers["connection"] = "close"
        await answer(scope, receive, send)
