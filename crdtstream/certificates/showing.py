"""Certificates as text and as JSON, for ``crdtstream certs show``."""

import datetime
from collections.abc import Iterator
from typing import Any, Final

from crdtstream.certificates.certificate import Certificate
from crdtstream.certificates.chain import NODE_USAGES, time_text

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400
_WIDTH: Final = 12


def lines_of(one: Certificate, now: datetime.datetime) -> Iterator[str]:
    """A certificate in lines: a word, then what it says; a line for each name."""
    for word, text in _rows(one, now):
        yield f"{word:{_WIDTH}}{printable(text)}"


def as_json(one: Certificate, now: datetime.datetime) -> dict[str, Any]:
    """A certificate as an object; times in ISO 8601, the serial in hexadecimal digits."""
    holder = one.holder
    return {
        "subject": one.subject,
        "issuer": one.issuer,
        "holder": None
        if holder is None
        else {
            "role": holder.role.value,
            "name": holder.name,
            "region": holder.region,
            "database_id": holder.database_id,
            "trust_domain": holder.trust_domain,
        },
        "is_authority": one.is_authority,
        "dns_names": list(one.dns_names),
        "uris": list(one.uris),
        "addresses": [str(address) for address in one.addresses],
        "serial": f"{one.serial:x}",
        "not_before": one.not_before.isoformat(),
        "not_after": one.not_after.isoformat(),
        "seconds_left": int((one.not_after - now).total_seconds()),
        "usages": _usages(one),
        "key": one.key_kind,
        "sha256": one.fingerprint,
    }


def printable(text: str) -> str:
    """The text on one line, without characters that control a terminal.

    Names in a certificate may have been chosen by an attacker.
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _rows(one: Certificate, now: datetime.datetime) -> Iterator[tuple[str, str]]:
    holder = one.holder
    yield "subject", one.subject
    if holder is not None:
        yield "holder", holder.title
        yield "trust", holder.trust_domain
    for name in one.dns_names:
        yield "DNS name", name
    for address in one.addresses:
        yield "address", str(address)
    for uri in one.uris:
        yield "URI", uri
    yield "issuer", "itself" if one.issuer == one.subject else one.issuer
    yield "valid from", time_text(one.not_before)
    yield "valid until", f"{time_text(one.not_after)}, {_left(one, now)}"
    yield "used by", "authorities" if one.is_authority else ", ".join(_usages(one)) or "unknown"
    if one.constraints is not None:
        trees = [str(tree.value) for tree in one.constraints.permitted_subtrees or ()]
        yield "permits", ", ".join(trees) or "all names but some"
    yield "key", one.key_kind
    yield "serial", f"{one.serial:x}"
    yield "SHA-256", one.fingerprint


def _usages(one: Certificate) -> list[str]:
    return sorted(NODE_USAGES.get(oid, oid) for oid in one.extended_usages or ())


def _left(one: Certificate, now: datetime.datetime) -> str:
    if now < one.not_before:
        return f"begins in {_span(one.not_before - now)}"
    if now > one.not_after:
        return f"expired {_span(now - one.not_after)} ago"
    return f"{_span(one.not_after - now)} left"


def _span(span: datetime.timedelta) -> str:
    """A time in its largest unit, rounded down."""
    seconds = int(span.total_seconds())
    for unit, length in (("days", _DAY_S), ("hours", _HOUR_S), ("minutes", _MINUTE_S)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return "1 second" if seconds == 1 else f"{seconds} seconds"
