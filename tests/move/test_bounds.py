"""Bounds: pages by bytes, replies, and URLs."""

import asyncio
from itertools import pairwise

import pytest

from crdtstream.move import connection as connections
from crdtstream.move.address import Address, parse_address
from crdtstream.move.connection import Connection
from crdtstream.move.ends import Ends
from crdtstream.move.errors import MoveError
from crdtstream.move.moving import Move
from crdtstream.move.pages import (
    PAGE_BYTES,
    PAGE_ENTRIES_FIRST,
    PAGE_ENTRIES_MAX,
    Pages,
    next_count,
)
from crdtstream.move.survey import Selection
from tests.move.ends import Server, Silent, move, seen


def test_pages_of_small_entries_grow_and_pages_of_large_ones_shrink(old: Server) -> None:
    pipeline = old.client.pipeline(transaction=False)
    for number in range(6_000):
        pipeline.xadd("s", {"f": number})
    for _ in range(4_000):
        pipeline.xadd("s", {"f": b"x" * 4096})
    pipeline.execute()

    async def read() -> list[int]:
        connection = await Connection.open(parse_address(old.url))
        sizes = [len(page) async for page in Pages(connection, b"s")]
        connection.close()
        return sizes

    sizes = asyncio.run(read())
    assert sum(sizes) == 10_000
    assert sizes[0] == PAGE_ENTRIES_FIRST
    assert max(sizes) <= PAGE_ENTRIES_MAX
    assert all(after <= 2 * before for before, after in pairwise(sizes))
    assert sizes[-2] <= 300


@pytest.mark.parametrize(
    ("count", "entries", "page_bytes", "wanted"),
    [
        (16, 16, 16 * PAGE_BYTES, 1),
        (1, 1, 100 * PAGE_BYTES, 1),
        (16, 16, 16, 32),
        (16, 0, 10, 32),
        (PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX),
        (100, 50, PAGE_BYTES, 50),
    ],
)
def test_the_number_of_entries_follows_their_size(
    count: int, entries: int, page_bytes: int, wanted: int
) -> None:
    assert next_count(count, entries=entries, page_bytes=page_bytes) == wanted


@pytest.mark.long
def test_a_page_beyond_the_bound_of_a_reply_is_read_in_smaller_pieces(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small entries, then large ones: the page that was sized by the small ones does not fit."""
    pipeline = old.client.pipeline(transaction=False)
    for number in range(3_000):
        pipeline.xadd("s", {"f": number})
    for _ in range(64):
        pipeline.xadd("s", {"f": b"x" * (1 << 20)})
    pipeline.execute()
    monkeypatch.setattr(connections, "REPLY_BYTES_MAX", 8 << 20)
    target = old.database(1)
    assert _moved(old, target) is None
    assert seen(target) == seen(old)


def test_an_entry_beyond_the_bound_is_named(old: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    old.client.xadd("s", {"f": b"x"}, id="1-1")
    old.client.xadd("s", {"f": b"x" * (9 << 20)}, id="2-1")
    old.client.xadd("s", {"f": b"x"}, id="3-1")
    monkeypatch.setattr(connections, "REPLY_BYTES_MAX", 8 << 20)
    assert "an entry of s after 1-1 is too large to move" in str(_moved(old, old.database(1)))


def _moved(source: Server, target: Server) -> MoveError | None:
    """Copy in this process, whose bounds the test has set."""

    async def run() -> None:
        ends = Ends(parse_address(source.url), parse_address(target.url), retry_seconds=5)
        move = Move(ends, Selection(), Silent())
        try:
            await move.begin()
            await move.copy()
            await move.cut_over(stop_writes=False)
        finally:
            ends.close()

    try:
        asyncio.run(run())
    except MoveError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://host", Address("host", 6379)),
        ("valkey://host:7000/3", Address("host", 7000, database=3)),
        ("rediss://[::1]:1", Address("::1", 1, with_tls=True)),
        ("redis://me:a%40b@host", Address("host", 6379, user="me", password="a@b")),
        ("redis://:secret@host", Address("host", 6379, password="secret")),
        ("unix:///run/redis.sock", Address("/run/redis.sock", None)),
        ("unix:///run/redis.sock?db=2", Address("/run/redis.sock", None, database=2)),
    ],
)
def test_urls(url: str, address: Address) -> None:
    assert parse_address(url) == address
    assert "secret" not in repr(parse_address(url))
    # A name is a URL again, without the login.
    named = parse_address(address.name)
    assert (named.host, named.port, named.database) == (
        address.host,
        address.port,
        address.database,
    )


@pytest.mark.long
def test_entries_of_64_mib_are_moved(old: Server) -> None:
    target = old.database(1)
    for _ in range(2):
        old.client.xadd("s", {"f": b"x" * (64 << 20)})
    assert move("import", old.url, "--node", target.url, "--cut-over").returncode == 0
    assert target.client.xlen("s") == 2
