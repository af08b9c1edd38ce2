"""A log whose end is lost is not taken for a shorter one, in whatever folder it stands."""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store import acknowledged
from crdtstream.store.acknowledged import ACKNOWLEDGED_FILE
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.lost_end import find_loss
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.wal import FRAME_HEADER_BYTES, HEADER_BYTES, check_wal
from crdtstream.upkeep.check_report import Verdict
from crdtstream.upkeep.fsck import check_folder

R1 = RegionId(1)
ROWS = 200
SYNCED = 120
PAGE_BYTES = 4096
BLOCK_BYTES = 4096
SECTOR_BYTES = 512
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES
WAL_FILE = f"{LOG_FILE}-wal"
LOST = r"(to 200 were acknowledged|what was written behind row \d+) .*lost.*backup.*--accept-loss"


async def open_log(
    folder: Path, fsync: Fsync = Fsync.ALWAYS, on_loss: Mapping[str, str] | None = None
) -> SqliteLog:
    return await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=fsync, on_loss=on_loss)


async def image_of(folder: Path, fsync: Fsync, rows: int = ROWS) -> Path:
    """The files of a node that was killed, copied; all its rows are in the write-ahead log."""
    log = await open_log(folder / "region", fsync)
    await log.confirm()
    for n in range(1, rows + 1):
        await log.append([Record(R1, n, n, b"batch", None)])
        if n == SYNCED:
            await log.sync()
    shutil.copytree(folder / "region", folder / "image")
    await log.abandon()
    return folder / "image"


def whole(image: Path) -> None:
    """As cp -r and rsync copy it."""
    assert image.exists()


def log_only(image: Path) -> None:
    """As ``cp log.sqlite*`` does."""
    for path in image.iterdir():
        if not path.name.startswith(LOG_FILE):
            path.unlink()


def without_acknowledged(image: Path) -> None:
    (image / ACKNOWLEDGED_FILE).unlink()


def frames_of(image: Path) -> int:
    return check_wal(image / WAL_FILE).committed


def flip(image: Path, frame: int, at: int = 1000) -> None:
    """Change a bit of a frame, counted from 0."""
    wal = image / WAL_FILE
    data = bytearray(wal.read_bytes())
    data[HEADER_BYTES + frame * FRAME_BYTES + at] ^= 1
    wal.write_bytes(data)


def cut(image: Path, frame: int) -> None:
    """Make zeros of a frame and all behind it, as of blocks that were never written."""
    wal = image / WAL_FILE
    data = wal.read_bytes()
    kept = data[: HEADER_BYTES + frame * FRAME_BYTES]
    wal.write_bytes(kept + bytes(len(data) - len(kept)))


@pytest.fixture
def machine_was_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has what is opened from then on believe that it runs on another boot of the machine."""

    def go_down() -> None:
        (tmp_path / "boot_id").write_text("another one")
        monkeypatch.setattr(acknowledged, "BOOT_ID", tmp_path / "boot_id")

    return go_down


def is_damage(folder: Path) -> bool:
    """True if fsck finds that the end is lost."""
    return any(
        check.verdict is Verdict.DAMAGE and check.name in {"WAL", "settings"}
        for check in check_folder(folder).checks
    )


async def last_row(image: Path, fsync: Fsync = Fsync.ALWAYS) -> int:
    log = await open_log(image, fsync)
    await log.abandon()
    return log.last_seq


EVERY_COPY = [
    (fsync, copy, is_other_boot)
    for fsync in (Fsync.ALWAYS, Fsync.EVERYSEC)
    for copy in (whole, log_only, without_acknowledged)
    for is_other_boot in (False, True)
    # A power cut may leave it like that.
    if (fsync, copy, is_other_boot) != (Fsync.EVERYSEC, whole, True)
]


@pytest.mark.long
@pytest.mark.parametrize(("fsync", "copy", "is_other_boot"), EVERY_COPY)
async def test_damage_in_the_middle_is_refused_in_every_copy(
    tmp_path: Path,
    fsync: Fsync,
    copy: Callable[[Path], None],
    machine_was_down: Callable[[], None],
    *,
    is_other_boot: bool,
) -> None:
    image = await image_of(tmp_path, fsync)
    copy(image)
    sound = shutil.copytree(image, tmp_path / "sound")
    flip(image, frames_of(image) * 4 // 5)
    if is_other_boot:
        machine_was_down()
    assert is_damage(shutil.copytree(image, tmp_path / "checked"))
    before = (image / WAL_FILE).read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match=LOST):
            await open_log(image, fsync)
    assert (image / WAL_FILE).read_bytes() == before
    # What is not damaged is opened.
    assert not is_damage(sound)
    assert await last_row(sound, fsync) == ROWS


@pytest.mark.parametrize("copy", [whole, log_only])
async def test_a_lost_block_of_the_disk_is_noticed_wherever_it_is(
    tmp_path: Path, copy: Callable[[Path], None]
) -> None:
    """Nearly each block has the header of a frame; the setting `opening` is in one of the first."""
    # A clean stop before: without the first frames the settings are those of the run before.
    log = await open_log(tmp_path / "region")
    await log.confirm()
    await log.close()
    image = await image_of(tmp_path, Fsync.ALWAYS, rows=40)
    copy(image)
    wal = image / WAL_FILE
    sound = wal.read_bytes()
    ends = HEADER_BYTES + frames_of(image) * FRAME_BYTES
    assert find_loss(image / LOG_FILE) is None
    # With a block of the last frame nothing behind it is there to show it.
    for size in (BLOCK_BYTES, SECTOR_BYTES):
        blocks = range(0, ends - 2 * FRAME_BYTES - size, BLOCK_BYTES)
        starts = [start for start in blocks if any(sound[start : start + size])]
        assert len(starts) > 20
        missed = []
        for start in starts:
            wal.write_bytes(sound[:start] + bytes(size) + sound[start + size :])
            if find_loss(image / LOG_FILE) is None:
                missed.append(start)
        assert missed == []
    middle = ends // 2 // BLOCK_BYTES * BLOCK_BYTES
    wal.write_bytes(sound[:middle] + bytes(BLOCK_BYTES) + sound[middle + BLOCK_BYTES :])
    assert is_damage(image)


@pytest.mark.parametrize("at", [0, 8, 16, 20, FRAME_HEADER_BYTES, FRAME_BYTES - 1])
async def test_damage_anywhere_in_a_frame_is_refused(tmp_path: Path, at: int) -> None:
    image = await image_of(tmp_path, Fsync.ALWAYS)
    log_only(image)
    flip(image, frames_of(image) // 2, at)
    with pytest.raises(StoreError, match=LOST):
        await open_log(image)


async def test_a_database_that_passes_over_its_write_ahead_log_is_refused(tmp_path: Path) -> None:
    image = await image_of(tmp_path, Fsync.ALWAYS)
    log_only(image)
    data = bytearray((image / LOG_FILE).read_bytes())
    data[18:20] = b"\x01\x01"
    (image / LOG_FILE).write_bytes(data)
    assert is_damage(shutil.copytree(image, tmp_path / "checked"))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"holds commits that log\.sqlite ignores"):
            await open_log(image)


async def test_a_copy_of_which_nothing_can_be_read_is_not_taken_for_new(tmp_path: Path) -> None:
    image = await image_of(tmp_path, Fsync.ALWAYS)
    log_only(image)
    flip(image, 0)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"no table can be read.*frame 1 is damaged"):
            await open_log(image, on_loss={})


async def test_a_power_cut_takes_what_was_not_synced_and_no_more(
    tmp_path: Path, machine_was_down: Callable[[], None]
) -> None:
    image = await image_of(tmp_path, Fsync.EVERYSEC)
    early = shutil.copytree(image, tmp_path / "early")
    frames = frames_of(image)
    cut(image, frames * 4 // 5)
    cut(early, frames * 2 // 5)
    machine_was_down()
    with pytest.raises(StoreError, match=rf"to {SYNCED} were acknowledged and are lost"):
        await open_log(early, Fsync.EVERYSEC)
    assert SYNCED < await last_row(image, Fsync.EVERYSEC) < ROWS


async def test_a_power_cut_may_take_the_middle_of_what_was_not_synced(
    tmp_path: Path, machine_was_down: Callable[[], None]
) -> None:
    """Nothing orders the blocks of a file between two syncs."""
    image = await image_of(tmp_path, Fsync.EVERYSEC)
    early = shutil.copytree(image, tmp_path / "early")
    frames = frames_of(image)
    flip(image, frames * 4 // 5)
    flip(early, frames * 2 // 5)
    machine_was_down()
    assert is_damage(shutil.copytree(early, tmp_path / "checked early"))
    with pytest.raises(StoreError, match=rf"to {SYNCED} were acknowledged and are lost"):
        await open_log(early, Fsync.EVERYSEC)
    assert not is_damage(shutil.copytree(image, tmp_path / "checked"))
    assert SYNCED < await last_row(image, Fsync.EVERYSEC) < ROWS


@pytest.mark.parametrize("copy", [whole, log_only])
async def test_a_lost_end_that_peers_give_back_is_told_and_kept(
    tmp_path: Path, copy: Callable[[Path], None]
) -> None:
    image = await image_of(tmp_path, Fsync.ALWAYS)
    copy(image)
    flip(image, frames_of(image) // 2)
    damaged = (image / WAL_FILE).read_bytes()
    with capture_logs() as lines:
        log = await open_log(image, on_loss={"database_declared": "yes"})
    (told,) = [line for line in lines if "the end of the log is lost" in line["event"]]
    assert told["lost"].endswith("lost")
    assert Path(told["damaged_file_kept"]).read_bytes() == damaged
    assert not log.is_proven
    assert await log.get_meta("database_declared") == "yes"
    left = log.last_seq
    assert 0 < left < ROWS

    # It proves nothing before peers have answered, and is no damage any more.
    second = shutil.copytree(image, tmp_path / "second")
    await log.append([Record(R1, left + 1, left + 1, b"batch", None)])
    third = shutil.copytree(image, tmp_path / "third")
    await log.abandon()
    for folder, rows in ((second, left), (third, left + 1), (image, left + 1)):
        assert check_wal(folder / WAL_FILE).damage == ""
        log = await open_log(folder)
        assert (log.is_proven, log.last_seq) == (False, rows)
        await log.abandon()
        assert not is_damage(folder)


async def test_a_loss_in_place_is_asked_for_at_the_next_start_too(tmp_path: Path) -> None:
    image = await image_of(tmp_path, Fsync.ALWAYS)
    # Where its node has gone on with it, it is no copy any more.
    log = await open_log(image)
    await log.confirm()
    await log.append([Record(R1, ROWS + 1, ROWS + 1, b"batch", None)])
    await log.abandon()
    assert log.last_seq == ROWS + 1
    log = await open_log(image)
    assert log.is_proven
    await log.abandon()
    with contextlib.closing(sqlite3.connect(image / LOG_FILE)) as connection, connection:
        connection.execute("DELETE FROM log WHERE seq > 150")
    with pytest.raises(StoreError, match="rows 151 to 201 were acknowledged and are lost"):
        await open_log(image)
    ways: tuple[dict[str, str] | None, ...] = ({}, None)
    for on_loss in ways:
        log = await open_log(image, on_loss=on_loss)
        assert (log.is_proven, log.last_seq) == (False, 150)
        await log.abandon()


def test_the_rest_of_a_transaction_that_was_cut_off_is_no_damage(tmp_path: Path) -> None:
    """Frames written over its beginning leave its later frames behind, whole and uncommitted."""
    path, copy = tmp_path / "one", tmp_path / "two"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA cache_size = 10")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (zeroblob(4000))", [()] * 50)
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", f"{copy}-wal")
        connection.execute("ROLLBACK")
    state = check_wal(Path(f"{copy}-wal"))
    assert state.frames > state.committed + 20
    assert state.unfinished
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        after = check_wal(Path(f"{copy}-wal"))
    assert after.committed > state.committed
    assert after.damage == ""
