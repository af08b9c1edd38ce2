"""Processor time of nodes that nobody asks for anything."""

import time
from functools import partial
from typing import Final

from benchmarks.measured import in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.systems import System, redis_servers, regions, started

NODES: Final = 3
SECONDS: Final = 20
REDIS: Final = "Redis + 2 replicas"


def run(options: Options) -> Found:
    starters = {
        REDIS: redis_servers(replicas=NODES - 1),
        OURS: regions(count=NODES),
    }
    if options.against is not None:
        starters["other"] = regions(count=NODES, tree=options.against)
    with started(starters) as systems:
        for system in systems.values():
            system.rest()
        case = f"{NODES} nodes"
        seconds = options.seconds(SECONDS)
        return Found(
            in_turns(
                options.rounds,
                [
                    (case, name, partial(measure, system, seconds))
                    for name, system in systems.items()
                ],
            )
        )


def measure(system: System, seconds: float) -> dict[str, float]:
    """Percent of a core that one node takes, on average over the nodes."""
    before, began = system.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    spent, lasted = system.cpu_seconds() - before, time.perf_counter() - began
    return {"core_percent": spent / lasted / len(system.pids) * 100}


PART: Final = Part(
    name="idle",
    about="Percent of a core that each of three connected nodes takes while nobody asks for"
    " anything.",
    reference=REDIS,
    run=run,
)
