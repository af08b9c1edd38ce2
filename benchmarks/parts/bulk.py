"""Commands over 100,000 entries: of a region in process, without sockets or disk; Redis beside."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import commands
from benchmarks.generators import run_load
from benchmarks.measured import in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.systems import TREE, System, redis_servers, started

ENTRIES: Final = commands.ENTRIES
KEY: Final = "bench"
READ: Final = "XREADGROUP of all"
DELETE: Final = "XDEL one by one"
ACKNOWLEDGE: Final = "XACK of all"
TRIM: Final = "XTRIM DELREF of all"
WORKLOADS: Final = (READ, DELETE, ACKNOWLEDGE, TRIM)


def run(options: Options) -> Found:
    trees = {OURS: TREE}
    if options.against is not None:
        trees["other"] = options.against
    with started({"Redis": redis_servers()}) as systems:
        measurements: list[tuple[str, str, Callable[[], dict[str, float]]]] = []
        for workload in WORKLOADS:
            measurements.append((workload, "Redis", partial(measure, systems["Redis"], workload)))
            for name, tree in trees.items():
                measurements.append((workload, name, partial(in_process, tree, workload)))
        return Found(in_turns(options.rounds, measurements))


def in_process(tree: Path, workload: str) -> dict[str, float]:
    """Processor time of a region's commands, in a process of its own."""
    found_us = commands.measured(tree, [workload])[workload]
    return {"cpu_s": found_us * ENTRIES / 1e6}


def measure(system: System, workload: str) -> dict[str, float]:
    """Processor time of redis-server, which parses and answers besides."""
    client, port = system.client(), system.ports[0]
    run_load("fill", port=port, key=KEY, count=ENTRIES)
    run_load("groups", port=port, key=KEY, count=1)
    if workload != READ:
        run_load("deliver", port=port, key=KEY, group="g0", count=ENTRIES)
    ids = [entry_id for entry_id, _ in client.xrange(KEY)]
    system.rest()
    before = system.cpu_seconds()
    if workload == READ:
        client.xreadgroup("g0", "c", {KEY: ">"}, count=ENTRIES)
    elif workload == ACKNOWLEDGE:
        client.xack(KEY, "g0", *ids)
    elif workload == TRIM:
        # Redis 7 has no DELREF: what is pending stays so.
        client.xtrim(KEY, maxlen=0, approximate=False)
    else:
        pipeline = client.pipeline(transaction=False)
        for one in ids:
            pipeline.xdel(KEY, one)
        pipeline.execute()
    spent = system.cpu_seconds() - before
    system.drop(KEY)
    return {"cpu_s": spent}


PART: Final = Part(
    name="bulk",
    about="Commands over 100,000 entries in process, without sockets or disk; beside it the"
    " processor time of redis-server, which parses and answers besides.",
    reference="Redis",
    run=run,
)
