"""The bytes of format 2 stay as they were written: batches, local changes, digests, a folder.

``format_2`` holds the log of region 1 of two, whose commands made every kind of effect and of
local change; the digest after each of its records; and the bytes of every kind by itself.  None of
it is written anew: a kind that is added, or that a later format writes differently, gets another
line in ``bytes.json``.
"""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from crdtstream.core.effects import (
    AckFrontier,
    EffectBatch,
    LocalChange,
    RareEffect,
    Record,
    SetGroupMode,
)
from crdtstream.core.ids import RegionId
from crdtstream.core.tuning import REDIS_VERSION
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.core.wire.local_codec import decode_local, encode_local
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from tests.harness.regions import Node
from tests.store.earlier_digest import use_earlier_digest
from tests.store.golden import encoded

FOLDER = Path(__file__).parent / "format_2"
EVERYTHING = 1 << 30


# Behind the name of a kind that had other bytes before.
FORMAT_5 = ", format 5"


def changes_with_format_5(batch: EffectBatch) -> bool:
    """Whether there are intervals in it, or columns."""
    return bool(batch.appends.ms) or any(
        isinstance(effect, AckFrontier | SetGroupMode) for _, effect in batch.others
    )


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
    expected = {
        name: written.get(name + FORMAT_5, data)
        for name, data in written.items()
        if not name.endswith(FORMAT_5)
    }
    assert {name: data.hex() for name, data in encoded().items()} == expected


def test_what_format_5_writes_differently_is_read_as_it_was() -> None:
    written = json.loads((FOLDER / "bytes.json").read_text())
    changed = [name for name in written if name + FORMAT_5 in written]
    assert len(changed) == 3
    for name in changed:
        read = decode_batch(bytes.fromhex(written[name]))
        assert read == decode_batch(bytes.fromhex(written[name + FORMAT_5]))
        assert encode_batch(read).hex() == written[name + FORMAT_5]


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
            if not changes_with_format_5(read):
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
