"""Calls of a gRPC port with mutual TLS: each asks for a certificate of the right kind of holder.

The guard stands before all services, and a method that no right names is for operators alone, so
one that is added later is closed.  It asks before it reads: a message comes out of the connection
only when its caller may call.

    service                            certificate of                  or user and password
    --------------------------------   -----------------------------   --------------------
    Replication, Membership, Bootstrap a region                        no
    Admin.Members, Admin.Status        an operator, a current member   yes
    Admin                              an operator                     yes
    Query                              an operator, a reader           yes
    Reflection                         an operator                     yes
    Health                             any of these                    no need

A client's certificate is for the port of Redis clients, and refused here.

A region's services compare the region of the certificate with the one that the message names, and
know who is a member; see ``check_region`` in ``callers.py``.

Always so: no call outlives its caller's certificate, or the authorities that it was checked with.
A certificate ends when it expires, and when it is revoked.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc

from crdtstream.access.admitting import admit, login_in
from crdtstream.access.callers import Caller, CallerError, Callers
from crdtstream.access.logins import Logins
from crdtstream.access.methods import (
    Behaviour,
    Context,
    Handler,
    Method,
    MethodInterceptor,
    answer,
    begin,
)
from crdtstream.access.rights import Needs, administers
from crdtstream.access.running import RunningCalls
from crdtstream.certificates.names import Holder, Role
from crdtstream.core.ids import RegionId

ENDED: Final = (
    "the caller's certificate expired or was revoked, or the authorities that this node trusts have"
    " changed; call again"
)


@dataclass(frozen=True, slots=True)
class Right:
    """The right to call a service or method.

    Attributes:
        roles: the holders that have it.
        by_password: users of this node have it as well, whatever certificate they come with.  A
            call with user and password has the rights of that user, and no others.
        members_only: of regions only those that are members now.
        needs: what a user needs the right to; None: a login is enough.
    """

    roles: frozenset[Role]
    by_password: bool = False
    members_only: bool = False
    needs: Needs | None = None


OPERATORS: Final = Right(frozenset({Role.OPERATOR}), by_password=True, needs=administers)


class CertificateGuard(MethodInterceptor):
    """Ends calls without the right certificate before their service hears of them.

    Attributes:
        callers: finds out whose certificate a call came with.

    Args:
        rights: by service or ``service/method``; what is not named is for operators.
        is_member: true of a region that is a member now, or joins.
    """

    def __init__(
        self,
        callers: Callers,
        logins: Logins,
        *,
        rights: Mapping[str, Right],
        is_member: Callable[[RegionId], bool],
    ) -> None:
        self.callers = callers
        self._logins = logins
        self._rights = rights
        self._is_member = is_member
        self._running = RunningCalls()

    @property
    def count(self) -> int:
        """Number of calls that go on."""
        return len(self._running)

    def end_calls(self, *, within: float) -> None:
        """End all calls that go on now: their connections were checked with former authorities.

        Args:
            within: seconds that they have to end by themselves.
        """
        self._running.end_all(within=within)

    def end_revoked(self) -> None:
        """End the calls whose certificates were revoked since they began."""
        self._running.end_of(self.callers.is_revoked)

    def intercepted(self, method: Method, details: grpc.HandlerCallDetails) -> Handler:
        right = method.of(self._rights)
        return method.of_streams(self._guarded(method, OPERATORS if right is None else right))

    def _guarded(self, method: Method, right: Right) -> Behaviour:
        async def behaviour(requests: AsyncIterator[Any], context: Context) -> None:
            # First of all: nothing waits between the look at the certificate and the scope.
            await begin(context)
            try:
                caller = self.callers.caller_of(context)
            except CallerError as error:
                await self.callers.refuse(context, str(error))
            try:
                # From here on it ends with its certificate, also while its login is slowed down.
                async with self._running.bounded(caller.serial, until=caller.not_after):
                    await self._admit(caller, context, right, method.path)
                    await answer(method, requests, context)
            except TimeoutError:
                await context.abort(grpc.StatusCode.UNAVAILABLE, ENDED)

        return behaviour

    async def _admit(self, caller: Caller, context: Context, right: Right, path: str) -> None:
        """End a call here that may not be."""
        # A user that is named beside a certificate counts, also where that alone would do.
        if right.by_password and await self._has_login(context, right, path):
            return
        reason = self._refusal(caller.holder, right)
        if reason is not None:
            await self.callers.refuse(context, reason)

    def _refusal(self, holder: Holder, right: Right) -> str | None:
        """Reason why a holder may not call by its certificate alone; None if it may."""
        if holder.role not in right.roles:
            wanted = " or ".join(sorted(role.value for role in right.roles))
            further = ", or a user and password of this node" if right.by_password else ""
            return f"certificate is of {holder.title}; this call is for role {wanted}{further}"
        region = holder.region
        if right.members_only and region is not None and not self._is_member(region):
            return f"certificate is of region {region}, which is no member"
        return None

    async def _has_login(self, context: Context, right: Right, path: str) -> bool:
        """True with user and password, and the right; false without any; else the call ends here.

        The service finds the rights of the user in ``CALLER_RIGHTS``.
        """
        if not self._logins.asks or not login_in(context.invocation_metadata()):
            return False
        await admit(self._logins, context, path=path, needs=right.needs)
        return True
