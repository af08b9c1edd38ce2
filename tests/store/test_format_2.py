"""The bytes of format 2 stay as they were written: batches, local changes, digests, a folder.

``format_2`` holds the log of region 1 of two, whose commands made every kind of effect and of
local change; the digest after each of its records; and the bytes of every kind by itself.  None of
it is written anew: a kind that is added gets a line in ``bytes.json``.
"""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from crdtstream.core.effects import LocalChange, RareEffect, Record
from crdtstream.core.ids import RegionId
from crdtstream.core.tuning import REDIS_VERSION
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.core.wire.local_codec import decode_local, encode_local
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from tests.core import every_kind
from tests.harness.regions import Node
from tests.store.earlier_digest import use_earlier_digest
from tests.store.golden import encoded

FOLDER = Path(__file__).parent / "format_2"
EVERYTHING = 1 << 30


def facts() -> Any:
    return json.loads((FOLDER / "facts.json").read_text())


async def records(folder: Path) -> list[Record]:
    """What a copy of the log holds."""
    shutil.copyfile(FOLDER / "log.sqlite", folder / "log.sqlite")
    log = await SqliteLog.open(folder, region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS)
    try:
        return [row.record for row in await log.read_from(1, bytes_max=EVERYTHING)]
    finally:
        await log.abandon()


def test_every_kind_is_encoded_as_it_was() -> None:
    written = json.loads((FOLDER / "bytes.json").read_text())
    del written["appends"]
    assert {name: data.hex() for name, data in encoded().items()} == written


def test_appends_are_read_as_they_were_written_before_format_5() -> None:
    written = json.loads((FOLDER / "bytes.json").read_text())
    assert decode_batch(bytes.fromhex(written["appends"])) == every_kind.batch_of_appends()


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


async def test_what_is_read_is_written_the_same(tmp_path: Path) -> None:
    for record in await records(tmp_path):
        if record.batch is not None:
            read = decode_batch(record.batch)
            assert decode_batch(encode_batch(read)) == read
            if not read.appends.ms:
                assert encode_batch(read) == record.batch
        if record.local is not None:
            assert encode_local(decode_local(record.local)) == record.local


async def test_the_folder_is_lived_through_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record by record the same digest; at the end the same local state, in clients' words."""
    use_earlier_digest(monkeypatch)
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
        for group in shown["groups"]:
            # Told by CRDT.XINFO since.
            del group["undelivered"]
        assert node(f"XINFO STREAM {key} FULL") == shown
