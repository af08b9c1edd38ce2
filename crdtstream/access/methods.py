"""Methods of a gRPC server, and interceptors, which put something in front of them.

    caller ── the method's name, metadata ──> interceptor ──> gRPC reads the message ──> the service
                                              finds the method, and answers with another one that
                                              does something first: asks for a login, or waits

A method is found by its name alone, before any message of the call is read.
"""

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Behaviour: TypeAlias = Callable[[Any, Context], Any]
Value = TypeVar("Value")

# By "the request is a stream", "the answer is one": where gRPC keeps a method of this kind, and how
# it is made.
_KINDS: Final[dict[tuple[bool, bool], tuple[str, Callable[..., Any]]]] = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}


class Method(NamedTuple):
    """A method that is called.

    Attributes:
        path: ``service/method``.
    """

    path: str
    handler: Handler

    @property
    def service(self) -> str:
        return self.path.partition("/")[0]

    @property
    def behaviour(self) -> Behaviour:
        """The function of the service: of the request, or all requests, and the context."""
        name, _ = _KINDS[self.handler.request_streaming, self.handler.response_streaming]
        found: Behaviour = getattr(self.handler, name)
        return found

    def is_among(self, names: Collection[str]) -> bool:
        """True if it, or its service, is named."""
        return self.path in names or self.service in names

    def of(self, values: Mapping[str, Value]) -> Value | None:
        """Its value by its path, else by its service; None if neither is named."""
        return values.get(self.path, values.get(self.service))

    def replaced(
        self,
        behaviour: Behaviour,
        *,
        request_streaming: bool | None = None,
        response_streaming: bool | None = None,
    ) -> Handler:
        """The same method with another function; of another kind, if that is said."""
        kind = (
            self.handler.request_streaming if request_streaming is None else request_streaming,
            self.handler.response_streaming if response_streaming is None else response_streaming,
        )
        _, make = _KINDS[kind]
        made: Handler = make(
            behaviour, self.handler.request_deserializer, self.handler.response_serializer
        )
        return made

    def of_streams(self, behaviour: Behaviour) -> Handler:
        """The same method with a function that reads the messages itself.

        gRPC reads the one message of another method before it calls that.
        """
        return self.replaced(behaviour, request_streaming=True, response_streaming=True)


class MethodInterceptor(grpc.aio.ServerInterceptor, ABC):
    """Interceptor of calls of methods that exist; gRPC itself refuses those of others."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = Method(handler_call_details.method.lstrip("/"), handler)
        return self.intercepted(method, handler_call_details)

    @abstractmethod
    def intercepted(self, method: Method, details: grpc.HandlerCallDetails) -> Handler:
        """The method that answers the call in place of this one."""


def behind(before: Callable[[Any, Context], Awaitable[Any]], inner: Behaviour) -> Behaviour:
    """A function of a service that runs ``inner`` with the result of ``before``.

    Args:
        before: gets the request, or all requests, and the context; it may end the call.
    """
    if inspect.isasyncgenfunction(inner):

        async def yielding(request: Any, context: Context) -> AsyncIterator[Any]:
            given = await before(request, context)
            # Closed with this one: what it holds must not wait for the garbage collector.
            async with contextlib.aclosing(inner(given, context)) as replies:
                async for reply in replies:
                    yield reply

        return yielding

    async def returning(request: Any, context: Context) -> Any:
        # It returns one message, or writes all to the context itself.
        return await inner(await before(request, context), context)

    return returning


async def begin(context: Context) -> None:
    """Send the metadata with which an answer begins; so does a call that may be cut short.

    gRPC sends them with the first message, and notes that only once the message is sent.  If
    writing it is cancelled, it sends them again with the status, which its core refuses: the caller
    would never hear of the end.
    """
    # Sent already: the service began as well, or before.
    with contextlib.suppress(grpc.aio.UsageError):
        await context.send_initial_metadata(())


async def answer(method: Method, requests: AsyncIterator[Any], context: Context) -> None:
    """Call a method's own function within one of streams, and write what it answers."""
    handler = method.handler
    request = requests if handler.request_streaming else await _single(requests, context)
    if inspect.isasyncgenfunction(method.behaviour):
        # Closed here: what it holds must not wait for the garbage collector.
        async with contextlib.aclosing(method.behaviour(request, context)) as replies:
            async for reply in replies:
                await context.write(reply)
        return
    # It returns one message, or writes all to the context itself.
    reply = await method.behaviour(request, context)
    if not handler.response_streaming:
        await context.write(reply)


async def _single(requests: AsyncIterator[Any], context: Context) -> Any:
    request = await anext(aiter(requests), None)
    if request is None:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
    return request
