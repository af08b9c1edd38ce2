"""A program that a test kills: copies or archives a stream, from where it was to the end."""

import argparse
import os
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# Of a task; Spark's own default on a cluster.
ATTEMPTS_MAX = 4
# Small, so that a task has many of them and is killed between two.
ROWS_PER_APPEND = 20
# In the command line of a daemon that starts processes for tasks, and of those.
TASKS_OF = "pyspark.daemon pyspark.worker"


def main() -> None:
    given = arguments()
    from crdtstream.spark.session import make_session
    from tests.spark.conftest import TEST_CONF

    spark = make_session(
        "killed",
        master=f"local[2,{ATTEMPTS_MAX}]",
        conf=TEST_CONF,
    )
    match given.job:
        case "copy":
            copy(spark, given)
        case "archive":
            archive_all(spark, given)
    spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=("copy", "archive"))
    for name in ("nodes", "source", "sink", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--entries-per-batch", type=int, required=True)
    return parser.parse_args()


def copy(spark: "SparkSession", given: argparse.Namespace) -> None:
    """Copy the source to the sink; the folder is the checkpoint."""
    entries = (
        spark.readStream.format("crdtstream")
        .options(nodes=given.nodes, streams=given.source)
        .option("maxEntriesPerTrigger", given.entries_per_batch)
        .load()
    )
    query = (
        entries.drop("stream")
        .writeStream.format("crdtstream")
        .options(nodes=given.nodes, stream=given.sink, rowsPerAppend=str(ROWS_PER_APPEND))
        .option("checkpointLocation", given.folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def archive_all(spark: "SparkSession", given: argparse.Namespace) -> None:
    """Archive the source in the folder."""
    from crdtstream.spark.jobs.archive import ArchiveOptions, archive
    from crdtstream.spark.options import NodesOptions, Security

    nodes = NodesOptions(tuple(given.nodes.split(",")), Security(), failover_seconds=60)
    options = ArchiveOptions(
        nodes,
        given.folder,
        streams=(given.source.encode(),),
        entries_per_batch_max=given.entries_per_batch,
    )
    archive(spark, options)


class Killed:
    """The program above, as a process with all that it started.

    Attributes:
        starts: how often it was started.
    """

    def __init__(self, log: Path, job: str, **arguments: object) -> None:
        self.starts = 0
        self._log = log
        self._command = [sys.executable, "-m", "tests.spark.killed", job]
        for name, value in arguments.items():
            self._command += [f"--{name.replace('_', '-')}", str(value)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)
        self.starts += 1

    def status(self) -> int | None:
        """The exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """Kill all of it at once, Java and Python, as if the machine had lost power."""
        assert self._process is not None
        if self.status() is None:
            for pid in [self._process.pid, *descendants(self._process.pid)]:
                kill(pid)
            self._process.wait()

    def task_workers(self) -> list[int]:
        """The Python processes that run tasks."""
        assert self._process is not None
        of_tasks = [pid for pid in descendants(self._process.pid) if TASKS_OF in command_line(pid)]
        # The daemon waits, its children work.
        parent = parents()
        return [pid for pid in of_tasks if parent.get(pid) in of_tasks]

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text(errors="replace")[-10_000:]


def kill(pid: int) -> None:
    """Kill a process that may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and their descendants."""
    children = defaultdict(list)
    for other, parent in parents().items():
        children[parent].append(other)
    found: list[int] = []
    left = [pid]
    while left:
        found += (more := children[left.pop()])
        left += more
    return found


def parents() -> dict[int, int]:
    """Of every process here its parent."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # pid (name) state parent …, and the name may hold anything.
                stat = (entry / "stat").read_text()
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
