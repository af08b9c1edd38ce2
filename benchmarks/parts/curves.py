"""Cost of a message as something grows: regions, streams, groups, consumers, waiting clients.

Each curve is a part of its own.  At each point both systems are brought there, and are then
measured in turns; so what has grown stays for the next point.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Final

from benchmarks.generators import (
    benchmark_figures,
    blocked_clients,
    run_load,
    start_redis_benchmark,
)
from benchmarks.measured import Sample, in_turns
from benchmarks.parts import consume
from benchmarks.parts import regions as regions_part
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.systems import System, redis_servers, regions, started

REDIS: Final = "Redis"
PIPELINE: Final = 16
REQUESTS: Final = 100_000
ENTRIES: Final = 100_000
READS: Final = 5_000
KEY: Final = "bench"
# With __rand_int__ behind it, which has twelve digits.
PREFIX: Final = "stream:"

REGIONS: Final = (1, 3, 5, 9)
STREAMS: Final = (1, 1_000, 100_000, 1_000_000)
GROUPS: Final = (1, 10, 100, 1_000)
CONSUMERS: Final = (1, 10, 100, 1_000, 10_000)
BLOCKED: Final = (0, 100, 1_000, 10_000)
LENGTHS: Final = (10_000, 100_000, 1_000_000, 10_000_000)

# Brings a system to a point, for as long as it is entered.
Prepare = Callable[[System, int], AbstractContextManager[None]]
Measure = Callable[[System, int], dict[str, float]]


def along(points: Sequence[int], prepare: Prepare, measure: Measure, options: Options) -> Found:
    """One pair of systems, brought from point to point."""
    settings = {"limits": {"clients_max": 15_000}}
    starters = {REDIS: redis_servers(), OURS: regions(settings=settings)}
    if options.against is not None:
        starters["other"] = regions(tree=options.against, settings=settings)
    samples: list[Sample] = []
    with started(starters) as systems:
        for point in points:
            with ExitStack() as stack:
                for system in systems.values():
                    stack.enter_context(prepare(system, point))
                    system.rest()
                samples += in_turns(
                    options.rounds,
                    [
                        (str(point), name, partial(measure, system, point))
                        for name, system in systems.items()
                    ],
                )
    return Found(samples)


def xadd(system: System, requests: int, *, key: str = KEY, random_max: int = 1) -> dict[str, float]:
    """XADDs of 50 clients: rate and processor time."""
    before = system.cpu_seconds()
    found = benchmark_figures(
        start_redis_benchmark(
            system.ports[0],
            pipeline=PIPELINE,
            requests=requests,
            words=["XADD", key, "*", "field", "value"],
            random_max=random_max,
        )
    )
    spent = system.cpu_seconds() - before
    system.rest()
    return {"xadd_cpu_us": spent / requests * 1e6, "xadd_rate_per_s": found["rate_per_s"]}


# --- The curves ---------------------------------------------------------------------------------


def regions_curve(options: Options) -> Found:
    requests = options.scaled(REQUESTS, least=100)
    samples: list[Sample] = []
    for count in REGIONS:
        starters = {
            REDIS: redis_servers(replicas=count - 1),
            OURS: regions(count=count),
        }
        with started(starters) as systems:
            samples += in_turns(
                options.rounds,
                [
                    (str(count), name, partial(regions_part.measure, system, 1, requests))
                    for name, system in systems.items()
                ],
            )
    return Found(samples)


def streams_curve(options: Options) -> Found:
    def prepare(system: System, count: int) -> AbstractContextManager[None]:
        run_load("fill_streams", port=system.ports[0], prefix=PREFIX, count=count)
        return nullcontext()

    def measure(system: System, count: int) -> dict[str, float]:
        requests = options.scaled(REQUESTS, least=100)
        return xadd(system, requests, key=f"{PREFIX}__rand_int__", random_max=count)

    points = [options.scaled(count) for count in STREAMS[1:]]
    return along([STREAMS[0], *points], prepare, measure, options)


def groups_curve(options: Options) -> Found:
    def prepare(system: System, count: int) -> AbstractContextManager[None]:
        there = len(system.client().xinfo_groups(KEY)) if system.client().exists(KEY) else 0
        for number in range(there, count):
            system.client().xgroup_create(KEY, f"g{number}", "$", mkstream=True)
        return nullcontext()

    def measure(system: System, count: int) -> dict[str, float]:
        found = xadd(system, options.scaled(REQUESTS, least=100))
        # The group of this point reads what has come, and the others look on.
        before = system.cpu_seconds()
        read = run_load(
            "consume",
            port=system.ports[0],
            key=KEY,
            group=f"g{count - 1}",
            connections=consume.CONNECTIONS,
            count=consume.COUNT,
            consumers=consume.CONNECTIONS,
        )
        spent = system.cpu_seconds() - before
        return found | {"consume_cpu_us": spent / read["entries"] * 1e6}

    return along(GROUPS, prepare, measure, options)


def consumers_curve(options: Options) -> Found:
    def prepare(_system: System, _count: int) -> AbstractContextManager[None]:
        return nullcontext()

    def measure(system: System, count: int) -> dict[str, float]:
        entries = options.scaled(ENTRIES, least=consume.COUNT * consume.CONNECTIONS)
        found = consume.measure(system, entries, consumers=count)
        return {"consume_cpu_us": found["cpu_us"], "consume_rate_per_s": found["rate_per_s"]}

    return along(CONSUMERS, prepare, measure, options)


def blocked_curve(options: Options) -> Found:
    @contextmanager
    def prepare(system: System, count: int) -> Iterator[None]:
        with blocked_clients(system.ports[0], count):
            yield

    def measure(system: System, _count: int) -> dict[str, float]:
        return xadd(system, options.scaled(REQUESTS, least=100))

    points = sorted({0, *(options.scaled(count) for count in BLOCKED[1:])})
    return along(points, prepare, measure, options)


def length_curve(options: Options) -> Found:
    def prepare(system: System, count: int) -> AbstractContextManager[None]:
        missing = count - int(system.client().xlen(KEY))
        run_load("fill", port=system.ports[0], key=KEY, count=max(0, missing))
        return nullcontext()

    def measure(system: System, count: int) -> dict[str, float]:
        client = system.client()
        first, last = (
            int(found[0][0].split(b"-")[0])
            for found in (client.xrange(KEY, count=1), client.xrevrange(KEY, count=1))
        )
        reads = options.scaled(READS, least=10)
        before = system.cpu_seconds()
        run_load(
            "read_at_random",
            port=system.ports[0],
            key=KEY,
            first=first,
            last=last,
            count=reads,
            seed=count,
        )
        spent = system.cpu_seconds() - before
        found = xadd(system, options.scaled(REQUESTS // 10, least=100))
        return found | {"xrange_cpu_us": spent / reads * 1e6}

    return along([options.scaled(count) for count in LENGTHS], prepare, measure, options)


def _curve(axis: str, about: str, run: Callable[[Options], Found]) -> Part:
    name = f"curve-{axis.replace(' ', '-')}"
    return Part(name=name, about=about, reference=REDIS, run=run, curve=axis)


PARTS: Final = (
    _curve(
        "regions",
        "XADD -P 16 in one region, all others connected; processor time of all nodes for a message."
        " Redis: one server and as many replicas.",
        regions_curve,
    ),
    _curve(
        "streams",
        "XADD -P 16 to one of so many streams, drawn at random.",
        streams_curve,
    ),
    _curve(
        "groups",
        "XADD -P 16 to a stream with so many groups, and one of these that reads it.",
        groups_curve,
    ),
    _curve(
        "consumers",
        "XREADGROUP COUNT 100 and XACK, by so many consumers of one group in turn.",
        consumers_curve,
    ),
    _curve(
        "blocked clients",
        "XADD -P 16 while so many clients wait in XREAD BLOCK for other streams.",
        blocked_curve,
    ),
    _curve(
        "length",
        "A stream with so many entries: XADD -P 16, and XRANGE of ten from random places.",
        length_curve,
    ),
)
