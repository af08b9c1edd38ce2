"""Real nodes for measurements, and what is written to them."""

import json
import os
import signal
import socket
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

RESP_PORT: Final = 17_411
PIPELINED: Final = 1_000
# As many pipelines are different: more than one macro node has entries of.
PIPELINES: Final = 100
# When memory was full.
REFUSED_SECONDS: Final = 0.05
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

    def __init__(self, folder: Path, *, port: int = RESP_PORT, **settings: object) -> None:
        self.port = port
        self._config = folder / "region.toml"
        lines = {
            "region": 1,
            "database_id": "benchmark",
            "dir": str(folder / "data"),
            "resp_port": port,
            "grpc_port": port + 1,
            "http_port": port + 2,
            "appendfsync": "everysec",
            **settings,
        }
        self._config.write_text("".join(f"{key} = {_toml(v)}\n" for key, v in lines.items()))
        self.started_s = 0.0
        self.data = folder / "data"
        self.client: Any = redis.Redis(port=port, socket_timeout=600)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; the seconds until it answers PING."""
        began = time.monotonic()
        command = [sys.executable, "-m", "crdtstream", "node", "--config", str(self._config)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(self.client, self.process)
        self.started_s = time.monotonic() - began
        return self.started_s

    def end(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def start_and_kill(self) -> tuple[float, float]:
        """Start it and kill it; the seconds until it answered, and those of the processor."""
        seconds = self.start()
        cpu_seconds = self.cpu_seconds
        self.end(signal.SIGKILL)
        return seconds, cpu_seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    @property
    def resident_bytes(self) -> int:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all its threads since it was started."""
        assert self.process is not None
        told = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

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
        """Have all that the log has by now in a checkpoint; the seconds it took."""
        began = time.monotonic()
        last = self.client.info("persistence")["log_last_record"]
        while (info := self.client.info("persistence"))["checkpoint_record"] < last:
            if not info["rdb_bgsave_in_progress"]:
                self.client.bgsave()
            time.sleep(0.02)
        return time.monotonic() - began


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def wait_for(client: Any, process: subprocess.Popen[bytes] | None = None) -> None:
    """Until a server answers PING.

    Raises:
        RuntimeError: its process ended.
        TimeoutError: it took too long.
    """
    ends = time.monotonic() + 300
    while time.monotonic() < ends:
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the node ended with status {process.returncode}")
        try:
            client.ping()
            return
        except redis.RedisError:
            time.sleep(0.005)
    raise TimeoutError("no answer to PING")


@contextmanager
def region_node(*, port: int = RESP_PORT, **settings: object) -> Iterator[RegionNode]:
    with tempfile.TemporaryDirectory(prefix="crdtstream-bench-") as folder:
        node = RegionNode(Path(folder), port=port, **settings)
        node.start()
        try:
            yield node
        finally:
            if node.process is not None and node.process.poll() is None:
                node.end(signal.SIGKILL)


# --- Writing --------------------------------------------------------------------------------------


def command(*words: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def write(
    port: int,
    shape: Callable[[Random], list[bytes]],
    count: int,
    *,
    key: bytes = KEY,
    seed: int = 1,
) -> float:
    """Append entries, a thousand in flight; the seconds that it took.

    What is refused, as memory is full, is sent again.
    """
    requests = _pipelines(shape, key, seed)
    began = time.monotonic()
    taken = 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while taken < count:
            some = min(PIPELINED, count - taken)
            connection.sendall(b"".join(next(requests)[:some]))
            refused = _replies(connection, some)
            taken += some - refused
            if refused:
                time.sleep(REFUSED_SECONDS)
    return time.monotonic() - began


def _pipelines(
    shape: Callable[[Random], list[bytes]], key: bytes, seed: int
) -> Iterator[list[bytes]]:
    """PIPELINED commands each; PIPELINES different ones again and again."""
    draw = Random(seed)
    made = []
    for _ in range(PIPELINES):
        made.append([command(b"XADD", key, b"*", *shape(draw)) for _ in range(PIPELINED)])
        yield made[-1]
    while True:
        yield from made


def _replies(connection: socket.socket, count: int) -> int:
    """Read as many replies; how many of them were refusals."""
    lines = refused = 0
    end = b""
    while lines < 2 * count:
        # Each ID is a bulk string: two lines; an error is one.
        read = connection.recv(1 << 16)
        errors = (end + read).count(b"-OOM")
        end = read[-3:]
        refused += errors
        lines += read.count(b"\n") + errors
    return refused
