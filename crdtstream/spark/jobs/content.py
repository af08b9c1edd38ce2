"""Content of rows in two numbers, so that what was written and what is read can be compared.

    rows      how many
    digest    the sum of the rows' hashes, modulo 2^64

A sum does not depend on the order of the rows, and two parts add up to the whole: a merged file is
compared with the small ones.  A row's hash is xxHash64 over all its columns and over which of them
are null (Spark's hash ignores nulls), computed in the JVM.  Two different contents are taken for
one once in 2^64.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it
from pyspark.sql.types import MapType, StructType

_DIGEST_BITS: Final = 64
_HALF_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Content:
    """Content of some rows; see above."""

    rows: int
    digest: int

    def __add__(self, other: "Content") -> "Content":
        digest = (self.digest + other.digest) % (1 << _DIGEST_BITS)
        return Content(self.rows + other.rows, digest)


NOTHING: Final = Content(0, 0)


def content_of(frame: DataFrame) -> Content:
    """Of all rows, read now."""
    (row,) = frame.agg(*_told(frame.schema)).collect()
    return _content(row.asDict())


class Telling:
    """Has the tasks that write rows report their content.

    The report of a task counts once, however often the task is tried.
    """

    def __init__(self) -> None:
        self._observation = Observation()

    def of(self, frame: DataFrame) -> DataFrame:
        """The frame to write, once."""
        return frame.observe(self._observation, *_told(frame.schema))

    def content(self) -> Content:
        """Content that the tasks reported; waits for them, so ask when the rows are written."""
        return _content(self._observation.get)


def _told(schema: StructType) -> list[Column]:
    """The digest comes in two halves: a sum of whole hashes would overflow.  These do beyond 2^31
    rows, which is an error then."""
    row_hash = _row_hash(schema)
    low = row_hash.bitwiseAND(F.lit((1 << _HALF_BITS) - 1))
    high = F.shiftrightunsigned(row_hash, _HALF_BITS)
    zero = F.lit(0).cast("long")
    return [
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(low), zero).alias("low"),
        F.coalesce(F.sum(high), zero).alias("high"),
    ]


def _row_hash(schema: StructType) -> Column:
    hashed = []
    for field in schema.fields:
        column = F.col(f"`{field.name}`")
        # Spark hashes no maps, as their order may differ; that of one that was written does not.
        is_map = isinstance(field.dataType, MapType)
        hashed += [F.map_entries(column) if is_map else column, column.isNull()]
    return F.xxhash64(*hashed)


def _content(told: Mapping[str, Any]) -> Content:
    digest = (told["low"] + (told["high"] << _HALF_BITS)) % (1 << _DIGEST_BITS)
    return Content(told["rows"], digest)
