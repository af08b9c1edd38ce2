"""From XADD to a consumer at a fixed rate: 10 producers, 10 consumers of one group."""

from functools import partial
from typing import Any, Final

from benchmarks.generators import run_load
from benchmarks.measured import Sample, in_turns, latencies, percentile
from benchmarks.parts.part import FSYNCS, OURS, Found, Options, Part
from benchmarks.systems import Starter, System, redis_servers, regions, started

RATE: Final = 10_000
SECONDS: Final = 10
PRODUCERS = CONSUMERS = 10
READ_COUNT: Final = 100
PENDING: Final = 2_000_000
KEY: Final = "bench"


def run(options: Options) -> Found:
    samples: list[Sample] = []
    for fsync in FSYNCS:
        starters: dict[str, Starter] = {"Redis": redis_servers(fsync), OURS: regions(fsync)}
        if options.against is not None:
            starters["other"] = regions(fsync, tree=options.against)
        with started(starters) as systems:
            measurements = [
                (fsync, name, partial(measure, system, options)) for name, system in systems.items()
            ]
            samples += in_turns(options.rounds, measurements)
            pending = options.scaled(PENDING)
            for system in systems.values():
                system.drop(KEY)
                run_load("fill", port=system.ports[0], key=KEY, count=pending)
                run_load("groups", port=system.ports[0], key=KEY, count=1)
                run_load("deliver", port=system.ports[0], key=KEY, group="g0", count=1_000)
            measurements = [
                (f"{fsync}, {pending:,} pending", name, partial(measure, system, options))
                for name, system in systems.items()
            ]
            samples += in_turns(options.rounds, measurements)
    return Found(samples)


def measure(system: System, options: Options) -> dict[str, float]:
    """Times from send to receipt, and processor time for a message."""
    if not system.client().exists(KEY):
        run_load("groups", port=system.ports[0], key=KEY, count=1)
    system.rest()
    before = system.cpu_seconds()
    found = run_load(
        "through_redis",
        port=system.ports[0],
        read_port=system.ports[0],
        key=KEY,
        group="g0",
        rate=RATE,
        seconds=options.seconds(SECONDS),
        producers=PRODUCERS,
        consumers=CONSUMERS,
        count=READ_COUNT,
    )
    return paced_figures(found, system.cpu_seconds() - before)


def paced_figures(found: dict[str, Any], spent: float) -> dict[str, float]:
    """Figures of a run at a fixed rate.

    ``reached_per_s`` is less than the rate if the system did not keep up; ``late_p99_ms`` is how
    late the generator itself was, which is in no other figure.
    """
    assert found["received"], "nothing came"
    return {
        **latencies(found["latencies_ms"]),
        "cpu_us": spent / found["received"] * 1e6,
        "reached_per_s": found["received"] / found["seconds"],
        "lost": found["expected"] - found["received"],
        "late_p99_ms": percentile(sorted(found["late_ms"]), 0.99),
    }


PART: Final = Part(
    name="latency",
    about="10,000 messages a second by 10 producers to 10 blocked consumers of one group, who"
    " acknowledge; from XADD's send to the consumer's receipt.",
    reference="Redis",
    run=run,
)
