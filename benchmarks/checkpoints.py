"""What a checkpoint costs: commits of the log beside it, heads at a start, cold reads.

python -m benchmarks.checkpoints [FOLDER]
"""

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.checkpoints import CheckpointRow
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints

R1: Final = RegionId(1)
NODES: Final = 10_000
BODY_BYTES: Final = 20_000
HEADS_NODES: Final = 62_500
HEADS_KEYS: Final = 100_000
READS: Final = 500


async def main(folder: Path) -> None:
    log = await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    checkpoints = await SqliteCheckpoints.open(log)
    rng = random.Random(1)
    took_quiet: list[float] = []
    quiet = await commits(log, lambda: len(took_quiet) >= 1_000, took_quiet)
    print(f"commits without a checkpoint    {quiet}")
    rest = asyncio.create_task(put(checkpoints, log, rng))
    beside = await commits(log, rest.done, [])
    print(f"commits beside                  {beside}")
    seconds = await rest
    print(f"{NODES * BODY_BYTES >> 20} MiB of images put           {seconds:.1f} s")
    began = time.perf_counter()
    await checkpoints.verify(1)
    print(f"verified                        {time.perf_counter() - began:.1f} s")
    wal = log.connections.wal_path.stat().st_size
    print(f"write-ahead log                 {wal >> 20} MiB")

    generation = await checkpoints.begin()
    small = [
        *(Image(n, Kind.NODE, n % 7, 1, bytes(90), b"body") for n in range(NODES + 1, HEADS_NODES)),
        *(
            Image(HEADS_NODES + n, Kind.KEY, 0, 0, rng.randbytes(100), b"")
            for n in range(HEADS_KEYS)
        ),
    ]
    await checkpoints.put(small)
    await checkpoints.commit(
        CheckpointRow(generation, log.last_seq, {}, HEADS_NODES + HEADS_KEYS, 0), []
    )
    await log.connections.move_wal()
    forget_pages(log.path)
    began, count = time.perf_counter(), 0
    async for images in checkpoints.heads(generation):
        count += len(images)
    print(f"{count} heads                    {time.perf_counter() - began:.2f} s")

    forget_pages(log.path)
    took = []
    for _ in range(READS):
        number = rng.randrange(1, NODES)
        began = time.perf_counter()
        await checkpoints.fetch([number])
        took.append(time.perf_counter() - began)
    print(f"cold reads of {BODY_BYTES} B           {shown(took)}")
    await log.abandon()


async def put(checkpoints: SqliteCheckpoints, log: SqliteLog, rng: random.Random) -> float:
    began = time.perf_counter()
    generation = await checkpoints.begin()
    for first in range(1, NODES + 1, 100):
        await checkpoints.put(
            [
                Image(n, Kind.NODE, n % 7, 1, bytes(90), rng.randbytes(BODY_BYTES))
                for n in range(first, first + 100)
            ]
        )
    await checkpoints.commit(CheckpointRow(generation, log.last_seq, {}, NODES, 0), [])
    return time.perf_counter() - began


async def commits(log: SqliteLog, is_over: Callable[[], bool], took: list[float]) -> str:
    while not is_over():
        began = time.perf_counter()
        await log.append([Record(R1, log.last_seq + 1, log.last_seq + 1, bytes(2_000), None)])
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.001)
    return shown(took)


def shown(took: list[float]) -> str:
    ms = sorted(1000 * one for one in took)
    p99 = ms[int(0.99 * len(ms))]
    return f"p50 {statistics.median(ms):.2f} ms, p99 {p99:.2f} ms, max {ms[-1]:.1f} ms ({len(ms)})"


def forget_pages(path: Path) -> None:
    """Have the system read the file from the disk again."""
    # In a process of its own: closing the file would take SQLite's locks on it away here.
    if not (pid := os.fork()):
        file = os.open(path, os.O_RDONLY)
        os.fdatasync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as path:
        asyncio.run(main(Path(path)))
