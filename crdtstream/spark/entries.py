"""Converts the wire's columns of entries to the columns of a DataFrame, a record batch at a time.

    wire     ms seq n fields producer idempotent_id         of one lane, ascending by dot
    Spark    stream id timestamp ms seq origin dot fields producer idempotent_id

With a schema of the user's, a column that has the name and type of one of these is that one.  Every
other column holds the field of its name, converted to its type.  All work is on whole columns.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

from crdtstream.spark.casting import Caster, UnsupportedTypeError, caster_of, to_text
from crdtstream.spark.fields import Fields, FieldsError, decode_fields, without_repeats
from crdtstream.spark.options import ParseMode, ValueFormat
from crdtstream.spark.pyspark_versions import arrow_schema

I64_MAX: Final = 2**63 - 1
# Beyond this a time has no place in Spark's microseconds (the year 294247).
TIMESTAMP_MS_MAX: Final = I64_MAX // 1_000

# Spark hands each batch through a socket and to its own columns: few large ones cost least.
BATCH_ROWS_MAX: Final = 50_000
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024

_TEXT_MAP: Final = types.MapType(types.StringType(), types.StringType())
_BINARY_MAP: Final = types.MapType(types.BinaryType(), types.BinaryType())
# A column of an entry itself, by name, with the types that make it one.
_OF_ENTRY: Final[Mapping[str, tuple[types.DataType, ...]]] = {
    "stream": (types.StringType(),),
    "id": (types.StringType(),),
    "timestamp": (types.TimestampType(),),
    "ms": (types.LongType(),),
    "seq": (types.DecimalType(20, 0),),
    "origin": (types.IntegerType(),),
    "dot": (types.LongType(),),
    "fields": (_TEXT_MAP, _BINARY_MAP),
    "producer": (types.StringType(),),
    "idempotent_id": (types.StringType(),),
}


class SchemaError(ValueError):
    """A schema that entries cannot be read as."""


class MalformedValueError(ValueError):
    """A field's value is not what its column holds, and the query asked to fail then."""


def default_schema(value_format: ValueFormat) -> types.StructType:
    """The columns of a read without a schema."""
    schema = types.StructType()
    for name, (kind, *others) in _OF_ENTRY.items():
        schema.add(name, others[0] if others and value_format is ValueFormat.BINARY else kind)
    return schema


def is_of_entry(column: types.StructField) -> bool:
    """True if a column is one of the entry itself, not a field of that name."""
    return any(_same_type(column.dataType, kind) for kind in _OF_ENTRY.get(column.name, ()))


@dataclass(frozen=True, slots=True)
class Lane:
    """Lane of the entries of a record batch: the values that all its rows share."""

    key: bytes
    origin: int


class Columns:
    """A schema, and how each of its columns is made."""

    def __init__(self, schema: types.StructType, mode: ParseMode) -> None:
        """
        Raises:
            SchemaError: naming every column whose type is not supported.
        """
        self.arrow = arrow_schema(schema)
        self._schema = schema
        self._mode = mode
        self._casters: dict[str, Caster | None] = {}
        problems = []
        for column, arrow_column in zip(schema, self.arrow, strict=True):
            if is_of_entry(column):
                continue
            try:
                self._casters[column.name] = caster_of(column.dataType, arrow_column.type)
            except UnsupportedTypeError as error:
                problems.append(f"column {column.name!r} is {error}")
        if problems:
            raise SchemaError("; ".join(problems))

    def batch(self, wire: pa.RecordBatch, lane: Lane) -> pa.RecordBatch:
        """A batch of the schema; one row per entry, fewer in DROPMALFORMED.

        Raises:
            MalformedValueError: in FAILFAST, or if a column that cannot be null would be.
            ValueError: fields are not well-formed.
        """
        return _BatchOf(self, wire, lane).build(self._schema, self._casters, self._mode)


class _BatchOf:
    """One batch in the making; fields are decoded once, if some column needs them."""

    def __init__(self, columns: Columns, wire: pa.RecordBatch, lane: Lane) -> None:
        self._arrow = columns.arrow
        self._wire = wire
        self._lane = lane
        self._decoded: Fields | None = None
        self._bad = np.zeros(wire.num_rows, np.bool_)

    def build(
        self,
        schema: types.StructType,
        casters: Mapping[str, Caster | None],
        mode: ParseMode,
    ) -> pa.RecordBatch:
        arrays = []
        for column in schema:
            arrow = self._arrow.field(column.name).type
            if column.name in casters:
                array = self._field(column.name, arrow, casters[column.name], mode)
            else:
                array = self._of_entry(column.name, arrow)
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._arrow)
        if mode is ParseMode.DROPMALFORMED:
            self._bad |= self._null_by_mistake(batch)
            return batch.filter(pa.array(~self._bad)) if self._bad.any() else batch
        self._refuse_nulls(batch)
        return batch

    def _of_entry(self, name: str, arrow: pa.DataType) -> pa.Array:
        rows, wire = self._wire.num_rows, self._wire
        match name:
            case "stream":
                text = self._lane.key.decode("utf-8", "replace")
                return pa.repeat(pa.scalar(text, arrow), rows)
            case "id":
                parts = [wire.column(part).cast(pa.string()) for part in ("ms", "seq")]
                return pc.binary_join_element_wise(*parts, "-")
            case "timestamp":
                return _timestamps(wire.column("ms"), arrow)
            case "ms":
                return _signed(wire.column("ms"))
            case "seq":
                return _decimals(wire.column("seq"))
            case "origin":
                return pa.repeat(pa.scalar(self._lane.origin, arrow), rows)
            case "dot":
                return _signed(wire.column("n"))
            case "fields":
                return self._map(arrow)
            case _:
                return _text_or_nulls(wire.column(name))

    def _map(self, arrow: pa.MapType) -> pa.MapArray:
        fields = self._fields()
        names, values, starts = fields.names, fields.values, fields.starts
        if arrow.key_type == pa.string():
            names, values = to_text(names), to_text(values)
        kept = without_repeats(names, fields)
        if kept is not None:
            names, values = names.take(pa.array(kept)), values.take(pa.array(kept))
            starts = np.searchsorted(kept, starts)
        offsets = pa.array(starts.astype(np.int32))
        return pa.MapArray.from_arrays(offsets, names, values, type=arrow)

    def _field(
        self, name: str, arrow: pa.DataType, caster: Caster | None, mode: ParseMode
    ) -> pa.Array:
        values = self._fields().values_of(name.encode("utf-8"))
        if caster is None:
            return values if arrow == pa.binary() else to_text(values)
        typed = caster.cast(values)
        if typed.null_count > values.null_count:
            bad = pc.and_(values.is_valid(), typed.is_null()).to_numpy(zero_copy_only=False)
            if mode is ParseMode.FAILFAST:
                row = int(np.flatnonzero(bad)[0])
                raise MalformedValueError(
                    f"{self._told(row)}: field {name!r} is {_shown(values[row].as_py())}, which is"
                    f" no {arrow}; mode=PERMISSIVE reads it as null"
                )
            self._bad |= bad
        return typed

    def _fields(self) -> Fields:
        if self._decoded is None:
            try:
                self._decoded = decode_fields(self._wire.column("fields"))
            except FieldsError as error:
                raise ValueError(
                    f"{self._told(error.row)}: the node's answer is damaged, its fields are no"
                    " RESP array"
                ) from error
        return self._decoded

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        missing = self._null_by_mistake(batch)
        if missing.any():
            row = int(np.flatnonzero(missing)[0])
            name = next(
                column.name
                for column in batch.schema
                if not column.nullable and not batch.column(column.name)[row].is_valid
            )
            raise MalformedValueError(
                f"{self._told(row)}: column {name!r} is NOT NULL, and this entry has nothing for it"
            )

    def _null_by_mistake(self, batch: pa.RecordBatch) -> Any:
        """Of each row whether a column is null that the schema says is not."""
        found = np.zeros(batch.num_rows, np.bool_)
        for column in batch.schema:
            array = batch.column(column.name)
            if not column.nullable and array.null_count:
                found |= array.is_null().to_numpy(zero_copy_only=False)
        return found

    def _told(self, row: int) -> str:
        ms, seq = (self._wire.column(part)[row].as_py() for part in ("ms", "seq"))
        key = self._lane.key.decode("utf-8", "replace")
        return f"stream {key!r}, entry {ms}-{seq} of region {self._lane.origin}"


def merged(
    batches: Iterable[pa.RecordBatch],
    *,
    rows_max: int = BATCH_ROWS_MAX,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, about as large as the bounds say."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        # A single large batch goes on as it is: copying it would gain nothing.
        if waiting and (rows + batch.num_rows > rows_max or size + batch.nbytes > bytes_max):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _timestamps(ms: pa.UInt64Array, arrow: pa.DataType) -> pa.Array:
    """Of milliseconds; null beyond what Spark's microseconds can hold."""
    numbers = ms.to_numpy()
    beyond = numbers > TIMESTAMP_MS_MAX
    micros = (numbers * np.uint64(1_000)).astype(np.int64)
    return pa.array(micros, mask=beyond if beyond.any() else None).cast(arrow)


def _signed(numbers: pa.UInt64Array) -> pa.Int64Array:
    """As LONG; null beyond it (an ID may be so large, its text says it)."""
    values = numbers.to_numpy()
    beyond = values > I64_MAX
    return pa.array(values.astype(np.int64), mask=beyond if beyond.any() else None)


def _decimals(numbers: pa.UInt64Array) -> pa.Decimal128Array:
    """As DECIMAL(20, 0), whose 16 bytes are the number's 8, low ones first, and zeros."""
    halves = np.zeros((len(numbers), 2), "<u8")
    halves[:, 0] = numbers.to_numpy()
    kind = pa.decimal128(20, 0)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(halves)])


def _text_or_nulls(values: pa.BinaryArray) -> pa.StringArray:
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.string())
    return to_text(values)


def _same_type(one: types.DataType, other: types.DataType) -> bool:
    """True if they are one type; a map whose values may be null equals one whose may not."""
    if isinstance(one, types.MapType) and isinstance(other, types.MapType):
        return one.keyType == other.keyType and one.valueType == other.valueType
    return one == other


def _shown(value: bytes, bytes_max: int = 80) -> str:
    text = repr(value.decode("utf-8", "replace"))
    return text if len(text) <= bytes_max else f"{text[:bytes_max]}… ({len(value)} bytes)"
