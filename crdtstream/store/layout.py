"""Layout of ``log.sqlite``: its tables, and the checksum of each row.

    meta        key, value                       settings; the row CHECKSUM_KEY sums up all others
    log         seq, origin, first_n, last_n, batch, local, crc    (``rows.py``)
    image       number, kind, owner, lane, head, body, size, body_bytes, body_crc, born, crc, died
    body        number, packed, crc              of images of NODE, so that heads lie side by side
    checkpoint  generation, seq, vv, images_made, made_ms, first_number,
                images, numbers, crcs, bytes, crc, verified

Each row carries a CRC-32 over all its columns except ``died`` and ``verified``, which change later.
A checksum in a row cannot show that rows are missing, too many or in another row's place.  Counts
and sums elsewhere show that: meta says where the log begins, positions are without gaps, and a
checkpoint sums up its images.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.clock import VersionVector, format_vv
from crdtstream.core.frames import FrameError, FramePacker, claimed_size, unpack_frame
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.packing import LEVEL
from crdtstream.store.checkpoints import Checkpoint, CheckpointRow
from crdtstream.store.checksums import body_crc

# Statements that make the tables, by name.  SQLite keeps their text as it stands here, and opening
# compares it: it must not be reformatted.
TABLES: Final = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "log": """CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    origin INTEGER NOT NULL,
    first_n INTEGER NOT NULL,
    last_n INTEGER NOT NULL,
    batch BLOB,
    local BLOB,
    crc INTEGER NOT NULL
)""",
    "log_by_dot": "CREATE INDEX log_by_dot ON log (origin, last_n) WHERE batch IS NOT NULL",
    "image": """CREATE TABLE image (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    head BLOB NOT NULL,
    body BLOB,
    size INTEGER NOT NULL,
    body_bytes INTEGER NOT NULL,
    body_crc INTEGER NOT NULL,
    born INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    died INTEGER
)""",
    "image_dead": "CREATE INDEX image_dead ON image (died) WHERE died IS NOT NULL",
    "body": """CREATE TABLE body (
    number INTEGER PRIMARY KEY,
    packed BLOB NOT NULL,
    crc INTEGER NOT NULL
)""",
    "checkpoint": """CREATE TABLE checkpoint (
    generation INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    vv TEXT NOT NULL,
    images_made INTEGER NOT NULL,
    made_ms INTEGER NOT NULL,
    first_number INTEGER NOT NULL,
    images INTEGER NOT NULL,
    numbers INTEGER NOT NULL,
    crcs INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    verified INTEGER NOT NULL
)""",
}

IMAGE_COLUMNS: Final = (
    "number, kind, owner, lane, head, body, size, body_bytes, body_crc, born, crc"
)
CHECKPOINT_COLUMNS: Final = (
    "generation, seq, vv, images_made, made_ms, first_number, images, numbers, crcs, bytes, crc, "
    "verified"
)

CHECKSUM_KEY: Final = "checksum"
# Since when members are away, so that a restart does not prolong it: milliseconds of each.
ABSENCES_KEY: Final = "absences"

# The beginning of an image's checksummed bytes: its columns, with the length of its head, except
# body and checksum.
CHECKED_FIELDS: Final = b"%d,%d,%d,%d,%d,%d,%d,%d,%d,"

# By number; an index is quicker than a call of the class.
KINDS: Final = tuple(Kind)

# The images that a generation sees; it takes the generation twice.
SEEN: Final = "born <= ? AND (died IS NULL OR died > ?)"


def named(table: str, columns: str) -> str:
    """The columns with their table's name, for a query over two."""
    return ", ".join(f"{table}.{column.strip()}" for column in columns.split(","))


# --- Settings -------------------------------------------------------------------------------------


def meta_checksum(meta: Mapping[str, str]) -> str:
    """The value of ``CHECKSUM_KEY``, over all other settings."""
    crc = 0
    for key, value in sorted(meta.items()):
        if key != CHECKSUM_KEY:
            text = key.encode(), value.encode()
            crc = zlib.crc32(b"%d,%d,%b%b" % (len(text[0]), len(text[1]), *text), crc)
    return str(crc)


# --- Images ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImageRow:
    """A row of the table ``image``.

    Attributes:
        body: packed; None of a NODE, and empty where the image has none.
        size: of the body before it was packed.
        body_bytes: of the packed body.
    """

    number: int
    kind: int
    owner: int
    lane: int
    head: bytes
    body: bytes | None
    size: int
    body_bytes: int
    body_crc: int
    born: int

    @property
    def crc(self) -> int:
        fields = (
            *(self.number, self.kind, self.owner, self.lane, len(self.head)),
            *(self.size, self.body_bytes, self.body_crc, self.born),
        )
        return zlib.crc32(self.head, zlib.crc32(CHECKED_FIELDS % fields))

    @property
    def bytes(self) -> int:
        return len(self.head) + self.body_bytes

    def is_body_sound(self) -> bool:
        """True if the body in the row is as it was written, or the row rightly has none."""
        if self.body is None:
            return self.kind == Kind.NODE
        return body_crc(self.number, self.body) == self.body_crc


def read_heads(rows: Sequence[Sequence[Any]]) -> tuple[list[Image], int, int]:
    """Images of rows of ``IMAGE_COLUMNS``, the sum of their checksums, and that of their bytes.

    As ``read_image_row`` checks each of them; a start does it with all images,
    so it makes no object but the image.

    Raises:
        ValueError: one is damaged; the text names it.
    """
    images: list[Image] = []
    crcs = total = 0
    crc32 = zlib.crc32
    for number, kind, owner, lane, head, body, size, body_bytes, of_body, born, crc in rows:
        try:
            is_sound = (
                crc32(
                    head,
                    crc32(
                        CHECKED_FIELDS
                        % (number, kind, owner, lane, len(head), size, body_bytes, of_body, born)
                    ),
                )
                == crc
            )
            if body is None:
                is_sound = is_sound and kind == Kind.NODE
            else:
                is_sound = is_sound and crc32(body, crc32(b"%d," % number)) == of_body
                body = _unpacked(body, size) if body else b""
            images.append(Image(number, KINDS[kind], owner, lane, head, body or b""))
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"image {number}") from error
        if not is_sound:
            raise ValueError(f"image {number}")
        crcs += crc
        total += len(head) + body_bytes
    return images, crcs, total


def _unpacked(frame: bytes, size: int) -> bytes:
    """
    Raises:
        ValueError: it is no frame of that size.
    """
    if claimed_size(frame) != size:
        raise FrameError("a frame of another size")
    return unpack_frame(frame, bytes_max=size)


class PutRows(NamedTuple):
    """Images as they are written, for one statement each.

    Attributes:
        images: values of ``IMAGE_COLUMNS``, row after row.
        bodies: of the table ``body``, as well.
        sums: of all of them.
    """

    images: list[object]
    bodies: list[object]
    sums: "Sums"


def put_rows(images: Sequence[Image], frames: Sequence[bytes], born: int) -> PutRows:
    """The rows of images with their packed bodies.  For any thread.

    There may be very many images, and each is small then: so it makes no object for a row.

    Raises:
        ValueError: a body that is said to be packed is no frame.
    """
    columns: list[object] = []
    bodies: list[object] = []
    numbers = crcs = total = 0
    crc32 = zlib.crc32
    for (number, kind, owner, lane, head, body, is_packed), frame in zip(
        images, frames, strict=True
    ):
        kind_number = kind.value
        of_body = crc32(frame, crc32(b"%d," % number))
        size = claimed_size(body) if is_packed and body else len(body)
        frame_bytes = len(frame)
        fields = (number, kind_number, owner, lane, len(head), size, frame_bytes, of_body, born)
        crc = crc32(head, crc32(CHECKED_FIELDS % fields))
        if kind is Kind.NODE:
            bodies += (number, frame, of_body)
            in_row = None
        else:
            in_row = frame
        columns += (number, kind_number, owner, lane, head, in_row)
        columns += (size, frame_bytes, of_body, born, crc)
        numbers += number
        crcs += crc
        total += len(head) + frame_bytes
    return PutRows(columns, bodies, Sums(len(images), numbers, crcs, total))


def first_damaged(rows: Sequence[Sequence[Any]]) -> object:
    """The number of the first image that is not sound; None if all are.  For any thread.

    Args:
        rows: of ``IMAGE_COLUMNS``, then of the table ``body`` number, packed body and checksum.
    """
    crc32 = zlib.crc32
    for row in rows:
        number, kind, owner, lane, head, body, size, body_bytes, of_body, born, crc, *kept = row
        try:
            fields = (number, kind, owner, lane, len(head), size, body_bytes, of_body, born)
            is_sound = crc32(head, crc32(CHECKED_FIELDS % fields)) == crc
            if body is None:
                body_number, body, crc_kept = kept
                is_sound = is_sound and kind == Kind.NODE and body_number == number
                is_sound = is_sound and crc_kept == of_body
            if not is_sound or crc32(body, crc32(b"%d," % number)) != of_body:
                return number
        except TypeError:
            return number
    return None


def read_image_row(columns: Sequence[object]) -> tuple[ImageRow | None, bool]:
    """A row of ``IMAGE_COLUMNS``, None if they are of none, and whether its checksums are right."""
    match columns:
        case [
            int(number),
            int(kind),
            int(owner),
            int(lane),
            bytes(head),
            (bytes() | None) as body,
            int(size),
            int(body_bytes),
            int(of_body),
            int(born),
            int(crc),
        ]:
            row = ImageRow(number, kind, owner, lane, head, body, size, body_bytes, of_body, born)
            return row, row.crc == crc and row.is_body_sound()
    return None, False


def pack_bodies(images: Sequence[Image]) -> list[bytes]:
    """Their packed bodies; of an empty one, nothing.  For any thread.

    One that is packed already stays as it is.
    """
    # As ``packing.pack`` does it, whose packer is the event loop's.
    packer = FramePacker(level=LEVEL, has_checksum=True)
    return [
        packer.pack(image.body) if image.body and not image.is_packed else image.body
        for image in images
    ]


# --- Checkpoints ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of images, by which other images are noticed; images can be added and taken away."""

    images: int = 0
    numbers: int = 0
    crcs: int = 0
    bytes: int = 0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.images + other.images,
            self.numbers + other.numbers,
            self.crcs + other.crcs,
            self.bytes + other.bytes,
        )

    def __sub__(self, other: "Sums") -> "Sums":
        return Sums(
            self.images - other.images,
            self.numbers - other.numbers,
            self.crcs - other.crcs,
            self.bytes - other.bytes,
        )


# Of rows of ``image``; no sum is NULL, also of no row.
SUMS: Final = (
    "count(*), coalesce(sum(number), 0), coalesce(sum(crc), 0), "
    "coalesce(sum(length(head) + body_bytes), 0)"
)


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A row of the table ``checkpoint``.

    Attributes:
        first_number: of the images that it put itself, they and no others are from this number to
            ``row.images_made``.
        sums: of all images that it sees.
    """

    row: CheckpointRow
    first_number: int
    sums: Sums
    is_verified: bool = False

    @property
    def crc(self) -> int:
        return zlib.crc32(repr(self._checked()).encode())

    def _checked(self) -> tuple[object, ...]:
        row, sums = self.row, self.sums
        return (
            *(row.generation, row.seq, format_vv(row.vv), row.images_made, row.made_ms),
            *(self.first_number, sums.images, sums.numbers, sums.crcs, sums.bytes),
        )

    def columns(self) -> tuple[object, ...]:
        return (*self._checked(), self.crc, int(self.is_verified))

    def verified(self) -> "StoredCheckpoint":
        return replace(self, is_verified=True)

    def told(self) -> Checkpoint:
        return Checkpoint(self.row, self.sums.images, self.sums.bytes, is_verified=self.is_verified)


def read_checkpoint(columns: Sequence[object]) -> tuple[StoredCheckpoint | None, bool]:
    """A row of ``CHECKPOINT_COLUMNS``, None if they are of none, and whether it is sound."""
    match columns:
        case [
            int(generation),
            int(seq),
            str(vv),
            int(images_made),
            int(made_ms),
            int(first_number),
            int(images),
            int(numbers),
            int(crcs),
            int(size),
            int(crc),
            int(verified),
        ]:
            try:
                row = CheckpointRow(generation, seq, parse_vv(vv), images_made, made_ms)
            except ValueError:
                return None, False
            sums = Sums(images, numbers, crcs, size)
            stored = StoredCheckpoint(row, first_number, sums, is_verified=verified == 1)
            return stored, stored.crc == crc
    return None, False


def parse_vv(text: str) -> VersionVector:
    """Read a version vector that ``format_vv`` has written.

    Raises:
        ValueError: it is no version vector.
    """
    vv = {}
    for part in text.split(",") if text else ():
        region, n = part.split(":")
        vv[RegionId(int(region))] = int(n)
    if format_vv(vv) != text:
        raise ValueError(f"{text!r} is no version vector")
    return vv
