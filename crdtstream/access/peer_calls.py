"""Calls of this region to others: how it reaches them, and what it presents.

Over mutual TLS a channel demands the name of the region that it is for, so a node with the
certificate of another region is refused by TLS itself, whatever the address is.  The own
certificate is the login then.  A channel cannot change its certificates, so each call has a channel
of its own, with the set that is current when the call begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import grpc

from crdtstream.access.basic import NO_LOGIN, Login, Metadata
from crdtstream.certificates.names import region_dns_name
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import RegionId

Options: TypeAlias = Sequence[tuple[str, str | int]]

# Of all channels to nodes.  Links go straight to their region: a proxy of the environment would
# see what plain links carry.  And a channel shares no connection with another one: an attempt that
# failed just now is not waited for, and a new certificate is used.
CHANNEL_OPTIONS: Final = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
# In gRPC's text, when the certificate of a server lacks the name that was demanded.
NAME_IS_WRONG: Final = "Hostname Verification Check failed"
# The same, when no chain of valid certificates leads to an authority; the reason follows.
NOT_TRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"


def name_option(database_id: str, region: RegionId) -> tuple[str, str]:
    """Option of a channel that demands this region at the other end."""
    return "grpc.ssl_target_name_override", region_dns_name(database_id, region)


@dataclass(frozen=True, slots=True)
class PeerCalls:
    """The way from this region to all others.

    Attributes:
        database_id: of all of them.
        login: what calls present without certificates.
        certificates: of this node; None: calls are plain.
    """

    database_id: str = ""
    login: Login = NO_LOGIN
    certificates: Certificates | None = None

    @property
    def metadata(self) -> Metadata:
        """Metadata of a call between regions."""
        return self.login.metadata if self.certificates is None else ()

    def channel(
        self, address: str, region: RegionId | None, options: Options = ()
    ) -> grpc.aio.Channel:
        """A channel to a region, for one call; only plain calls may leave the region open."""
        options = (*CHANNEL_OPTIONS, *options)
        if self.certificates is None:
            return grpc.aio.insecure_channel(address, options=options)
        assert region is not None, "any region of the database could answer"
        used = self.certificates.current
        return grpc.aio.secure_channel(
            address,
            grpc.ssl_channel_credentials(used.ca, used.key, used.certificates),
            options=(*options, name_option(self.database_id, region)),
        )


PLAIN_CALLS: Final = PeerCalls()
