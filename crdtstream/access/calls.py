"""Calls of a gRPC server: each asks for user and password unless its service is open.

The guard stands before all services, so a method that is added later asks as well.  Which calls
ask depends on the port:

    service                                      port of this machine      port that others reach
    -----------------------------------------    ----------------------    ----------------------
    Health, Replication, Membership.Join         open                      open
    Query, Admin.PushUsers                       asks                      asks
    Admin, Bootstrap, Membership, Reflection     open                      asks

Regions call Membership, Bootstrap and two methods of Admin by a login of their own (``basic.py``).
Join has its token; links (Replication) ask nobody here.  This guard is of ports without TLS:
``certified.py`` knows regions by their certificates.  The port decides, not the caller: a proxy on
this machine makes every caller look local.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc

from crdtstream.access.admitting import admit, login_in
from crdtstream.access.logins import Judge, Logins
from crdtstream.access.methods import (
    Behaviour,
    Context,
    Handler,
    Method,
    MethodInterceptor,
    behind,
)
from crdtstream.access.rights import Needs


class CallGuard(MethodInterceptor):
    """Ends calls without the right login before their service hears of them.

    Args:
        opens: services, or methods as ``service/method``, that ask nobody.
        judges: by service or ``service/method`` the judge of its callers; without one, that of the
            logins.
        needs: by service or ``service/method`` what its callers need the right to; the method
            counts, if both are there.
    """

    def __init__(
        self,
        logins: Logins,
        *,
        opens: Collection[str],
        closed: Collection[str] = frozenset(),
        judges: Mapping[str, Judge] = MappingProxyType({}),
        needs: Mapping[str, Needs] = MappingProxyType({}),
    ) -> None:
        self._logins = logins
        self._opens, self._closed = frozenset(opens), frozenset(closed)
        self._judges = judges
        self._needs = needs

    def intercepted(self, method: Method, details: grpc.HandlerCallDetails) -> Handler:
        if method.path not in self._closed and method.is_among(self._opens):
            return method.handler
        ask = _Asked(method.path, method.of(self._judges), method.of(self._needs))
        rights = self._logins.rights(login_in(details.invocation_metadata), ask.judge)
        if rights is None or not (ask.needs is None or ask.needs(rights)):
            # gRPC hands over no message of a stream that nobody asks for: it takes no memory.
            return grpc.stream_stream_rpc_method_handler(self._refusing(ask))
        return method.replaced(self._guarded(method.behaviour, ask))

    def _refusing(self, ask: "_Asked") -> Behaviour:
        async def behaviour(_requests: Any, context: Context) -> None:
            await self._admit(context, ask)

        return behaviour

    def _guarded(self, inner: Behaviour, ask: "_Asked") -> Behaviour:
        async def admitted(request: Any, context: Context) -> Any:
            await self._admit(context, ask)
            return request

        return behind(admitted, inner)

    async def _admit(self, context: Context, ask: "_Asked") -> None:
        await admit(self._logins, context, path=ask.path, judge=ask.judge, needs=ask.needs)


class _Asked(NamedTuple):
    """Conditions on the caller of a method.

    Attributes:
        path: its name.
        judge: knows its callers; None: the judge of the logins does.
        needs: what they need the right to; None: a login is enough.
    """

    path: str
    judge: Judge | None
    needs: Needs | None
