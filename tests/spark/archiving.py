"""Programs that tests kill: one archives streams, in many small steps; one replays an archive."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.killed import ATTEMPTS_MAX, Killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crdtstream.spark.options import NodesOptions

# So that a run has many batches, publishes often and merges often.
ENTRIES_PER_BATCH = 150
FILE_BYTES = 20_000
UNPUBLISHED_FILES_MAX = 0.4
SMALL_FILES_MAX = 2
ENTRIES_PER_CHUNK = 400


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=("archive", "replay"))
    for name in ("nodes", "path"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("streams", "target", "rate"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args()

    from crdtstream.spark.options import SourceOptions
    from crdtstream.spark.session import make_session
    from tests.spark.conftest import TEST_CONF

    spark = make_session(
        "killed",
        master=f"local[2,{ATTEMPTS_MAX}]",
        conf=TEST_CONF,
    )
    nodes = SourceOptions.parse({"nodes": given.nodes}).nodes
    run = run_archive if given.job == "archive" else run_replay
    run(spark, nodes, given)
    spark.stop()


def run_archive(spark: "SparkSession", nodes: "NodesOptions", given: argparse.Namespace) -> None:
    from crdtstream.spark.jobs import archive
    from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS

    archive.UNPUBLISHED_FILES_MAX = UNPUBLISHED_FILES_MAX
    options = archive.ArchiveOptions(
        nodes=nodes,
        path=given.path,
        streams=(given.streams.encode(),),
        entries_per_batch_max=ENTRIES_PER_BATCH if HAS_READ_LIMITS else None,
        file_bytes=FILE_BYTES,
        small_files_max=SMALL_FILES_MAX,
    )
    print(archive.archive(spark, options), flush=True)


def run_replay(spark: "SparkSession", nodes: "NodesOptions", given: argparse.Namespace) -> None:
    from crdtstream.spark.jobs import replay

    replay.CHUNK_ENTRIES = ENTRIES_PER_CHUNK
    options = replay.ReplayOptions(
        nodes=nodes, path=given.path, target=given.target.encode(), rate=float(given.rate)
    )
    print(replay.replay(spark, options), flush=True)


class Archiving(Killed):
    """The program that archives, as a process with all that it started."""

    job = "archive"

    def __init__(self, log: Path, **arguments: str) -> None:
        super().__init__(log, self.job)
        self._command = [sys.executable, "-m", "tests.spark.archiving", self.job]
        for name, value in arguments.items():
            self._command += [f"--{name}", value]


class Replaying(Archiving):
    """The program that replays, as a process with all that it started."""

    job = "replay"


if __name__ == "__main__":
    main()
