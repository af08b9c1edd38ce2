"""Revoked certificates: a part of the members, so all regions refuse the same ones.

    Revoke(7c, until March, at January) ──> 7c until March
    Revoke(19, until May,   at April)   ──> 19 until May       7c expired, and is dropped

An expired certificate is refused anyway.  It is dropped by the next change that revokes one, and by
the time that this change names: all regions drop the same, whatever their clocks are.

Always so: the serial numbers ascend, none is named twice, and there are at most ``REVOKED_MAX``.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from crdtstream.core.member_changes import MembersError, Revoke

# Each link sends all of them when it opens: 64 KiB.
REVOKED_MAX: Final = 1024
# Clocks of regions may differ: an expired certificate is dropped a day later.
KEEP_SECONDS: Final = 86_400


class Revoked(NamedTuple):
    """One revoked certificate.

    Attributes:
        serial, not_after, at: as ``Revoke`` names them.
        epoch: of that change.
    """

    serial: bytes
    not_after: int
    at: int
    epoch: int

    @property
    def change(self) -> Revoke:
        return Revoke(self.serial, self.not_after, self.at)


def is_dropped(one: Revoked, at: int) -> bool:
    """True if a change at this time drops it, as it expired long before."""
    return one.not_after + KEEP_SECONDS < at


def with_revoked(revoked: Iterable[Revoked], change: Revoke, epoch: int) -> tuple[Revoked, ...]:
    """The list behind one more change.

    Raises:
        MembersError: the certificate is revoked already or has expired, or the list is full.
    """
    added = Revoked(change.serial, change.not_after, change.at, epoch)
    kept = [one for one in revoked if not is_dropped(one, change.at)]
    if any(one.serial == added.serial for one in kept):
        raise MembersError(f"certificate {shown_serial(added.serial)} is revoked already")
    if is_dropped(added, change.at):
        raise MembersError(
            f"certificate {shown_serial(added.serial)} has expired: it is refused without being"
            " revoked"
        )
    if len(kept) >= REVOKED_MAX:
        raise MembersError(
            f"{REVOKED_MAX} certificates are revoked, and none of them has expired; replace the"
            " authority instead, and issue certificates with shorter lives"
        )
    return tuple(sorted([*kept, added]))


def goes_on(before: Iterable[Revoked], after: Iterable[Revoked], epoch: int) -> bool:
    """True if a list may have become another one since an epoch: what was revoked until then stays
    until it has expired, and nothing is added to it later."""
    former, later = set(before), set(after)
    added = [one for one in later if one.epoch > epoch]
    last = max((one.at for one in added), default=0)
    return later - former == set(added) and all(is_dropped(one, last) for one in former - later)


def serial_bytes(serial: int) -> bytes:
    """A serial number as ``Revoke`` has it."""
    return serial.to_bytes((serial.bit_length() + 7) // 8, "big")


def shown_serial(serial: bytes) -> str:
    """The number in hexadecimal digits, as ``crdtstream certs show`` has it."""
    return f"{int.from_bytes(serial, 'big'):x}"
