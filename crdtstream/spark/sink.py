"""The sink: ``df.write`` and ``df.writeStream`` append rows to streams, each row once.

    Arrow batch → text → RESP → by stream → numbered requests, in each stream one after the other

A task numbers its rows per stream, in the order in which it gets them, under a producer's name that
any other attempt of the task has, too:

    writeStream   producer "<query id>:<partition>", batch: Spark's, both kept by the checkpoint
    write         producer "<write id>:<partition>", batch 0; the option `writeId`, or a new one

A node appends only rows that no region has.  So a repeated append (by a retry, a speculative copy,
a query that goes on from its checkpoint, a job that is run again with its `writeId`) adds no row
twice.  Nothing is taken back either: rows of a task that failed stay, and are known when it is run
again.

A query must meet one condition: when it is run again, a partition has the same rows in the same
order.  That holds without a shuffle (select, where, explode of what can be read again), or if the
rows are sorted by something that tells them apart (``sortWithinPartitions``).  Behind a shuffle
(groupBy, join, dropDuplicates, repartition) the same rows may have another order.  Then use
``rowOrder=sorted``: it numbers and appends them in the order of their bytes, and holds a task's
rows in memory for that.

- Values may differ from run to run (``rand()``, ``uuid()``), unless rows are sorted by them: the
  row of the first run stays.
- No row may be added or left out: the rows behind it would get other numbers.  Entries that are
  removed (XDEL) after a micro-batch began to copy them, and before it was committed, are such rows.
- A query may be changed as Spark allows it, once its last batch is committed.

Readers may see copies: two regions can take the same rows, if one was asked and killed before it
told the other.  Once they hear of each other, one copy is removed, in every region; until then both
can be read.  A reader that must see each message once drops duplicates by (stream, producer,
idempotent_id), which the source shows.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from crdtstream.spark.lanes import Groups, Lanes, Producer
from crdtstream.spark.layout import STREAM, Layout, SinkError
from crdtstream.spark.nodes import Nodes, NodesError, StaleAppendError
from crdtstream.spark.options import RowOrder, SinkOptions
from crdtstream.spark.row_encoding import NoFieldError, pieces

# As Spark sets them for the tasks of a micro-batch.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"

# Number of sorted rows that are sent at a time.
SORTED_ROWS: Final = 4_096
SORTED_BYTES: Final = 256 << 20
# Partitions whose counts are logged; the sum is of all.
PARTITIONS_TOLD: Final = 20

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Appended(WriterCommitMessage):
    """Outcome of one task.

    Attributes:
        partition: its number.
        appended: rows that it appended.
        known: rows that an earlier attempt had appended.
    """

    partition: int
    appended: int
    known: int


def batch_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> "BatchWriter":
    """Make the writer of a data source for ``df.write``.

    Spark itself refuses the modes ``error`` (its default) and ``ignore``: a source in Python cannot
    say whether the target exists.

    Raises:
        OptionsError: the options are wrong.
        SinkError: rows of this schema cannot be appended, or are to replace a stream's entries.
        NodesError: no node names its database in time.
    """
    _refuse_overwrite(overwrite)
    return BatchWriter(schema, SinkOptions.parse(options))


def stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> "StreamWriter":
    """Make the writer of a data source for ``df.writeStream``; errors as of :func:`batch_writer`.

    Spark itself refuses the output mode ``update``; it treats ``complete`` as overwriting.
    """
    _refuse_overwrite(overwrite)
    return StreamWriter(schema, SinkOptions.parse(options))


def _of_one_database(options: SinkOptions) -> SinkOptions:
    """The options for all tasks: they append to the database that is there now, and to no other.

    Raises:
        NodesError: no node says which that is in time.
    """
    with Nodes.of(options.nodes) as nodes:
        return replace(options, nodes=replace(options.nodes, database_uid=nodes.database_uid))


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise SinkError(
            "crdtstream: streams are only appended to: mode('append') or outputMode('append'); to "
            "begin again, delete them first (DEL)"
        )


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: one made on the driver, copied to all tasks and their attempts."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._layout = Layout.of(schema, options.stream)
        self._options = _of_one_database(options)
        self._write_id = options.write_id or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Appended:
        partition = _task().partitionId()
        producer = Producer(f"{self._write_id}:{partition}".encode(), 0)
        return append_rows(
            iterator, self._layout, self._options, producer=producer, partition=partition
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _LOG.info("write %s: %s", self._write_id, _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        given = bool(self._options.write_id)
        _LOG.warning(
            "write %s failed: %s, which stay; %s",
            self._write_id,
            _summary(messages),
            "run it again with this writeId, and nothing is added twice"
            if given
            else "with the option writeId, it could be run again without adding them twice",
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: made for each micro-batch.

    Raises:
        SinkError: the option ``writeId`` is given, though the checkpoint names the query.
    """

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        if options.write_id:
            raise SinkError(
                "crdtstream: writeId is for df.write; a streaming query is known by its checkpoint"
            )
        self._layout = Layout.of(schema, options.stream)
        self._options = _of_one_database(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Appended:
        task = _task()
        query_id, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query_id is None or batch is None:
            raise SinkError(
                f"Spark does not give its tasks {_QUERY_ID} and {_BATCH_ID}, without which rows "
                "could be appended twice; PySpark 4.3 does"
            )
        partition = task.partitionId()
        producer = Producer(f"{query_id}:{partition}".encode(), int(batch))
        return append_rows(
            iterator, self._layout, self._options, producer=producer, partition=partition
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _LOG.info("batch %d: %s", batchId, _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _LOG.warning(
            "batch %d failed: %s, which stay; start the query again from its checkpoint, and "
            "nothing is added twice",
            batchId,
            _summary(messages),
        )


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "rows are written by Spark's tasks"
    return task


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    done = [message for message in messages if isinstance(message, Appended)]
    appended, known = sum(m.appended for m in done), sum(m.known for m in done)
    told = [f"{m.partition}: {m.appended}+{m.known}" for m in done[:PARTITIONS_TOLD]]
    if len(done) > len(told):
        told.append("…")
    return (
        f"{appended} rows appended, {known} were there, by {len(done)} of {len(messages)} tasks "
        f"({', '.join(told)})"
    )


def append_rows(
    batches: Iterable[pa.RecordBatch],
    layout: Layout,
    options: SinkOptions,
    *,
    producer: Producer,
    partition: int,
) -> Appended:
    """Append a task's rows that are not there yet; all are durable in a region then.

    Raises:
        SinkError: a row has no stream, no field, or is too large; or the task was overtaken.  Rows
            before it may have been appended.
        NodesError: no node takes them in time.
    """
    groups = _encoded(batches, layout)
    if options.row_order is RowOrder.SORTED:
        groups = _sorted(groups)
    with _explained(partition, producer), Lanes(options, producer) as lanes:
        for group in groups:
            lanes.append(group)
        lanes.wait()
    return Appended(partition, lanes.appended, lanes.known)


@contextmanager
def _explained(partition: int, producer: Producer) -> Iterator[None]:
    """Say of an error whose it is, and what to do."""
    try:
        yield
    except StaleAppendError as error:
        raise SinkError(
            f"partition {partition}, batch {producer.batch}: later batches of "
            f"{producer.name.decode()} were committed. Either this task is one that its query no "
            "longer waits for, or the query runs twice, or its checkpoint was set back: run it "
            f"once, and from its newest checkpoint ({error})"
        ) from error
    except NodesError as error:
        raise NodesError(
            f"partition {partition}, batch {producer.batch}: {error}. Rows that were appended "
            "stay; run it again, and nothing is added twice"
        ) from error
    except SinkError as error:
        raise SinkError(f"partition {partition}, batch {producer.batch}: {error}") from error


def _encoded(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[Groups]:
    """The rows as RESP, some thousands at a time, by stream.

    Raises:
        SinkError: a row has no stream or no field.
    """
    row = 0
    for batch in batches:
        for piece in pieces(layout.columns(batch)):
            try:
                encoded = layout.encode(piece)
            except NoFieldError as error:
                raise SinkError(
                    f"row {row + error.row} (of 0, 1, …) has no field: its values are all null, "
                    "and an entry has at least one; leave such rows out"
                ) from error
            if layout.stream is not None:
                yield [(layout.stream, encoded)]
            else:
                streams = piece.column(STREAM)
                if streams.null_count:
                    at = row + streams.is_null().index(True).as_py()
                    raise SinkError(f"row {at} (of 0, 1, …) has no stream: it is null")
                yield by_stream(streams, encoded)
            row += piece.num_rows


def by_stream(streams: pa.Array, encoded: pa.BinaryArray) -> Groups:
    """Rows apart by their stream, in the order in which they came."""
    coded = streams.dictionary_encode()
    names = coded.dictionary.cast(pa.binary()).to_pylist()
    if len(names) <= 1:
        return [(name, encoded) for name in names]
    code = coded.indices.to_numpy()
    order = np.argsort(code, kind="stable")
    encoded = encoded.take(pa.array(order))
    ends = np.cumsum(np.bincount(code))
    return [
        (name, encoded.slice(start, end - start))
        for name, start, end in zip(names, (0, *ends), ends, strict=False)
    ]


def _sorted(groups: Iterable[Groups]) -> Iterator[Groups]:
    """All rows, each stream's by their bytes: equal rows get equal numbers, however they came."""
    parts: dict[bytes, list[pa.BinaryArray]] = defaultdict(list)
    for group in groups:
        for stream, encoded in group:
            parts[stream].append(encoded)

    together: Groups = []
    rows = 0
    for stream in sorted(parts):
        for encoded in _sorted_slices(parts.pop(stream)):
            # Of one stream one after the other, of several at once.
            if together and (rows + len(encoded) > SORTED_ROWS or together[-1][0] == stream):
                yield together
                together, rows = [], 0
            together.append((stream, encoded))
            rows += len(encoded)
    if together:
        yield together


def _sorted_slices(parts: Sequence[pa.BinaryArray]) -> Iterator[pa.BinaryArray]:
    # All of a task's rows may be more than an array with offsets of 32 bits holds.
    rows = pa.concat_arrays([part.cast(pa.large_binary()) for part in parts])
    order = pc.array_sort_indices(rows)
    largest = pc.max(pc.binary_length(rows)).as_py() or 1
    count = max(1, min(SORTED_ROWS, SORTED_BYTES // largest))
    for start in range(0, len(rows), count):
        yield rows.take(order.slice(start, count)).cast(pa.binary())
