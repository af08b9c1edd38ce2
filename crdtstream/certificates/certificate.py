"""Certificates, keys and requests, read from PEM.

Everything that is asked of a certificate later is read from it here, so what is damaged or strange
is an error of this module and of no other: ``cryptography`` reads extensions only when they are
asked for, and raises errors of many kinds.
"""

import datetime
import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PrivateKeyTypes,
    PublicKeyTypes,
)
from cryptography.x509.oid import ExtensionOID, NameOID

from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.names import Holder, parse_uri

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
Address: TypeAlias = IPv4Address | IPv6Address

# Curves that gRPC (BoringSSL) and OpenSSL both take by default.
CURVES: Final = {"secp256r1": "P-256", "secp384r1": "P-384"}
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 8192
_MARKS_OF_ENCRYPTED: Final = (
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----",
    b"Proc-Type: 4,ENCRYPTED",
)
KEYS_TAKEN: Final = "ECDSA P-256 (as `crdtstream certs` makes them), P-384, or RSA of 2048 bits"

# Extensions that a check understands.  Any other one that is critical makes TLS refuse.
_UNDERSTOOD: Final = frozenset(
    (
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.NAME_CONSTRAINTS,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    )
)
_WRONG: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_E = TypeVar("_E", bound=x509.ExtensionType)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate, as far as it is checked and shown.

    Attributes:
        subject, issuer: as RFC 4514 writes them.
        common_name: the last one of the subject; empty without one.
        dns_names, uris, addresses: its subject alternative names, in their order.
        key_kind: of its public key, in words.
        is_key_taken: gRPC and OpenSSL both use keys of this kind.
        is_authority: it may issue certificates (basic constraints).
        path_length: how many authorities may stand between it and a leaf; None: any number.
        may_sign, may_sign_certificates: by its key usage; true without that extension.
        extended_usages: dotted numbers; None without that extension.
        constraints: on the names of what is below it.
        not_understood: critical extensions that a check does not understand, dotted numbers.
        raw: the certificate itself.
    """

    subject: str
    issuer: str
    common_name: str
    serial: int
    not_before: datetime.datetime
    not_after: datetime.datetime
    dns_names: tuple[str, ...]
    uris: tuple[str, ...]
    addresses: tuple[Address, ...]
    key_kind: str
    is_key_taken: bool
    is_authority: bool
    path_length: int | None
    may_sign: bool
    may_sign_certificates: bool
    extended_usages: frozenset[str] | None
    constraints: x509.NameConstraints | None
    not_understood: tuple[str, ...]
    raw: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.raw.public_bytes(serialization.Encoding.PEM)

    @property
    def holder(self) -> Holder | None:
        """The holder that it names; None: none, or it has more than one URI."""
        return parse_uri(self.uris[0]) if len(self.uris) == 1 else None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the whole certificate, in hexadecimal digits."""
        return hashlib.sha256(self.raw.public_bytes(serialization.Encoding.DER)).hexdigest()

    def has_key(self, key: PublicKey | PrivateKey) -> bool:
        """True if this is its key."""
        public = key if isinstance(key, PublicKey) else key.public_key()
        return public_bytes(self.raw.public_key()) == public_bytes(public)

    def is_issued_by(self, other: "Certificate") -> bool:
        """True if the other one's name is its issuer, and the other one's key signed it.

        Nothing else is asked of the other one; it need not be an authority.
        """
        try:
            self.raw.verify_directly_issued_by(other.raw)
        except (*_WRONG, InvalidSignature):
            return False
        return True


# --- Reading ------------------------------------------------------------------------------------


def parse_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """All certificates of a file, at least one; what else is in it is skipped.

    Raises:
        CertificateError: there is none, or one is damaged.
    """
    # Programs that read the file begin at these lines; the parser skips what it does not know.
    count = pem.count(b"-----BEGIN CERTIFICATE-----")
    if pem.startswith(b"\xef\xbb\xbf"):
        raise CertificateError("it begins with a byte order mark; save it as plain ASCII")
    with _understandably(
        "no certificate in PEM (-----BEGIN CERTIFICATE-----), or a damaged one; convert DER with"
        " `openssl x509 -inform der`"
    ):
        found = tuple(map(_read, x509.load_pem_x509_certificates(pem)))
    if len(found) != count:
        raise CertificateError(
            f"{count} certificates begin in it, and {len(found)} can be read; it is cut off, or"
            " damaged"
        )
    return found


def parse_key(pem: bytes, password: bytes | None = None) -> PrivateKey:
    """The private key of a file.

    Args:
        password: of the key, if it is encrypted; else it is not used.

    Raises:
        CertificateError: it is encrypted otherwise, damaged or missing, or its kind is none that is
            used.
    """
    is_encrypted = any(mark in pem for mark in _MARKS_OF_ENCRYPTED)
    if is_encrypted and password is None:
        raise CertificateError(
            "an encrypted key; decrypt it with `openssl pkey -in KEY -out NEW`, and let only its"
            " owner read the result, or give a node its password (tls_key_file_pass_file)"
        )
    if is_encrypted:
        return _decrypted(pem, password)
    with _understandably(
        "no private key in PEM (-----BEGIN PRIVATE KEY-----), or a damaged one; a certificate and"
        " its key are two files"
    ):
        return _taken(serialization.load_pem_private_key(pem, None))


def _decrypted(pem: bytes, password: bytes | None) -> PrivateKey:
    with _understandably(
        "an encrypted private key that cannot be read with this password; write the right password"
        " into its file, or make the key again"
    ):
        return _taken(serialization.load_pem_private_key(pem, password))


def _taken(key: PrivateKeyTypes) -> PrivateKey:
    kind, is_taken = _kind(key.public_key())
    if not is_taken or not isinstance(key, PrivateKey):
        raise CertificateError(f"a key of the kind {kind}; use {KEYS_TAKEN}")
    return key


def parse_request(pem: bytes) -> PublicKey:
    """The public key of a signing request, whose maker has proved to have the private one.

    The names that it asks for are not read: the operator says what it is issued for.

    Raises:
        CertificateError: it is no request, is damaged, or its kind of key is none that is used.
    """
    with _understandably(
        "no signing request in PEM (-----BEGIN CERTIFICATE REQUEST-----), or a damaged one; make"
        " one with `openssl req -new`"
    ):
        request = x509.load_pem_x509_csr(pem)
        if not request.is_signature_valid:
            raise CertificateError("a signing request whose signature is wrong; make it again")
        key = request.public_key()
        kind, is_taken = _kind(key)
    if not is_taken or not isinstance(key, PublicKey):
        raise CertificateError(f"a request with a key of the kind {kind}; use {KEYS_TAKEN}")
    return key


def public_bytes(key: CertificatePublicKeyTypes | PublicKeyTypes) -> bytes:
    """A public key in its one encoding."""
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@contextmanager
def _understandably(text: str) -> Iterator[None]:
    """Errors of the library are this one, and its warnings are not shown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except _WRONG as error:
        raise CertificateError(text) from error


def _read(found: x509.Certificate) -> Certificate:
    names = _extension(found, x509.SubjectAlternativeName)
    basic = _extension(found, x509.BasicConstraints)
    usage = _extension(found, x509.KeyUsage)
    extended = _extension(found, x509.ExtendedKeyUsage)
    common = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    kind, is_taken = _kind(found.public_key())
    return Certificate(
        subject=found.subject.rfc4514_string(),
        issuer=found.issuer.rfc4514_string(),
        common_name=_text(common[-1].value) if common else "",
        serial=found.serial_number,
        not_before=found.not_valid_before_utc,
        not_after=found.not_valid_after_utc,
        dns_names=tuple(names.get_values_for_type(x509.DNSName)) if names else (),
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)) if names else (),
        addresses=_addresses(names),
        key_kind=kind,
        is_key_taken=is_taken,
        is_authority=basic is not None and basic.ca,
        path_length=None if basic is None else basic.path_length,
        may_sign=usage is None or usage.digital_signature,
        may_sign_certificates=usage is None or usage.key_cert_sign,
        extended_usages=None if extended is None else frozenset(u.dotted_string for u in extended),
        constraints=_extension(found, x509.NameConstraints),
        not_understood=tuple(
            one.oid.dotted_string
            for one in found.extensions
            if one.critical and one.oid not in _UNDERSTOOD
        ),
        raw=found,
    )


def _extension(found: x509.Certificate, kind: type[_E]) -> _E | None:
    try:
        return found.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _addresses(names: x509.SubjectAlternativeName | None) -> tuple[Address, ...]:
    found = names.get_values_for_type(x509.IPAddress) if names else []
    # Networks stand in constraints only; in a certificate they name nothing.
    return tuple(one for one in found if isinstance(one, Address))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def _kind(key: object) -> tuple[str, bool]:
    """The kind of a public key in words; true if peers take it."""
    match key:
        case ec.EllipticCurvePublicKey():
            name = CURVES.get(key.curve.name)
            return f"ECDSA {name or key.curve.name}", name is not None
        case rsa.RSAPublicKey():
            return f"RSA {key.key_size}", RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX
        case _:
            return type(key).__name__.removesuffix("PublicKey"), False
