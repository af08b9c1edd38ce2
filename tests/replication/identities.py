"""Certificates of regions and others under one authority, and connections that show them."""

import datetime
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from crdtstream.access.peer_calls import name_option
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.names import Holder, Role
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import RegionId
from tests.certificates.making import Made, make, make_authority
from tests.certificates.node_folder import NodeFolder

TRUST = "crdtstream.internal"


@dataclass
class Issuer:
    """An authority, and the files of those that it issued for."""

    folder: Path
    root: Made = field(default_factory=make_authority)

    def made(
        self,
        role: Role,
        name: str,
        *,
        database_id: str = "crdb",
        trust_domain: str = TRUST,
        **spoilt: Any,
    ) -> Made:
        """A certificate of a holder."""
        holder = Holder(trust_domain, database_id, role, name)
        names = [] if holder.dns_name is None else [holder.dns_name]
        return make(self.root, holder.folder_name, dns=names, uris=[holder.uri], **spoilt)

    def region(self, number: int, **differs: Any) -> Made:
        return self.made(Role.REGION, str(number), **differs)

    def files(self, number: int) -> NodeFolder:
        """The folder of a region's node, with new files if it has none."""
        folder = self.folder / f"region-{number}"
        if not folder.exists():
            folder.mkdir(parents=True)
            NodeFolder(folder).put_all(self.region(number))
        return NodeFolder(folder)

    async def certificates(self, number: int) -> Certificates:
        """The certificates of a region, as its node has them."""
        wanted = Wanted(RegionId(number), "crdb")
        return await Certificates.open(self.files(number).paths, wanted)


def showing(
    address: str, shown: Made | None, *, region: int = 1, ca: bytes | None = None
) -> grpc.aio.Channel:
    """A channel that shows a certificate, or none, and demands this region at the other end."""
    if shown is None:
        credentials = grpc.ssl_channel_credentials(ca)
    else:
        chain = shown.pem + shown.between
        credentials = grpc.ssl_channel_credentials(ca or shown.root.pem, shown.key_pem, chain)
    name = name_option("crdb", RegionId(region))
    return grpc.aio.secure_channel(address, credentials, options=(name,))


def shown_by(address: str, client: NodeFolder) -> bytes:
    """The certificate that a server shows to a new connection of this holder, in PEM.  Blocks."""
    context = ssl.create_default_context(cafile=str(client.paths.ca))
    context.check_hostname = False
    context.load_cert_chain(client.paths.certificate, client.paths.key)
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain) as connection,
    ):
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found).encode()


def seconds_from_now(seconds: float) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
