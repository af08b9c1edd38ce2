"""The letters by which a region asks its peers for a new incarnation, and their answers.

    Bid        region 1 to each peer: may my folder begin?
    BidAnswer  the peer to region 1, once the peer's folder has the bid, or why it has not

Each is a call of its own and may be lost, or come late: a bid is sent again until it is answered.
"""

from typing import Final, NamedTuple, TypeAlias

import msgspec

from crdtstream.core.checkpoint.contents import ContentError, packed, unpacked
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import FOLDER_BYTES, NUMBER_MAX, Begin, check_begin

RUN_ID_MAX: Final = 2**64 - 1


class Bid(NamedTuple):
    """A region asks ``to`` whether it may begin this incarnation.

    Attributes:
        run_id: of the node that asks.
    """

    to: RegionId
    run_id: int
    begin: Begin


class BidAnswer(NamedTuple):
    """A peer's answer to a bid.

    Attributes:
        run_id: of the node that answers.
        folder: of the bid.
        is_granted: the peer's folder has the bid.
        number: the highest one that the peer knows of the asking region's incarnations; -1: none.
    """

    to: RegionId
    run_id: int
    folder: bytes
    is_granted: bool
    number: int


BidLetter: TypeAlias = Bid | BidAnswer


class _LetterContent(msgspec.Struct, array_like=True, frozen=True):
    """``bid`` or the answer, which is a folder, a word and a number."""

    run_id: int
    bid: Begin | None = None
    answer: tuple[bytes, bool, int] | None = None


def encode_bid_letter(letter: BidLetter) -> bytes:
    """The bytes of a letter, without its receiver."""
    if isinstance(letter, Bid):
        return packed(_LetterContent(letter.run_id, letter.begin))
    answer = letter.folder, letter.is_granted, letter.number
    return packed(_LetterContent(letter.run_id, None, answer))


def decode_bid_letter(data: bytes, to: RegionId) -> BidLetter:
    """The inverse, for the region that it is for.

    Raises:
        ContentError: it is no such letter; the text says why.
    """
    content = unpacked(data, _LetterContent)
    if not 0 <= content.run_id <= RUN_ID_MAX:
        raise ContentError(f"bid: no node's run is {content.run_id}")
    if content.bid is not None and content.answer is None:
        check_begin(content.bid)
        return Bid(to, content.run_id, content.bid)
    if content.bid is not None or content.answer is None:
        raise ContentError("bid: it must be a bid or an answer")
    folder, is_granted, number = content.answer
    if len(folder) != FOLDER_BYTES or not -1 <= number <= NUMBER_MAX:
        raise ContentError("bid: no answer can be so")
    return BidAnswer(to, content.run_id, folder, is_granted, number)
