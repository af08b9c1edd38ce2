"""An empty folder is new only if its database has never been in it."""

import json
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.marker import EmptyFolder, Marker, marker_path, read_marker
from crdtstream.store.meta import UID_KEY
from crdtstream.store.sqlite import SqliteLog

R1, R2 = RegionId(1), RegionId(2)
UID = "00112233445566778899aabbccddeeff"
REFUSED = r"has held region 1 of database 'crdb', identity 0011.*with --new-database"


async def open_log(
    folder: Path,
    *,
    region: RegionId = R1,
    database_id: str = "crdb",
    empty: EmptyFolder = EmptyFolder.IS_NEW_IF_UNMARKED,
) -> SqliteLog:
    return await SqliteLog.open(
        folder, region=region, database_id=database_id, fsync=Fsync.ALWAYS, empty=empty
    )


async def use(log: SqliteLog, uid: str = UID) -> None:
    """Use the log as a node does before it acknowledges; then the node ends."""
    await log.set_meta(UID_KEY, uid)
    await log.confirm()
    await log.append([Record(R1, 1, 1, b"batch", None)])
    await log.abandon()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder that a region has been in."""
    folder = tmp_path / "region-1"
    await use(await open_log(folder))
    return folder


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def truncate(folder: Path) -> None:
    empty(folder)
    (folder / LOG_FILE).touch()


@pytest.mark.parametrize("harm", [delete, move, empty, truncate])
async def test_an_emptied_folder_is_not_taken_for_new(folder: Path, harm: object) -> None:
    assert callable(harm)
    harm(folder)
    for _ in range(2):
        with pytest.raises(StoreError, match=REFUSED):
            await open_log(folder)


async def test_a_refused_start_makes_nothing_in_the_folder(folder: Path) -> None:
    """So a backup can be restored into it."""
    delete(folder)
    with pytest.raises(StoreError, match=REFUSED):
        await open_log(folder)
    assert not folder.exists()


async def test_a_start_that_dies_before_its_first_row_does_not_make_the_folder_new(
    folder: Path,
) -> None:
    delete(folder)
    log = await open_log(folder, empty=EmptyFolder.IS_NEW)
    await log.connections.writer.execute("DELETE FROM meta")
    await log.abandon()
    (folder / "acknowledged").unlink()
    with pytest.raises(StoreError, match=REFUSED):
        await open_log(folder)


async def test_a_new_database_replaces_the_marker(folder: Path) -> None:
    delete(folder)
    other = UID[::-1]
    await use(await open_log(folder, empty=EmptyFolder.IS_NEW), other)
    assert read_marker(folder) == Marker("crdb", other, 1)


async def test_a_folder_with_data_needs_no_marker_and_gets_one(folder: Path) -> None:
    path = marker_path(folder)
    assert path is not None
    path.unlink()
    log = await open_log(folder)
    assert log.last_seq == 1
    await log.close()
    assert read_marker(folder) == Marker("crdb", UID, 1)
    assert list(path.parent.glob("*.unfinished")) == []


@pytest.mark.parametrize("other", [{"region": R2}, {"database_id": "other"}])
async def test_a_marker_of_another_database_or_region_counts_for_nothing(
    folder: Path, other: dict[str, object]
) -> None:
    delete(folder)
    log = await open_log(folder, **other)  # type: ignore[arg-type]
    assert log.fresh
    await log.abandon()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"region": 1}', json.dumps({"region": []})])
async def test_a_marker_that_cannot_be_read_is_none(folder: Path, text: str) -> None:
    path = marker_path(folder)
    assert path is not None
    path.write_text(text)
    assert read_marker(folder) is None
    # It is written again.
    await (await open_log(folder)).close()
    assert read_marker(folder) == Marker("crdb", UID, 1)


async def test_a_node_goes_on_without_a_marker_and_says_so_once(tmp_path: Path) -> None:
    """The folder is a mount point in a file system that is read-only."""
    folder = tmp_path / "region-1"
    (tmp_path / "region-1.database.unfinished").mkdir()
    with capture_logs() as lines:
        log = await open_log(folder)
        await log.set_meta(UID_KEY, UID)
        await log.confirm()
        await log.append([Record(R1, 1, 1, b"batch", None)])
        await log.close()
    told = [line for line in lines if "no marker can be written" in line["event"]]
    assert [line["marker"] for line in told] == [str(tmp_path / "region-1.database")]


def test_a_file_system_s_root_has_nothing_beside_it() -> None:
    assert marker_path(Path("/")) is None
    assert read_marker(Path("/")) is None
