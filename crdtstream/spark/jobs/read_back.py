"""Reading back: files of tasks count as written only when they were read back.

    tasks     write files, and report how many rows they write and a digest of them
    driver    sees the files, and in their footers as many rows
    tasks     read the files that the driver sees: as many rows, with this digest

The driver never takes what it sees for what was written: if it shares no file system with the
tasks, it sees nothing, and that is not an empty batch.  A program that removes something because
it has been written elsewhere (trims a stream, replaces a file) does so after this, not before.
"""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from crdtstream.spark.jobs.content import Content, Telling, content_of
from crdtstream.spark.jobs.failures import SPARK_ERRORS, told
from crdtstream.spark.jobs.folder import ArchiveError, FileSize, Folder, FolderError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_TIMES: Final = "spark.sql.parquet.outputTimestampType"


class NotReadBackError(ArchiveError):
    """The files are not as they were written.  The text says what they are, and what to do."""


@contextmanager
def microseconds(spark: "SparkSession") -> "Iterator[None]":
    """A context in which Parquet files get times in microseconds, as Parquet defines them.

    Spark writes INT96 else, a type that is deprecated; other readers take it for nanoseconds, or
    refuse it (Iceberg), and beyond 2262 it is another time for them.
    """
    before = spark.conf.get(_TIMES) or "INT96"
    spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMES, before)


def write_parquet(frame: DataFrame, folder: Folder, path: str) -> tuple[Content, list[FileSize]]:
    """Write a frame to a folder that is not there yet, and read it back.

    Returns:
        The written content, and the files that hold it.

    Raises:
        NotReadBackError: something else is there.
    """
    telling = Telling()
    with microseconds(frame.sparkSession):
        telling.of(frame).write.parquet(folder.url(path))
    written = telling.content()
    return written, read_back(frame.sparkSession, folder, path, frame.schema, written)


def read_back(
    spark: "SparkSession",
    folder: Folder,
    path: str,
    schema: StructType,
    written: Content,
    *,
    columns: Sequence[str] = ("*",),
) -> list[FileSize]:
    """The Parquet files below ``path``, after all of them were read and hold what was written.

    Args:
        schema: of the files, with the columns of partitions.
        columns: the columns that ``written`` is about.

    Raises:
        NotReadBackError: they hold something else.
    """
    files = [file for file in folder.files(path) if file.path.endswith(".parquet")]
    try:
        seen = sum(folder.parquet_footer(file.path).rows for file in files)
    except FolderError as error:
        raise _error(folder, path, written, f"a file of them is damaged: {error}") from error
    if seen != written.rows:
        what = f"this program sees {seen} of them, in {len(files)} files"
        raise _error(folder, path, written, what)
    if not seen:
        return files
    try:
        frame = spark.read.schema(schema).parquet(folder.url(path)).select(*columns)
        found = content_of(frame)
    except SPARK_ERRORS as error:
        raise _error(folder, path, written, f"Spark cannot read them: {told(error)}") from error
    if found != written:
        what = f"Spark reads {found.rows} with other content (digest {found.digest:016x})"
        raise _error(folder, path, written, what)
    return files


def _error(folder: Folder, path: str, written: Content, found: str) -> NotReadBackError:
    return NotReadBackError(
        f"{written.rows} rows with digest {written.digest:016x} were written to "
        f"{folder.url(path)}, and {found}. Nothing was committed, replaced or trimmed. Make sure "
        "that the folder is on storage that this program and all of Spark's workers share, and "
        "that no other program changes it; then run again"
    )
