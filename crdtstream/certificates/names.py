"""Names that a certificate carries: the one that it is for, in a URI and, for a region, in DNS.

    URI   spiffe://crdtstream.internal/crdtstream/crdb/region/1       …/operator/alice, …/query/etl,
          …/client/app
    DNS   region-1.crdb.crdtstream                                    regions only

The URI says exactly which holder it is: servers read it from their client's certificate.  The DNS
name is for the other direction: a client of gRPC cannot see the certificate of its server, but it
can demand a name, and names without that one are refused by TLS itself.

DNS names ignore case, so a database that is named in certificates has a name in lower case: of
``Orders`` and ``orders`` one region could pose as the other's.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from crdtstream.certificates.errors import CertificateError
from crdtstream.core.ids import REGION_MAX, RegionId

# The domain of all regions' DNS names; no such top-level domain exists.
DOMAIN: Final = "crdtstream"
# ``internal`` is reserved for private use (ICANN, 2024).
TRUST_DOMAIN_DEFAULT: Final = "crdtstream.internal"

_LABEL: Final = r"[a-z0-9_-]{1,63}"
_LABELS: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_DATABASE_ID_LENGTH_MAX: Final = 64
_TRUST_DOMAIN_LENGTH_MAX: Final = 255
# No dots: OpenSSL takes a common name with a dot for a DNS name, and the authority permits few.
_PERSON: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
_NUMBER: Final = r"[1-9][0-9]{0,3}"
_URI: Final = re.compile(
    rf"spiffe://(?P<trust_domain>{_LABELS})/{DOMAIN}/(?P<database_id>{_LABELS})"
    rf"/(?P<role>region|operator|query|client)/(?P<name>{_PERSON})"
)


class Role(Enum):
    """The kinds of holders; values as in the URI.

    A client speaks Redis's protocol, and may make no call of gRPC.
    """

    REGION = "region"
    OPERATOR = "operator"
    QUERY = "query"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Holder:
    """A region, operator, reader or client of one database: the one that a certificate is for.

    Attributes:
        trust_domain: of the authority; two organisations have different ones (SPIFFE).
        name: of a region its number in decimal; else a name that the operator chose.

    Raises:
        CertificateError: a part cannot stand in a certificate.
    """

    trust_domain: str
    database_id: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        check_trust_domain(self.trust_domain)
        check_database_id(self.database_id)
        if self.role is Role.REGION:
            if not re.fullmatch(_NUMBER, self.name) or int(self.name) > REGION_MAX:
                raise CertificateError(
                    f"{self.name!r} is no region; use a number from 1 to {REGION_MAX}"
                )
        elif not re.fullmatch(_PERSON, self.name):
            raise CertificateError(
                f"{self.name!r} is no name of an operator, reader or client; use 1 to 63 letters,"
                " digits, - and _, a letter or digit first"
            )

    @property
    def region(self) -> RegionId | None:
        """The region's number; None for all others."""
        return RegionId(int(self.name)) if self.role is Role.REGION else None

    @property
    def uri(self) -> str:
        """Its URI, a SPIFFE ID."""
        path = f"{DOMAIN}/{self.database_id}/{self.role.value}/{self.name}"
        return f"spiffe://{self.trust_domain}/{path}"

    @property
    def dns_name(self) -> str | None:
        """A region's DNS name; None for all others, which serve nobody."""
        region = self.region
        return None if region is None else region_dns_name(self.database_id, region)

    @property
    def folder_name(self) -> str:
        """The folder that its files are written to."""
        return f"{self.role.value}-{self.name}"

    @property
    def title(self) -> str:
        """The holder in words."""
        return f"{self.role.value} {self.name} of database {self.database_id}"


def region_dns_name(database_id: str, region: RegionId) -> str:
    """The name that a client demands of a region's node (``grpc.ssl_target_name_override``)."""
    return f"region-{region}.{database_id}.{DOMAIN}"


def parse_uri(uri: str) -> Holder | None:
    """The holder that a URI names; None: it is none of ours, or not in its one spelling."""
    found = _URI.fullmatch(uri)
    if found is None:
        return None
    try:
        return Holder(
            trust_domain=found["trust_domain"],
            database_id=found["database_id"],
            role=Role(found["role"]),
            name=found["name"],
        )
    except CertificateError:
        return None


def check_database_id(text: str) -> None:
    """See that a database can be named in certificates.

    Raises:
        CertificateError: it cannot.
    """
    if len(text) > _DATABASE_ID_LENGTH_MAX or not re.fullmatch(_LABELS, text):
        raise CertificateError(
            f"database {text!r} cannot be named in certificates, as DNS names ignore case; use a"
            f" database_id of 1 to {_DATABASE_ID_LENGTH_MAX} lower-case letters, digits, -, _ and"
            " single dots inside"
        )


def check_trust_domain(text: str) -> None:
    """See that a trust domain is one (SPIFFE ID, section 2.1).

    Raises:
        CertificateError: it is none.
    """
    if len(text) > _TRUST_DOMAIN_LENGTH_MAX or not re.fullmatch(_LABELS, text):
        raise CertificateError(
            f"{text!r} is no trust domain; use lower-case letters, digits, -, _ and single dots"
            f" inside, as in {TRUST_DOMAIN_DEFAULT}"
        )


def is_within(name: str, domain: str) -> bool:
    """True if a DNS name is this domain, or one below it.

    Case does not count, nor does a dot at the end of the name, which gRPC removes.
    """
    name, domain = name.lower().removesuffix("."), domain.lower()
    return name == domain or name.endswith(f".{domain}")


def is_host_name(text: str) -> bool:
    """True for a DNS name that can be written into a certificate: no wildcard, at most 253 bytes.

    One of digits and dots only is no name but an address, or a slip of one.
    """
    return (
        len(text) <= 253
        and re.fullmatch(_LABELS, text) is not None
        and not re.fullmatch(r"[0-9.]+", text)
    )
