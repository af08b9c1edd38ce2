"""Converts whole columns of bytes to typed columns; single values only where a column fails.

A column is converted at once, in C++.  If that fails, values that look wrong are masked by a
pattern.  Where that is not enough (a number that looks right and is too large), the column is
halved until the bad values stand alone.  A value that cannot be converted is null in the result,
and not null in the input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

_Convert: TypeAlias = Callable[[pa.StringArray, pa.DataType], pa.Array]

# Below this, one by one in Python is no slower than halving.
_ONE_BY_ONE_ROWS: Final = 64
# Wide enough for each decimal that Spark can hold, before it is rounded.
_WIDE_DECIMAL: Final = pa.decimal256(76, 38)

_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


class UnsupportedTypeError(ValueError):
    """A column's type that no field can be read as."""


@dataclass(frozen=True, slots=True)
class Caster:
    """Converter of the values of one field to a typed column.

    Attributes:
        arrow: the type that Spark wants.
        convert: text to that type, the whole column or an error.
        pattern: a value that may be convertible matches it.
    """

    arrow: pa.DataType
    convert: _Convert
    pattern: str

    def cast(self, values: pa.BinaryArray) -> pa.Array:
        """The column; null where a value is null or cannot be converted."""
        text = to_text(values)
        try:
            return self.convert(text, self.arrow)
        except pa.ArrowInvalid:
            pass
        likely = pc.match_substring_regex(text, f"^{self.pattern}$")
        return self._halving(pc.if_else(likely, text, pa.scalar(None, pa.string())))

    def _halving(self, text: pa.StringArray) -> pa.Array:
        try:
            return self.convert(text, self.arrow)
        except pa.ArrowInvalid:
            if len(text) == 1:
                return pa.nulls(1, self.arrow)
            middle = len(text) // 2
            return pa.concat_arrays([self._halving(text[:middle]), self._halving(text[middle:])])


def caster_of(kind: types.DataType, arrow: pa.DataType) -> Caster | None:
    """Caster of fields to ``kind``, which is ``arrow`` in Arrow; None: they stay bytes or text.

    Raises:
        UnsupportedTypeError: fields cannot be read as this.
    """
    match kind:
        case types.StringType() | types.BinaryType():
            return None
        case types.BooleanType():
            return Caster(arrow, _plainly, "(?i)(true|false|1|0)")
        case types.ByteType() | types.ShortType() | types.IntegerType() | types.LongType():
            return Caster(arrow, _integers, "[+-]?[0-9]+")
        case types.FloatType() | types.DoubleType():
            return Caster(arrow, _plainly, f"(?i)({_NUMBER}|[+-]?(nan|inf|infinity))")
        case types.DecimalType():
            return Caster(arrow, _decimals, _NUMBER)
        case types.DateType():
            return Caster(arrow, _plainly, "[0-9]{4}-[0-9]{2}-[0-9]{2}")
        case types.TimestampType():
            return Caster(arrow, _timestamps, f"{_TIME}{_ZONE}?")
        case types.TimestampNTZType():
            return Caster(arrow, _plainly, _TIME)
        case _:
            raise UnsupportedTypeError(
                f"{kind.simpleString()}; a field can be string, binary, boolean, byte, short, int,"
                " long, float, double, decimal, date or timestamp"
            )


def to_text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text, with U+FFFD for what is no UTF-8; costs only where there is such."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        if len(values) <= _ONE_BY_ONE_ROWS:
            decoded = [
                None if value is None else value.decode("utf-8", "replace")
                for value in values.to_pylist()
            ]
            return pa.array(decoded, pa.string())
        middle = len(values) // 2
        return pa.concat_arrays([to_text(values[:middle]), to_text(values[middle:])])


def _plainly(text: pa.StringArray, arrow: pa.DataType) -> pa.Array:
    return text.cast(arrow)


def _integers(text: pa.StringArray, arrow: pa.DataType) -> pa.Array:
    """Arrow takes hexadecimal numbers and no plus sign; here it is the other way round."""
    if _holds(text, b"+"):
        text = pc.replace_substring_regex(text, r"^\+([0-9])", r"\1")
    if _holds(text, b"xX"):
        raise pa.ArrowInvalid("hexadecimal")
    return text.cast(arrow)


def _decimals(text: pa.StringArray, arrow: pa.DataType) -> pa.Array:
    """Digits beyond the scale are rounded, half away from zero, as Spark casts."""
    try:
        return text.cast(arrow)
    except pa.ArrowInvalid:
        wide = text.cast(_WIDE_DECIMAL)
    rounded = pc.round(wide, ndigits=arrow.scale, round_mode="half_towards_infinity")
    return rounded.cast(arrow)


def _timestamps(text: pa.StringArray, arrow: pa.DataType) -> pa.Array:
    """Times with a zone, and without one, which is UTC then."""
    local = pa.timestamp("us")
    try:
        return text.cast(local).cast(arrow)
    except pa.ArrowInvalid:
        has_zone = pc.match_substring_regex(text, rf"[T ][0-9].*{_ZONE}$")
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(has_zone, text, nothing).cast(arrow)
    without = pc.if_else(has_zone, nothing, text).cast(local).cast(arrow)
    return pc.coalesce(with_zone, without)


def _holds(text: pa.StringArray, chars: bytes) -> bool:
    """True if any of these characters stands anywhere in a column."""
    _, offsets, data = text.buffers()
    if data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[text.offset :][: len(text) + 1]
    window = np.frombuffer(data, np.uint8)[int(ends[0]) : int(ends[-1])]
    return any(bool((window == char).any()) for char in chars)
