"""The checkpoints of a folder and their images, read without its node, whatever is damaged.

As for rows (``folder_reading.py``), each read is a short transaction of its own.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.lanes.packing import unpack
from crdtstream.store.checksums import is_sound_body
from crdtstream.store.layout import (
    CHECKPOINT_COLUMNS,
    IMAGE_COLUMNS,
    SEEN,
    ImageRow,
    StoredCheckpoint,
    named,
    read_checkpoint,
    read_image_row,
)

# Images that one read takes at most; a macro node's body has some 64 KiB of fields.
IMAGES_PER_READ: Final = 64
HEADS_PER_READ: Final = 4_096


@dataclass(frozen=True, slots=True)
class ImageFound:
    """An image as it was found.

    Attributes:
        row: without what is in the table of bodies; None if its columns are of no image.
        packed: the packed body; None if there is none, or if it was not asked for.
        damage: text of its damage; empty if there is none.
        born: the generation that put it, as it says.
        died: the first one that does not see it.
    """

    number: int
    row: ImageRow | None
    packed: bytes | None
    damage: str
    born: int
    died: int | None

    def is_in(self, generation: int) -> bool:
        return self.born <= generation and (self.died is None or self.died > generation)

    def image(self) -> Image:
        """The image in the row, with the body if that was read.

        Raises:
            ValueError: the body is none, or the kind.
        """
        row = self.row
        assert row is not None
        packed = self.packed if row.body is None else row.body
        body = unpack(packed, size=row.size) if packed else b""
        return Image(row.number, Kind(row.kind), row.owner, row.lane, row.head, body)


def has_images(connection: sqlite3.Connection) -> bool:
    """True if the table exists; a damaged folder may have lost it."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'image'"
    return connection.execute(query).fetchone() is not None


def checkpoints(connection: sqlite3.Connection) -> Iterator[tuple[StoredCheckpoint | None, bool]]:
    """Each checkpoint, None if its columns are of none, and whether its checksum is right."""
    if not has_images(connection):
        return
    query = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoint ORDER BY generation"
    for columns in connection.execute(query).fetchall():
        yield read_checkpoint([_decoded(one) for one in columns])


def images(
    connection: sqlite3.Connection,
    generation: int | None = None,
    *,
    kind: Kind | None = None,
    above: int = 0,
    with_bodies: bool = True,
) -> Iterator[ImageFound]:
    """The images that a checkpoint sees, or all of the folder, by number.

    Args:
        kind: only those.
        above: only those with a higher number.
        with_bodies: read the bodies of NODE, too; otherwise they are not looked at.

    Raises:
        DAMAGED: no more can be read.
    """
    packed = "body.number, body.packed, body.crc" if with_bodies else "0, NULL, 0"
    join = "LEFT JOIN body USING (number)" if with_bodies else ""
    where, values = "image.number > ?", [above]
    if generation is not None:
        where += f" AND {SEEN}"
        values += [generation, generation]
    if kind is not None:
        where += " AND kind = ?"
        values.append(kind.value)
    query = (
        f"SELECT {named('image', IMAGE_COLUMNS)}, image.died, {packed} FROM image {join} "
        f"WHERE {where} ORDER BY image.number LIMIT ?"
    )
    limit = IMAGES_PER_READ if with_bodies else HEADS_PER_READ
    while found := connection.execute(query, (*values, limit)).fetchall():
        for columns in found:
            yield _found(columns, with_body=with_bodies)
        last = found[-1][0]
        if last <= values[0]:
            # Else the same rows would be read for ever.
            raise sqlite3.DatabaseError("the rows of table image are out of order")
        values[0] = last


def _found(columns: tuple[Any, ...], *, with_body: bool) -> ImageFound:
    *of_image, died, body_number, packed, body_crc = columns
    row, is_sound = read_image_row(of_image)
    number, born = of_image[0], of_image[-2]
    born = born if isinstance(born, int) else 0
    died = died if isinstance(died, int) else None
    damage = ""
    if row is None or not is_sound:
        damage = f"image {number} is damaged (checksum)"
    elif with_body and row.body is None:
        if body_number is None:
            damage = f"the body of image {number} is missing"
        elif not is_sound_body(number, packed, body_crc) or body_crc != row.body_crc:
            damage = f"the body of image {number} is damaged (checksum)"
    has_bytes = isinstance(packed, bytes)
    return ImageFound(number, row, packed if has_bytes else None, damage, born, died)


def _decoded(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
