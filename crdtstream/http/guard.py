"""User and password of HTTP requests, where the port can be reached from other machines.

Health stays open, as load balancers and clients that fail over present no password: ``/healthz``,
``/readyz``, ``/health`` and the availability of the database.  All other pages name keys, addresses
or members, and ask.  The console asks by itself, on ports of this machine as well.
"""

import re
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from crdtstream.access.basic import HEADER, single_header
from crdtstream.access.logins import REASONS, Door, Logins, Verdict
from crdtstream.access.rights import Needs, may_see, may_see_keys
from crdtstream.http.answers import refusal

OPEN: Final = re.compile(
    r"/healthz|/readyz|/health"
    r"|/v1/bdbs/[^/]+/availability|/v1/local/bdbs/[^/]+/endpoint/availability"
)
# ``console/guard.py`` judges these.
CONSOLE: Final = re.compile(r"/|/console/.*", re.DOTALL)


class PageGuard:
    """Answers requests without the right login before any page sees them.

    Pages need the right to INFO, as they show what INFO shows; ``/metrics`` also that to KEYS, if
    it names keys.
    """

    def __init__(
        self, app: ASGIApp, logins: Logins, *, metrics_name_keys: bool, has_console: bool
    ) -> None:
        self._app = app
        self._logins = logins
        self._has_console = has_console
        self._metrics_need = may_see_keys if metrics_name_keys else may_see

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        verdict = await self._verdict(scope)
        if verdict is Verdict.ADMITTED:
            await self._app(scope, receive, send)
        elif verdict is Verdict.SLOWED:
            await refusal(429, "too_many_requests", REASONS[verdict])(scope, receive, send)
        elif verdict is Verdict.FORBIDDEN:
            await refusal(403, "forbidden", REASONS[verdict])(scope, receive, send)
        else:
            answer = refusal(401, "unauthorized", REASONS[verdict])
            answer.headers["WWW-Authenticate"] = 'Basic realm="crdtstream", charset="UTF-8"'
            await answer(scope, receive, send)

    async def _verdict(self, scope: Scope) -> Verdict:
        assert scope["type"] == "http", "the server has neither WebSockets nor a lifespan"
        path = scope["path"]
        if OPEN.fullmatch(path) or (self._has_console and CONSOLE.fullmatch(path)):
            return Verdict.ADMITTED
        needs = self._metrics_need if path == "/metrics" else may_see
        return await verdict_of(scope, self._logins, needs)


def header_of(scope: Scope) -> bytes:
    """The login that a request presents; empty if it presents none, or several."""
    return single_header(Request(scope).headers.getlist(HEADER))


async def verdict_of(scope: Scope, logins: Logins, needs: Needs) -> Verdict:
    """The verdict on a request for a page that needs a right."""
    address, port = scope.get("client") or ("", 0)
    return await logins.admit(
        header_of(scope),
        address,
        Door.HTTP,
        needs=needs,
        what=scope["path"],
        connection=f"http {address} {port}",
    )
