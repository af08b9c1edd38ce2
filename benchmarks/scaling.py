"""A model of what many regions and many entries take, fitted to what was measured.

Every region applies every message, once.  So a message costs its writer something, and each further
region something more; with R regions

    CPU of all nodes for a message = a + b (R - 1)

a is what a region by itself takes, b what one more region adds: the link at both ends, and applying
and logging there.  A node that has one core takes part in every message, so however many regions
write, all of them together do at most about 1 / b messages a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.aims import Outcomes, shown
from benchmarks.measured import Outcome
from benchmarks.parts.cold import SENSOR
from benchmarks.parts.part import OURS

REGIONS: Final = (1, 3, 5, 9, 20, 50)
ENTRIES: Final = (10**6, 10**8, 10**9, 10**10, 10**12)
HEARTBEATS_PER_S: Final = 4
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Line:
    """y = base + slope (x - 1)."""

    base: float
    slope: float

    @classmethod
    def through(cls, points: Sequence[tuple[float, float]]) -> Self:
        """By least squares of the relative error, so that small values count as much."""
        assert len({x for x, _ in points}) > 1
        weights = [1 / y**2 for _, y in points]
        total = sum(weights)
        mean_x = sum(w * (x - 1) for w, (x, _) in zip(weights, points, strict=True)) / total
        mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
        square = sum(w * (x - 1 - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
        slope = (
            sum(
                w * (x - 1 - mean_x) * (y - mean_y)
                for w, (x, y) in zip(weights, points, strict=True)
            )
            / square
        )
        return cls(mean_y - slope * mean_x, slope)

    def at(self, x: float) -> float:
        return self.base + self.slope * (x - 1)


def fitted(outcome: Outcome) -> Line:
    """Processor time of all nodes for a message, over the number of regions."""
    points = [
        (float(case), spread.median)
        for case in outcome.cases
        if (spread := outcome.spread(case, OURS, "cpu_us")) is not None
    ]
    return Line.through(points)


def regions_rows(outcomes: Outcomes) -> Iterator[Sequence[str]]:
    """For each number of regions: measured, by the model, and what follows."""
    if (outcome := outcomes.get("curve-regions")) is None:
        return
    line = fitted(outcome)
    idle = outcomes.get("idle")
    resting = None if idle is None else idle.spread("3 nodes", OURS, "core_percent")
    yield [
        "regions",
        "links",
        "measured, µs a message",
        "model, µs a message",
        "messages/s in sum, a core for each node",
        "heartbeats/s, a node",
        "idle, % of a core, a node",
    ]
    for count in REGIONS:
        spread = outcome.spread(str(count), OURS, "cpu_us")
        per_node = line.at(count) / count
        yield [
            str(count),
            str(count * (count - 1)),
            "" if spread is None else shown(spread.median),
            shown(line.at(count)),
            shown(1e6 / per_node),
            str(2 * HEARTBEATS_PER_S * (count - 1)),
            # Three nodes have two links each, and idle is what links do.
            "" if resting is None or count == 1 else shown(resting.median / 2 * (count - 1)),
        ]


def entries_rows(outcomes: Outcomes) -> Iterator[Sequence[str]]:
    """For each number of entries: memory and disk of each region."""
    if (outcome := outcomes.get("cold")) is None:
        return
    memory = outcome.spread(SENSOR, OURS, "memory_bytes")
    disk = outcome.spread(SENSOR, OURS, "disk_bytes")
    theirs = outcome.spread(SENSOR, outcome.reference, "memory_bytes")
    if memory is None or disk is None or theirs is None:
        return
    yield ["entries", "memory, GiB", "disk, GiB", "Redis: memory, GiB"]
    for count in ENTRIES:
        sizes = (one.median * count / GIB for one in (memory, disk, theirs))
        yield [f"{count:,}", *map(shown, sizes)]
