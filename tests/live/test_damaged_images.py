"""A part of a checkpoint that the disk has damaged: what needs it says so, all else goes on."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.live.cluster import Node, cluster_of
from tests.patience import wait_until

ENTRIES = 4_000
STREAMS = ("one", "other")


def fill(node: Node) -> None:
    for stream in STREAMS:
        pipe = node.client.pipeline(transaction=False)
        for index in range(1, ENTRIES + 1):
            pipe.xadd(stream, {"index": index}, id=f"{index}-*")
        pipe.execute()
    saved = node.client.info("persistence")["checkpoint_record"]
    node.client.bgsave()
    wait_until(lambda: node.client.info("persistence")["checkpoint_record"] > saved, "a checkpoint")


def damage(node: Node) -> int:
    """Change a byte of an image of the last entries that were written; tell its number."""
    with sqlite3.connect(node.folder / "log.sqlite") as database:
        number, packed = database.execute(
            "SELECT number, packed FROM body ORDER BY number DESC LIMIT 1"
        ).fetchone()
        middle = len(packed) // 2
        changed = packed[:middle] + bytes([packed[middle] ^ 1]) + packed[middle + 1 :]
        database.execute("UPDATE body SET packed = ? WHERE number = ?", (changed, number))
    database.close()
    return int(number)


def error_of(client: redis.Redis, stream: str) -> str:
    """The error of reading a whole stream; empty if all of it is there."""
    try:
        entries: Any = client.xrange(stream)
    except redis.ResponseError as error:
        return str(error)
    assert len(entries) >= ENTRIES
    return ""


@pytest.mark.long
def test_a_damaged_image_is_reported_and_all_else_goes_on(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as regions:
        regions.configure()
        node = regions[1]
        node.start()
        fill(node)
        node.end()
        number = damage(node)
        node.start()
        client = node.client

        errors = {stream: error_of(client, stream) for stream in STREAMS}
        ((damaged, error),) = [(stream, text) for stream, text in errors.items() if text]
        assert error.startswith("IOERR entries cannot be read from disk")
        assert f"image {number} is damaged" in error
        assert client.info("persistence")["image_reads_failed"] >= 1

        assert client.xlen(damaged) == ENTRIES
        client.xadd(damaged, {"index": "one more"})
        assert len(client.xrevrange(damaged, count=1)) == 1
        # Who asks again has it read again, and the connection goes on.
        assert error_of(client, damaged)
        assert client.ping()

        node.end()
        done = subprocess.run(
            [sys.executable, "-m", "crdtstream", "fsck", str(node.folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert str(number) in done.stdout
