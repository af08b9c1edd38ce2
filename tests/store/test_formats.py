"""Folders of other format numbers: one of 5 gets the number 1 and keeps all, others are refused.

``format_5`` is a folder as it was written before format 1 had its number: a checkpoint, a cut log,
and behind it batches with columns of several forms.  No program of now can write it.
"""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.tuning import REDIS_VERSION
from crdtstream.core.wire.codec import decode_batch
from crdtstream.store.claim import CHECK_ROWS_MAX
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import Armed, refuse
from crdtstream.store.layout import CHECKSUM_KEY, meta_checksum
from crdtstream.store.log import Fsync
from crdtstream.store.replay import recover
from crdtstream.store.rows import ROW_COLUMNS, RowReader, columns_crc
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.upkeep.check_report import no_progress
from crdtstream.upkeep.folder_reading import UpkeepError
from crdtstream.upkeep.fsck import check_folder
from crdtstream.upkeep.manifest import MANIFEST, Manifest, manifest_text, sum_of
from crdtstream.upkeep.restore import check_backup, restore
from crdtstream.v1 import effects_pb2
from tests.core.earlier_batches import EARLIER_BATCHES
from tests.harness.regions import Node
from tests.store.checkpointed import write_checkpoint

FORMAT_5: Final = Path(__file__).parent / "format_5"
FACTS: Final[Any] = json.loads((FORMAT_5 / "facts.json").read_text())
LOG: Final = "log.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder of format 5."""
    shutil.copyfile(FORMAT_5 / LOG, tmp_path / LOG)
    return tmp_path


async def opened(folder: Path) -> tuple[SqliteLog, SqliteCheckpoints]:
    log = await SqliteLog.open(folder, region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS)
    return log, await SqliteCheckpoints.open(log)


async def recovered(log: SqliteLog, checkpoints: SqliteCheckpoints) -> Node:
    """The region as the folder has it."""
    node = Node(1, now=FACTS["now"])
    found = await recover(log, checkpoints, lambda: node.replica)
    assert found.checkpoint is not None
    assert found.checkpoint.is_verified
    assert found.records == log.last_seq - found.checkpoint.row.seq
    REDIS_VERSION.put(node.replica, "8.8.0")
    return node


def check(replica: Replica, node: Node) -> None:
    """It says what the node said that wrote the folder."""
    assert {str(region): n for region, n in replica.vv.items()} == FACTS["vv"]
    assert replica.digest().decode() == FACTS["digest"]
    assert {key.decode(): replica.digest(key).decode() for key in sorted(replica)} == FACTS["keys"]
    for key, shown in FACTS["streams"].items():
        told: Any = node(f"XINFO STREAM {key} FULL")
        assert {**told, **LAYOUT} == {**shown, **LAYOUT}
    for key, value in FACTS["strings"].items():
        assert node(f"GET {key}") == value


# How entries are spread over macro nodes is no promise.
LAYOUT: Final = {"radix-tree-keys": 0, "radix-tree-nodes": 0}


def settings_of(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(folder / LOG)) as database:
        return dict(database.execute("SELECT key, value FROM meta"))


def change_settings(folder: Path, **changed: str | None) -> None:
    """Change settings, and their checksum; None: the setting is not there."""
    kept = {**settings_of(folder), **changed}
    kept.pop(CHECKSUM_KEY)
    values = {key: value for key, value in kept.items() if value is not None}
    values[CHECKSUM_KEY] = meta_checksum(values)
    with closing(sqlite3.connect(folder / LOG)) as database, database:
        database.execute("DELETE FROM meta")
        database.executemany("INSERT INTO meta VALUES (?, ?)", values.items())


def files_of(folder: Path) -> dict[str, bytes]:
    """But for SQLite's index of the WAL; an empty file, as a lock or a WAL, counts as none."""
    return {
        path.name: data
        for path in folder.iterdir()
        if path.name != f"{LOG}-shm" and (data := path.read_bytes())
    }


# --- Format 5 -----------------------------------------------------------------------------------


def test_format_5_has_columns_of_several_forms_behind_its_checkpoint() -> None:
    """Else the folder would say nothing of how they are read."""
    with closing(sqlite3.connect(f"file:{FORMAT_5 / LOG}?immutable=1", uri=True)) as database:
        rows = database.execute(f"SELECT {ROW_COLUMNS} FROM log ORDER BY seq").fetchall()
    reader, forms, numbers = RowReader(), set(), []
    for row in rows:
        logged, is_sound = reader.read(row)
        assert is_sound
        assert logged is not None
        assert logged.record.batch is not None
        numbers.append(logged.seq)
        batch = decode_batch(logged.record.batch)
        forms |= {type(effect).__name__ for _, effect in batch.others}
        if batch.appends.keys:
            forms.add("one key" if len(batch.appends.keys) == 1 else "several keys")
            forms.add("one entry" if batch.count == 1 else "several entries")
        if batch.appends.idempotent:
            forms.add("idempotent")
    assert numbers == [*range(FACTS["first_seq"], FACTS["last_seq"] + 1)]
    assert FACTS["first_seq"] == FACTS["checkpoint"]["seq"] + 1
    assert forms == {
        *("one key", "several keys", "one entry", "several entries", "idempotent"),
        *("AckFrontier", "Remove", "SetString"),
    }


async def test_a_folder_of_format_5_keeps_all_and_is_of_format_1_then(folder: Path) -> None:
    before = settings_of(folder)
    log, checkpoints = await opened(folder)
    try:
        assert (log.first_seq, log.last_seq) == (FACTS["first_seq"], FACTS["last_seq"])
        newest = await checkpoints.newest()
        assert newest is not None
        assert (newest.row.generation, newest.row.seq) == tuple(FACTS["checkpoint"].values())
        kinds = set()
        async for images in checkpoints.heads(newest.row.generation):
            kinds |= {image.kind for image in images}
        assert kinds == set(Kind)
        messages = [
            effects_pb2.EffectBatch.FromString(row.record.batch)
            for row in await log.read_from(log.first_seq, bytes_max=1 << 20)
            if row.record.batch is not None
        ]
        assert any(len(message.keys) > 1 for message in messages)
        assert any(message.idempotent_ids for message in messages)
        assert {message.origin for message in messages} == {1, 2}
        node = await recovered(log, checkpoints)
        check(node.replica, node)
        node.end_tick()
        await write_checkpoint(node.replica, log, checkpoints, Millis(FACTS["now"]))
        await checkpoints.cut_log(log.last_seq)
    finally:
        await log.abandon()
    after = settings_of(folder)
    assert after["format"] == "1"
    assert "format_version" not in after
    assert before.keys() - after.keys() == {"format_version"}
    assert after[CHECKSUM_KEY] == meta_checksum(after)

    log, checkpoints = await opened(folder)
    try:
        assert log.first_seq == log.last_seq + 1
        node = await recovered(log, checkpoints)
        check(node.replica, node)
    finally:
        await log.abandon()


async def test_only_the_number_and_the_checksum_are_changed(folder: Path) -> None:
    before = settings_of(folder)
    log, _ = await opened(folder)
    await log.abandon()
    after = settings_of(folder)
    # Written by every start.
    for settings in (before, after):
        del settings[CHECKSUM_KEY], settings["clean_shutdown"]
    before["format"] = "1"
    del before["format_version"]
    assert after == before


async def test_a_folder_that_could_not_get_the_number_gets_it_later(folder: Path) -> None:
    before = settings_of(folder)
    with pytest.raises(StoreError, match="the disk refuses"):
        await SqliteLog.open(
            folder,
            region=RegionId(1),
            database_id="crdb",
            fsync=Fsync.ALWAYS,
            failpoints=Armed("log.take-over", refuse),
        )
    assert settings_of(folder) == before
    log, _ = await opened(folder)
    await log.abandon()
    assert settings_of(folder)["format"] == "1"


async def test_a_damaged_folder_of_format_5_is_refused_and_stays_as_it_was(folder: Path) -> None:
    change_settings(folder, database_id="crdb")
    with closing(sqlite3.connect(folder / LOG)) as database, database:
        database.execute("UPDATE meta SET value = '64' WHERE key = 'log_last'")
    before = files_of(folder)
    with pytest.raises(StoreError, match="meta is damaged"):
        await opened(folder)
    assert files_of(folder) == before


@pytest.mark.parametrize("name", EARLIER_BATCHES)
async def test_a_batch_in_an_earlier_form_is_found_before_the_number_changes(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Format 5 took folders of format 4 over as they were."""
    monkeypatch.setattr(CHECK_ROWS_MAX, "value", 1)
    batch = bytes.fromhex(EARLIER_BATCHES[name])
    with closing(sqlite3.connect(folder / LOG)) as database, database:
        head = database.execute(
            "SELECT seq, origin, first_n, last_n FROM log ORDER BY seq DESC"
        ).fetchone()
        seq, origin, first_n, last_n = head
        crc = columns_crc(seq, origin, first_n, last_n, batch, None)
        database.execute(
            "UPDATE log SET batch = ?, local = NULL, crc = ? WHERE seq = ?", (batch, crc, seq)
        )
    before = files_of(folder)
    with pytest.raises(StoreError, match=f"row {seq} cannot be read: .*Nothing has changed"):
        await opened(folder)
    assert files_of(folder) == before


# --- Other formats ------------------------------------------------------------------------------


def of_format_before(number: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        change_settings(folder, format_version=number)
        with closing(sqlite3.connect(folder / LOG)) as database, database:
            # As these formats were: the first two have no checksum and no checkpoints.
            if number in ("1", "2"):
                database.execute("DELETE FROM meta WHERE key = 'checksum'")
                for table in ("image", "body", "checkpoint"):
                    database.execute(f"DROP TABLE {table}")

    return change


def of_format(number: str) -> Callable[[Path], None]:
    return lambda folder: change_settings(folder, format_version=None, format=number)


BEFORE: Final = "of an unreleased version, which this program cannot read; keep it"
REFUSED: Final = [
    *((of_format_before(number), f"format {number} {BEFORE}") for number in "12346"),
    *((of_format(number), f"format {number}, and this program reads format 1") for number in "25"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED)
async def test_a_folder_of_another_format_is_refused_and_stays_as_it_was(
    folder: Path, change: Callable[[Path], None], text: str
) -> None:
    change(folder)
    before = files_of(folder)
    with pytest.raises(StoreError, match=text):
        await opened(folder)
    assert files_of(folder) == before
    with pytest.raises(UpkeepError, match=text):
        check_folder(folder)
    assert files_of(folder) == before


async def test_a_crashed_folder_of_another_format_is_left_unchanged(tmp_path: Path) -> None:
    """A write-ahead log that was not moved into the database yet."""
    running, folder = tmp_path / "running", tmp_path / "folder"
    log, _ = await opened(running)
    try:
        await log.set_meta("format", "2")
        shutil.copytree(running, folder)
    finally:
        await log.abandon()
    assert (folder / f"{LOG}-wal").stat().st_size
    before = files_of(folder)
    with pytest.raises(StoreError, match="written in format 2"):
        await opened(folder)
    assert files_of(folder) == before


# --- Backups ------------------------------------------------------------------------------------


def backup_of(folder: Path, backup: Path, **changed: str | None) -> None:
    """A backup as it was written of a folder of format 5, but for some of its manifest."""
    backup.mkdir()
    shutil.copyfile(folder / LOG, backup / LOG)
    manifest = Manifest(
        region=RegionId(1),
        database_id="crdb",
        database_uid="",
        version="0.1.0",
        cut_ms=1,
        first_seq=FACTS["first_seq"],
        checkpoint_seq=FACTS["checkpoint"]["seq"],
        last_seq=FACTS["last_seq"],
        vv={RegionId(int(region)): n for region, n in FACTS["vv"].items()},
        files={LOG: sum_of(backup / LOG, no_progress)},
    )
    plain = json.loads(manifest_text(manifest))
    del plain["sha256"], plain["format"]
    plain |= {"format_version": "5", **changed}
    plain = {key: value for key, value in plain.items() if value is not None}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    plain["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (backup / MANIFEST).write_text(json.dumps(plain))


async def test_a_backup_of_format_5_is_restored(folder: Path, tmp_path: Path) -> None:
    backup, target = tmp_path / "backup", tmp_path / "target"
    backup_of(folder, backup)
    assert check_folder(backup).is_sound
    restore(backup, target, check_backup(backup))
    log, checkpoints = await opened(target)
    try:
        assert not log.is_proven
        node = await recovered(log, checkpoints)
        check(node.replica, node)
    finally:
        await log.abandon()
    assert settings_of(target)["format"] == "1"


@pytest.mark.parametrize("number", ["1", "4", "6"])
def test_a_backup_of_an_earlier_number_is_refused(
    folder: Path, tmp_path: Path, number: str
) -> None:
    backup_of(folder, tmp_path / "backup", format_version=number)
    with pytest.raises(UpkeepError, match=f"of a folder written in format {number} {BEFORE}"):
        check_backup(tmp_path / "backup")


def test_a_backup_of_a_later_number_is_refused(folder: Path, tmp_path: Path) -> None:
    backup_of(folder, tmp_path / "backup", format_version=None, format="2")
    with pytest.raises(UpkeepError, match="of a folder written in format 2, and this program"):
        check_backup(tmp_path / "backup")
