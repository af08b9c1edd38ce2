"""Logins of viewers: the same users and passwords as everywhere, asked for on each port.

The console shows entries, so it asks on a port of this machine too while a password is set, as the
Redis port does.  A browser presents user and password with each request (Basic), so there is no
session to steal or to forget.

A page of another site could make a browser ask here.  Three things keep it from reading:

- the names by which this node may be asked for, on a port without logins: a name of another
  domain that leads to this machine (DNS rebinding) is refused;
- requests that another site's page makes by itself are refused (``Sec-Fetch-Site``), and those
  that could change something unless a page of this node makes them (``Origin`` as well, as browsers
  send the former to trustworthy addresses alone); what a form proves besides, ``proofs.py`` judges;
- a policy in each answer: nothing from elsewhere, no script or style inside a page, no frames.
"""

import ipaddress
import re
from collections.abc import Callable, Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crdtstream.access.logins import REASONS, Logins, Verdict
from crdtstream.access.rights import Rights, may_see
from crdtstream.console.layout import refusal_page
from crdtstream.http.guard import header_of, verdict_of
from crdtstream.settings.addresses import is_loopback
from crdtstream.settings.node_settings import NodeSettings

# A host and a port.
_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+")
# They hold no figure, and the page of a refusal looks right with them.
OPEN: Final = "/console/static/"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # With none at all a form of this node would have no origin.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
CHALLENGE: Final = 'Basic realm="crdtstream", charset="UTF-8"'
# Methods that change nothing.
READING: Final = ("GET", "HEAD")
# Where the rights of the viewer are in a request's scope, and a function that judges them again.
RIGHTS: Final = "crdtstream.rights"
STILL_MAY: Final = "crdtstream.still_may"
STATUSES: Final = {
    Verdict.MISSING: 401,
    Verdict.WRONG: 401,
    Verdict.SLOWED: 429,
    Verdict.FORBIDDEN: 403,
}
TITLES: Final = {
    Verdict.MISSING: "Log in",
    Verdict.WRONG: "User or password is wrong",
    Verdict.SLOWED: "Too many wrong logins",
    Verdict.FORBIDDEN: "No right to look",
}
ADVICE: Final = {
    Verdict.MISSING: "Reload this page and give user and password, as for redis-cli.",
    Verdict.WRONG: "Reload this page and try again; users are those of the Redis port.",
    Verdict.SLOWED: "Others of your address may be guessing. Wait a minute and reload.",
    Verdict.FORBIDDEN: "The console needs the right to INFO (+info); an administrator gives it by"
    " ACL SETUSER.",
}


class ConsoleGuard:
    """Answers requests of those who may not look, and sets the headers of all answers."""

    def __init__(self, app: ASGIApp, logins: Logins, settings: NodeSettings) -> None:
        self._app = app
        self._logins = logins
        self._is_local = is_loopback(settings.http_host)
        self._names = {"localhost", settings.http_host.strip("[]"), *settings.announce_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server has neither WebSockets nor a lifespan"
        answer = await self._judged(scope)
        await answer(scope, receive, with_headers(send))

    async def _judged(self, scope: Scope) -> ASGIApp:
        request = Request(scope)
        # OPTIONS shows nothing and changes nothing; load balancers ask it, without a name.
        if scope["path"].startswith(OPEN) or scope["method"] == "OPTIONS":
            return self._app
        refused = refusal_of(request, self._names if self._is_local else None)
        if refused is not None:
            return refused
        verdict = await verdict_of(scope, self._logins, may_see)
        header = header_of(scope)
        rights = self._logins.rights(header)
        if verdict is Verdict.ADMITTED and rights is not None:
            scope[RIGHTS] = rights
            scope[STILL_MAY] = self._judge_again(header)
            return self._app
        refused = refusal_page(
            STATUSES[verdict], TITLES[verdict], f"{REASONS[verdict].capitalize()}.", ADVICE[verdict]
        )
        if STATUSES[verdict] == 401:
            refused.headers["www-authenticate"] = CHALLENGE
        return refused

    def _judge_again(self, header: bytes) -> Callable[[], bool]:
        def may_still_see() -> bool:
            rights = self._logins.rights(header)
            return rights is not None and may_see(rights)

        return may_still_see


def refusal_of(request: Request, names: Collection[str] | None) -> HTMLResponse | None:
    """The answer to a request that a page of another site makes; None: it is welcome.

    Args:
        names: by which it may be asked for, besides addresses; None: by any.
    """
    if names is not None and not _is_own_name(_asked_name(request), names):
        return refusal_page(
            421,
            "Another name",
            "This node is asked for by a name that is not its own.",
            "Use its address, as http://127.0.0.1:8381/, or add the name to announce_hosts.",
        )
    if _is_of_another_site(request):
        return refusal_page(
            403,
            "Another site asks",
            "No page of this node made this request.",
            "Open the console by its address.",
        )
    return None


def rights_of(request: Request) -> Rights:
    """Rights of the viewer."""
    rights: Rights = request.scope[RIGHTS]
    return rights


def _is_own_name(name: str | None, names: Collection[str]) -> bool:
    if name is None:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _asked_name(request: Request) -> str | None:
    """The name or address by which the node was asked, without the port; None: not one.

    The header itself is read: Starlette takes the node's own address for a name that it cannot
    read, and a browser asks for such names, too.
    """
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return None
    try:
        return urlsplit(f"//{hosts[0]}").hostname
    except ValueError:
        return None


def _is_of_another_site(request: Request) -> bool:
    """True if a page of another site makes it; a person who follows a link there is welcome."""
    if request.method not in READING:
        return not _is_of_this_site(request)
    headers = request.headers
    site = headers.get("sec-fetch-site", "none")
    if site in ("none", "same-origin"):
        return False
    is_visit = headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
    return not is_visit


def _is_of_this_site(request: Request) -> bool:
    """True if a browser says that a page of this node makes the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    if site is not None:
        return site == "same-origin"
    try:
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != ""
    except ValueError:
        return False


def with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sent
