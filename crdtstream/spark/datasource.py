"""The data source ``crdtstream``, as Spark finds it: it parses the options and passes them on."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from crdtstream.spark.entries import default_schema
from crdtstream.spark.options import SourceOptions

# A reader or a writer is imported when it is asked for: most queries need one of them.
if TYPE_CHECKING:
    from crdtstream.spark.sink import BatchWriter, StreamWriter
    from crdtstream.spark.source import EntriesReader
    from crdtstream.spark.stream_source import EntriesStreamReader
    from crdtstream.spark.unlimited_reader import UnlimitedReader


class CrdtStreamDataSource(DataSource):
    """Streams of all regions as a table, and as a place to append rows to."""

    @classmethod
    def name(cls) -> str:
        return "crdtstream"

    def schema(self) -> StructType:
        """The columns of a query without a schema of its own."""
        return default_schema(SourceOptions.parse(self.options).value_format)

    def reader(self, schema: StructType) -> "EntriesReader":
        from crdtstream.spark.source import EntriesReader

        return EntriesReader(schema, SourceOptions.parse(self.options))

    def streamReader(  # noqa: N802
        self, schema: StructType
    ) -> "EntriesStreamReader | UnlimitedReader":
        from crdtstream.spark.stream_source import EntriesStreamReader
        from crdtstream.spark.unlimited_reader import as_asked_here

        options = SourceOptions.parse(self.options)
        return as_asked_here(EntriesStreamReader(schema, options), options)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        from crdtstream.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: N802
        from crdtstream.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)
