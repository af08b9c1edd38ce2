"""Messages of errors that came through Java, or out of a task."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crdtstream.spark.jobs.failures import SPARK_ERRORS, told
from crdtstream.spark.jobs.folder import FolderError, LocalFolder
from crdtstream.spark.jobs.read_back import write_parquet
from crdtstream.spark.jobs.shared_folder import check_shared
from tests.live.test_disk_faults import mounted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("said", "told_as"),
    [
        (
            (
                "An error occurred while calling o51.parquet.\n: org.apache.spark.SparkException: "
                "Job aborted: Lost task 0.3 in stage 1.0 (TID 7) (host-2 executor 1): "
                "java.io.IOException: No space left on device\n\tat java.io.FileOutputStream.write"
            ),
            "a disk is full on host-2 (No space left on device): make room",
        ),
        (
            (
                "Traceback (most recent call last):\n  File ...\n"
                "OSError: [Errno 28] No space left on device: '/tmp/blockmgr'"
            ),
            "a disk is full (No space left on device): make room",
        ),
        ("x\ncrdtstream.spark.nodes.NodesError: nobody answers\n", "nobody answers"),
        ("An error occurred\n: java.lang.IllegalStateException: x\n\tat y", "java.lang.Illegal"),
    ],
)
def test_the_words_that_help_are_told(said: str, told_as: str) -> None:
    assert told(RuntimeError(said)).startswith(told_as)


@pytest.mark.live
def test_a_full_disk_is_told_as_such(spark: "SparkSession", tmp_path: Path) -> None:
    rows = spark.range(0, 200_000, 1, 2).selectExpr("id", "uuid() AS text")
    with (
        mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "none") as disk,
        pytest.raises(SPARK_ERRORS) as raised,
    ):
        write_parquet(rows, LocalFolder(disk), "a")

    said = told(raised.value)
    assert said.startswith("a disk is full")
    assert "No space left on device" in said
    assert "spark.local.dir" in said


def test_a_folder_that_cannot_be_used_says_what_was_not_done(
    spark: "SparkSession", tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=r"Not a directory.*\. No report was written$"):
        check_shared(
            spark, LocalFolder(tmp_path / "file"), "hidden", outcome="No report was written"
        )
