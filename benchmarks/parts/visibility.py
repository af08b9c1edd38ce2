"""From XADD in one region to a blocked reader in another one, at a fixed rate."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from benchmarks.generators import run_load
from benchmarks.measured import in_turns
from benchmarks.nats_servers import (
    MIRROR,
    MISSING,
    SUBJECT,
    NatsPair,
    is_nats_there,
    nats_pair,
)
from benchmarks.parts.latency import PRODUCERS, RATE, READ_COUNT, SECONDS, paced_figures
from benchmarks.parts.part import FSYNCS, OURS, Found, Options, Part
from benchmarks.systems import (
    Starter,
    System,
    redis_servers,
    regions,
    scratch,
    started,
)

REDIS: Final = "Redis replica"
NATS: Final = "NATS mirror"
KEY: Final = "bench"


def run(options: Options) -> Found:
    starters: dict[str, Starter] = {REDIS: redis_servers(replicas=1)}
    for fsync in FSYNCS:
        starters[f"{OURS}, {fsync}"] = regions(fsync, count=2)
        if options.against is not None:
            starters[f"other, {fsync}"] = regions(fsync, count=2, tree=options.against)
    case = f"{RATE:,} messages a second"
    with ExitStack() as stack:
        systems = stack.enter_context(started(starters))
        measurements: list[tuple[str, str, Callable[[], dict[str, float]]]] = [
            (case, name, partial(measure, system, options)) for name, system in systems.items()
        ]
        skipped = {}
        if is_nats_there():
            pair = stack.enter_context(nats_pair(stack.enter_context(scratch())))
            measurements.insert(1, (case, NATS, partial(measure_nats, pair, options)))
        else:
            skipped[NATS] = MISSING
        return Found(in_turns(options.rounds, measurements), skipped)


def measure(system: System, options: Options) -> dict[str, float]:
    """Times to the second node's reader."""
    before = system.cpu_seconds()
    found = run_load(
        "through_redis",
        port=system.ports[0],
        read_port=system.ports[1],
        key=KEY,
        group="",
        rate=RATE,
        seconds=options.seconds(SECONDS),
        producers=PRODUCERS,
        consumers=1,
        count=READ_COUNT,
    )
    spent = system.cpu_seconds() - before
    system.drop(KEY)
    return paced_figures(found, spent)


def measure_nats(pair: NatsPair, options: Options) -> dict[str, float]:
    """The same: published at the hub, read at the leaf."""
    pair.make_stream()
    pair.rest()
    before = pair.cpu_seconds()
    found = run_load(
        "through_nats",
        port=pair.port,
        read_port=pair.leaf_port,
        subject=SUBJECT,
        stream=MIRROR,
        rate=RATE,
        seconds=options.seconds(SECONDS),
        producers=PRODUCERS,
    )
    return paced_figures(found, pair.cpu_seconds() - before)


PART: Final = Part(
    name="visibility",
    about="10,000 messages a second by 10 producers in one region; from the send to the receipt by"
    " one reader that is blocked in another region.",
    reference=REDIS,
    run=run,
)
