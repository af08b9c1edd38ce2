"""The packed bytes of a macro node, and its head: written, read, and refused when damaged."""

import contextlib
from array import array
from collections.abc import Sequence

import pytest
from backports.zstd import CompressionParameter, compress

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import SEQ_BITS, U64_MAX, Millis, RegionId, StreamId, make_id
from crdtstream.core.lanes.body import decode_body, encode_body, narrow
from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.lanes.header import HEAD_BYTES, Head, Header, decode_head, encode_head
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.packing import BODY_BYTES_MAX, pack, unpack
from crdtstream.core.lanes.rax import KEY_BYTES

BODIES = [b"", b"x", bytes(70_000), bytes(range(256)) * 9]
# A frame of one segment whose header has the length of the content in eight bytes.
LENGTH_IN_EIGHT_BYTES = b"\x28\xb5\x2f\xfd\xe0"


@pytest.mark.parametrize("body", BODIES)
def test_a_body_comes_out_as_it_was_packed(body: bytes) -> None:
    assert unpack(pack(body)) == unpack(pack(body), size=len(body)) == body


def test_nothing_takes_nothing() -> None:
    assert pack(b"") == b""


@pytest.mark.parametrize("body", BODIES)
def test_a_body_of_another_size_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"in place of|damaged|no zstandard frame"):
        unpack(pack(body), size=len(body) + 1)


def test_a_frame_that_claims_too_much_is_refused_before_memory_is_taken_for_it() -> None:
    claim = (BODY_BYTES_MAX + 1).to_bytes(8, "little")
    with pytest.raises(ValueError, match=f"a frame of {BODY_BYTES_MAX + 1} bytes"):
        unpack(LENGTH_IN_EIGHT_BYTES + claim + bytes(9))


def test_a_frame_that_does_not_tell_its_length_is_refused() -> None:
    with pytest.raises(ValueError, match="does not claim the size"):
        unpack(compress(b"x" * 100, options={CompressionParameter.content_size_flag: 0}))


def test_columns_without_names_are_alike_whether_they_had_any_or_not() -> None:
    for remove in (lambda c: c.remove(1, 2), lambda c: c.remove_rows([1])):
        lane = Lane(RegionId(1), NodeLimits())
        for n in (1, 2, 3):
            lane.append(make_id(n, 0), n, b"f", Millis(n))
        lane.mark_idempotent(make_id(2, 0), 2, IdempotentId(b"p", b"a"))
        (node,) = lane.macro_nodes()
        assert node.has_idempotent
        remove(node.columns)
        assert not node.has_idempotent


HEADER = Header(
    first_id=make_id(7, 2),
    last_id=make_id(9, 0),
    first_n=5,
    last_n=8,
    entries=3,
    fields_bytes=60,
    first_arrival=Millis(30),
    last_arrival=Millis(31),
    has_idempotent=True,
    first_short_n=5,
    last_short_n=7,
    digest=11 << 100,
    body_bytes=80,
)


def head(**changed: object) -> Head:
    header = HEADER._replace(**changed)  # type: ignore[arg-type]
    return Head(make_id(7, 1).to_bytes(KEY_BYTES, "big"), 4, make_id(8, 5), header)


@pytest.mark.parametrize("has_idempotent", [False, True])
def test_a_head_is_read_as_it_was_written(has_idempotent: bool) -> None:
    written = head(has_idempotent=has_idempotent)
    assert decode_head(encode_head(written)) == written


def test_the_smallest_head_is_read() -> None:
    """One entry, whose ID is the key."""
    key = make_id(7, 1)
    alone = HEADER._replace(
        first_id=key, last_id=key, last_n=5, entries=1, last_arrival=HEADER.first_arrival
    )
    written = Head(key.to_bytes(KEY_BYTES, "big"), 1, StreamId(0), alone)
    assert decode_head(encode_head(written)) == written


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"entries": 0}, "0 entries"),
        ({"entries": 5, "last_n": 12}, "5 entries, 4 ever added"),
        ({"last_n": 6}, "dot numbers 5 to 6"),
        ({"first_id": make_id(7, 0)}, "3 entries with IDs"),
        ({"first_id": make_id(9, 1)}, "3 entries with IDs"),
        ({"first_id": make_id(8, 2**64 - 1)}, "3 entries with IDs"),
        ({"last_arrival": Millis(29)}, "came at 30 to 29"),
    ],
)
def test_a_head_that_no_node_can_have_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_head(encode_head(head(**changed)))


@pytest.mark.parametrize(
    ("at", "byte", "said"),
    [(0, 2, "of version 2, not 1"), (1, 4, "of version 1"), (0, 0, "0, not")],
)
def test_a_head_of_another_version_is_refused(at: int, byte: int, said: str) -> None:
    data = bytearray(encode_head(head()))
    data[at] = byte
    with pytest.raises(ValueError, match=said):
        decode_head(bytes(data))


@pytest.mark.parametrize("size", [0, HEAD_BYTES - 1, HEAD_BYTES + 1])
def test_a_head_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"has {size} bytes, not {HEAD_BYTES}"):
        decode_head((encode_head(head()) + b"x")[:size])


# --- Bodies -------------------------------------------------------------------------------------

IDS = [make_id(ms, seq) for ms, seq in [(7, 2), (7, 3), (9, 1), (12, 0)]]
NS = [5, 6, 9, 11]
FIELDS = [b"a", b"bcd", b"", b"ef"]


def columns(ns: Sequence[int] = NS, ids: Sequence[int] = IDS) -> NodeColumns:
    return NodeColumns(
        ms=array("Q", [one >> SEQ_BITS for one in ids]),
        seq=array("Q", [one & U64_MAX for one in ids]),
        n=array("Q", ns),
        starts=array("I", [0, 1, 4, 4]),
        lengths=array("I", map(len, FIELDS)),
        fields=bytearray(b"".join(FIELDS)),
        arrivals=array("Q", [5, 30, 9, 31]),
        idempotent={6: IdempotentId(b"p", b"id"), 9: IdempotentId(b"q", b"")},
        numbered=[(11, 1, Numbered(b"p", 3, 4))],
    )


def body_header(**changed: object) -> Header:
    known = HEADER._replace(
        first_id=IDS[0],
        last_id=IDS[-1],
        first_n=NS[0],
        last_n=NS[-1],
        entries=len(NS),
        fields_bytes=6,
    )
    return known._replace(**changed)  # type: ignore[arg-type]


def shown(one: NodeColumns) -> list[object]:
    numbers = (one.ms, one.seq, one.n, one.starts, one.lengths, one.arrivals)
    return [*map(list, numbers), one.fields, one.idempotent, one.numbered]


def test_a_body_is_read_as_it_was_written() -> None:
    read = decode_body(encode_body(columns()), body_header())
    assert shown(read) == shown(columns())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"last_n": 12}, "dot numbers"),
        ({"first_id": IDS[0] - 1}, "its first ID"),
        ({"last_id": IDS[-1] + 1}, "its last ID"),
        ({"fields_bytes": 5}, "bytes of fields"),
        ({"first_arrival": Millis(29)}, "times of arrival"),
        ({"last_arrival": Millis(32)}, "times of arrival"),
        ({"entries": 3}, "."),
        ({"entries": 5}, "."),
    ],
)
def test_a_body_that_is_another_node_s_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_body(encode_body(columns()), body_header(**changed))


def test_a_body_whose_ids_do_not_ascend_is_refused() -> None:
    twice = [IDS[0], IDS[2], IDS[2], IDS[3]]
    with pytest.raises(ValueError, match="IDs that ascend"):
        decode_body(encode_body(columns(ids=twice)), body_header())


def test_a_body_whose_dot_numbers_do_not_ascend_is_refused() -> None:
    with pytest.raises(ValueError, match="dot numbers that do not ascend"):
        decode_body(encode_body(columns(ns=[5, 9, 9, 11])), body_header())


def test_a_body_without_names_is_read_as_it_was_written() -> None:
    plain = columns()
    plain.idempotent = plain.numbered = None
    read = decode_body(encode_body(plain), body_header())
    assert shown(read) == shown(plain)


def test_a_body_with_names_of_one_kind_is_read_as_it_was_written() -> None:
    for missing in ("idempotent", "numbered"):
        some = columns()
        setattr(some, missing, None)
        assert shown(decode_body(encode_body(some), body_header())) == shown(some), missing


def test_a_body_without_times_of_arrival_is_read_as_it_was_written() -> None:
    timeless = columns()
    timeless.arrivals = array("Q")
    assert shown(decode_body(encode_body(timeless), body_header())) == shown(timeless)


@pytest.mark.parametrize("high", [(1 << bits) - 2 for bits in (8, 16, 32)])
def test_numbers_of_each_width_are_read_as_they_were_written(high: int) -> None:
    """Those just below the last one of a width, and just above it."""
    ids = [make_id(7, seq) for seq in range(high, high + 4)]
    wide = columns(ids=ids)
    header = body_header(first_id=ids[0], last_id=ids[-1])
    assert shown(decode_body(encode_body(wide), header)) == shown(wide)


@pytest.mark.parametrize(
    ("highest", "width"),
    [(0xFF, 1), (0x100, 2), (0xFFFF, 2), (1 << 16, 4), ((1 << 32) - 1, 4), (1 << 32, 8)],
)
def test_numbers_take_no_more_bytes_than_the_highest_needs(highest: int, width: int) -> None:
    assert narrow([0, highest]).itemsize == width


def test_dot_numbers_beyond_64_bits_are_refused() -> None:
    changed = body_header(first_n=U64_MAX - 1, last_n=U64_MAX + 5)
    with pytest.raises(ValueError, match="dot numbers beyond 64 bits"):
        decode_body(encode_body(columns()), changed)


@pytest.mark.parametrize("count", [4, 8])
def test_a_body_with_names_of_no_producer_is_refused(count: int) -> None:
    """The counts of producers, names and rows stand before the fields."""
    plain = columns()
    plain.idempotent = plain.numbered = None
    body = bytearray(encode_body(plain))
    counts_at = len(body) - len(plain.fields) - 12
    assert body[counts_at : counts_at + 12] == bytes(12)
    body[counts_at + count] = 1
    with pytest.raises(ValueError, match="producers"):
        decode_body(bytes(body), body_header())


def test_a_body_that_ends_early_or_goes_on_is_refused() -> None:
    body = encode_body(columns())
    for stop in range(len(body)):
        with pytest.raises(ValueError, match="a macro node's body"):
            decode_body(body[:stop], body_header())
    with pytest.raises(ValueError, match="bytes of fields"):
        decode_body(body + b"x", body_header())


def test_a_changed_byte_of_a_body_is_refused_or_read_as_another_one() -> None:
    """Never anything but a ValueError: the bytes may come from a damaged disk."""
    body = encode_body(columns())
    for at in range(len(body)):
        for byte in (0, 1, 2, 3, 8, 0x7F, 0xFF, body[at] ^ 1):
            changed = body[:at] + bytes([byte]) + body[at + 1 :]
            with contextlib.suppress(ValueError):
                decode_body(changed, body_header())
