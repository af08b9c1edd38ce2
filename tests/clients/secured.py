"""A node whose only port for clients has TLS, with users, and the files of all who call.

The files lie as `crdtstream certs` lays them: `ca.pem`, and a folder for each holder.
"""

import contextlib
import datetime
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.certificates.making import DAY, Made, make, make_authority
from tests.live.cluster import Node, cluster_of
from tests.patience import seconds

PASSWORD: Final = "a-password-of-the-users"
# ``default`` is off, so a client without a user can do nothing.
USERS: Final = f"""
user default off
user app on >{PASSWORD} ~* &* +@all
user reader on >{PASSWORD} ~orders:* resetchannels -@all +xrange +acl|whoami
"""


@dataclass(frozen=True)
class Files:
    """Certificates as PEM files below ``folder``.

    | folder | certificate |
    | --- | --- |
    | region-1, renewed | the node's, and another one that may replace it |
    | client-app, client-reader | of users |
    | client-stranger | of a name that no user has |
    | client-expired | of the user app, no longer valid |
    | client-forged | of the user app, by an authority that the node does not trust (other-ca.pem) |
    """

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> "Files":
        files = cls(folder)
        authority, other = make_authority(), make_authority(name="another CA")
        folder.mkdir()
        (folder / "ca.pem").write_bytes(authority.pem)
        (folder / "other-ca.pem").write_bytes(other.pem)
        long_ago = datetime.datetime.now(datetime.UTC) - 30 * DAY
        for name, made in {
            "region-1": make(authority, "server", dns=("localhost",)),
            "renewed": make(authority, "renewed", dns=("localhost",)),
            "client-app": make(authority, "app"),
            "client-reader": make(authority, "reader"),
            "client-stranger": make(authority, "stranger"),
            "client-expired": make(authority, "app", begins=long_ago, ends=long_ago + DAY),
            "client-forged": make(other, "app"),
        }.items():
            files._put(name, made)
        return files

    def _put(self, name: str, made: Made) -> None:
        certificate, key = self.pair(name)
        certificate.parent.mkdir()
        certificate.write_bytes(made.pem)
        key.touch(0o600)
        key.write_bytes(made.key_pem)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def pair(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        return self.folder / name / "cert.pem", self.folder / name / "key.pem"

    def redis_py(self, name: str | None) -> dict[str, Any]:
        """Arguments of redis-py for a holder; None: a client without a certificate."""
        given: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(self.ca)}
        if name is not None:
            certificate, key = self.pair(name)
            given |= {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
        return given

    def settings(self, name: str = "region-1") -> dict[str, Any]:
        """Those of a node: TLS for all clients, who show a certificate and are its user."""
        certificate, key = self.pair(name)
        return {
            "resp_port": 0,
            "tls_auth_clients": "yes",
            "tls_auth_clients_user": "CN",
            "tls_cert_file": str(certificate),
            "tls_key_file": str(key),
            "tls_ca_cert_file": str(self.ca),
        }


@dataclass(frozen=True)
class Secured:
    """The node, and the files."""

    node: Node
    files: Files

    @property
    def port(self) -> int:
        return self.node.resp_port

    def options(self, name: str | None, **more: Any) -> dict[str, Any]:
        """Arguments of redis-py: it tries once, with the certificate of a holder if given."""
        once = Retry(NoBackoff(), 0)
        return {
            "host": "localhost",
            "port": self.port,
            "retry": once,
            **self.files.redis_py(name),
        } | more

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of test programs in other languages."""
        return {
            **os.environ,
            "PORT": str(self.port),
            "CERTIFICATES": str(self.files.folder),
            "PASSWORD": PASSWORD,
            **more,
        }


@contextlib.contextmanager
def secured_node(folder: Path) -> Iterator[Secured]:
    files = Files.made(folder / "ca")
    aclfile = folder / "users.acl"
    aclfile.write_text(USERS)
    with cluster_of(1, folder) as cluster:
        node = cluster[1]
        found = Secured(node, files)
        node.client = redis.Redis(**found.options("client-app", socket_timeout=seconds()))
        cluster.configure(tls_port=node.resp_port, aclfile=str(aclfile), **files.settings())
        cluster.start()
        yield found
