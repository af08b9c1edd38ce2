"""An archive as a table of Delta Lake, where the session has it.

Delta Lake commits a micro-batch in one step, and recognises a repeated one by the query's name and
the batch's number.  It merges small files on request (OPTIMIZE), and keeps old ones for readers
(VACUUM removes them).
"""

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import StringType

from crdtstream.spark.jobs.archive_layout import FILE_SCHEMA, date_of, label_of
from crdtstream.spark.jobs.archive_state import Segment
from crdtstream.spark.jobs.content import Content, content_of
from crdtstream.spark.jobs.failures import SPARK_ERRORS, told
from crdtstream.spark.jobs.folder import ArchiveError, Folder
from crdtstream.spark.jobs.read_back import NotReadBackError, microseconds
from crdtstream.spark.vectors import Vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"


def check_delta(spark: "SparkSession") -> None:
    """
    Raises:
        ArchiveError: this session cannot write such tables; the text says what it lacks.
    """
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_EXTENSION)
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        scala = jvm.scala.util.Properties.versionNumberString()
        binary = ".".join(str(scala).split(".")[:2])
        version = ".".join(spark.version.split(".")[:2])
        raise ArchiveError(
            "Delta Lake is not in this Spark session. If there is one for Spark "
            f"{spark.version}, start with --conf spark.jars.packages="
            f"io.delta:delta-spark_{version}_{binary}:VERSION "
            f"--conf spark.sql.extensions={_EXTENSION} --conf "
            f"spark.sql.catalog.spark_catalog={_CATALOG}; or archive as parquet"
        ) from error
    if _EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise ArchiveError(
            "Delta Lake is here, and not switched on: --conf "
            f"spark.sql.extensions={_EXTENSION} --conf spark.sql.catalog.spark_catalog={_CATALOG}"
        )


def write_delta(
    spark: "SparkSession",
    folder: Folder,
    segment: Segment,
    *,
    query: str,
    batch: int,
    above: Vector,
    upto: Vector,
) -> None:
    """Append a micro-batch, unless it is in the table already; then delete its segment.

    Args:
        above, upto: between which vectors the batch's entries are.

    Raises:
        ArchiveError: the table was not written, or does not hold what the segment does.
    """
    rows = spark.read.schema(FILE_SCHEMA).parquet(folder.url(segment.path))
    rows = rows.withColumns({"stream": _label(F.col("key")), "date": date_of(F.col("ms"))})
    writer = (
        rows.repartition("stream", "date")
        .write.format("delta")
        .mode("append")
        .partitionBy("stream", "date")
        .option("txnAppId", f"crdtstream-archive-{query}")
        .option("txnVersion", batch)
    )
    try:
        with microseconds(spark):
            writer.save(folder.url())
    except SPARK_ERRORS as error:
        raise ArchiveError(f"the table {folder.url()} was not written: {told(error)}") from error
    check_in_table(spark.read.format("delta").load(folder.url()), segment, above, upto)
    folder.delete(segment.path)


def check_in_table(table: DataFrame, segment: Segment, above: Vector, upto: Vector) -> None:
    """Return if a table holds what the segment does, of the entries between two vectors.

    Raises:
        NotReadBackError: it does not.
    """
    found = content_between(table, above, upto)
    if found != segment.content:
        raise NotReadBackError(
            f"{segment.entries} entries were written to the table, and {found.rows} are there, or "
            f"others. They are in {segment.path}; nothing was committed or trimmed. Let no other "
            "program change the table, then run again"
        )


def content_between(table: DataFrame, above: Vector, upto: Vector) -> Content:
    """Of a table's entries that are between two vectors.

    Entries beyond the archive's own vector are of a batch that was cut off before the state had
    it: it comes again.
    """
    between = F.lit(False)
    for origin, n in upto.items():
        dots = (F.col("dot") > above.get(origin, 0)) & (F.col("dot") <= n)
        between = between | ((F.col("origin") == origin) & dots)
    return content_of(table.where(between).select(*FILE_SCHEMA.fieldNames()))


def _label(keys: Column) -> Column:
    """Names of streams as their folders say them; each is worked out once a batch."""
    import pandas as pd

    # PySpark uses the annotations, so it must be able to look them up.
    def labels(keys: pd.Series) -> pd.Series:
        return keys.map({key: label_of(key) for key in keys.unique()})

    make: Any = pandas_udf(labels, StringType())  # type: ignore[call-overload]
    return make(keys)  # type: ignore[no-any-return]
