"""XADD of one region beside Redis: 50 clients, pipelines of 1, 16 and 100, both fsyncs."""

from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.generators import in_pipelines, xadds
from benchmarks.measured import Sample, in_turns
from benchmarks.parts.part import FSYNCS, OURS, Found, Options, Part
from benchmarks.systems import Starter, System, redis_servers, regions, started

REQUESTS: Final = {1: 100_000, 16: 400_000, 100: 600_000}
KEY: Final = "bench"


def run(options: Options) -> Found:
    samples: list[Sample] = []
    for fsync in FSYNCS:
        starters: dict[str, Starter] = {"Redis": redis_servers(fsync), OURS: regions(fsync)}
        if options.against is not None:
            starters["other"] = regions(fsync, tree=options.against)
        with started(starters) as systems:
            measurements: list[tuple[str, str, Callable[[], dict[str, float]]]] = [
                (
                    f"{fsync}, -P {pipeline}",
                    name,
                    partial(measure, system, pipeline, options.scaled(requests, least=100)),
                )
                for pipeline, requests in REQUESTS.items()
                for name, system in systems.items()
            ]
            samples += in_turns(options.rounds, measurements)
    return Found(samples)


def measure(system: System, pipeline: int, requests: int) -> dict[str, float]:
    """The rate, and the processor time of the node for a message."""
    requests = in_pipelines(requests, pipeline)
    before = system.cpu_seconds()
    found = xadds(system.ports[0], pipeline=pipeline, requests=requests, key=KEY)
    spent = system.cpu_seconds() - before
    system.drop(KEY)
    return {
        "rate_per_s": found["rate_per_s"],
        "cpu_us": spent / requests * 1e6,
        "p50_ms": found["p50_ms"],
        "p99_ms": found["p99_ms"],
    }


PART: Final = Part(
    name="xadd",
    about="XADD of a small entry by 50 clients of redis-benchmark, one region beside redis-server"
    " with the same appendfsync.",
    reference="Redis",
    run=run,
)
