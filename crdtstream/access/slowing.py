"""Addresses from which wrong logins come, and how long each has to wait for its next attempt.

    wrong logins    1 … 10    11      12      13     14     15     16 and more
    wait in s            0    0.1     0.2     0.4    0.8    1.6    3

An address that has sent no wrong login for a minute is forgotten.  A right one changes nothing:
otherwise one valid login between the guesses would keep them fast.  All attempts of an address
wait, also right ones: an answer that comes sooner would say which guess was right.

Only a new guess counts: a program that repeats an old password learns nothing by it, and must not
slow down those that share its address.  Of an IPv6 address the network of 64 bits counts, which one
user has, and the network of 48 bits around it, which a site has, with more free guesses.

Always so: the table has at most ``ADDRESSES_MAX`` addresses; the one whose last wrong login is the
oldest makes room.
"""

import ipaddress
from collections import deque
from dataclasses import dataclass
from typing import Final

from crdtstream.core.size import Seconds, Size

ADDRESSES_MAX: Final = Size(1024, least=1)
# A program with an old password, or an operator who mistypes, is not slowed down.
FREE_MAX: Final = Size(10, least=0)
WAIT_SECONDS_MIN: Final = Seconds(0.1, least=0.001)
# Below the 5 s for which our own programs and regions wait for an answer: those that share the
# address of a guesser become slow, and get through unless very many guess at once.
WAIT_SECONDS_MAX: Final = Seconds(3.0, least=0.001)
FORGET_SECONDS: Final = Seconds(60.0, least=1.0)
# An IPv6 user has a whole network of this prefix.
IPV6_PREFIX_BITS: Final = 64
# A site, or a customer of a provider, has many such networks.
IPV6_SITE_BITS: Final = 48
SITE_FREE_MAX: Final = Size(160, least=0)
# Wrong logins of one address that are known again, as digests.
REMEMBERED_MAX: Final = Size(16, least=1)
# No wait is longer after more doublings than these.
_DOUBLINGS_MAX: Final = 30


@dataclass(slots=True)
class _Wrong:
    """Wrong logins of one address, when the last one came, and digests of the last ones."""

    count: int
    last: float
    digests: deque[bytes]


class Slowing:
    """The table; ``at`` is a time in seconds that never goes back."""

    def __init__(self) -> None:
        # The last to send a wrong login is the last in the table.
        self._wrong: dict[str, _Wrong] = {}

    def __len__(self) -> int:
        return len(self._wrong)

    def wait(self, source: str, at: float) -> float:
        """Seconds that an attempt from ``source`` has to wait."""
        waits = (self._wait(one, free_max, at) for one, free_max in _counted(source))
        return max(waits)

    def is_repeated(self, source: str, digest: bytes, at: float) -> bool:
        """True if a wrong login of this digest came from ``source`` not long ago."""
        found = self._found(source, at)
        return found is not None and digest in found.digests

    def note_wrong(self, source: str, at: float, digest: bytes = b"") -> None:
        """A wrong login has come from ``source``."""
        for one, _ in _counted(source):
            self._note(one, at, digest)

    def _found(self, source: str, at: float) -> _Wrong | None:
        found = self._wrong.get(source)
        return None if found is None or at - found.last >= FORGET_SECONDS.value else found

    def _wait(self, source: str, free_max: int, at: float) -> float:
        found = self._found(source, at)
        beyond = 0 if found is None else found.count - free_max
        if beyond <= 0:
            return 0.0
        doubled = WAIT_SECONDS_MIN.value * 2 ** min(beyond - 1, _DOUBLINGS_MAX)
        return float(min(doubled, WAIT_SECONDS_MAX.value))

    def _note(self, source: str, at: float, digest: bytes) -> None:
        found = self._found(source, at) or _Wrong(0, at, deque(maxlen=REMEMBERED_MAX.value))
        self._wrong.pop(source, None)
        self._wrong[source] = found
        found.last = at
        if digest and digest in found.digests:
            return
        found.count += 1
        if digest:
            found.digests.append(digest)
        if len(self._wrong) > ADDRESSES_MAX.value:
            del self._wrong[next(iter(self._wrong))]


def _counted(source: str) -> tuple[tuple[str, int], ...]:
    """The sources that an attempt counts for, each with its free guesses."""
    own = source, FREE_MAX.value
    network, slash, bits = source.partition("/")
    if not slash or bits != str(IPV6_PREFIX_BITS):
        return (own,)
    site = ipaddress.ip_network((network, IPV6_SITE_BITS), strict=False)
    return own, (str(site), SITE_FREE_MAX.value)


def source_of(address: str) -> str:
    """The part of an IP address that one user has: all of it, of IPv6 the network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, IPV6_PREFIX_BITS), strict=False))
    return str(ip)
