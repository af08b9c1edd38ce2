"""A development authority: one key that issues the certificates of one database.

It is for laptops, tests and a first installation.  Where machines are lost and people leave, use an
authority that renews by itself (docs/certificates.md).

The authority is bounded, as someone may trust it more widely than it deserves.  It may issue
certificates, but no authorities (path length 0; OpenSSL enforces it, gRPC does not).  Its names are
constrained: in DNS to ``crdtstream``, ``localhost`` and the domains that were permitted when it was
made; in URIs to its trust domain.  Addresses are not constrained, as gRPC (BoringSSL) refuses every
certificate with an address whose authority constrains addresses.

Only a region's certificate is for servers, too.  Of a server without DNS names gRPC takes the
common name, so an operator called ``localhost`` could pose as one.

It stores nothing besides its certificate and key: its database stands in its subject, its trust
domain and the permitted domains in its constraints.
"""

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from crdtstream.certificates.certificate import (
    Address,
    Certificate,
    PrivateKey,
    PublicKey,
    parse_certificates,
)
from crdtstream.certificates.chain import time_text
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.names import (
    DOMAIN,
    Holder,
    Role,
    check_database_id,
    check_trust_domain,
    is_host_name,
    is_within,
)

AUTHORITY_DAYS_DEFAULT: Final = 3652
LEAF_DAYS_DEFAULT: Final = 90
DAYS_MAX: Final = 36_500
# Clocks of other machines may be behind the one that issues.
BACKDATED: Final = datetime.timedelta(minutes=5)
# Loopback on every machine (RFC 6761), so it names nobody else.
LOCALHOST: Final = "localhost"

_ORGANIZATION: Final = "crdtstream"
_COMMON_NAME: Final = "crdtstream development CA"


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority with its key.

    Attributes:
        permitted: DNS domains that it may issue for.
    """

    certificate: Certificate
    key: PrivateKey
    database_id: str
    trust_domain: str
    permitted: tuple[str, ...]

    @classmethod
    def of(cls, certificates: Sequence[Certificate], key: PrivateKey) -> "Authority":
        """The authority whose files hold these, as ``make_authority`` made it.

        Raises:
            CertificateError: they do not belong together, or this is another kind of authority.
        """
        found, *others = certificates
        if others or not found.is_authority or found.constraints is None:
            raise CertificateError(
                "no authority that `crdtstream certs init` made; issue with the program that made"
                " it, or make one"
            )
        if not found.has_key(key):
            raise CertificateError(
                "the authority's key belongs to another certificate; restore both from one copy"
            )
        trees = found.constraints.permitted_subtrees or ()
        domains = [one.value for one in trees if isinstance(one, x509.UniformResourceIdentifier)]
        units = found.raw.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        if len(domains) != 1 or len(units) != 1:
            raise CertificateError(
                "an authority that does not say its trust domain and database; make one with"
                " `crdtstream certs init`"
            )
        database_id = str(units[0].value)
        check_trust_domain(domains[0])
        check_database_id(database_id)
        return cls(
            found,
            key,
            database_id,
            domains[0],
            tuple(one.value for one in trees if isinstance(one, x509.DNSName)),
        )

    def holder(self, role: Role, name: str) -> Holder:
        """A holder in its database.

        Raises:
            CertificateError: the name is none.
        """
        return Holder(self.trust_domain, self.database_id, role, name)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """The key in PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def make_authority(
    *,
    database_id: str,
    trust_domain: str,
    domains: Iterable[str],
    days: int,
    now: datetime.datetime,
) -> Authority:
    """Make an authority with a new key.

    Args:
        domains: DNS domains that it may issue for besides its own and ``localhost``.

    Raises:
        CertificateError: a name is none.
    """
    assert 1 <= days <= DAYS_MAX
    check_database_id(database_id)
    check_trust_domain(trust_domain)
    permitted = tuple(dict.fromkeys((DOMAIN, LOCALHOST, *map(_domain, domains))))
    key = new_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Part of the key's identifier: two authorities, as in a change from one to the other, have two
    # names.
    common_name = f"{_COMMON_NAME} {identifier.digest[:4].hex()}"
    subject = _name(
        (NameOID.ORGANIZATION_NAME, _ORGANIZATION),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, database_id),
        (NameOID.COMMON_NAME, common_name),
    )
    constraints = x509.NameConstraints(
        permitted_subtrees=[
            *map(x509.DNSName, permitted),
            x509.UniformResourceIdentifier(trust_domain),
        ],
        excluded_subtrees=None,
    )
    begins = _begin(now)
    raw = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + BACKDATED + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .add_extension(constraints, critical=True)
        .add_extension(
            # A SPIFFE ID without a path, as of all that sign.
            x509.SubjectAlternativeName(
                [x509.UniformResourceIdentifier(f"spiffe://{trust_domain}")]
            ),
            critical=False,
        )
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_read_back(raw), key, database_id, trust_domain, permitted)


def issue(
    authority: Authority,
    holder: Holder,
    key: PublicKey,
    *,
    hosts: Sequence[str],
    days: int,
    now: datetime.datetime,
) -> Certificate:
    """Issue the certificate of a holder.

    Args:
        key: the holder's; the private half may be elsewhere.
        hosts: further DNS names and addresses of a region's node, for clients that check these.

    Raises:
        CertificateError: a host is none, or none that this authority may issue for; or it expires
            before the certificate would.
    """
    assert 1 <= days <= DAYS_MAX
    assert (holder.trust_domain, holder.database_id) == (
        authority.trust_domain,
        authority.database_id,
    )
    begins = _begin(now)
    ends = begins + BACKDATED + datetime.timedelta(days=days)
    _check_life(authority.certificate, now=now, ends=ends)
    if hosts and holder.role is not Role.REGION:
        raise CertificateError(f"{holder.title} is no server; leave out its host names")
    dns_names = [] if holder.dns_name is None else [holder.dns_name]
    names = [
        *map(x509.DNSName, dns_names),
        *(_host(one, authority.permitted) for one in dict.fromkeys(hosts)),
        x509.UniformResourceIdentifier(holder.uri),
    ]
    subject = _name(
        (NameOID.ORGANIZATION_NAME, _ORGANIZATION),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, holder.database_id),
        (NameOID.COMMON_NAME, holder.name if holder.region is None else holder.folder_name),
    )
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if holder.role is Role.REGION:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    raw = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.raw.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )
    return _read_back(raw)


def _check_life(
    certificate: Certificate, *, now: datetime.datetime, ends: datetime.datetime
) -> None:
    """See that the authority lives as long as what it issues: TLS checks every date of a chain."""
    if now < certificate.not_before:
        raise CertificateError(
            f"the authority is not valid before {time_text(certificate.not_before)}; correct this"
            f" machine's clock, which says {time_text(now)}"
        )
    days_left = (certificate.not_after - now).days
    if ends > certificate.not_after:
        remedy = f"use --days {days_left}, or make" if days_left >= 1 else "make"
        raise CertificateError(
            f"the authority expires first, at {time_text(certificate.not_after)}; {remedy} another"
            " authority with `crdtstream certs init`"
        )


def _host(text: str, permitted: Sequence[str]) -> x509.GeneralName:
    """A host name or an address.

    A name within ``crdtstream`` is refused: those stand for regions, and each certificate has its
    own one already.
    """
    address = _address(text)
    if address is not None:
        return x509.IPAddress(address)
    name = _domain(text)
    if is_within(name, DOMAIN):
        raise CertificateError(
            f"{text!r} is within .{DOMAIN}, where names stand for regions; leave it out: the name"
            " of the region itself is always in its certificate"
        )
    if not any(is_within(name, domain) for domain in permitted):
        known = ", ".join(one for one in permitted if one != DOMAIN)
        raise CertificateError(
            f"this authority may not issue for {text!r}, only for {known}; use an address, or make"
            f" an authority with `crdtstream certs init DIR --permit {name}`"
        )
    return x509.DNSName(name)


def _domain(text: str) -> str:
    name = text.lower()
    if not is_host_name(name):
        raise CertificateError(
            f"{text!r} is no DNS name; use letters, digits, - and single dots inside (for other"
            " letters the form that begins with xn--), no wildcard and no port"
        )
    return name


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A zone, as in fe80::1%eth0, is of one machine and has no place in a certificate.
    return None if "%" in text else address


def _begin(now: datetime.datetime) -> datetime.datetime:
    """The first second of what is issued now."""
    return now.replace(microsecond=0) - BACKDATED


def _name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts])


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _read_back(raw: x509.Certificate) -> Certificate:
    """The certificate, as others will read it."""
    (found,) = parse_certificates(raw.public_bytes(serialization.Encoding.PEM))
    return found
