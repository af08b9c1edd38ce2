"""Checks, before a job writes, that a path is the same folder for Spark's tasks and this program.

    tasks    write files with a random word       this program reads them
    program  writes files with a random word      tasks read them

With workers on other machines, or in containers, a path may be another folder for each of them;
then files that tasks write there would not be found again.  A worker that joins later is not
checked; if its files are elsewhere, reading back shows that they are missing, see ``read_back``.

Where Spark runs in this program alone (``local[*]``), tasks are threads of its own, and no task is
started for this.
"""

import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from crdtstream.spark.jobs.failures import SPARK_ERRORS, is_missing_file, told
from crdtstream.spark.jobs.folder import Folder, FolderError, LocalFolder
from crdtstream.spark.session import local_cores

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# So that with few cores each worker is asked, most likely, and many do not make it slow.
TASKS_MIN: Final = 4
TASKS_MAX: Final = 64


class NotSharedError(FolderError):
    """Tasks and this program do not share the folder.  The text says what to do."""


def check_shared(spark: "SparkSession", folder: Folder, home: str, *, outcome: str) -> None:
    """Return if tasks write where this program reads, and read where it writes.

    Args:
        home: a path below the folder, where files may stand for a moment.
        outcome: sentence that says what is not done if they do not.

    Raises:
        NotSharedError: they do not.
        FolderError: one of them cannot write there.
    """
    context = spark.sparkContext
    tasks = 0
    if local_cores(context.master or "") is None:
        tasks = min(max(context.defaultParallelism, TASKS_MIN), TASKS_MAX)
    try:
        probe(spark, folder, home, tasks)
    except FolderError as error:
        raise type(error)(f"{error}. {outcome}") from error


def probe(spark: "SparkSession", folder: Folder, home: str, tasks: int) -> None:
    """As above, by this number of tasks; 0: only whether this program can write."""
    path, word = f"{home}/probe-{uuid.uuid4().hex}", uuid.uuid4().hex
    expected = sorted(f"{word} {number}" for number in range(tasks))
    try:
        for number, line in enumerate(expected or [word]):
            folder.create(f"{path}/of-program/{number}.txt", line.encode())
        if tasks:
            _read_what_tasks_write(spark, folder, f"{path}/of-tasks", expected)
            _have_tasks_read(spark, folder, f"{path}/of-program", expected)
    except NotSharedError:
        if isinstance(folder, LocalFolder):
            _clear_at_workers(spark, folder.url(path), tasks)
        raise
    except (OSError, *SPARK_ERRORS) as error:
        raise FolderError(f"{folder.url()} cannot be written: {told(error)}") from error
    finally:
        with suppress(OSError, *SPARK_ERRORS):
            folder.delete(path)


def _read_what_tasks_write(
    spark: "SparkSession", folder: Folder, path: str, expected: list[str]
) -> None:
    word = expected[0].partition(" ")[0]
    rows = spark.range(0, len(expected), 1, len(expected))
    try:
        rows.selectExpr(f"concat('{word} ', id)").write.option("compression", "none").text(
            folder.url(path)
        )
    except SPARK_ERRORS as error:
        raise FolderError(f"{folder.url()}: Spark's tasks cannot write: {told(error)}") from error
    names = [file.path for file in folder.files(path) if file.path.endswith(".txt")]
    lines = sorted(line for name in names for line in folder.read(name).decode().splitlines())
    if lines != expected:
        found = sum(line in lines for line in expected)
        raise _error(
            spark, folder, f"this program reads {found} of {len(expected)} files that tasks wrote"
        )


def _have_tasks_read(spark: "SparkSession", folder: Folder, path: str, expected: list[str]) -> None:
    try:
        found = spark.read.schema("value string").text(folder.url(path)).collect()
    except SPARK_ERRORS as error:
        if not is_missing_file(error):
            raise FolderError(f"{folder.url()}: Spark cannot read: {told(error)}") from error
        found = []
    if sorted(row.value for row in found) != expected:
        raise _error(spark, folder, "tasks do not find the files that this program wrote")


def _error(spark: "SparkSession", folder: Folder, what: str) -> NotSharedError:
    context: Any = spark.sparkContext
    known = context._jsc.sc().statusTracker().getExecutorInfos()
    hosts = ", ".join(sorted({str(one.host()) for one in known}))
    return NotSharedError(
        f"{folder.url()} is not one folder for all: {what}. This program runs on "
        f"{socket.gethostname()}, the tasks of {context.master} on {hosts}. Name a path that all "
        "of them share (NFS mounted everywhere, hdfs://…, s3a://…), or run on this machine alone "
        "with --master 'local[*]'"
    )


def _clear_at_workers(spark: "SparkSession", path: str, tasks: int) -> None:
    """Delete the files that tasks wrote where only they see them."""

    def clear(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        shutil.rmtree(path, ignore_errors=True)
        yield from batches

    with suppress(*SPARK_ERRORS):
        spark.range(0, tasks, 1, tasks).mapInArrow(clear, "id long").collect()
