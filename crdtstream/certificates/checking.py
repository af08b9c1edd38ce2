"""The check of a certificate with its key: can a node speak TLS with it, and as which holder.

``crdtstream certs check`` prints the verdict.  A node that watches its files tries each new pair by
it before it uses the pair, and goes on with the former one if there are findings (``watching``).

A verdict without findings means: the key fits and is not open to others; a chain of valid
authorities leads to the CA file; the certificate is for clients and, of a region, for servers; it
names one holder, in the forms of ``names``, and no other region.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.certificates.certificate import Certificate, PrivateKey
from crdtstream.certificates.chain import (
    CLIENT_USAGES,
    NODE_USAGES,
    Finding,
    Flaw,
    chain_of,
    findings_of_chain,
    findings_of_validity,
    missing_usages,
)
from crdtstream.certificates.names import DOMAIN, Holder, Role, is_within
from crdtstream.core.ids import RegionId

# A key is for its owner.  One that root owns may be readable for a group: so Kubernetes hands
# Secrets to processes that are not root, and PostgreSQL has the same rule.
MODE_MAX: Final = 0o700
MODE_MAX_OF_ROOT: Final = 0o740
ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Access:
    """The processes that can read or write a file: its mode, of nine bits, and its owner's uid."""

    mode: int
    owner: int

    @property
    def is_open(self) -> bool:
        """True if it is too open for a key."""
        return bool(self.mode & ~(MODE_MAX_OF_ROOT if self.owner == ROOT else MODE_MAX))


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, with what they are checked against.

    Attributes:
        certificates: of its file: the leaf, then authorities.
        key_access: to the key's file; None: do not look at it.
        roots: of the CA file; without any, only ``check_of_host`` can be asked.
    """

    certificates: Sequence[Certificate]
    key: PrivateKey
    key_access: Access | None
    roots: Sequence[Certificate]

    def __post_init__(self) -> None:
        assert self.certificates


@dataclass(frozen=True, slots=True)
class Wanted:
    """The holder that a certificate must name, as far as it is known; None: any."""

    region: RegionId | None = None
    database_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check.

    Attributes:
        holder: the one that the certificate names; None if it names none, or several.
        not_after: the end of the first certificate of the chain that expires; of the leaf if
            there is no chain.
        findings: empty: the pair can be used.
    """

    holder: Holder | None
    not_after: datetime.datetime
    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        return not self.findings


def check(pair: Pair, wanted: Wanted, now: datetime.datetime) -> Verdict:
    """Check a pair as it is at ``now``, a time with its zone.

    All findings are reported, not only the first.
    """
    assert pair.roots
    leaf, *others = pair.certificates
    holder = leaf.holder
    usages = NODE_USAGES if holder is None or holder.role is Role.REGION else CLIENT_USAGES
    chain = chain_of(leaf, others, pair.roots, now)
    findings = (
        *_findings_of_key(pair),
        *_findings_of_usage(leaf, usages),
        *_findings_of_holder(leaf, holder, wanted),
        *findings_of_chain(chain or (leaf,), usages, now),
        *(() if chain else (_no_chain(leaf, pair.roots),)),
    )
    return Verdict(holder, min(one.not_after for one in chain or (leaf,)), findings)


def check_of_host(pair: Pair, now: datetime.datetime) -> Verdict:
    """Check a pair that names no holder, but hosts: clients know its authority, and not this node.

    So its chain is checked as far as the dates of its own file go.  The roots are of others'
    certificates, and not looked at.
    """
    findings = (
        *_findings_of_key(pair),
        *(
            finding
            for place, one in enumerate(pair.certificates)
            for finding in findings_of_validity(one, now, is_leaf=place == 0)
        ),
    )
    not_after = min(one.not_after for one in pair.certificates)
    return Verdict(pair.certificates[0].holder, not_after, findings)


def _findings_of_key(pair: Pair) -> Iterator[Finding]:
    leaf = pair.certificates[0]
    if not leaf.has_key(pair.key):
        yield Finding(
            Flaw.KEY_OF_ANOTHER,
            f"the key does not belong to {leaf.subject}; use the key that was made with it",
        )
    if pair.key_access is not None and pair.key_access.is_open:
        yield Finding(
            Flaw.KEY_FILE_OPEN,
            "other users can read or write the key's file, its mode is"
            f" {pair.key_access.mode:04o}; chmod 600 it, and issue again if others had access",
        )


def _findings_of_usage(leaf: Certificate, usages: Mapping[str, str]) -> Iterator[Finding]:
    if leaf.is_authority:
        yield Finding(
            Flaw.NO_LEAF,
            f"{leaf.subject} is an authority; issue a certificate from it, and use that one",
        )
    if not leaf.may_sign:
        yield Finding(
            Flaw.KEY_USAGE,
            f"{leaf.subject} may not sign, which TLS 1.3 needs; issue it with digitalSignature",
        )
    missing = missing_usages(leaf.extended_usages or (), usages)
    if missing:
        yield Finding(
            Flaw.EXTENDED_KEY_USAGE,
            f"{leaf.subject} is not for {missing}; issue it with the extended key usage"
            f" {' and '.join(usages.values())}",
        )


def _findings_of_holder(
    leaf: Certificate, holder: Holder | None, wanted: Wanted
) -> Iterator[Finding]:
    if holder is None:
        shown = ", ".join(leaf.uris) or "none"
        yield Finding(
            Flaw.NO_HOLDER,
            f"its URIs ({shown}) are not one such as"
            " spiffe://TRUST-DOMAIN/crdtstream/DATABASE-ID/region/1; issue it with one, and"
            " no other URI",
        )
    elif wanted.region is not None and holder.region != wanted.region:
        yield Finding(
            Flaw.OTHER_HOLDER,
            f"it is for {holder.title}, not for region {wanted.region}; use the files of region"
            f" {wanted.region}",
        )
    if holder is not None and wanted.database_id not in (None, holder.database_id):
        yield Finding(
            Flaw.OTHER_HOLDER,
            f"it is for database {holder.database_id}, not for {wanted.database_id}; use an"
            f" authority of {wanted.database_id}",
        )
    if holder is not None:
        yield from _findings_of_dns(leaf, holder)


def _findings_of_dns(leaf: Certificate, holder: Holder) -> Iterator[Finding]:
    """Names by which a client could take the holder for a region that it is not."""
    # A wildcard is a name within the domain as well, and would stand for every region.
    within = {name.lower() for name in leaf.dns_names if is_within(name, DOMAIN)}
    right = set() if holder.dns_name is None else {holder.dns_name}
    # Some clients read the common name where DNS names are missing.
    common = {leaf.common_name} if is_within(leaf.common_name, DOMAIN) else set()
    if within != right or not common <= right:
        yield Finding(
            Flaw.OTHER_NAMES,
            f"its DNS names within .{DOMAIN} are {_listed(within | common)}, those of"
            f" {holder.title} are {_listed(right)}; issue it with just these",
        )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _no_chain(leaf: Certificate, roots: Sequence[Certificate]) -> Finding:
    known = "; ".join(one.subject for one in roots if one.subject == one.issuer)
    return Finding(
        Flaw.NO_CHAIN,
        f"{leaf.subject} was issued by {leaf.issuer}, and no chain leads from there to a root of"
        f" the CA file ({known or 'it has none'}); use the CA file of that authority, or add"
        " authorities in between to the certificate's file",
    )
