"""The data source ``crdtstream`` with the columns of an archive, from which nothing is lost.

``fields`` is text, each name once: what people query.  An entry may hold more than that; then
``raw`` has the whole entry.  ``key`` is the stream's name as bytes.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from crdtstream.spark.casting import to_text
from crdtstream.spark.entries import Columns, Lane
from crdtstream.spark.fields import Fields, FieldsError, decode_fields, without_repeats
from crdtstream.spark.jobs.archive_layout import FILE_SCHEMA
from crdtstream.spark.options import NodesOptions, ParseMode, SourceOptions
from crdtstream.spark.pyspark_versions import arrow_schema
from crdtstream.spark.stream_source import EntriesStreamReader
from crdtstream.spark.unlimited_reader import UnlimitedReader, as_asked_here
from crdtstream.spark.vectors import Vector, offset_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names as Spark's options cannot carry them: not all are text.
_PATTERNS: Final = "patterns"
# Identity of the database that the archive is of.
_DATABASE: Final = "database"
_OURS: Final = ("key", "fields", "raw")


class ArchiveDataSource(DataSource):
    """Entries with the columns of an archive's files; for ``readStream`` only."""

    @classmethod
    def name(cls) -> str:
        return "crdtstream-archive"

    def schema(self) -> StructType:
        return FILE_SCHEMA

    def streamReader(  # noqa: N802
        self, schema: StructType
    ) -> EntriesStreamReader | UnlimitedReader:
        options = dict(self.options)
        patterns = tuple(base64.b64decode(one) for one in json.loads(options.pop(_PATTERNS)))
        database_uid = options.pop(_DATABASE)
        parsed = SourceOptions.parse(options)
        nodes = replace(parsed.nodes, database_uid=database_uid)
        wanted = replace(parsed, streams=patterns, nodes=nodes)
        return as_asked_here(_ArchiveReader(schema, wanted), wanted)


class _ArchiveReader(EntriesStreamReader):
    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        plain = StructType([field for field in schema.fields if field.name not in _OURS])
        super().__init__(plain, options)
        self._columns = ArchiveColumns(schema, plain)


class ArchiveColumns(Columns):
    """As any schema's columns, and those that only an archive has."""

    def __init__(self, schema: StructType, plain: StructType) -> None:
        super().__init__(plain, ParseMode.PERMISSIVE)
        self._archive = arrow_schema(schema)

    def batch(self, wire: pa.RecordBatch, lane: Lane) -> pa.RecordBatch:
        plain = super().batch(wire, lane)
        blobs = wire.column("fields")
        maps, lossy = text_maps(blobs, self._archive.field("fields").type)
        ours = {
            "key": pa.repeat(pa.scalar(lane.key, pa.binary()), wire.num_rows),
            "fields": maps,
            "raw": pc.if_else(pa.array(lossy), blobs, pa.scalar(None, pa.binary())),
        }
        columns = [
            ours[name] if name in ours else plain.column(name) for name in self._archive.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._archive)


def text_maps(blobs: pa.BinaryArray, arrow: pa.MapType) -> tuple[pa.MapArray, np.ndarray]:
    """Entries as maps of text, and which of them such a map does not hold in full.

    Raises:
        ValueError: they are not what XADD stores.
    """
    try:
        fields = decode_fields(blobs)
    except FieldsError as error:
        raise ValueError(f"the node's answer is damaged: {error}") from error
    names, values = to_text(fields.names), to_text(fields.values)
    lossy = _changed(fields, names, values)
    starts = fields.starts
    kept = without_repeats(names, fields)
    if kept is not None:
        starts = np.searchsorted(kept, starts)
        lossy |= np.diff(starts) < np.diff(fields.starts)
        names, values = names.take(pa.array(kept)), values.take(pa.array(kept))
    offsets = pa.array(starts.astype(np.int32))
    return pa.MapArray.from_arrays(offsets, names, values, type=arrow), lossy


def _changed(fields: Fields, names: pa.StringArray, values: pa.StringArray) -> np.ndarray:
    """Of each entry whether some of its bytes are no UTF-8."""
    changed = np.zeros(len(fields), np.bool_)
    for text, was in ((names, fields.names), (values, fields.values)):
        again = text.cast(pa.binary())
        if not again.equals(was):
            differs = pc.not_equal(again, was).to_numpy(zero_copy_only=False)
            changed[fields.row_of_pair[differs]] = True
    return changed


def read_stream(
    spark: "SparkSession",
    options: NodesOptions,
    streams: Sequence[bytes],
    *,
    starting: Vector,
    entries_per_batch_max: int | None,
    fail_on_data_loss: bool,
) -> DataFrame:
    """Entries beyond ``starting``; of a query that has a checkpoint, beyond that.

    Args:
        options: with the identity of the database that is meant.
        entries_per_batch_max: of a micro-batch; None: as many as there are.
    """
    assert options.database_uid, "any database would do"
    known: Any = spark._jsparkSession.sessionState().dataSourceManager()
    if not known.dataSourceExists(ArchiveDataSource.name()):
        spark.dataSource.register(ArchiveDataSource)
    given = {
        **options.given(),
        "startingOffsets": json.dumps(offset_of(starting)) if starting else "earliest",
        "maxEntriesPerTrigger": str(entries_per_batch_max or ""),
        "failOnDataLoss": "true" if fail_on_data_loss else "false",
        _DATABASE: options.database_uid,
        _PATTERNS: json.dumps([base64.b64encode(pattern).decode() for pattern in streams]),
    }
    reader = spark.readStream.format(ArchiveDataSource.name())
    return reader.options(**{name: value for name, value in given.items() if value}).load()
