"""Revoked certificates: one list in all regions, which is bounded and forgets what has expired."""

from dataclasses import replace

import pytest

from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError, Revoke
from crdtstream.core.membership.members import (
    ForkError,
    Members,
    apply,
    change_behind,
    joined,
    newest,
)
from crdtstream.core.membership.revoked import (
    KEEP_SECONDS,
    REVOKED_MAX,
    Revoked,
    serial_bytes,
    shown_serial,
)
from tests.membership.world import founded, renamed

NOW = 1_700_000_000
DAY = 86_400


def revoke(serial: int, *, days: int = 90, at: int = NOW) -> Revoke:
    """Of a certificate that is valid for so many days."""
    return Revoke(serial_bytes(serial), at + days * DAY, at)


def serials(members: Members) -> list[int]:
    return [int.from_bytes(one.serial, "big") for one in members.revoked]


def test_the_list_ascends_and_each_certificate_names_its_epoch() -> None:
    members = founded(3)
    for serial in (0x7C00, 0x19, 0xFFFF):
        members = apply(members, revoke(serial))
    assert serials(members) == [0x19, 0x7C00, 0xFFFF]
    assert [one.epoch for one in members.revoked] == [3, 2, 4]
    # Another change leaves it as it is.
    assert apply(members, renamed(1, "x")).revoked == members.revoked


def test_a_certificate_is_revoked_once() -> None:
    members = apply(founded(3), revoke(0x7C))
    with pytest.raises(MembersError, match="certificate 7c is revoked already"):
        apply(members, revoke(0x7C, at=NOW + DAY))


def test_expired_certificates_leave_with_the_next_change_that_revokes() -> None:
    """A day later, as clocks differ; by the time in the change, which is the same everywhere."""
    members = apply(founded(3), revoke(1, days=2))
    expired = NOW + 2 * DAY
    assert serials(apply(members, revoke(2, at=expired + KEEP_SECONDS))) == [1, 2]
    assert serials(apply(members, revoke(2, at=expired + KEEP_SECONDS + 1))) == [2]


def test_an_expired_certificate_is_not_revoked() -> None:
    for days in (0, -1):
        assert serials(apply(founded(3), revoke(1, days=days))) == [1]
    with pytest.raises(MembersError, match="has expired: it is refused without being revoked"):
        apply(founded(3), revoke(1, days=-2))


def full(days: int) -> Members:
    members = apply(founded(3), revoke(1, days=days))
    (one,) = members.revoked
    # Epochs are not looked at here, and applying a thousand changes takes long.
    return replace(
        members,
        revoked=tuple(one._replace(serial=serial_bytes(n)) for n in range(1, REVOKED_MAX + 1)),
    )


def test_the_list_is_bounded_and_says_what_to_do() -> None:
    with pytest.raises(MembersError, match=r"1024 certificates are revoked.*replace the authority"):
        apply(full(days=90), revoke(REVOKED_MAX + 1))
    later = revoke(REVOKED_MAX + 1, at=NOW + 100 * DAY)
    assert serials(apply(full(days=90), later)) == [REVOKED_MAX + 1]


def test_a_longer_history_keeps_what_was_revoked() -> None:
    """A hash does not say which list it is of: a member that lost a part of it is not followed."""
    members = apply(founded(3), revoke(1, days=2))
    longer = apply(members, revoke(2, at=NOW + DAY))
    assert newest(members, [longer]) == longer
    # It has expired meanwhile.
    after = apply(members, revoke(2, at=NOW + 9 * DAY))
    assert newest(members, [after]).revoked == after.revoked

    lost = replace(longer, revoked=longer.revoked[1:])
    added = replace(longer, revoked=(Revoked(b"\x01", NOW + 2 * DAY, NOW, 2), *longer.revoked[1:]))
    early = replace(longer, revoked=(*longer.revoked, Revoked(b"\x09", NOW, NOW, 1)))
    other = replace(longer, revoked=(longer.revoked[0]._replace(at=NOW + 1), longer.revoked[1]))
    assert newest(members, [added]) == added
    for wrong in (lost, early, other):
        with pytest.raises(ForkError, match="the list of revoked certificates cannot have become"):
            newest(members, [wrong])


def test_regions_that_meet_have_one_list() -> None:
    """As a merge of two states joins them: the longer history's list, whichever side has it."""
    members = apply(founded(3), revoke(1), Dot(RegionId(1), 7))
    longer = apply(members, revoke(2), Dot(RegionId(2), 9))
    for mine, its in ((members, longer), (longer, members)):
        assert joined(mine, its) == longer


def test_newer_members_show_which_certificate_was_revoked() -> None:
    members = founded(3)
    change = revoke(7)
    after = apply(members, change)
    assert change_behind(members, after) == change
    # Once it has expired and is dropped, nothing shows it any more.
    dropped = apply(after, revoke(8, at=NOW + 100 * DAY))
    assert change_behind(members, dropped) is None
    assert change_behind(after, dropped) == revoke(8, at=NOW + 100 * DAY)


def test_a_serial_is_shown_as_certs_show_has_it() -> None:
    for serial in (1, 0x7C, 0x100, (1 << 160) - 1):
        assert shown_serial(serial_bytes(serial)) == f"{serial:x}"
