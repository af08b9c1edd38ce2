"""Bytes from one region to another, for messages that are produced, read and acknowledged."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from benchmarks.generators import run_load
from benchmarks.measured import in_turns
from benchmarks.parts.latency import CONSUMERS, PRODUCERS, RATE
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.processes import HOST
from benchmarks.relay import Relay, relay
from benchmarks.systems import (
    Starter,
    System,
    free_base_port,
    redis_servers,
    regions,
    started,
)
from crdtstream.core.ids import RegionId
from crdtstream.settings.addresses import GRPC_PORT_BASE, RESP_PORT_BASE

ENTRIES: Final = 10_000
READ_COUNT: Final = 10
SECONDS: Final = 5
KEY: Final = "bench"
REDIS: Final = "Redis replica"
# What the second region's link to the first one brought.
SENT: Final = "crdtstream_link_sent_bytes_total"
UNPACKED: Final = "crdtstream_link_sent_unpacked_bytes_total"
ISSUED: Final = "crdtstream_effects_issued_total"

Load = Callable[[System], int]


def run(options: Options) -> Found:
    entries = options.scaled(ENTRIES, least=READ_COUNT)
    loads: dict[str, Load] = {
        "one client, one by one": partial(one_by_one, entries=entries),
        f"{RATE:,} messages a second": partial(at_a_rate, seconds=options.seconds(SECONDS)),
    }
    with ExitStack() as stack:
        between = stack.enter_context(relay())
        starters: dict[str, Starter] = {
            REDIS: redis_servers(replicas=1),
            OURS: relayed_regions(between),
        }
        systems = stack.enter_context(started(starters))
        theirs, ours = systems[REDIS], systems[OURS]
        measurements: list[tuple[str, str, Callable[[], dict[str, float]]]] = []
        for case, load in loads.items():
            measurements.append((case, REDIS, partial(measure_redis, theirs, load)))
            measurements.append((case, OURS, partial(measure, ours, load, between)))
        measurements.append(
            ("acknowledged in random order", OURS, partial(count_effects, ours, entries))
        )
        return Found(in_turns(options.rounds, measurements))


def relayed_regions(between: Relay) -> Starter:
    """Two regions, of which the second pulls from the first through the relay."""
    base_port = free_base_port(2)
    between.target = base_port + GRPC_PORT_BASE - RESP_PORT_BASE + 1
    ways = {(RegionId(2), RegionId(1)): f"{HOST}:{between.port}"}
    return regions(count=2, ways=ways, base_port=base_port)


def one_by_one(system: System, *, entries: int) -> int:
    """The worst case: every message is a batch, and so is every acknowledgement."""
    found = run_load(
        "produce_read_acknowledge",
        port=system.ports[0],
        key=KEY,
        group="g0",
        count=entries,
        read=READ_COUNT,
    )
    return int(found["entries"])


def at_a_rate(system: System, *, seconds: float) -> int:
    found = run_load(
        "through_redis",
        port=system.ports[0],
        read_port=system.ports[0],
        key=KEY,
        group="g0",
        rate=RATE,
        seconds=seconds,
        producers=PRODUCERS,
        consumers=CONSUMERS,
        count=READ_COUNT,
    )
    return int(found["received"])


def measure_redis(system: System, load: Load) -> dict[str, float]:
    """Bytes that the replica was sent, by Redis's own count."""
    run_load("groups", port=system.ports[0], key=KEY, count=1)
    before = system.client().info("replication")["master_repl_offset"]
    entries = load(system)
    after = system.client().info("replication")["master_repl_offset"]
    system.drop(KEY)
    return {"sent_bytes": (after - before) / entries}


def measure(system: System, load: Load, between: Relay) -> dict[str, float]:
    """Bytes that the other region was sent, by the node's count; and on the connection, both ways.

    The latter has gRPC's frames, the peer's acknowledgements and heartbeats in it.
    """
    run_load("groups", port=system.ports[0], key=KEY, count=1)
    system.rest()
    peer = {"peer": "2"}
    names = (SENT, UNPACKED)
    before, passed = [system.metric(name, **peer) for name in names], between.passed_bytes
    entries = load(system)
    system.wait_for_length(KEY, system.client().xlen(KEY))
    system.rest()
    after, passed = [system.metric(name, **peer) for name in names], between.passed_bytes - passed
    system.drop(KEY)
    sent, unpacked = ((b - a) / entries for a, b in zip(before, after, strict=True))
    return {
        "sent_bytes": unpacked,
        "compressed_bytes": sent,
        "connection_bytes": passed / entries,
    }


def count_effects(system: System, entries: int) -> dict[str, float]:
    """Acknowledgement effects for a hundred XACKs, of entries in random order."""
    run_load("fill", port=system.ports[0], key=KEY, count=entries)
    run_load("groups", port=system.ports[0], key=KEY, count=1)
    before = system.metric(ISSUED, kind="AckFrontier")
    found = run_load(
        "acknowledge_at_random", port=system.ports[0], key=KEY, group="g0", count=entries, seed=1
    )
    after = system.metric(ISSUED, kind="AckFrontier")
    system.drop(KEY)
    return {"effects_per_100_xacks": (after - before) / found["entries"] * 100}


PART: Final = Part(
    name="wire",
    about="Bytes to another region for a message that is produced, read ten at a time and"
    " acknowledged; before and after compression, and all that the connection carries.",
    reference=REDIS,
    run=run,
)
