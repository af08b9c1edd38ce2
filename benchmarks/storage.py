"""Bytes of entries in memory and on disk, and what a restart costs; redis-server beside it.

    python -m benchmarks.storage [memory] [pending] [restart] [checkpoint] [streams] [deleted]
        [--entries 1000000] [--streams 100000] [--json FILE]

Without names all parts run.  Nodes are real processes, written to over sockets.  A node's memory is
what the system counts for it (VmRSS) less what it had before; Redis's is MEMORY USAGE.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import redis

from benchmarks.nodes import (
    KEY,
    PIPELINED,
    RESP_PORT,
    SHAPES,
    RegionNode,
    command,
    region_node,
    sensor,
    small,
    text,
    wait_for,
    write,
)
from benchmarks.origins import origins, wait_for_entries
from benchmarks.processes import machine

REDIS_PORT: Final = 17_421
OTHER_PORT: Final = 17_431
# Entries behind the last checkpoint at a restart.
TAIL_ENTRIES: Final = 100_000
# Entries of one measurement beside a checkpoint.
WRITTEN: Final = 10_000
# Until a node has compared its account with what the system counts.
SETTLED_SECONDS: Final = 12.0


@contextmanager
def redis_server() -> Iterator[Any]:
    command = ["redis-server", "--port", str(REDIS_PORT), "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client: Any = redis.Redis(port=REDIS_PORT)
    wait_for(client)
    try:
        yield client
    finally:
        process.terminate()
        process.wait(timeout=30)


def resp_bytes(shape: Callable[[Random], list[bytes]]) -> float:
    """Bytes of one XADD as a client sends it, on average."""
    draw = Random(1)
    return statistics.fmean(len(command(b"XADD", KEY, b"*", *shape(draw))) for _ in range(1_000))


# --- What is measured ---------------------------------------------------------------------------


def memory(entries: int) -> list[dict[str, object]]:
    """Bytes an entry: warm, in memory and on disk, on disk only; and bytes written to the disk."""
    rows: list[dict[str, object]] = []
    for name, shape in SHAPES.items():
        count = entries // 10 if shape is text else entries
        with redis_server() as other:
            write(REDIS_PORT, shape, min(count, 200_000))
            theirs = other.memory_usage(KEY, samples=0) / min(count, 200_000)
        with region_node(checkpoint_log_bytes=0, checkpoint_interval_s=0) as node:
            base, written = node.resident_bytes, node.written_bytes
            write(RESP_PORT, shape, count)
            usage = node.client.memory_usage(KEY)
            warm = node.resident_bytes - base
            node.checkpoint()
            after = node.client.memory_usage(KEY)
            image_bytes = node.client.info("persistence")["checkpoint_bytes"]
            written = node.written_bytes - written
            node.end(signal.SIGKILL)
            node.start()
            cold = node.client.memory_usage(KEY)
            rows.append(
                {
                    "entry": name,
                    "entries": count,
                    "redis": round(theirs, 1),
                    "warm, as appended": round(usage / count, 1),
                    "warm, RSS": round(warm / count, 1),
                    "warm, after a checkpoint": round(after / count, 1),
                    "on disk only": round(cold / count, 2),
                    "its image": round(image_bytes / count, 1),
                    "written to the disk": round(written / count, 1),
                    "written / RESP": round(written / count / resp_bytes(shape), 2),
                }
            )
    return rows


def pending(entries: int) -> list[dict[str, object]]:
    """Bytes a pending entry, delivered in runs of a hundred, and claimed at random."""
    rows: list[dict[str, object]] = []
    count = min(entries, 300_000)
    for kind in ("runs", "random"):
        found = []
        with redis_server() as other, region_node() as node:
            for client, port in ((other, REDIS_PORT), (node.client, RESP_PORT)):
                write(port, small, count)
                client.xgroup_create(KEY, "g", "0")
                before = client.memory_usage(KEY, samples=0)
                ids = []
                while got := client.xreadgroup("g", "c0", {KEY: ">"}, count=100):
                    ids += [entry_id for entry_id, _ in got[0][1]]
                if kind == "random":
                    Random(1).shuffle(ids)
                    pipe = client.pipeline(transaction=False)
                    for n, entry_id in enumerate(ids):
                        pipe.xclaim(KEY, "g", f"c{n % 50}", 0, [entry_id], justid=True)
                        if len(pipe) == PIPELINED:
                            pipe.execute()
                    pipe.execute()
                found.append((client.memory_usage(KEY, samples=0) - before) / count)
        theirs, ours = found
        rows.append({"delivered": kind, "redis": round(theirs, 1), "here": round(ours, 1)})
    return rows


def restart(entries: int) -> list[dict[str, object]]:
    """Seconds from kill -9 to PING, of the processor too, and how long first reads take."""
    rows: list[dict[str, object]] = []
    for count in sorted({entries // 20000 * 1000, entries // 4000 * 1000, entries}):
        with origins(sensor, count) as peers, region_node(**peers) as node:
            wait_for_entries(node, count)
            node.checkpoint()
            # Behind it the log has as much as makes the next one due, about.
            write(RESP_PORT, sensor, TAIL_ENTRIES)
            last = node.client.xrevrange(KEY, count=1)[0][0].split(b"-")[0]
            first = node.client.xrange(KEY, count=1)[0][0].split(b"-")[0]
            node.end(signal.SIGKILL)
            starts = [(empty_start(), node.start_and_kill()) for _ in range(5)]
            node.start()
            reads = seeks(node.client, int(first), int(last))
            again = seeks(node.client, int(first), int(last))
            (empty_s, empty_cpu), (restart_s, restart_cpu) = (
                [statistics.median(column) for column in zip(*kind, strict=True)]
                for kind in zip(*starts, strict=True)
            )
            rows.append(
                {
                    "entries": count,
                    "an empty node, s": round(empty_s, 2),
                    "restart, s": round(restart_s, 2),
                    "an empty node, CPU s": round(empty_cpu, 2),
                    "restart, CPU s": round(restart_cpu, 2),
                    "first reads p50, ms": round(statistics.median(reads), 2),
                    "p99, ms": round(sorted(reads)[-len(reads) // 100 - 1], 2),
                    "again p50, ms": round(statistics.median(again), 2),
                    "RSS, MiB": round(node.resident_bytes / (1 << 20)),
                    "disk, B an entry": round(node.disk_bytes / count, 1),
                }
            )
    return rows


def empty_start() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="crdtstream-bench-") as folder:
        return RegionNode(Path(folder)).start_and_kill()


def seeks(client: Any, first: int, last: int) -> list[float]:
    """Milliseconds that reads of one entry take, at places all over the stream."""
    draw = Random(7)
    took = []
    for _ in range(200):
        began = time.perf_counter()
        client.xrange(KEY, min=draw.randrange(first, last + 1), count=1)
        took.append((time.perf_counter() - began) * 1e3)
    return took


def checkpoint(entries: int) -> list[dict[str, object]]:
    """XADDs a second beside a checkpoint of all entries, and on a node without one, by turns."""
    by_hand: dict[str, Any] = {"checkpoint_log_bytes": 0, "checkpoint_interval_s": 0}
    with (
        origins(sensor, entries) as peers,
        region_node(**peers, **by_hand) as node,
        region_node(port=OTHER_PORT, **peers, **by_hand) as other,
    ):
        for one in (node, other):
            wait_for_entries(one, entries)
        made = node.client.info("persistence")["rdb_saves"]
        node.client.bgsave()
        beside: list[float] = []
        alone: list[float] = []
        while node.client.info("persistence")["rdb_saves"] == made:
            beside.append(WRITTEN / write(RESP_PORT, sensor, WRITTEN))
            # The checkpoint stands still meanwhile.
            with node.paused():
                alone.append(WRITTEN / write(OTHER_PORT, sensor, WRITTEN))
        images_bytes = node.client.info("persistence")["checkpoint_bytes"]
        # The turns of one that never stands still.
        made = other.client.info("persistence")["rdb_saves"]
        other.client.bgsave()
        while (info := other.client.info("persistence"))["rdb_saves"] == made:
            write(OTHER_PORT, sensor, WRITTEN)
        ratios = [one / two for one, two in zip(beside, alone, strict=True)]
    return [
        {
            "entries": entries,
            "XADDs/s without": round(statistics.median(alone)),
            "XADDs/s beside": round(statistics.median(beside)),
            "ratio, median": round(statistics.median(ratios), 2),
            "measurements": len(beside),
            "longest turn, us": info["checkpoint_longest_turn_us"],
            "images, MiB": round(images_bytes / (1 << 20), 1),
        }
    ]


def streams(count: int) -> list[dict[str, object]]:
    """A checkpoint of many streams, each written to once since the one before, nobody writing."""
    rows: list[dict[str, object]] = []
    with region_node(checkpoint_log_bytes=0, checkpoint_interval_s=0) as node:
        for written in ("made", "written to", "again"):
            pipe = node.client.pipeline(transaction=False)
            for n in range(count):
                pipe.xadd(f"stream:{n}", {"sensor": n % 100, "reading": 42})
                if len(pipe) == PIPELINED:
                    pipe.execute()
            pipe.execute()
            before = node.cpu_seconds
            took = node.checkpoint()
            info = node.client.info("persistence")
            rows.append(
                {
                    "streams": count,
                    "each": written,
                    "seconds": round(took, 2),
                    "CPU, us a stream": round((node.cpu_seconds - before) / count * 1e6, 1),
                    "longest turn, us": info["checkpoint_longest_turn_us"],
                    "images, MiB": round(info["checkpoint_bytes"] / (1 << 20), 1),
                }
            )
    return rows


def deleted(count: int) -> list[dict[str, object]]:
    """Memory in use after small streams are deleted while a checkpoint is under way."""
    with region_node() as node:
        node.client.config_set("maxmemory", str(1 << 30))
        time.sleep(SETTLED_SECONDS)
        start = node.client.info("memory")["used_memory"]
        keys = [b"stream:%d" % n for n in range(count)]
        for first in range(0, count, PIPELINED):
            pipe = node.client.pipeline(transaction=False)
            for key in keys[first : first + PIPELINED]:
                pipe.xadd(key, {"field": "value"})
            pipe.execute()
        time.sleep(SETTLED_SECONDS)
        made = node.client.info("memory")["used_memory"]
        node.client.bgsave()
        for first in range(0, count, PIPELINED):
            node.client.delete(*keys[first : first + PIPELINED])
        node.checkpoint()
        time.sleep(SETTLED_SECONDS)
        left = node.client.info("memory")["used_memory"]
    return [
        {
            "streams": count,
            "at the start, MiB": round(start / (1 << 20), 1),
            "made, MiB": round(made / (1 << 20), 1),
            "deleted, MiB": round(left / (1 << 20), 1),
        }
    ]


# --- Output -------------------------------------------------------------------------------------


def table(rows: list[dict[str, object]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts: dict[str, Callable[[int], list[dict[str, object]]]] = {
        "memory": memory,
        "pending": pending,
        "restart": restart,
        "checkpoint": checkpoint,
        "streams": streams,
        "deleted": deleted,
    }
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument(
        "--streams", type=int, default=100_000, help="of the parts streams and deleted"
    )
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    options = parser.parse_args()
    wanted = options.parts or list(parts)
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {', '.join(parts)}")
    if min(options.entries, options.streams) < 1:
        parser.error("--entries and --streams must be above 0")
    found: dict[str, object] = {"machine": machine(), "load": os.getloadavg()[0]}
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}")
    sizes = {"streams": options.streams, "deleted": options.streams}
    for name in wanted:
        rows = parts[name](sizes.get(name, options.entries))
        found[name] = rows
        print(
            f"\n{name}: {(parts[name].__doc__ or '').splitlines()[0]}\n\n{table(rows)}", flush=True
        )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
