"""A node with a TLS port, and clients with and without certificates."""

import contextlib
import datetime
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crdtstream.certificates.node_files import read_set
from crdtstream.certificates.watching import Certificates
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import Limits
from tests import patience
from tests.certificates.making import Made, make, make_authority
from tests.certificates.node_folder import NodeFolder
from tests.resp.node import Node, RawClient, running


@dataclass
class Party:
    """The files of a node and of its clients, with one authority for all."""

    folder: NodeFolder
    authority: Made

    @classmethod
    def of(cls, folder: Path) -> "Party":
        authority = make_authority()
        party = cls(NodeFolder(folder), authority)
        party.folder.put_all(party.issue("server"))
        return party

    def issue(self, name: str, **differences: Any) -> Made:
        return make(self.authority, name, **{"dns": ("localhost",), **differences})

    @property
    def ca_path(self) -> Path:
        return self.folder.folder / "ca.pem"

    def files_of(self, name: str, leaf: Made | None = None) -> tuple[Path, Path]:
        """The files of a client's certificate and of its key."""
        leaf = self.issue(name) if leaf is None else leaf
        self.folder.put(f"{name}.pem", leaf.pem + leaf.between)
        self.folder.put(f"{name}-key.pem", leaf.key_pem)
        folder = self.folder.folder
        return folder / f"{name}.pem", folder / f"{name}-key.pem"

    def certificates(self) -> Certificates:
        paths = self.folder.paths
        now = datetime.datetime.now(datetime.UTC)
        return Certificates(paths, None, *read_set(paths, None, now))

    def context(
        self, name: str | None = None, *, leaf: Made | None = None, version: str | None = None
    ) -> ssl.SSLContext:
        """A context of a client, with the certificate of this name if one is given."""
        context = ssl.create_default_context(cafile=self.ca_path)
        if name is not None or leaf is not None:
            context.load_cert_chain(*self.files_of(name or "client", leaf))
        if version is not None:
            one = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[version]
            context.minimum_version = context.maximum_version = one
        return context

    @contextlib.contextmanager
    def running(
        self, *, config_file: Path | None = None, **settings: Any
    ) -> Iterator["tuple[Node, Party]"]:
        """A node with both ports; its clients need no certificate unless ``settings`` say so."""
        limits = settings.pop("limits", {})
        given = {"tls_auth_clients": "no", **settings}
        node_settings = NodeSettings(region=1, dir=Path("unused"), limits=Limits(**limits), **given)
        with running(node_settings, config_file, certificates=self.certificates()) as node:
            yield node, self


class TlsClient(RawClient):
    """Bytes to and from a node, over TLS."""

    def __init__(
        self, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        super().__init__(port)
        self.tls = context.wrap_socket(
            self.socket,
            server_hostname="localhost",
            session=session,
            # An end without close_notify is to be seen.
            suppress_ragged_eofs=False,
        )
        self.socket = self.tls


def is_served(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> bool:
    """True if a client with this context gets an answer.

    With TLS 1.3 a client learns only from its first read that it was refused.
    """
    try:
        with TlsClient(port, context, session) as client:
            client.send(b"PING\r\n")
            return client.read(7) == b"+PONG\r\n"
    except OSError:
        return False


def wait_until(node: Node, condition: Callable[[], object]) -> None:
    """Until it holds on the node's loop."""
    patience.wait_until(lambda: node.call(condition), "the condition held on the node's loop")
