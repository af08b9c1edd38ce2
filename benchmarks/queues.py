"""Twelve hours of queues in compressed time: much comes and goes, little is there at any moment.

Producers append jobs to streams of a group; consumers read, acknowledge and delete them.  A job in
ten has a stream of its own for its answer, and a string with a deadline for its result.  Each hour
has a burst: consumers stop, a backlog grows, somebody reads all of it, and it is worked off.

What a node holds when the queues are empty must not grow.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.nodes import RESP_PORT, RegionNode
from benchmarks.plots import lines
from crdtstream.page.plots import Series

HOURS: Final = 12
SAMPLES_AN_HOUR: Final = 3
QUEUES: Final = 20
ROUND: Final = 250
# Of the jobs of an hour, those that come while nobody works.
BURST: Final = 5
# As often in compressed time as each five minutes in twelve hours.
SETTINGS: Final[dict[str, object]] = {"checkpoint_interval_s": 3, "checkpoint_log_bytes": 2 << 20}
GROUP: Final = "workers"
MIB: Final = 1 << 20
HOUR_MS: Final = 3_600_000


class Queues:
    """The clients of a node."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._draw = Random(1)
        self._jobs = 0

    def begin(self) -> None:
        for queue in range(QUEUES):
            self._client.xgroup_create(f"queue:{queue}", GROUP, mkstream=True)

    def produce(self, count: int) -> None:
        draw = self._draw
        pipe = self._client.pipeline(transaction=False)
        for _ in range(count):
            self._jobs += 1
            size = draw.choice((40, 200, 1_000)) if draw.random() < 0.99 else 20_000
            job = {"job": self._jobs, "payload": draw.randbytes(size // 2).hex()}
            pipe.xadd(f"queue:{draw.randrange(QUEUES)}", job)
            if self._jobs % 10 == 0:
                pipe.xadd(f"answer:{self._jobs}", {"state": "done"})
                pipe.set(f"result:{self._jobs}", "x" * 100, px=2_000)
                pipe.delete(f"answer:{self._jobs}")
        pipe.execute()

    def consume(self) -> int:
        """Work off what one read of each queue hands out; returns how many jobs that were."""
        done = 0
        for queue in range(QUEUES):
            key = f"queue:{queue}"
            consumer = f"worker-{self._draw.randrange(10)}"
            for _, entries in self._client.xreadgroup(GROUP, consumer, {key: ">"}, count=ROUND):
                ids = [entry_id for entry_id, _ in entries]
                pipe = self._client.pipeline(transaction=False)
                pipe.xack(key, GROUP, *ids)
                pipe.xdel(key, *ids)
                pipe.execute()
                done += len(ids)
        return done

    def drain(self) -> None:
        while self.consume():
            pass

    def read_all(self) -> None:
        for queue in range(QUEUES):
            self._client.xrange(f"queue:{queue}")


def queues(messages: int) -> list[dict[str, object]]:
    """Memory of a node with queues that are empty, over twelve hours' worth of jobs."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="crdtstream-queues-") as folder:
        node = RegionNode(Path(folder), port=RESP_PORT, **SETTINGS)
        node.start()
        try:
            work = Queues(node.client)
            work.begin()
            rows.append(_look(node, 0.0, 0))
            steps = HOURS * SAMPLES_AN_HOUR
            for step in range(1, steps + 1):
                _work(work, messages // steps, has_burst=step % SAMPLES_AN_HOUR == 1)
                rows.append(_look(node, step / SAMPLES_AN_HOUR, messages // steps * step))
        finally:
            node.end()
    return rows


def _work(work: Queues, count: int, *, has_burst: bool) -> None:
    burst = SAMPLES_AN_HOUR * count // BURST if has_burst else 0
    left = count - min(burst, count)
    for size in [ROUND] * (min(burst, count) // ROUND):
        work.produce(size)
    if has_burst:
        work.read_all()
        work.drain()
    for size in [ROUND] * (left // ROUND):
        work.produce(size)
        work.consume()
    work.drain()


def _look(node: RegionNode, hours: float, jobs: int) -> dict[str, object]:
    """Once the node has had time to find out what is free, and what expired is gone."""
    time.sleep(3.0)
    stats = node.client.memory_stats()
    return {
        "hours": round(hours, 2),
        "jobs": jobs,
        "RSS, MiB": round(node.resident_bytes / MIB, 1),
        "used_memory, MiB": round(stats["total.allocated"] / MIB, 1),
        "overhead, MiB": round(stats["crdtstream.overhead"] / MIB, 1),
        "folder, MiB": round(node.disk_bytes / MIB, 1),
    }


def plot(rows: Sequence[dict[str, Any]], about: str) -> str:
    """Memory and folder over the hours, as SVG."""
    names = ("RSS, MiB", "used_memory, MiB", "folder, MiB", "overhead, MiB")
    hours = [row["hours"] * HOUR_MS for row in rows]
    series = [Series(name, [row[name] for row in rows]) for name in names]
    return lines(about, hours, {"memory and folder": series}, lambda at, _: f"{at / HOUR_MS:g} h")
