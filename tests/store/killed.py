"""Processes that die in the middle of writing a folder, one after the other, each at a failpoint.

    python -m tests.store.killed FOLDER COUNT SEED

Each of them first checks what the one before left: every row that was acknowledged, and a
checkpoint that sees what it saw when it was committed, or the one that was under way.  They are
forks of one process, so that a hundred of them take seconds.
"""

import asyncio
import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Final

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.checkpoints import CheckpointRow
from crdtstream.store.failpoints import EXIT_STATUS, NO_FAILPOINTS, Failpoints, parse_failpoint
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from tests.store.test_checkpoints import images, seen

R1 = RegionId(1)
# Every step that such a process comes by, but those that it comes by at each start.
STEPS: Final = (
    *("checkpoint.begin", "checkpoint.put-bodies", "checkpoint.put", "checkpoint.drop"),
    *("checkpoint.commit", "checkpoint.committed", "checkpoint.verify", "checkpoint.verified"),
    *("checkpoint.forget", "checkpoint.forget-slice", "checkpoint.discard-slice"),
    *("log.append", "log.sync", "log.cut", "log.cut-slice", "log.vacuum"),
)
ROUNDS: Final = 6


class Notes:
    """Acknowledgements that the processes got, in a file that outlives them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.acknowledged = 0
        # What each committed, or nearly committed, checkpoint sees.
        self.images: dict[int, list[int]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    def _take(self, note: list[object]) -> None:
        match note:
            case ["row", int(seq)]:
                self.acknowledged = seq
            case ["checkpoint", int(generation), [*numbers]]:
                self.images[generation] = [int(str(number)) for number in numbers]

    def add(self, *note: object) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(note) + "\n")
        self._take(list(note))


async def live(folder: Path, notes: Notes, rng: random.Random, failpoints: Failpoints) -> None:
    """Check what is there, and write on until the failpoint is reached."""
    log = await SqliteLog.open(
        folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS, failpoints=failpoints
    )
    checkpoints = await SqliteCheckpoints.open(log)
    assert log.is_proven or log.fresh
    await log.confirm()
    assert log.last_seq >= notes.acknowledged
    alive: list[int] = []
    made = 0
    newest = await checkpoints.newest()
    if newest is not None:
        generation, made = newest.row.generation, newest.row.images_made
        alive = await seen(checkpoints, generation)
        assert alive == notes.images[generation]
        assert log.first_seq <= newest.row.seq + 1
        if not newest.is_verified:
            await checkpoints.verify(generation)
    for seq in range(log.first_seq, log.last_seq + 1):
        (logged,) = await log.read_from(seq, bytes_max=1)
        assert logged.record == record(seq)
    assert log.begins == ({R1: log.first_seq - 1} if log.first_seq > 1 else {})

    for _ in range(ROUNDS):
        first = log.last_seq + 1
        await log.append([record(n) for n in range(first, first + rng.randrange(1, 40))])
        notes.add("row", log.last_seq)
        generation = await checkpoints.begin()
        count = rng.randrange(1, 300)
        await checkpoints.put(images(made + 1, made + count))
        dropped = rng.sample(alive, rng.randrange(len(alive) + 1))
        alive = sorted({*alive, *range(made + 1, made + count + 1)} - {*dropped})
        made += count
        notes.add("checkpoint", generation, alive)
        seq = log.last_seq
        await checkpoints.commit(CheckpointRow(generation, seq, {R1: seq}, made, 0), dropped)
        await checkpoints.verify(generation)
        await checkpoints.forget_before(generation)
        await checkpoints.cut_log(seq - rng.randrange(3))
        assert await seen(checkpoints, generation) == alive
    await log.abandon()


def record(n: int) -> Record:
    return Record(R1, n, n, b"batch %d" % n * (n % 200), None)


def run_one(folder: Path, notes: Path, seed: int, step: str | None) -> int:
    """A process of its own; returns its exit status."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        rng = random.Random(seed)
        failpoints = NO_FAILPOINTS
        if step is not None:
            failpoints = parse_failpoint(f"{step}:{rng.randrange(1, 4)}")
        asyncio.run(live(folder, Notes(notes), rng, failpoints))
        status = 0
    except BaseException:  # noqa: BLE001 - the process ends here
        print(f"seed {seed}, step {step}", file=sys.stderr)
        traceback.print_exc()
    os._exit(status)


def main() -> None:
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir()
    notes = folder.with_name("notes")
    killed = 0
    for number in range(count):
        status = run_one(folder, notes, seed + number, STEPS[number % len(STEPS)])
        if status not in (0, EXIT_STATUS):
            sys.exit(1)
        killed += status == EXIT_STATUS
    if run_one(folder, notes, seed + count, None):
        sys.exit(1)
    print(killed)


if __name__ == "__main__":
    main()
