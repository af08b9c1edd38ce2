"""By this module Spark finds the data source ``crdtstream`` by itself.

Spark imports every module on Python's path whose name begins with ``pyspark_`` and takes what it
calls ``DefaultSource``, so ``spark.read.format("crdtstream")`` needs no registration.
"""

from crdtstream.spark.datasource import CrdtStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
