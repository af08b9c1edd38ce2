"""Checkpoints in SQLite, in the same file as the log.

Images are written in slices, each a transaction of about 128 KiB on the connection
``background`` (``connections.py``); packing and checksums, which take time, run in threads.
Bodies of NODE are rows of a table of their own, so that a start reads heads that lie side by side:
some 100 bytes a node instead of a page.

Images that were not committed are found by their numbers: a generation's own images have numbers
behind ``images_made`` of the one before.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from crdtstream.core.checkpoint.parts import STAGED, Image
from crdtstream.core.size import Size
from crdtstream.store.checkpoints import (
    Checkpoint,
    CheckpointRow,
    Hold,
    Holds,
    Purpose,
    Sizes,
    check_covered,
    check_log_reaches,
    parted,
)
from crdtstream.store.checksums import is_sound_body
from crdtstream.store.connections import ADVICE
from crdtstream.store.errors import ImageError, NoRoomError, StoreError
from crdtstream.store.layout import (
    CHECKPOINT_COLUMNS,
    IMAGE_COLUMNS,
    SEEN,
    SUMS,
    PutRows,
    StoredCheckpoint,
    Sums,
    first_damaged,
    named,
    pack_bodies,
    put_rows,
    read_checkpoint,
    read_heads,
)
from crdtstream.store.sending import next_images, owner_in_slice, sums_of_slice
from crdtstream.store.space import give_back
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.staging import (
    ALL_OWNERS,
    Staged,
    StagedImage,
    Staging,
    fetch_staged,
    load_staged,
)

T = TypeVar("T")

# One transaction of what is put: a commit of the log waits for one of them at most.
PUT_BYTES: Final = Size(128 << 10, least=1)
PUT_IMAGES: Final = Size(256, least=1)
# Images that are named in one statement.
NUMBERS_PER_STATEMENT: Final = Size(512, least=1)
# Rows of ``image`` in one read, at the start and when sums are checked.
HEADS_PER_READ: Final = Size(4_096, least=1)
SUMMED_PER_READ: Final = Size(16_384, least=1)
# Images that are read back at once: with what is small, and with large bodies.
SMALL_BYTES: Final = Size(4 << 10, least=0)
SMALL_PER_READ: Final = Size(1_024, least=1)
BODIES_PER_READ: Final = Size(64, least=1)

# Images that a generation put, by number, with the bodies of NODE.
_PUT: Final = (
    f"SELECT {named('image', IMAGE_COLUMNS)}, body.number, body.packed, body.crc "
    "FROM image LEFT JOIN body USING (number) WHERE image.number BETWEEN ? AND ?"
)
_IS_SMALL: Final = "length(image.head) + image.body_bytes <= ?"


@dataclass(slots=True)
class _Begun:
    """A generation that is being written."""

    generation: int
    base: StoredCheckpoint | None
    sums: Sums = field(default_factory=Sums)

    @property
    def first_number(self) -> int:
        return 1 if self.base is None else self.base.row.images_made + 1


class SqliteCheckpoints:
    """The checkpoints of a log; made by ``open``, and closed with the log.

    Attributes:
        staging: has the macro nodes whose image has a number of ``STAGED`` or more.
    """

    def __init__(self, log: SqliteLog) -> None:
        self.staging: Staging | None = None
        self._log = log
        self._connections = log.connections
        self._reach = log.connections.failpoints.reach
        self._found: dict[int, StoredCheckpoint] = {}
        self._last_generation = 0
        self._begun: _Begun | None = None
        self._image_bytes = 0
        self._holds = Holds()
        # All before this checkpoint may be deleted once no hold needs it.
        self._forget = 0

    @classmethod
    async def open(cls, log: SqliteLog) -> "SqliteCheckpoints":
        """Find the checkpoints, and delete what a crash left of one that was not committed.

        While a checkpoint's row is damaged nothing is deleted, so that the folder can be inspected:
        ``begin`` and ``discard_after`` do it then.

        Raises:
            StoreError: they cannot be read.
        """
        checkpoints = cls(log)
        query = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoint ORDER BY generation"
        are_sound = True
        for columns in await checkpoints._scan(query):
            stored, is_sound = read_checkpoint(columns)
            if stored is not None and is_sound:
                checkpoints._found[stored.row.generation] = stored
            are_sound = are_sound and is_sound
            checkpoints._last_generation = max(checkpoints._last_generation, columns[0])
        if are_sound:
            # On a full disk it stays until the next one begins.
            with contextlib.suppress(NoRoomError):
                await checkpoints._delete_later(checkpoints._newest())
        ((size,),) = await checkpoints._scan(
            "SELECT coalesce(sum(length(head) + body_bytes), 0) FROM image"
        )
        checkpoints._image_bytes = size
        checkpoints._forget = checkpoints._newest_verified()
        return checkpoints

    # --- Writing one --------------------------------------------------------------------------

    async def begin(self) -> int:
        self._reach("checkpoint.begin")
        base = self._newest()
        await self._delete_later(base)
        self._last_generation += 1
        self._begun = _Begun(self._last_generation, base)
        return self._last_generation

    async def put(self, images: Sequence[Image]) -> list[bytes]:
        begun = self._begun
        assert begun is not None
        packed: list[bytes] = []
        for some in _slices(images, PUT_IMAGES.value):
            assert all(image.number >= begun.first_number for image in some)
            # Packed in a thread, some at a time; written in slices of what came out.
            frames, parts = await asyncio.to_thread(_packed_parts, some, begun.generation)
            for part in parts:
                await self._put_slice(part, begun)
            packed += frames
        return packed

    async def _put_slice(self, part: PutRows, begun: _Begun) -> None:
        size = part.sums.bytes
        if part.bodies:
            self._reach("checkpoint.put-bodies")
            values = ",".join(["(?,?,?)"] * (len(part.bodies) // 3))
            await self._write(
                f"INSERT INTO body VALUES {values}",
                part.bodies,
                size=size,
                what="bodies of images",
            )
            size = 0
        self._reach("checkpoint.put")
        values = ",".join(["(?,?,?,?,?,?,?,?,?,?,?)"] * part.sums.images)
        await self._write(
            f"INSERT INTO image ({IMAGE_COLUMNS}) VALUES {values}",
            part.images,
            size=size,
            what="images",
        )
        begun.sums += part.sums
        self._image_bytes += part.sums.bytes

    async def commit(self, row: CheckpointRow, dropped: Sequence[int]) -> None:
        begun = self._begun
        assert begun is not None
        assert row.generation == begun.generation
        assert row.seq <= self._log.last_seq
        sums = begun.sums + (Sums() if begun.base is None else begun.base.sums)
        for numbers in _slices(dropped, NUMBERS_PER_STATEMENT.value):
            self._reach("checkpoint.drop")
            sums -= await self._drop(numbers, row.generation)
        stored = StoredCheckpoint(row, begun.first_number, sums)
        columns = stored.columns()
        self._reach("checkpoint.commit")
        await self._write(
            f"INSERT INTO checkpoint ({CHECKPOINT_COLUMNS}) "
            f"VALUES ({','.join('?' * len(columns))})",
            columns,
            what=f"checkpoint {row.generation}",
        )
        self._found[row.generation] = stored
        self._begun = None
        self._reach("checkpoint.committed")

    async def _drop(self, numbers: Sequence[int], generation: int) -> Sums:
        """Note that images are not needed any more; returns what they sum up to."""
        among, values = _among(numbers)
        (found,) = await self._scan(
            f"SELECT {SUMS} FROM image WHERE {among} AND died IS NULL", values
        )
        sums = Sums(*found)
        if sums.images != len(numbers):
            raise StoreError(
                f"{self._log.path}: {len(numbers) - sums.images} images of the checkpoint before "
                f"are missing. {ADVICE}"
            )
        await self._write(
            f"UPDATE image SET died = ? WHERE {among}", (generation, *values), what="table image"
        )
        return sums

    # --- Checking it --------------------------------------------------------------------------

    async def verify(self, generation: int) -> None:
        self._reach("checkpoint.verify")
        stored = self._found[generation]
        # Then the bytes that are read back are in the file for good.
        await self._connections.sync()
        await self._check_sums(stored)
        await self._check_put(stored)
        await self._write(
            "UPDATE checkpoint SET verified = 1 WHERE generation = ?",
            (generation,),
            what=f"checkpoint {generation}",
        )
        self._found[generation] = stored.verified()
        self._reach("checkpoint.verified")

    async def _check_sums(self, stored: StoredCheckpoint) -> None:
        generation, sums = stored.row.generation, Sums()
        last = 0
        query = (
            f"SELECT max(number), {SUMS} FROM (SELECT number, crc, head, body_bytes FROM image "
            f"WHERE number > ? AND {SEEN} ORDER BY number LIMIT ?)"
        )
        while True:
            values = (last, generation, generation, SUMMED_PER_READ.value)
            ((highest, *found),) = await self._scan(query, values)
            sums += Sums(*found)
            if highest is None:
                break
            self._must_ascend(stored, last, highest)
            last = highest
        if sums != stored.sums:
            raise self._damaged(stored, "images are missing, or too many")

    async def _check_put(self, stored: StoredCheckpoint) -> None:
        """Read all that the generation put, bodies too: small ones many at a time."""
        for first in range(stored.first_number, stored.row.images_made + 1, SMALL_PER_READ.value):
            last = min(stored.row.images_made, first + SMALL_PER_READ.value - 1)
            small = await self._scan(f"{_PUT} AND {_IS_SMALL}", (first, last, SMALL_BYTES.value))
            await self._must_be_sound(stored, small)
            while large := await self._scan(
                f"{_PUT} AND NOT ({_IS_SMALL}) ORDER BY image.number LIMIT ?",
                (first, last, SMALL_BYTES.value, BODIES_PER_READ.value),
            ):
                await self._must_be_sound(stored, large)
                self._must_ascend(stored, first - 1, large[-1][0])
                first = large[-1][0] + 1

    async def _must_be_sound(self, stored: StoredCheckpoint, rows: Sequence[Any]) -> None:
        damaged = await asyncio.to_thread(first_damaged, rows) if rows else None
        if damaged is not None:
            raise self._damaged(stored, f"image {damaged} is damaged (checksum)")

    def _must_ascend(self, stored: StoredCheckpoint, last: int, number: int) -> None:
        """Else the same rows of a damaged page would be read for ever."""
        if number <= last:
            raise self._damaged(stored, "images are out of order")

    def _damaged(self, stored: StoredCheckpoint, what: str) -> StoreError:
        # It is not used before it is written again.
        self._found.pop(stored.row.generation, None)
        return StoreError(
            f"{self._log.path}: checkpoint {stored.row.generation}: {what}. The checkpoint before "
            "it, or the log from its first row, is used while it is there; check the disk"
        )

    # --- Reading ------------------------------------------------------------------------------

    async def newest(self, *, before: int | None = None) -> Checkpoint | None:
        stored = self._newest(before)
        found = None if stored is None else stored.told()
        check_log_reaches(found, self._log.first_seq)
        return found

    async def heads(self, generation: int) -> AsyncIterator[list[Image]]:
        stored = self._found[generation]
        query = (
            f"SELECT {IMAGE_COLUMNS} FROM image WHERE number > ? AND {SEEN} ORDER BY number LIMIT ?"
        )
        last, sums = 0, Sums()
        while found := await self._scan(
            query, (last, generation, generation, HEADS_PER_READ.value)
        ):
            try:
                images, crcs, size = await asyncio.to_thread(read_heads, found)
            except ValueError as error:
                raise self._damaged(stored, f"{error} is damaged (checksum)") from error
            sums += Sums(len(images), sum(image.number for image in images), crcs, size)
            self._must_ascend(stored, last, images[-1].number)
            last = images[-1].number
            yield images
        if sums != stored.sums:
            raise self._damaged(stored, "images are missing, or too many")

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        assert numbers
        self._reach("checkpoint.fetch")
        own, staged = parted(numbers)
        packed = await fetch_staged(self.staging, staged, must=numbers[0] >= STAGED)
        for some in _slices(own, NUMBERS_PER_STATEMENT.value):
            # The checksums are computed where the rows are read: in that connection's thread.
            query = (
                "SELECT number, packed FROM body "
                f"WHERE number IN ({','.join('?' * len(some))}) "
                "AND is_sound_body(number, packed, crc)"
            )
            packed.update(await self._connections.fetch(self._connections.fetcher, query, some))
        if numbers[0] not in packed:
            raise StoreError(
                f"{self._log.path}: image {numbers[0]} is damaged (checksum), or not there. "
                f"{ADVICE}"
            )
        return packed

    def load(self, number: int) -> bytes:
        if number >= STAGED:
            return load_staged(self.staging, number)
        try:
            self._reach("checkpoint.load")
            row = self._connections.read_at_once(
                "SELECT packed, crc FROM body WHERE number = ?", (number,)
            )
        except StoreError as error:
            raise ImageError(str(error)) from error
        if row is None or not is_sound_body(number, *row):
            raise ImageError(
                f"{self._log.path}: image {number} is damaged (checksum), or not there. {ADVICE}"
            )
        packed: bytes = row[0]
        return packed

    async def owner_of(self, generation: int, key: bytes) -> int:
        after = 0
        try:
            while found := await self._connections.copy(owner_in_slice, generation, after, key):
                owner, after = found
                if owner:
                    return owner
        except ValueError as error:
            raise StoreError(f"{self._log.path}: {error}. {ADVICE}") from error
        return 0

    async def images(
        self, generation: int, *, after: int, bytes_max: int, owner: int = ALL_OWNERS
    ) -> list[StagedImage]:
        if generation not in self._found:
            raise StoreError(f"{self._log.path}: checkpoint {generation} is not kept any more")
        try:
            return await self._connections.copy(next_images, generation, after, bytes_max, owner)
        except ValueError as error:
            raise StoreError(
                f"{self._log.path}: {error}: it cannot be sent to another region. {ADVICE}"
            ) from error

    async def sent(self, generation: int, owner: int = ALL_OWNERS) -> Staged:
        stored = self._found[generation]
        sums, sent, last = Sums(), Staged(), 0
        while found := await self._connections.copy(sums_of_slice, generation, last, owner):
            self._must_ascend(stored, last, found.last)
            sums, last = sums + found.sums, found.last
            sent = sent.plus(found.sent)
        if sums != stored.sums:
            raise self._damaged(stored, "images are missing, or too many")
        return sent

    # --- Deleting -----------------------------------------------------------------------------

    def hold(self, purpose: Purpose = Purpose.BACKUP) -> AbstractAsyncContextManager[Hold]:
        def make() -> Hold:
            verified = [one for one in self._found.values() if one.is_verified]
            newest = max(verified, key=lambda one: one.row.generation, default=None)
            checkpoint = None if newest is None else newest.told()
            return Hold(checkpoint, self._log.first_seq, self._log.last_seq, purpose=purpose)

        return self._holds.begin(make)

    async def forget_before(self, generation: int) -> None:
        assert self._found[generation].is_verified
        async with self._holds.deleting:
            self._forget = generation
            await self._forget_before(self._holds.before(generation))

    async def _forget_before(self, generation: int) -> None:
        self._reach("checkpoint.forget")
        # They cease to be checkpoints before anything that they have is deleted.
        await self._write(
            "DELETE FROM checkpoint WHERE generation < ?", (generation,), what="table checkpoint"
        )
        for older in [one for one in self._found if one < generation]:
            del self._found[older]
        dead = await self._scan(
            "SELECT number FROM image WHERE died <= ? ORDER BY number", (generation,)
        )
        for some in _slices([number for (number,) in dead], PUT_IMAGES.value):
            self._reach("checkpoint.forget-slice")
            # The index is not trusted.
            among, values = _among(some)
            rows = await self._scan(
                f"SELECT number, length(head) + body_bytes FROM image WHERE {among} AND +died <= ?",
                (*values, generation),
            )
            await self._delete([number for number, _ in rows], sum(size for _, size in rows))

    async def discard_after(self, generation: int) -> None:
        self._reach("checkpoint.discard")
        for later in [one for one in self._found if one > generation]:
            del self._found[later]
        self._forget = self._newest_verified()
        await self._delete_later(self._found.get(generation))

    async def cut_log(self, upto_seq: int, *, spare_bytes: int = 0) -> None:
        if self._forget in self._found and min(self._found) < self._forget:
            # Somebody held what was before it, or the node died before that was forgotten.
            await self.forget_before(self._forget)
        async with self._holds.deleting:
            wanted_seq, upto_seq = upto_seq, self._holds.upto(upto_seq)
            if upto_seq < min(wanted_seq, self._log.first_seq):
                return
            check_covered([one.told() for one in self._found.values()], upto_seq)
            await self._log.forget_upto(upto_seq)
            await give_back(self._connections, spare_bytes=spare_bytes)

    async def sizes(self) -> Sizes:
        log, free = await self._log.sizes()
        return Sizes(log=log, images=self._image_bytes, free=free, files=self._log.bytes_on_disk())

    async def _delete_later(self, base: StoredCheckpoint | None) -> None:
        """Delete all that was written after a checkpoint, and revive what died since."""
        generation = 0 if base is None else base.row.generation
        images_made = 0 if base is None else base.row.images_made
        self._begun = None
        if await self._scan("SELECT 1 FROM checkpoint WHERE generation > ?", (generation,)):
            await self._write(
                "DELETE FROM checkpoint WHERE generation > ?", (generation,), what="a checkpoint"
            )
        for table in ("image", "body"):
            last = images_made
            while found := await self._scan(
                f"SELECT number FROM {table} WHERE number > ? ORDER BY number LIMIT ?",
                (last, PUT_IMAGES.value),
            ):
                self._reach("checkpoint.discard-slice")
                numbers = [number for (number,) in found]
                if min(numbers) <= last:
                    # Else images of a checkpoint would be deleted, or this would never end.
                    raise StoreError(
                        f"{self._log.path}: the rows of table {table} are out of order. {ADVICE}"
                    )
                await self._delete(numbers, await self._size_of(numbers))
                last = numbers[-1]
        revived = await self._scan("SELECT number FROM image WHERE died > ?", (generation,))
        for some in _slices([number for (number,) in revived], NUMBERS_PER_STATEMENT.value):
            self._reach("checkpoint.discard-slice")
            await self._write(
                f"UPDATE image SET died = NULL WHERE number IN ({','.join('?' * len(some))})",
                some,
                what="table image",
            )

    async def _size_of(self, numbers: Sequence[int]) -> int:
        """Bytes of those of the images that exist."""
        among, values = _among(numbers)
        ((size,),) = await self._scan(
            f"SELECT coalesce(sum(length(head) + body_bytes), 0) FROM image WHERE {among}", values
        )
        assert isinstance(size, int)
        return size

    async def _delete(self, numbers: Sequence[int], size: int) -> None:
        """Delete images of ``size`` bytes in all."""
        if not numbers:
            return
        among, values = _among(numbers)
        for table in ("body", "image"):
            await self._write(f"DELETE FROM {table} WHERE {among}", values, what=f"table {table}")
        self._image_bytes -= size

    # --- Plain work ---------------------------------------------------------------------------

    def _newest_verified(self) -> int:
        """The generation of the newest one that was read back; 0: there is none."""
        return max((one for one in self._found if self._found[one].is_verified), default=0)

    def _newest(self, before: int | None = None) -> StoredCheckpoint | None:
        older = [one for one in self._found if before is None or one < before]
        return self._found[max(older)] if older else None

    async def _scan(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        return await self._connections.fetch(self._connections.keeper, query, values)

    async def _write(
        self, statement: str, values: Sequence[object], *, what: str, size: int = 0
    ) -> None:
        await self._connections.write(statement, values, what=what, size=size)


def _slices(values: Sequence[T], count: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), count):
        yield values[start : start + count]


def _among(numbers: Sequence[int]) -> tuple[str, Sequence[int]]:
    """A condition on ``number``, with its values: to be one of these.

    Images that a checkpoint replaces are often neighbours, and SQLite steps from one such row to
    the next.
    """
    ordered = sorted(numbers)
    first, last = ordered[0], ordered[-1]
    if ordered == list(range(first, last + 1)):
        return "number BETWEEN ? AND ?", (first, last)
    return f"number IN ({','.join('?' * len(ordered))})", ordered


def _packed_parts(images: Sequence[Image], born: int) -> tuple[list[bytes], list[PutRows]]:
    """Packed bodies, and the rows for one transaction each."""
    frames = pack_bodies(images)
    parts: list[PutRows] = []
    start = size = 0
    for at, (image, frame) in enumerate(zip(images, frames, strict=True)):
        row_bytes = len(image.head) + len(frame)
        if at > start and size + row_bytes > PUT_BYTES.value:
            parts.append(put_rows(images[start:at], frames[start:at], born))
            start, size = at, 0
        size += row_bytes
    parts.append(put_rows(images[start:], frames[start:], born))
    return frames, parts
