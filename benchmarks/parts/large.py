"""One command over very many entries, keys or fields: what it takes, and what it keeps others from.

Each command is run twice on a stream that was filled again: once alone, for its processor time, and
once beside a client that sends PINGs, for the longest that a PING waited.  ``times Redis`` compares
the processor times.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Final

from benchmarks.generators import pings, run_load
from benchmarks.load.wire import Connection, command
from benchmarks.measured import Sample, in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.processes import main_thread_seconds, resident_bytes
from benchmarks.systems import TREE, Starter, System, redis_servers, regions, started
from crdtstream.local.regions import Settings

ENTRIES: Final = 300_000
NAMED: Final = 50_000
KEYS: Final = 100_000
FIELDS: Final = 10_000
SPARSE: Final = 500
STREAMS: Final = 5_000
CONSUMERS: Final = 20_000
GROUPS: Final = 2_000
# Commands that change little or nothing are repeated.
REPEATED: Final = 10
VALUE_BYTES: Final = 880
SLOW_SECONDS: Final = 2.0
SLOW_BYTES: Final = 1 << 16
# Of a command that takes less than the noise of a thread at rest.
LEAST_SECONDS: Final = 1e-5
KEY: Final = "bench"
NAME: Final = KEY.encode()
GROUP: Final = b"g0"
REDIS: Final = "Redis"

# Makes what a command needs, and returns the requests, which are sent at once.
Prepare = Callable[[System, Options], list[bytes]]


@dataclass(frozen=True, slots=True)
class Case:
    """A command.

    Attributes:
        prepare: see ``Prepare``.
        is_slow: its client waits before it reads the reply.
    """

    prepare: Prepare
    is_slow: bool = False


TIMES: Final = "times_Redis"

# --- What the commands need ---------------------------------------------------------------------


def filled(system: System, options: Options, *, pending: bool = False) -> list[bytes]:
    """A stream, and a group that has read all of it; the IDs."""
    count = options.scaled(ENTRIES)
    run_load("fill", port=system.ports[0], key=KEY, count=count)
    if pending:
        run_load("groups", port=system.ports[0], key=KEY, count=1)
        run_load("deliver", port=system.ports[0], key=KEY, group=GROUP.decode(), count=count)
    found = Connection(system.ports[0]).call(b"XRANGE", NAME, b"-", b"+")
    return [entry_id for entry_id, _ in found]


def some_at_random(ids: list[bytes], options: Options) -> list[bytes]:
    return Random(4711).sample(ids, options.scaled(NAMED))


def delete_keys(system: System, options: Options) -> list[bytes]:
    count = options.scaled(KEYS)
    run_load("fill_streams", port=system.ports[0], prefix="bench:", count=count)
    return [command(b"DEL", *(b"bench:%012d" % n for n in range(count)))]


def of_all(*words: bytes) -> Prepare:
    """A command on a stream whose entries are all pending."""

    def prepare(system: System, options: Options) -> list[bytes]:
        filled(system, options, pending=True)
        return [command(*words)]

    return prepare


def copy(system: System, options: Options) -> list[bytes]:
    filled(system, options)
    return [command(b"COPY", NAME, b"copy")]


def claim_in_order(system: System, options: Options) -> list[bytes]:
    ids = filled(system, options, pending=True)[: options.scaled(NAMED)]
    return [command(b"XCLAIM", NAME, GROUP, b"other", b"0", *ids)]


def claim_at_random(system: System, options: Options) -> list[bytes]:
    ids = some_at_random(filled(system, options, pending=True), options)
    return [command(b"XCLAIM", NAME, GROUP, b"other", b"0", *ids)]


def acknowledge(system: System, options: Options) -> list[bytes]:
    ids = some_at_random(filled(system, options, pending=True), options)
    return [command(b"XACK", NAME, GROUP, *ids)]


def acknowledge_few(system: System, options: Options) -> list[bytes]:
    """Each chunk of the PEL has one or two of what a command names, or a pipeline."""
    ids = some_at_random(filled(system, options, pending=True), options)
    return [
        command(b"XACK", NAME, GROUP, *ids[at : at + SPARSE]) for at in range(0, len(ids), SPARSE)
    ]


def acknowledge_one_by_one(system: System, options: Options) -> list[bytes]:
    ids = some_at_random(filled(system, options, pending=True), options)
    return [command(b"XACK", NAME, GROUP, entry_id) for entry_id in ids]


def delete(system: System, options: Options) -> list[bytes]:
    return [command(b"XDEL", NAME, *some_at_random(filled(system, options), options))]


def delete_one_by_one(system: System, options: Options) -> list[bytes]:
    ids = some_at_random(filled(system, options), options)
    return [command(b"XDEL", NAME, entry_id) for entry_id in ids]


def read_streams(*words: bytes, start: bytes, times: int = 1) -> Prepare:
    """A command that reads many streams of one entry, each with a group, some times."""

    def prepare(system: System, options: Options) -> list[bytes]:
        keys = [b"bench:%012d" % n for n in range(options.scaled(STREAMS))]
        run_load("fill_streams", port=system.ports[0], prefix="bench:", count=len(keys))
        Connection(system.ports[0]).call_many(
            command(b"XGROUP", b"CREATE", key, GROUP, b"0") for key in keys
        )
        return [command(*words, b"STREAMS", *keys, *[start] * len(keys))] * times

    return prepare


def show(*words: bytes, groups: int, consumers: int) -> Prepare:
    """A command about a stream with many groups, or with a group of many consumers."""

    def prepare(system: System, options: Options) -> list[bytes]:
        run_load(
            "groups",
            port=system.ports[0],
            key=KEY,
            count=options.scaled(groups),
            consumers=options.scaled(consumers) if consumers else 0,
        )
        run_load("fill", port=system.ports[0], key=KEY, count=100)
        return [command(*words)] * REPEATED

    return prepare


def append_wide(system: System, options: Options) -> list[bytes]:
    fields = [word for n in range(options.scaled(FIELDS)) for word in (b"field:%d" % n, b"value")]
    return [command(b"XADD", NAME, b"*", *fields)] * REPEATED


def range_of_much(system: System, options: Options) -> list[bytes]:
    request = command(b"XADD", NAME, b"*", b"field", b"v" * VALUE_BYTES)
    Connection(system.ports[0]).call_many(request for _ in range(options.scaled(ENTRIES)))
    return [command(b"XRANGE", NAME, b"-", b"+")]


CASES: Final[dict[str, Case]] = {
    "DEL of 100,000 keys": Case(delete_keys),
    "XINFO STREAM FULL COUNT 0, 300,000 pending": Case(
        of_all(b"XINFO", b"STREAM", NAME, b"FULL", b"COUNT", b"0")
    ),
    "XPENDING - + of 300,000": Case(of_all(b"XPENDING", NAME, GROUP, b"-", b"+", b"%d" % ENTRIES)),
    "XCLAIM of 50,000 in order": Case(claim_in_order),
    "XCLAIM of 50,000 at random": Case(claim_at_random),
    "XDEL of 50,000 at random": Case(delete),
    "50,000 XDELs at random, pipelined": Case(delete_one_by_one),
    "XACK of 50,000 at random": Case(acknowledge),
    "100 XACKs of 500 at random": Case(acknowledge_few),
    "50,000 XACKs at random, pipelined": Case(acknowledge_one_by_one),
    "XREAD of 5,000 streams": Case(read_streams(b"XREAD", start=b"0", times=REPEATED)),
    "XREADGROUP of 5,000 streams": Case(
        read_streams(b"XREADGROUP", b"GROUP", GROUP, b"c", start=b">")
    ),
    "XINFO CONSUMERS of 20,000": Case(
        show(b"XINFO", b"CONSUMERS", NAME, GROUP, groups=1, consumers=CONSUMERS)
    ),
    "XINFO STREAM FULL, 20,000 consumers": Case(
        show(b"XINFO", b"STREAM", NAME, b"FULL", groups=1, consumers=CONSUMERS)
    ),
    "XINFO GROUPS of 2,000": Case(show(b"XINFO", b"GROUPS", NAME, groups=GROUPS, consumers=0)),
    "COPY of 300,000": Case(copy),
    "XADD with 10,000 fields": Case(append_wide),
    "XRANGE of 270 MB, slow client": Case(range_of_much, is_slow=True),
}

# --- Measuring ----------------------------------------------------------------------------------


def run(options: Options) -> Found:
    starters: dict[str, Starter] = {
        REDIS: redis_servers(replicas=1),
        OURS: without_checkpoints(TREE),
    }
    if options.against is not None:
        starters["other"] = without_checkpoints(options.against)
    with started(starters) as systems:
        samples = in_turns(
            options.rounds,
            [
                (name, system.name, partial(measure, system, case, options))
                for name, case in CASES.items()
                for system in systems.values()
            ],
        )
    return Found(with_times(samples))


def with_times(samples: Sequence[Sample]) -> list[Sample]:
    """The samples, with how many times Redis's processor time each command takes."""
    reference = {
        (one.case, one.round): one.figures["cpu_ms"] for one in samples if one.system == REDIS
    }
    return [
        one
        if one.system == REDIS
        else replace(
            one,
            figures={
                TIMES: one.figures["cpu_ms"] / reference[one.case, one.round],
                **one.figures,
            },
        )
        for one in samples
    ]


def without_checkpoints(tree: Path) -> Starter:
    """Two regions, which write no checkpoints by themselves, as Redis writes no snapshots."""
    settings: Settings = {"checkpoint_log_bytes": 0, "checkpoint_interval_s": 0}
    return regions(count=2, tree=tree, settings=settings)


def measure(system: System, case: Case, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    with prepared(system, case, options) as requests:
        before, began = threads_seconds(system), monotonic()
        if case.is_slow:
            figures["extra_mib"] = read_slowly(system, requests)
        else:
            send(system, requests)
        system.rest()
        after, took_s = threads_seconds(system), monotonic() - began
        # At rest the links go on speaking: that is not the command's.
        sleep(took_s)
        later = threads_seconds(system)
    own_s, peer_s = (
        max(LEAST_SECONDS, 2 * ended - begun - idle) / repeats(requests)
        for begun, ended, idle in zip(before, after, later, strict=True)
    )
    with prepared(system, case, options) as requests, pings(system.ports[0]) as waited:
        if case.is_slow:
            read_slowly(system, requests)
        else:
            send(system, requests)
        # What is done after the reply holds others up as well.
        sleep(0.2)
    return {"cpu_ms": own_s * 1e3, "hold_ms": waited["max_ms"], "peer_ms": peer_s * 1e3, **figures}


def threads_seconds(system: System) -> list[float]:
    """Processor time of each node's thread that runs commands."""
    return [main_thread_seconds(pid) for pid in system.pids]


@contextmanager
def prepared(system: System, case: Case, options: Options) -> Iterator[list[bytes]]:
    requests = case.prepare(system, options)
    system.rest()
    try:
        yield requests
    finally:
        system.client().flushall()
        system.wait_for_length(KEY, 0)
        system.rest()


def repeats(requests: list[bytes]) -> int:
    """Number of times that the same command is sent."""
    return len(requests) if requests[0] == requests[-1] else 1


def send(system: System, requests: list[bytes]) -> None:
    connection = Connection(system.ports[0])
    if repeats(requests) > 1:
        for request in requests:
            connection.call_many([request])
    else:
        connection.call_many(requests)


def read_slowly(system: System, requests: list[bytes]) -> float:
    """MiB that the server has more at most while its client hardly reads the reply."""
    pid = system.pids[0]
    before = most = resident_bytes(pid)
    connection = Connection(system.ports[0])
    connection.send(b"".join(requests))
    ends = monotonic() + SLOW_SECONDS
    while monotonic() < ends:
        connection.socket.recv(SLOW_BYTES)
        most = max(most, resident_bytes(pid))
        sleep(0.01)
    connection.socket.close()
    return (most - before) / (1 << 20)


PART: Final = Part(
    name="large",
    about="One command over very many entries: processor time of the thread that runs commands,"
    " less what it takes at rest in as long; the longest that another client's PING waits beside"
    " it; and what the command takes in the other region (of Redis: in its replica). Of a reply of"
    " 270 MB that hardly is read also the memory that it takes.",
    reference=REDIS,
    run=run,
)
