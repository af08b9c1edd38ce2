"""Twelve hours of queues in compressed time: much comes and goes, little is there at any moment.

Producers append jobs to streams of a group; consumers read, acknowledge and delete them.  A job in
ten has a stream of its own for its answer, and a string with a deadline for its result.  Each hour
has a burst: consumers stop, a backlog grows, somebody reads all of it, and it is worked off.

What a node holds when the queues are empty must not grow.
"""

import tempfile
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.nodes import RESP_PORT, RegionNode

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
    """What a node holds of queues that are empty, over twelve hours' worth of jobs."""
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


# --- The plot -----------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 240, 60, 50, 70
SVG: Final = "http://www.w3.org/2000/svg"
FONT: Final = 'font-family="sans-serif" font-size="12"'
LINES: Final = (
    ("RSS, MiB", "#4269d0"),
    ("used_memory, MiB", "#efb118"),
    ("folder, MiB", "#3ca951"),
    ("overhead, MiB", "#ff725c"),
)


def plot(rows: Sequence[dict[str, Any]], about: str) -> str:
    """Memory and folder over the hours, as SVG."""
    highest: float = 1.15 * max(row[name] for row in rows for name, _ in LINES)
    height = TOP + HEIGHT + BOTTOM

    def x(hours: float) -> float:
        return LEFT + hours / HOURS * (WIDTH - LEFT - 20)

    def y(value: float) -> float:
        return TOP + HEIGHT - value / highest * HEIGHT

    parts = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20">{escape(about)}</text>',
    ]
    for step in range(5):
        value = highest * step / 4
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}"'
            ' stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.0f}</text>'
        )
    bottom = TOP + HEIGHT + 18
    parts += [
        f'<text x="{x(hours):.1f}" y="{bottom}" text-anchor="middle">{hours} h</text>'
        for hours in range(0, HOURS + 1, 3)
    ]
    for at, (name, colour) in enumerate(LINES):
        points = " ".join(f"{x(row['hours']):.1f},{y(row[name]):.1f}" for row in rows)
        left, top = LEFT + at * 160, TOP + HEIGHT + 48
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<rect x="{left}" y="{top - 9}" width="18" height="4" fill="{colour}"/>',
            f'<text x="{left + 24}" y="{top - 2}">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
