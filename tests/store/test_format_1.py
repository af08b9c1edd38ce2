"""The bytes of format 1 stay as they were written: batches, local changes, digests, a folder.

``format_1`` holds the log of region 1 of two, whose commands made every kind of effect and of
local change; the digest after each of its records; and the bytes of every kind by itself.  None of
it is written anew: a kind that is added gets another line in ``bytes.json``.
"""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

from crdtstream.core.effects import (
    LocalChange,
    RareEffect,
    Record,
)
from crdtstream.core.ids import RegionId
from crdtstream.core.tuning import REDIS_VERSION
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.core.wire.local_codec import decode_local, encode_local
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from tests.harness.regions import Node
from tests.store.golden import encoded

FOLDER = Path(__file__).parent / "format_1"
EVERYTHING = 1 << 30


def facts() -> Any:
    return json.loads((FOLDER / "facts.json").read_text())


async def records(folder: Path) -> list[Record]:
    """Records of a copy of the log."""
    shutil.copyfile(FOLDER / "log.sqlite", folder / "log.sqlite")
    log = await SqliteLog.open(folder, region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS)
    try:
        return [row.record for row in await log.read_from(1, bytes_max=EVERYTHING)]
    finally:
        await log.abandon()


def test_every_kind_is_encoded_as_it_was() -> None:
    written = json.loads((FOLDER / "bytes.json").read_text())
    now = {name: data.hex() for name, data in encoded().items()}
    added = {name: now[name] for name in now.keys() - written.keys()}
    assert not added, f"lines for {FOLDER.name}/bytes.json: {json.dumps(added)}"
    assert now == written


async def test_the_log_holds_every_kind(tmp_path: Path) -> None:
    kinds: set[type] = set()
    for record in await records(tmp_path):
        if record.batch is not None:
            kinds |= {type(effect) for _, effect in decode_batch(record.batch).others}
        if record.local is not None:
            kinds |= {type(change) for _, change in decode_local(record.local).changes}
    # Kinds that came later are not in it; those that were there must not be lost from it.
    assert kinds <= {*get_args(RareEffect), *get_args(LocalChange)}
    assert len(kinds) == 11 + 8


async def test_records_are_encoded_again_to_the_same_bytes(tmp_path: Path) -> None:
    for record in await records(tmp_path):
        if record.batch is not None:
            assert encode_batch(decode_batch(record.batch)) == record.batch
        if record.local is not None:
            assert encode_local(decode_local(record.local)) == record.local


async def test_the_folder_is_lived_through_as_it_was(tmp_path: Path) -> None:
    """Record by record the same digest; at the end the same local state, in clients' words."""
    node = Node(1, now=facts()["now"])
    digests = []
    for record in await records(tmp_path):
        node.replica.replay(record)
        digests.append(node.replica.digest().decode())
    assert digests == facts()["digests"]
    assert {str(region): n for region, n in node.replica.vv.items()} == facts()["vv"]
    assert {
        key.decode(): node.replica.digest(key).decode() for key in sorted(node.replica)
    } == facts()["keys"]
    REDIS_VERSION.put(node.replica, "8.8.0")
    for key, shown in facts()["streams"].items():
        assert node(f"XINFO STREAM {key} FULL") == shown
