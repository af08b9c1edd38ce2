"""Region nodes of this tree beside those of another one, in one run.

    python -m benchmarks.trees --against TREE [--requests 50000] [--rounds 5]

The other tree is a checkout of the version before.  All nodes run all the time and the measurements
take turns, so that noise of the machine meets both.  Printed are the medians and their ratio: above
1 this tree is the faster one.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import redis

from benchmarks.xadd import CLIENTS, machine, measure, wait_for_ping

TREE = Path(__file__).resolve().parent.parent
BASE_PORTS = {"other": (17_600, 17_700), "this": (17_800, 17_900)}
READ_COUNT = 50


@contextmanager
def regions(tree: Path, folder: Path, count: int, base_port: int) -> Iterator[int]:
    """Region nodes of a tree; the port of the first."""
    command = [sys.executable, "-m", "crdtstream", "up", "--regions", str(count)]
    command += ["--dir", str(folder), "--base-port", str(base_port)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=tree)
    try:
        for region in range(1, count + 1):
            wait_for_ping(base_port + region)
        yield base_port + 1
    finally:
        process.terminate()
        process.wait(timeout=30)


def consume(port: int, requests: int) -> float:
    """Entries per second that one consumer reads, 50 at a time, and acknowledges one by one."""
    client = redis.Redis(port=port)
    client.delete("loop")
    client.xgroup_create("loop", "g", "0", mkstream=True)
    for _ in range(requests // 1000):
        pipeline = client.pipeline(transaction=False)
        for _ in range(1000):
            pipeline.xadd("loop", {"field": "value"})
        pipeline.execute()
    read, started = 0, time.monotonic()
    while found := cast("Any", client.xreadgroup("g", "c", {"loop": ">"}, count=READ_COUNT)):
        ((_, entries),) = found
        pipeline = client.pipeline(transaction=False)
        for entry_id, _ in entries:
            pipeline.xack("loop", "g", entry_id)
        pipeline.execute()
        read += len(entries)
    return read / (time.monotonic() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, required=True, help="the other checkout")
    parser.add_argument("--requests", type=int, default=50_000, help="XADDs per measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each, in turns")
    options = parser.parse_args()
    requests: int = options.requests
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtstream-bench-")))
        ports = {}
        for name, tree in (("other", options.against.resolve()), ("this", TREE)):
            ports[name] = [
                stack.enter_context(regions(tree, folder / f"{name}-{count}", count, base_port))
                for count, base_port in zip((1, 3), BASE_PORTS[name], strict=True)
            ]
        measurements: dict[str, Callable[[list[int]], float]] = {
            "1 region, -P 1": lambda of: measure(of[0], pipeline=1, requests=requests),
            "1 region, -P 16": lambda of: measure(of[0], pipeline=16, requests=requests * 4),
            "3 regions, -P 1": lambda of: measure(of[1], pipeline=1, requests=requests),
            "3 regions, -P 16": lambda of: measure(of[1], pipeline=16, requests=requests * 4),
            "consumer loop": lambda of: consume(of[0], requests // 2),
        }
        for turn in range(options.rounds):
            for what, rate in measurements.items():
                # Who comes second finds the disk busy with what the first one wrote.
                for name in ("other", "this") if turn % 2 else ("this", "other"):
                    rates.setdefault((what, name), []).append(rate(ports[name]))
    print(f"{CLIENTS} clients, median of {options.rounds}, {machine()}")
    print(f"{'':18}{'other':>12}{'this':>12}{'ratio':>8}")
    for what in measurements:
        other, this = (statistics.median(rates[what, name]) for name in ("other", "this"))
        print(f"{what:18}{other:>10,.0f}/s{this:>10,.0f}/s{this / other:>8.2f}")


if __name__ == "__main__":
    main()
