"""Reading a checkpoint's images as they are sent to another region, in a thread.

Each function is one short transaction: nobody who writes waits for it, and the write-ahead log can
be moved in between.
"""

import sqlite3
from contextlib import closing
from typing import Any, Final, NamedTuple

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.size import Size
from crdtstream.store.checksums import is_sound_body
from crdtstream.store.layout import IMAGE_COLUMNS, SEEN, SUMS, Sums, named, read_image_row
from crdtstream.store.staging import NOT_SENT, Staged, StagedImage, image_crc

# Images of one read, and of one that only sums them up.
IMAGES_PER_READ: Final = Size(256, least=1)
SUMMED_PER_READ: Final = Size(16_384, least=1)

_NEXT: Final = (
    f"SELECT {named('image', IMAGE_COLUMNS)}, body.packed, body.crc "
    f"FROM image LEFT JOIN body USING (number) WHERE image.number > ? AND {SEEN} "
    f"AND kind != {NOT_SENT.value} ORDER BY image.number LIMIT ?"
)
# All of them beside those that are not sent.
_SLICE: Final = (
    f"SELECT max(number), {SUMS}, coalesce(sum(kind != {NOT_SENT.value}), 0), "
    f"coalesce(sum(number) FILTER (WHERE kind != {NOT_SENT.value}), 0), "
    "coalesce(sum(length(head) + body_bytes) "
    f"FILTER (WHERE kind != {NOT_SENT.value}), 0) "
    "FROM (SELECT number, kind, crc, head, body_bytes FROM image "
    f"WHERE number > ? AND {SEEN} ORDER BY number LIMIT ?)"
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


def next_images(
    connection: sqlite3.Connection, generation: int, after: int, bytes_max: int
) -> list[StagedImage]:
    """The images of a checkpoint with the next numbers, each checked.

    Raises:
        ValueError: one is damaged; the text has its number.
        DAMAGED: they cannot be read.
    """
    found: list[StagedImage] = []
    size = 0
    values = (after, generation, generation, IMAGES_PER_READ.value)
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


def sums_of_slice(connection: sqlite3.Connection, generation: int, after: int) -> Slice | None:
    """The sums of the images with the next numbers; None: no more.

    Raises:
        DAMAGED: they cannot be read.
    """
    values = (after, generation, generation, SUMMED_PER_READ.value)
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
