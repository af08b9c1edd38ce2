"""Callers of a gRPC port with mutual TLS: the holders that their certificates name.

TLS has seen that a chain leads to an authority that this node trusts, and that the caller has the
key.  The rest is here: the certificate names one holder, of this node's database and trust domain,
and it has neither expired nor been revoked since the connection was made.
"""

import asyncio
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

import grpc
import structlog

from crdtstream.access.methods import Context
from crdtstream.certificates.certificate import Certificate, parse_certificates
from crdtstream.certificates.chain import time_text
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.names import Holder, Role
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds

LOG_SECONDS: Final = Seconds(60.0, least=0.001)
PEM_KEY: Final = "x509_pem_cert"

logger = structlog.get_logger(__name__)


class CallerError(Exception):
    """A caller is not who it must be; the text says who it is."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of the certificate that a call came with.

    Attributes:
        serial: of that certificate.
        not_after: when it expires.
    """

    holder: Holder
    serial: int
    not_after: datetime.datetime


class Callers:
    """The callers of one node.

    Attributes:
        certificates: of this node.
        is_revoked: true of the serial number of a certificate that was revoked.
        failures: count of calls that were refused for their certificate, since the node started.
    """

    def __init__(self, certificates: Certificates, is_revoked: Callable[[int], bool]) -> None:
        self.certificates = certificates
        self.is_revoked = is_revoked
        self.failures = 0
        self._log_from = 0.0
        self._unlogged = 0

    def caller_of(self, context: Context) -> Caller:
        """The caller of a call.

        Raises:
            CallerError: its certificate names none of this database, has expired, or was revoked.
        """
        certificate = shown_certificate(context.auth_context())
        holder, own = certificate.holder, self.certificates.current.holder
        assert own is not None, "a node without a name in its certificate speaks no mutual TLS"
        if holder is None:
            shown = ", ".join(certificate.uris) or "no URI"
            raise CallerError(f"its certificate names no region, operator or reader: {shown}")
        if holder.database_id != own.database_id:
            raise CallerError(
                f"its certificate is of {holder.title}, this is database {own.database_id}"
            )
        if holder.trust_domain != own.trust_domain:
            raise CallerError(
                f"its certificate is of trust domain {holder.trust_domain}, this is"
                f" {own.trust_domain}"
            )
        if certificate.not_after < _now():
            raise CallerError(f"its certificate expired at {time_text(certificate.not_after)}")
        if self.is_revoked(certificate.serial):
            raise CallerError(
                f"its certificate {certificate.serial:x} of {holder.title} was revoked; it needs a"
                " new one"
            )
        return Caller(holder, certificate.serial, certificate.not_after)

    async def check_region(self, context: Context, claimed: int, what: str) -> None:
        """End a call unless its certificate is of the region that it says it comes from.

        Args:
            what: the message that says so, for the refusal.
        """
        try:
            holder = self.caller_of(context).holder
        except CallerError as error:
            await self.refuse(context, str(error))
        if holder.region != claimed:
            is_region = holder.region is not None
            shown = f"region {holder.region}" if is_region else holder.title
            await self.refuse(context, f"certificate is of {shown}, {what} says {claimed}")

    async def refuse(self, context: Context, reason: str) -> NoReturn:
        """End a call for its certificate; count it, and log it at most once a minute."""
        self.failures += 1
        self._unlogged += 1
        at = asyncio.get_running_loop().time()
        if at >= self._log_from:
            logger.warning(
                "a call is refused for its certificate",
                address=context.peer(),
                reason=reason,
                count=self._unlogged,
            )
            self._unlogged = 0
            self._log_from = at + LOG_SECONDS.value
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        raise AssertionError("abort raises")


def figures(certificates: Certificates | None, callers: Callers | None) -> dict[str, int]:
    """Figures about certificates, for INFO; none without certificates."""
    if certificates is None:
        return {}
    found = {
        "crdt_tls_certificate_version": certificates.current.version,
        "crdt_tls_certificate_seconds_left": int(certificates.seconds_left),
        "crdt_tls_certificate_reload_failures": certificates.reload_failures,
        "crdt_tls_certificate_refused": int(certificates.fault is not None),
    }
    if callers is not None:
        found["crdt_peer_auth_failures"] = callers.failures
        found["crdt_tls_certificate_revoked"] = int(callers.is_revoked(certificates.current.serial))
    return found


async def check_region(
    callers: Callers | None, context: Context, claimed: RegionId | int, what: str
) -> None:
    """As ``Callers.check_region``; on a port without TLS nobody can be asked."""
    if callers is not None:
        await callers.check_region(context, claimed, what)


def shown_certificate(auth_context: Mapping[str, Iterable[bytes]]) -> Certificate:
    """The certificate of a connection.

    Raises:
        CallerError: there is none, it cannot be read, or it is for the port of Redis clients alone.
    """
    found = list(auth_context.get(PEM_KEY) or ())
    if len(found) != 1:
        raise CallerError("it shows no certificate")
    try:
        certificate = _parsed(found[0])
    except CertificateError as error:
        raise CallerError(f"its certificate cannot be read: {error}") from error
    holder = certificate.holder
    if holder is not None and holder.role is Role.CLIENT:
        raise CallerError(
            f"its certificate is of {holder.title}, for the port of Redis clients alone; show that"
            " of an operator or reader"
        )
    return certificate


@lru_cache(maxsize=128)
def _parsed(pem: bytes) -> Certificate:
    """The certificate of a connection, which all of its calls have."""
    return parse_certificates(pem)[0]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
