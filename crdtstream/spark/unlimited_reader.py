"""The streaming source for PySpark 4.1, which calls ``latestOffset()`` without the last offset.

So a reader learns the last offset from the other calls.  With ``a`` and ``b`` as offsets, Spark
makes them in this order:

    new query    latestOffset() -> b    initialOffset() -> a    partitions(a, b)
    restart      partitions(a, a)       latestOffset() -> b     partitions(a, b)

For Trigger.AvailableNow this PySpark runs one micro-batch, which has all entries.  If the last run
was cut off, this is the batch that was under way, and new entries are read by the next run.  If
``spark.sql.streaming.triggerAvailableNowWrapper.enabled`` is true, it goes on to new entries, and
asks for the end before anything else:

    restart      latestOffset() -> b    partitions(a, a)    latestOffset()    partitions(a, b)

The first answer is then made without knowing ``a``, and Spark does not change it.  If it lacks some
of ``a``, as it may after a failover, the query would go back and read entries twice.  The second
call knows ``a`` and is made before anything is written to the checkpoint: there the query ends with
an error.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from crdtstream.spark.nodes import NodesError
from crdtstream.spark.options import OptionsError, SourceOptions
from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS, ReadAllAvailable, without_limits
from crdtstream.spark.stream_source import EntriesStreamReader
from crdtstream.spark.vectors import Vector, beyond, offset_of, parse_vector


class UnlimitedReader(DataSourceStreamReader):
    """An :class:`EntriesStreamReader` as PySpark 4.1 calls it."""

    def __init__(self, reader: EntriesStreamReader, options: SourceOptions) -> None:
        """
        Raises:
            OptionsError: an option wants a newer PySpark.
        """
        if options.entries_per_trigger_max:
            raise OptionsError("crdtstream: " + without_limits("maxEntriesPerTrigger"))
        self._reader = reader
        # The start of the next batch, as soon as a call has said it.
        self._start: dict[str, Any] | None = None
        # Answered before that; Spark may keep to it as the end of a run.
        self._said_first: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        start = self._reader.initialOffset()
        # Also asked again when the first batch is run again.
        if self._start is None:
            self._start = start
        return start

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """
        Raises:
            NodesError: this run would end before what was read, or some of it is lost.
        """
        if self._start is None:
            self._said_first = self._reader.all_durable()
            return self._said_first
        if self._said_first is not None:
            _refuse_going_back(self._reader.existing_of(self._start), self._said_first)
            self._said_first = None
        return self._reader.latestOffset(self._start, ReadAllAvailable())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        partitions = self._reader.partitions(start, end)
        self._start = end
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


def as_asked_here(
    reader: EntriesStreamReader, options: SourceOptions
) -> EntriesStreamReader | UnlimitedReader:
    """The reader, or what the PySpark here can ask in its place.

    Raises:
        OptionsError: an option wants a newer PySpark.
    """
    return reader if HAS_READ_LIMITS else UnlimitedReader(reader, options)


def _refuse_going_back(start: Vector, end: dict[str, Any]) -> None:
    missing = beyond(start, parse_vector(end))
    if missing:
        raise NodesError(
            f"{offset_of(start)} was read, and the nodes that answer lack effects of"
            f" regions {sorted(missing)}: this run would read them twice. Run again when the nodes"
            " have caught up; with PySpark 4.2 or newer a run goes on without them"
        )
