"""Payloads for RESTORE, whose hash is right, whatever they say."""

import zlib
from functools import cache
from typing import Final

from crdtstream.commands.keys.dumping import HASH_BYTES, MAGIC, frame
from crdtstream.commands.reply import CommandError
from tests.fuzz.batches import DAMAGE_TO_BATCH
from tests.fuzz.damage import damaged_bytes, one_of, remade
from tests.fuzz.histories import HERE, check_whole, look_at
from tests.fuzz.surface import Surface
from tests.harness.regions import Node


def target(data: bytes) -> object:
    """A payload: the key is restored, read, and dumped again."""
    node = Node(HERE)
    argv = [b"RESTORE", b"x", b"0", data, b"REPLACE"]
    reply = node.raw_words(argv)
    if isinstance(reply, CommandError):
        return reply.text
    again = node.raw_words([b"DUMP", b"x"])
    assert isinstance(again, bytes)
    assert not isinstance(node.raw_words([b"RESTORE", b"y", b"0", again]), CommandError)
    look_at(node)
    check_whole(node.replica, node.log)
    return again


@cache
def seeds() -> list[bytes]:
    node = Node(HERE)
    node.run("XADD x 1-1 f v", "XADD x IDMP p a 2-1 f v", "XADD x 3-1 f v g w", "XDEL x 3-1")
    node.run("XCFGSET x IDMP-DURATION 30 IDMP-MAXSIZE 9", "SET s value", "XADD one 5 f v")
    found = [node.raw(f"DUMP {key}") for key in ("x", "s", "one")]
    return [payload for payload in found if isinstance(payload, bytes)]


def _content(payload: bytes) -> bytes | None:
    try:
        return zlib.decompress(payload[len(MAGIC) + 1 : -HASH_BYTES])
    except zlib.error:
        return None


DUMPS: Final = Surface(
    "dumps",
    target,
    seeds,
    one_of(*[remade(_content, frame, DAMAGE_TO_BATCH)] * 4, remade(_content, frame, damaged_bytes)),
    "payloads of RESTORE with the right hash",
)
