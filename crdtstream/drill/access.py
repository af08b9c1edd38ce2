"""The way in to regions: what a drill's clients, calls and Prometheus present to them.

Paths go to other processes, and secrets in files of mode 600 (``processes.py``).  Ways lead through
proxies, whose addresses stand in no certificate: a server is checked by its authority, and by being
a server, as redis-cli does.  An operator's certificate, or a reader's, is none of a server.
"""

import datetime
import ssl
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from crdtstream.access.basic import DEFAULT_USER, Login
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.node_files import Paths, read_set


class Access(BaseModel):
    """User, password and certificate.

    Attributes:
        user: counts if there is a password.
        password: empty: none is presented.
        tls_cert_file, tls_key_file, tls_ca_cert_file: files in PEM, all three or none.  None: gRPC
            is plain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str = DEFAULT_USER
    password: str = Field(default="", repr=False)
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_ca_cert_file: Path | None = None

    @classmethod
    def of(
        cls,
        user: str | None,
        password: str | None,
        certificate: Path | None,
        key: Path | None,
        authorities: Path | None,
    ) -> Self:
        """The way in by options; None: not given."""
        # The load's processes run in other folders.
        files = [None if one is None else one.absolute() for one in (certificate, key, authorities)]
        return cls(
            user=user or DEFAULT_USER,
            password=password or "",
            tls_cert_file=files[0],
            tls_key_file=files[1],
            tls_ca_cert_file=files[2],
        )

    def login(self) -> Login:
        """The login for calls of the nodes.

        Raises:
            CertificateError: a file cannot be used.
        """
        certificates = None
        if self.tls_cert_file is not None and self.tls_key_file is not None:
            paths = Paths(self.tls_cert_file, self.tls_key_file, self.tls_ca_cert_file)
            now = datetime.datetime.now(datetime.UTC)
            certificates = read_set(paths, Wanted(), now)[0]
        return Login(self.password, self.user, certificates)

    def of_redis(self) -> dict[str, Any]:
        """Arguments of redis-py for user and password."""
        if not self.password:
            return {}
        return {"username": self.user, "password": self.password}

    def tls_of_redis(self) -> dict[str, Any]:
        """Arguments of redis-py's connections over TLS, besides ``ssl``."""
        return {
            "ssl_ca_certs": None if self.tls_ca_cert_file is None else str(self.tls_ca_cert_file),
            "ssl_certfile": None if self.tls_cert_file is None else str(self.tls_cert_file),
            "ssl_keyfile": None if self.tls_key_file is None else str(self.tls_key_file),
            "ssl_check_hostname": False,
        }

    def connection(self, *, tls: bool) -> dict[str, Any]:
        """Arguments of redis-py for a region whose port speaks TLS, or does not."""
        return {**self.of_redis(), **({"ssl": True, **self.tls_of_redis()} if tls else {})}

    def https(self) -> ssl.SSLContext:
        """A context for pages over TLS."""
        context = ssl.create_default_context(cafile=self.tls_ca_cert_file)
        context.check_hostname = False
        return context


NO_ACCESS: Final = Access()
