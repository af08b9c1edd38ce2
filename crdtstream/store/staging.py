"""Staging: where a region puts the images of a checkpoint that another region sends to it.

    begin(cut) ─> put, put … ─> finish ─> heads, fetch, load … ─> discard
                       │           └ every image is read back from the file; only now it is complete
                       └ ``staged`` says after which number a transfer that broke goes on

One cut at a time: ``begin`` discards an earlier one.  The images keep the numbers that the sender
gave them.  As image of one of this region's macro nodes such a number is ``STAGED`` plus the number
(``core/checkpoint/parts.py``); ``load_staged`` and ``fetch_staged`` take it apart.

Always so:
  * Numbers ascend.  So the last one says which images have arrived, and the sums of the cut show
    missing ones.
  * Each image has a checksum over all of it.  The sender computes it, and it is kept.
  * A complete cut was read back from the disk after a sync, and equals what was put.

Two implementations under one contract: ``MemoryStaging`` here for tests and simulations,
``SqliteStaging`` in ``sqlite_staging.py`` for nodes.
"""

import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol, TypeAlias

from crdtstream.core.checkpoint.parts import STAGED, Image, Kind
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Merged
from crdtstream.core.ids import RegionId
from crdtstream.core.merge.sent import SentKey, SentState, sent_histories, sent_key, sent_members
from crdtstream.core.size import Size
from crdtstream.store.checksums import body_crc
from crdtstream.store.errors import ImageError, StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints

CUT_ID_BYTES: Final = 16
# Pending entries are local to the sender's region.
NOT_SENT: Final = Kind.PENDING
# The images of all keys; else those of the key with this number.
ALL_OWNERS: Final = -1

# Keys are read until they have this many images, and are merged then.  Key by key both take more
# time, as each needs the processor's caches.
IMAGES_AT_ONCE: Final = Size(64, least=1)

# The beginning of checksummed bytes: the columns, with the lengths of head and body.
_CHECKED_FIELDS: Final = b"%d,%d,%d,%d,%d,%d,%d,"


# ``bytes`` is a count below.
Key: TypeAlias = bytes


class Staged(NamedTuple):
    """Images, summed up so that one that is missing, or one too many, is noticed.

    Attributes:
        bytes: of their heads and bodies.
    """

    images: int = 0
    numbers: int = 0
    bytes: int = 0

    def plus(self, other: "Staged") -> "Staged":
        return Staged(
            self.images + other.images, self.numbers + other.numbers, self.bytes + other.bytes
        )


@dataclass(frozen=True, slots=True)
class StagedCut:
    """A checkpoint on its way from one region to another.

    Attributes:
        id: of 16 bytes, random, chosen by the sender for each transfer.
        source: the sender.
        vv: the version vector at the cut.
        images, numbers, bytes: sums of what is sent, as in ``Staged``.
        key: only this one is sent, and what is the region's as a whole; None: all keys are.
    """

    id: bytes
    source: RegionId
    vv: VersionVector
    images: int
    numbers: int
    bytes: int
    key: Key | None = None

    def __post_init__(self) -> None:
        assert len(self.id) == CUT_ID_BYTES

    @property
    def sums(self) -> Staged:
        return Staged(self.images, self.numbers, self.bytes)


class StagedImage(NamedTuple):
    """An image as it is sent.

    Attributes:
        number: as the sender's checkpoints have it.
        body: of a NODE its packed frame, byte for byte as the sender's table has it; else empty.
        crc: as ``image_crc`` computes it.
    """

    number: int
    kind: Kind
    owner: int
    lane: int
    head: bytes
    body: bytes
    crc: int

    @property
    def is_sound(self) -> bool:
        """True if it is as its sender had it."""
        return self.crc == image_crc(
            self.number,
            self.kind,
            self.owner,
            self.lane,
            self.head,
            body_bytes=len(self.body),
            of_body=body_crc(self.number, self.body),
        )

    @property
    def bytes(self) -> int:
        return len(self.head) + len(self.body)


class StagedState(Protocol):
    """A complete staged state; nothing of it changes."""

    @property
    def complete(self) -> StagedCut | None:
        """The cut that is complete; None: none is."""

    def root(self) -> Image:
        """The image of the region as a whole.

        Raises:
            StoreError: it is damaged, or not there.
        """

    def by_key(self) -> Iterator[list[Image]]:
        """The images of each key, those of NODE without body, key by key; all read at once.

        Of a cut that is complete.  The image of the region as a whole is not among them.

        Raises:
            StoreError: an image is damaged.
        """

    def of_key(self, owner: int) -> list[Image]:
        """As ``by_key``, the images of one key.

        Args:
            owner: the sender's number of it.

        Raises:
            StoreError: an image is damaged.
        """

    def load(self, number: int) -> bytes:
        """The packed body of a NODE image, read at once: for what must not wait.

        Raises:
            ImageError: it cannot be read, is damaged, or is not there.
        """


class Staging(StagedState, Protocol):
    """Store of a staging, as a region needs it.

    One task at a time writes (``begin`` to ``discard``).  A call that raises StoreError has changed
    nothing that counts, and may be repeated.
    """

    def staged(self) -> tuple[StagedCut, int] | None:
        """The cut that is under way or complete, and the last number that was put; 0: none."""

    @property
    def sums(self) -> Staged:
        """Of all that was put."""

    @property
    def is_complete(self) -> bool:
        """True if all of the cut is here, read back and durable."""

    async def begin(self, cut: StagedCut) -> None:
        """Forget what was staged, and start this cut; durable when it returns.

        Raises:
            StoreError: the disk refused; nothing is staged then.
        """

    async def put(self, images: Sequence[StagedImage]) -> None:
        """Add images: all of them, or none.

        Args:
            images: sound; their numbers ascend, and are above the last one that was put.

        Raises:
            NoRoomError: the disk is full.
            StoreError: the disk refused.
        """

    async def finish(self) -> None:
        """Make the cut complete: sync it, read it back, compare it with its sums.

        Raises:
            StoreError: the disk refused, and it may be called again; or what was read is not what
                was put, and nothing is staged any more.
        """

    async def discard(self) -> None:
        """Discard what was staged, and free its space.

        Raises:
            StoreError: the disk refused.
        """

    def heads(self) -> AsyncIterator[list[Image]]:
        """All images in the order of their numbers, those of NODE without body.

        Each one is checked as it comes, and their sums at the end: nothing is to be done with them
        before the iterator has ended.

        Raises:
            StoreError: an image is damaged, missing, or one too many.
        """

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Packed bodies of NODE images by the sender's numbers, each checked.

        Of those behind the first, which are read ahead, what cannot be read is left out.

        Raises:
            StoreError: the first one cannot be read, is damaged, or is not there.
        """


@dataclass(slots=True)
class MemoryStaging:
    """A staging in memory.

    Attributes:
        failpoints: where a test makes a step fail.
    """

    failpoints: Failpoints = NO_FAILPOINTS
    is_complete: bool = False
    _cut: StagedCut | None = None
    _images: dict[int, StagedImage] = field(default_factory=dict)

    def staged(self) -> tuple[StagedCut, int] | None:
        return None if self._cut is None else (self._cut, max(self._images, default=0))

    @property
    def complete(self) -> StagedCut | None:
        return self._cut if self.is_complete else None

    @property
    def sums(self) -> Staged:
        images = self._images.values()
        return Staged(len(images), sum(self._images), sum(image.bytes for image in images))

    async def begin(self, cut: StagedCut) -> None:
        self.failpoints.reach("staging.begin")
        self._forget()
        self._cut = cut

    async def put(self, images: Sequence[StagedImage]) -> None:
        assert self._cut is not None
        assert not self.is_complete
        check_put(images, after=max(self._images, default=0))
        self.failpoints.reach("staging.put")
        self._images |= {image.number: image for image in images}

    async def finish(self) -> None:
        assert self._cut is not None
        self.failpoints.reach("staging.finish")
        if self.sums != self._cut.sums or not all(one.is_sound for one in self._images.values()):
            self._forget()
            raise StoreError("what was staged is not what was put; nothing is staged any more")
        self.is_complete = True

    async def discard(self) -> None:
        self.failpoints.reach("staging.discard")
        self._forget()

    async def heads(self) -> AsyncIterator[list[Image]]:
        yield [
            Image(one.number, one.kind, one.owner, one.lane, one.head, b"")
            for one in self._images.values()
        ]

    def root(self) -> Image:
        for one in self._images.values():
            if one.kind is Kind.ROOT:
                return Image(one.number, one.kind, one.owner, one.lane, one.head, b"")
        raise StoreError("no ROOT image is staged")

    def by_key(self) -> Iterator[list[Image]]:
        assert self.is_complete
        heads = [
            Image(one.number, one.kind, one.owner, one.lane, one.head, b"")
            for one in self._images.values()
            if one.kind is not Kind.ROOT
        ]
        for _, images in groupby(sorted(heads, key=attrgetter("owner")), attrgetter("owner")):
            yield list(images)

    def of_key(self, owner: int) -> list[Image]:
        return next(images for images in self.by_key() if images[0].owner == owner)

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        if numbers[0] not in self._images:
            raise StoreError(f"image {numbers[0]} is not in the staging")
        return {number: self._images[number].body for number in numbers if number in self._images}

    def load(self, number: int) -> bytes:
        if number not in self._images:
            raise ImageError(f"image {number} is not in the staging")
        return self._images[number].body

    def _forget(self) -> None:
        self._cut, self.is_complete = None, False
        self._images = {}


def is_staged(staging: StagedState, merged: Merged) -> bool:
    """True if the state that a record of the log names is here."""
    cut = staging.complete
    return cut is not None and (cut.id, cut.key) == (merged.cut_id, merged.key)


def staged_state(staging: StagedState, merged: Merged) -> SentState:
    """The state that a record of the log names; its keys are read one after the other.

    Raises:
        ContentError: an image says what cannot be.
        StoreError: it is not what is staged here, or an image is damaged.
    """
    if not is_staged(staging, merged):
        raise StoreError(
            f"the log says that a state of region {merged.source} was merged that is not in the "
            "staging. Start this region again from a backup of its folder, all files of it, or "
            "with an empty folder; the other regions have its effects"
        )

    def again(owner: int) -> SentKey:
        return sent_key(staging.of_key(owner), merged.source)

    root = staging.root()
    return SentState(
        _sent_keys(staging, merged.source), again, sent_members(root), sent_histories(root)
    )


def _sent_keys(staging: StagedState, source: RegionId) -> Iterator[SentKey]:
    some: list[SentKey] = []
    count = 0
    for images in staging.by_key():
        some.append(sent_key(images, source))
        count += len(images)
        if count >= IMAGES_AT_ONCE.value:
            yield from some
            some, count = [], 0
    yield from some


# --- Checksums ------------------------------------------------------------------------------------


def image_crc(
    number: int, kind: int, owner: int, lane: int, head: bytes, *, body_bytes: int, of_body: int
) -> int:
    """A checksum over all of an image.

    Args:
        of_body: the checksum of the body, as ``body_crc`` computes it.
    """
    fields = (number, kind, owner, lane, len(head), body_bytes, of_body)
    return zlib.crc32(head, zlib.crc32(_CHECKED_FIELDS % fields))


def make_image(
    number: int, kind: Kind, owner: int, lane: int, head: bytes, body: bytes
) -> StagedImage:
    """An image with its checksum."""
    crc = image_crc(
        *(number, kind, owner, lane, head),
        body_bytes=len(body),
        of_body=body_crc(number, body),
    )
    return StagedImage(number, kind, owner, lane, head, body, crc)


def check_put(images: Sequence[StagedImage], *, after: int) -> None:
    """Assert what ``put`` is promised."""
    for image in images:
        assert image.number > after
        assert image.kind is Kind.NODE or not image.body
        after = image.number


# --- Numbers of macro nodes that are read from the staging ----------------------------------------


def load_staged(staging: StagedState | None, number: int) -> bytes:
    """The body of an image whose number is ``STAGED`` or more.

    Raises:
        ImageError: there is no staging, or it cannot read the image.
    """
    if staging is None:
        raise ImageError(_without_staging(number))
    return staging.load(number - STAGED)


async def fetch_staged(
    staging: Staging | None, numbers: Sequence[int], *, must: bool
) -> dict[int, bytes]:
    """Bodies of images whose numbers are ``STAGED`` or more, by these numbers.

    Args:
        must: a caller waits for the first one; otherwise what cannot be read is left out.

    Raises:
        StoreError: there is no staging, or it cannot read the first one.
    """
    if not numbers:
        return {}
    try:
        if staging is None:
            raise StoreError(_without_staging(numbers[0]))
        found = await staging.fetch([number - STAGED for number in numbers])
    except StoreError:
        if must:
            raise
        return {}
    return {STAGED + number: packed for number, packed in found.items()}


def _without_staging(number: int) -> str:
    return (
        f"image {number - STAGED} is in the staging of a bootstrap, and no staging is open. Keep "
        "the folder as it is for inspection, and start this region again from a backup of the "
        "folder, or with an empty folder under a new region id; the other regions have its effects"
    )
