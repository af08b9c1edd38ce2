"""A region joins three others while clients write and consume at a fixed rate."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any, Final

from benchmarks.generators import run_load
from benchmarks.measured import in_turns, latencies
from benchmarks.parts.bootstrap import KEY, MIB, RANDOM_DIGITS, cut_log, fill_random
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.processes import resident_bytes, resident_bytes_max
from benchmarks.systems import RegionNodes, Starter, System, free_base_port, regions, started
from crdtstream.admin.client import AdminClient
from crdtstream.engine.log_cutting import CUT_RECORDS_MIN

ENTRIES: Final = 2_000_000
RATE: Final = 5_000
SECONDS: Final = 10.0
PRODUCERS = CONSUMERS = 5
READ_COUNT: Final = 100
LOADED: Final = "loaded"
REGIONS: Final = 3
# A region that joins has a machine of its own; here it gives way to those that serve clients.
NICE: Final = 10


def run(options: Options) -> Found:
    entries = options.scaled(ENTRIES)
    case = f"{entries:,} entries of {RANDOM_DIGITS} random digits, {RATE:,} messages a second"
    base_port = free_base_port(REGIONS + 1)
    starters: dict[str, Starter] = {OURS: regions(count=REGIONS, base_port=base_port)}
    if options.against is not None:
        starters["other"] = regions(count=REGIONS, base_port=base_port, tree=options.against)
    measurements = [
        (case, name, partial(measure, one, entries, options)) for name, one in starters.items()
    ]
    return Found(in_turns(options.rounds, measurements))


def measure(starter: Starter, entries: int, options: Options) -> dict[str, float]:
    """Three fresh regions, whose logs are cut; a fourth one joins."""
    with started({OURS: starter}) as systems:
        system = systems[OURS]
        fill_random(system.ports[0], entries)
        for _ in range(CUT_RECORDS_MIN):
            # Each is a record: fewer are not cut.
            system.client().xadd("others", {"field": "value"})
        system.wait_for_length(KEY, entries)
        for node in range(REGIONS):
            cut_log(system.client(node))
        run_load("groups", port=system.ports[0], key=LOADED, count=1)
        system.rest()
        before = latencies(load(system, options)["latencies_ms"])
        is_over = Event()
        with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1, initializer=give_way) as other:
            loading = pool.submit(load_until, is_over, system, options)
            try:
                joined = other.submit(join, system).result()
            finally:
                is_over.set()
            during = latencies(loading.result())
        return {
            **joined,
            "p99_before_ms": before["p99_ms"],
            "p99_ms": during["p99_ms"],
            "times": during["p99_ms"] / before["p99_ms"],
        }


def load(system: System, options: Options) -> dict[str, Any]:
    """Producers and consumers in the region whose state is copied."""
    found = run_load(
        "through_redis",
        port=system.ports[0],
        read_port=system.ports[0],
        key=LOADED,
        group="g0",
        rate=RATE,
        seconds=options.seconds(SECONDS),
        producers=PRODUCERS,
        consumers=CONSUMERS,
        count=READ_COUNT,
    )
    assert found["received"] == found["expected"], "something was lost, or came twice"
    return found


def load_until(is_over: Event, system: System, options: Options) -> list[float]:
    """The same, again and again; what each message took."""
    found: list[float] = []
    while not is_over.is_set():
        found += load(system, options)["latencies_ms"]
    return found


def give_way() -> None:
    """Processes that this thread starts have the processor when no other one wants it (Linux)."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def join(system: System) -> dict[str, float]:
    """A fourth region comes, and takes over what there is."""
    nodes = system.nodes
    assert isinstance(nodes, RegionNodes)
    own = nodes.local.expect_one_more()
    began = time.perf_counter()
    nodes.local.join()
    seconds = time.perf_counter() - began
    with AdminClient(own.grpc_address) as client:
        copied = client.status().bootstrap.bytes
    pid = nodes.local.pid(own.region)
    return {
        "joined_s": seconds,
        "copied_mib": copied / MIB,
        "memory_mib": resident_bytes(pid) / MIB,
        "memory_peak_mib": resident_bytes_max(pid) / MIB,
    }


PART: Final = Part(
    name="join",
    about="A fourth region joins three, whose logs are cut, while 5,000 messages a second go"
    " through a group of five consumers in one of them. Its process is niced, as it has a"
    " machine of its own otherwise. Seconds until it is active, what was copied, its memory"
    " then and at most; the 99th percentile of the messages' times before it began, while it"
    " went on, and how many times that is.",
    reference="",
    run=run,
)
