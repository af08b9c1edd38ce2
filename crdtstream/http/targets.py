"""Targets of requests: a server has to take the absolute form as well (RFC 9112, 3.2.2).

    GET http://here:8381/readyz HTTP/1.1      as    GET /readyz HTTP/1.1

Always so: the path is the plain one before anything asks whether the caller may have the page.
"""

import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_ABSOLUTE: Final = re.compile(r"(?i)https?://[^/]*")


class PlainTargets:
    """Takes scheme and host from the front of a path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _ABSOLUTE.match(scope.get("path", ""))
        if found is not None:
            path = scope["path"][found.end() :] or "/"
            raw_path = _ABSOLUTE.sub("", scope["raw_path"].decode("latin-1"), count=1) or "/"
            scope = {**scope, "path": path, "raw_path": raw_path.encode("latin-1")}
        await self._app(scope, receive, send)
