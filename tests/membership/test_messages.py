"""Messages between members, to bytes and back; impossible ones are refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.checkpoint.contents import ContentError, packed
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError, decode_change
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
from tests.membership.world import founded, instance, renamed

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
        MessageContent("prepare", 1, HASH, (1 << 63, RegionId(1))),
        MessageContent("nack", 1, ballot=LOW),
        MessageContent("vote", 1, HASH, LOW),
    ],
)
def test_impossible_messages_are_refused(content: MessageContent) -> None:
    with pytest.raises(ContentError):
        decode_message(packed(content))


@given(st.sampled_from(MESSAGES), st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=3))))
def test_changed_bytes_are_read_or_refused(
    message: Message, edits: list[tuple[int, bytes]]
) -> None:
    said = Said(instance(1), founded(3), 4, HIGH, add(4), b"secret", accepted=Vote(LOW, add(4)))
    for data, decode in (
        (encode_message(message), decode_message),
        (encode_said(said), decode_said),
        (encode_kept(Kept(instance(1), Votes(2, LOW), founded(3))), decode_kept),
    ):
        changed = data
        for at, put in edits:
            changed = changed[: at % len(data)] + put + changed[at % len(data) + len(put) :]
        with contextlib.suppress(ContentError):
            decode(changed)


def test_bytes_that_are_no_text_or_nested_too_deep_are_refused() -> None:
    """The decoder raises other errors for these than for all else that is wrong."""
    no_text, too_deep = b"\xa1\xff", b"\x91" * 100_000
    with pytest.raises(ContentError, match="utf-8"):
        decode_message(b"\x92" + no_text + b"\x01")
    said = encode_said(Said())
    with pytest.raises(ContentError, match="depth"):
        decode_said(bytes([said[0] + 1]) + said[1:] + too_deep)
    for wrong in (no_text + b"\x90", b"\xa6update" + too_deep, b"\xa6update\x92\x01\x95" + no_text):
        with pytest.raises(MembersError, match="change: "):
            decode_change(b"\x92" + wrong)


@pytest.mark.parametrize(
    "kept", [Kept(instance(1)), Kept(instance(1), Votes(2, LOW, Vote(LOW, add(4))), founded(3))]
)
def test_the_kept_state_of_a_folder_is_read_back(kept: Kept) -> None:
    assert decode_kept(encode_kept(kept)) == kept


def test_a_folder_without_a_uid_is_damaged() -> None:
    with pytest.raises(ContentError, match="instance"):
        decode_kept(packed(KeptContent(b"", b"", b"")))


@pytest.mark.parametrize(
    "said",
    [
        Said(),
        Said(instance(2), founded(2), 2, HIGH, add(3)),
        Said(instance(2), founded(2), 2, HIGH, accepted=Vote(LOW, add(3))),
    ],
)
def test_the_membership_state_of_an_open_is_read_back(said: Said) -> None:
    assert decode_said(encode_said(said)) == said
