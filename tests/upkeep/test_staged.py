"""Folders whose log says that another region's state was merged, while no checkpoint has it yet."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.sqlite_staging import STAGING_FILE, SqliteStaging
from crdtstream.store.staging import StagedCut, staged_state
from tests.harness.regions import Node
from tests.store.stagings import stage_state
from tests.upkeep.folders import R1, checked, checkpoint, found

# Macro nodes of region 2 have as many entries.
NODE_ENTRIES = 2


def peer() -> Node:
    """Region 2, whose state is taken over."""
    node = Node(2)
    node.limit_nodes(NODE_ENTRIES, 4096)
    node.run(*(f"XADD s {ms}-2 f v{ms}" for ms in range(1, 6)), "XDEL s 2-2", "SET k v")
    return node


@contextlib.asynccontextmanager
async def merged(
    folder: Path, then: Sequence[str] = ("XADD s 9-1 f v9", "XACK s g 1-1")
) -> AsyncIterator[tuple[Node, SqliteLog, SqliteCheckpoints, SqliteStaging]]:
    """Region 1 with a checkpoint, and a merged state that is staged; ``then`` it runs commands."""
    node = Node(1)
    log = await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    staging = await SqliteStaging.open(folder)
    try:
        checkpoints = await SqliteCheckpoints.open(log)
        checkpoints.staging = staging
        await log.confirm()
        node.run("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g a STREAMS s >")
        await checkpoint(node, log, checkpoints)
        cut = await stage_state(staging, peer().replica)
        merge(node, staging, cut)
        if then:
            node.run(*then)
        node.replica.residency.loader = checkpoints.load
        yield node, log, checkpoints, staging
    finally:
        await staging.close()
        await log.close()


def merge(node: Node, staging: SqliteStaging, cut: StagedCut) -> None:
    node.end_tick()
    node.replica.staged = partial(staged_state, staging)
    merging = node.replica.merging(Merged(cut.id, cut.source, cut.vv))
    node.replica.merge(merging, Millis(node.now))
    node.end_tick()


async def folder_of(folder: Path) -> str:
    """Make one; its digest."""
    async with merged(folder) as (node, log, _, _):
        await log.append(node.log)
        with node.replica.residency.in_place():
            return node.replica.digest().decode()


def change_staging(folder: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / STAGING_FILE)) as connection, connection:
        connection.execute(statement)


async def test_a_state_that_was_merged_is_read_from_the_staging(tmp_path: Path) -> None:
    digest = await folder_of(tmp_path)
    report = checked(tmp_path)
    assert found(report) == {}
    assert report.digest == digest
    assert report.vv == {1: 4, 2: 7}
    shown = {check.name: check.found for check in report.checks}
    assert shown["staging"] == "6 images of region 2"
    assert shown["checkpoints"] == "the same state from checkpoint 1, the whole log"
    assert shown["lanes"] == "2 keys, 2 lanes, 6 entries"


async def test_checking_changes_nothing_of_what_is_staged(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    before = (tmp_path / STAGING_FILE).read_bytes()
    checked(tmp_path)
    assert (tmp_path / STAGING_FILE).read_bytes() == before


async def test_a_merged_state_without_its_staging_is_damage(tmp_path: Path) -> None:
    """A copy of the folder that left the file out: no node starts with it."""
    await folder_of(tmp_path)
    (tmp_path / STAGING_FILE).unlink()
    report = checked(tmp_path)
    assert set(found(report)) == {"state"}
    assert "says was merged, and it is not staged any more" in found(report)["state"]
    assert report.digest == ""


async def test_another_state_that_is_staged_is_not_the_one_that_was_merged(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    (tmp_path / STAGING_FILE).unlink()
    staging = await SqliteStaging.open(tmp_path)
    await stage_state(staging, peer().replica, cut_id=b"another state...")
    await staging.close()
    assert "not staged any more" in found(checked(tmp_path))["state"]


async def test_a_state_that_is_not_complete_is_not_the_one_that_was_merged(tmp_path: Path) -> None:
    await folder_of(tmp_path)
    change_staging(tmp_path, "PRAGMA user_version = 0")
    assert "not staged any more" in found(checked(tmp_path))["state"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM image WHERE number = (SELECT max(number) FROM image)",
        "UPDATE cut SET images = images + 1",
        "UPDATE cut SET vv = '2:9'",
        f"UPDATE image SET head = zeroblob(length(head)) WHERE kind = {Kind.ROOT.value}",
        f"UPDATE image SET head = zeroblob(length(head)) WHERE kind = {Kind.KEY.value}",
        # Of entries, which a digest need not read.
        "UPDATE body SET packed = zeroblob(length(packed))",
        "DELETE FROM body WHERE number = (SELECT max(number) FROM body)",
    ],
)
async def test_damage_of_what_is_staged_is_found(tmp_path: Path, statement: str) -> None:
    await folder_of(tmp_path)
    change_staging(tmp_path, statement)
    report = checked(tmp_path)
    assert set(found(report)) == {"staging"}
    assert "staging.sqlite" in found(report)["staging"]
    assert report.digest == ""


async def test_once_a_checkpoint_has_it_the_staging_may_go(tmp_path: Path) -> None:
    async with merged(tmp_path) as (node, log, checkpoints, staging):
        await checkpoint(node, log, checkpoints)
        with node.replica.residency.in_place():
            digest = node.replica.digest().decode()
        await staging.discard()
    report = checked(tmp_path)
    assert found(report) == {}
    assert report.digest == digest
    (shown,) = [one.found for one in report.checks if one.name == "checkpoints"]
    assert shown == "the same state from checkpoint 2"


async def test_a_checkpoint_right_behind_the_merge_is_enough(tmp_path: Path) -> None:
    async with merged(tmp_path, then=()) as (node, log, checkpoints, staging):
        await checkpoint(node, log, checkpoints)
        await staging.discard()
    assert found(checked(tmp_path)) == {}
