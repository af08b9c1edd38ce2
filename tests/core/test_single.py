"""Few entries have a short way: it makes the same bytes as the general one.

The image of a macro node with one entry, and the digest of entries that are each alone in their
block.
"""

import random

import pytest

from crdtstream.core.effects import IdempotentId
from crdtstream.core.ids import Millis, RegionId, StreamId, make_id
from crdtstream.core.lanes.blocks import (
    DIGEST_MASK,
    LONG,
    digest_of_block,
    short_pieces,
    sum_of,
)
from crdtstream.core.lanes.body import encode_body
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.single import encode_single, is_single

LENGTHS = (4, 255, 256, 70_000)
SEQS = (0, 255, 256, 1 << 16, 1 << 40)


def one_node(
    *entries: tuple[StreamId, int, int], name: IdempotentId | None = None, arrived: int = 7
) -> MacroNode:
    """The node of a lane with these entries: ID, dot number, bytes of fields."""
    lane = Lane(RegionId(3), NodeLimits(entries_max=10_000, bytes_max=1 << 20))
    for entry_id, n, length in entries:
        lane.append(entry_id, n, b"x" * length, Millis(arrived))
        if name is not None:
            lane.mark_idempotent(entry_id, n, name)
    node = lane.tail
    assert node is not None
    return node


def check(node: MacroNode) -> None:
    columns = node.columns
    assert is_single(columns)
    header, body = encode_single(columns, None)
    assert body == encode_body(columns)
    assert header == node.header(body_bytes=len(body))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("seq", SEQS)
def test_one_entry_has_the_image_that_any_number_of_them_would_have(seq: int, length: int) -> None:
    check(one_node((make_id(1_700_000_000_000, seq), 300, length)))


def test_entries_alone_in_their_blocks_have_the_digest_of_the_general_way() -> None:
    draw = random.Random(7)
    for _ in range(200):
        ns = sorted(draw.sample(range(1, 4_000), draw.randrange(1, 9)))
        entries = [(make_id(100 + n, draw.getrandbits(30)), n, draw.randrange(LONG)) for n in ns]
        node = one_node(*entries)
        if len(ns) > 2:
            node.remove(1, 2)
        pieces = [piece for _, piece in short_pieces(node.columns)]
        assert sum_of(node.columns) == sum(digest_of_block([one]) for one in pieces) & DIGEST_MASK


def test_random_nodes_with_one_entry_have_the_image_of_the_general_way() -> None:
    draw = random.Random(5)
    for _ in range(300):
        entry_id = make_id(draw.getrandbits(draw.randrange(1, 64)), draw.getrandbits(60))
        length = draw.choice((0, draw.randrange(600), draw.randrange(70_000)))
        n = 1 + draw.getrandbits(draw.randrange(1, 62))
        check(one_node((entry_id, n, length), arrived=draw.getrandbits(43)))


def test_the_last_of_several_entries_has_the_image_of_the_general_way() -> None:
    """With holes in its fields, and a time of arrival that was another entry's."""
    several = [(make_id(100 + n, 1), n, 40) for n in range(1, 4)]
    for left in range(3):
        node = one_node(*several)
        for place in (2, 1, 0):
            if place != left:
                node.remove(place, place + 1)
        check(node)


def test_an_entry_with_a_name_or_a_second_one_goes_the_general_way() -> None:
    name = IdempotentId(b"producer", b"1")
    named = one_node((make_id(1, 1), 1, 10), name=name)
    assert not is_single(named.columns)
    assert not is_single(one_node((make_id(1, 1), 1, 10), (make_id(2, 1), 2, 10)).columns)


def test_a_digest_that_is_known_is_not_made_again() -> None:
    columns = one_node((make_id(1, 1), 1, 10)).columns
    header, _ = encode_single(columns, 12345)
    assert header.digest == 12345
