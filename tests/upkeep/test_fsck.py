"""Findings of a check of a folder, and the parts that it leaves alone."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.core.lanes.lane import LastId
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.layout import ABSENCES_KEY
from crdtstream.store.log import Fsync, Logged
from crdtstream.store.rows import ROW_COLUMNS, RowReader, record_crc
from crdtstream.store.sqlite import SqliteLog
from crdtstream.upkeep.check_report import Verdict
from crdtstream.upkeep.folder_reading import UpkeepError
from crdtstream.upkeep.state_check import StateCounts, wrong_groups, wrong_lanes
from tests.harness.regions import Node
from tests.store.test_checkpoints import append, images, opened, write
from tests.upkeep.folders import (
    GOLDEN_DIGEST,
    R1,
    change,
    checked,
    found,
    golden,
    killed,
    stopped,
)


def test_a_sound_folder_has_the_digest_of_its_state(tmp_path: Path) -> None:
    report = checked(golden(tmp_path))
    assert report.is_sound
    assert all(check.verdict is Verdict.SOUND for check in report.checks)
    assert report.digest == GOLDEN_DIGEST
    assert report.vv == {1: 199, 2: 11}


async def test_records_in_the_wal_only_count(tmp_path: Path) -> None:
    report = checked(await killed(tmp_path / "killed"))
    assert report.is_sound
    assert report.vv == {1: 5}


async def test_checking_changes_nothing(tmp_path: Path) -> None:
    for folder in (golden(tmp_path / "stopped"), await killed(tmp_path / "killed")):
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        checked(folder)
        after = {path.name: path.read_bytes() for path in folder.iterdir()}
        after.pop("lock")
        # SQLite's index of the WAL is made again at each start.
        for files in (before, after):
            files.pop("lock", None)
            files.pop(f"{LOG_FILE}-shm", None)
        assert after == before


def rewrite(folder: Path, seq: int, **columns: object) -> None:
    """Change a row, and its checksum with it: what is wrong is what it says."""
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection, connection:
        row = list(connection.execute("SELECT * FROM log WHERE seq = ?", (seq,)).fetchone())
        names = ["seq", "origin", "first_n", "last_n", "batch", "local", "crc"]
        values = dict(zip(names, row, strict=True)) | columns
        record = Record(*(values[name] for name in names[1:6]))
        values["crc"] = record_crc(Logged(int(values["seq"]), record))
        connection.execute("DELETE FROM log WHERE seq = ?", (seq,))
        connection.execute(
            "INSERT OR REPLACE INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
            [values[name] for name in names],
        )


@pytest.mark.parametrize(
    ("statement", "check", "text"),
    [
        ("UPDATE log SET batch = zeroblob(9) WHERE seq = 3", "checksums of rows", "row 3 is"),
        ("UPDATE log SET crc = crc + 1 WHERE seq = 47", "checksums of rows", "row 47 is damaged"),
        ("UPDATE log SET first_n = 'x' WHERE seq = 4", "checksums of rows", "row 4 is damaged"),
        ("DELETE FROM log WHERE seq = 5", "rows without gaps", "row 5 is missing"),
        ("DELETE FROM log WHERE seq < 4", "rows without gaps", "rows 1 to 3 is missing"),
        ("UPDATE meta SET value = 'maybe' WHERE key = 'clean_shutdown'", "settings", "maybe"),
        ("INSERT INTO meta VALUES ('database_uid', 'xyz')", "settings", "xyz"),
        ("INSERT INTO meta VALUES ('absences', '3:x')", "settings", "3:x"),
        ("INSERT OR REPLACE INTO meta VALUES ('log_last', '\"')", "settings", "log_last"),
        ("DROP INDEX log_by_dot", "tables", "log_by_dot is missing"),
        ("CREATE TABLE another (x)", "tables", "another is none of this program's"),
    ],
)  # fmt: skip
def test_damage_is_found(tmp_path: Path, statement: str, check: str, text: str) -> None:
    folder = golden(tmp_path)
    change(folder, statement)
    report = checked(folder)
    assert not report.is_sound
    assert text in found(report)[check]


@pytest.mark.parametrize("absences", ["", "3:1795402802313", "2:1795402802313,3:1795402802313"])
async def test_noted_absences_of_other_regions_are_no_damage(tmp_path: Path, absences: str) -> None:
    folder = await stopped(tmp_path)
    log = await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    await log.set_meta(ABSENCES_KEY, absences)
    await log.close()
    assert checked(folder).is_sound


def test_rows_that_do_not_follow_each_other_are_found(tmp_path: Path) -> None:
    """Every checksum is right: somebody put rows in another order."""
    folder = golden(tmp_path)
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection:
        query = "SELECT origin, first_n, last_n, batch, local FROM log WHERE seq = ?"
        one, other = (connection.execute(query, (seq,)).fetchone() for seq in (2, 3))
    names = ("origin", "first_n", "last_n", "batch", "local")
    rewrite(folder, 2, **dict(zip(names, other, strict=True)))
    rewrite(folder, 3, **dict(zip(names, one, strict=True)))
    report = checked(folder)
    assert "row 2: dot 1:9 follows 1:5" in found(report)["dots and contexts"]
    assert not report.digest


def test_a_context_that_was_not_applied_before_is_found(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection:
        rows = connection.execute("SELECT seq, batch FROM log WHERE origin = 2 ORDER BY seq")
        seq = next(seq for seq, batch in rows if decode_batch(batch).context)
    # As if the first row of region 1 had never been written, and all later ones were renumbered.
    change(folder, "DELETE FROM log WHERE seq < ?", seq)
    change(folder, "DELETE FROM log WHERE origin = 1 AND batch IS NOT NULL")
    report = checked(folder)
    assert f"row {seq}: its context is not covered" in found(report)["dots and contexts"]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"last_n": 9}, "its columns are not those of its batch"),
        ({"batch": b"\xff\xff"}, "no protobuf message"),
        ({"local": b"\xff\xff"}, "local: no protobuf message"),
        ({"batch": None}, "dots without a batch"),
    ],
)
def test_undecodable_records_are_found(
    tmp_path: Path, columns: dict[str, object], text: str
) -> None:
    folder = golden(tmp_path)
    rewrite(folder, 1, **columns)
    assert text in found(checked(folder))["batches and changes"]


def test_effects_that_cannot_be_lived_through_are_found(tmp_path: Path) -> None:
    """Dots and checksums are right, and an ID lies below the one before it."""
    folder = golden(tmp_path)
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection:
        rows = connection.execute(f"SELECT {ROW_COLUMNS} FROM log WHERE origin = 1 ORDER BY seq")
        logged = [found for found, _ in map(RowReader().read, rows) if found is not None]
    batches = [
        (row.seq, decode_batch(row.record.batch)) for row in logged if row.record.batch is not None
    ]
    seq, batch = next((seq, batch) for seq, batch in batches if len(batch.appends.ms) > 1)
    batch.appends.ms[-1] = 0
    rewrite(folder, seq, batch=encode_batch(batch))
    report = checked(folder)
    assert f"row {seq} does not follow" in found(report)["state"]
    assert not report.digest


def test_a_lost_index_is_made_again_and_nothing_else(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    change(folder, "DROP INDEX log_by_dot")
    refused = CliRunner().invoke(program(), ["fsck", str(folder)])
    assert refused.exit_code == 1
    assert "crdtstream fsck --repair mends it" in refused.output
    mended = CliRunner().invoke(
        program(), ["fsck", str(folder), "--repair", "--expect", GOLDEN_DIGEST]
    )
    assert mended.exit_code == 0, mended.output
    assert checked(folder).is_sound


def test_another_digest_is_no_damage(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    refused = CliRunner().invoke(program(), ["fsck", str(folder), "--expect", "0" * 40])
    assert refused.exit_code == 1
    assert "sound, but in another state than was expected" in refused.output
    assert "damaged" not in refused.output.lower()


def test_fsck_does_not_repair_lost_records(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    change(folder, "DROP INDEX log_by_dot")
    change(folder, "DELETE FROM log WHERE seq = 5")
    before = (folder / LOG_FILE).read_bytes()
    refused = CliRunner().invoke(program(), ["fsck", str(folder), "--repair"])
    assert refused.exit_code == 1
    assert "the other regions have its effects" in refused.output
    assert (folder / LOG_FILE).read_bytes() == before


def test_a_truncated_file_is_found(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    whole = (folder / LOG_FILE).read_bytes()
    for length in (len(whole) - 1, len(whole) - 4096, 5000):
        (folder / LOG_FILE).write_bytes(whole[:length])
        with contextlib.suppress(UpkeepError):
            assert not checked(folder).is_sound


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda folder: None, "no such folder"),
        (lambda folder: folder.mkdir(), "no folder of a region"),
        (lambda folder: change(golden(folder), "DELETE FROM meta"), "does not say whose it is"),
        (
            lambda folder: change(
                golden(folder), "UPDATE meta SET value = '99' WHERE key LIKE 'f%'"
            ),
            "written in format 99, and this program reads format 1",
        ),
    ],
)
def test_unusable_folders_are_refused(tmp_path: Path, make, text: str) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "folder"
    make(folder)
    refused = CliRunner().invoke(program(), ["fsck", str(folder)])
    assert refused.exit_code == 2
    assert text in refused.output


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE image SET head = x'00' WHERE number = 31", "image 31 is damaged"),
        ("UPDATE image SET died = 2 WHERE number = 31", "checkpoint 2 sees other images"),
        ("DELETE FROM image WHERE number = 3", "checkpoint 1 sees other images"),
        ("UPDATE body SET packed = x'00' WHERE number = 35", "the body of image 35 is damaged"),
        ("DELETE FROM body WHERE number = 5", "the body of image 5 is missing"),
        ("UPDATE checkpoint SET seq = 1 WHERE generation = 1", "checkpoint 1 is damaged"),
    ],
)
async def test_damaged_images_are_found(tmp_path: Path, statement: str, text: str) -> None:
    async with opened(tmp_path) as (log, checkpoints):
        await append(log, 20)
        await write(checkpoints, images(1, 30), [], 8)
        await write(checkpoints, images(31, 40), [1, 2], 15)
    assert "images" not in found(checked(tmp_path))
    change(tmp_path, statement)
    assert text in found(checked(tmp_path))["images"]


async def test_an_end_of_the_log_that_was_lost_is_found(tmp_path: Path) -> None:
    folder = await stopped(tmp_path / "folder")
    assert checked(folder).is_sound
    change(folder, "DELETE FROM log WHERE seq = 2")
    assert "rows 2 to 2 were acknowledged and are lost" in found(checked(folder))["settings"]


# --- The state ------------------------------------------------------------------------------


def busy_node() -> Node:
    node = Node(1)
    node.run("XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 0")
    node.run("XREADGROUP GROUP g alice COUNT 2 STREAMS s >")
    return node


def problems(node: Node) -> list[str]:
    counts = StateCounts()
    return [*wrong_lanes(node.replica, counts), *wrong_groups(node.replica, counts)]


def test_a_state_that_keeps_the_rules_has_no_problems() -> None:
    assert problems(busy_node()) == []


def test_a_state_that_breaks_a_rule_is_found() -> None:
    for break_rule, text in (
        (lambda s: setattr(s.lanes[1], "length", 2), "counts 2 entries and has 3"),
        (lambda s: s.last_ids.update({1: LastId(make_id(2, 1), 2)}), "below its last entry, 3-1"),
        (lambda s: setattr(s, "last_id", make_id(9, 9)), "is not the highest"),
        (lambda s: s.lanes[1].head.n.__setitem__(2, 1), "dot 1 does not ascend"),
        (lambda s: s.lanes[1].head.n.__setitem__(2, 99), "beyond the version vector"),
    ):
        node = busy_node()
        stream = node.replica.keys.held_stream(b"s")
        break_rule(stream)
        assert any(text in problem for problem in problems(node)), text


def test_pending_entries_outside_their_lane_or_without_their_owner_are_found() -> None:
    node = busy_node()
    stream = node.replica.keys.held_stream(b"s")
    assert stream is not None
    group = stream.groups[b"g"]
    del group.consumers[b"alice"]
    assert any("a consumer that is not there" in problem for problem in problems(node))
    node = busy_node()
    stream = node.replica.keys.held_stream(b"s")
    assert stream is not None
    pel = stream.groups[b"g"].pel
    bob = pel.consumer(b"bob", Millis(1))
    pel.deliver(RegionId(1), [make_id(9, 1)], bob, delivered_ms=Millis(1), count=1)
    assert any("pending 9-1 lies beyond lane 1" in problem for problem in problems(node))
