"""Every single byte of a folder that changes is harmless, or it is noticed.

What a start makes of a folder with one changed byte is compared with what it was: settings, rows,
newest checkpoint with all its images and bodies.  It is the same, or there is a StoreError; never
something else.  An earlier checkpoint and more of the log are the same state.
"""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.opening import OPENED_FILE
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from tests.store.test_checkpoints import images, seen, write

R1 = RegionId(1)
ROWS: Final = 30
PAGE: Final = 4096
# What the folder says of itself, and which of it a start writes anew.
OWN_SETTINGS: Final = ("checksum", "clean_shutdown", "fsync", "log_last", "opening")
FILES: Final = (LOG_FILE, f"{LOG_FILE}-wal", f"{LOG_FILE}-shm", "acknowledged", OPENED_FILE)


class State(NamedTuple):
    """The state that a start finds.

    Attributes:
        checkpoint: position of the log that it goes on from, and the images that it sees.
    """

    settings: dict[str, str]
    rows: list[Record]
    checkpoint: tuple[int, list[int]]


async def open_log(folder: Path) -> SqliteLog:
    return await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)


async def make(folder: Path) -> None:
    """A folder as a killed process leaves it: most in the database, the newest in the -wal."""
    work = folder.with_name("work")
    log = await open_log(work)
    try:
        checkpoints = await SqliteCheckpoints.open(log)
        await log.confirm()
        await log.set_meta("tune:x", "y")
        await log.append([Record(R1, n, n, b"batch %d" % n, None) for n in range(1, 21)])
        first = await write(checkpoints, images(1, 60), [], 12)
        await checkpoints.forget_before(first)
        await checkpoints.cut_log(10)
        await write(checkpoints, images(61, 70), [1, 2, 3], 18, verify=False)
        await log.connections.move_wal()
        for n in range(21, ROWS + 1):
            await log.append([Record(R1, n, n, b"batch %d" % n, b"local")])
        shutil.copytree(work, folder)
    finally:
        await log.abandon()


async def read(folder: Path) -> State:
    """Read the folder as a node does that starts there.

    Raises:
        StoreError: it does not start.
    """
    log = await open_log(folder)
    try:
        checkpoints = await SqliteCheckpoints.open(log)
        newest = await checkpoints.newest()
        numbers: list[int] = []
        if newest is not None:
            try:
                numbers = await seen(checkpoints, newest.row.generation)
            except StoreError:
                newest = await checkpoints.newest()
                assert newest is not None
                numbers = await seen(checkpoints, newest.row.generation)
        seq = log.first_seq
        rows: list[Record] = []
        while found := await log.read_from(seq, bytes_max=1 << 20):
            rows += [logged.record for logged in found]
            seq = found[-1].seq + 1
        settings = {key: value for key, value in log.meta.items() if key not in OWN_SETTINGS}
        assert await log.seek({R1: ROWS - 1}, [R1]) == ROWS
        return State(settings, rows, (0 if newest is None else newest.row.seq, numbers))
    finally:
        await log.abandon()


EARLIER: Final = (12, [*range(1, 61)])


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for folders that are copied often; a copy proves as much as what it is a copy of."""
    monkeypatch.setattr("crdtstream.store.opening._file_of", lambda *_: "1:1:1")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path) / "folder"


def positions(content: bytes, rng: random.Random, per_page: int) -> list[int]:
    """Some of each page, the first bytes of the file, where headers are, among them; or all."""
    if per_page == PAGE:
        return [*range(len(content))]
    headers = range(min(100, len(content)))
    chosen = set(rng.sample(headers, min(per_page, len(headers))))
    for page in range(0, len(content), PAGE):
        end = min(page + PAGE, len(content))
        chosen |= {rng.randrange(page, end) for _ in range(per_page)}
        chosen |= {rng.randrange(page, min(page + 60, end)) for _ in range(per_page)}
    return sorted(chosen)


@pytest.mark.parametrize(
    "per_page",
    [
        pytest.param(1, id="some"),
        pytest.param(40, id="many", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
        pytest.param(PAGE, id="all", marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
)
async def test_a_changed_byte_is_harmless_or_noticed(folder: Path, per_page: int) -> None:
    await make(folder)
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    wanted = await read(copy)
    assert wanted.checkpoint[0] == 18
    assert len(wanted.rows) == ROWS - 10
    shutil.rmtree(copy)
    rng = random.Random(4711)
    noticed = harmless = 0
    for name in FILES:
        content = (folder / name).read_bytes()
        for position in positions(content, rng, per_page):
            bit = 1 << rng.randrange(8)
            shutil.copytree(folder, copy)
            with (copy / name).open("r+b") as file:
                file.seek(position)
                file.write(bytes([content[position] ^ bit]))
            try:
                found = await read(copy)
            except StoreError:
                noticed += 1
            else:
                where = f"{name}, byte {position}, bit {bit}"
                assert found.settings == wanted.settings, where
                assert found.rows == wanted.rows, where
                assert found.checkpoint in (wanted.checkpoint, EARLIER), where
                harmless += 1
            shutil.rmtree(copy)
    assert noticed
    assert harmless
