"""Letters between regions as they go over the wire; without any IO."""

from crdtstream.core.bids import Bid, BidAnswer, decode_bid_letter, encode_bid_letter
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.encoding import (
    decode_members,
    decode_message,
    encode_members,
    encode_message,
)
from crdtstream.region.ready import AnyLetter, News
from crdtstream.region.region import Region
from crdtstream.v1 import membership_pb2 as pb


class LetterError(Exception):
    """A letter is not taken; the text says why.  Nothing has changed."""


def encode_letter(region: Region, letter: AnyLetter) -> pb.MembershipLetter:
    """A letter of this region."""
    identity = region.links.identity
    message = members = incarnation = b""
    if isinstance(letter, News):
        members = encode_members(letter.members)
    elif isinstance(letter, Bid | BidAnswer):
        incarnation = encode_bid_letter(letter)
    else:
        message = encode_message(letter.message)
    return pb.MembershipLetter(
        database_id=identity.database_id,
        database_uid=region.replica.database_uid,
        sender=identity.region,
        to=letter.to,
        message=message,
        members=members,
        incarnation=incarnation,
    )


def take_letter(region: Region, letter: pb.MembershipLetter, now: Millis) -> None:
    """A letter has come.

    Raises:
        LetterError: it is for another region, or from none that has a say here.
        ContentError: it is no letter.
    """
    sender = RegionId(letter.sender)
    uid = region.replica.database_uid
    if letter.to != region.replica.region or (uid and letter.database_uid != uid):
        raise LetterError("this is another region, or another database")
    membership = region.membership
    if letter.members:
        reason = membership.note_news(decode_members(letter.members))
        if reason is not None:
            raise LetterError(reason)
        return
    if not membership.members.takes_from(sender):
        raise LetterError(f"region {sender} is no member: {membership.known.listed()}")
    if letter.incarnation:
        bid = decode_bid_letter(letter.incarnation, region.replica.region)
        region.numbering.receive(sender, bid, now)
        return
    membership.receive(sender, decode_message(letter.message), now)
