"""The console's place among the pages: it is loaded at its first request.

Most nodes are never looked at in a browser, and start faster without it.
"""

import asyncio

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from crdtstream.http.page_sources import PageSources


def routes(sources: PageSources) -> list[Route]:
    """All pages of the console, for one node."""
    if sources.make_console is None:
        return []
    loaded = _Loaded(sources)
    return [Route("/", loaded), Route("/console/{page:path}", loaded)]


class _Loaded:
    """The console, made at the first request for it."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._console: ASGIApp | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._console is None:
            async with self._loading:
                if self._console is None:
                    assert self._sources.make_console is not None, "there are no routes without it"
                    self._console = await asyncio.to_thread(self._sources.make_console)
        await self._console(scope, receive, send)
