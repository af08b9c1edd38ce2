"""Layout of a DataFrame: the columns that name a row's stream, and those that become its fields."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

from crdtstream.spark.row_encoding import encode_columns, encode_maps

STREAM: Final = "stream"
FIELDS: Final = "fields"
# Other columns of a DataFrame read from streams: it can be written as it is, and gets new ones.
GIVEN_BY_THE_NODE: Final = frozenset(
    {"id", "timestamp", "ms", "seq", "origin", "dot", "producer", "idempotent_id"}
)

_WITH_TEXT: Final = (
    StringType,
    BinaryType,
    BooleanType,
    NumericType,
    DateType,
    TimestampType,
    TimestampNTZType,
    TimeType,
    NullType,
)


class SinkError(ValueError):
    """Rows that cannot be appended as they are; the text says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a row that hold its stream and its fields.

    Attributes:
        stream: of all rows; None: each names its own in the column ``stream``.
        fields: the columns that become fields of their names; empty: the map ``fields`` has them.
    """

    stream: bytes | None
    fields: tuple[str, ...]

    @classmethod
    def of(cls, schema: StructType, stream: bytes) -> "Layout":
        """The layout of a DataFrame, with what the option ``stream`` says (empty: nothing).

        Raises:
            SinkError: with all that is wrong.
        """
        types = {field.name: field.dataType for field in schema.fields}
        problems = [
            *_name_problems(schema.names),
            *_stream_problems(types, stream),
            *_fields_problems(types),
        ]
        if problems:
            raise SinkError("crdtstream: " + "; ".join(problems))
        has_map = isinstance(types.get(FIELDS), MapType)
        fields = () if has_map else tuple(name for name in types if name != STREAM)
        return cls(stream or None, fields)

    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Only what is used of a batch."""
        streams = () if self.stream is not None else (STREAM,)
        return batch.select([*streams, *(self.fields or (FIELDS,))])

    def encode(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        """Each row's fields as RESP.

        Raises:
            NoFieldError: a row has none.
        """
        if self.fields:
            return encode_columns(self.fields, [batch.column(name) for name in self.fields])
        return encode_maps(batch.column(FIELDS))


def _name_problems(names: Sequence[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{count} columns are named {name!r}"


def _stream_problems(types: dict[str, DataType], stream: bytes) -> Iterator[str]:
    kind = types.get(STREAM)
    if kind is None and not stream:
        yield "which stream? Give the option 'stream' for all rows, or a column 'stream'"
    elif kind is not None and stream:
        yield (
            "which stream? There is the option 'stream' and a column 'stream'; drop the column if "
            "the option is meant, rename it if it is a field"
        )
    elif kind is not None and not isinstance(kind, StringType | BinaryType):
        yield f"the column 'stream' is {kind.simpleString()}: cast it to STRING"


def _fields_problems(types: dict[str, DataType]) -> Iterator[str]:
    fields = types.get(FIELDS)
    if isinstance(fields, MapType):
        for part, kind in (("keys", fields.keyType), ("values", fields.valueType)):
            if not _has_text(kind):
                yield f"the {part} of 'fields' are {kind.simpleString()}: {_how_to_text(kind)}"
        if lost := [n for n in types if n not in GIVEN_BY_THE_NODE | {STREAM, FIELDS}]:
            yield (
                f"besides the map 'fields' there are {', '.join(map(repr, lost))}: drop them, or "
                "put them into the map with map_concat"
            )
        return
    if not types.keys() - {STREAM}:
        yield "no column is left to be a field"
    for name, kind in types.items():
        if name != STREAM and not _has_text(kind):
            yield f"{name!r} is {kind.simpleString()}: {_how_to_text(kind)}"


def _has_text(kind: DataType) -> bool:
    return isinstance(kind, _WITH_TEXT)


def _how_to_text(kind: DataType) -> str:
    return "cast to STRING" if isinstance(kind, AtomicType) else "give it as text, with to_json"
