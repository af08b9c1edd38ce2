"""The state of a region, copied to one that lacks it, over real connections and real folders."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from crdtstream.core.checkpoint.parts import STAGED, Kind
from crdtstream.core.effects import Record
from crdtstream.core.ids import U64_MAX, Millis, RegionId, make_id
from crdtstream.core.lanes.header import decode_head, encode_head
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.packing import pack
from crdtstream.region.bootstrap import CopyProgress
from crdtstream.region.links.errors import PeerError, RefusedError
from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.region.tick import Tick
from crdtstream.replication.bootstrap_client import SILENCE_SECONDS_MAX
from crdtstream.replication.bootstrap_server import COPIES_MAX, LOOK_SECONDS, PIECE_BYTES
from crdtstream.replication.bootstrap_wire import CopyAsked, Resume, encode_begin, encode_images
from crdtstream.store.checkpoints import HOLD_IDLE_SECONDS, Purpose
from crdtstream.store.errors import NoRoomError, StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.staging import MemoryStaging, StagedCut, StagedImage, Staging, make_image
from crdtstream.v1 import bootstrap_pb2 as pb
from crdtstream.v1 import bootstrap_pb2_grpc as rpc
from tests.patience import until
from tests.replication.copies import (
    HERE,
    PEER,
    Sender,
    Watched,
    address,
    asked,
    copied,
    served,
    staging_in,
)
from tests.store import stagings
from tests.store.stagings import check_whole

NUMBERS = [*range(1, 200), 300, 301]
NODES = [number for number in NUMBERS if stagings.image(number).kind is Kind.NODE]
NODE = NODES[0]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some 10 pieces."""
    monkeypatch.setattr(PIECE_BYTES, "value", 2_000)


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    async with Sender(tmp_path / "sender", address()).running() as sender:
        await sender.write(NUMBERS)
        yield sender


# --- A copy ---------------------------------------------------------------------------------------


async def test_every_image_arrives_byte_for_byte(sender: Sender, tmp_path: Path) -> None:
    progress = CopyProgress(Tick())
    async with staging_in(tmp_path / "here") as staging:
        cut = await copied(sender.address, staging, progress=progress)
        assert staging.is_complete
        await check_whole(staging, NUMBERS)
    assert cut == sender.service.cuts[HERE]
    assert (cut.source, cut.vv) == (PEER, {2: 41, 3: 7})
    assert (progress.images_done, progress.bytes_done) == (cut.images, cut.bytes)
    assert (progress.images, progress.bytes) == (len(NUMBERS), cut.bytes)
    assert progress.rate > 0


async def test_macro_nodes_of_the_staging_are_read_beside_the_own_ones(
    sender: Sender, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    async with staging_in(folder) as staging:
        await copied(sender.address, staging)
        log = await SqliteLog.open(folder, region=HERE, database_id="crdb", fsync=Fsync.NO)
        try:
            checkpoints = await SqliteCheckpoints.open(log)
            checkpoints.staging = staging
            wanted = stagings.staged(NODE).body
            assert checkpoints.load(STAGED + NODE) == wanted
            assert await checkpoints.fetch([STAGED + NODE]) == {STAGED + NODE: wanted}
        finally:
            await log.abandon()


async def test_a_complete_copy_is_not_asked_for_again(sender: Sender) -> None:
    staging = MemoryStaging()
    cut = await copied(sender.address, staging)
    await sender.server.stop(grace=0)
    assert await copied(sender.address, staging) == cut


async def test_the_sender_goes_on_while_it_sends(sender: Sender) -> None:
    """A checkpoint that comes meanwhile forgets nothing of the one that is sent."""
    staging = MemoryStaging()

    class Going(Watched):
        async def before_put(self) -> None:
            if len(self.puts) == 3:
                await sender.write([400], dropped=NUMBERS[:150])

    cut = await copied(sender.address, cast(Staging, Going(staging)))
    await check_whole(staging, NUMBERS)
    assert cut.vv[PEER] == 41
    await sender.service.close()
    await sender.checkpoints.forget_before(2)
    with pytest.raises(StoreError, match="not kept any more"):
        await sender.checkpoints.images(1, after=0, bytes_max=1)


# --- A copy that breaks ---------------------------------------------------------------------------


class BreaksError(Exception):
    """The receiver ends here."""


class Breaking(Watched):
    """Ends the call before its n-th piece."""

    def __init__(self, staging: Staging, pieces: int) -> None:
        super().__init__(staging)
        self.pieces = pieces

    async def before_put(self) -> None:
        if len(self.puts) == self.pieces:
            raise BreaksError


async def test_a_copy_that_breaks_at_any_piece_goes_on_behind_it(
    sender: Sender, tmp_path: Path
) -> None:
    pieces, is_whole = 0, False
    cuts = set()
    while not is_whole:
        async with staging_in(tmp_path / "here") as staging:
            await staging.discard()
            with pytest.raises(BreaksError):
                await copied(sender.address, cast(Staging, Breaking(staging, pieces)))
        # Another process.
        async with staging_in(tmp_path / "here") as staging:
            found = staging.staged()
            assert found is not None
            watched = Watched(staging)
            progress = CopyProgress(Tick())
            await copied(sender.address, cast(Staging, watched), progress=progress)
            assert all(number > found[1] for put in watched.puts for number in put)
            assert staging.staged() == (found[0], NUMBERS[-1])
            await check_whole(staging, NUMBERS)
            assert progress.images_done == len(NUMBERS)
            assert progress.is_resumed
            assert progress.images_done - progress.images_before == sum(map(len, watched.puts))
            cuts.add(found[0].id)
            is_whole = len(watched.puts) == 1
        pieces += 1
    assert pieces > 5
    # Each that began anew had a cut of its own.
    assert len(cuts) == pieces


async def test_a_copy_to_a_sender_that_was_killed_begins_anew(tmp_path: Path) -> None:
    where = address()
    staging = MemoryStaging()
    async with Sender(tmp_path / "sender", where).running() as sender:
        await sender.write(NUMBERS)

        class Killing(Watched):
            async def before_put(self) -> None:
                if len(self.puts) == 2:
                    await sender.server.stop(grace=0)

        with pytest.raises(PeerError, match="region 2: "):
            await copied(where, cast(Staging, Killing(staging)))
        found = staging.staged()
        assert found is not None
        assert found[1] > 0
        with pytest.raises(PeerError, match=r"region 2: UNAVAILABLE: .*refused"):
            await copied(where, staging)
    async with Sender(tmp_path / "sender", where).running():
        cut = await copied(where, staging)
        assert cut.id != found[0].id
        await check_whole(staging, NUMBERS)


async def test_a_hold_that_lapsed_is_another_cut(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = MemoryStaging()
    with pytest.raises(BreaksError):
        await copied(sender.address, cast(Staging, Breaking(staging, 3)))
    found = staging.staged()
    assert found is not None
    for hold in sender.checkpoints._holds._holds:
        hold.lapses_at -= HOLD_IDLE_SECONDS.value
    await sender.write([400], dropped=[1])
    cut = await copied(sender.address, staging)
    assert cut.id != found[0].id
    assert cut.vv[PEER] == 42
    await check_whole(staging, [*NUMBERS[1:], 400])


async def test_a_receiver_that_stops_taking_loses_the_hold(sender: Sender) -> None:
    staging = MemoryStaging()

    class Stopping(Watched):
        async def before_put(self) -> None:
            for hold in sender.checkpoints._holds._holds:
                hold.lapses_at -= HOLD_IDLE_SECONDS.value

    # So that it has not sent all before anything arrives.
    sender.region.region.retention.bootstrap.bytes_per_s = 50_000
    with pytest.raises(PeerError, match=r"ABORTED: the copy has ended: nothing was taken"):
        await copied(sender.address, cast(Staging, Stopping(staging)))
    found = staging.staged()
    assert found is not None
    assert (await copied(sender.address, staging)).id != found[0].id


async def test_the_node_can_end_a_copy_and_says_why(sender: Sender) -> None:
    staging = MemoryStaging()
    sender.region.region.retention.bootstrap.bytes_per_s = 100_000

    class Ending(Watched):
        async def before_put(self) -> None:
            sender.service.end(HERE, "the log has grown too large")

    with pytest.raises(PeerError, match="ABORTED: the copy has ended: the log has grown too large"):
        await copied(sender.address, cast(Staging, Ending(staging)))
    assert sender.service.cuts == {}


@pytest.mark.parametrize(
    ("goes_on", "reason"),
    [(True, "another call of that region goes on with it"), (False, "the region has begun again")],
)
async def test_another_call_of_the_region_takes_a_copy_over(
    sender: Sender, goes_on: bool, reason: str
) -> None:
    """The one before may be waiting on a connection that is dead."""
    first, second = MemoryStaging(), MemoryStaging()
    bounds = sender.region.region.retention.bootstrap
    bounds.bytes_per_s = 20_000
    running = asyncio.create_task(copied(sender.address, first))
    await until(lambda: first.sums.images)
    found = first.staged()
    assert found is not None
    if goes_on:
        await second.begin(found[0])
        await second.put(list(first._images.values()))
    bounds.bytes_per_s = 0
    cut = await copied(sender.address, second)
    assert (cut == found[0]) == goes_on
    await check_whole(second, NUMBERS)
    with pytest.raises(PeerError, match=f"ABORTED: the copy has ended: {reason}"):
        await running
    assert not first.is_complete


# --- Speed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "theirs"), [(40_000, 0), (0, 40_000), (40_000, 1 << 40)])
async def test_the_state_is_sent_no_faster_than_allowed(
    sender: Sender, own: int, theirs: int
) -> None:
    sender.region.region.retention.bootstrap.bytes_per_s = own
    staging = MemoryStaging()
    loop = asyncio.get_running_loop()
    began = loop.time()
    cut = await copied(sender.address, staging, asks=asked(bytes_per_s=theirs))
    assert loop.time() - began >= 0.95 * cut.bytes / 40_000


async def test_a_slow_copy_never_rests_for_as_long_as_its_hold_lasts(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HOLD_IDLE_SECONDS, "value", 1)
    monkeypatch.setattr(PIECE_BYTES, "value", 5_000)
    staging = MemoryStaging()
    await copied(sender.address, staging, asks=asked(bytes_per_s=1))
    await check_whole(staging, NUMBERS)


# --- Damage ---------------------------------------------------------------------------------------


async def test_a_damaged_image_of_the_sender_is_told_by_its_number(sender: Sender) -> None:
    damaged = NODES[-20]
    await sender.log.connections.background.execute_fetchall(
        f"UPDATE body SET packed = zeroblob(length(packed)) WHERE number = {damaged}"
    )
    staging = MemoryStaging()
    with pytest.raises(
        PeerError, match=rf"region 2: DATA_LOSS: .*{LOG_FILE}: .*image {damaged} is damaged"
    ):
        await copied(sender.address, staging)
    assert not staging.is_complete
    found = staging.staged()
    assert found is not None
    assert 0 < found[1] < damaged


async def test_a_checkpoint_that_lacks_an_image_is_refused(sender: Sender) -> None:
    await sender.log.connections.background.execute_fetchall("DELETE FROM image WHERE number = 9")
    staging = MemoryStaging()
    with pytest.raises(PeerError, match=r"DATA_LOSS: .*images are missing, or too many"):
        await copied(sender.address, staging)
    assert staging.staged() is None
    assert sender.service.cuts == {}


async def test_a_full_disk_is_the_own_fault_and_the_copy_goes_on_with_room(
    sender: Sender, tmp_path: Path
) -> None:
    async with staging_in(tmp_path / "here") as staging:

        class Filling(Watched):
            async def before_put(self) -> None:
                assert staging._connection is not None
                if len(self.puts) == 2:
                    await staging._connection.execute("PRAGMA max_page_count = 8")

        with pytest.raises(NoRoomError, match=r"staging\.sqlite"):
            await copied(sender.address, cast(Staging, Filling(staging)))
        assert not staging.is_complete
        found = staging.staged()
        assert found is not None
        assert staging._connection is not None
        await staging._connection.execute("PRAGMA max_page_count = 1000000")
        assert (await copied(sender.address, staging)).id == found[0].id
        await check_whole(staging, NUMBERS)


# --- A peer that sends nonsense -------------------------------------------------------------------


class Nonsense(rpc.BootstrapServicer):
    """Sends what it was given."""

    def __init__(self, *pieces: pb.CopyPiece) -> None:
        self.pieces = pieces

    async def Copy(  # noqa: N802
        self, request: pb.CopyRequest, context: object
    ) -> AsyncIterator[pb.CopyPiece]:
        for piece in self.pieces:
            yield piece


CUT = stagings.cut_of(range(1, 10))
BEGIN = encode_begin(CUT, resumed=False)
END = pb.CopyPiece(end=pb.CopyEnd())


def pieces(*numbers: int) -> pb.CopyPiece:
    return encode_images([stagings.staged(number) for number in numbers])


def changed(**fields: object) -> pb.CopyPiece:
    """A macro node with another field."""
    image = pb.CopyImage()
    image.CopyFrom(pieces(6).images.images[0])
    for name, value in fields.items():
        setattr(image, name, value)
    return pb.CopyPiece(images=pb.CopyImages(images=[image]))


def remade(
    *,
    number: int = 6,
    kind: Kind = Kind.NODE,
    lane: int = 1,
    head: bytes = b"head",
    body: bytes | None = None,
) -> pb.CopyPiece:
    """An image with other fields, and the checksum that belongs to them."""
    body = stagings.staged(6).body if body is None else body
    return encode_images([make_image(number, kind, 3, lane, head, body)])


def _with_last_n(head: bytes, last_n: int) -> bytes:
    found = decode_head(head)
    return encode_head(found._replace(header=found.header._replace(last_n=last_n)))


def of_fields(fields: bytes) -> pb.CopyPiece:
    """A macro node whose second entry has these fields."""
    lane = Lane(RegionId(1), NodeLimits())
    for n, one in enumerate((b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n", fields), 1):
        lane.append(make_id(n, 0), n, one, Millis(1))
    (node,) = lane.macro_nodes()
    _, _, head, body, _ = node.encode()
    return remade(head=head, body=pack(body))


def beginning(**fields: object) -> pb.CopyPiece:
    begin = pb.CopyBegin()
    begin.CopyFrom(BEGIN.begin)
    for name, value in fields.items():
        setattr(begin, name, value)
    return pb.CopyPiece(begin=begin)


NONSENSE = {
    "nothing": ((), "ended the call before the end"),
    "no begin": ((pieces(1),), "the first message must be begin"),
    "an empty message": ((BEGIN, pb.CopyPiece()), "only images and the end"),
    "two begins": ((BEGIN, BEGIN), "only images and the end"),
    "another source": ((beginning(source=3),), "the state of region 3"),
    "no region": ((beginning(source=0),), "region number 0"),
    "a short id": ((beginning(cut_id=b"x"),), "1 bytes instead of 16"),
    "very many": ((beginning(images=1 << 63),), "as many images"),
    "another cut": ((beginning(resumed=True),), "not the one that is here"),
    "no images": ((BEGIN, pb.CopyPiece(images=pb.CopyImages())), "there is none"),
    "a checksum": ((BEGIN, changed(crc=1)), r"image 6 is damaged \(checksum\)"),
    "a head": ((BEGIN, changed(head=b"x")), r"image 6 is damaged \(checksum\)"),
    "a body": ((BEGIN, changed(body=b"x")), r"image 6 is damaged \(checksum\)"),
    "descending": ((BEGIN, pieces(2, 1)), "image 1 comes behind image 2"),
    "descending later": ((BEGIN, pieces(2), pieces(1)), "image 1 comes behind image 2"),
    "twice": ((BEGIN, pieces(2), pieces(2)), "image 2 comes behind image 2"),
    "number 0": ((BEGIN, remade(number=0)), "out of range"),
    "of a staging": ((BEGIN, remade(number=STAGED + 1)), "out of range"),
    "a lane": ((BEGIN, remade(lane=1024)), "out of range"),
    "an owner": ((BEGIN, changed(owner=1 << 63)), "out of range"),
    "pending": ((BEGIN, remade(kind=Kind.PENDING)), "kind 4 is none that is sent"),
    "a kind": ((BEGIN, changed(kind=6)), "kind 6 is none that is sent"),
    "a body of a key": ((BEGIN, remade(kind=Kind.KEY)), "none of a macro node"),
    "no frame": ((BEGIN, remade(body=b"no frame")), "none of a macro node"),
    "a huge frame": (
        (BEGIN, remade(body=bytes.fromhex("28b52ffde0ffffffffff00000000"))),
        "none of a macro node",
    ),
    "too few": ((BEGIN, pieces(*range(1, 9)), END), "some are missing"),
    "too many": ((BEGIN, pieces(*range(1, 11)), END), "more images, or larger ones"),
    "others": ((BEGIN, pieces(*range(1, 9), 11), END), "it sent "),
    "too large": (
        (BEGIN, remade(kind=Kind.KEY, body=b"", head=bytes(2 << 20))),
        "RESOURCE_EXHAUSTED: .*larger than max",
    ),
    "larger than said": (
        (BEGIN, remade(kind=Kind.KEY, body=b"", head=bytes(900_000))),
        "or larger ones",
    ),
    "a head of no macro node": ((BEGIN, remade(head=b"head")), "image 6: a macro node's head"),
    "a body of another macro node": (
        (BEGIN, remade(head=stagings.image(9).head)),
        "image 6: a frame of [0-9]+ bytes in place of [0-9]+; run `crdtstream fsck`",
    ),
    "a head with more dots than there are": (
        (BEGIN, remade(head=_with_last_n(stagings.image(6).head, U64_MAX))),
        "image 6: ",
    ),
    "fields that are no array of strings": (
        (BEGIN, of_fields(b"*2\r\n$1\r\nf\r\n$9\r\nv\r\n")),
        "image 6: fields: entry 1 is not one array",
    ),
    "a reply behind the fields": (
        (BEGIN, of_fields(b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n+OK\r\n")),
        "image 6: fields: entry 1 is not one array",
    ),
    "cut off": ((BEGIN, pieces(1, 2)), "ended the call before the end"),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_impossible_parts_of_a_copy_are_refused(nonsense: str) -> None:
    sent, reason = NONSENSE[nonsense]
    where = address()
    staging = MemoryStaging()
    async with served(Nonsense(*sent), where):
        with pytest.raises(PeerError, match=f"region 2: .*{reason}"):
            await copied(where, staging)
    assert not staging.is_complete
    # What was put is sound, and a cut of its own.
    found = staging.staged()
    if found is not None:
        assert found[0] == CUT
        assert all(image == stagings.staged(number) for number, image in staging._images.items())


async def test_a_large_image_arrives() -> None:
    large = remade(kind=Kind.KEY, body=b"", head=bytes(900_000))
    (image,) = large.images.images
    cut = StagedCut(bytes(16), PEER, {PEER: 1}, 1, 6, 900_000)
    where = address()
    staging = MemoryStaging()
    async with served(Nonsense(encode_begin(cut, resumed=False), large, END), where):
        await copied(where, staging)
    assert staging._images[6].head == image.head


async def test_a_peer_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SILENCE_SECONDS_MAX, "value", 0.05)

    class Silent(rpc.BootstrapServicer):
        async def Copy(  # noqa: N802
            self, request: pb.CopyRequest, context: object
        ) -> AsyncIterator[pb.CopyPiece]:
            yield BEGIN
            await asyncio.Event().wait()

    where = address()
    async with served(Silent(), where):
        with pytest.raises(PeerError, match=r"it sent nothing for 0\.05 s"):
            await copied(where, MemoryStaging())


# --- A peer that asks nonsense --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "code"),
    [
        (asked(database_id="other"), "FAILED_PRECONDITION"),
        (asked(uid=b"u" * 16), "FAILED_PRECONDITION: region 2 belongs to database 0001"),
        (asked(uid=b"u" * 16, region=3), "FAILED_PRECONDITION: region 2 belongs to database 0001"),
        (asked(protocol=PROTOCOL_VERSION + 1), "FAILED_PRECONDITION"),
        (asked(protocol=PROTOCOL_VERSION - 1), "FAILED_PRECONDITION"),
        (asked(region=PEER), "FAILED_PRECONDITION"),
        (asked(region=3), "PERMISSION_DENIED"),
    ],
)
async def test_only_a_peer_of_the_same_database_is_sent_the_state(
    sender: Sender, asks: CopyAsked, code: str
) -> None:
    staging = MemoryStaging()
    with pytest.raises(RefusedError, match=f"region 2: {code}"):
        await copied(sender.address, staging, asks=asks)
    assert staging.staged() is None
    assert sender.service.cuts == {}
    assert sender.checkpoints._holds._holds == []


async def test_a_region_that_does_not_know_the_database_yet_is_sent_it(sender: Sender) -> None:
    staging = MemoryStaging()
    await copied(sender.address, staging, asks=asked(uid=b""))
    assert staging.is_complete


@pytest.mark.parametrize(
    "asks",
    [
        asked(uid=b"short"),
        asked(vv={2000: 1}),
        asked(vv={1: 1 << 63}),
    ],
)
async def test_impossible_requests_for_a_copy_are_refused(sender: Sender, asks: CopyAsked) -> None:
    with pytest.raises(PeerError, match="region 2: INVALID_ARGUMENT: region 1: "):
        await copied(sender.address, MemoryStaging(), asks=asks)


async def test_a_region_that_has_it_all_is_sent_nothing(sender: Sender) -> None:
    with pytest.raises(PeerError, match=r"UNAVAILABLE: .*no checkpoint yet"):
        await copied(sender.address, MemoryStaging(), asks=asked(vv={2: 41, 3: 9}))
    assert sender.checkpoints._holds._holds == []


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of a key; what the images of these tests say is no state."""
    image = stagings.image(NODE)

    async def owner_of(_checkpoints: SqliteCheckpoints, _generation: int, _key: bytes) -> int:
        return image.owner

    monkeypatch.setattr(SqliteCheckpoints, "owner_of", owner_of)
    return image.owner


async def test_of_one_key_its_own_images_are_sent(
    sender: Sender, owner: int, tmp_path: Path
) -> None:
    async with staging_in(tmp_path / "here") as staging:
        cut = await copied(sender.address, staging, asks=asked(key=b"x"))
        assert cut.key == b"x"
        await check_whole(
            staging,
            [number for number in NUMBERS if stagings.image(number).owner in (0, owner)],
        )
    async with staging_in(tmp_path / "here") as staging:
        found = staging.staged()
        assert found is not None
        assert found[0] == cut


async def test_a_key_is_sent_of_a_checkpoint_with_all_that_the_region_has(
    sender: Sender, owner: int
) -> None:
    asks = asked(key=b"x", vv={2: 42})
    with pytest.raises(PeerError, match=r"UNAVAILABLE: .*has not applied 42 effects"):
        await copied(sender.address, MemoryStaging(), asks=asks)
    sender.region.region.replica._state.vv.update({PEER: 42, RegionId(3): 7})
    with pytest.raises(PeerError, match=r"UNAVAILABLE: .*no checkpoint yet"):
        await copied(sender.address, MemoryStaging(), asks=asks)
    await sender.write([*range(400, 410)])
    assert (await copied(sender.address, MemoryStaging(), asks=asks)).vv[PEER] == 42


async def test_a_copy_of_a_key_is_not_gone_on_with_as_one_of_the_state(
    sender: Sender, owner: int
) -> None:
    cut = await copied(sender.address, MemoryStaging(), asks=asked(key=b"x"))
    resumed = asked(resume=Resume(cut.id, 1))
    whole = await copied(sender.address, MemoryStaging(), asks=resumed)
    assert whole.id != cut.id
    assert whole.images == len(NUMBERS)


async def test_without_a_verified_checkpoint_nothing_is_sent(tmp_path: Path) -> None:
    where = address()
    async with Sender(tmp_path / "sender", where).running():
        with pytest.raises(PeerError, match=r"UNAVAILABLE: .*no checkpoint yet"):
            await copied(where, MemoryStaging())


async def test_a_region_that_takes_over_a_state_sends_none(sender: Sender) -> None:
    bootstrap = sender.region.region.bootstrap
    bootstrap.note_begun(HERE, Millis(1))
    with pytest.raises(PeerError, match="UNAVAILABLE: region 2 gets the state of another region"):
        await copied(sender.address, MemoryStaging())
    bootstrap.note_failed("it was broken off", Millis(1))
    await copied(sender.address, MemoryStaging())


async def test_part_of_a_copy_that_nobody_goes_on_with_is_in_nobodys_way(sender: Sender) -> None:
    """Links have brought the missing effects; else two regions without a folder wait for ever."""
    sender.checkpoints.staging = MemoryStaging()
    await sender.checkpoints.staging.begin(CUT)
    staging = MemoryStaging()
    await copied(sender.address, staging)
    assert staging.is_complete


async def test_a_receiver_may_acknowledge_the_effects_of_a_sent_state(sender: Sender) -> None:
    claims = sender.region.region.links._own.claims
    sender.region.region.outstanding.logged_vv = {PEER: 50}
    assert claims.elsewhere_n == 0
    await copied(sender.address, MemoryStaging())
    assert claims.elsewhere_n == 41, "as many as the state has"


async def test_the_log_behind_the_state_is_kept_while_it_is_sent(sender: Sender) -> None:
    retention = sender.region.region.retention
    await copied(sender.address, MemoryStaging())
    assert retention.will_have_vvs[HERE] == {2: 41, 3: 7}


async def test_a_copy_ends_when_the_log_has_grown_too_much(sender: Sender) -> None:
    retention = sender.region.region.retention
    log = sender.region.engine.log

    class Growing(Watched):
        async def before_put(self) -> None:
            if len(self.puts) == 3:
                await log.append([Record(PEER, n, n, b"batch" * 9, None) for n in range(1, 11)])

    retention.bootstrap.backlog_bytes_max = 100
    with pytest.raises(PeerError, match=r"ABORTED.*has grown by \d+ bytes.*bootstrap_backlog_size"):
        await copied(sender.address, cast(Staging, Growing(MemoryStaging())))


async def test_a_copy_to_a_peer_that_is_removed_ends(sender: Sender) -> None:
    class Removing(Watched):
        async def before_put(self) -> None:
            sender.region.change_peers({})

    sender.region.region.retention.bootstrap.bytes_per_s = 100_000
    with pytest.raises(PeerError, match="ABORTED: the copy has ended: it is no peer any more"):
        await copied(sender.address, cast(Staging, Removing(MemoryStaging())))
    assert sender.service.cuts == {}
    with pytest.raises(RefusedError, match="no member"):
        await copied(sender.address, MemoryStaging())


async def test_a_recovering_region_sends_its_state_too(sender: Sender) -> None:
    """Two that recover may each have what the other one lacks."""
    sender.region.region.opening.readiness.is_recovering = True
    await copied(sender.address, MemoryStaging())


async def test_many_calls_hold_no_more_than_a_few_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COPIES_MAX, "value", 2)
    async with Sender(tmp_path / "sender", address(), peers=4).running() as sender:
        await sender.write(NUMBERS)
        sender.region.region.retention.bootstrap.bytes_per_s = 200_000
        outcomes = await asyncio.gather(
            *(
                copied(sender.address, MemoryStaging(), asks=asked(region=region))
                for region in (1, 3, 4, 5) * 10
            ),
            return_exceptions=True,
        )
        assert len(sender.checkpoints._holds._holds) <= 2
        refused = [one for one in outcomes if isinstance(one, PeerError)]
        assert any("RESOURCE_EXHAUSTED" in str(one) for one in refused)
        assert any(isinstance(one, StagedCut) for one in outcomes)
        assert {type(one) for one in outcomes} <= {PeerError, StagedCut}
        # One that ended makes room for another.
        await sender.service.close()
        await copied(sender.address, MemoryStaging(), asks=asked(region=5))


async def test_a_receiver_that_has_its_state_makes_room_for_another_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COPIES_MAX, "value", 1)
    async with Sender(tmp_path / "sender", address(), peers=3).running() as sender:
        await sender.write(NUMBERS)
        cut = await copied(sender.address, MemoryStaging(), asks=asked(region=3))
        with pytest.raises(PeerError, match="RESOURCE_EXHAUSTED"):
            await copied(sender.address, MemoryStaging(), asks=asked(region=4))
        sender.region.region.knowledge.learn(RegionId(3), cut.vv)
        await copied(sender.address, MemoryStaging(), asks=asked(region=4))


async def test_a_copy_that_was_taken_over_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log behind the checkpoint may be cut, though nobody asks for another copy."""
    monkeypatch.setattr(LOOK_SECONDS, "value", 0.01)
    async with Sender(tmp_path / "sender", address(), peers=3).running() as sender:
        await sender.write(NUMBERS)
        watching = asyncio.create_task(sender.service.run())
        cut = await copied(sender.address, MemoryStaging(), asks=asked(region=3))
        await asyncio.sleep(0.05)
        assert sender.checkpoints._holds._holds
        sender.region.region.knowledge.learn(RegionId(3), cut.vv)
        await until(lambda: not sender.checkpoints._holds._holds, "no hold is left")
        watching.cancel()


async def test_an_earlier_version_vector_of_a_receiver_does_not_end_its_copy(
    tmp_path: Path,
) -> None:
    """It lost its folder, and does not have what it once said."""
    async with Sender(tmp_path / "sender", address(), peers=3).running() as sender:
        await sender.write(NUMBERS)
        sender.region.region.knowledge.learn(HERE, {PEER: 1_000, RegionId(3): 1_000})
        sender.region.region.retention.bootstrap.bytes_per_s = 20_000
        staging = MemoryStaging()
        running = asyncio.create_task(copied(sender.address, staging))
        await until(lambda: staging.sums.images)
        sender.region.region.retention.bootstrap.bytes_per_s = 0
        await copied(sender.address, MemoryStaging(), asks=asked(region=4))
        await running
        await check_whole(staging, NUMBERS)


async def test_a_backup_and_copies_are_made_at_the_same_time(sender: Sender) -> None:
    async with sender.checkpoints.hold(Purpose.BACKUP):
        await copied(sender.address, MemoryStaging())


async def test_an_image_that_no_message_takes_is_refused_by_its_sender(sender: Sender) -> None:
    sender.service._image_bytes_max = 30
    with pytest.raises(PeerError, match=r"DATA_LOSS: image \d+ has .*batch_bytes_max"):
        await copied(sender.address, MemoryStaging())


async def test_a_region_that_hangs_up_is_gone_on_with(sender: Sender) -> None:
    staging = MemoryStaging()
    sender.region.region.retention.bootstrap.bytes_per_s = 20_000
    running = asyncio.create_task(copied(sender.address, staging))
    await until(lambda: staging.sums.images)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    found = staging.staged()
    assert found is not None
    assert sender.service.cuts[HERE] == found[0]
    sender.region.region.retention.bootstrap.bytes_per_s = 0
    assert await copied(sender.address, staging) == found[0]
    await check_whole(staging, NUMBERS)


def test_an_image_on_its_way_is_the_one_that_is_kept() -> None:
    """All of it is under its checksum."""
    image = stagings.staged(6)
    assert image.is_sound
    others: list[StagedImage] = [
        image._replace(number=7),
        image._replace(kind=Kind.KEY),
        image._replace(owner=image.owner + 1),
        image._replace(lane=2),
        image._replace(head=image.head + b"x"),
        image._replace(body=image.body + b"x"),
        image._replace(head=image.head[:-1], body=image.head[-1:] + image.body),
        image._replace(crc=image.crc ^ 1),
    ]
    assert not any(one.is_sound for one in others)
