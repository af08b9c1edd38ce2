"""Reading a stream into Spark, beside a loop of XRANGE and the same rows in Parquet.

    python -m benchmarks.pipeline [--entries 1000000] [--rounds 3]

One region node, one Spark (``local[2]``).  Each round reads all entries in each of the ways, one
after the other, so that noise of the machine meets all of them; what is printed is the median.
Spark throws the rows away (its ``noop`` format), so every column is made.  The processor time is
that of the node's process, per entry.  Latency is measured on a stream query with half-second
micro-batches: from the moment in an entry's ID to the moment when its row is in the driver's hands.
"""

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.processes import machine
from benchmarks.systems import regions
from crdtstream.settings.addresses import GRPC_PORT_BASE, RESP_PORT_BASE
from crdtstream.spark.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM = "readings"
XRANGE_COUNT = 10_000
PIPELINE_ENTRIES = 2_000
LATENCY_SECONDS = 30
LATENCY_PAUSE_SECONDS = 0.01
SCHEMA = "stream string, timestamp timestamp, sensor int, value double"


class Node:
    """The region that is read."""

    def __init__(self, resp_port: int) -> None:
        self.resp_port = resp_port
        self.address = f"127.0.0.1:{resp_port - RESP_PORT_BASE + GRPC_PORT_BASE}"
        self.client: Any = redis.Redis(port=self.resp_port)

    @property
    def pid(self) -> int:
        return int(self.client.info("server")["process_id"])

    def cpu_seconds(self) -> float:
        """Processor time of the node's process until now."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def fill(self, entries: int) -> None:
        for start in range(0, entries, PIPELINE_ENTRIES):
            pipeline = self.client.pipeline(transaction=False)
            for number in range(start, min(start + PIPELINE_ENTRIES, entries)):
                pipeline.xadd(STREAM, {"sensor": number % 100, "value": number / 8})
            pipeline.execute()


class Measured:
    """Times of one way of reading, over the rounds."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.node_us: list[float] = []

    def take(self, node: Node, entries: int, read: Callable[[], None]) -> None:
        cpu, began = node.cpu_seconds(), time.perf_counter()
        read()
        self.rates.append(entries / (time.perf_counter() - began))
        self.node_us.append((node.cpu_seconds() - cpu) / entries * 1e6)

    def line(self, name: str) -> str:
        return (
            f"{name:<42}{statistics.median(self.rates):>12,.0f}"
            f"{statistics.median(self.node_us):>14.2f}"
        )


def read_by_xrange(node: Node) -> None:
    """Read as a program without Spark would."""
    last = b"-"
    while entries := node.client.xrange(STREAM, last, "+", count=XRANGE_COUNT):
        last = b"(" + entries[-1][0]


def throw_away(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def source(spark: "SparkSession", node: Node, schema: str | None = None) -> "DataFrame":
    reader = spark.read.format("crdtstream").option("nodes", node.address)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.option("streams", STREAM).load()


def read_by_stream(spark: "SparkSession", node: Node, folder: Path) -> None:
    frame = (
        spark.readStream.format("crdtstream")
        .option("nodes", node.address)
        .option("streams", STREAM)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def pings_while(node: Node, work: Callable[[], None]) -> list[float]:
    """Time that PINGs of another client took at the same time, in ms."""
    taken: list[float] = []
    over = threading.Event()

    def ping() -> None:
        client = redis.Redis(port=node.resp_port)
        while not over.is_set():
            began = time.perf_counter()
            client.ping()
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(0.001)

    thread = threading.Thread(target=ping)
    thread.start()
    work()
    over.set()
    thread.join()
    return sorted(taken)


def latencies(spark: "SparkSession", node: Node, folder: Path) -> list[float]:
    """From an entry's ID to the driver, in ms, of a trickle of entries."""
    taken: list[float] = []

    def take(frame: "DataFrame", _batch: int) -> None:
        rows = frame.select("ms").collect()
        now = time.time() * 1000
        taken.extend(now - row.ms for row in rows)

    frame = (
        spark.readStream.format("crdtstream")
        .option("nodes", node.address)
        .option("streams", "trickle")
        .option("startingOffsets", "latest")
        .load()
    )
    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    ends = time.monotonic() + LATENCY_SECONDS
    while time.monotonic() < ends:
        node.client.xadd("trickle", {"f": "v"})
        time.sleep(LATENCY_PAUSE_SECONDS)
    query.processAllAvailable()
    query.stop()
    # The first micro-batches start Python workers.
    return sorted(taken[len(taken) // 3 :])


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="crdtstream-bench-") as name:
        folder = Path(name)
        with regions("always")(folder / "data") as system:
            node = Node(system.ports[0])
            spark = make_session("benchmark", master="local[2]")
            print(machine())
            measure(node, spark, folder, entries=options.entries, rounds=options.rounds)
            spark.stop()


def measure(node: Node, spark: "SparkSession", folder: Path, *, entries: int, rounds: int) -> None:
    node.fill(entries)
    parquet = str(folder / "parquet")
    source(spark, node).write.parquet(parquet)
    numbers = itertools.count()
    ways: dict[str, Callable[[], None]] = {
        "XRANGE, a loop in Python": lambda: read_by_xrange(node),
        "spark.read, fields as a map": lambda: throw_away(source(spark, node)),
        "spark.read, fields as typed columns": lambda: throw_away(source(spark, node, SCHEMA)),
        "spark.read of the same rows in Parquet": lambda: throw_away(spark.read.parquet(parquet)),
        "spark.readStream, all in one micro-batch": lambda: read_by_stream(
            spark, node, folder / f"checkpoint-{next(numbers)}"
        ),
    }
    measured = {name: Measured() for name in ways}
    for read in ways.values():
        # Python workers start, the JVM compiles, the node imports Arrow.
        read()
    for _ in range(rounds):
        for name, read in ways.items():
            measured[name].take(node, entries, read)
    print(f"{entries:,} entries of two fields, median of {rounds}")
    print(f"{'':<42}{'rows/s':>12}{'node us/row':>14}")
    for name, one in measured.items():
        print(one.line(name))

    print("PING of another client during it, ms: median, 99 %, longest")
    for name in ("XRANGE, a loop in Python", "spark.read, fields as a map"):
        taken = pings_while(node, ways[name])
        print(f"{name:<42}{statistics.median(taken):>8.1f}{percentile(taken, 0.99):>8.1f}", end="")
        print(f"{taken[-1]:>8.1f}")

    taken = latencies(spark, node, folder / "checkpoint-latency")
    print("spark.readStream, from XADD to the driver, ms: median, 95 %, 99 %")
    print(f"{'':<42}" + "".join(f"{percentile(taken, at):>8.0f}" for at in (0.5, 0.95, 0.99)))


if __name__ == "__main__":
    main()
