"""Changes as they happen, for one browser: a response that does not end by itself.

It ends when the browser leaves, does not read for ``SEND_SECONDS_MAX``, has lost changes, may not
look any more, or after ``WATCH_SECONDS_MAX``; browsers then ask again by themselves.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from crdtstream.console.feed import Feed, Viewer, ViewersFullError
from crdtstream.core.size import Seconds
from crdtstream.http.answers import refusal

SEND_SECONDS_MAX: Final = Seconds(10.0, least=0.01)
WATCH_SECONDS_MAX: Final = Seconds(3_600.0, least=0.01)
# A user who is deleted, or loses the right, sees no more after this.
RIGHTS_SECONDS: Final = Seconds(5.0, least=0.01)
HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
FULL: Final = (
    "as many pages watch this node as may; close one, or reload this one to see new figures"
)


class LiveResponse:
    """The response; an ASGI application.

    Args:
        still_may: True while the viewer has the right to look.
    """

    def __init__(self, feed: Feed, still_may: Callable[[], bool]) -> None:
        self._feed = feed
        self._still_may = still_may

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.ExitStack() as watching:
            try:
                viewer = watching.enter_context(self._feed.watching())
            except ViewersFullError:
                await refusal(503, "too_many_viewers", FULL)(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            left = asyncio.create_task(_left(receive))
            try:
                async with asyncio.timeout(WATCH_SECONDS_MAX.value):
                    await self._tell(viewer, left, send)
                    await send({"type": "http.response.body", "body": b""})
            except TimeoutError:
                # The server closes the connection of an answer without an end.
                return
            finally:
                left.cancel()

    async def _tell(self, viewer: Viewer, left: "asyncio.Task[None]", send: Send) -> None:
        loop = asyncio.get_running_loop()
        judged = loop.time()
        while not viewer.is_behind and not left.done():
            if loop.time() >= judged + RIGHTS_SECONDS.value:
                if not self._still_may():
                    return
                judged = loop.time()
            # An event comes each second: a browser that does not read is what takes longer.
            async with asyncio.timeout(SEND_SECONDS_MAX.value):
                event = await viewer.next()
                await send({"type": "http.response.body", "body": event, "more_body": True})


async def _left(receive: Receive) -> None:
    """Ends when the browser has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
