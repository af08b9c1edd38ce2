"""Cost of a scrape of a region with very many streams, and whether clients notice.

    python -m benchmarks.metrics [--streams 100000] [--seconds 20]

A region is filled over the Redis protocol, each stream with two entries and every second one with
a group that has an entry to deliver and one pending.  Then one client sends PING as fast as it
can: first alone, then while a scrape a second is made, each of which asks for a walk over all
streams.  Printed are the times of the scrapes, the PINGs' times with and without them, and the
stalls of the event loop that the node itself noticed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import redis
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.processes import machine, wait_for_ping

BASE_PORT = 17_900
RESP_PORT, HTTP_PORT = BASE_PORT + 1, BASE_PORT + 2_001
STREAMS_AT_ONCE = 500


def fill(client: "redis.Redis", streams: int) -> None:
    for first in range(0, streams, STREAMS_AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, min(first + STREAMS_AT_ONCE, streams)):
            key = f"stream:{number}"
            pipeline.xadd(key, {"field": "value"})
            if number % 2:
                pipeline.xgroup_create(key, "group", "0")
                pipeline.xreadgroup("group", "consumer", {key: ">"})
            pipeline.xadd(key, {"field": "value"})
        pipeline.execute()


class Pings:
    """Times of PINGs, one after the other, while it is entered."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Pings":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        client = redis.Redis(port=RESP_PORT)
        while not self._stopping.is_set():
            began = time.perf_counter()
            client.ping()
            self.seconds.append(time.perf_counter() - began)
            # Leaves the processor to the node.
            time.sleep(0.0005)
        client.close()

    def shown(self) -> str:
        ordered = sorted(self.seconds)
        p50, p99, highest = (ordered[int((len(ordered) - 1) * rank)] for rank in (0.5, 0.99, 1))
        return f"p50 {p50 * 1000:6.2f} ms   p99 {p99 * 1000:6.2f} ms   max {highest * 1000:6.2f} ms"


def scrape() -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{HTTP_PORT}/metrics", timeout=60) as page:
        text: str = page.read().decode()
        return text


def figures(page: str) -> dict[str, float]:
    """Samples without other labels than the region; of buckets those of stalls."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {name: one for name, one in sample.labels.items() if name != "region"}
            name = sample.name.removeprefix("crdtstream_")
            if not labels:
                found[name] = sample.value
            elif name == "loop_stall_seconds_bucket":
                found[f"stalls<={labels['le']}"] = sample.value
    return found


def longest_stall(before: dict[str, float], after: dict[str, float]) -> str:
    """The bucket of the longest stall between two pages."""
    bounds = [name for name in after if name.startswith("stalls<=")]
    for lower, upper in zip(reversed(bounds[:-1]), reversed(bounds), strict=False):
        above = (after[upper] - after[lower]) - (before[upper] - before[lower])
        if above:
            return upper.removeprefix("stalls<=")
    return bounds[0].removeprefix("stalls<=")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "crdtstream", "up", "--regions", "1"]
        command += ["--dir", folder, "--base-port", str(BASE_PORT)]
        tree = Path(__file__).resolve().parents[1]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
        )
        try:
            wait_for_ping(RESP_PORT)
            measure(given.streams, given.seconds)
        finally:
            process.terminate()
            process.wait(timeout=60)


def measure(streams: int, seconds: int) -> None:
    fill(redis.Redis(port=RESP_PORT), streams)
    print(f"{streams:,} streams, half of them with a group; a scrape a second for {seconds} s")
    print(machine())
    with Pings() as alone:
        time.sleep(seconds / 2)
    before = figures(scrape())
    times: list[float] = []
    with Pings() as scraped:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            began = time.perf_counter()
            page = scrape()
            times.append(time.perf_counter() - began)
            time.sleep(max(0, 1 - times[-1]))
    after = figures(page)
    print(f"PING alone          {alone.shown()}")
    print(f"PING with scrapes   {scraped.shown()}")
    print(
        f"scrape              p50 {statistics.median(times) * 1000:6.2f} ms"
        f"   max {max(times) * 1000:6.2f} ms, of {len(page) / 1024:.0f} KiB"
        f" and {page.count(chr(10)):,} lines"
    )
    print(f"longest stall       within {longest_stall(before, after)} s, by the node itself")
    print(
        f"walk                {after['walk_duration_seconds']:.1f} s, rests included;"
        f" {after['entries']:,.0f} entries, {after['groups']:,.0f} groups,"
        f" {after['pending_entries']:,.0f} pending"
    )
    spent = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    print(f"processor           {100 * spent / seconds:.0f} % of a core, PINGs included")


if __name__ == "__main__":
    main()
