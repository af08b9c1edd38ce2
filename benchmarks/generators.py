"""Starts what makes load: our own generator, and redis-benchmark where it can do it."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.systems import TREE

CLIENTS: Final = 50


def run_load(program: str, **settings: object) -> dict[str, Any]:
    """Run a program of ``benchmarks.load`` in a process of its own; what it found."""
    output = subprocess.run(
        _command(program, settings), check=True, stdout=subprocess.PIPE, cwd=TREE
    ).stdout
    found: dict[str, Any] = json.loads(output)
    return found


@contextmanager
def blocked_clients(port: int, count: int) -> Iterator[None]:
    """Clients that wait for entries which never come."""
    process = subprocess.Popen(
        _command("block", {"port": port, "clients": count}), stdout=subprocess.PIPE, cwd=TREE
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"waiting\n":
            raise ChildProcessError(f"{count} clients could not wait on port {port}")
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def pings(port: int) -> Iterator[dict[str, float]]:
    """A client that sends PINGs meanwhile; what it found is in the dictionary afterwards."""
    process = subprocess.Popen(
        _command("pings", {"port": port}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=TREE
    )
    found: dict[str, float] = {}
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"pinging\n":
            raise ChildProcessError(f"no PING is answered on port {port}")
        yield found
        output, _ = process.communicate()
        found.update(json.loads(output))
    finally:
        process.kill()
        process.wait()


def _command(program: str, settings: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.load", program, json.dumps(settings)]


def start_redis_benchmark(
    port: int,
    *,
    pipeline: int,
    requests: int,
    words: list[str],
    random_max: int = 1_000_000,
    options: Sequence[str] = (),
) -> "subprocess.Popen[str]":
    """redis-benchmark with one command; ``__rand_int__`` in it is a random number."""
    command = ["redis-benchmark", "-p", str(port), "-c", str(CLIENTS), "-P", str(pipeline)]
    command += ["-n", str(requests), "-r", str(random_max), "--csv", *options, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def in_pipelines(requests: int, pipeline: int) -> int:
    """Number of requests that redis-benchmark sends if it is asked for ``requests``.

    It sends whole pipelines alone, and so some more.
    """
    return -(-requests // pipeline) * pipeline


def benchmark_figures(process: "subprocess.Popen[str]") -> dict[str, float]:
    """Figures of redis-benchmark, once it has ended.

    Raises:
        ChildProcessError: it failed.
    """
    output, _ = process.communicate()
    if process.returncode:
        raise ChildProcessError(f"redis-benchmark ended with {process.returncode}: {output}")
    return parse_benchmark(output)


def parse_benchmark(output: str) -> dict[str, float]:
    """The rate and the times of a table that redis-benchmark printed with --csv."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    (row,) = csv.DictReader(lines)
    return {
        "rate_per_s": float(row["rps"]),
        "p50_ms": float(row["p50_latency_ms"]),
        "p99_ms": float(row["p99_latency_ms"]),
    }


def xadds(
    port: int, *, pipeline: int, requests: int, key: str, options: Sequence[str] = ()
) -> dict[str, float]:
    """XADDs of a small entry, from 50 clients; with further options of redis-benchmark."""
    words = ["XADD", key, "*", "field", "value:__rand_int__"]
    return benchmark_figures(
        start_redis_benchmark(
            port, pipeline=pipeline, requests=requests, words=words, options=options
        )
    )
