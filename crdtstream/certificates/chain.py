"""The chain of a certificate: from a leaf over authorities to a root, and what is wrong with it.

    leaf  <- issued by -  authority (in the leaf's file)  <- issued by -  root (in the CA file)

A library for this exists in ``cryptography``, but it refuses every certificate whose authority
constrains URIs, as ours do.  What is refused here is what gRPC's BoringSSL or OpenSSL refuses:
tests hand the same certificates to both.  A root is a certificate that signed itself: OpenSSL ends
a chain at no other.
"""

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from crdtstream.certificates.certificate import KEYS_TAKEN, Certificate
from crdtstream.certificates.names import is_within

# Longer chains are not followed.
CHAIN_LENGTH_MAX: Final = 8
# Extended key usages by their dotted numbers: of what only calls nodes, and of a node.
CLIENT_USAGES: Final = {ExtendedKeyUsageOID.CLIENT_AUTH.dotted_string: "clientAuth"}
NODE_USAGES: Final = {
    **CLIENT_USAGES,
    ExtendedKeyUsageOID.SERVER_AUTH.dotted_string: "serverAuth",
}


class Flaw(Enum):
    """The kinds of findings."""

    KEY_OF_ANOTHER = "key of another certificate"
    KEY_FILE_OPEN = "key file open to others"
    KEY_KIND = "kind of key"
    NOT_YET_VALID = "not yet valid"
    EXPIRED = "expired"
    NO_LEAF = "no leaf"
    KEY_USAGE = "key usage"
    EXTENDED_KEY_USAGE = "extended key usage"
    NO_HOLDER = "no holder"
    OTHER_HOLDER = "other holder"
    OTHER_NAMES = "other names"
    NO_CHAIN = "no chain"
    NO_AUTHORITY = "no authority"
    TOO_DEEP = "too deep"
    NAME_NOT_PERMITTED = "name not permitted"
    NOT_UNDERSTOOD = "not understood"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; the text says what, and what to do."""

    flaw: Flaw
    text: str


def chain_of(
    leaf: Certificate,
    others: Sequence[Certificate],
    roots: Sequence[Certificate],
    now: datetime.datetime,
) -> tuple[Certificate, ...] | None:
    """The certificates from the leaf to a root; None: they do not reach one.

    Args:
        others: authorities that the leaf's file has as well.
        roots: the CA file; those that did not sign themselves may stand within a chain.

    Cost: a signature is verified for each root, and in each of at most CHAIN_LENGTH_MAX steps for
    each authority with the issuer's name.
    """
    ends = [one for one in roots if one.is_issued_by(one)]
    between = [*others, *(one for one in roots if one not in ends)]
    chain = [leaf]
    while len(chain) < CHAIN_LENGTH_MAX:
        last = chain[-1]
        # A valid one first: after an authority was renewed with its key, its old certificate may
        # still be in the file.
        found = _issuer(last, ends, now)
        if found is not None:
            return (*chain, found)
        found = _issuer(last, (one for one in between if one not in chain), now)
        if found is None:
            return None
        chain.append(found)
    return None


def _issuer(
    last: Certificate, candidates: Iterable[Certificate], now: datetime.datetime
) -> Certificate | None:
    named = [one for one in candidates if one.subject == last.issuer]
    named.sort(key=lambda one: not one.not_before <= now <= one.not_after)
    return next((one for one in named if last.is_issued_by(one)), None)


def findings_of_chain(
    chain: Sequence[Certificate], usages: Mapping[str, str], now: datetime.datetime
) -> Iterator[Finding]:
    """Findings about the authorities of a chain, and about names that they do not permit.

    Args:
        usages: that the leaf is needed for; no authority may be limited to others.
    """
    for place, one in enumerate(chain):
        yield from findings_of_validity(one, now, is_leaf=place == 0)
        for oid in one.not_understood:
            yield Finding(
                Flaw.NOT_UNDERSTOOD,
                f"{one.subject} has the critical extension {oid}, which TLS refuses; issue it"
                " without this extension",
            )
        if not one.is_key_taken:
            yield Finding(
                Flaw.KEY_KIND,
                f"{one.subject} has a key of the kind {one.key_kind}; issue it with a key of"
                f" {KEYS_TAKEN}",
            )
        if place:
            yield from _findings_of_authority(one, chain[:place], usages)


def findings_of_validity(
    one: Certificate, now: datetime.datetime, *, is_leaf: bool
) -> Iterator[Finding]:
    remedy = "issue another one" if is_leaf else "make another authority, and issue from it"
    if now < one.not_before:
        yield Finding(
            Flaw.NOT_YET_VALID,
            f"{one.subject} is not valid before {time_text(one.not_before)}; correct this machine's"
            f" clock, which says {time_text(now)}, or {remedy}",
        )
    if now > one.not_after:
        yield Finding(
            Flaw.EXPIRED, f"{one.subject} expired at {time_text(one.not_after)}; {remedy}"
        )


def _findings_of_authority(
    one: Certificate, below: Sequence[Certificate], usages: Mapping[str, str]
) -> Iterator[Finding]:
    if not one.is_authority or not one.may_sign_certificates:
        yield Finding(
            Flaw.NO_AUTHORITY,
            f"{one.subject} issued {below[-1].subject}, but may not issue certificates; issue it"
            " from an authority",
        )
    # Authorities that issued themselves do not count (RFC 5280, 4.2.1.9).
    between = sum(other.subject != other.issuer for other in below[1:])
    if one.path_length is not None and between > one.path_length:
        yield Finding(
            Flaw.TOO_DEEP,
            f"{one.subject} permits {one.path_length} authorities below it, there are {between};"
            f" issue {below[0].subject} from a higher one",
        )
    missing = "" if one.extended_usages is None else missing_usages(one.extended_usages, usages)
    if missing:
        yield Finding(
            Flaw.EXTENDED_KEY_USAGE,
            f"{one.subject} may not issue for {missing}; issue {below[0].subject} from an"
            " authority without this limit",
        )
    if one.constraints is not None:
        for other in below:
            yield from _findings_of_names(one.subject, one.constraints, other)


def missing_usages(permitted: Collection[str], needed: Mapping[str, str]) -> str:
    """Those of the needed usages that are not permitted, in words; empty: none."""
    return " and ".join(name for oid, name in needed.items() if oid not in permitted)


# --- Constraints on names -------------------------------------------------------------------------


def _findings_of_names(
    authority: str, constraints: x509.NameConstraints, one: Certificate
) -> Iterator[Finding]:
    permitted = list(constraints.permitted_subtrees or ())
    excluded = list(constraints.excluded_subtrees or ())
    for subtree in (*permitted, *excluded):
        match subtree:
            case x509.DNSName() | x509.UniformResourceIdentifier():
                pass
            case x509.IPAddress() if not one.addresses:
                # It is about no name of this one, so neither library looks at it.
                pass
            case _:
                yield Finding(
                    Flaw.NOT_UNDERSTOOD,
                    f"{authority} limits names by {type(subtree).__name__}, which gRPC refuses or"
                    f" this check does not understand; issue {one.subject} from another authority",
                )
    for kind, names, does_match in (
        (x509.DNSName, _dns_names(one), _does_dns_match),
        (x509.UniformResourceIdentifier, one.uris, _does_uri_match),
    ):
        allowed = [tree.value for tree in permitted if isinstance(tree, kind)]
        forbidden = [tree.value for tree in excluded if isinstance(tree, kind)]
        for name in names:
            is_allowed = not allowed or any(does_match(name, tree) for tree in allowed)
            if not is_allowed or any(does_match(name, tree) for tree in forbidden):
                yield Finding(
                    Flaw.NAME_NOT_PERMITTED,
                    f"{authority} may not issue for {name}; issue {one.subject} without this name,"
                    " or from an authority that permits it",
                )


def _dns_names(one: Certificate) -> tuple[str, ...]:
    """Its DNS names; without any the common name, if it looks like one, as OpenSSL sees it."""
    if one.dns_names or one.is_authority or "." not in one.common_name:
        return one.dns_names
    return (one.common_name,)


def _does_dns_match(name: str, tree: str) -> bool:
    """True within the tree; one with a leading dot does not contain its own domain (OpenSSL)."""
    if tree.startswith("."):
        return name.lower().endswith(tree.lower())
    return tree == "" or is_within(name, tree)


def _does_uri_match(uri: str, tree: str) -> bool:
    """True if the URI's host is this one; with a leading dot, if it is below (RFC 5280)."""
    _, _, rest = uri.partition("://")
    host = rest.partition("/")[0].partition(":")[0].lower()
    return host.endswith(tree.lower()) if tree.startswith(".") else host == tree.lower()


# --- Texts ----------------------------------------------------------------------------------------


def time_text(time: datetime.datetime) -> str:
    """A time in UTC, to the second."""
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
