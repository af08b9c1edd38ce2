"""Messages of a link: packing, unpacking, checking.

Batches are sent as the bytes that their origin made and the log holds.  Several of them share one
Zstandard frame; the frame names its content size, which is checked before anything is unpacked.

Data from a peer are checked here, before the core gets them: the numbers by the codec, the fields
by ``appends.py``, because the core passes them to clients as they are.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from google.protobuf.message import DecodeError

from crdtstream.core.clock import MutableVersionVector
from crdtstream.core.effects import EffectBatch
from crdtstream.core.frames import FrameError, FramePacker, claimed_size, unpack_frame
from crdtstream.core.ids import REGION_MAX, Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.core.wire.codec import BatchError, decode_batch, decode_vv, encode_vv
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.listeners import KINDS, NAME_BYTES_MAX, ListenerCount
from crdtstream.region.links.messages import (
    PROTOCOL_VERSION,
    Batches,
    FromServer,
    Open,
    Progress,
    Publications,
    Received,
    Standing,
    ToPuller,
    ToServer,
    Welcome,
)
from crdtstream.region.links.publications import PUBLICATION_BYTES_MAX, Publication
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.replication.appends import wrong_append
from crdtstream.v1 import replication_pb2 as pb

# The level with the best speed for its size on entries of 50 to 500 bytes; see benchmarks.
ZSTD_LEVEL: Final = 1
# Batches of one message: a link has no more under way (``WINDOW_BYTES``), however small they are.
BATCHES_MAX: Final = Size(1 << 20, least=1 << 16)
# In a list that is not longer they take little, however many they are.
COUNTED_BYTES: Final = Size(1 << 20, least=0)
# Tag and wire type of ``BatchList.batches``, and the bits of the longest length.
_BATCHES_TAG: Final = 0x0A
_SHIFT_MAX: Final = 63
# The latest time of a peer's clock, in ms: it is sent back with the time that passed since.
STAMP_MS_MAX: Final = 1 << 60
# Longer than this is the name of no database (``settings/node_settings.py``).
DATABASE_ID_LENGTH_MAX: Final = 64
# Bytes of each field of Open about members, incarnations and histories: 1,023 regions need less.
SAID_BYTES_MAX: Final = 1 << 20


class BatchPacker:
    """Batches to messages; one per link, since it keeps the compressor's tables."""

    def __init__(self) -> None:
        self._packer = FramePacker(level=ZSTD_LEVEL)

    def pack(self, batches: Sequence[bytes]) -> bytes:
        return self._packer.pack(pb.BatchList(batches=batches).SerializeToString())


class BatchUnpacker:
    """Messages to batches, with a bound on what comes out."""

    def __init__(self, region: RegionId, *, bytes_max: int) -> None:
        self._region = region
        self._bytes_max = bytes_max

    def unpack(self, packed: bytes) -> list[bytes]:
        """The encoded batches of a message.

        Raises:
            PeerError: no frame, a frame that is too large, or no list of batches.
        """
        try:
            content = unpack_frame(packed, bytes_max=self._bytes_max)
            if len(content) > COUNTED_BYTES.value:
                self._check_count(content)
            return list(pb.BatchList.FromString(content).batches)
        except (FrameError, DecodeError) as error:
            raise PeerError(self._region, f"batches.zstd: {error}") from error

    def _check_count(self, content: bytes) -> None:
        """See that a list has no more batches than any that is sent, before an object is made of
        each: of empty ones 1 GiB would take 20 GiB.

        Raises:
            PeerError: it has more, or is no list of batches.
        """
        at = count = 0
        while at < len(content):
            if content[at] != _BATCHES_TAG:
                raise PeerError(self._region, f"batches.zstd: another field at byte {at}")
            count += 1
            if count > BATCHES_MAX.value:
                raise PeerError(self._region, f"batches.zstd: more than {count - 1} batches")
            at += 1
            size = shift = 0
            while at < len(content) and content[at] & 0x80:
                size |= (content[at] & 0x7F) << shift
                shift += 7
                at += 1
                if shift > _SHIFT_MAX:
                    raise PeerError(self._region, f"batches.zstd: no length at byte {at}")
            if at < len(content):
                size |= content[at] << shift
            at += 1 + size


def checked_batch(region: RegionId, encoded: bytes) -> EffectBatch:
    """A batch that a peer sent, if everything in it can be trusted to be well-formed.

    Raises:
        PeerError: naming batch and field.
    """
    try:
        batch = decode_batch(encoded)
    except BatchError as error:
        raise PeerError(region, f"batch of {len(encoded)} bytes: {error}") from error
    wrong = wrong_append(batch.appends.lengths, batch.appends.fields)
    if wrong is not None:
        raise PeerError(
            region,
            f"batch {batch.origin}:{batch.first_n}: fields: append {wrong} is not one array of "
            "an even number of bulk strings",
        )
    return batch


def encode_standing(standing: Standing) -> pb.Standing:
    return pb.Standing(
        database_uid=standing.database.uid,
        declared=standing.database.declared,
        recovering=standing.recovering,
        regains=standing.regains,
    )


def decode_standing(region: RegionId, message: pb.Standing) -> Standing:
    """The inverse.

    Raises:
        PeerError: an identity of another length.
    """
    uid = DatabaseUid(message.database_uid)
    if uid and len(uid) != UID_BYTES:
        raise PeerError(region, f"standing.database_uid: {len(uid)} bytes instead of {UID_BYTES}")
    database = DatabaseIdentity(uid, message.declared)
    return Standing(database, message.recovering, message.regains)


def encode_progress(progress: Progress) -> pb.Progress:
    return pb.Progress(
        durable_vv=encode_vv(progress.durable_vv),
        now_ms=progress.now,
        standing=encode_standing(progress.standing),
        others=[
            pb.RegionProgress(region=region, durable_vv=encode_vv(vv))
            for region, vv in sorted(progress.others.items())
        ],
        taken_bytes=progress.taken_bytes,
        taken_publication_bytes=progress.taken_publication_bytes,
        stamp_ms=progress.stamp_ms,
        echo_ms=progress.echo_ms,
        acks_awaited=progress.acks_awaited,
        next_ms=progress.next_ms,
        staging_vv=None if progress.staging_vv is None else encode_vv(progress.staging_vv),
        epoch=progress.epoch,
        histories=progress.histories,
    )


def decode_progress(region: RegionId, message: pb.Progress) -> Progress:
    """The inverse.

    Raises:
        PeerError: a version vector, region number or stamp that cannot be.
    """
    return Progress(
        durable_vv=checked_vv(region, message.durable_vv),
        now=Millis(message.now_ms),
        standing=decode_standing(region, message.standing),
        others={
            checked_region(region, other.region): checked_vv(region, other.durable_vv)
            for other in message.others
        },
        taken_bytes=message.taken_bytes,
        taken_publication_bytes=message.taken_publication_bytes,
        stamp_ms=_checked_stamp(region, "stamp_ms", message.stamp_ms),
        echo_ms=_checked_stamp(region, "echo_ms", message.echo_ms),
        acks_awaited=message.acks_awaited,
        next_ms=message.next_ms,
        staging_vv=(
            checked_vv(region, message.staging_vv) if message.HasField("staging_vv") else None
        ),
        epoch=message.epoch,
        histories=message.histories,
    )


def _checked_stamp(region: RegionId, field: str, stamp_ms: int) -> int:
    """A time that can be sent back with more time added to it."""
    if stamp_ms > STAMP_MS_MAX:
        raise PeerError(region, f"progress.{field}: {stamp_ms} is over {STAMP_MS_MAX}")
    return stamp_ms


def encode_publications(message: Publications) -> pb.Publications:
    return pb.Publications(
        origin=message.origin,
        publications=[
            pb.Publication(
                channel=publication.channel,
                payload=publication.payload,
                sharded=publication.sharded,
                after_n=publication.after_n,
            )
            for publication in message.publications
        ],
        listeners=[
            pb.ListenerCount(kind=each.kind.name, name=each.name, count=each.count)
            for each in message.listeners
        ],
    )


def decode_publications(region: RegionId, message: pb.Publications) -> Publications:
    """Decode what the clients of ``region`` published, and what they listen to.

    Raises:
        PeerError: it is of another region, as publications are not relayed; one of them is larger
            than any that PUBLISH takes; or a name is longer than any that is sent.
    """
    if message.origin != region:
        raise PeerError(region, f"publications.origin: {message.origin}, which they cannot be of")
    publications = []
    for index, each in enumerate(message.publications):
        size = len(each.channel) + len(each.payload)
        if size > PUBLICATION_BYTES_MAX.value:
            raise PeerError(
                region,
                f"publications[{index}]: {size} bytes are not within {PUBLICATION_BYTES_MAX.value}",
            )
        publications.append(Publication(each.channel, each.payload, each.sharded, each.after_n))
    listeners = [
        _decode_listeners(region, index, each) for index, each in enumerate(message.listeners)
    ]
    return Publications(region, publications, listeners)


def _decode_listeners(region: RegionId, index: int, message: pb.ListenerCount) -> ListenerCount:
    names = pb.ListenerCount.Kind
    if message.kind not in names.values():
        raise PeerError(region, f"listeners[{index}].kind: {message.kind} is none that is known")
    if len(message.name) > NAME_BYTES_MAX:
        raise PeerError(
            region,
            f"listeners[{index}].name: {len(message.name)} bytes are not within {NAME_BYTES_MAX}",
        )
    return ListenerCount(KINDS[names.Name(message.kind)], message.name, message.count)


def checked_vv(region: RegionId, message: object) -> MutableVersionVector:
    try:
        return decode_vv(message)  # type: ignore[arg-type]
    except BatchError as error:
        raise PeerError(region, str(error)) from error


def checked_region(region: RegionId, number: int) -> RegionId:
    if not 1 <= number <= REGION_MAX:
        raise PeerError(region, f"region number {number} is not in 1 to {REGION_MAX}")
    return RegionId(number)


# --- Whole messages ---------------------------------------------------------------------------


def encode_request(message: ToServer) -> pb.SyncRequest:
    """Encode a message from a puller to a server."""
    match message:
        case Open():
            return pb.SyncRequest(
                open=pb.Open(
                    protocol=message.protocol,
                    region=message.region,
                    database_id=message.database_id,
                    origins=sorted(message.origins),
                    vv=encode_vv(message.vv),
                    run_id=message.run_id,
                    standing=encode_standing(message.standing),
                    membership=message.membership,
                    incarnations=message.incarnations,
                    histories=message.histories,
                )
            )
        case Progress():
            return pb.SyncRequest(ack=encode_progress(message))
        case _:
            assert_never(message)


def decode_open(message: pb.Open) -> Open:
    """The first message of a puller.

    The request of a puller with another protocol version is not read: it is refused anyway.

    Raises:
        PeerError: a name, a version vector or a region number that cannot be.
    """
    region = checked_region(RegionId(message.region), message.region)
    if len(message.database_id) > DATABASE_ID_LENGTH_MAX:
        raise PeerError(
            region, f"database_id: it has more than {DATABASE_ID_LENGTH_MAX} characters"
        )
    for field in ("membership", "incarnations", "histories"):
        size = len(getattr(message, field))
        if size > SAID_BYTES_MAX:
            raise PeerError(region, f"{field}: {size} bytes are not within {SAID_BYTES_MAX}")
    is_ours = message.protocol == PROTOCOL_VERSION
    return Open(
        region=region,
        database_id=message.database_id,
        run_id=message.run_id,
        origins=frozenset(
            checked_region(region, origin) for origin in (message.origins if is_ours else ())
        ),
        vv=checked_vv(region, message.vv) if is_ours else {},
        standing=decode_standing(region, message.standing if is_ours else pb.Standing()),
        membership=message.membership if is_ours else b"",
        incarnations=message.incarnations if is_ours else b"",
        histories=message.histories if is_ours else b"",
        protocol=message.protocol,
    )


def decode_ack(region: RegionId, message: pb.SyncRequest) -> Progress:
    """A later message of a puller.

    Raises:
        PeerError: it is no ack, or what it says cannot be.
    """
    if message.WhichOneof("kind") != "ack":
        raise PeerError(region, "only acks may follow open")
    return decode_progress(region, message.ack)


def encode_response(message: ToPuller, packer: BatchPacker) -> pb.SyncResponse:
    """Encode a message from a server to a puller."""
    match message:
        case Batches(batches):
            return pb.SyncResponse(batches=pb.Batches(zstd=packer.pack(batches)))
        case Progress():
            return pb.SyncResponse(heartbeat=encode_progress(message))
        case Publications():
            return pb.SyncResponse(publications=encode_publications(message))
        case Welcome():
            return pb.SyncResponse(
                welcome=pb.Welcome(
                    protocol=message.protocol,
                    region=message.region,
                    vv=encode_vv(message.vv),
                    run_id=message.run_id,
                    standing=encode_standing(message.standing),
                    own_n=message.own_n,
                    log_begins=encode_vv(message.begins),
                    membership=message.membership,
                    incarnations=message.incarnations,
                    histories=message.histories,
                )
            )
        case _:
            assert_never(message)


def unpacked_bytes(message: pb.SyncResponse) -> int:
    """Bytes of the batches of a message, as it claims; 0: it has none, or they are no frame."""
    try:
        return claimed_size(message.batches.zstd)
    except FrameError:
        return 0


def decode_response(
    region: RegionId, message: pb.SyncResponse, unpacker: BatchUnpacker
) -> FromServer:
    """A message of a server.

    Raises:
        PeerError: naming what is wrong with it.
    """
    match message.WhichOneof("kind"):
        case "batches":
            encoded_batches = unpacker.unpack(message.batches.zstd)
            return Received(
                [(checked_batch(region, encoded), encoded) for encoded in encoded_batches]
            )
        case "heartbeat":
            return decode_progress(region, message.heartbeat)
        case "welcome":
            welcome = message.welcome
            return Welcome(
                region=RegionId(welcome.region),
                run_id=welcome.run_id,
                vv=checked_vv(region, welcome.vv),
                standing=decode_standing(region, welcome.standing),
                own_n=welcome.own_n,
                begins=checked_vv(region, welcome.log_begins),
                membership=welcome.membership,
                incarnations=welcome.incarnations,
                histories=welcome.histories,
                protocol=welcome.protocol,
            )
        case "publications":
            return decode_publications(region, message.publications)
        case _:
            raise PeerError(region, "a message of a kind this version does not know")
