"""XADD of three regions that replicate to each other, beside Redis with two replicas."""

import time
from functools import partial
from typing import Final

from benchmarks.generators import benchmark_figures, in_pipelines, start_redis_benchmark
from benchmarks.measured import Sample, in_turns
from benchmarks.parts.part import FSYNCS, OURS, Found, Options, Part
from benchmarks.systems import Starter, System, redis_servers, regions, started

PIPELINE: Final = 16
REQUESTS: Final = 300_000
REGIONS: Final = 3
STREAMS: Final = 100_000
KEY: Final = "bench"
# Written last: once a node has it, it has all before.
END: Final = "end"
REDIS: Final = "Redis + 2 replicas"


def run(options: Options) -> Found:
    requests = options.scaled(REQUESTS, least=REGIONS * 100)
    samples: list[Sample] = []
    for fsync in FSYNCS:
        starters: dict[str, Starter] = {
            REDIS: redis_servers(fsync, replicas=REGIONS - 1),
            OURS: regions(fsync, count=REGIONS),
        }
        if options.against is not None:
            starters["other"] = regions(fsync, count=REGIONS, tree=options.against)
        with started(starters) as systems:
            measurements = [
                (
                    f"{fsync}, {writers} writer{'s' if writers > 1 else ''}",
                    name,
                    partial(measure, system, writers, requests),
                )
                for writers in (1, REGIONS)
                for name, system in systems.items()
                if writers <= system.writable
            ]
            streams = options.scaled(STREAMS)
            measurements += [
                (
                    f"{fsync}, {streams:,} streams",
                    name,
                    partial(measure_streams, system, streams, requests),
                )
                for name, system in systems.items()
            ]
            samples += in_turns(options.rounds, measurements)
    return Found(samples)


def measure(system: System, writers: int, requests: int) -> dict[str, float]:
    """The rate in sum, processor time of all nodes for a message, and until all are equal."""
    each = in_pipelines(requests // writers, PIPELINE)
    words = ["XADD", KEY, "*", "field", "value:__rand_int__"]
    before, began = system.cpu_seconds(), time.perf_counter()
    running = [
        start_redis_benchmark(port, pipeline=PIPELINE, requests=each, words=words)
        for port in system.ports[:writers]
    ]
    found = [benchmark_figures(one) for one in running]
    ended = time.perf_counter()
    system.wait_for_length(KEY, each * writers)
    equal = time.perf_counter()
    # Until the last node has them all: what others do later is part of the cost.
    spent = system.cpu_seconds() - before
    if writers == 1:
        # As redis-benchmark counts it, without its own start.
        rate = found[0]["rate_per_s"]
    else:
        rate = each * writers / (ended - began)
    system.drop(KEY)
    return {
        "rate_per_s": rate,
        "cpu_us": spent / (each * writers) * 1e6,
        "equal_s": equal - ended,
    }


def measure_streams(system: System, streams: int, requests: int) -> dict[str, float]:
    """As ``measure``, of one writer whose entries are of many streams in any order."""
    requests = in_pipelines(requests, PIPELINE)
    words = ["XADD", f"{KEY}:__rand_int__", "*", "field", "value"]
    before = system.cpu_seconds()
    found = benchmark_figures(
        start_redis_benchmark(
            system.ports[0], pipeline=PIPELINE, requests=requests, words=words, random_max=streams
        )
    )
    ended = time.perf_counter()
    system.client().xadd(END, {"field": "value"})
    system.wait_for_length(END, 1)
    equal = time.perf_counter()
    spent = system.cpu_seconds() - before
    system.client().flushall()
    system.wait_for_length(END, 0)
    system.rest()
    return {
        "rate_per_s": found["rate_per_s"],
        "cpu_us": spent / requests * 1e6,
        "equal_s": equal - ended,
    }


PART: Final = Part(
    name="regions",
    about="XADD, -P 16, 50 clients for each writing region, to one stream or to many; processor"
    " time of all three nodes until all have every entry, and how long after the last reply that"
    " was.",
    reference=REDIS,
    run=run,
)
