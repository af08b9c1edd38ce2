"""Messages of a bootstrap: encoding, decoding, checking.

Messages from outside are checked here.  An image that passes has a number, a kind and a place that
a checkpoint can have, and is as its sender had it.  Only an image of a macro node has a body: a
frame that names its content's size.
"""

from dataclasses import dataclass
from typing import Final

from crdtstream.core.checkpoint.parts import STAGED, Kind
from crdtstream.core.clock import VersionVector
from crdtstream.core.frames import FrameError, claimed_size
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.header import decode_head
from crdtstream.core.lanes.packing import BODY_BYTES_MAX, unpack
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.core.wire.codec import encode_vv
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.replication.appends import wrong_append
from crdtstream.replication.wire import checked_region, checked_vv
from crdtstream.store.staging import CUT_ID_BYTES, NOT_SENT, StagedCut, StagedImage
from crdtstream.v1 import bootstrap_pb2 as pb

# The greatest number that can be stored.
_I64_MAX: Final = (1 << 63) - 1
_KINDS: Final = {kind.value: kind for kind in Kind if kind is not NOT_SENT}


@dataclass(frozen=True, slots=True)
class Resume:
    """Place where a broken copy goes on: behind an image of a cut."""

    cut_id: bytes
    after: int


@dataclass(frozen=True, slots=True)
class CopyAsked:
    """Request of a region for the state, and what the region has.

    Attributes:
        uid: of the database; empty while the region does not know it.
        run_id: differs from one start of its node to the next.
        vv: effects that it has of every origin.
        resume: None: it has none of the images.
        bytes_per_s: greatest speed; 0: no bound.
        key: only this one is wanted, as of ``vv`` or later; None: all keys, with anything beyond
            ``vv``.
    """

    region: RegionId
    database_id: str
    uid: DatabaseUid
    run_id: int
    vv: VersionVector
    resume: Resume | None = None
    bytes_per_s: int = 0
    protocol: int = PROTOCOL_VERSION
    key: bytes | None = None


def encode_asked(asked: CopyAsked) -> pb.CopyRequest:
    resume = asked.resume
    return pb.CopyRequest(
        protocol=asked.protocol,
        region=asked.region,
        database_id=asked.database_id,
        database_uid=asked.uid,
        run_id=asked.run_id,
        vv=encode_vv(asked.vv),
        resume=(
            None
            if resume is None
            else pb.CopyResume(cut_id=resume.cut_id, after_number=resume.after)
        ),
        bytes_per_s=asked.bytes_per_s,
        key=asked.key,
    )


def decode_asked(message: pb.CopyRequest) -> CopyAsked:
    """The inverse.  Of another protocol version the rest is not read, as of ``Open``.

    Raises:
        PeerError: a region number, version vector, identity or cut that cannot be.
    """
    region = RegionId(message.region)
    is_ours = message.protocol == PROTOCOL_VERSION
    uid = DatabaseUid(message.database_uid)
    if uid and len(uid) != UID_BYTES:
        raise PeerError(region, f"database_uid: {len(uid)} bytes instead of {UID_BYTES}")
    resume = None
    if is_ours and message.HasField("resume"):
        resume = Resume(_checked_id(region, message.resume.cut_id), message.resume.after_number)
        if resume.after > _I64_MAX:
            raise PeerError(region, f"resume.after_number: {resume.after} is no image's number")
    return CopyAsked(
        region=region,
        database_id=message.database_id,
        uid=uid,
        run_id=message.run_id,
        vv=checked_vv(region, message.vv) if is_ours else {},
        resume=resume,
        bytes_per_s=message.bytes_per_s,
        protocol=message.protocol,
        key=message.key if message.HasField("key") else None,
    )


def encode_begin(cut: StagedCut, *, resumed: bool, incarnations: bytes = b"") -> pb.CopyPiece:
    return pb.CopyPiece(
        begin=pb.CopyBegin(
            cut_id=cut.id,
            source=cut.source,
            vv=encode_vv(cut.vv),
            images=cut.images,
            numbers=cut.numbers,
            bytes=cut.bytes,
            resumed=resumed,
            key=cut.key,
            incarnations=incarnations,
        )
    )


def decode_begin(region: RegionId, message: pb.CopyBegin) -> StagedCut:
    """The cut that comes.

    Raises:
        PeerError: its values are impossible.
    """
    source = checked_region(region, message.source)
    if source != region:
        raise PeerError(region, f"begin.source: it sends the state of region {source}")
    if max(message.images, message.numbers, message.bytes) > _I64_MAX:
        raise PeerError(region, "begin: no checkpoint has as many images, numbers or bytes")
    return StagedCut(
        id=_checked_id(region, message.cut_id),
        source=source,
        vv=checked_vv(region, message.vv),
        images=message.images,
        numbers=message.numbers,
        bytes=message.bytes,
        key=message.key if message.HasField("key") else None,
    )


def _checked_id(region: RegionId, cut_id: bytes) -> bytes:
    if len(cut_id) != CUT_ID_BYTES:
        raise PeerError(region, f"cut_id: {len(cut_id)} bytes instead of {CUT_ID_BYTES}")
    return cut_id


def encode_images(images: list[StagedImage]) -> pb.CopyPiece:
    return pb.CopyPiece(
        images=pb.CopyImages(
            images=[
                pb.CopyImage(
                    number=number,
                    kind=kind.value,
                    owner=owner,
                    lane=lane,
                    head=head,
                    body=body,
                    crc=crc,
                )
                for number, kind, owner, lane, head, body, crc in images
            ]
        )
    )


def decode_images(region: RegionId, message: pb.CopyImages, *, after: int) -> list[StagedImage]:
    """Images that come behind the one with a number.

    Raises:
        PeerError: one of them is damaged, out of order, or none that a checkpoint has.
    """
    images = []
    for sent in message.images:
        image = _decode_image(region, sent)
        if image.number <= after:
            raise PeerError(region, f"image {image.number} comes behind image {after}")
        images.append(image)
        after = image.number
    if not images:
        raise PeerError(region, "images: there is none in it")
    return images


def _decode_image(region: RegionId, sent: pb.CopyImage) -> StagedImage:
    kind = _KINDS.get(sent.kind)
    if kind is None:
        raise PeerError(region, f"image {sent.number}: kind {sent.kind} is none that is sent")
    if not 0 < sent.number < STAGED or sent.owner > _I64_MAX or sent.lane > REGION_MAX:
        raise PeerError(region, f"image {sent.number}: number, owner or lane is out of range")
    image = StagedImage(sent.number, kind, sent.owner, sent.lane, sent.head, sent.body, sent.crc)
    if not image.is_sound:
        raise PeerError(region, f"image {sent.number} is damaged (checksum)")
    if image.body and not (kind is Kind.NODE and _is_frame(image.body)):
        raise PeerError(region, f"image {sent.number}: the body is none of a macro node")
    return image


def check_nodes(region: RegionId, images: list[StagedImage]) -> None:
    """Check that macro nodes can be read: once merged, an unreadable one stays for good.

    Their fields are checked as those of batches are: clients get them as they are.

    Cost: a millisecond for each macro node; to be called in a thread.

    Raises:
        PeerError: the head of one is impossible for its entries, or an entry's fields are not as
            XADD makes them.
    """
    for image in images:
        if image.kind is Kind.NODE:
            try:
                header = decode_head(image.head).header
                columns = decode_body(unpack(image.body, size=header.body_bytes), header)
            except (ValueError, OverflowError) as error:
                raise PeerError(
                    region,
                    f"image {image.number}: {error}; run `crdtstream fsck` on its folder",
                ) from error
            wrong = wrong_append(columns.lengths, bytes(columns.fields))
            if wrong is not None:
                raise PeerError(
                    region,
                    f"image {image.number}: fields: entry {wrong} is not one array of an even"
                    " number of bulk strings",
                )


def _is_frame(body: bytes) -> bool:
    """True if it begins as a frame that names its size, and a macro node may have that size."""
    try:
        return claimed_size(body) <= BODY_BYTES_MAX
    except FrameError:
        return False
