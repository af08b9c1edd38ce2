"""The batch source: all entries at one cut, each in one task, none twice.

    plan     the node's durable version vector is the cut; lanes are cut into ranges of dots
    read     each task scans its ranges, at any node that has the cut

Entries that are appended after planning lie beyond the cut.  Entries that are removed after
planning may or may not be read: a range is read as it is at that time.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from crdtstream.spark.entries import Columns
from crdtstream.spark.nodes import Nodes
from crdtstream.spark.options import OptionsError, SourceOptions
from crdtstream.spark.ranges import (
    RANGE_ENTRIES_MIN,
    RangesPartition,
    packed,
    ranges_of,
    read_ranges,
)
from crdtstream.spark.selection import Selection, narrowed
from crdtstream.spark.vectors import Vector, vector_of

# So that tasks of uneven length still end about together.
TASKS_PER_CORE: Final = 4

_STREAMING_ONLY: Final = ("maxEntriesPerTrigger", "failOnDataLoss")


class EntriesReader(DataSourceReader):
    """Reads entries once, for ``spark.read``."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        """
        Raises:
            OptionsError: an option is for ``readStream`` only.
            SchemaError: a column's type is not supported.
        """
        _refuse_streaming(options)
        self._schema = schema
        self._options = options
        self._columns = Columns(schema, options.mode)
        self._selection = Selection.of(options)

    @property
    def pushFilters(self) -> Any:  # noqa: N802
        """Method that Spark calls with the filters of a query, if it is set to push them down."""
        return _PushFilters(self)

    def narrow(self, filters: Iterable[Filter]) -> list[Filter]:
        """Read only what passes the filters; returns those that are not wholly taken over."""
        self._selection, rest = narrowed(self._selection, filters, self._schema)
        return rest

    def partitions(self) -> list[InputPartition]:
        if self._selection.is_empty:
            return []
        with Nodes.of(self._options.nodes) as nodes:
            return [*self._planned(nodes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For no partitions at all Spark makes one of its own.
        if isinstance(partition, RangesPartition):
            yield from read_ranges(self._options.nodes, self._columns, partition)

    def _planned(self, nodes: Nodes) -> list[RangesPartition]:
        nodes.refuse_strangers()
        above, cut = self._bounds(nodes)
        if not self._selection.moving(above, cut):
            return []
        # First how much there is, then how finely it is to be cut.
        plan = nodes.plan(self._selection.plan_request(above, cut))
        entries = sum(one.entries for one in plan.ranges)
        target = self._range_entries(entries)
        if any(one.entries > target for one in plan.ranges):
            plan = nodes.plan(self._selection.plan_request(above, cut, range_entries=target))
        return packed(
            ranges_of(plan, self._selection), entries=target, database_uid=nodes.database_uid
        )

    def _bounds(self, nodes: Nodes) -> tuple[Vector, Vector]:
        """Vectors between which to read: those asked for, or up to all that is durable."""
        above, cut = self._options.starting_offsets, self._options.ending_offsets
        if isinstance(cut, str):
            position = nodes.position()
            cut = vector_of(position.durable_vv, position.token)
        return (Vector() if isinstance(above, str) else above), cut

    def _range_entries(self, entries: int) -> int:
        if self._options.min_partitions:
            return max(1, entries // self._options.min_partitions)
        tasks = TASKS_PER_CORE * (os.cpu_count() or 1)
        return max(RANGE_ENTRIES_MIN, -(-entries // tasks))


class _PushFilters:
    """``pushFilters`` of a reader.

    Spark 4.3 refuses a reader that has a ``pushFilters`` of its own while the setting
    ``spark.sql.python.filterPushdown.enabled`` is false, which is the default.  It is "of its own"
    if its ``__func__`` is not the base class's function.  Taking filters over is only an
    optimisation here, so this object pretends to be the base's: Spark then calls it if the setting
    is true, and does without it if not.
    """

    def __init__(self, reader: EntriesReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: Iterable[Filter]) -> list[Filter]:
        return self._reader.narrow(filters)


def _refuse_streaming(options: SourceOptions) -> None:
    problems = [
        f"{name} is for readStream" for name in _STREAMING_ONLY if name.lower() in options.given
    ]
    if options.starting_offsets == "latest":
        problems.append("startingOffsets=latest is for readStream: a batch would read nothing")
    if problems:
        raise OptionsError("crdtstream: " + "; ".join(problems))
