"""A folder of format 3 stays readable as it was written: a checkpoint, a log cut behind it, a tail.

``format_3`` holds the records of ``format_2``, with three checkpoints that were written on the way.
It is not written anew.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.tuning import REDIS_VERSION
from crdtstream.store.log import Fsync
from crdtstream.store.replay import recover
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from tests.harness.regions import Node
from tests.store.checkpointed import write_checkpoint

FOLDER = Path(__file__).parent / "format_3"
FACTS: Any = json.loads((FOLDER / "facts.json").read_text())


async def opened(folder: Path) -> tuple[SqliteLog, SqliteCheckpoints]:
    log = await SqliteLog.open(folder, region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS)
    return log, await SqliteCheckpoints.open(log)


async def recovered(log: SqliteLog, checkpoints: SqliteCheckpoints) -> Node:
    """The region as the folder has it, and what was told when it was written."""
    node = Node(1, now=FACTS["now"])

    def empty() -> Replica:
        return node.replica

    found = await recover(log, checkpoints, empty)
    assert found.checkpoint is not None
    assert found.checkpoint.is_verified
    assert found.records == log.last_seq - found.checkpoint.row.seq
    REDIS_VERSION.put(node.replica, "8.8.0")
    return node


def check(node: Node) -> None:
    assert {str(region): n for region, n in node.replica.vv.items()} == FACTS["vv"]
    assert node.replica.digest().decode() == FACTS["digest"]
    assert {
        key.decode(): node.replica.digest(key).decode() for key in sorted(node.replica)
    } == FACTS["keys"]
    for key, shown in FACTS["streams"].items():
        told: Any = node(f"XINFO STREAM {key} FULL")
        assert {**told, **LAYOUT} == {**shown, **LAYOUT}


# How entries are spread over macro nodes is no promise.
LAYOUT = {"radix-tree-keys": 0, "radix-tree-nodes": 0}


async def test_the_folder_says_what_its_node_said_and_goes_on(tmp_path: Path) -> None:
    shutil.copyfile(FOLDER / "log.sqlite", tmp_path / "log.sqlite")
    log, checkpoints = await opened(tmp_path)
    try:
        assert (log.first_seq, log.last_seq) == (FACTS["first_seq"], FACTS["last_seq"])
        newest = await checkpoints.newest()
        assert newest is not None
        assert (newest.row.generation, newest.row.seq) == tuple(FACTS["checkpoint"].values())
        kinds = set()
        async for images in checkpoints.heads(newest.row.generation):
            kinds |= {image.kind for image in images}
        assert kinds == set(Kind)
        node = await recovered(log, checkpoints)
        check(node)
        node.end_tick()
        await write_checkpoint(node.replica, log, checkpoints, Millis(FACTS["now"]))
        await checkpoints.cut_log(log.last_seq)
    finally:
        await log.abandon()

    log, checkpoints = await opened(tmp_path)
    try:
        assert log.first_seq == log.last_seq + 1
        check(await recovered(log, checkpoints))
    finally:
        await log.abandon()
