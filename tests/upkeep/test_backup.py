"""Backups as they are sent and written, and restored: whole, or not at all."""

import asyncio
import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from crdtstream.cli.start import program
from crdtstream.core.ids import RegionId
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.store.checkpoints import Hold
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.upkeep import restore as restoring
from crdtstream.upkeep.backup import write_backup
from crdtstream.upkeep.folder_cut import cut_of_folder
from crdtstream.upkeep.folder_reading import UpkeepError, locked
from crdtstream.upkeep.manifest import MANIFEST, read_manifest
from crdtstream.v1 import admin_pb2 as pb
from tests.conftest import examples
from tests.harness.regions import Node
from tests.upkeep.folders import GOLDEN_DIGEST, change, checked, found, golden, stopped_with

ROWS = 47
UID = DatabaseUid(bytes(range(UID_BYTES)))


def run(*words: object) -> Result:
    return CliRunner().invoke(program(), [str(word) for word in words])


def held(last_seq: int) -> contextlib.AbstractAsyncContextManager[Hold]:
    """Of a folder that no node has open, and that has no checkpoint."""
    return contextlib.nullcontext(Hold(None, 1, last_seq))


def sent(folder: Path, last_seq: int = ROWS) -> list[pb.BackupPiece]:
    async def pieces() -> list[pb.BackupPiece]:
        cut = cut_of_folder(folder / LOG_FILE, held(last_seq), version="1", cut_ms=5)
        return [piece async for piece in cut]

    return asyncio.run(pieces())


@pytest.fixture
def pieces(tmp_path: Path) -> list[pb.BackupPiece]:
    return sent(golden(tmp_path / "node"))


@pytest.fixture
def backup(tmp_path: Path, pieces: list[pb.BackupPiece]) -> Path:
    write_backup(pieces, tmp_path / "backup")
    return tmp_path / "backup"


# --- Writing --------------------------------------------------------------------------------


def test_a_backup_says_what_is_in_it(backup: Path) -> None:
    manifest = read_manifest(backup)
    assert (manifest.region, manifest.database_id, manifest.last_seq) == (1, "crdb", ROWS)
    assert manifest.vv == {1: 199, 2: 11}
    report = checked(backup)
    assert report.is_sound
    assert report.digest == GOLDEN_DIGEST


@pytest.mark.parametrize("name", [LOG_FILE, MANIFEST])
def test_a_changed_byte_of_a_backup_is_found_by_a_check(backup: Path, name: str) -> None:
    data = bytearray((backup / name).read_bytes())
    data[len(data) // 2] ^= 1
    (backup / name).write_bytes(data)
    assert "manifest" in found(checked(backup))


def test_rows_behind_the_cut_are_not_in_it(tmp_path: Path) -> None:
    manifest = write_backup(sent(golden(tmp_path / "node"), 6), tmp_path / "backup")
    assert manifest.last_seq == 6
    assert checked(tmp_path / "backup").vv == manifest.vv == {1: 164, 2: 2}


async def test_large_batches_are_packed_in_it(tmp_path: Path) -> None:
    node = Node(1)
    node.run(*[f"XADD s {ms}-1 field value" for ms in range(1, 101)])
    (record,) = node.log
    assert record.batch is not None
    folder = await stopped_with(tmp_path / "node", node.log)
    await asyncio.to_thread(lambda: write_backup(sent(folder, 1), tmp_path / "backup"))
    with closing(sqlite3.connect(tmp_path / "backup" / LOG_FILE)) as database:
        ((kept,),) = database.execute("SELECT length(batch) FROM log")
    assert kept < len(record.batch) // 2


@settings(max_examples=examples(20), deadline=None)
@given(size=st.integers(1, 5000))
def test_pieces_may_be_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    import zlib

    folder = tmp_path_factory.mktemp("backup")
    data = b"".join(piece.data for piece in sent(golden(folder / "node"), 12))
    again = [
        pb.BackupPiece(offset=at, data=data[at : at + size], crc=zlib.crc32(data[at : at + size]))
        for at in range(0, len(data), size)
    ]
    assert write_backup(again, folder / "backup").last_seq == 12


def cut_short(pieces: list[pb.BackupPiece]) -> Iterator[pb.BackupPiece]:
    (piece,) = pieces
    import zlib

    data = piece.data[: len(piece.data) // 2]
    yield pb.BackupPiece(offset=0, data=data, crc=zlib.crc32(data))


def one_bit_changed(pieces: list[pb.BackupPiece]) -> Iterator[pb.BackupPiece]:
    (piece,) = pieces
    data = bytearray(piece.data)
    data[len(data) // 2] ^= 1
    yield pb.BackupPiece(offset=0, data=bytes(data), crc=piece.crc)


def one_bit_of_a_row_changed(pieces: list[pb.BackupPiece]) -> Iterator[pb.BackupPiece]:
    """As if the node had read it so: only the row's own checksum tells."""
    import zlib

    (piece,) = pieces
    data = bytearray(piece.data)
    data[data.index(b"vvvvvvvv")] ^= 1
    yield pb.BackupPiece(offset=0, data=bytes(data), crc=zlib.crc32(data))


def gone(pieces: list[pb.BackupPiece]) -> Iterator[pb.BackupPiece]:
    yield from cut_short(pieces)
    raise UpkeepError("the node is gone")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (cut_short, "ended in the middle|ended too early"),
        (one_bit_changed, "byte 0 of the backup arrived damaged"),
        (one_bit_of_a_row_changed, r"row \d+ arrived damaged"),
        (gone, "the node is gone"),
        (lambda _pieces: iter(()), "the node sent no backup"),
    ],
)
def test_an_incomplete_backup_leaves_nothing(
    tmp_path: Path,
    pieces: list[pb.BackupPiece],
    damage: Callable[[list[pb.BackupPiece]], Iterator[pb.BackupPiece]],
    text: str,
) -> None:
    before = set(tmp_path.iterdir())
    with pytest.raises(UpkeepError, match=text):
        write_backup(damage(pieces), tmp_path / "backup")
    assert set(tmp_path.iterdir()) == before


def test_a_backup_does_not_take_the_name_before_it_is_whole(
    tmp_path: Path, pieces: list[pb.BackupPiece]
) -> None:
    names = []

    def watched(what: str, done: int, total: int) -> None:
        names.append({path.name for path in tmp_path.iterdir()})

    write_backup(pieces, tmp_path / "backup", watched)
    assert names
    assert all("backup" not in found for found in names)
    assert {path.name for path in tmp_path.iterdir()} == {"node", "backup"}


def test_a_backup_takes_no_folders_place(tmp_path: Path, backup: Path) -> None:
    refused = run("backup", backup, "--address", "127.0.0.1:1")
    assert refused.exit_code == 2
    assert "is not empty; name a new or an empty folder" in refused.output
    refused = run("backup", tmp_path / "none" / "backup", "--address", "127.0.0.1:1")
    assert refused.exit_code == 2
    assert "no such folder; make it first" in refused.output


def test_no_node_no_backup(tmp_path: Path) -> None:
    refused = run("backup", tmp_path / "backup", "--address", "127.0.0.1:1")
    assert refused.exit_code == 1
    assert "no region node answers at 127.0.0.1:1" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_a_cut_of_damaged_rows_is_refused(tmp_path: Path) -> None:
    folder = golden(tmp_path / "node")
    change(folder, "UPDATE log SET crc = crc + 1 WHERE seq = 9")
    with pytest.raises(StoreError, match=r"row 9 of table log is damaged \(checksum\)"):
        sent(folder)
    change(folder, "DELETE FROM log WHERE seq = 9")
    with pytest.raises(StoreError, match="row 9 of table log is missing"):
        sent(folder)


def test_a_backup_can_be_cancelled_at_any_time(tmp_path: Path) -> None:
    """The thread that reads is waited for, and its connection closed."""
    folder = golden(tmp_path / "node")

    async def begin_and_go() -> None:
        cut = cut_of_folder(folder / LOG_FILE, held(ROWS), version="1", cut_ms=5)
        asking = asyncio.ensure_future(anext(cut))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await cut.aclose()

    asyncio.run(begin_and_go())


# --- Restoring ------------------------------------------------------------------------------


def test_a_restored_folder_is_its_regions_and_proves_nothing(tmp_path: Path, backup: Path) -> None:
    done = run("restore", backup, tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert checked(tmp_path / "new").digest == GOLDEN_DIGEST

    async def is_proven() -> bool:
        log = await SqliteLog.open(
            tmp_path / "new", region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS
        )
        try:
            assert log.last_seq == ROWS
            return log.is_proven
        finally:
            await log.abandon()

    assert not asyncio.run(is_proven())


def test_a_new_database_has_another_identity_and_goes_on_at_once(
    tmp_path: Path, backup: Path
) -> None:
    folder = tmp_path / "new"
    manifest = read_manifest(backup)
    new = restoring.restore_as_new(backup, folder, manifest, database_id="copy", uid=UID)
    assert (new.database_id, new.database_uid) == ("copy", UID.hex())
    assert checked(folder).digest == GOLDEN_DIGEST

    async def is_proven() -> bool:
        log = await SqliteLog.open(
            folder, region=RegionId(1), database_id="copy", fsync=Fsync.EVERYSEC
        )
        try:
            assert await log.get_meta("database_uid") == UID.hex()
            assert await log.get_meta("database_declared") == "yes"
            return log.is_proven
        finally:
            await log.abandon()

    assert asyncio.run(is_proven())


def settings_of(tmp_path: Path, **values: object) -> Path:
    given = {"region": 1, "database_id": "crdb", "dir": str(tmp_path / "new"), **values}
    path = tmp_path / "node.toml"
    path.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in given.items()))
    return path


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ({"region": 2}, (), "of region 1, and the settings are of region 2"),
        ({"database_id": "b"}, (), "of database 'crdb', and the settings are of 'b'"),
        ({"dir": "/elsewhere"}, (), "its dir is /elsewhere, not"),
        ({}, ("--new-database", "b"), "its database_id is 'crdb', not 'b'"),
    ],
)
def test_a_backup_that_does_not_fit_the_settings_is_refused(
    tmp_path: Path, backup: Path, values: dict[str, object], options: tuple[str, ...], text: str
) -> None:
    config = settings_of(tmp_path, **values)
    refused = run("restore", backup, tmp_path / "new", "--config", config, *options)
    assert refused.exit_code == 2
    assert text in refused.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["", "a b", "../c", "x" * 65, "b\n"])
def test_a_new_database_gets_a_name_that_settings_can_have(
    tmp_path: Path, backup: Path, name: str
) -> None:
    refused = run("restore", backup, tmp_path / "new", "--new-database", name)
    assert refused.exit_code == 2
    assert "cannot be a database_id" in refused.output
    assert not (tmp_path / "new").exists()


def test_a_check_of_a_damaged_backup_says_to_take_another(backup: Path) -> None:
    shorter(backup)
    refused = run("fsck", backup)
    assert refused.exit_code == 1
    assert "take another backup" in refused.output
    assert "the other regions have its effects" not in refused.output


def without(name: str) -> Callable[[Path], None]:
    return lambda backup: (backup / name).unlink()


def shorter(backup: Path) -> None:
    log = backup / LOG_FILE
    log.write_bytes(log.read_bytes()[:-1])


def altered(backup: Path) -> None:
    log = backup / LOG_FILE
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)


def other_cut(backup: Path) -> None:
    text = (backup / MANIFEST).read_text()
    (backup / MANIFEST).write_text(text.replace('"region": 1', '"region": 2'))


def half_a_manifest(backup: Path) -> None:
    text = (backup / MANIFEST).read_text()
    (backup / MANIFEST).write_text(text[: len(text) // 2])


def later_manifest(backup: Path) -> None:
    plain = json.loads((backup / MANIFEST).read_text())
    (backup / MANIFEST).write_text(json.dumps({**plain, "crdtstream_backup": 9}))


def signed(**fields: object) -> Callable[[Path], None]:
    """Other fields, and the checksum that belongs to them."""

    def change(backup: Path) -> None:
        plain = json.loads((backup / MANIFEST).read_text()) | fields
        del plain["sha256"]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        plain["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (backup / MANIFEST).write_text(json.dumps(plain))

    return change


def nested(backup: Path) -> None:
    (backup / MANIFEST).write_text("[" * 100_000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (without(MANIFEST), "no backup, as it has no manifest.json"),
        (without(LOG_FILE), "log.sqlite: No such file"),
        (shorter, "log.sqlite: .* bytes where .* were written: cut short"),
        (altered, "log.sqlite: was altered"),
        (other_cut, "manifest.json: was altered"),
        (half_a_manifest, "manifest.json: cut short or altered"),
        (later_manifest, "a backup of format 9, this program reads format 1"),
        (signed(files={}), "its files are none"),
        (signed(files={"/dev/zero": {}}), "its files are /dev/zero"),
        (signed(region=float("inf")), "cannot convert float infinity"),
        (nested, "manifest.json: cut short or altered"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--new-database", "b")])
def test_a_backup_that_was_changed_is_refused(
    tmp_path: Path,
    backup: Path,
    damage: Callable[[Path], None],
    text: str,
    options: tuple[str, ...],
) -> None:
    damage(backup)
    before = set(tmp_path.iterdir())
    refused = run("restore", backup, tmp_path / "new", *options)
    assert refused.exit_code in (1, 2)
    import re

    assert re.search(text, refused.output.replace("\n", " "))
    assert set(tmp_path.iterdir()) == before


def test_a_folder_that_is_not_empty_or_in_use_stays_as_it_is(tmp_path: Path, backup: Path) -> None:
    folder = golden(tmp_path / "taken")
    refused = run("restore", backup, folder)
    assert refused.exit_code == 2
    assert "is not empty; move its files away" in refused.output
    with locked(folder):
        refused = run("restore", backup, folder)
    assert refused.exit_code == 2
    assert "another process has this folder open; stop that node first" in refused.output
    (tmp_path / "file").write_text("")
    refused = run("restore", backup, tmp_path / "file")
    assert refused.exit_code == 2
    assert "is no folder" in refused.output
    assert checked(folder).digest == GOLDEN_DIGEST


class StoppedError(Exception):
    """The process is gone."""


@pytest.mark.parametrize("is_new", [False, True])
def test_a_restore_that_is_cut_off_leaves_no_log_and_can_be_done_again(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """At each step; what a kill leaves is what is there then, without any tidying up."""
    manifest = read_manifest(backup)
    steps: list[str] = []

    def restore(folder: Path, stop_at: int) -> None:
        def watched(what: str, done: int, total: int) -> None:
            steps.append(what)
            if len(steps) == stop_at:
                raise StoppedError

        if is_new:
            restoring.restore_as_new(
                backup, folder, manifest, database_id="b", uid=UID, progress=watched
            )
        else:
            restoring.restore(backup, folder, manifest, watched)

    restore(tmp_path / "whole", 0)
    monkeypatch.setattr(restoring, "_clear", lambda _folder, *, is_made: None)
    for stop_at in range(1, len(steps) + 1):
        folder = tmp_path / f"stopped-{stop_at}"
        steps.clear()
        with pytest.raises(StoppedError):
            restore(folder, stop_at)
        assert not (folder / LOG_FILE).exists()
        restore(folder, 0)
        assert checked(folder).digest == GOLDEN_DIGEST
        shutil.rmtree(folder)
