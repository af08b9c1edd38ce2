"""PySpark reads and writes streams: ``spark.read.format("crdtstream")``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make the format ``crdtstream`` known to a session."""
    from crdtstream.spark.datasource import CrdtStreamDataSource

    spark.dataSource.register(CrdtStreamDataSource)
