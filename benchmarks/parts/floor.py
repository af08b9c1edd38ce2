"""PING beside XADD, and XADD without a log: how much of an XADD is left when one of them goes.

PING takes the way of every request: socket, event loop, parser, session, reply.  What an XADD takes
besides is for the command, the tick and the log.  A node without a log (``without_log.py``) shows
the log's part of that.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.generators import benchmark_figures, in_pipelines, start_redis_benchmark
from benchmarks.measured import Sample, in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.parts.xadd import REQUESTS, measure
from benchmarks.systems import Starter, System, redis_servers, regions, started
from benchmarks.without_log import PROGRAM

FSYNC: Final = "everysec"
WITHOUT_LOG: Final = "without a log"


def run(options: Options) -> Found:
    starters: dict[str, Starter] = {
        "Redis": redis_servers(FSYNC),
        OURS: regions(FSYNC),
        WITHOUT_LOG: regions(FSYNC, node=(sys.executable, *PROGRAM)),
    }
    with started(starters) as systems:
        measurements: list[tuple[str, str, Callable[[], dict[str, float]]]] = []
        for pipeline, amount in REQUESTS.items():
            requests = options.scaled(amount, least=100)
            measurements += [
                (f"PING, -P {pipeline}", name, partial(ping, system, pipeline, requests))
                for name, system in systems.items()
                if name != WITHOUT_LOG
            ]
            measurements += [
                (f"XADD, -P {pipeline}", name, partial(measure, system, pipeline, requests))
                for name, system in systems.items()
            ]
        samples: list[Sample] = in_turns(options.rounds, measurements)
    return Found(samples)


def ping(system: System, pipeline: int, requests: int) -> dict[str, float]:
    """As ``measure`` of XADD, of PING."""
    requests = in_pipelines(requests, pipeline)
    before = system.cpu_seconds()
    found = benchmark_figures(
        start_redis_benchmark(system.ports[0], pipeline=pipeline, requests=requests, words=["PING"])
    )
    return {**found, "cpu_us": (system.cpu_seconds() - before) / requests * 1e6}


PART: Final = Part(
    name="floor",
    about="PING and XADD by 50 clients of redis-benchmark, one region beside redis-server,"
    " appendfsync everysec. A region without a log answers as if it had one.",
    reference="Redis",
    run=run,
)
