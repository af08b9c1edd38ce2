"""Images of this region's own checkpoint, whose checksums are right, whatever they say."""

from functools import cache
from random import Random
from typing import Final

import msgspec

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.header import decode_head
from crdtstream.core.lanes.packing import pack, unpack
from crdtstream.replication.appends import wrong_append
from crdtstream.store.errors import ImageError
from tests.fuzz.copies import damaged_body, damaged_head
from tests.fuzz.damage import damaged_bytes, damaged_msgpack, packed, pieces_of, story
from tests.fuzz.histories import HERE, look_at, node_with_something, peer_with_everything
from tests.fuzz.surface import Surface
from tests.harness.regions import Node

# number, kind, owner, lane, head, body
FIELDS: Final = 6


def target(data: bytes) -> object:
    """A story of images: a region starts with them, and is looked at."""
    images = {}
    for piece in pieces_of(data):
        try:
            number, kind, owner, lane, head, body = msgspec.msgpack.decode(
                piece, type=tuple[int, int, int, int, bytes, bytes]
            )
            images[number] = Image(number, Kind(kind), owner, lane, head, body)
        except ValueError:
            continue
    node = Node(HERE)

    def load(number: int) -> bytes:
        if number not in images:
            raise ImageError(f"image {number} is not there")
        return images[number].body

    node.replica.residency.loader = load
    try:
        node.replica.restore(
            image._replace(body=b"") if image.kind is Kind.NODE else image
            for image in images.values()
        )
    except ContentError as error:
        # A node starts with the checkpoint before it, or not at all.
        return str(error)
    if not all(map(_is_whole, images.values())):
        # Reading the macro node finds it, and the node stops.
        return None
    look_at(node)
    return sorted(node.replica.vv.items())


def _is_whole(image: Image) -> bool:
    if image.kind is not Kind.NODE:
        return True
    try:
        header = decode_head(image.head).header
        columns = decode_body(unpack(image.body, size=header.body_bytes), header)
    except (ValueError, OverflowError):
        return False
    # Fields were checked as they came, and leave as they are stored: the checksum keeps them.
    return wrong_append(columns.lengths, bytes(columns.fields)) is None


@cache
def seeds() -> list[bytes]:
    node = node_with_something()
    node.pull(peer_with_everything())
    node.run("XREADGROUP GROUP g e COUNT 3 STREAMS x >", "XCLAIM x g f 0 10-0", "XACK x g 11-0")
    node.cut()
    node.checkpoints.finish(node.replica)
    small = Node(HERE)
    small.run("XADD x 1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >")
    small.cut()
    small.checkpoints.finish(small.replica)
    return [story(*map(_piece, one.checkpoints.images.values())) for one in (small, node)]


def _piece(image: Image) -> bytes:
    body = image.body if image.is_packed else pack(image.body)
    return packed([image.number, image.kind.value, image.owner, image.lane, image.head, body])


def damage(data: bytes, draw: Random) -> bytes:
    pieces = pieces_of(data)
    if not pieces:
        return damaged_bytes(data, draw)
    at = draw.randrange(len(pieces))
    try:
        image = msgspec.msgpack.decode(pieces[at])
    except (ValueError, RecursionError):
        return damaged_bytes(data, draw)
    if not isinstance(image, list) or len(image) != FIELDS or draw.random() < 0.1:
        pieces[at] = damaged_msgpack(pieces[at], draw)
        return story(*pieces)
    head, body = image[4], image[5]
    match image[1]:
        case Kind.NODE.value if isinstance(body, bytes) and draw.random() < 0.3:
            image[5] = damaged_body(body, draw)
        case Kind.NODE.value if isinstance(head, bytes):
            image[4] = damaged_head(head, draw)
        case Kind.PENDING.value if isinstance(head, bytes):
            image[4] = damaged_bytes(head, draw)
        case _ if isinstance(head, bytes):
            image[4] = damaged_msgpack(head, draw)
        case _:
            return damaged_bytes(data, draw)
    pieces[at] = packed(image)
    return story(*pieces)


CHECKPOINTS: Final = Surface(
    "checkpoints",
    target,
    seeds,
    damage,
    "images of the region's own checkpoint, at a start, with the right checksums",
)
