"""XADD side by side: redis-server and region nodes, driven by redis-benchmark, in one run.

    python benchmarks/xadd.py [--requests 100000] [--rounds 3]

Redis runs with its append-only file and ``appendfsync everysec``; region nodes with
``appendfsync always``, once alone and once as three regions that replicate to each other.  The
servers take turns within each round, so that noise of the machine meets all of them; what is
printed is the median of the rounds and its ratio to Redis.
"""

import argparse
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

CLIENTS = 50
PIPELINES = (1, 16)
REDIS_PORT = 17_379
ALONE_BASE_PORT = 17_400
THREE_BASE_PORT = 17_500
START_SECONDS = 60


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """A redis-server that writes its append-only file about once a second."""
    command = ["redis-server", "--port", str(REDIS_PORT), "--bind", "127.0.0.1", "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "everysec", "--dir", str(folder)]
    with running(command):
        wait_for_ping(REDIS_PORT)
        yield REDIS_PORT


@contextmanager
def regions(folder: Path, count: int, base_port: int) -> Iterator[int]:
    """Region nodes; the port of the first."""
    command = [sys.executable, "-m", "crdtstream", "up", "--regions", str(count)]
    command += ["--dir", str(folder), "--base-port", str(base_port)]
    with running(command):
        for region in range(1, count + 1):
            wait_for_ping(base_port + region)
        yield base_port + 1


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def wait_for_ping(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing answers on port {port}")
        time.sleep(0.05)


def measure(port: int, *, pipeline: int, requests: int) -> float:
    """XADDs per second as redis-benchmark counts them."""
    command = ["redis-benchmark", "-p", str(port), "-c", str(CLIENTS), "-P", str(pipeline)]
    command += ["-n", str(requests), "-r", "1000000", "--csv"]
    command += ["XADD", "bench", "*", "field", "value:__rand_int__"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(output.strip().splitlines()[-1].split(",")[1].strip('"'))


def machine() -> str:
    with open("/proc/meminfo") as meminfo:
        memory_gib = int(meminfo.readline().split()[1]) / (1 << 20)
    return f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000, help="XADDs per measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, in turns")
    options = parser.parse_args()
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        raise SystemExit("redis-server and redis-benchmark are needed: apt-get install redis")

    rates: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtstream-bench-")))
        for name in ("redis", "alone", "three"):
            (folder / name).mkdir()
        servers = {
            "Redis, everysec": stack.enter_context(redis_server(folder / "redis")),
            "1 region, always": stack.enter_context(regions(folder / "alone", 1, ALONE_BASE_PORT)),
            "3 regions, always": stack.enter_context(regions(folder / "three", 3, THREE_BASE_PORT)),
        }
        for _ in range(options.rounds):
            for pipeline in PIPELINES:
                for name, port in servers.items():
                    rate = measure(port, pipeline=pipeline, requests=options.requests)
                    rates.setdefault((name, pipeline), []).append(rate)

    print(f"XADD, {CLIENTS} clients, {options.requests} requests, median of {options.rounds}")
    print(machine())
    print(f"{'':20}" + "".join(f"{f'-P {pipeline}':>12}{'ratio':>8}" for pipeline in PIPELINES))
    for name in servers:
        line = f"{name:20}"
        for pipeline in PIPELINES:
            rate = statistics.median(rates[name, pipeline])
            base = statistics.median(rates["Redis, everysec", pipeline])
            line += f"{rate:>10,.0f}/s{rate / base:>8.2f}"
        print(line)


if __name__ == "__main__":
    main()
