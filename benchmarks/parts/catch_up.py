"""A region that was away gets what it missed; a replica of Redis and a mirror of NATS likewise."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import redis

from benchmarks.generators import run_load
from benchmarks.measured import in_turns
from benchmarks.nats_servers import (
    MISSING,
    SUBJECT,
    NatsPair,
    is_nats_there,
    nats_pair,
)
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.processes import resident_bytes, resident_bytes_max, wait_until
from benchmarks.systems import (
    CONVERGE_SECONDS_MAX,
    Starter,
    System,
    redis_servers,
    regions,
    scratch,
    started,
)

ENTRIES: Final = 500_000
# field and value of the small entry.
MESSAGE_BYTES: Final = 10
# The second node.
AWAY: Final = 1
KEY: Final = "bench"
REDIS: Final = "Redis replica"
NATS: Final = "NATS mirror"


def run(options: Options) -> Found:
    entries = options.scaled(ENTRIES)
    starters: dict[str, Starter] = {REDIS: redis_servers(replicas=1), OURS: regions(count=2)}
    if options.against is not None:
        starters["other"] = regions(count=2, tree=options.against)
    case = f"{entries:,} entries"
    with ExitStack() as stack:
        systems = stack.enter_context(started(starters))
        measurements: list[tuple[str, str, Callable[[], dict[str, float]]]] = [
            (
                case,
                name,
                partial(measure, system, entries),
            )
            for name, system in systems.items()
        ]
        skipped = {}
        if is_nats_there():
            pair = stack.enter_context(nats_pair(stack.enter_context(scratch())))
            measurements.insert(1, (case, NATS, partial(measure_nats, pair, entries)))
        else:
            skipped[NATS] = MISSING
        return Found(in_turns(options.rounds, measurements), skipped)


def measure(system: System, entries: int) -> dict[str, float]:
    """The second node is stopped, misses entries, and is started again."""
    system.nodes.stop(AWAY)
    run_load("fill", port=system.ports[0], key=KEY, count=entries)
    began = time.perf_counter()
    system.nodes.start(AWAY)
    figures = watch(partial(length, system), system.cpu_seconds, entries, began)
    pid = system.nodes.pid(AWAY)
    figures |= memory(pid)
    system.drop(KEY)
    return figures


def measure_nats(pair: NatsPair, entries: int) -> dict[str, float]:
    """The same with the leaf, which has the mirror."""
    pair.make_stream()
    pair.stop_leaf()
    run_load("publish", port=pair.port, subject=SUBJECT, count=entries, size=MESSAGE_BYTES)
    began = time.perf_counter()
    pair.start_leaf()
    figures = watch(pair.mirrored, pair.cpu_seconds, entries, began)
    return figures | memory(pair.leaf_pid)


def memory(pid: int) -> dict[str, float]:
    """Memory that the node holds with all entries, and the most it held on the way."""
    return {
        "memory_mib": resident_bytes(pid) / (1 << 20),
        "memory_peak_mib": resident_bytes_max(pid) / (1 << 20),
    }


def length(system: System) -> int:
    """Number of entries in the node, none if it does not run yet; OSError while it loads them."""
    try:
        return int(system.client(AWAY).xlen(KEY))
    except redis.BusyLoadingError as error:
        raise OSError(str(error)) from error
    except redis.ConnectionError:
        return 0


def watch(
    count: Callable[[], int], cpu: Callable[[], float], expected: int, began: float
) -> dict[str, float]:
    """The rate from the first look that finds some of it to that which finds it all.

    The start of the process and of its link is not in the rate, nor what comes before the node
    answers, but in the time from the start.  So is what Redis takes to make a snapshot and to send
    it, which is seen only when it is loaded: of what is there at once, the rate is that since the
    look before.
    """
    since, had, spent = began, 0, cpu()

    def look() -> bool:
        nonlocal since, had, spent
        found = count()
        if not had and found < expected:
            since, had, spent = time.perf_counter(), found, cpu()
        return found >= expected

    wait_until(look, f"{expected} entries", CONVERGE_SECONDS_MAX)
    ended, came = time.perf_counter(), expected - had
    return {
        "rate_per_s": came / (ended - since),
        "cpu_us": (cpu() - spent) / came * 1e6,
        "from_start_s": ended - began,
    }


PART: Final = Part(
    name="catch-up",
    about="A second region is killed, misses entries, and starts again; entries a second from the"
    " first that is seen there to the last, and its memory. Redis sends a snapshot that is seen at"
    " once when it is loaded, so the time from the start compares better.",
    reference=REDIS,
    run=run,
)
