"""First messages of calls: each comes in time, and few callers without a login are waited for.

A call begins with its metadata, and its message may follow at any time, byte by byte.  By itself
gRPC would wait for it without end, and keep what has come.  So a call ends when its first message,
all of it, has not come in time.  Of the calls that ask for no login only a few are waited for at a
time; if one more comes, the one that has waited longest ends.  It stands behind the guards that ask
for logins and certificates: calls that they refuse never come here.

Always so: gRPC reads no message of a call before this asks for one.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, Final

import grpc

from crdtstream.access.methods import Context, Handler, Method, MethodInterceptor, behind
from crdtstream.core.size import Seconds, Size

# Of a call that asks for no login.
OPEN_SECONDS: Final = Seconds(10.0, least=0.01)
# Of any other: a large message over a slow line.
ASKING_SECONDS: Final = Seconds(60.0, least=0.01)
# Calls without a login whose first message is waited for.
PLACES: Final = Size(16, least=1)

LATE: Final = "the message of this call did not come in time"
DISPLACED: Final = "too many calls whose message has not come; call again"
MISSING: Final = "this call has no message"


class FirstMessages(MethodInterceptor):
    """Ends calls whose first message does not come.

    Attributes:
        ended: how many were ended so, since the node started.

    Args:
        opens: services, or methods as ``service/method``, that ask for no login.
    """

    def __init__(self, *, opens: Collection[str]) -> None:
        self.ended = 0
        self._opens = frozenset(opens)
        # The first one has waited longest.
        self._waiting: dict[asyncio.Timeout, None] = {}
        self._displaced: set[asyncio.Timeout] = set()

    def intercepted(self, method: Method, details: grpc.HandlerCallDetails) -> Handler:
        is_open = method.is_among(self._opens)
        is_stream = method.handler.request_streaming

        async def given(requests: Any, context: Context) -> Any:
            return await self._given(requests, context, is_open=is_open, is_stream=is_stream)

        # As a method of streams: gRPC reads the message of any other one before it is called.
        return method.replaced(behind(given, method.behaviour), request_streaming=True)

    async def _given(
        self, requests: Any, context: Context, *, is_open: bool, is_stream: bool
    ) -> Any:
        """Argument of the method: its message, or all messages of the stream."""
        iterator = aiter(requests)
        first = await self._first(iterator, context, is_open=is_open)
        if is_stream:
            return _all_of(first, iterator)
        if not first:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, MISSING)
        return first[0]

    async def _first(
        self, iterator: AsyncIterator[Any], context: Context, *, is_open: bool
    ) -> list[Any]:
        """The first message; empty if the caller ended its stream without one."""
        seconds = OPEN_SECONDS.value if is_open else ASKING_SECONDS.value
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                if is_open:
                    self._take_place(scope)
                return [await anext(iterator)]
        except StopAsyncIteration:
            return []
        except TimeoutError:
            self.ended += 1
            if scope in self._displaced:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, DISPLACED)
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, LATE)
            raise AssertionError("abort raises") from None
        finally:
            self._waiting.pop(scope, None)
            self._displaced.discard(scope)

    def _take_place(self, scope: asyncio.Timeout) -> None:
        if len(self._waiting) >= PLACES.value:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            # One whose time is over is ending anyway.
            if not longest.expired():
                self._displaced.add(longest)
                longest.reschedule(asyncio.get_running_loop().time())
        self._waiting[scope] = None


async def _all_of(first: list[Any], rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    for message in first:
        yield message
    async for message in rest:
        yield message
