"""The region at an address, as its certificate names it.

A program that is given an address does not know whose it is, and a channel of gRPC demands a name
before it connects.  So the certificate is fetched first.  It is checked like that of a peer: by the
authorities, and its names must be those of a region of the database that the own certificate names.
Then gRPC demands this name, and TLS checks all of it again: what was fetched is only a guess.
"""

import socket
import ssl
from typing import Final

from crdtstream.certificates.certificate import parse_certificates
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import CertificateSet
from crdtstream.core.ids import RegionId

# As gRPC asks for it.
_PROTOCOL: Final = "h2"


def region_at(address: str, used: CertificateSet, seconds_max: float) -> RegionId:
    """Connect, and return the region that the server's certificate names.

    It blocks.

    Args:
        used: of the program that asks; it names a holder.

    Raises:
        CertificateError: there is no node, or it speaks no TLS, or is no region of that database.
    """
    own = used.holder
    assert own is not None
    host, _, port = address.rpartition(":")
    context = used.client_context()
    context.set_alpn_protocols([_PROTOCOL])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), seconds_max) as plain,
            context.wrap_socket(plain) as connection,
        ):
            found = connection.getpeercert(binary_form=True)
    except ssl.SSLCertVerificationError as error:
        raise CertificateError(
            f"{address}: its certificate is not trusted ({error.verify_message}); name the file of"
            " its authority"
        ) from error
    except ssl.SSLError as error:
        raise CertificateError(
            f"{address}: it speaks no TLS, or not with this certificate ({error.reason or error});"
            " name the gRPC port of a node with tls_replication"
        ) from error
    except (OSError, ValueError) as error:
        raise UnansweredError(f"{address}: no node answers ({error})") from error
    assert found is not None, "a server always shows a certificate"
    (certificate,) = parse_certificates(ssl.DER_cert_to_PEM_cert(found).encode())
    holder = certificate.holder
    region = None if holder is None else holder.region
    if holder is None or region is None:
        raise CertificateError(f"{address}: its certificate names no region")
    if (holder.database_id, holder.trust_domain) != (own.database_id, own.trust_domain):
        raise CertificateError(
            f"{address}: it is {holder.title} in trust domain {holder.trust_domain}, and this"
            f" certificate is of {own.title} in {own.trust_domain}"
        )
    return region


class UnansweredError(CertificateError):
    """No node answers at the address."""


def speaks_tls(address: str, seconds_max: float) -> bool:
    """True if a server at the address answers a TLS handshake, whatever its certificate is.

    A caller without a certificate asks it after its call has failed, to name the cause.  It blocks.
    """
    host, _, port = address.rpartition(":")
    # Nothing is sent over this connection, so nothing is trusted.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([_PROTOCOL])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), seconds_max) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except ssl.SSLError as error:
        # Only a server that speaks TLS sends alerts.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False
