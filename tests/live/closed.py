"""A closed set-up: regions whose ports speak TLS, ask, and can be reached from other machines.

    clients   ── TLS, certificate, user ──> tls_port     (no resp_port)
    programs  ── TLS, certificate       ──> grpc_port
    browsers  ── TLS, user              ──> http_port

Certificates are those of ``crdtstream certs``; users stand in an aclfile, and ``default`` is off.
"""

import datetime
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from typer.testing import CliRunner

from crdtstream.access.basic import Login
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.node_files import CertificateSet, Paths, read_set
from crdtstream.cli.certs import app as certs
from tests.conftest import ROOT
from tests.live.cluster import Cluster, Node, cluster_of
from tests.patience import seconds

PASSWORD: Final = "correct-horse-battery"
EVERYWHERE: Final = "0.0.0.0"
# Addresses of this machine at which tests and their proxies reach a node.
HOSTS: Final = ("localhost", EVERYWHERE, "127.0.0.1", "127.0.0.2", "127.0.0.3")
# The users of the example, which are what its programs are documented to need; and some for tests.
EXAMPLE: Final = ROOT / "deploy" / "closed" / "users.acl"
USERS: Final = {
    "reader": "~orders:* resetchannels -@all +xrange +xinfo|stream",
    "writer": "%W~orders:* resetchannels -@all +xadd",
    "nobody": "resetkeys resetchannels -@all",
}


def users() -> str:
    """An aclfile: the users of the example and those of tests, all with one password."""
    hashed = hashlib.sha256(PASSWORD.encode()).hexdigest()
    own = [f"user {name} on #{hashed} {rules}\n" for name, rules in USERS.items()]
    return EXAMPLE.read_text().replace("SHA256-OF-THE-PASSWORD", hashed) + "".join(own)


@dataclass(frozen=True)
class Files:
    """A certificate, its key and the authorities, as commands are given them."""

    folder: Path

    @property
    def paths(self) -> Paths:
        return Paths(self.folder / "cert.pem", self.folder / "key.pem", self.folder / "ca.pem")

    @property
    def options(self) -> tuple[str, ...]:
        paths = self.paths
        return (
            *("--tls-cert-file", str(paths.certificate)),
            *("--tls-key-file", str(paths.key)),
            *("--tls-ca-cert-file", str(paths.ca)),
        )

    @property
    def contents(self) -> CertificateSet:
        return read_set(self.paths, Wanted(), datetime.datetime.now(datetime.UTC))[0]

    @property
    def for_redis(self) -> dict[str, Any]:
        """Arguments of redis-py."""
        paths = self.paths
        return {
            "ssl": True,
            "ssl_ca_certs": str(paths.ca),
            "ssl_certfile": str(paths.certificate),
            "ssl_keyfile": str(paths.key),
        }

    @property
    def for_redis_cli(self) -> tuple[str, ...]:
        paths = self.paths
        words = ("--cacert", paths.ca, "--cert", paths.certificate, "--key", paths.key)
        return ("--tls", *map(str, words))


class Authority:
    """The authority of a set-up, used as an operator uses it: by ``crdtstream certs``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run("init", str(folder))

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def region(self, number: int) -> Files:
        hosts = [word for host in HOSTS for word in ("--host", host)]
        return self._issued("region", str(number), *hosts)

    def operator(self, name: str) -> Files:
        return self._issued("operator", name)

    def query(self, name: str) -> Files:
        return self._issued("query", name)

    def client(self, name: str) -> Files:
        return self._issued("client", name)

    def _issued(self, role: str, name: str, *options: str) -> Files:
        target = self.folder / f"{role}-{name}"
        if not target.exists():
            self.run("issue", str(self.folder), role, name, *options)
        return Files(target)

    def run(self, *words: str) -> None:
        found = CliRunner().invoke(certs, words)
        assert found.exit_code == 0, found.output


class Closed:
    """Regions of a closed set-up, with an operator and a reader; not started yet.

    Attributes:
        operator, reader: the certificates of an operator, and of a program that reads.
    """

    def __init__(self, cluster: Cluster, folder: Path, **settings: object) -> None:
        self.cluster = cluster
        self.folder = folder
        self.authority = Authority(folder / "ca")
        self.operator = self.authority.operator("alice")
        self.reader = self.authority.query("etl")
        self.settings = settings
        for region in cluster.nodes:
            self.prepare(cluster[region])
            peers = {n: one.grpc_address for n, one in cluster.nodes.items() if n != region}
            cluster[region].configure(peers, **self.settings_of(cluster[region]))

    def prepare(self, node: Node) -> None:
        """Have the node's clients and operators present what it asks for."""
        aclfile = self.folder / f"users-{node.region}.acl"
        aclfile.write_text(users())
        node.login = Login(certificates=self.operator.contents)
        node.login_options = self.operator.options
        node.client = self.redis(node)

    def settings_of(self, node: Node) -> dict[str, object]:
        paths = self.authority.region(node.region).paths
        return {
            **dict.fromkeys(("host", "grpc_host", "http_host"), EVERYWHERE),
            "resp_port": 0,
            "tls_port": node.resp_port,
            "tls_cert_file": str(paths.certificate),
            "tls_key_file": str(paths.key),
            "tls_ca_cert_file": str(paths.ca),
            "tls_replication": True,
            "tls_http": True,
            "aclfile": str(self.folder / f"users-{node.region}.acl"),
            **self.settings,
        }

    def redis(self, node: Node, user: str = "root", **differs: Any) -> Any:
        """A client of a node; it tries once."""
        return redis.Redis(
            **{
                "host": "127.0.0.1",
                "port": node.resp_port,
                "username": user,
                "password": PASSWORD,
                "socket_timeout": seconds(),
                "retry": Retry(NoBackoff(), 0),
                **self.operator.for_redis,
                **differs,
            }
        )

    def password_file(self) -> Path:
        path = self.folder / "password"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(f"{PASSWORD}\n")
        return path

    def environment(self, user: str) -> dict[str, str]:
        """Variables by which programs present the operator's certificate, and a user."""
        paths = self.operator.paths
        return {
            "CRDTSTREAM_OPERATOR_TLS_CERT_FILE": str(paths.certificate),
            "CRDTSTREAM_OPERATOR_TLS_KEY_FILE": str(paths.key),
            "CRDTSTREAM_OPERATOR_TLS_CA_CERT_FILE": str(paths.ca),
            "REDIS_OPTIONS": " ".join((*self.operator.for_redis_cli, "--user", user)),
            "REDISCLI_AUTH": PASSWORD,
            "REQUESTS_CA_BUNDLE": str(paths.ca),
        }

    def __getitem__(self, region: int) -> Node:
        return self.cluster[region]

    @property
    def nodes(self) -> list[Node]:
        return list(self.cluster.nodes.values())

    @property
    def addresses(self) -> str:
        """gRPC addresses of all regions, with commas."""
        return ",".join(node.grpc_address for node in self.nodes)


@contextmanager
def closed_regions(count: int, folder: Path, **settings: object) -> Iterator[Closed]:
    """A closed set-up that runs."""
    with cluster_of(count, folder) as cluster:
        closed = Closed(cluster, folder, **settings)
        cluster.start()
        yield closed
