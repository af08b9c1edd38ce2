"""Connections end when the authorities change that this node trusts, or a certificate is revoked.

Established connections go on with what they were checked by.  When the authorities change, the
links begin again, both ways, and all other calls end a moment later: callers with the right
certificate are back at once.  When certificates are revoked, what came with one of them ends.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from crdtstream.access.certified import CertificateGuard
from crdtstream.certificates.watching import Certificates
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine

LOOK_SECONDS: Final = Seconds(1.0, least=0.01)
# Time for calls that go on, as a backup.
END_SECONDS: Final = Seconds(1.0, least=0.0)

logger = structlog.get_logger(__name__)


async def follow_authorities(
    certificates: Certificates, guard: CertificateGuard, engine: Engine
) -> None:
    """Look for changed authorities until cancelled."""
    known = certificates.current.ca_version
    while True:
        await asyncio.sleep(LOOK_SECONDS.value)
        if certificates.current.ca_version != known:
            known = certificates.current.ca_version
            logger.info("the authorities have changed: links begin again")
            # Links end in good order: a call that is cut off while it writes has a status of gRPC's
            # own in the end, which says nothing.
            engine.region.links.begin_again()
            guard.end_calls(within=END_SECONDS.value)


async def follow_revoked(engine: Engine, end: Callable[[], None]) -> None:
    """Look for revoked certificates until cancelled.

    Args:
        end: ends what came with one of them.
    """
    membership = engine.region.membership
    known = membership.known.revoked
    while True:
        await asyncio.sleep(LOOK_SECONDS.value)
        if membership.known.revoked != known:
            known = membership.known.revoked
            end()


def tell_own_revoked(certificates: Certificates, engine: Engine) -> None:
    """Log it if the certificate of this node was revoked: others refuse its calls."""
    serial = certificates.current.serial
    if engine.region.membership.members.is_revoked(serial):
        logger.warning(
            "the certificate of this node was revoked: other regions refuse it; issue a new one for"
            " this node, and replace the files",
            serial=f"{serial:x}",
        )
