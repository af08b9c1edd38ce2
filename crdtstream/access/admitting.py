"""Admission of gRPC calls by user and password, on ports with TLS and without."""

import urllib.parse
from typing import Any, Final

import grpc

from crdtstream.access.basic import HEADER, single_header
from crdtstream.access.logins import REASONS, Door, Judge, Logins, Verdict
from crdtstream.access.methods import Context
from crdtstream.access.rights import CALLER_RIGHTS, Needs

_CODES: Final = {
    Verdict.MISSING: grpc.StatusCode.UNAUTHENTICATED,
    Verdict.WRONG: grpc.StatusCode.UNAUTHENTICATED,
    Verdict.SLOWED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Verdict.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
}


async def admit(
    logins: Logins,
    context: Context,
    *,
    path: str,
    judge: Judge | None = None,
    needs: Needs | None = None,
) -> None:
    """End a call that is not admitted; the service finds the rights of the caller of another one
    in ``CALLER_RIGHTS``.

    Args:
        path: of the method.
        judge: knows the callers; None: the judge of the logins does.
        needs: what they need the right to; None: a login is enough.
    """
    header = login_in(context.invocation_metadata())
    peer = context.peer()
    verdict = await logins.admit(
        header, address_of(peer), Door.GRPC, judge, needs, what=path, connection=peer
    )
    rights = logins.rights(header, judge)
    if verdict is Verdict.ADMITTED and rights is None:
        # The user was removed, or its password changed, while the call waited.
        verdict = Verdict.WRONG
    if verdict is not Verdict.ADMITTED:
        await context.abort(_CODES[verdict], REASONS[verdict])
    assert rights is not None, "abort raises"
    CALLER_RIGHTS.set(rights)


def login_in(metadata: Any) -> bytes:
    return single_header([value for name, value in metadata or () if name == HEADER])


def address_of(peer: str) -> str:
    """The IP address in gRPC's name for a caller: ``ipv4:10.0.0.1:471``, ``ipv6:%5B::1%5D:471``."""
    kind, _, rest = urllib.parse.unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer


def address_in(peer: str) -> str:
    """IP address and port in gRPC's name for a caller."""
    kind, _, rest = urllib.parse.unquote(peer).partition(":")
    return rest if kind in ("ipv4", "ipv6") else peer
