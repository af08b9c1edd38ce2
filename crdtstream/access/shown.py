"""Calls of a port whose certificates may be of any authority: a revoked one is refused.

The port of ``[query]`` takes certificates of the authority that its operator names, whatever they
say.  The database's list of revoked certificates knows them by their serial numbers.

Always so: no call outlives its caller's certificate.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc

from crdtstream.access.callers import CallerError, shown_certificate
from crdtstream.access.methods import (
    Behaviour,
    Context,
    Handler,
    Method,
    MethodInterceptor,
    answer,
    begin,
)
from crdtstream.access.running import RunningCalls

ENDED: Final = "the caller's certificate expired or was revoked; it needs a new one"


class ShownCertificates(MethodInterceptor):
    """Ends calls whose certificate was revoked before their service hears of them.

    Args:
        is_revoked: true of the serial number of a certificate that was revoked.
    """

    def __init__(self, is_revoked: Callable[[int], bool]) -> None:
        self._is_revoked = is_revoked
        self._running = RunningCalls()

    def end_revoked(self) -> None:
        """End the calls whose certificates were revoked since they began."""
        self._running.end_of(self._is_revoked)

    def intercepted(self, method: Method, details: grpc.HandlerCallDetails) -> Handler:
        return method.of_streams(self._guarded(method))

    def _guarded(self, method: Method) -> Behaviour:
        async def behaviour(requests: AsyncIterator[Any], context: Context) -> None:
            # First of all: nothing waits between the look at the certificate and the scope.
            await begin(context)
            try:
                shown = shown_certificate(context.auth_context())
            except CallerError as error:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
            if self._is_revoked(shown.serial):
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, ENDED)
            try:
                async with self._running.bounded(shown.serial, until=shown.not_after):
                    await answer(method, requests, context)
            except TimeoutError:
                await context.abort(grpc.StatusCode.UNAVAILABLE, ENDED)

        return behaviour
