"""Options of TLS for clients, by Redis's names: what clients must show, protocols, ciphers.

Always so: TLS below 1.2 is refused, no connection is negotiated twice, and every cipher
encrypts and authenticates.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ALPN: Final = "redis"

# Redis's words for tls-auth-clients.
VERIFY: Final[Mapping[str, ssl.VerifyMode]] = {
    "no": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "yes": ssl.CERT_REQUIRED,
}
_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
_TOO_OLD: Final = frozenset({"tlsv1", "tlsv1.1"})
# The weakest encryption that is accepted, in bits.
STRENGTH_BITS_MIN: Final = 128


class TlsOptionError(Exception):
    """An option that cannot be had.

    Attributes:
        name: the option, as of ``TlsOptions``.
        reason: why not, and what to do.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Options of the port, as settings and CONFIG have them.

    Attributes:
        auth_clients: ``yes``: clients must show a certificate; ``optional``: one that they show is
            checked; ``no``: none is asked for.
        protocols: ``TLSv1.2``, ``TLSv1.3`` or both, apart by blanks; empty: both.
        ciphers: of TLS 1.2, in OpenSSL's form; empty: Python's choice.
        ciphersuites: of TLS 1.3; empty: OpenSSL's choice.
        prefer_server_ciphers: the server's order counts, not the client's.
        session_caching: a client that connects again may skip most of the handshake.
    """

    auth_clients: str = "yes"
    protocols: str = ""
    ciphers: str = ""
    ciphersuites: str = ""
    prefer_server_ciphers: bool = False
    session_caching: bool = True

    @property
    def verify(self) -> ssl.VerifyMode:
        return VERIFY[self.auth_clients]

    def check(self) -> None:
        """See that OpenSSL takes the options, without a certificate.

        Raises:
            TlsOptionError: it does not.
        """
        self.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def apply(self, context: ssl.SSLContext) -> None:
        """Set up a server's context; its certificate and what clients must show are set already.

        Raises:
            TlsOptionError: as of ``check``.
        """
        versions = _versions(self.protocols)
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        if self.prefer_server_ciphers:
            context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
        else:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        if self.ciphers:
            _set_ciphers(context, self.ciphers)
        if self.ciphersuites:
            raise TlsOptionError(
                "ciphersuites",
                "Python's ssl cannot choose ciphers of TLS 1.3; leave it empty, or have a proxy"
                " such as haproxy speak TLS",
            )
        if not self.session_caching:
            _forbid_resumption(context)
        context.set_alpn_protocols([ALPN])


def _versions(protocols: str) -> list[ssl.TLSVersion]:
    words = protocols.split() or list(_VERSIONS)
    for word in words:
        if word.lower() in _TOO_OLD:
            raise TlsOptionError("protocols", f"{word} is broken; use TLSv1.2 and TLSv1.3")
        if word.lower() not in _VERSIONS:
            raise TlsOptionError("protocols", f"{word} is none of TLSv1.2 and TLSv1.3")
    return [_VERSIONS[word.lower()] for word in words]


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        raise TlsOptionError(
            "ciphers", f"OpenSSL knows no cipher of {ciphers!r}; see openssl ciphers -v"
        ) from None
    for cipher in context.get_ciphers():
        if cipher["auth"] == "auth-null" or cipher["strength_bits"] < STRENGTH_BITS_MIN:
            raise TlsOptionError(
                "ciphers",
                f"{cipher['name']} does not protect a connection; add :!aNULL:!eNULL:!LOW",
            )


def _forbid_resumption(context: ssl.SSLContext) -> None:
    if context.minimum_version < ssl.TLSVersion.TLSv1_3:
        raise TlsOptionError(
            "session_caching",
            "Python's ssl cannot switch it off in TLS 1.2; set protocols to TLSv1.3 as well",
        )
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
