"""Credentials of a gRPC port: TLS by the current certificates of the node, or of the port.

gRPC asks for them at each handshake, in threads of its own.  The answer is made from what stands
in memory, and only if there is a newer set: a handshake never waits for a file.
"""

import threading
from collections.abc import Callable
from typing import cast

import grpc

from crdtstream.certificates.node_files import CertificateSet
from crdtstream.certificates.watching import Certificates


def server_credentials(
    certificates: Certificates, *, asks_callers: bool = True
) -> grpc.ServerCredentials:
    """Credentials that follow the certificates.

    Args:
        asks_callers: every caller must show one that the authorities signed.
    """
    first = certificates.current
    configurations = _Configurations(certificates, first.version)
    # gRPC takes None from it, too, which its types leave out.
    newer = cast("Callable[[], grpc.ServerCertificateConfiguration]", configurations.newer)
    return grpc.dynamic_ssl_server_credentials(_configuration(first), newer, asks_callers)


class _Configurations:
    def __init__(self, certificates: Certificates, version: int) -> None:
        self._certificates = certificates
        self._version = version
        # Handshakes run in several threads.
        self._lock = threading.Lock()

    def newer(self) -> "grpc.ServerCertificateConfiguration | None":
        """The configuration of a newer set than the last one; None: there is none."""
        used = self._certificates.current
        with self._lock:
            if used.version <= self._version:
                return None
            self._version = used.version
        return _configuration(used)


def _configuration(used: CertificateSet) -> "grpc.ServerCertificateConfiguration":
    return grpc.ssl_server_certificate_configuration(
        [(used.key, used.certificates)], root_certificates=used.ca or None
    )
