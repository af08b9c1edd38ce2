"""Every changed byte of a small folder is harmless, or it is found."""

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from crdtstream.store.connections import PAGE_BYTES
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.layout import StoredCheckpoint
from crdtstream.upkeep.check_report import Verdict
from crdtstream.upkeep.folder_reading import UpkeepError, connect, read_meta, rows
from crdtstream.upkeep.image_rows import checkpoints, images
from tests.upkeep.folders import checked, checkpointed, golden, killed, stopped

WAL_FILE = f"{LOG_FILE}-wal"
# Bytes that the short tests change.
SAMPLES = 300
# Parts of the long ones, each a test of its own.
STRIPES = 16


def content(folder: Path) -> object:
    """Everything that a node would read of a folder."""
    connection = connect(folder / LOG_FILE)
    try:
        found = [(row.logged, row.damage) for row in rows(connection)]
        states = [
            # Whether it is verified a start finds out again.
            (None if stored is None else stored.verified(), is_sound, seen(connection, stored))
            for stored, is_sound in checkpoints(connection)
        ]
        return sorted(read_meta(connection).items()), found, states
    finally:
        connection.close()


def seen(connection: sqlite3.Connection, stored: StoredCheckpoint | None) -> object:
    """Rows that a checkpoint sees, except for the end of their visibility."""
    if stored is None:
        return None
    found = images(connection, stored.row.generation)
    return [(one.row, one.packed, one.damage) for one in found]


def is_found(folder: Path) -> bool:
    try:
        report = checked(folder)
    except UpkeepError:
        return True
    return any(check.verdict is not Verdict.SOUND for check in report.checks)


def missed(folder: Path, name: str, places: Iterable[int], seed: int) -> list[int]:
    """Places of a file where a changed byte is neither harmless nor found."""
    source = random.Random(seed)
    sound = {path.name: path.read_bytes() for path in folder.iterdir()}
    wanted = content(folder)
    work = folder.with_name("work")
    found = []
    for place in places:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for other, data in sound.items():
            (work / other).write_bytes(data)
        changed = bytearray(sound[name])
        changed[place] ^= source.choice((1 << source.randrange(8), 0xFF))
        (work / name).write_bytes(changed)
        if not is_found(work) and content(work) != wanted:
            found.append(place)
    return found


def some(size: int, seed: int) -> list[int]:
    return random.Random(seed).sample(range(size), min(SAMPLES, size))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_some_flips_of_a_stopped_folder(tmp_path: Path, seed: int) -> None:
    folder = golden(tmp_path / "folder")
    size = (folder / LOG_FILE).stat().st_size
    assert missed(folder, LOG_FILE, some(size, seed), seed) == []


@pytest.mark.parametrize("seed", [1])
async def test_some_flips_of_a_folder_of_this_format(tmp_path: Path, seed: int) -> None:
    folder = await stopped(tmp_path / "folder")
    data = (folder / LOG_FILE).read_bytes()
    # Those that say something: the most are zeros.
    places = [place for place in some(len(data), seed) if data[place]]
    at = data.index(b"database_idcrdb")
    assert missed(folder, LOG_FILE, [*places, *range(at - 100, at + 100)], seed) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
async def test_some_flips_of_a_wal(tmp_path: Path, seed: int) -> None:
    folder = await killed(tmp_path / "folder")
    size = (folder / WAL_FILE).stat().st_size
    assert missed(folder, WAL_FILE, some(size, seed), seed) == []


def of_images(folder: Path) -> list[int]:
    """Places of the pages of images, bodies and checkpoints that say something."""
    query = "SELECT pageno FROM dbstat WHERE name IN ('image', 'image_dead', 'body', 'checkpoint')"
    data = (folder / LOG_FILE).read_bytes()
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection:
        pages = [page - 1 for (page,) in connection.execute(query)]
    places = [at for page in pages for at in range(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)]
    return [place for place in places if data[place]]


@pytest.mark.parametrize("seed", [1])
async def test_some_flips_of_a_checkpoint(tmp_path: Path, seed: int) -> None:
    folder = await made_checkpointed(tmp_path / "folder")
    places = random.Random(seed).sample(of_images(folder), SAMPLES)
    assert missed(folder, LOG_FILE, places, seed) == []


async def made_checkpointed(folder: Path) -> Path:
    async with checkpointed(folder):
        pass
    return folder


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stripe", range(STRIPES))
async def test_every_flip_of_a_checkpoint(tmp_path: Path, stripe: int) -> None:
    folder = await made_checkpointed(tmp_path / "folder")
    assert missed(folder, LOG_FILE, of_images(folder)[stripe::STRIPES], stripe) == []


def names_of_meta(log: bytes) -> set[int]:
    """Places that name the folder's owner: another name there is as good as this one."""
    places = set()
    for name, value in ((b"database_id", b"crdb"), (b"region", b"1")):
        at = log.index(name + value) + len(name)
        places |= {*range(at, at + len(value))}
    return places


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stripe", range(STRIPES))
def test_every_flip_of_a_stopped_folder(tmp_path: Path, stripe: int) -> None:
    folder = golden(tmp_path / "folder")
    size = (folder / LOG_FILE).stat().st_size
    found = missed(folder, LOG_FILE, range(stripe, size, STRIPES), stripe)
    # The node itself refuses a folder of another region or database than its settings say.
    assert {*found} <= names_of_meta((folder / LOG_FILE).read_bytes())


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stripe", range(STRIPES))
async def test_every_flip_of_a_folder_of_this_format(tmp_path: Path, stripe: int) -> None:
    folder = await stopped(tmp_path / "folder")
    size = (folder / LOG_FILE).stat().st_size
    assert missed(folder, LOG_FILE, range(stripe, size, STRIPES), stripe) == []


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stripe", range(STRIPES))
async def test_every_flip_of_a_wal(tmp_path: Path, stripe: int) -> None:
    folder = await killed(tmp_path / "folder")
    size = (folder / WAL_FILE).stat().st_size
    assert missed(folder, WAL_FILE, range(stripe, size, STRIPES), stripe) == []
