"""The digest as it was while formats 1 and 2 were written: a lane column after column."""

from array import array
from hashlib import blake2b

import pytest

from crdtstream.core import digest
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.wire.codec import pack


def use_earlier_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``Replica.digest`` tell what the programs told that wrote those folders."""
    monkeypatch.setattr(digest, "_lane", _lane)


def _lane(lane: Lane) -> bytes:
    nodes = list(lane.macro_nodes())
    hasher = blake2b(_number(lane.length), digest_size=digest.DIGEST_BYTES)
    for columns in (
        (pack(node.ms) for node in nodes),
        (pack(node.seq) for node in nodes),
        (pack(array("Q", node.n)) for node in nodes),
        (pack(node.lengths) for node in nodes),
        (node.live_fields() for node in nodes),
    ):
        for column in columns:
            hasher.update(column)
    for node in nodes:
        for index in range(len(node)):
            name = node.idempotent_at(index)
            if name is not None:
                hasher.update(
                    b"id" + _number(node.n[index]) + _text(name.producer) + _text(name.id)
                )
    return hasher.digest()


def _number(value: int | RegionId) -> bytes:
    return value.to_bytes(8, "little")


def _text(data: bytes) -> bytes:
    return _number(len(data)) + data
