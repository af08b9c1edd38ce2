"""Folders of formats 3 to 5 stay readable as they were written: a checkpoint, a cut log, a tail.

``format_3`` holds the records of ``format_2``, with three checkpoints that were written on the way.
``format_4`` begins with them and goes on with strings, and with batches that are packed in the log.
``format_5`` is that folder, taken over: it goes on with batches whose columns are one field.
None is written anew.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.tuning import REDIS_VERSION
from crdtstream.store.log import Fsync
from crdtstream.store.replay import recover
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.v1 import effects_pb2
from tests.harness.regions import Node
from tests.store.checkpointed import write_checkpoint


@dataclass(frozen=True)
class Golden:
    """A folder as it was written, and what its node said then."""

    path: Path
    facts: Any

    def copy_to(self, folder: Path) -> None:
        shutil.copyfile(self.path / "log.sqlite", folder / "log.sqlite")


@pytest.fixture(params=[3, 4, 5])
def golden(request: pytest.FixtureRequest) -> Golden:
    path = Path(__file__).parent / f"format_{request.param}"
    return Golden(path, json.loads((path / "facts.json").read_text()))


async def opened(folder: Path) -> tuple[SqliteLog, SqliteCheckpoints]:
    log = await SqliteLog.open(folder, region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS)
    return log, await SqliteCheckpoints.open(log)


async def recovered(log: SqliteLog, checkpoints: SqliteCheckpoints, *, now: int) -> Node:
    """The region as the folder has it."""
    node = Node(1, now=now)

    def empty() -> Replica:
        return node.replica

    found = await recover(log, checkpoints, empty)
    assert found.checkpoint is not None
    assert found.checkpoint.is_verified
    assert found.records == log.last_seq - found.checkpoint.row.seq
    REDIS_VERSION.put(node.replica, "8.8.0")
    return node


def check(node: Node, facts: Any) -> None:
    """It says what the node said that wrote the folder."""
    assert {str(region): n for region, n in node.replica.vv.items()} == facts["vv"]
    assert node.replica.digest().decode() == facts["digest"]
    assert {
        key.decode(): node.replica.digest(key).decode() for key in sorted(node.replica)
    } == facts["keys"]
    for key, shown in facts["streams"].items():
        told: Any = node(f"XINFO STREAM {key} FULL")
        assert {**told, **LAYOUT} == {**shown, **LAYOUT}
    for key, value in facts.get("strings", {}).items():
        assert node(f"GET {key}") == value


# How entries are spread over macro nodes is no promise.
LAYOUT = {"radix-tree-keys": 0, "radix-tree-nodes": 0}


async def test_the_folder_says_what_its_node_said_and_goes_on(
    golden: Golden, tmp_path: Path
) -> None:
    facts = golden.facts
    golden.copy_to(tmp_path)
    log, checkpoints = await opened(tmp_path)
    try:
        assert (log.first_seq, log.last_seq) == (facts["first_seq"], facts["last_seq"])
        newest = await checkpoints.newest()
        assert newest is not None
        assert (newest.row.generation, newest.row.seq) == tuple(facts["checkpoint"].values())
        kinds = set()
        async for images in checkpoints.heads(newest.row.generation):
            kinds |= {image.kind for image in images}
        assert kinds == set(Kind)
        node = await recovered(log, checkpoints, now=facts["now"])
        check(node, facts)
        node.end_tick()
        await write_checkpoint(node.replica, log, checkpoints, Millis(facts["now"]))
        await checkpoints.cut_log(log.last_seq)
    finally:
        await log.abandon()

    log, checkpoints = await opened(tmp_path)
    try:
        assert log.first_seq == log.last_seq + 1
        check(await recovered(log, checkpoints, now=facts["now"]), facts)
    finally:
        await log.abandon()


async def test_format_4_has_batches_that_are_packed_in_the_log(tmp_path: Path) -> None:
    """Else the folder would say nothing of how they are kept."""
    shutil.copyfile(Path(__file__).parent / "format_4" / "log.sqlite", tmp_path / "log.sqlite")
    with closing(sqlite3.connect(tmp_path / "log.sqlite")) as database:
        kept = dict(database.execute("SELECT seq, length(batch) FROM log"))
    log, _ = await opened(tmp_path)
    try:
        rows = await log.read_from(log.first_seq, bytes_max=1 << 20)
    finally:
        await log.abandon()
    batches = {row.seq: len(row.record.batch or b"") for row in rows}
    assert any(kept[seq] and kept[seq] < size for seq, size in batches.items())


async def test_format_5_has_columns_in_both_forms(tmp_path: Path) -> None:
    """Behind its checkpoint, and before it as an earlier program wrote them."""
    facts = json.loads((Path(__file__).parent / "format_5" / "facts.json").read_text())
    shutil.copyfile(Path(__file__).parent / "format_5" / "log.sqlite", tmp_path / "log.sqlite")
    log, _ = await opened(tmp_path)
    try:
        rows = await log.read_from(log.first_seq, bytes_max=1 << 20)
    finally:
        await log.abandon()
    messages = {
        row.seq: effects_pb2.EffectBatch.FromString(row.record.batch)
        for row in rows
        if row.record.batch is not None
    }
    earlier = [seq for seq, message in messages.items() if message.ms]
    ours = [seq for seq, message in messages.items() if message.columns]
    assert earlier
    assert ours
    assert max(earlier) < min(ours)
    behind = [messages[seq] for seq in ours if seq > facts["checkpoint"]["seq"]]
    assert any(len(message.keys) > 1 for message in behind)
    assert any(message.idempotent_ids for message in behind)
    assert {message.origin for message in behind} == {1, 2}
