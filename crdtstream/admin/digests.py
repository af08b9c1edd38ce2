"""Digests of parts of this node's state, in pages; two regions are compared by them.

A walk runs in slices of a millisecond between the other work of the event loop, so the state
changes during the walk; ``core/comparing.py`` says why that is good enough.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol, TypeVar

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.comparing import (
    BUCKETS,
    EntrySum,
    KeySums,
    LaneSum,
    PartKind,
    PartSum,
    bucket_of,
    bucket_sum,
    digest_of_members,
    entries_above,
    keys_between,
)
from crdtstream.core.ids import REGION_MAX, SEQ_BITS, U64_MAX, RegionId
from crdtstream.core.lanes.blocks import BLOCK_BITS
from crdtstream.core.lanes.blocks import DIGEST_BYTES as BLOCK_DIGEST_BYTES
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.slices import Within
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.core.wire.codec import BatchError, decode_vv, encode_vv
from crdtstream.engine.turns import Turn
from crdtstream.v1 import admin_pb2 as pb

T = TypeVar("T")
# A page is sent when it is about so large; one name may be larger.
PAGE_BYTES: Final = Size(128 << 10, least=1)
ITEM_BYTES: Final = 64
WAIT_MS_MAX: Final = 60_000
POLL_SECONDS: Final = 0.01
STRETCHES_MAX: Final = 256
BITS_MAX: Final = 56
# Entries are hashed one macro node at a time, and at most this number at a time.
ENTRIES_AT_ONCE: Final = Size(16, least=1)


class DigestsError(Exception):
    """Something is asked for that there is not; the text says what."""


class Reads(Protocol):
    """Reader of entries, even of those that are on disk only: an ``Engine``."""

    async def read(self, look: Callable[[], T]) -> T:
        """
        Raises:
            UnreadableError: they cannot be read.
        """


class Digests:
    """Answers for one replica."""

    def __init__(self, replica: Replica, reads: Reads) -> None:
        self._replica = replica
        self._reads = reads
        self._turn = Turn()

    async def pages(self, request: pb.DigestsRequest) -> AsyncGenerator[pb.DigestsReply, None]:
        """The answer, page by page.

        Raises:
            DigestsError: the request makes no sense.  Nothing was answered then.
            UnreadableError: entries cannot be read from disk.
        """
        items = self._items(request)
        try:
            at_least = decode_vv(request.at_least)
        except BatchError as error:
            raise DigestsError(str(error)) from error
        if not await self._reaches(at_least, min(request.wait_ms, WAIT_MS_MAX)):
            yield pb.DigestsReply(vv=encode_vv(self._replica.vv), is_behind=True, is_last=True)
            return
        page: list[pb.DigestItem] = []
        size = 0
        async for item in items:
            page.append(item)
            size += ITEM_BYTES + len(item.name)
            if size >= PAGE_BYTES.value:
                yield pb.DigestsReply(vv=encode_vv(self._replica.vv), items=page)
                page, size = [], 0
        yield pb.DigestsReply(vv=encode_vv(self._replica.vv), items=page, is_last=True)

    async def _reaches(self, at_least: VersionVector, wait_ms: int) -> bool:
        """Wait until ``at_least`` is applied; False if it is not in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while not covers(self._replica.vv, at_least):
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    def _items(self, request: pb.DigestsRequest) -> AsyncGenerator[pb.DigestItem, None]:
        """
        Raises:
            DigestsError: the request makes no sense.
        """
        match request.WhichOneof("of"):
            case "buckets":
                return self._buckets()
            case "keys":
                first, last = request.keys.first, request.keys.last
                if not first <= last < BUCKETS:
                    raise DigestsError(f"buckets {first} to {last}; there are 0 to {BUCKETS - 1}")
                return self._keys(first, last)
            case "parts":
                of_key = request.parts.HasField("key")
                return self._parts(request.parts.key) if of_key else self._members()
            case "stretches":
                of = request.stretches
                if not BLOCK_BITS <= of.bits <= BITS_MAX or not 1 <= of.count <= STRETCHES_MAX:
                    raise DigestsError(
                        f"{of.count} stretches of 2^{of.bits} dot numbers; there are at most"
                        f" {STRETCHES_MAX}, of 2^{BLOCK_BITS} to 2^{BITS_MAX}"
                    )
                _check_lane(of.origin, (of.first + of.count) << of.bits)
                return self._stretches(of)
            case "entries":
                _check_lane(request.entries.origin, request.entries.block << BLOCK_BITS)
                return self._entries(request.entries)
            case _:
                raise DigestsError("digests of a kind that this version does not know; upgrade it")

    # --- What is asked for --------------------------------------------------------------------

    async def _members(self) -> AsyncGenerator[pb.DigestItem, None]:
        members = digest_of_members(self._replica.members)
        yield pb.DigestItem(kind=pb.DigestItem.Kind.MEMBERS, digest=members)

    async def _buckets(self) -> AsyncGenerator[pb.DigestItem, None]:
        async for item in self._members():
            yield item
        at, keys, total = 0, 0, 0
        async for key, digest in self._key_digests(0, BUCKETS - 1):
            while at < bucket_of(key):
                yield _bucket(at, keys, total)
                at, keys, total = at + 1, 0, 0
            keys += 1
            total = bucket_sum(total, key, digest)
        while at < BUCKETS:
            yield _bucket(at, keys, total)
            at, keys, total = at + 1, 0, 0

    async def _keys(self, first: int, last: int) -> AsyncGenerator[pb.DigestItem, None]:
        async for key, digest in self._key_digests(first, last):
            yield pb.DigestItem(name=key, digest=digest)

    async def _key_digests(
        self, first: int, last: int
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        for key in keys_between(self._replica.keys, first, last):
            await self._rest()
            if key is None:
                continue
            sums = KeySums(self._replica.keys, key)
            await self._all_of(sums.go_on)
            if sums.parts:
                yield key, sums.digest

    async def _parts(self, key: bytes) -> AsyncGenerator[pb.DigestItem, None]:
        sums = KeySums(self._replica.keys, key)
        await self._all_of(sums.go_on)
        for part in sums.parts:
            yield part_item(part)

    async def _stretches(self, of: pb.StretchesOf) -> AsyncGenerator[pb.DigestItem, None]:
        for number in range(of.first, of.first + of.count):
            sums = LaneSum((number << of.bits) - 1, ((number + 1) << of.bits) - 1)

            def go_on(is_over: Callable[[], bool], sums: LaneSum = sums) -> bool:
                lane = self._lane(of.key, of.origin)
                return lane is None or sums.go_on(lane, is_over)

            await self._all_of(go_on)
            if sums.entries:
                yield pb.DigestItem(number=number, digest=sums.digest, size=sums.entries)

    async def _entries(self, of: pb.EntriesOf) -> AsyncGenerator[pb.DigestItem, None]:
        above_n, upto_n = (of.block << BLOCK_BITS) - 1, ((of.block + 1) << BLOCK_BITS) - 1
        while True:
            await self._rest()

            def look(above_n: int = above_n) -> list[EntrySum]:
                lane = self._lane(of.key, of.origin)
                within = Within(above_n, upto_n)
                return [] if lane is None else entries_above(lane, within, ENTRIES_AT_ONCE.value)

            found = await self._reads.read(look)
            if not found:
                return
            for entry in found:
                yield _entry(entry)
            above_n = found[-1].n

    def _lane(self, key: bytes, origin: int) -> Lane | None:
        stream = self._replica.keys.held_stream(key)
        return None if stream is None else stream.lanes.get(RegionId(origin))

    # --- Turns --------------------------------------------------------------------------------

    async def _all_of(self, go_on: Callable[[Callable[[], bool]], bool]) -> None:
        """Call it, a turn at a time, until it says that all is done."""
        while not await self._reads.read(lambda: go_on(self._turn.is_over)):
            await self._rest()

    async def _rest(self) -> None:
        """Let other tasks run if this turn has ended."""
        if self._turn.is_over():
            await asyncio.sleep(0)
            self._turn = Turn()


def _check_lane(origin: int, end_n: int) -> None:
    """
    Raises:
        DigestsError: there can be no such lane, or no such dots.
    """
    if not 1 <= origin <= REGION_MAX:
        raise DigestsError(f"lane {origin}; there are 1 to {REGION_MAX}")
    if end_n > U64_MAX:
        raise DigestsError(f"dot number {end_n}; the last one is {U64_MAX}")


def _bucket(number: int, keys: int, total: int) -> pb.DigestItem:
    digest = total.to_bytes(BLOCK_DIGEST_BYTES, "little")
    return pb.DigestItem(number=number, size=keys, digest=digest)


def part_item(part: PartSum) -> pb.DigestItem:
    kind, group, lane = part.name
    return pb.DigestItem(
        kind=KINDS[kind],
        name=group,
        origin=lane,
        digest=part.digest,
        size=part.size,
        last_n=part.last_n,
        ms=part.last_id >> SEQ_BITS,
        seq=part.last_id & U64_MAX,
    )


def _entry(entry: EntrySum) -> pb.DigestItem:
    return pb.DigestItem(
        number=entry.n,
        ms=entry.id >> SEQ_BITS,
        seq=entry.id & U64_MAX,
        size=entry.fields_bytes,
        digest=entry.digest,
    )


KINDS: Final = {
    PartKind.MEMBERS: pb.DigestItem.Kind.MEMBERS,
    PartKind.LANE: pb.DigestItem.Kind.LANE,
    PartKind.LAST_ID: pb.DigestItem.Kind.LAST_ID,
    PartKind.CREATES: pb.DigestItem.Kind.CREATES,
    PartKind.MODE: pb.DigestItem.Kind.MODE,
    PartKind.ACKED: pb.DigestItem.Kind.ACKED,
    PartKind.EXPIRY: pb.DigestItem.Kind.EXPIRY,
    PartKind.CONFIG: pb.DigestItem.Kind.CONFIG,
    PartKind.STRING: pb.DigestItem.Kind.STRING,
}
