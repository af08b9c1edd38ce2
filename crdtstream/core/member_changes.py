"""Changes of the membership: a closed union, one value for each decided epoch.

    Add        a region may join, under a number that none has had
    Activate   a joining region is level: it votes and counts from here on
    Update     how a region is reached and called
    Remove     a region is a member no more; another one inherits its groups and expiries
    Revoke     a certificate is refused by all regions from here on

A change is validated when it is made, by an operator, a file or a peer alike.  Whether it follows
what was decided before, ``members.py`` says.

``encode_change`` is the one form in bytes.  It is sent, kept and hashed, so it is fixed for good: a
field that is added, renamed or moved makes other hashes of the same history.  A new fact is a new
kind.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from crdtstream.core.ids import REGION_MAX, Millis, RegionId

INSTANCE_BYTES: Final = 16
HASH_BYTES: Final = 32
NAME_LENGTH_MAX: Final = 64
ADDRESS_LENGTH_MAX: Final = 261
CERTIFICATES_MAX: Final = 16
CERTIFICATE_LENGTH_MAX: Final = 253
# RFC 5280, 4.1.2.2.
SERIAL_BYTES_MAX: Final = 20
# The last second that a certificate can name: the end of the year 9999.
SECONDS_MAX: Final = 253_402_300_799
CHANGE_BYTES_MAX: Final = 8 << 20


class MembersError(ValueError):
    """A change that cannot be, or does not follow; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Name and addresses of a region.

    Attributes:
        name: for people; unique among the regions that are not removed.
        grpc: host:port that peers pull from; empty: as each node's file has it, for a region of
            epoch 1 that no later change named an address for.
        resp, http: host:port for clients and for health checks; empty if not given.
        certificates: names; the certificate of the region's node must carry one of them; empty if
            links have no TLS.
    """

    name: str
    grpc: str
    resp: str = ""
    http: str = ""
    certificates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_text(self.name, "fqdn", NAME_LENGTH_MAX)
        # By the words of `crdtstream crdb`, which an operator can correct.
        named = {"replication_endpoint": self.grpc, "endpoint": self.resp, "url": self.http}
        for what, address in named.items():
            if address:
                _check_address(address, what)
        if len(self.certificates) > CERTIFICATES_MAX:
            raise MembersError(f"certificates: more than {CERTIFICATES_MAX} names")
        for name in self.certificates:
            _check_text(name, "certificates", CERTIFICATE_LENGTH_MAX)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(address for address in (self.grpc, self.resp, self.http) if address)


# Of a token that is made here.
TOKEN_BYTES: Final = 32
TOKEN_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class JoinToken:
    """The secret of one join, which only its hash is kept of.

    Attributes:
        sha256: of the token.
        expires_ms: by the clock of the member that is asked.
    """

    sha256: bytes
    expires_ms: Millis

    def __post_init__(self) -> None:
        if len(self.sha256) != HASH_BYTES:
            raise MembersError(f"join token: a hash has {HASH_BYTES} bytes")
        if self.expires_ms < 0:
            raise MembersError("join token: it expires before 1970; check the clock")


@dataclass(frozen=True, slots=True)
class Add:
    """A region may join.

    Attributes:
        token: with it the node proves that it is the one that was meant.
    """

    region: RegionId
    contact: Contact
    token: JoinToken

    def __post_init__(self) -> None:
        _check_region(self.region)
        _check_address(self.contact.grpc, "replication_endpoint")


@dataclass(frozen=True, slots=True)
class Activate:
    """A joining region has everything that it lacked.

    Attributes:
        instance: the uid of its folder; from here on no other folder is this region.
    """

    region: RegionId
    instance: bytes

    def __post_init__(self) -> None:
        _check_region(self.region)
        _check_instance(self.instance)


@dataclass(frozen=True, slots=True)
class Update:
    """The contact of a region, in place of the one before."""

    region: RegionId
    contact: Contact

    def __post_init__(self) -> None:
        _check_region(self.region)


class Removal(Enum):
    """Ways in which a region leaves."""

    # It sealed itself: it has handed over, and the others have all that it issued.
    SEALED = "sealed"
    # It is dead or unreachable; what only it has is lost.
    FORCED = "forced"
    # The same, decided by fewer than half of all: an operator said that the others are gone.
    WITHOUT_MAJORITY = "without-majority"


@dataclass(frozen=True, slots=True)
class Remove:
    """A region is a member no more, for good.

    Attributes:
        heir: the active region that delivers its lanes and groups, and issues its expiries.
    """

    region: RegionId
    heir: RegionId
    how: Removal

    def __post_init__(self) -> None:
        _check_region(self.region)
        _check_region(self.heir)
        if self.region == self.heir:
            raise MembersError(f"remove: region {self.region} cannot inherit from itself")


@dataclass(frozen=True, slots=True)
class Revoke:
    """All regions refuse a certificate, as its key was stolen or its holder has left.

    The times are whole seconds since 1970.

    Attributes:
        serial: its serial number, big-endian, without leading zeros.
        not_after: when it expires.
        at: when it was revoked, by the clock of the region that proposed it.
    """

    serial: bytes
    not_after: int
    at: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.serial) <= SERIAL_BYTES_MAX or not self.serial[0]:
            raise MembersError(
                f"revoke: a serial number is above 0 and has at most {SERIAL_BYTES_MAX} bytes"
            )
        for seconds in (self.not_after, self.at):
            if not 0 <= seconds <= SECONDS_MAX:
                raise MembersError(f"revoke: {seconds} is no time between 1970 and 9999")


Change: TypeAlias = Add | Activate | Update | Remove | Revoke
_KINDS: Final[dict[str, type[Any]]] = {
    "add": Add,
    "activate": Activate,
    "update": Update,
    "remove": Remove,
    "revoke": Revoke,
}
_TAGS: Final = {kind: tag for tag, kind in _KINDS.items()}


def encode_change(change: Change) -> bytes:
    """The canonical bytes of a change: equal changes, equal bytes."""
    return msgspec.msgpack.encode((_TAGS[type(change)], change))


def decode_change(data: bytes) -> Change:
    """The inverse of :func:`encode_change`.

    Raises:
        MembersError: it is no change, or not in its canonical form.
    """
    if len(data) > CHANGE_BYTES_MAX:
        raise MembersError(f"change: {len(data)} bytes are more than {CHANGE_BYTES_MAX}")
    try:
        tag, body = msgspec.msgpack.decode(data, type=tuple[str, msgspec.Raw])
        kind = _KINDS.get(tag)
        if kind is None:
            raise MembersError(f"change: this version does not know {tag!r}; upgrade this node")
        change: Change = msgspec.msgpack.decode(body, type=kind)
    except MembersError:
        raise
    except (ValueError, RecursionError) as error:
        # All that msgspec finds is a ValueError, and so are bytes that are no text.
        raise MembersError(f"change: {error}") from error
    # Hashes are of the bytes: the same change in other bytes would be another history.
    if encode_change(change) != data:
        raise MembersError("change: not in canonical form; it was not made by crdtstream")
    return change


def _check_region(region: int) -> None:
    if not 1 <= region <= REGION_MAX:
        raise MembersError(f"region {region} is not in 1 to {REGION_MAX}")


def _check_instance(instance: bytes) -> None:
    if len(instance) != INSTANCE_BYTES:
        raise MembersError(f"instance: the uid of a folder has {INSTANCE_BYTES} bytes")


def _check_text(text: str, what: str, length_max: int) -> None:
    if not 1 <= len(text) <= length_max or not text.isprintable() or text != text.strip():
        shown = text if len(text) <= length_max else f"{text[:length_max]}…"
        raise MembersError(f"{what}: {shown!r} is not 1 to {length_max} printable characters")


def _check_address(address: str, what: str) -> None:
    _check_text(address, what, ADDRESS_LENGTH_MAX)
    host, colon, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= len("65535")
    is_plain = host and not any(one in host for one in " /@") and ":" not in host
    is_ipv6 = host.startswith("[") and host.endswith("]") and ":" in host
    if not (colon and is_port and 1 <= int(port) <= 65535 and (is_plain or is_ipv6)):
        raise MembersError(f"{what}: {address!r} is not host:port, or [address]:port for IPv6")
