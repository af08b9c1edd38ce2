"""A folder as JSON lines: what it is, its newest checkpoint image by image, then its records.

It reads in short transactions and keeps no more than one read in memory, besides the names of keys
and consumers.  On a folder that is in use it shows the records that were committed when the dump
began, each once and in order.  A checkpoint that is replaced while it is shown ends with a line
that says so.
"""

import contextlib
import sqlite3
from collections.abc import Collection, Iterator
from enum import Enum
from pathlib import Path

from crdtstream.core.wire.codec import BatchError
from crdtstream.store.errors import DAMAGED
from crdtstream.store.layout import StoredCheckpoint
from crdtstream.upkeep.folder_reading import (
    Row,
    UpkeepError,
    connect,
    identity_of,
    last_seq,
    log_file,
    read_meta,
    rows,
)
from crdtstream.upkeep.image_rows import checkpoints, images
from crdtstream.upkeep.shown import Shown, shown_record, undecoded
from crdtstream.upkeep.shown_images import KINDS, ImagesShown


class Part(Enum):
    """Part of a folder that is shown."""

    LOG = "log"
    CHECKPOINT = "checkpoint"


def dump_folder(
    folder: Path,
    *,
    first: int = 1,
    key: bytes | None = None,
    parts: Collection[Part] = tuple(Part),
) -> Iterator[Shown]:
    """A line on the folder, then its checkpoint and its records, and what is damaged among them.

    Args:
        first: the position of the first record.
        key: only effects and changes of this key.

    Raises:
        UpkeepError: it is no folder of a region, or of a version that this program does not read.
    """
    path = log_file(folder)
    with contextlib.closing(connect(path)) as connection:
        try:
            meta = read_meta(connection)
            last = last_seq(connection)
        except DAMAGED as error:
            raise UpkeepError(
                f"{path}: {error}; `crdtstream fsck` shows what is damaged"
            ) from error
        try:
            first = max(first, identity_of(meta).first_seq)
        except UpkeepError as error:
            raise UpkeepError(f"{path}: {error}") from error
        yield {"kind": "folder", "last_seq": last, "meta": dict(sorted(meta.items()))}
        if Part.CHECKPOINT in parts:
            yield from _checkpoint(connection, key)
        if Part.LOG in parts:
            for row in rows(connection, first=first, last=last):
                shown = _shown(row, key)
                if shown is not None:
                    yield shown


def _checkpoint(connection: sqlite3.Connection, key: bytes | None) -> Iterator[Shown]:
    """The newest checkpoint."""
    try:
        newest: StoredCheckpoint | None = None
        for stored, is_sound in checkpoints(connection):
            if stored is None or not is_sound:
                yield {"kind": "damaged", "what": "a checkpoint (checksum)"}
            else:
                newest = stored
        if newest is not None:
            row = newest.row
            yield {
                "kind": "checkpoint",
                "generation": row.generation,
                "seq": row.seq,
                "vv": {str(region): n for region, n in sorted(row.vv.items())},
                "made_ms": row.made_ms,
                "images": newest.sums.images,
                "bytes": newest.sums.bytes,
                "verified": newest.is_verified,
            }
            yield from _images(connection, row.generation, key)
            left = [one.row.generation for one, _ in checkpoints(connection) if one]
            if row.generation not in left:
                yield {"kind": "replaced", "what": "the checkpoint, while it was shown; try again"}
    except DAMAGED as error:
        yield {"kind": "damaged", "what": f"images cannot be read: {error}"}


def _images(connection: sqlite3.Connection, generation: int, key: bytes | None) -> Iterator[Shown]:
    showing = ImagesShown(key)
    for kind in KINDS:
        for found in images(connection, generation, kind=kind):
            if found.damage:
                yield {"kind": "damaged", "image": found.number, "what": found.damage}
                continue
            try:
                yield from showing.show(found.image())
            except ValueError as error:
                yield {"kind": "damaged", "image": found.number, "what": str(error)}


def _shown(row: Row, key: bytes | None) -> Shown | None:
    if row.logged is None:
        shown: Shown = {"kind": "damaged", "seq": row.seq, "what": row.damage}
        if row.missing:
            shown["rows"] = row.missing
        return shown
    try:
        return shown_record(row.logged, key)
    except BatchError as error:
        return undecoded(row.logged, error)
