"""Folders whose log was cut: their state is a checkpoint and what is behind it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.store.checkpoints import HOLD_IDLE_SECONDS
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.upkeep import restore as restoring
from crdtstream.upkeep.backup import write_backup
from crdtstream.upkeep.check_report import Verdict
from crdtstream.upkeep.folder_cut import cut_of_folder
from crdtstream.upkeep.manifest import read_manifest
from crdtstream.v1 import admin_pb2 as pb
from tests.upkeep.folders import (
    change,
    checked,
    checkpoint,
    checkpointed,
    found,
    give_other_entries,
    reopened,
)

UID = DatabaseUid(bytes(range(UID_BYTES)))
ALL_OF_2 = "UPDATE image SET head = zeroblob(length(head)) WHERE born = 2"


async def folder_of(folder: Path) -> str:
    """Make one; its digest."""
    async with checkpointed(folder) as (node, _, _):
        return node.replica.digest().decode()


def sound(folder: Path, digest: str) -> None:
    report = checked(folder)
    assert found(report) == {}
    assert report.digest == digest


# --- Checking and mending -------------------------------------------------------------------


async def test_a_cut_log_is_checked_from_its_checkpoint(tmp_path: Path) -> None:
    digest = await folder_of(tmp_path)
    sound(tmp_path, digest)
    shown = {check.name: check.found for check in checked(tmp_path).checks}
    assert shown["rows without gaps"] == "6 to 8"
    assert shown["checkpoints"] == "the same state from checkpoint 2, checkpoint 1"
    assert shown["lanes"] == "3 keys, 2 lanes, 10 entries"
    assert shown["groups"] == "1 groups, 2 pending entries"


def repair(folder: Path) -> str:
    done = CliRunner().invoke(program(), ["fsck", str(folder), "--repair"])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    "statement",
    [
        ALL_OF_2,
        "UPDATE checkpoint SET images = images + 1 WHERE generation = 2",
        "DELETE FROM body WHERE number = (SELECT max(number) FROM body)",
        "DELETE FROM image WHERE born = 2",
    ],
)
async def test_a_damaged_newer_checkpoint_goes_as_the_one_before_is_whole(
    tmp_path: Path, statement: str
) -> None:
    digest = await folder_of(tmp_path)
    change(tmp_path, statement)
    report = checked(tmp_path)
    assert found(report)
    # It can be read all the same, and is.
    assert report.digest == digest
    assert report.goes_back_to == 1
    assert "deletes what was written of checkpoints behind checkpoint 1" in repair(tmp_path)
    sound(tmp_path, digest)
    async with reopened(tmp_path) as again:
        assert again == digest


@pytest.mark.parametrize(
    "statement",
    [
        # Both see it.
        "UPDATE image SET head = zeroblob(length(head)) WHERE born = 1 AND died IS NULL",
        "UPDATE image SET head = zeroblob(length(head))",
        # The log behind the first one.
        "DELETE FROM log WHERE seq = 7",
        "DELETE FROM checkpoint",
    ],
)
async def test_fsck_does_not_repair_a_folder_that_lost_its_checkpoint(
    tmp_path: Path, statement: str
) -> None:
    await folder_of(tmp_path)
    change(tmp_path, ALL_OF_2)
    change(tmp_path, statement)
    before = (tmp_path / LOG_FILE).read_bytes()
    refused = CliRunner().invoke(program(), ["fsck", str(tmp_path), "--repair"])
    assert refused.exit_code == 1
    assert "repair:" not in refused.output
    assert (tmp_path / LOG_FILE).read_bytes() == before


async def test_fsck_deletes_the_images_of_an_unfinished_checkpoint(tmp_path: Path) -> None:
    async with checkpointed(tmp_path) as (node, _, checkpoints):
        digest = node.replica.digest().decode()
        node.log.clear()
        await checkpoints.begin()
        cut = node.replica.cut()
        while (taken := cut.take()) is not None:
            await checkpoints.put([taken[1]])
        cut.abandon()
    report = checked(tmp_path)
    assert report.is_sound
    assert report.goes_back_to == 2
    repair(tmp_path)
    assert checked(tmp_path).goes_back_to is None
    sound(tmp_path, digest)


async def test_a_macro_node_that_is_not_what_its_head_says_is_found(tmp_path: Path) -> None:
    """Checksums, sums and the number of entries are right; the digest tells."""
    await folder_of(tmp_path)
    give_other_entries(tmp_path)
    assert "image" in found(checked(tmp_path))["macro nodes"]


async def test_nothing_is_said_of_macro_nodes_that_cannot_be_read(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    change(tmp_path, "UPDATE image SET head = zeroblob(9)")
    report = checked(tmp_path)
    (nodes,) = [check for check in report.checks if check.name == "macro nodes"]
    assert nodes.verdict is Verdict.SKIPPED


# --- Backups --------------------------------------------------------------------------------


async def test_a_backup_of_a_running_node_whose_log_was_cut(tmp_path: Path) -> None:
    """It goes on to write checkpoints and to cut its log meanwhile; the backup is of one moment."""
    folder, backup = tmp_path / "node", tmp_path / "backup"
    async with checkpointed(folder) as (node, log, checkpoints):
        digest = node.replica.digest().decode()
        node.log.clear()
        pieces: list[pb.BackupPiece] = []
        cut = cut_of_folder(log.path, checkpoints.hold(), version="1", cut_ms=5)
        pieces.append(await anext(cut))
        node.run("DEL t", "XADD s 9-1 f v9")
        third = await checkpoint(node, log, checkpoints)
        await checkpoints.forget_before(third)
        await checkpoints.cut_log(log.last_seq)
        assert log.first_seq == 6
        pieces += [piece async for piece in cut]
        await checkpoints.cut_log(log.last_seq)
        assert log.first_seq == log.last_seq + 1
        later = node.replica.digest().decode()
    manifest = await asyncio.to_thread(write_backup, pieces, backup)
    assert (manifest.first_seq, manifest.checkpoint_seq, manifest.last_seq) == (6, 7, 8)
    sound(backup, digest)
    sound(folder, later)
    restoring.restore(backup, tmp_path / "same", manifest)
    sound(tmp_path / "same", digest)
    restoring.restore_as_new(
        backup, tmp_path / "new", read_manifest(backup), database_id="b", uid=UID
    )
    sound(tmp_path / "new", digest)
    async with reopened(tmp_path / "same") as again:
        assert again == digest


async def test_a_damaged_image_ends_a_backup(tmp_path: Path) -> None:
    async with checkpointed(tmp_path / "node") as (_, log, checkpoints):
        change(tmp_path / "node", "UPDATE body SET packed = zeroblob(length(packed))")
        with pytest.raises(StoreError, match=r"the body of image \d+ is damaged"):
            async for _ in cut_of_folder(log.path, checkpoints.hold(), version="1", cut_ms=5):
                pass


async def test_an_idle_hold_lapses(tmp_path: Path) -> None:
    async with checkpointed(tmp_path) as (_, log, checkpoints), checkpoints.hold() as hold:
        hold.lapses_at -= HOLD_IDLE_SECONDS.value
        await checkpoints.forget_before(2)
        await checkpoints.cut_log(7)
        assert log.first_seq == 8
        with pytest.raises(StoreError, match="does not keep an old state for longer"):
            hold.go_on()


# --- Showing --------------------------------------------------------------------------------


def dumped(folder: Path, *options: str, status: int = 0) -> list[Any]:
    result = CliRunner().invoke(program(), ["dump", str(folder), *options])
    assert result.exit_code == status, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


async def test_a_checkpoint_is_shown_part_by_part(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    _, told, *lines = dumped(tmp_path)
    assert (told["kind"], told["generation"], told["seq"]) == ("checkpoint", 2, 7)
    images = [line for line in lines if line["kind"] == "image"]
    assert len(images) == told["images"]
    parts = [image["part"] for image in images]
    assert set(parts) == {"root", "key", "group", "pending", "node"}
    assert [line["seq"] for line in lines if line["kind"] == "record"] == [6, 7, 8]

    of_s = [image for image in images if image.get("key") == "s"]
    (key,) = (image for image in of_s if image["part"] == "key")
    assert key["stream"]["last_ids"] == [[1, "6-1", 14]]
    (group,) = (image for image in of_s if image["part"] == "group")
    assert (group["name"], group["consumers"][0]["name"]) == ("g", "a")
    pending = [one for image in of_s if image["part"] == "pending" for one in image["pending"]]
    assert [(one["id"], one["consumer"]) for one in pending] == [
        ("1-1", "a"), ("2-1", "a"), ("3-1", "a"),
    ]  # fmt: skip
    entries = [one for image in of_s if image["part"] == "node" for one in image["entries"]]
    assert sorted((one["id"], *one["fields"]) for one in entries) == [
        (f"{number}-1", ["f", f"v{number}"]) for number in (1, 3, 4, 5, 6)
    ]


async def test_a_part_of_a_folder_can_be_asked_for(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    kinds = {line["kind"] for line in dumped(tmp_path, "--log")}
    assert kinds == {"folder", "record"}
    kinds = {line["kind"] for line in dumped(tmp_path, "--checkpoint")}
    assert kinds == {"folder", "checkpoint", "image"}
    lines = dumped(tmp_path, "--checkpoint", "--key", "t")
    assert {line["key"] for line in lines[2:]} == {"t"}
    dumped(tmp_path, "--checkpoint", "--log", status=2)


async def test_damaged_images_are_shown_and_the_dump_goes_on(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    whole = dumped(tmp_path)
    change(
        tmp_path,
        "UPDATE body SET packed = zeroblob(9) WHERE number = (SELECT max(number) FROM body)",
    )
    lines = dumped(tmp_path, status=1)
    assert len(lines) == len(whole)
    assert sum(line["kind"] == "damaged" for line in lines) == 1
