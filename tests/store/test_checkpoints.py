"""One contract for all checkpoints; and what only those on disk can do wrong."""

import contextlib
import gc
import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crdtstream.core.checkpoint.parts import STAGED, Image, Kind
from crdtstream.core.effects import Record
from crdtstream.core.frames import FramePacker
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.packing import pack, unpack
from crdtstream.store.checkpoints import (
    HOLD_IDLE_SECONDS,
    HOLD_SECONDS_MAX,
    CheckpointRow,
    Checkpoints,
    Hold,
    MemoryCheckpoints,
    Purpose,
)
from crdtstream.store.connections import PAGE_BYTES, STATEMENTS_KEPT
from crdtstream.store.errors import ImageError, LogCutError, StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Armed, Failpoints, refuse
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync, Log, MemoryLog
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.staging import MemoryStaging, Staged, StagedImage
from crdtstream.upkeep import image_rows
from tests.store import stagings

R1, R2 = RegionId(1), RegionId(2)


@contextlib.asynccontextmanager
async def opened(
    folder: Path, failpoints: Failpoints = NO_FAILPOINTS
) -> AsyncIterator[tuple[SqliteLog, SqliteCheckpoints]]:
    """A folder that is left as by a crash, whatever a test makes of it."""
    log = await SqliteLog.open(
        folder, region=R1, database_id="crdb", fsync=Fsync.NO, failpoints=failpoints
    )
    try:
        yield log, await SqliteCheckpoints.open(log)
    finally:
        await log.abandon()


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Log, Checkpoints]]:
    if request.param == "memory":
        log = MemoryLog()
        yield log, MemoryCheckpoints(log)
        return
    async with opened(tmp_path) as found:
        yield found


def data(n: int) -> bytes:
    """A MiB that cannot be made smaller."""
    return random.Random(n).randbytes(1 << 20)


def image(number: int, kind: Kind = Kind.NODE) -> Image:
    content = random.Random(number).randbytes(20 + number % 50)
    return Image(number, kind, number % 7, 1, content, content * (number % 9 + 1))


def images(first: int, last: int) -> list[Image]:
    return [image(number, Kind(number % 6)) for number in range(first, last + 1)]


async def append(log: Log, count: int) -> None:
    await log.append(
        [
            Record(R1, n, n, b"batch", None)
            for n in range(log.last_seq + 1, log.last_seq + count + 1)
        ]
    )


async def write(
    checkpoints: Checkpoints, put: list[Image], dropped: list[int], seq: int, *, verify: bool = True
) -> int:
    generation = await checkpoints.begin()
    await checkpoints.put(put)
    made = max((one.number for one in put), default=0)
    await checkpoints.commit(CheckpointRow(generation, seq, {R1: seq}, made, 5), dropped)
    if verify:
        await checkpoints.verify(generation)
    return generation


async def seen(checkpoints: Checkpoints, generation: int) -> list[int]:
    """The images of a checkpoint, each as it was put."""
    numbers = []
    async for some in checkpoints.heads(generation):
        for one in some:
            wanted = image(one.number, one.kind)
            is_node = one.kind is Kind.NODE
            assert one == (wanted._replace(body=b"") if is_node else wanted)
            if is_node:
                packed = await checkpoints.fetch([one.number])
                assert unpack(packed[one.number], size=len(wanted.body)) == wanted.body
            numbers.append(one.number)
    return numbers


# --- The contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dropped", [[2, 3, 4, 5], [5, 4, 3, 2], [2, 5], [5, 2, 3], [4]])
async def test_a_checkpoint_keeps_what_lies_between_what_it_drops(
    store: tuple[Log, Checkpoints], dropped: list[int]
) -> None:
    """Numbers side by side are named by the first and the last of them."""
    log, checkpoints = store
    await append(log, 2)
    await write(checkpoints, images(1, 8), [], 1)
    second = await write(checkpoints, images(9, 10), dropped, 2)
    left = [number for number in range(1, 11) if number not in dropped]
    assert await seen(checkpoints, second) == left
    await checkpoints.forget_before(second)
    assert await seen(checkpoints, second) == left


async def test_a_checkpoint_sees_what_was_put_and_not_dropped(
    store: tuple[Log, Checkpoints],
) -> None:
    log, checkpoints = store
    await append(log, 10)
    assert await checkpoints.newest() is None
    first = await write(checkpoints, images(1, 400), [], 4)
    second = await write(checkpoints, images(401, 500), [*range(1, 400, 3)], 9)
    kept = [number for number in range(1, 501) if number >= 400 or number % 3 != 1]
    assert await seen(checkpoints, second) == kept
    # The one before sees what it saw.
    assert await seen(checkpoints, first) == [*range(1, 401)]
    newest = await checkpoints.newest()
    assert newest is not None
    assert newest.row == CheckpointRow(second, 9, {R1: 9}, 500, 5)
    assert newest.images == len(kept)
    assert newest.is_verified
    before = await checkpoints.newest(before=second)
    assert before is not None
    assert before.row.generation == first

    await checkpoints.forget_before(second)
    assert await seen(checkpoints, second) == kept
    assert await checkpoints.newest(before=second) is None
    with pytest.raises(StoreError, match="image 1 "):
        await checkpoints.fetch([1])
    assert (await checkpoints.sizes()).images == newest.bytes


async def test_put_tells_the_packed_bodies_in_order(store: tuple[Log, Checkpoints]) -> None:
    _, checkpoints = store
    await checkpoints.begin()
    nodes = [image(number) for number in range(1, 700)]
    packed = await checkpoints.put(nodes)
    assert [
        unpack(frame, size=len(node.body)) for node, frame in zip(nodes, packed, strict=True)
    ] == [node.body for node in nodes]
    assert await checkpoints.put([Image(700, Kind.KEY, 0, 0, b"head", b"")]) == [b""]


async def test_images_of_an_uncommitted_checkpoint_are_removed_by_the_next_one(
    store: tuple[Log, Checkpoints],
) -> None:
    log, checkpoints = store
    await append(log, 10)
    first = await write(checkpoints, images(1, 20), [], 4)
    await checkpoints.begin()
    await checkpoints.put(images(21, 40))
    second = await write(checkpoints, images(41, 50), [1], 6)
    assert await seen(checkpoints, second) == [*range(2, 21), *range(41, 51)]
    assert second > first + 1


async def test_a_discarded_checkpoint_leaves_the_one_before_as_it_was(
    store: tuple[Log, Checkpoints],
) -> None:
    log, checkpoints = store
    await append(log, 10)
    first = await write(checkpoints, images(1, 20), [], 4)
    second = await write(checkpoints, images(21, 30), [3, 4], 6)
    await checkpoints.discard_after(first)
    newest = await checkpoints.newest()
    assert newest is not None
    assert newest.row.generation == first
    # The numbers of the images that are gone may be given again.
    third = await write(checkpoints, images(21, 25), [4], 6)
    assert third > second
    assert await seen(checkpoints, third) == [1, 2, 3, *range(5, 26)]


async def test_read_ahead_leaves_out_what_is_not_there(store: tuple[Log, Checkpoints]) -> None:
    log, checkpoints = store
    await append(log, 1)
    await write(checkpoints, [image(1), image(2)], [], 1)
    assert sorted(await checkpoints.fetch([1, 99, 2])) == [1, 2]
    with pytest.raises(StoreError, match="image 99"):
        await checkpoints.fetch([99, 1])


async def test_a_log_is_cut_behind_a_verified_checkpoint_only(
    store: tuple[Log, Checkpoints],
) -> None:
    log, checkpoints = store
    await append(log, 20)
    with pytest.raises(StoreError, match=r"cannot be cut behind row 1: .*Nothing was cut"):
        await checkpoints.cut_log(1)
    first = await write(checkpoints, images(1, 9), [], 8, verify=False)
    with pytest.raises(StoreError, match="cannot be cut"):
        await checkpoints.cut_log(8)
    await checkpoints.verify(first)
    with pytest.raises(StoreError, match="cannot be cut behind row 9"):
        await checkpoints.cut_log(9)
    await checkpoints.cut_log(8)
    # While the one before is kept, so are the rows that it needs.
    second = await write(checkpoints, images(10, 12), [1], 15)
    with pytest.raises(StoreError, match="cannot be cut"):
        await checkpoints.cut_log(15)
    await checkpoints.forget_before(second)
    await checkpoints.cut_log(12)
    assert (log.first_seq, log.begins, log.last_seq) == (13, {R1: 12}, 20)
    with pytest.raises(LogCutError):
        await log.read_from(12, bytes_max=1)
    assert [row.seq for row in await log.read_from(13, bytes_max=1 << 20)] == [*range(13, 21)]
    assert await log.seek({R1: 12}, [R1]) == 13
    with pytest.raises(LogCutError, match="effects 12 to 12 of region 1"):
        await log.seek({R1: 11}, [R1])
    assert await log.seek({}, [R2]) == 21
    # Also with no row left it goes on where it was.
    await append(log, 1)
    third = await write(checkpoints, images(13, 14), [], 21)
    await checkpoints.forget_before(third)
    await checkpoints.cut_log(21)
    assert (log.first_seq, log.last_seq) == (22, 21)
    await append(log, 1)
    assert log.last_seq == 22


# --- On disk --------------------------------------------------------------------------------------


async def test_checkpoints_outlive_their_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 20)
        await write(checkpoints, images(1, 300), [], 8)
        second = await write(checkpoints, images(301, 310), [1, 2], 15)
        await checkpoints.forget_before(second)
        await checkpoints.cut_log(14)
        # And one that never became any.
        await checkpoints.begin()
        await checkpoints.put(images(311, 330))
        told = await checkpoints.newest()
    async with opened(tmp_path) as (log, checkpoints):
        assert await checkpoints.newest() == told
        assert await seen(checkpoints, second) == [*range(3, 311)]
        assert (log.first_seq, log.begins, log.last_seq) == (15, {R1: 14}, 20)
        with pytest.raises(StoreError):
            await checkpoints.fetch([312])


STEPS = [
    *("checkpoint.begin", "checkpoint.put-bodies", "checkpoint.put", "checkpoint.drop"),
    *("checkpoint.commit", "checkpoint.committed", "checkpoint.verify", "checkpoint.verified"),
    *("checkpoint.forget", "checkpoint.forget-slice", "checkpoint.discard-slice"),
    *("log.cut", "log.cut-slice", "log.vacuum"),
]


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_is_refused_changes_nothing_and_can_be_done_again(
    tmp_path: Path, step: str
) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 700)
        await write(checkpoints, images(1, 20), [], 600)
        await checkpoints.begin()
        await checkpoints.put(images(21, 22))
    armed = Armed(step, refuse)

    async def next_one(checkpoints: Checkpoints) -> int:
        generation = await write(checkpoints, images(21, 30), [1, 2], 650)
        await checkpoints.forget_before(generation)
        await checkpoints.cut_log(640)
        return generation

    try:
        async with opened(tmp_path, armed) as (log, checkpoints):
            with pytest.raises(StoreError, match="refuses"):
                await next_one(checkpoints)
            newest = await checkpoints.newest()
            assert newest is not None
            await seen(checkpoints, newest.row.generation)
            if newest.row.seq == 600:
                await next_one(checkpoints)
    except StoreError:
        # What a crash had left could not be deleted at the start.
        assert step == "checkpoint.discard-slice"
    assert armed.counts[step]
    async with opened(tmp_path) as (log, checkpoints):
        newest = await checkpoints.newest()
        assert newest is not None
        if newest.row.seq == 600:
            await next_one(checkpoints)
        else:
            await checkpoints.verify(newest.row.generation)
            await checkpoints.forget_before(newest.row.generation)
            await checkpoints.cut_log(640)
        newest = await checkpoints.newest()
        assert newest is not None
        assert await seen(checkpoints, newest.row.generation) == [*range(3, 31)]
        assert (log.first_seq, log.last_seq) == (641, 700)


DAMAGE = {
    "a head": "UPDATE image SET head = zeroblob(length(head)) WHERE number = 305",
    "an owner": "UPDATE image SET owner = owner + 1 WHERE number = 305",
    "a body in its row": "UPDATE image SET body = zeroblob(length(body)) WHERE number = 307",
    "an image is missing": "DELETE FROM image WHERE number = 7",
    "an image came back": "UPDATE image SET died = NULL WHERE number = 1",
    "an image died": "UPDATE image SET died = 1 WHERE number = 9",
    "its row": "UPDATE checkpoint SET seq = seq - 1 WHERE generation = 2",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path, damage: str
) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 20)
        await write(checkpoints, images(1, 300), [], 8)
        await write(checkpoints, images(301, 310), [1, 2], 15, verify=False)
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute(DAMAGE[damage])
    async with opened(tmp_path) as (log, checkpoints):
        newest = await checkpoints.newest()
        assert newest is not None
        if newest.row.generation == 2:
            with pytest.raises(StoreError, match=r"checkpoint 2: .*is used while it is there"):
                await seen(checkpoints, 2)
            with pytest.raises(KeyError):
                await checkpoints.verify(2)
            newest = await checkpoints.newest()
            assert newest is not None
        assert newest.row.seq == 8
        if damage in ("an image is missing", "an image died"):
            # That one is lost to the one before as well; the log is whole, and it is all there is.
            with pytest.raises(StoreError, match="checkpoint 1: images are missing"):
                await seen(checkpoints, 1)
            assert await checkpoints.newest() is None
            await checkpoints.discard_after(0)
            await write(checkpoints, images(1, 30), [], 20)
            return
        assert await seen(checkpoints, 1) == [*range(1, 301)]
        await checkpoints.discard_after(1)
        third = await write(checkpoints, images(301, 302), [1], 16)
        assert await seen(checkpoints, third) == [*range(2, 303)]


async def test_without_a_sound_checkpoint_a_cut_log_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 20)
        await write(checkpoints, images(1, 30), [], 15)
        await checkpoints.cut_log(10)
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute("DELETE FROM image WHERE number = 7")
    async with opened(tmp_path) as (log, checkpoints):
        with pytest.raises(StoreError, match="images are missing"):
            await seen(checkpoints, 1)
        with pytest.raises(StoreError, match=r"begins with row 11, and no checkpoint .*backup"):
            await checkpoints.newest()


async def test_a_body_is_checked_when_it_is_read_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 2)
        await write(checkpoints, [image(1), image(2)], [], 1, verify=False)
        await log.connections.background.execute_fetchall(
            "UPDATE body SET packed = zeroblob(length(packed)) WHERE number = 2"
        )
        assert sorted(await checkpoints.fetch([1, 2])) == [1]
        with pytest.raises(StoreError, match=r"image 2 is damaged \(checksum\)"):
            await checkpoints.fetch([2, 1])
        with pytest.raises(StoreError, match=r"checkpoint 1: image 2 is damaged"):
            await checkpoints.verify(1)
        assert await checkpoints.newest() is None


LARGE = {
    n: Image(n, Kind.NODE, 1, 1, b"head", random.Random(n).randbytes(9_000)) for n in range(3, 400)
}


@pytest.mark.parametrize("number", [1, 3, 390, 1_024, 1_025, 1_100])
async def test_every_image_is_read_back_small_and_large(tmp_path: Path, number: int) -> None:
    """Small ones are read many at a time, large ones few: none may be left out in between."""
    put = [LARGE.get(n, image(n)) if n % 3 == 0 else image(n) for n in range(1, 1_101)]
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 2)
        await write(checkpoints, put, [], 1, verify=False)
        await checkpoints.verify(1)
        await log.connections.background.execute_fetchall(
            "UPDATE body SET packed = zeroblob(length(packed)) WHERE number = ?", (number,)
        )
        with pytest.raises(StoreError, match=f"checkpoint 1: image {number} is damaged"):
            await checkpoints.verify(1)


async def test_statements_with_many_rows_are_not_kept(tmp_path: Path) -> None:
    """There is one for each count of rows, and those of a hundred take 200 KiB each."""

    def statements() -> int:
        return sum(type(one).__name__ == "Statement" for one in gc.get_objects())

    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 1)
        before, number = statements(), 0
        await checkpoints.begin()
        for count in range(1, 61):
            await checkpoints.put([image(number + n) for n in range(1, count + 1)])
            number += count
        assert statements() <= before + STATEMENTS_KEPT.value


async def test_the_size_of_the_log_is_known_before_its_rows_are_counted(tmp_path: Path) -> None:
    """Of a log that a checkpoint has, a start reads nothing; whom it is kept for goes by this."""
    async with opened(tmp_path) as (log, checkpoints):
        await log.append([Record(R1, n, n, data(n)[:1_000], None) for n in range(1, 11)])
        generation = await checkpoints.begin()
        await checkpoints.commit(CheckpointRow(generation, log.last_seq, {R1: 10}, 0, 5), [])
        await checkpoints.verify(generation)
    async with opened(tmp_path) as (log, _):
        assert await log.bytes_from(6) == 5_000
        assert log.record_bytes() == 10_000


async def test_space_goes_back_to_the_file_system(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        for n in range(1, 41):
            await log.append([Record(R1, n, n, data(n), None)])
        before = (tmp_path / LOG_FILE).stat().st_size + log.connections.wal_path.stat().st_size
        assert before > 40 << 20
        await write(checkpoints, images(1, 9), [], 39)
        await checkpoints.cut_log(39)
        assert (tmp_path / LOG_FILE).stat().st_size < 10 << 20
        assert (await checkpoints.sizes()).log == 1 << 20


async def test_space_that_is_written_again_soon_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        for n in range(1, 41):
            await log.append([Record(R1, n, n, data(n), None)])
        await write(checkpoints, images(1, 9), [], 39)
        await checkpoints.cut_log(39, spare_bytes=16 << 20)
        assert 16 << 20 < (tmp_path / LOG_FILE).stat().st_size < 26 << 20


async def test_cut_records_are_not_overwritten_on_disk(tmp_path: Path) -> None:
    """As SQLite would where it was built to write zeros over what is deleted."""
    async with opened(tmp_path) as (log, checkpoints):
        for n in range(1, 12):
            await log.append([Record(R1, n, n, data(n), None)])
        await write(checkpoints, images(1, 9), [], 10)
        assert await log.connections.move_wal()
        await checkpoints.cut_log(10, spare_bytes=16 << 20)
        (told,) = await log.connections.keeper.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        _, pages_written, _ = told
        assert pages_written < (10 << 20) // PAGE_BYTES // 10


async def test_the_write_ahead_log_begins_anew_once_it_was_moved(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, _):
        sizes = []
        for _ in range(3):
            for n in range(log.last_seq + 1, log.last_seq + 11):
                await log.append([Record(R1, n, n, data(n), None)])
            sizes.append(log.connections.wal_path.stat().st_size)
            assert await log.connections.move_wal()
        assert sizes[0] > 10 << 20
        assert max(sizes) == sizes[0]


async def test_when_commits_are_durable_can_change_while_the_log_is_open(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, _):
        await log.confirm()
        assert await log.get_meta("fsync") == "no"
        await log.set_fsync(Fsync.ALWAYS)
        assert await log.get_meta("fsync") == "always"
        ((synchronous,),) = await log.connections.writer.execute("PRAGMA synchronous")
        assert synchronous == 2
        await append(log, 1)
    # A crash proves the folder now, and would not have before.
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    assert log.is_proven
    await log.set_fsync(Fsync.EVERYSEC)
    await log.abandon()
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    assert not log.is_proven
    await log.abandon()


async def test_a_lost_end_of_the_log_is_noticed(tmp_path: Path) -> None:
    """A damaged write-ahead log ends earlier, and SQLite says nothing of it."""
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    await log.confirm()
    await append(log, 3)
    await log.abandon()
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute("DELETE FROM log WHERE seq = 3")
    with pytest.raises(StoreError, match=r"rows 3 to 3 were acknowledged and are lost.*backup"):
        async with opened(tmp_path):
            pass


async def test_a_held_checkpoint_and_its_log_stay_until_they_are_released(
    store: tuple[Log, Checkpoints],
) -> None:
    log, checkpoints = store
    await append(log, 10)
    first = await write(checkpoints, images(1, 40), [], 4)
    async with checkpoints.hold() as hold:
        assert hold.checkpoint is not None
        assert hold.checkpoint.row.generation == first
        assert (hold.first_seq, hold.last_seq) == (1, 10)
        await append(log, 5)
        second = await write(checkpoints, images(41, 50), [*range(1, 30)], 15)
        await checkpoints.forget_before(second)
        await checkpoints.cut_log(15)
        assert log.first_seq == 1
        assert await seen(checkpoints, first) == [*range(1, 41)]
    await checkpoints.cut_log(15)
    assert log.first_seq == 16
    with pytest.raises(StoreError, match="the log begins with row 16"):
        await checkpoints.newest(before=second)
    assert await seen(checkpoints, second) == [*range(30, 51)]


async def test_a_crash_while_a_checkpoint_is_held_does_not_keep_the_log(tmp_path: Path) -> None:
    """No further checkpoint is needed for it, which an idle node would not write."""
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 10)
        first = await write(checkpoints, images(1, 40), [], 4)
        async with checkpoints.hold():
            await append(log, 5)
            second = await write(checkpoints, images(41, 50), [*range(1, 30)], 15)
            await checkpoints.forget_before(second)
            assert await seen(checkpoints, first) == [*range(1, 41)]
    async with opened(tmp_path) as (log, checkpoints):
        await checkpoints.cut_log(15)
        assert log.first_seq == 16
        assert await seen(checkpoints, second) == [*range(30, 51)]


# --- Sent to another region -----------------------------------------------------------------------


async def sent_images(
    checkpoints: Checkpoints, generation: int, *, bytes_max: int, after: int = 0
) -> list[StagedImage]:
    """All that is sent of a checkpoint, a piece at a time."""
    found: list[StagedImage] = []
    while some := await checkpoints.images(generation, after=after, bytes_max=bytes_max):
        found += some
        assert sum(one.bytes for one in some[:-1]) < bytes_max
        after = some[-1].number
    return found


@pytest.mark.parametrize("bytes_max", [1, 300, 1 << 20])
async def test_all_but_what_is_pending_is_sent_byte_for_byte(
    store: tuple[Log, Checkpoints], bytes_max: int
) -> None:
    log, checkpoints = store
    await append(log, 2)
    pending = [Image(number, Kind.PENDING, 1, 1, b"", b"pending") for number in (41, 44)]
    put = [stagings.image(number) for number in range(1, 41)]
    generation = await write(checkpoints, [*put, *pending, stagings.image(45)], [3, 7], 2)
    numbers = [*(number for number in range(1, 41) if number not in (3, 7)), 45]
    assert await sent_images(checkpoints, generation, bytes_max=bytes_max) == [
        stagings.staged(number) for number in numbers
    ]
    assert await sent_images(checkpoints, generation, bytes_max=bytes_max, after=39) == [
        stagings.staged(number) for number in (40, 45)
    ]
    assert await checkpoints.sent(generation) == stagings.cut_of(numbers).sums


async def test_of_a_checkpoint_of_nothing_nothing_is_sent(store: tuple[Log, Checkpoints]) -> None:
    _, checkpoints = store
    generation = await write(checkpoints, [], [], 0)
    assert await checkpoints.images(generation, after=0, bytes_max=1) == []
    assert await checkpoints.sent(generation) == Staged()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE body SET packed = zeroblob(length(packed)) WHERE number = 6",
        "UPDATE image SET owner = owner + 1 WHERE number = 6",
        "DELETE FROM body WHERE number = 6",
    ],
)
async def test_a_damaged_image_is_not_sent(tmp_path: Path, change: str) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 2)
        generation = await write(checkpoints, [stagings.image(n) for n in range(1, 10)], [], 2)
        await log.connections.background.execute_fetchall(change)
        assert len(await checkpoints.images(generation, after=6, bytes_max=1 << 20)) == 3
        with pytest.raises(StoreError, match=r"log\.sqlite: .*image 6 .*cannot be sent"):
            await checkpoints.images(generation, after=0, bytes_max=1 << 20)


async def test_a_checkpoint_that_lacks_an_image_is_not_sent(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 2)
        generation = await write(checkpoints, [stagings.image(n) for n in range(1, 10)], [], 2)
        await log.connections.background.execute_fetchall("DELETE FROM image WHERE number = 6")
        with pytest.raises(StoreError, match="images are missing, or too many"):
            await checkpoints.sent(generation)


async def test_sending_a_checkpoint_does_not_hold_the_write_ahead_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 2)
        generation = await write(checkpoints, [stagings.image(n) for n in range(1, 100)], [], 2)
        after = 0
        while some := await checkpoints.images(generation, after=after, bytes_max=1_000):
            after = some[-1].number
            await append(log, 1)
            assert await log.connections.move_wal()


async def test_several_hold_at_once_what_each_of_them_needs(store: tuple[Log, Checkpoints]) -> None:
    log, checkpoints = store
    await append(log, 10)
    first = await write(checkpoints, images(1, 40), [], 4)
    async with contextlib.AsyncExitStack() as one, contextlib.AsyncExitStack() as other:
        held = await one.enter_async_context(checkpoints.hold(Purpose.BOOTSTRAP))
        second = await write(checkpoints, images(41, 50), [*range(1, 10)], 8)
        await checkpoints.forget_before(second)
        later = await other.enter_async_context(checkpoints.hold(Purpose.BOOTSTRAP))
        third = await write(checkpoints, images(51, 60), [*range(10, 20)], 10)
        await checkpoints.forget_before(third)
        assert held.checkpoint is not None
        assert later.checkpoint is not None
        assert held.checkpoint.row.generation == first
        assert later.checkpoint.row.generation == second
        assert await seen(checkpoints, first) == [*range(1, 41)]
        await one.aclose()
        await checkpoints.cut_log(10)
        assert log.first_seq == 9
        assert await seen(checkpoints, second) == [*range(10, 51)]
        await other.aclose()
    await checkpoints.cut_log(10)
    assert log.first_seq == 11
    assert await seen(checkpoints, third) == [*range(20, 61)]


async def test_a_bootstrap_holds_the_log_behind_its_checkpoint_only(
    store: tuple[Log, Checkpoints],
) -> None:
    """The other region pulls that next; all before it comes with the images."""
    log, checkpoints = store
    await append(log, 10)
    await write(checkpoints, images(1, 40), [], 4)
    async with checkpoints.hold(Purpose.BOOTSTRAP):
        second = await write(checkpoints, images(41, 50), [1], 9)
        await checkpoints.forget_before(second)
        await checkpoints.cut_log(9)
        assert log.first_seq == 5
    await checkpoints.cut_log(9)
    assert log.first_seq == 10


def test_a_bootstrap_lasts_as_long_as_parts_move() -> None:
    now = 0.0
    backup = Hold(None, 1, 1, clock=lambda: now)
    bootstrap = Hold(None, 1, 1, clock=lambda: now, purpose=Purpose.BOOTSTRAP)
    step = HOLD_IDLE_SECONDS.value - 0.5
    while now + step < HOLD_SECONDS_MAX.value:
        now += step
        backup.go_on()
        bootstrap.go_on()
    now += step
    assert not backup.lasts
    bootstrap.go_on()
    now += HOLD_IDLE_SECONDS.value
    assert not bootstrap.lasts
    with pytest.raises(StoreError, match=r"nothing was taken for \d+ s: the node"):
        bootstrap.go_on()


# --- Images of a staging --------------------------------------------------------------------------


async def test_numbers_of_the_staging_are_read_from_there(store: tuple[Log, Checkpoints]) -> None:
    log, checkpoints = store
    await append(log, 1)
    await write(checkpoints, [image(1), image(2)], [], 1)
    staging = MemoryStaging()
    await stagings.stage(staging, [2, 3, 6])
    checkpoints.staging = staging
    wanted = stagings.staged(6).body
    assert checkpoints.load(STAGED + 6) == wanted
    assert checkpoints.load(1) == (await checkpoints.fetch([1]))[1]
    found = await checkpoints.fetch([STAGED + 6, 1, STAGED + 3, 99, STAGED + 99])
    assert sorted(found) == [1, STAGED + 3, STAGED + 6]
    assert found[STAGED + 6] == wanted
    # What is read ahead keeps nobody from what is waited for.
    assert sorted(await checkpoints.fetch([1, STAGED + 99, STAGED + 6])) == [1]
    for missing in (STAGED + 99, 99):
        with pytest.raises(StoreError, match="image 99 "):
            await checkpoints.fetch([missing, 1, STAGED + 6])
    with pytest.raises(ImageError, match="image 99 "):
        checkpoints.load(STAGED + 99)


async def test_without_a_staging_its_numbers_cannot_be_read(store: tuple[Log, Checkpoints]) -> None:
    log, checkpoints = store
    await append(log, 1)
    await write(checkpoints, [image(1)], [], 1)
    with pytest.raises(StoreError, match=r"image 6 is in the staging .*no staging is open"):
        await checkpoints.fetch([STAGED + 6, 1])
    with pytest.raises(ImageError, match=r"image 6 is in the staging .*no staging is open"):
        checkpoints.load(STAGED + 6)
    assert sorted(await checkpoints.fetch([1, STAGED + 6])) == [1]


async def test_a_body_that_is_packed_is_written_as_it_is(store: tuple[Log, Checkpoints]) -> None:
    log, checkpoints = store
    await append(log, 1)
    # As no node packs it here: it would be another one if it were packed again.
    frames = [FramePacker(level=19, has_checksum=True).pack(image(n).body) for n in (2, 3)]
    put = [
        image(1),
        *(
            image(n)._replace(body=frame, is_packed=True)
            for n, frame in zip((2, 3), frames, strict=True)
        ),
    ]
    assert frames[0] != pack(image(2).body)
    generation = await checkpoints.begin()
    assert await checkpoints.put(put) == [pack(image(1).body), *frames]
    await checkpoints.commit(CheckpointRow(generation, 1, {R1: 1}, 3, 5), [])
    await checkpoints.verify(generation)
    # With the bodies' own sizes, or they could not be unpacked.
    assert await seen(checkpoints, generation) == [1, 2, 3]
    assert await checkpoints.fetch([2, 3]) == dict(zip((2, 3), frames, strict=True))
    newest = await checkpoints.newest()
    assert newest is not None
    assert newest.bytes == sum(len(one.head) for one in put) + len(pack(image(1).body)) + sum(
        map(len, frames)
    )


async def test_a_body_that_arrived_packed_is_sound_for_folder_readers(tmp_path: Path) -> None:
    """As fsck and backups do: a row says how large the body is that comes out of the frame."""
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 1)
        put = [image(1), image(2)._replace(body=pack(image(2).body), is_packed=True)]
        await write(checkpoints, put, [], 1)
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection:
        found = [*image_rows.images(connection, 1)]
    assert [one.damage for one in found] == ["", ""]
    assert [one.image() for one in found] == [image(1), image(2)]
