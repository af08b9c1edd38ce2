"""Spark's standalone cluster on this machine, whose worker has a folder of its own, and a program
that runs jobs there.

The worker is in a mount namespace of its own, with an empty file system over one folder: a path
below it is another one to tasks than to the program, as on two machines.  All other paths are the
same to both.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.patience import seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
ISOLATED = """mount -t tmpfs none "$1" && shift && exec "$@" """


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A master and a worker.

    Attributes:
        master: its address, as of spark-submit.
        apart: a folder that is another one to tasks.
        shared: one that is the same to all.
        worker: the process of the worker.
    """

    master: str
    apart: Path
    shared: Path
    worker: int

    def at_worker(self, path: Path) -> Path:
        """A path of the tasks, as this program reaches it."""
        return Path(f"/proc/{self.worker}/root{path}")

    def run(self, *jobs: str, nodes: str, streams: str) -> dict[str, dict[str, Any]]:
        """Run the jobs in this order; returns of each its outcome, or under ``error`` its error.

        Args:
            jobs: as ``apart/audit``: in which folder, and what.
        """
        command = [sys.executable, "-m", "tests.spark.clustered", *jobs]
        command += ["--master", self.master, "--nodes", nodes, "--streams", streams]
        ended = subprocess.run(
            [*command, "--folder", str(self.apart.parent)],
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr[-10_000:]
        outcomes = [json.loads(line) for line in ended.stdout.splitlines()]
        return dict(zip(jobs, outcomes, strict=True))


def can_isolate() -> bool:
    """True if a process may have mounts of its own here."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def spark_cluster(folder: Path, port: int) -> Iterator[SparkCluster]:
    """A cluster whose files are in ``folder``; its master has the port."""
    apart, shared = folder / "apart", folder / "shared"
    for made in (apart, shared):
        made.mkdir(parents=True)
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = [
        *(*_class("worker.Worker"), *address, "--cores", "2", "--memory", "512m"),
        *("--work-dir", str(folder / "work"), f"spark://127.0.0.1:{port}"),
    ]
    isolated = ["unshare", "--mount", "sh", "-ec", ISOLATED, "sh", str(apart), *worker]
    # The first to start waits for the other.
    commands = {
        "master": [*_class("master.Master"), *address, "--port", str(port)],
        "worker": isolated,
    }
    running = {}
    for name, command in commands.items():
        with Path(folder, f"{name}.log").open("wb") as log:
            running[name] = subprocess.Popen(command, env=_environment(), stdout=log, stderr=log)
    try:
        yield SparkCluster(f"spark://127.0.0.1:{port}", apart, shared, running["worker"].pid)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(seconds())


def _class(name: str) -> list[str]:
    return [f"{_home()}/bin/spark-class", f"org.apache.spark.deploy.{name}"]


@cache
def _home() -> str:
    from crdtstream.spark.session import _home_without_archives

    return _home_without_archives()


def _environment() -> dict[str, str]:
    from crdtstream.spark.java import find_java

    return os.environ | {
        "JAVA_HOME": str(find_java()),
        # All start Python workers, one of each kind, and quickly from here.
        "SPARK_HOME": _home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # For the two that only start others.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }


# --- The program ------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="+")
    for name in ("master", "nodes", "streams", "folder"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    from crdtstream.spark.jobs.archive import ArchiveError
    from crdtstream.spark.jobs.audit import AuditError
    from crdtstream.spark.jobs.report import ReportError
    from crdtstream.spark.session import make_session
    from tests.spark.conftest import QUICK_JAVA, TEST_CONF

    conf = TEST_CONF | {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.ui.enabled": "false",
    }
    spark = make_session("clustered", master=given.master, conf=conf)
    errors = (ArchiveError, AuditError, ReportError)
    base = given.folder
    for folder, job in (name.split("/") for name in given.jobs):
        given.folder = f"{base}/{folder}"
        try:
            outcome = JOBS[job](spark, given)
        except errors as error:
            outcome = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(outcome), flush=True)
    spark.stop()


def _archive(spark: "SparkSession", given: argparse.Namespace, **more: Any) -> dict[str, Any]:
    from crdtstream.spark.jobs.archive import ArchiveOptions, archive

    path, streams = f"{given.folder}/archive", (given.streams.encode(),)
    outcome = archive(spark, ArchiveOptions(_nodes(given), path, streams, **more))
    return {"entries": outcome.entries, "trimmed": outcome.trimmed}


def _trim(spark: "SparkSession", given: argparse.Namespace) -> dict[str, Any]:
    return _archive(spark, given, trim_older_than_seconds=0.0)


def _audit(spark: "SparkSession", given: argparse.Namespace) -> dict[str, Any]:
    from crdtstream.spark.jobs.audit import AuditOptions, audit

    streams = (given.streams.encode(),)
    outcome = audit(spark, AuditOptions(_nodes(given), streams, output=f"{given.folder}/audit"))
    return {"entries": outcome.entries, "clean": outcome.clean}


def _report(spark: "SparkSession", given: argparse.Namespace) -> dict[str, Any]:
    from crdtstream.spark.jobs.report import ReportOptions, report

    streams, output = (given.streams.encode(),), f"{given.folder}/report"
    options = ReportOptions(_nodes(given), output, streams, sample_seconds=0.1)
    return {"entries": report(spark, options).entries}


def _unprobed(spark: "SparkSession", given: argparse.Namespace) -> dict[str, Any]:
    """As when the workers that were asked share the folder, and those that write do not."""
    import crdtstream.spark.jobs.archive

    job: Any = crdtstream.spark.jobs.archive
    asked, job.check_shared = job.check_shared, lambda *_, **_named: None
    try:
        return _trim(spark, given)
    finally:
        job.check_shared = asked


def _nodes(given: argparse.Namespace) -> Any:
    from crdtstream.spark.options import SourceOptions

    return SourceOptions.parse({"nodes": given.nodes}).nodes


JOBS: dict[str, Callable[["SparkSession", argparse.Namespace], dict[str, Any]]] = {
    "archive": _archive,
    "trim": _trim,
    "audit": _audit,
    "report": _report,
    "unprobed": _unprobed,
}


if __name__ == "__main__":
    main()
