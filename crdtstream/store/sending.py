"""Reading a checkpoint's images as they are sent to another region, in a thread.

Each function is one short transaction: no writer waits for it, and the write-ahead log can be moved
in between.

An owner says which images are sent: those of one key, by its number, and those of the region as a
whole; ALL_OWNERS: those of all keys.  Images have no index of their owners.  So sending one key
reads the heads of all images, as sending all does.
"""

import sqlite3
from contextlib import closing
from typing import Any, Final, NamedTuple

from crdtstream.core.checkpoint.contents import ContentError, KeyContent, unpacked
from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.size import Size
from crdtstream.store.checksums import is_sound_body
from crdtstream.store.layout import IMAGE_COLUMNS, SEEN, SUMS, Sums, named, read_image_row
from crdtstream.store.staging import ALL_OWNERS, NOT_SENT, Staged, StagedImage, image_crc

# Images of one read, and of one that only sums them up.
IMAGES_PER_READ: Final = Size(256, least=1)
SUMMED_PER_READ: Final = Size(16_384, least=1)

# Takes the owner twice.
_SENT: Final = f"kind != {NOT_SENT.value} AND (? = {ALL_OWNERS} OR owner IN (0, ?))"
_NEXT: Final = (
    f"SELECT {named('image', IMAGE_COLUMNS)}, body.packed, body.crc "
    f"FROM image LEFT JOIN body USING (number) WHERE image.number > ? AND {SEEN} "
    f"AND {_SENT} ORDER BY image.number LIMIT ?"
)
# All of them beside those that are not sent.
_SLICE: Final = (
    f"SELECT max(number), {SUMS}, coalesce(sum(is_sent), 0), "
    "coalesce(sum(number) FILTER (WHERE is_sent), 0), "
    "coalesce(sum(length(head) + body_bytes) FILTER (WHERE is_sent), 0) "
    f"FROM (SELECT number, kind, crc, head, body_bytes, {_SENT} AS is_sent FROM image "
    f"WHERE number > ? AND {SEEN} ORDER BY number LIMIT ?)"
)
_KEYS: Final = (
    f"SELECT {IMAGE_COLUMNS} FROM image WHERE number > ? AND {SEEN} AND kind = {Kind.KEY.value} "
    "ORDER BY number LIMIT ?"
)


class Slice(NamedTuple):
    """Some images of a checkpoint, summed up.

    Attributes:
        sums: of all.
        sent: of those that are sent.
        last: the number of the last one.
    """

    sums: Sums
    sent: Staged
    last: int


def owner_in_slice(
    connection: sqlite3.Connection, generation: int, after: int, key: bytes
) -> tuple[int, int] | None:
    """The number of a key if it is among the next ones of a checkpoint, else 0, and the number of
    the last image looked at; None: no more.

    Raises:
        ValueError: one is damaged; the text has its number.
        DAMAGED: they cannot be read.
    """
    values = (after, generation, generation, IMAGES_PER_READ.value)
    last = 0
    for columns in connection.execute(_KEYS, values).fetchall():
        row, is_sound = read_image_row(columns)
        if row is None or not is_sound:
            raise ValueError(f"image {columns[0]} is damaged (checksum)")
        try:
            content = unpacked(row.head, KeyContent)
        except ContentError as error:
            raise ValueError(f"image {row.number}: {error}") from error
        last = row.number
        if content.key == key:
            return content.number, last
    return (0, last) if last else None


def next_images(
    connection: sqlite3.Connection, generation: int, after: int, bytes_max: int, owner: int
) -> list[StagedImage]:
    """The images of a checkpoint with the next numbers, each checked.

    Raises:
        ValueError: one is damaged; the text has its number.
        DAMAGED: they cannot be read.
    """
    found: list[StagedImage] = []
    size = 0
    values = (after, generation, generation, owner, owner, IMAGES_PER_READ.value)
    # The transaction ends with the cursor.
    with closing(connection.execute(_NEXT, values)) as rows:
        while size < bytes_max and (row := rows.fetchone()) is not None:
            image = _as_sent(row)
            if image.number <= after:
                raise ValueError("images are out of order")
            after = image.number
            found.append(image)
            size += image.bytes
    return found


def sums_of_slice(
    connection: sqlite3.Connection, generation: int, after: int, owner: int
) -> Slice | None:
    """The sums of the images with the next numbers; None: no more.

    Raises:
        DAMAGED: they cannot be read.
    """
    values = (owner, owner, after, generation, generation, SUMMED_PER_READ.value)
    ((last, *sums),) = connection.execute(_SLICE, values).fetchall()
    return None if last is None else Slice(Sums(*sums[:4]), Staged(*sums[4:]), last)


def _as_sent(columns: tuple[Any, ...]) -> StagedImage:
    *of_image, packed, crc = columns
    row, is_sound = read_image_row(of_image)
    if row is None or not is_sound:
        raise ValueError(f"image {of_image[0]} is damaged (checksum)")
    if row.kind == Kind.NODE:
        if crc != row.body_crc or not is_sound_body(row.number, packed, crc):
            raise ValueError(f"the body of image {row.number} is damaged (checksum), or missing")
        body: bytes = packed
    elif row.body:
        raise ValueError(f"image {row.number} of kind {row.kind} has a body")
    else:
        body = b""
    return StagedImage(
        number=row.number,
        kind=Kind(row.kind),
        owner=row.owner,
        lane=row.lane,
        head=row.head,
        body=body,
        crc=image_crc(
            *(row.number, row.kind, row.owner, row.lane, row.head),
            body_bytes=len(body),
            of_body=row.body_crc,
        ),
    )
