"""Certificates of every kind, right and wrong, made without the code that is tested.

``GOOD`` is what a region's certificate must be; each argument of ``make`` is one thing to spoil.
"""

import datetime
import ssl
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from crdtstream.certificates.certificate import parse_certificates, parse_key
from crdtstream.certificates.checking import Access, Pair
from tests.patience import seconds

Key: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
DAY = datetime.timedelta(days=1)
DNS = "region-1.crdb.crdtstream"
URI = "spiffe://crdtstream.internal/crdtstream/crdb/region/1"
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)
# An extension that no program knows.
STRANGE = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.55555.1"), b"\x05\x00")


@dataclass(frozen=True)
class Made:
    """A certificate with its key, and the authorities up to its root."""

    certificate: x509.Certificate
    key: Key
    issuer: "Made | None"

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return pem_of(self.key)

    @property
    def between(self) -> bytes:
        """The authorities between this one and its root."""
        above = self.issuer
        return b"" if above is None or above.issuer is None else above.pem + above.between

    @property
    def root(self) -> "Made":
        return self if self.issuer is None else self.issuer.root


def pem_of(key: Key, password: bytes | None = None) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption(),
    )


def make(
    issuer: Made | None,
    name: str = "region-1",
    *,
    dns: Sequence[str] = (DNS,),
    uris: Sequence[str] = (URI,),
    addresses: Iterable[str] = (),
    key: Key | None = None,
    begins: datetime.datetime = NOW - DAY,
    ends: datetime.datetime = NOW + 10 * DAY,
    usages: Sequence[x509.ObjectIdentifier] | None = BOTH,
    signs: bool | None = True,
    is_authority: bool = False,
    path_length: int | None = None,
    certifies: bool = False,
    permitted: Sequence[x509.GeneralName] = (),
    excluded: Sequence[x509.GeneralName] = (),
    strange: bool = False,
    raw: Sequence[x509.UnrecognizedExtension] = (),
    serial: int | None = None,
) -> Made:
    """Make a certificate; without an issuer one that signs itself.

    Same arguments, key and times make the same bytes.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    signer = key if issuer is None else issuer.key
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [
        *map(x509.DNSName, dns),
        *map(x509.UniformResourceIdentifier, uris),
        *(x509.IPAddress(ip_address(one)) for one in addresses),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number() if serial is None else serial)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(
            x509.BasicConstraints(ca=is_authority, path_length=path_length), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if usages is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if signs is not None:
        usage = x509.KeyUsage(
            digital_signature=signs,
            content_commitment=not signs and not certifies,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=certifies,
            crl_sign=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    if permitted or excluded:
        constraints = x509.NameConstraints(list(permitted) or None, list(excluded) or None)
        builder = builder.add_extension(constraints, critical=True)
    if strange:
        builder = builder.add_extension(STRANGE, critical=True)
    for extension in raw:
        builder = builder.add_extension(extension, critical=False)
    is_ecdsa = isinstance(signer, ec.EllipticCurvePrivateKey)
    algorithm = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    signed = builder.sign(signer, algorithm, ecdsa_deterministic=True if is_ecdsa else None)
    return Made(signed, key, issuer)


def make_authority(
    issuer: Made | None = None,
    name: str = "a CA",
    *,
    key: Key | None = None,
    begins: datetime.datetime = NOW - DAY,
    ends: datetime.datetime = NOW + 10 * DAY,
    is_authority: bool = True,
    certifies: bool = True,
    path_length: int | None = None,
    usages: Sequence[x509.ObjectIdentifier] | None = None,
    permitted: Sequence[x509.GeneralName] = (),
    excluded: Sequence[x509.GeneralName] = (),
    strange: bool = False,
    serial: int | None = None,
) -> Made:
    return make(
        issuer,
        name,
        dns=(),
        uris=(),
        key=key,
        begins=begins,
        ends=ends,
        usages=usages,
        signs=False,
        is_authority=is_authority,
        path_length=path_length if is_authority else None,
        certifies=certifies,
        permitted=permitted,
        excluded=excluded,
        strange=strange,
        serial=serial,
    )


def pair_of(leaf: Made, *, key: bytes | None = None, ca: bytes | None = None) -> Pair:
    return Pair(
        parse_certificates(leaf.pem + leaf.between),
        parse_key(leaf.key_pem if key is None else key),
        Access(0o600, 1000),
        parse_certificates(leaf.root.pem if ca is None else ca),
    )


# --- The libraries that decide in the end --------------------------------------------------------


def does_openssl_take(folder: Path, leaf: Made, ca: bytes, *, wanted: str | None = DNS) -> bool:
    """True if OpenSSL shakes hands with this certificate at both ends.

    The client demands the name that is wanted; None: any name does.
    """
    (folder / "cert.pem").write_bytes(leaf.pem + leaf.between)
    (folder / "key.pem").write_bytes(leaf.key_pem)
    (folder / "ca.pem").write_bytes(ca)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_side.check_hostname = wanted is not None
    for context in (server_side, client_side):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
        try:
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        except ssl.SSLError:
            # A key that is too small.
            return False
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client_side.wrap_bio(down, up, server_hostname=wanted),
        server_side.wrap_bio(up, down, server_side=True),
    ]
    # Two flights each way are enough; the end that is done is not asked again.
    waiting = list(ends)
    for _ in range(4):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
            waiting.remove(end)
    return not waiting


def outdated_context() -> ssl.SSLContext:
    """A client that speaks TLS 1.1 and nothing else, and takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        # Python warns of this version.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def does_grpc_take(leaf: Made, ca: bytes) -> bool:
    """True if gRPC (BoringSSL) shakes hands with this certificate at both ends."""
    chain = leaf.pem + leaf.between
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        own = grpc.ssl_server_credentials([(leaf.key_pem, chain)], ca, True)
        try:
            port = server.add_secure_port("127.0.0.1:0", own)
        except RuntimeError:
            # It says only that no port could be bound.
            return False
        server.start()
        credentials = grpc.ssl_channel_credentials(ca, leaf.key_pem, chain)
        options = [("grpc.ssl_target_name_override", DNS)]
        try:
            with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
                call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/no/Method")
                call(b"", timeout=seconds())
        except grpc.RpcError as error:
            # The server answers, if only that it has no such method.
            return bool(error.code() is grpc.StatusCode.UNIMPLEMENTED)
        finally:
            server.stop(None).wait()
    raise AssertionError("a method that does not exist answered")
