"""A group read to its end: XREADGROUP COUNT 100 and XACK."""

from functools import partial
from typing import Final

from benchmarks.generators import run_load
from benchmarks.measured import Sample, in_turns
from benchmarks.parts.part import FSYNCS, OURS, Found, Options, Part
from benchmarks.systems import Starter, System, redis_servers, regions, started

ENTRIES: Final = 300_000
COUNT: Final = 100
CONNECTIONS: Final = 4
KEY: Final = "bench"


def run(options: Options) -> Found:
    entries = options.scaled(ENTRIES, least=CONNECTIONS * COUNT)
    samples: list[Sample] = []
    for fsync in FSYNCS:
        starters: dict[str, Starter] = {"Redis": redis_servers(fsync), OURS: regions(fsync)}
        if options.against is not None:
            starters["other"] = regions(fsync, tree=options.against)
        with started(starters) as systems:
            measurements = [
                (fsync, name, partial(measure, system, entries)) for name, system in systems.items()
            ]
            samples += in_turns(options.rounds, measurements)
    return Found(samples)


def measure(system: System, entries: int, *, consumers: int = CONNECTIONS) -> dict[str, float]:
    """Messages a second, processor time of the node and of the generator for a message."""
    port = system.ports[0]
    run_load("fill", port=port, key=KEY, count=entries)
    run_load("groups", port=port, key=KEY, count=1)
    system.rest()
    before = system.cpu_seconds()
    found = run_load(
        "consume",
        port=port,
        key=KEY,
        group="g0",
        connections=CONNECTIONS,
        count=COUNT,
        consumers=consumers,
    )
    spent = system.cpu_seconds() - before
    assert found["entries"] == found["acknowledged"] == entries
    system.drop(KEY)
    return {
        "rate_per_s": entries / found["seconds"],
        "cpu_us": spent / entries * 1e6,
        "generator_us": found["generator_seconds"] / entries * 1e6,
    }


PART: Final = Part(
    name="consume",
    about="XREADGROUP COUNT 100 and one XACK of what came, four consumers that each send both in"
    " one go; entries are small and in memory.",
    reference="Redis",
    run=run,
)
