"""What members say to each other, to bytes and back; what cannot be is refused."""

import pytest

from crdtstream.core.checkpoint.contents import ContentError, packed
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.contents import KeptContent, MessageContent
from crdtstream.core.membership.deciding import (
    Accept,
    Accepted,
    Ballot,
    Decided,
    Message,
    Nack,
    NotHere,
    Prepare,
    Promise,
    Vote,
    Votes,
)
from crdtstream.core.membership.encoding import (
    Kept,
    Said,
    decode_kept,
    decode_message,
    decode_said,
    encode_kept,
    encode_message,
    encode_said,
)
from tests.membership.test_members import add
from tests.membership.world import adopted, instance, renamed

HASH = bytes(range(32))
LOW, HIGH = Ballot(2, RegionId(1)), Ballot(2, RegionId(3))
MESSAGES: tuple[Message, ...] = (
    Prepare(4, HASH, LOW),
    Promise(4, LOW, None),
    Promise(4, HIGH, Vote(LOW, add(4))),
    Accept(4, HASH, LOW, renamed(1, "x")),
    Accepted(4, LOW),
    Nack(4, LOW, HIGH),
    Decided(4, HASH, add(4)),
    NotHere(4, LOW, 7),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_is_read_as_it_was_said(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "content",
    [
        MessageContent("prepare", 0, HASH, LOW),
        MessageContent("prepare", 1, HASH[1:], LOW),
        MessageContent("prepare", 1, HASH),
        MessageContent("prepare", 1, HASH, (1, RegionId(2000))),
        MessageContent("accept", 1, HASH, LOW),
        MessageContent("decided", 1, HASH, change=b"x"),
        MessageContent("nack", 1, ballot=LOW),
        MessageContent("vote", 1, HASH, LOW),
    ],
)
def test_what_no_member_says_is_refused(content: MessageContent) -> None:
    with pytest.raises(ContentError):
        decode_message(packed(content))


@pytest.mark.parametrize(
    "kept", [Kept(instance(1)), Kept(instance(1), Votes(2, LOW, Vote(LOW, add(4))), adopted(3))]
)
def test_what_a_folder_keeps_is_read_again(kept: Kept) -> None:
    assert decode_kept(encode_kept(kept)) == kept


def test_a_folder_without_a_uid_is_damaged() -> None:
    with pytest.raises(ContentError, match="instance"):
        decode_kept(packed(KeptContent(b"", b"", b"")))


@pytest.mark.parametrize("said", [Said(), Said(instance(2), adopted(2), 2, HIGH, add(3))])
def test_what_is_said_as_a_link_opens_is_read(said: Said) -> None:
    assert decode_said(encode_said(said)) == said
