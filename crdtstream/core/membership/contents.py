"""Votes, members and messages as MessagePack: arrays in the order of the attributes here.

Further attributes are added at the end, with a default.  ``encoding.py`` makes values of these.
"""

import msgspec

from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import Contact, JoinToken
from crdtstream.core.membership.members import Status
from crdtstream.core.membership.revoked import Revoked


class VoteContent(msgspec.Struct, array_like=True, frozen=True):
    """``change``: as ``encode_change`` writes it, here and below."""

    counter: int
    region: RegionId
    change: bytes


class VotesContent(msgspec.Struct, array_like=True, frozen=True):
    epoch: int
    promised: tuple[int, RegionId]
    accepted: VoteContent | None
    decided: bytes | None
    earlier: tuple[bytes, ...] = ()


class MemberContent(msgspec.Struct, array_like=True, frozen=True):
    region: RegionId
    status: Status
    instance: bytes
    contact: Contact
    added: int
    changed: int
    token: JoinToken | None
    heir: RegionId | None
    cut: int | None


class MembersContent(msgspec.Struct, array_like=True, frozen=True):
    """``history``: the hash of each epoch, and the smallest dot that reported it.  ``revoked``: as
    ``Revoked`` has them."""

    regions: list[MemberContent]
    history: list[tuple[bytes, Dot | None]]
    drawn_above: int
    revoked: tuple[Revoked, ...] = ()


class MessageContent(msgspec.Struct, array_like=True, frozen=True):
    """A message of any kind; what a kind does not have is empty."""

    kind: str
    epoch: int
    previous: bytes = b""
    ballot: tuple[int, RegionId] = (0, RegionId(0))
    promised: tuple[int, RegionId] = (0, RegionId(0))
    accepted: VoteContent | None = None
    change: bytes | None = None
    applied: int = 0


class KeptContent(msgspec.Struct, array_like=True, frozen=True):
    """``votes``, ``members``: as ``encoding.py`` writes them; empty: none.  ``seal``: its heir and
    its epoch.  ``recent``: epochs and their changes, as ``encode_change`` writes them."""

    instance: bytes
    votes: bytes
    members: bytes
    secret: bytes = b""
    seal: tuple[RegionId, int] | None = None
    recent: tuple[tuple[int, bytes], ...] = ()


class SaidContent(msgspec.Struct, array_like=True, frozen=True):
    """As ``KeptContent``; ``decided``, ``earlier``: as ``encode_change`` writes them."""

    instance: bytes
    members: bytes
    epoch: int
    ballot: tuple[int, RegionId]
    decided: bytes | None
    secret: bytes = b""
    earlier: tuple[bytes, ...] = ()
    accepted: VoteContent | None = None
    recent: tuple[tuple[int, bytes], ...] = ()
