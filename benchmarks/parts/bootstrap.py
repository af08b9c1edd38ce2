"""A region with an empty folder takes over the state of another one, whose log is cut."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import redis

from benchmarks.generators import run_load
from benchmarks.measured import in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.processes import HOST, resident_bytes, resident_bytes_max, wait_until
from benchmarks.systems import RegionNodes, Starter, System, regions, started
from crdtstream.engine.log_cutting import CUT_RECORDS_MIN

ENTRIES: Final = 1_000_000
STREAMS: Final = 100_000
RANDOM_DIGITS: Final = 16
SEED: Final = 1
SENDER, RECEIVER = 0, 1
KEY: Final = "bench"
PING_SECONDS: Final = 0.002
SECONDS_MAX: Final = 900
MIB: Final = 1 << 20


def run(options: Options) -> Found:
    entries, streams = options.scaled(ENTRIES), options.scaled(STREAMS)
    fills: dict[str, tuple[int, Callable[[int], object]]] = {
        f"{entries:,} equal entries in one stream": (
            entries,
            lambda port: run_load("fill", port=port, key=KEY, count=entries),
        ),
        f"{entries:,} random entries in one stream": (
            entries,
            lambda port: fill_random(port, entries),
        ),
        f"{streams:,} streams of one entry": (
            streams,
            lambda port: run_load("fill_streams", port=port, prefix=KEY, count=streams),
        ),
    }
    starters: dict[str, Starter] = {OURS: regions(count=2)}
    if options.against is not None:
        starters["other"] = regions(count=2, tree=options.against)
    return Found(
        in_turns(
            options.rounds,
            [
                (case, name, partial(measure, starter, count, fill))
                for case, (count, fill) in fills.items()
                for name, starter in starters.items()
            ],
        )
    )


def fill_random(port: int, count: int) -> None:
    run_load("fill_random", port=port, key=KEY, count=count, digits=RANDOM_DIGITS, seed=SEED)


def measure(starter: Starter, count: int, fill: Callable[[int], object]) -> dict[str, float]:
    """Two fresh regions; the folder of the second one is lost."""
    with started({OURS: starter}) as systems:
        system = systems[OURS]
        fill(system.ports[SENDER])
        for _ in range(CUT_RECORDS_MIN):
            # Each is a record: fewer are not cut.
            system.client(SENDER).xadd("others", {"field": "value"})
        wait_until(lambda: are_equal(system), "equal regions", SECONDS_MAX)
        cut_log(system.client(SENDER))
        return take_over(system, count)


def take_over(system: System, count: int) -> dict[str, float]:
    """The receiver starts with nothing, and is watched until a checkpoint has everything."""
    nodes = system.nodes
    assert isinstance(nodes, RegionNodes)
    nodes.stop(RECEIVER)
    shutil.rmtree(nodes.local.regions[RECEIVER].data)
    with pinged(system.ports[SENDER]) as sender, pinged(system.ports[RECEIVER]) as receiver:
        began = time.perf_counter()
        nodes.start(RECEIVER)
        wait_until(lambda: bootstrap(system)["phase"] != "idle", "a copy", SECONDS_MAX)
        begun_s = time.perf_counter() - began
        wait_until(lambda: bootstrap(system)["taken_over"] == 1, "the merge", SECONDS_MAX)
        merged_s = time.perf_counter() - began
        wait_until(lambda: bootstrap(system)["phase"] == "idle", "its checkpoint", SECONDS_MAX)
        saved_s = time.perf_counter() - began
    wait_until(lambda: are_equal(system), "equal regions", SECONDS_MAX)
    pid = nodes.pid(RECEIVER)
    figures = {
        "begun_s": begun_s,
        "merged_s": merged_s,
        "rate_per_s": count / (merged_s - begun_s),
        "checkpoint_s": saved_s - merged_s,
        "copied_mib": bootstrap(system)["bytes"] / MIB,
        "sender_ping_max_ms": sender.longest_ms,
        "receiver_ping_max_ms": receiver.longest_ms,
        "memory_mib": resident_bytes(pid) / MIB,
        "memory_peak_mib": resident_bytes_max(pid) / MIB,
    }
    # The same data, as a restart has them in memory.
    nodes.stop(RECEIVER)
    nodes.start(RECEIVER)
    wait_until(lambda: are_equal(system), "equal regions", SECONDS_MAX)
    return figures | {"restarted_mib": resident_bytes(nodes.pid(RECEIVER)) / MIB}


def are_equal(system: System) -> bool:
    """True if both have applied the same; OSError: one of them does not answer yet."""
    try:
        found = [system.client(node).info("crdt") for node in (SENDER, RECEIVER)]
    except redis.RedisError as error:
        raise OSError(str(error)) from error
    vvs = [{name: one[name] for name in one if name == "crdt_vv"} for one in found]
    return vvs[0] == vvs[1]


def bootstrap(system: System) -> dict[str, Any]:
    """Report of the receiver on it; OSError: it does not answer yet."""
    try:
        found = system.client(RECEIVER).info("crdt")
    except redis.RedisError as error:
        raise OSError(str(error)) from error
    names = ("taken_over", "phase", "bytes")
    return {name: found[f"crdt_bootstrap_{name}"] for name in names}


def cut_log(client: Any) -> None:
    """A checkpoint, and the log is cut behind it."""

    def is_cut() -> bool:
        client.execute_command("SAVE")
        found = client.info("persistence")
        first, last = int(found["log_first_record"]), int(found["log_last_record"])
        return first > 1 and last < first + CUT_RECORDS_MIN

    wait_until(is_cut, "a log that is cut", SECONDS_MAX)


class Pinged:
    """Time that a node took to answer PING.

    Attributes:
        longest_ms: the longest time of all, since it first answered.
    """

    def __init__(self, port: int) -> None:
        self.longest_ms = 0.0
        self._port = port
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            # It starts, or ends.
            with suppress(OSError), socket.create_connection((HOST, self._port)) as connection:
                self._ping(connection)
            self.is_over.wait(PING_SECONDS)

    def _ping(self, connection: socket.socket) -> None:
        while not self.is_over.wait(PING_SECONDS):
            began = time.perf_counter()
            connection.sendall(b"PING\r\n")
            if not connection.recv(4_096):
                return
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - began) * 1_000)


@contextmanager
def pinged(port: int) -> Iterator[Pinged]:
    one = Pinged(port)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        yield one
    finally:
        one.is_over.set()
        thread.join()


PART: Final = Part(
    name="bootstrap",
    about="The folder of a second region is lost, and the log of the first one is cut. Seconds"
    " from the start of its process until the copy begins, and until the state is merged;"
    " entries a second between the two; seconds until a checkpoint has it. Its memory then,"
    " at most, and after another restart; the longest that a PING waited at both.",
    reference="",
    run=run,
)
