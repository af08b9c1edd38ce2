"""Checks the checkpoints of a folder.

It checks every checksum, the sums over the images of each checkpoint, and that the entries of each
macro node are as its head says.
"""

import sqlite3
from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.blocks import short_ends, sum_of
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.store.errors import DAMAGED
from crdtstream.store.layout import StoredCheckpoint, Sums
from crdtstream.upkeep.check_report import Progress
from crdtstream.upkeep.image_rows import ImageFound, checkpoints, has_images, images

PROGRESS_IMAGES: Final = 1_000
BODIES_ALONE: Final = (
    "SELECT body.number FROM body LEFT JOIN image USING (number) "
    "WHERE image.number IS NULL ORDER BY body.number"
)
# The lane of a macro node while it is checked.
_NO_LANE: Final = Lane(RegionId(1), NodeLimits())


@dataclass(slots=True)
class CheckpointFound:
    """A checkpoint whose row is sound.

    Attributes:
        wrong: damage of the images that it sees.
        found: the sums of that.
    """

    stored: StoredCheckpoint
    wrong: list[str] = field(default_factory=list)
    found: Sums = field(default_factory=Sums)

    @property
    def is_sound(self) -> bool:
        return not self.wrong and self.found == self.stored.sums


@dataclass(slots=True)
class ImagesFound:
    """Findings about the checkpoints of a folder.

    Attributes:
        by_generation: those whose rows are sound.
        wrong: texts of all damage.
        wrong_nodes: macro nodes that are not what their heads say.
        leftovers: images and bodies of a checkpoint that was never committed.
    """

    by_generation: dict[int, CheckpointFound] = field(default_factory=dict)
    count: int = 0
    nodes: int = 0
    wrong: list[str] = field(default_factory=list)
    wrong_nodes: list[str] = field(default_factory=list)
    leftovers: int = 0

    @property
    def sound(self) -> list[CheckpointFound]:
        """Those from which a state can be read, the newest first."""
        found = [one for one in self.by_generation.values() if one.is_sound]
        return sorted(found, key=lambda one: -one.stored.row.generation)


def find_images(connection: sqlite3.Connection, progress: Progress) -> ImagesFound | None:
    """Look at every checkpoint and every image; None if the folder can have none."""
    found = ImagesFound()
    try:
        if not has_images(connection):
            return None
        last_generation = images_made = damaged = 0
        for stored, is_sound in checkpoints(connection):
            if stored is None or not is_sound:
                damaged += 1
                which = "a checkpoint" if stored is None else f"checkpoint {stored.row.generation}"
                found.wrong.append(f"{which} is damaged (checksum)")
                continue
            last_generation = stored.row.generation
            images_made = stored.row.images_made
            found.by_generation[last_generation] = CheckpointFound(stored)
        (total,) = connection.execute("SELECT count(*) FROM image").fetchone()
        for image in images(connection):
            if image.number > images_made and image.born > last_generation and not damaged:
                found.leftovers += 1
            else:
                _take(image, found)
            if found.count % PROGRESS_IMAGES == 0:
                progress("images", found.count, total)
        for (number,) in connection.execute(BODIES_ALONE):
            if number > images_made and not damaged:
                found.leftovers += 1
            else:
                found.wrong.append(f"the body of image {number} has no image")
        progress("images", total, total)
    except DAMAGED as error:
        for one in found.by_generation.values():
            one.wrong.append(str(error))
        found.wrong.append(f"cannot be read: {error}")
    for generation, one in found.by_generation.items():
        if one.found != one.stored.sums:
            found.wrong.append(f"checkpoint {generation} sees other images than it was made of")
    return found


def _take(image: ImageFound, found: ImagesFound) -> None:
    found.count += 1
    wrong = image.damage
    if wrong:
        found.wrong.append(wrong)
    elif image.row is not None and image.row.kind == Kind.NODE:
        found.nodes += 1
        wrong = wrong_in_node(image)
        if wrong:
            found.wrong_nodes.append(wrong)
    for generation, one in found.by_generation.items():
        if image.is_in(generation):
            if wrong:
                one.wrong.append(wrong)
            if image.row is not None:
                row = image.row
                one.found += Sums(1, row.number, row.crc, row.bytes)


def wrong_in_node(found: ImageFound) -> str:
    """Text that says where a macro node's body differs from its head; empty: nowhere."""
    try:
        image = found.image()
        return _wrong_in_node(image)
    except ValueError as error:
        return f"image {found.number}: {error}"


def _wrong_in_node(image: Image) -> str:
    node = MacroNode.restored(image.number, image.head, _NO_LANE)
    header = node.cold
    assert header is not None
    if len(image.body) != header.body_bytes:
        return f"image {image.number}: its body has {len(image.body)} bytes"
    columns = decode_body(image.body, header)
    node.put_columns(columns)
    has_names = columns.idempotent is not None or columns.numbered is not None
    if has_names and not header.has_idempotent:
        return f"image {image.number}: idempotent ids are not as its head says"
    if short_ends(columns) != (header.first_short_n, header.last_short_n):
        return f"image {image.number}: short entries are not where its head says"
    if sum_of(columns) != header.digest:
        return f"image {image.number}: the digest of its entries is not that of its head"
    return ""
