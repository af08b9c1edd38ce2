"""What entries take in memory and on disk, and what a restart costs; redis-server beside it.

    python -m benchmarks.storage [memory] [pending] [restart] [checkpoint] [churn]
        [--entries 1000000] [--churn 1000000] [--json FILE]

Without names all parts run.  Nodes are real processes, written to over sockets.  A node's memory is
what the system counts for it (VmRSS) less what it had before; Redis's is MEMORY USAGE.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import redis

from benchmarks.xadd import machine

RESP_PORT: Final = 17_411
REDIS_PORT: Final = 17_421
PIPELINED: Final = 1_000
KEY: Final = b"entries"


def small(_: Random) -> list[bytes]:
    return [b"field", b"value"]


def sensor(draw: Random) -> list[bytes]:
    """A reading of four fields, each time other values."""
    return [
        b"temperature",
        b"%.2f" % draw.uniform(-20, 40),
        b"humidity",
        b"%.1f" % draw.uniform(0, 100),
        b"pressure",
        b"%.1f" % draw.uniform(950, 1050),
        b"battery",
        b"%d" % draw.randrange(2_900, 4_200),
    ]


WORDS: Final = [b"%x" % Random(n).randrange(1 << 30) for n in range(5_000)]


def text(draw: Random) -> list[bytes]:
    """A KiB of words from a vocabulary of 5,000."""
    data = b" ".join(draw.choices(WORDS, k=140))[:1_024]
    return [b"text", data]


SHAPES: Final[dict[str, Callable[[Random], list[bytes]]]] = {
    "field value": small,
    "sensor, 4 fields": sensor,
    "1 KiB of text": text,
}


# --- Nodes --------------------------------------------------------------------------------------


class RegionNode:
    """A region by itself, as a process."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._config = folder / "region.toml"
        lines = {
            "region": 1,
            "database_id": "benchmark",
            "dir": str(folder / "data"),
            "resp_port": RESP_PORT,
            "grpc_port": RESP_PORT + 1,
            "http_port": RESP_PORT + 2,
            "appendfsync": "everysec",
            **settings,
        }
        self._config.write_text(
            "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
        )
        self.data = folder / "data"
        self.client: Any = redis.Redis(port=RESP_PORT, socket_timeout=600)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; the seconds until it answers PING."""
        began = time.monotonic()
        command = [sys.executable, "-m", "crdtstream", "node", "--config", str(self._config)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(self.client)
        return time.monotonic() - began

    def end(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    @property
    def resident_bytes(self) -> int:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024

    @property
    def written_bytes(self) -> int:
        assert self.process is not None
        told = Path(f"/proc/{self.process.pid}/io").read_text()
        (line,) = [line for line in told.splitlines() if line.startswith("write_bytes")]
        return int(line.split()[1])

    @property
    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.data.iterdir())

    def checkpoint(self) -> float:
        """Have a checkpoint made; the seconds it took."""
        began = time.monotonic()
        made = self.client.info("persistence")["checkpoint_record"]
        self.client.bgsave()
        while True:
            info = self.client.info("persistence")
            if not info["rdb_bgsave_in_progress"] and info["checkpoint_record"] >= made:
                return time.monotonic() - began
            time.sleep(0.02)


def wait_for(client: Any) -> None:
    ends = time.monotonic() + 300
    while time.monotonic() < ends:
        try:
            client.ping()
            return
        except redis.RedisError:
            time.sleep(0.005)
    raise TimeoutError("no answer to PING")


@contextmanager
def region_node(**settings: object) -> Iterator[RegionNode]:
    with tempfile.TemporaryDirectory(prefix="crdtstream-bench-") as folder:
        node = RegionNode(Path(folder), **settings)
        node.start()
        try:
            yield node
        finally:
            if node.process is not None and node.process.poll() is None:
                node.end(signal.SIGKILL)


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


def command(*words: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def write(port: int, shape: Callable[[Random], list[bytes]], count: int, *, seed: int = 1) -> float:
    """Append entries, a thousand in flight; the seconds that it took."""
    draw = Random(seed)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for start in range(0, count, PIPELINED):
            some = min(PIPELINED, count - start)
            connection.sendall(
                b"".join(command(b"XADD", KEY, b"*", *shape(draw)) for _ in range(some))
            )
            replies = 0
            while replies < 2 * some:
                # Each reply is an ID as a bulk string: two lines.
                replies += connection.recv(1 << 16).count(b"\n")
    return time.monotonic() - began


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
    """Seconds from kill -9 to PING, and how long first reads take."""
    rows: list[dict[str, object]] = []
    for count in sorted({entries // 10, entries}):
        with region_node() as node:
            seconds = write(RESP_PORT, sensor, count)
            last = node.client.xrevrange(KEY, count=1)[0][0].split(b"-")[0]
            first = node.client.xrange(KEY, count=1)[0][0].split(b"-")[0]
            node.end(signal.SIGKILL)
            empty = statistics.median(empty_start() for _ in range(3))
            started: list[float] = []
            for _ in range(3):
                started.append(node.start())
                node.end(signal.SIGKILL)
            node.start()
            reads = seeks(node.client, int(first), int(last))
            again = seeks(node.client, int(first), int(last))
            rows.append(
                {
                    "entries": count,
                    "written per s": round(count / seconds),
                    "an empty node, s": round(empty, 2),
                    "restart, s": round(statistics.median(started), 2),
                    "first reads p50, ms": round(statistics.median(reads), 2),
                    "first reads max, ms": round(max(reads), 2),
                    "again p50, ms": round(statistics.median(again), 2),
                    "RSS, MiB": round(node.resident_bytes / (1 << 20)),
                    "disk, B an entry": round(node.disk_bytes / count, 1),
                }
            )
    return rows


def empty_start() -> float:
    with tempfile.TemporaryDirectory(prefix="crdtstream-bench-") as folder:
        node = RegionNode(Path(folder))
        seconds = node.start()
        node.end(signal.SIGKILL)
        return seconds


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
    """XADDs a second beside a checkpoint of all entries, and without one."""
    some = 50_000
    with region_node(checkpoint_log_bytes=0, checkpoint_interval_s=0) as node:
        write(RESP_PORT, sensor, entries)
        alone = [some / write(RESP_PORT, sensor, some) for _ in range(3)]
        node.client.bgsave()
        beside = []
        while node.client.info("persistence")["rdb_bgsave_in_progress"]:
            beside.append(some / 5 / write(RESP_PORT, sensor, some // 5))
        alone += [some / write(RESP_PORT, sensor, some) for _ in range(3)]
        info = node.client.info("persistence")
    return [
        {
            "entries": entries,
            "XADDs/s without": round(statistics.median(alone)),
            "XADDs/s beside": round(statistics.median(beside)) if beside else 0,
            "ratio": round(statistics.median(beside) / statistics.median(alone), 2)
            if beside
            else 0,
            "measurements": len(beside),
            "images, MiB": round(info["checkpoint_bytes"] / (1 << 20), 1),
        }
    ]


def churn(effects: int) -> list[dict[str, object]]:
    """Groups made and destroyed, trimmed appends, keys deleted: what stays of it."""
    rows: list[dict[str, object]] = []
    with region_node(checkpoint_log_bytes=4 << 20) as node:
        done = 0
        for step in range(10):
            for start in range(0, effects // 10, 4 * PIPELINED):
                pipe = node.client.pipeline(transaction=False)
                for n in range(PIPELINED):
                    key = f"churn:{(start + n) % 5_000}"
                    pipe.xadd(key, {"field": "value"}, maxlen=10)
                    pipe.xgroup_create(key, f"g{n % 7}", "$")
                    pipe.xgroup_destroy(key, f"g{n % 7}")
                    pipe.delete(key)
                pipe.execute(raise_on_error=False)
                done += 4 * PIPELINED
            node.checkpoint()
            rows.append(
                {
                    "effects": done,
                    "RSS, MiB": round(node.resident_bytes / (1 << 20), 1),
                    "folder, MiB": round(node.disk_bytes / (1 << 20), 1),
                    "step": step + 1,
                }
            )
    return rows


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
        "churn": churn,
    }
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--churn", type=int, default=1_000_000, help="effects")
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    options = parser.parse_args()
    wanted = options.parts or list(parts)
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {', '.join(parts)}")
    found: dict[str, object] = {"machine": machine(), "load": os.getloadavg()[0]}
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}")
    for name in wanted:
        rows = parts[name](options.churn if name == "churn" else options.entries)
        found[name] = rows
        print(
            f"\n{name}: {(parts[name].__doc__ or '').splitlines()[0]}\n\n{table(rows)}", flush=True
        )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
