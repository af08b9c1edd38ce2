"""Large replies of entries leave in parts: joined, they would be in memory twice."""

from collections.abc import Callable

import pytest

from crdtstream.commands.reply import Encoded, EncodedParts, PerKey
from crdtstream.commands.streams.entries import ENTRIES_PER_PART, JOINED_BYTES_MAX, encode_entries
from crdtstream.commands.streams.range import xrange, xrevrange
from crdtstream.commands.streams.xread import xread
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from tests.harness.regions import Node, sync

VALUE = "v" * 1_000
ENTRIES = 3 * ENTRIES_PER_PART.default


def node_with_entries(value: str) -> Node:
    """A region whose stream has entries of two lanes, by turns."""
    nodes = r1, r2 = Node(1), Node(2)
    for ms in range(1, ENTRIES + 1):
        (r1, r2)[ms % 2](f"XADD x {ms} f {value}")
    sync(*nodes)
    return r1


Command = Callable[[Replica, Millis, list[bytes]], object]
LARGE: dict[str, tuple[Command, list[bytes]]] = {
    "XRANGE of two lanes": (xrange, [b"XRANGE", b"x", b"-", b"+"]),
    "XREVRANGE": (xrevrange, [b"XREVRANGE", b"x", b"+", b"-"]),
    "XREAD": (xread, [b"XREAD", b"STREAMS", b"x", b"0"]),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_reply_is_never_joined(name: str) -> None:
    command, argv = LARGE[name]
    reply = command(node_with_entries(VALUE).replica, Millis(ENTRIES), argv)
    if isinstance(reply, PerKey):
        ((_, reply),) = reply.pairs
    assert isinstance(reply, EncodedParts)
    assert sum(map(len, reply.parts)) > JOINED_BYTES_MAX.value
    # An entry has some 40 bytes besides its value.
    assert max(map(len, reply.parts)) < ENTRIES_PER_PART.value * (len(VALUE) + 60)


@pytest.mark.parametrize("count", [None, 0, 1, 2, 3, 4, 6, 7, 1_000])
def test_parts_have_what_the_joined_reply_has(
    monkeypatch: pytest.MonkeyPatch, count: int | None
) -> None:
    node = node_with_entries("v")
    stream = node.replica.stream(b"x")
    assert stream is not None
    joined, told = encode_entries(stream.scan_back(), count)
    assert isinstance(joined, Encoded)
    monkeypatch.setattr(ENTRIES_PER_PART, "value", 3)
    monkeypatch.setattr(JOINED_BYTES_MAX, "value", 0)
    parts, told_in_parts = encode_entries(stream.scan_back(), count)
    assert isinstance(parts, EncodedParts)
    assert b"".join(parts.parts) == joined.data
    assert told_in_parts == told == min(ENTRIES, ENTRIES if count is None else count)
