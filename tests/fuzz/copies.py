"""A state that another region sends: its messages, its images, the merge of them."""

import contextlib
import struct
from collections.abc import Iterable
from functools import cache, partial
from random import Random
from typing import Final

from google.protobuf.message import DecodeError
from msgspec.structs import replace

from crdtstream.core.checkpoint.contents import ContentError, RootContent, packed, unpacked
from crdtstream.core.checkpoint.parts import STAGED, Kind
from crdtstream.core.effects import Merged, Record
from crdtstream.core.histories import HistoryError, check_same
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.lanes.header import HEAD_BYTES, Head, decode_head, encode_head
from crdtstream.core.lanes.packing import pack, unpack
from crdtstream.core.member_changes import MembersError
from crdtstream.core.membership.members import joined
from crdtstream.core.merge.merging import Merging
from crdtstream.core.merge.repairing import Repairing
from crdtstream.core.merge.sent import sent_histories, sent_members
from crdtstream.core.replica import Replica
from crdtstream.region.links.errors import PeerError
from crdtstream.replication.bootstrap_wire import (
    check_nodes,
    decode_begin,
    decode_images,
    encode_begin,
    encode_images,
)
from crdtstream.store.errors import StoreError
from crdtstream.store.staging import (
    CUT_ID_BYTES,
    MemoryStaging,
    Staged,
    StagedCut,
    make_image,
    staged_state,
)
from crdtstream.v1 import bootstrap_pb2 as pb
from tests.fuzz.damage import (
    SMALL,
    damage_message,
    damaged_bytes,
    damaged_msgpack,
    damaging_story,
    pieces_of,
    story,
)
from tests.fuzz.histories import (
    PEER,
    check_replay,
    look_at,
    node_with_something,
    peer_with_everything,
)
from tests.fuzz.served import run
from tests.fuzz.surface import Surface
from tests.harness.checkpoints import encoded, parts_of
from tests.harness.regions import Node

# Errors by which a merge refuses what is staged.
REFUSALS: Final = (ContentError, HistoryError, MembersError, StoreError, UnreadableError)
CUT_ID: Final = bytes(range(CUT_ID_BYTES))


def target(data: bytes) -> object:
    """A story: how much of the peer is known here, then pieces of a copy: begin, images.

    All images are taken as complete.
    """
    known, *rest = pieces_of(data) or [b""]
    pieces = []
    for data_of_piece in rest:
        try:
            pieces.append(pb.CopyPiece.FromString(data_of_piece))
        except DecodeError:
            return None
    node = node_with_something()
    records = records_of_peer()
    for record in records[: sum(known) % (len(records) + 1)]:
        node.take(record)
    run(_copy(node, pieces))
    return sorted(node.replica.vv.items()), node.digest


async def _copy(node: Node, pieces: Iterable[pb.CopyPiece]) -> None:
    staging = MemoryStaging()
    cut: StagedCut | None = None
    try:
        for piece in pieces:
            if piece.WhichOneof("kind") == "begin":
                cut = decode_begin(PEER, piece.begin)
                await staging.begin(cut)
            elif cut is not None:
                staged = staging.staged()
                assert staged is not None
                images = decode_images(PEER, piece.images, after=staged[1])
                check_nodes(PEER, images)
                await staging.put(images)
    except PeerError:
        return
    if cut is not None:
        await _merge(node, staging, cut)


async def _merge(node: Node, staging: MemoryStaging, cut: StagedCut) -> None:
    sums = staging.sums
    complete = StagedCut(cut.id, cut.source, cut.vv, *sums, key=cut.key)
    staging._cut = complete
    await staging.finish()

    def prepare(replica: Replica) -> None:
        replica.staged = partial(staged_state, staging)
        replica.residency.loader = lambda number: staging.load(number - STAGED)

    replica = node.replica
    prepare(replica)
    node.end_tick()
    before = node.digest
    merging = _prepared(node, staging, complete)
    if merging is None:
        assert node.digest == before
        return
    # A node stops at whatever this raises: it is refused before, or not at all.
    replica.merge(merging, Millis(node.now))
    look_at(node)
    check_replay(replica, node.log, prepare=prepare)


def _prepared(node: Node, staging: MemoryStaging, cut: StagedCut) -> Merging | Repairing | None:
    """All that comes before the state changes, as in a node; None: it is refused."""
    replica = node.replica
    merged = Merged(cut.id, cut.source, cut.vv, cut.key)
    try:
        check_same(replica.histories, sent_histories(staging.root()))
        joined(replica.members, sent_members(staging.root()))
        if cut.key is not None:
            repairing = replica.repairing(merged)
            while repairing.look(lambda: True):
                pass
            return repairing if repairing.damage else None
        merging = replica.merging(merged)
        try:
            while merging.go_on():
                pass
        except REFUSALS:
            merging.give_up()
            raise
    except REFUSALS:
        return None
    return merging


# --- Seeds ----------------------------------------------------------------------------------------


@cache
def seeds() -> list[bytes]:
    peer, small = peer_with_everything(), Node(PEER)
    small.run("XADD x 10 f v", "XADD x 11 f v", "XADD new 1 f v")
    whole, of_x = _copy_of(peer), _copy_of(peer, b"x")
    bare = [_without_histories(piece) for piece in whole]
    half = bytes([len(records_of_peer()) // 2])
    return [
        story(known, *pieces)
        for known, pieces in (
            (b"", _copy_of(small)),
            (b"", whole),
            (half, whole),
            (half, bare),
            (bytes([len(records_of_peer())]), of_x),
        )
    ]


@cache
def records_of_peer() -> list[Record]:
    return [record for record in peer_with_everything().log if record.batch is not None]


def _without_histories(data: bytes) -> bytes:
    """A piece as a region sends it that has no points of its history."""
    piece = pb.CopyPiece.FromString(data)
    for image in piece.images.images:
        if image.kind == Kind.ROOT:
            image.head = packed(replace(unpacked(image.head, RootContent), histories={}))
            _sign(image)
    return piece.SerializeToString()


def _copy_of(node: Node, key: bytes | None = None) -> list[bytes]:
    """A copy of a region's state, or of one key of it, with an image in each piece."""
    replica = node.replica
    owners = {0, *(part.number for part in replica._state.parts if key in (None, part.key))}
    images = []
    for number, part in enumerate(parts_of(replica), 1):
        kind, owner, lane, head, body, _ = part.kind, *encoded(part)
        if kind is not Kind.PENDING and owner in owners:
            images.append(make_image(number, kind, owner, lane, head, pack(body)))
    sums = Staged(len(images), sum(one.number for one in images), sum(one.bytes for one in images))
    cut = StagedCut(CUT_ID, PEER, dict(replica.vv), *sums, key=key)
    pieces = [encode_begin(cut, resumed=False), *(encode_images([image]) for image in images)]
    return [piece.SerializeToString() for piece in pieces]


# --- Damage ---------------------------------------------------------------------------------------


def _damaged_piece(data: bytes, draw: Random) -> bytes:
    try:
        piece = pb.CopyPiece.FromString(data)
    except DecodeError:
        return damaged_bytes(data, draw)
    if piece.WhichOneof("kind") != "images" or not piece.images.images or draw.random() < 0.1:
        damage_message(piece, draw)
        return piece.SerializeToString()
    image = draw.choice(list(piece.images.images))
    match draw.randrange(8):
        case 0 | 1 if image.kind == Kind.NODE:
            image.body = damaged_body(image.body, draw)
        case _ if image.kind == Kind.NODE:
            image.head = damaged_head(image.head, draw)
        case 7:
            damage_message(image, draw)
        case _:
            image.head = damaged_msgpack(image.head, draw)
    _sign(image)
    return piece.SerializeToString()


def damaged_head(data: bytes, draw: Random) -> bytes:
    """A macro node's head with another number in one of its fields."""
    if len(data) != HEAD_BYTES:
        return damaged_bytes(data, draw)
    try:
        head = decode_head(data)
    except ValueError:
        return damaged_bytes(data, draw)
    header = head.header
    match draw.randrange(5):
        case 0:
            shift = draw.choice((-1, 1, 2, 1 << 64, -(1 << 64), 1 << 70))
            ids = {"first_id": header.first_id + shift, "last_id": header.last_id + shift}
        case 1:
            shift = draw.choice((-3, -1, 1, 3, 100, 1 << 62))
            ids = {"first_n": header.first_n + shift, "last_n": header.last_n + shift}
        case 2:
            ids = {"fields_bytes": draw.choice(SMALL), "digest": draw.getrandbits(128)}
        case _:
            return damaged_bytes(data, draw)
    try:
        changed = header._replace(**ids)  # type: ignore[arg-type]
        key = changed.first_id.to_bytes(16, "big")
        return encode_head(Head(key, head.added, head.highest_removed_id, changed))
    except (OverflowError, struct.error):
        return damaged_bytes(data, draw)


def damaged_body(data: bytes, draw: Random) -> bytes:
    try:
        return pack(damaged_bytes(unpack(data), draw))
    except ValueError:
        return damaged_bytes(data, draw)


def _sign(image: pb.CopyImage) -> None:
    """Make the checksum right, if the image has a kind and a place at all."""
    with contextlib.suppress(ValueError):
        kind = Kind(image.kind)
        made = make_image(image.number, kind, image.owner, image.lane, image.head, image.body)
        image.crc = made.crc


COPIES: Final = Surface(
    "copies",
    target,
    seeds,
    damaging_story(_damaged_piece),
    "the state that another region sends: images of a checkpoint, and their merge",
)
