"""Checkpoints: where the images of the state are kept, and how one checkpoint follows the other.

A checkpoint is a *generation*.  It writes the images of what changed since the generation before,
and names the earlier images that it does not need.  It shares all others with the one before.

    image   1  2  3  4  5  6           born 1: 1 to 4, in generation 1
            x  .  .  x  +  +           born 2: 5 and 6; 1 and 4 died in 2
                                       generation 1 sees 1 2 3 4, generation 2 sees 2 3 5 6

So an image is in generation g if ``born <= g < died``.  One generation goes through these steps,
and the process may die, or the disk refuse, before and after each of them:

    begin ─> put, put … ─> commit ─> verify ─> forget_before ─> cut_log
                             │          │          └ only now images of the one before are deleted
                             │          └ every image that it put is read back from the file
                             └ only now it is a checkpoint; before that, nothing of it counts

Always so:
  * Images of a generation that was not committed are deleted before the next one begins.
  * While a generation is not verified, the one before it and the log behind that one are kept.
  * A checkpoint's row has the number of its images and the sums of their numbers and checksums.  So
    a lost image, or one image too many, is noticed like one whose bytes have changed.

Two implementations under one contract: ``MemoryCheckpoints`` here for tests and simulations,
``SqliteCheckpoints`` in ``sqlite_checkpoints.py`` for nodes.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, Protocol

from crdtstream.core.checkpoint.contents import KeyContent, unpacked
from crdtstream.core.checkpoint.parts import STAGED, Image, Kind
from crdtstream.core.clock import VersionVector
from crdtstream.core.lanes.packing import pack
from crdtstream.core.size import Size
from crdtstream.store.errors import ImageError, StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints
from crdtstream.store.log import MemoryLog
from crdtstream.store.staging import (
    ALL_OWNERS,
    NOT_SENT,
    Staged,
    StagedImage,
    Staging,
    fetch_staged,
    load_staged,
    make_image,
)

# Time that a hold lasts without progress of its copy, and its longest time.
HOLD_IDLE_SECONDS: Final = Size(60, least=1)
HOLD_SECONDS_MAX: Final = Size(6 * 3600, least=1)


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """Fields of a checkpoint that its writer sets.

    Attributes:
        generation: as ``begin`` returned it.
        seq: the position of the last record of the log that the cut has.
        vv: the version vector at the cut.
        images_made: the number of the last image that was ever made, this checkpoint's included.
        made_ms: when the cut was made, by this machine's clock.
    """

    generation: int
    seq: int
    vv: VersionVector
    images_made: int
    made_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that is committed.

    Attributes:
        images: how many it sees.
        bytes: of their heads and packed bodies.
        is_verified: it was read back, and the ones before it may be deleted.
    """

    row: CheckpointRow
    images: int
    bytes: int
    is_verified: bool


class Purpose(Enum):
    """Purpose of a hold of a checkpoint: it decides what is kept with it, and for how long."""

    # All of the log too.  It ends after some hours, however it gets on.
    BACKUP = "backup"
    # The log behind the checkpoint, which the other region pulls next.  It lasts while parts move.
    BOOTSTRAP = "bootstrap"


class Checkpoints(Protocol):
    """Store of checkpoints, as the engine needs it.

    One task at a time writes (``begin`` to ``cut_log``); ``fetch`` may be called at any time.
    A call that raises StoreError has changed nothing that counts, and may be repeated; after a
    failed ``put`` or ``commit`` the next call must be ``begin``.

    Attributes:
        staging: has the macro nodes whose image has a number of ``STAGED`` or more.
    """

    staging: Staging | None

    async def begin(self) -> int:
        """Begin a generation; remains of an earlier one that was not committed are deleted.

        Raises:
            StoreError: the disk refused.
        """

    async def put(self, images: Sequence[Image]) -> list[bytes]:
        """Write images of the generation that was begun; nothing of it counts until ``commit``.

        In small transactions, between which the log commits.  Their numbers must be above
        ``images_made`` of the checkpoint before.

        Returns:
            Their packed bodies, in the same order.

        Raises:
            StoreError: the disk refused.
        """

    async def commit(self, row: CheckpointRow, dropped: Sequence[int]) -> None:
        """Make the generation that was begun a checkpoint.

        Args:
            row: its ``seq`` is in the log already.
            dropped: numbers of images of the checkpoint before which this one does not need.

        Raises:
            StoreError: the disk refused, or does not have one of ``dropped``.
        """

    async def verify(self, generation: int) -> None:
        """Read back every image that the generation put, and all its heads, and note that it did.

        Raises:
            StoreError: something of it is not as it was written, or cannot be read.
        """

    async def forget_before(self, generation: int) -> None:
        """Delete the checkpoints before a verified one, with the images that only they need.

        Raises:
            StoreError: the disk refused.
        """

    async def newest(self, *, before: int | None = None) -> Checkpoint | None:
        """The newest checkpoint (older than generation ``before``) with a sound row.

        None: the state is to be built from the first row of the log.

        Raises:
            StoreError: there is no checkpoint, and the log no longer begins with its first row; or
                the log does not go back to the checkpoint.  The text says what to do.
        """

    async def discard_after(self, generation: int) -> None:
        """Delete the checkpoints after this one (0: all), which turned out to be damaged.

        For a node whose state is now that of ``generation`` and of the log behind it.

        Raises:
            StoreError: the disk refused.
        """

    def heads(self, generation: int) -> AsyncIterator[list[Image]]:
        """All images of a checkpoint in the order of their numbers, those of NODE without body.

        Every image is checked as it is read, and their sum at the end.  An error may come after the
        last ``list``, so use nothing of them before the iterator has ended.

        Raises:
            StoreError: an image is damaged, missing, or one too many.
        """

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Packed bodies of NODE images, each checked.

        The first one is what is asked for; the others are read ahead, and those of them that cannot
        be read are left out.

        Raises:
            StoreError: the first one cannot be read, is damaged, or does not exist (any more).
        """

    def load(self, number: int) -> bytes:
        """The packed body of a NODE image, read at once: for what must not wait.

        Raises:
            ImageError: it cannot be read, is damaged, or is not there.
        """

    async def cut_log(self, upto_seq: int, *, spare_bytes: int = 0) -> None:
        """Delete the rows of the log up to and with this one, and free their space.

        Args:
            spare_bytes: of the space, what may be kept, as it will be written again soon.

        Raises:
            StoreError: no verified checkpoint covers them, or the disk refused.
        """

    def hold(self, purpose: Purpose = Purpose.BACKUP) -> AbstractAsyncContextManager["Hold"]:
        """Keep what the newest verified checkpoint sees, and the log that ``purpose`` needs.

        While it lasts, ``forget_before`` and ``cut_log`` leave that alone, without an error; the
        remains are deleted when they are called the next time.  There may be several holds.
        """

    async def owner_of(self, generation: int, key: bytes) -> int:
        """The number of a key in a checkpoint that is held; 0: nothing is kept of it.

        Raises:
            StoreError: an image is damaged; the text has its number.
        """

    async def images(
        self, generation: int, *, after: int, bytes_max: int, owner: int = ALL_OWNERS
    ) -> list[StagedImage]:
        """The next images of a checkpoint that is held, as they are sent to other regions.

        All kinds but ``NOT_SENT``, in the order of their numbers, each checked.

        Args:
            after: the number of the last one that is not wanted again.
            bytes_max: of heads and bodies; a single image may take more.
            owner: only those of the key with this number, and what is the region's as a whole.

        Returns:
            None of them only at the end.

        Raises:
            StoreError: one is damaged; the text has its number.
        """

    async def sent(self, generation: int, owner: int = ALL_OWNERS) -> Staged:
        """Sums over all that ``images`` returns of a checkpoint.

        Raises:
            StoreError: images are missing, or too many.
        """

    async def sizes(self) -> "Sizes":
        """Sizes in bytes of the parts of the folder.

        Raises:
            StoreError: it cannot be read.
        """


@dataclass(slots=True)
class Hold:
    """Checkpoint and rows that are not deleted while a copy of them makes progress.

    Attributes:
        checkpoint: its images are kept; None: the rows are all of the state.
        first_seq, last_seq: the rows that the log had when the hold began; those that are added
            later are not held.
        clock: seconds that pass.
        lapses_at, ends_at: when it ends without progress, and when in any case.
    """

    checkpoint: Checkpoint | None
    first_seq: int
    last_seq: int
    clock: Callable[[], float] = time.monotonic
    lapses_at: float = 0.0
    ends_at: float = 0.0
    purpose: Purpose = Purpose.BACKUP

    def __post_init__(self) -> None:
        now = self.clock()
        self.lapses_at = now + HOLD_IDLE_SECONDS.value
        self.ends_at = now + HOLD_SECONDS_MAX.value if self.purpose is Purpose.BACKUP else inf

    @property
    def lasts(self) -> bool:
        return self.clock() < min(self.lapses_at, self.ends_at)

    def go_on(self) -> None:
        """Somebody got on with it.

        Raises:
            StoreError: it has ended; the images and rows that it held may be deleted.
        """
        if not self.lasts:
            longer = (
                f", or it took longer than {HOLD_SECONDS_MAX.value} s"
                if self.purpose is Purpose.BACKUP
                else ""
            )
            raise StoreError(
                f"nothing was taken for {HOLD_IDLE_SECONDS.value} s{longer}: the node does not "
                "keep an old state for longer"
            )
        self.lapses_at = self.clock() + HOLD_IDLE_SECONDS.value

    def end(self) -> None:
        """Keep nothing any more."""
        self.lapses_at = -inf

    @property
    def upto_seq(self) -> int:
        """The last row of the log that may be cut while it lasts."""
        if self.purpose is Purpose.BOOTSTRAP and self.checkpoint is not None:
            return self.checkpoint.row.seq
        return self.first_seq - 1


@dataclass(slots=True)
class Holds:
    """All present holds.

    Attributes:
        deleting: taken while something is deleted, so that a hold begins before or after that.
    """

    deleting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _holds: list[Hold] = field(default_factory=list)

    @asynccontextmanager
    async def begin(self, make: Callable[[], Hold]) -> AsyncIterator[Hold]:
        async with self.deleting:
            hold = make()
            self._holds.append(hold)
        try:
            yield hold
        finally:
            # Not ``remove``: two may be equal.
            self._holds = [one for one in self._holds if one is not hold]

    def before(self, generation: int) -> int:
        """The checkpoint before which all may go, up to this one."""
        held = [one.checkpoint.row.generation for one in self._lasting if one.checkpoint]
        return min([generation, *held])

    def upto(self, upto_seq: int) -> int:
        """The last row that may be cut, up to this one."""
        return min([upto_seq, *(one.upto_seq for one in self._lasting)])

    @property
    def _lasting(self) -> list[Hold]:
        return [one for one in self._holds if one.lasts]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in bytes of the parts of a folder.

    Attributes:
        log: batches and local changes of the rows.
        images: heads and packed bodies of all images, needed or not yet forgotten.
        free: pages of the file that are free, to be reused or returned to the file system.
        files: size of the files: the sum of the others, and what SQLite itself needs.
    """

    log: int
    images: int
    free: int
    files: int


@dataclass(slots=True)
class Kept:
    """An image in memory."""

    image: Image
    packed: bytes
    born: int
    died: int | None = None

    def is_in(self, generation: int) -> bool:
        return self.born <= generation and (self.died is None or self.died > generation)

    @property
    def bytes(self) -> int:
        return len(self.image.head) + len(self.packed)


@dataclass(slots=True)
class MemoryCheckpoints:
    """Checkpoints of a log in memory; faults that a test sets in that log hold for these, too.

    Attributes:
        log: is cut by ``cut_log``; what it refuses, is refused here.
        failpoints: where a test makes a step fail.
    """

    log: MemoryLog
    failpoints: Failpoints = NO_FAILPOINTS
    staging: Staging | None = None
    _images: dict[int, Kept] = field(default_factory=dict)
    _committed: dict[int, Checkpoint] = field(default_factory=dict)
    _generation: int = 0
    _holds: Holds = field(default_factory=Holds)
    # All before this checkpoint may be deleted once no hold needs it.
    _forget: int = 0

    async def begin(self) -> int:
        self._reach("checkpoint.begin")
        self._discard_after(max(self._committed, default=0))
        self._generation += 1
        return self._generation

    async def put(self, images: Sequence[Image]) -> list[bytes]:
        self._reach("checkpoint.put")
        packed = [image.body if image.is_packed else pack(image.body) for image in images]
        for image, frame in zip(images, packed, strict=True):
            assert image.number > self._images_made
            self._images[image.number] = Kept(image, frame, self._generation)
        return packed

    async def commit(self, row: CheckpointRow, dropped: Sequence[int]) -> None:
        self._reach("checkpoint.commit")
        assert row.generation == self._generation
        assert row.seq <= self.log.last_seq
        # No power cut takes back rows that a checkpoint has.
        await self.log.sync()
        for number in dropped:
            if number not in self._images:
                raise StoreError(f"image {number} is not there")
            self._images[number].died = row.generation
        seen = [kept for kept in self._images.values() if kept.is_in(row.generation)]
        size = sum(kept.bytes for kept in seen)
        self._committed[row.generation] = Checkpoint(row, len(seen), size, is_verified=False)

    async def verify(self, generation: int) -> None:
        self._reach("checkpoint.verify")
        found = self._committed[generation]
        self._committed[generation] = Checkpoint(
            found.row, found.images, found.bytes, is_verified=True
        )

    async def forget_before(self, generation: int) -> None:
        self._reach("checkpoint.forget")
        assert self._committed[generation].is_verified
        self._forget = generation
        generation = self._holds.before(generation)
        for older in [one for one in self._committed if one < generation]:
            del self._committed[older]
        self._images = {
            number: kept
            for number, kept in self._images.items()
            if kept.died is None or kept.died > generation
        }

    async def newest(self, *, before: int | None = None) -> Checkpoint | None:
        older = [one for one in self._committed if before is None or one < before]
        found = self._committed[max(older)] if older else None
        check_log_reaches(found, self.log.first_seq)
        return found

    async def discard_after(self, generation: int) -> None:
        self._reach("checkpoint.discard")
        self._discard_after(generation)

    async def heads(self, generation: int) -> AsyncIterator[list[Image]]:
        assert generation in self._committed
        seen = [kept.image for kept in self._images.values() if kept.is_in(generation)]
        yield [without_body(image) for image in sorted(seen)]

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        self._reach("checkpoint.fetch")
        own, staged = parted(numbers)
        packed = await fetch_staged(self.staging, staged, must=numbers[0] >= STAGED)
        if own and own[0] == numbers[0] and own[0] not in self._images:
            raise StoreError(f"image {numbers[0]} is not there")
        return packed | {number: self._images[number].packed for number in self._there(own)}

    def load(self, number: int) -> bytes:
        if number >= STAGED:
            return load_staged(self.staging, number)
        try:
            self._reach("checkpoint.load")
        except StoreError as error:
            raise ImageError(str(error)) from error
        if number not in self._images:
            raise ImageError(f"image {number} is not there")
        return self._images[number].packed

    async def cut_log(self, upto_seq: int, *, spare_bytes: int = 0) -> None:
        self._reach("log.cut")
        if self._forget in self._committed:
            await self.forget_before(self._forget)
        wanted_seq, upto_seq = upto_seq, self._holds.upto(upto_seq)
        if upto_seq < min(wanted_seq, self.log.first_seq):
            return
        check_covered(self._committed.values(), upto_seq)
        self.log.forget_upto(upto_seq)

    def hold(self, purpose: Purpose = Purpose.BACKUP) -> AbstractAsyncContextManager[Hold]:
        def make() -> Hold:
            verified = [one for one in self._committed.values() if one.is_verified]
            newest = max(verified, key=lambda one: one.row.generation, default=None)
            return Hold(newest, self.log.first_seq, self.log.last_seq, purpose=purpose)

        return self._holds.begin(make)

    async def owner_of(self, generation: int, key: bytes) -> int:
        for kept in self._sent(generation):
            if kept.image.kind is Kind.KEY:
                content = unpacked(kept.image.head, KeyContent)
                if content.key == key:
                    return content.number
        return 0

    async def images(
        self, generation: int, *, after: int, bytes_max: int, owner: int = ALL_OWNERS
    ) -> list[StagedImage]:
        found: list[StagedImage] = []
        size = 0
        for kept in self._sent(generation, owner):
            if kept.image.number > after and size < bytes_max:
                found.append(_as_sent(kept))
                size += kept.bytes
        return found

    async def sent(self, generation: int, owner: int = ALL_OWNERS) -> Staged:
        kept = self._sent(generation, owner)
        return Staged(
            len(kept), sum(one.image.number for one in kept), sum(one.bytes for one in kept)
        )

    def _sent(self, generation: int, owner: int = ALL_OWNERS) -> list[Kept]:
        """Those that are sent, in the order of their numbers."""
        if generation not in self._committed:
            raise StoreError(f"checkpoint {generation} is not kept any more")
        kept = [
            one
            for one in self._images.values()
            if one.is_in(generation)
            and one.image.kind is not NOT_SENT
            and (owner == ALL_OWNERS or one.image.owner in (0, owner))
        ]
        return sorted(kept, key=lambda one: one.image.number)

    async def sizes(self) -> Sizes:
        log = self.log.bytes
        images = sum(kept.bytes for kept in self._images.values())
        return Sizes(log=log, images=images, free=0, files=log + images)

    @property
    def _images_made(self) -> int:
        return max((one.row.images_made for one in self._committed.values()), default=0)

    def _there(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if number in self._images]

    def _discard_after(self, generation: int) -> None:
        for later in [one for one in self._committed if one > generation]:
            del self._committed[later]
        self._images = {
            number: kept for number, kept in self._images.items() if kept.born <= generation
        }
        for kept in self._images.values():
            if kept.died is not None and kept.died > generation:
                kept.died = None

    def _reach(self, step: str) -> None:
        self.log.check()
        self.failpoints.reach(step)


def without_body(image: Image) -> Image:
    """An image as ``heads`` returns it."""
    return image._replace(body=b"", is_packed=False) if image.kind is Kind.NODE else image


def _as_sent(kept: Kept) -> StagedImage:
    number, kind, owner, lane, head, body, _ = kept.image
    assert kind is Kind.NODE or not body
    return make_image(number, kind, owner, lane, head, kept.packed)


def parted(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """The numbers of this region's own images, and those of images in the staging."""
    return (
        [number for number in numbers if number < STAGED],
        [number for number in numbers if number >= STAGED],
    )


def check_log_reaches(checkpoint: Checkpoint | None, first_seq: int) -> None:
    """See that the log goes on where the checkpoint, or nothing, ends.

    Raises:
        StoreError: rows between them are gone.
    """
    seq = 0 if checkpoint is None else checkpoint.row.seq
    if first_seq > seq + 1:
        what = (
            "no checkpoint of it can be read"
            if checkpoint is None
            else f"the checkpoint that can be read ends with row {seq}"
        )
        raise StoreError(
            f"the log begins with row {first_seq}, and {what}. Keep the folder as it is for "
            "inspection, and start this region again from a backup of the folder, or with an "
            "empty folder under a new region id; the other regions have its effects"
        )


def check_covered(checkpoints: Iterable[Checkpoint], upto_seq: int) -> None:
    """See that a verified checkpoint, and every one that is left, has all rows up to this one.

    Raises:
        StoreError: the log is not to be cut there.
    """
    checkpoints = list(checkpoints)
    covered = min((one.row.seq for one in checkpoints), default=0)
    if not any(one.is_verified for one in checkpoints) or covered < upto_seq:
        raise StoreError(
            f"the log cannot be cut behind row {upto_seq}: the checkpoints that are kept need the "
            f"rows behind {covered}. Nothing was cut"
        )
