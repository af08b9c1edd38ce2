"""What a bootstrap sends, as messages: encoding, decoding, checking.

What comes from outside is checked here.  An image that passes has a number, a kind and a place that
a checkpoint can have, is as its sender had it, and has a body only where one belongs: the frame of
a macro node, which names its content's size.
"""

from dataclasses import dataclass
from typing import Final

from zstandard import ZstdError, frame_content_size

from crdtstream.core.checkpoint.parts import STAGED, Kind
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.lanes.packing import BODY_BYTES_MAX
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.core.wire.codec import encode_vv
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.replication.wire import checked_region, checked_vv
from crdtstream.store.staging import CUT_ID_BYTES, NOT_SENT, StagedCut, StagedImage
from crdtstream.v1 import bootstrap_pb2 as pb

# What fits where it is kept.
_I64_MAX: Final = (1 << 63) - 1
_KINDS: Final = {kind.value: kind for kind in Kind if kind is not NOT_SENT}


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a copy goes on that broke: behind an image of a cut."""

    cut_id: bytes
    after: int


@dataclass(frozen=True, slots=True)
class CopyAsked:
    """Who asks for the state, and what it has.

    Attributes:
        uid: of the database; empty while the region does not know it.
        run_id: differs from one start of its node to the next.
        vv: what it has of every origin.
        resume: None: it has none of the images.
        bytes_per_s: how fast at most; 0: no bound.
    """

    region: RegionId
    database_id: str
    uid: DatabaseUid
    run_id: int
    vv: VersionVector
    resume: Resume | None = None
    bytes_per_s: int = 0
    protocol: int = PROTOCOL_VERSION


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
    )


def decode_asked(message: pb.CopyRequest) -> CopyAsked:
    """The inverse.  What a region of another protocol version wants is left out, as in ``Open``.

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
    )


def encode_begin(cut: StagedCut, *, resumed: bool) -> pb.CopyPiece:
    return pb.CopyPiece(
        begin=pb.CopyBegin(
            cut_id=cut.id,
            source=cut.source,
            vv=encode_vv(cut.vv),
            images=cut.images,
            numbers=cut.numbers,
            bytes=cut.bytes,
            resumed=resumed,
        )
    )


def decode_begin(region: RegionId, message: pb.CopyBegin) -> StagedCut:
    """The cut that comes.

    Raises:
        PeerError: what it says of it cannot be.
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


def _is_frame(body: bytes) -> bool:
    """Whether it begins as a frame that names its size, and that is one of a macro node."""
    try:
        return 0 <= frame_content_size(body) <= BODY_BYTES_MAX
    except ZstdError:
        return False
