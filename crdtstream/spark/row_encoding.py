"""Rows as Arrow has them to entries' fields as RESP has them, thousands at a time.

    | city  | temp |       *4⏎ $4⏎ city⏎ $4⏎ Oslo⏎ $4⏎ temp⏎ $4⏎ -3.5⏎
    | Oslo  | -3.5 |  ->   *2⏎ $4⏎ city⏎ $5⏎ Turin⏎        (⏎ is CR LF; blanks only here)
    | Turin | null |

No Python object is made per row: a column at a time becomes text, then bulk strings, and at the end
all columns are joined.  A map column is joined the other way: its pairs already stand one after the
other, so a row is a slice of them.  The result is, byte for byte, what XADD would make of the same
fields (``core.fields.encode_fields``).
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# A record batch is encoded in pieces of about this size: Arrow's offsets end at 2 GiB.
_PIECE_BYTES: Final = 128 * 1024 * 1024
# Bytes of a field besides its name and value: two lengths, four line ends; a number as text.
_FIELD_BYTES: Final = 48

_CRLF: Final = pa.scalar(b"\r\n")
_NOTHING: Final = pa.scalar(b"")

# Beginnings of bulk strings and of arrays, by their length: most are short, and to look one up is
# four times as fast as to write it.
_BULK_HEADS: Final = pa.array([b"$%d\r\n" % length for length in range(1024)])
_ARRAY_HEADS: Final = pa.array([b"*%d\r\n" % (2 * count) for count in range(1024)])

# Days and microseconds from 1970 to the year 10,000, from which on years are written with a sign.
_SIGNED_YEAR_DAYS: Final = 2_932_897
_SIGNED_YEAR_US: Final = _SIGNED_YEAR_DAYS * 86_400_000_000


class NoFieldError(ValueError):
    """A row without any field: all of its values are null.

    Attributes:
        row: where it stands in the batch.
    """

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} has no field: all of its values are null")
        self.row = row


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices that are small enough to be encoded at once; mostly it is one."""
    names_bytes = sum(len(name.encode()) + _FIELD_BYTES for name in batch.schema.names)
    count = -(-(batch.nbytes + batch.num_rows * names_bytes) // _PIECE_BYTES)
    if count <= 1 or batch.num_rows <= 1:
        yield batch
        return
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        # Rows differ in size, so a slice may still be too large.
        yield from pieces(batch.slice(start, rows))


def encode_columns(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """Each row's fields: one of each column, named as it is, without those that are null.

    Raises:
        NoFieldError: a row's values are all null.
    """
    assert len(names) == len(columns) > 0
    heads = [b"$%d\r\n%b\r\n" % (len(name), name) for name in (name.encode() for name in names)]
    values = [as_text(column) for column in columns]
    if any(value.null_count for value in values):
        return _encode_nullable(heads, values)

    parts: list[Any] = []
    before = b"*%d\r\n" % (2 * len(names))
    for head, value in zip(heads, values, strict=True):
        parts += [pa.scalar(before + head), _bulk_heads(value), value]
        before = b"\r\n"
    return _join(*parts, _CRLF)


def _encode_nullable(heads: Sequence[bytes], values: Sequence[pa.Array]) -> pa.BinaryArray:
    counts = np.zeros(len(values[0]), np.int64)
    cells = []
    for head, value in zip(heads, values, strict=True):
        # Null where the value is, and then left out below.
        cells.append(_join(pa.scalar(head), _bulk_heads(value), value, _CRLF))
        counts += _validity(value)
    return _join(_array_heads(counts), *cells, null_handling="skip")


def encode_maps(maps: pa.MapArray) -> pa.BinaryArray:
    """Each row's fields: the pairs of its map in their order, without those of null values.

    Raises:
        NoFieldError: a row's map is null or empty, or its values are all null.
    """
    offsets = maps.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    keys = as_text(maps.keys.slice(start, stop - start))
    values = as_text(maps.items.slice(start, stop - start))
    offsets = offsets - start

    # Null, and of no bytes, where the value is.
    pairs = _join(_bulk_heads(keys), keys, _CRLF, _bulk_heads(values), values, _CRLF)
    row_present = _validity(maps)
    totals = np.concatenate(([0], np.cumsum(_validity(values), dtype=np.int64)))
    counts = np.where(row_present, totals[offsets[1:]] - totals[offsets[:-1]], 0)
    return _join(_array_heads(counts), _regrouped(pairs, offsets))


def _regrouped(pairs: pa.BinaryArray, offsets: np.ndarray) -> pa.BinaryArray:
    """Pairs ``offsets[i]`` to ``offsets[i + 1]`` as one value each; nothing is copied."""
    assert pairs.offset == 0
    _, ends, data = pairs.buffers()
    at = np.frombuffer(ends, np.int32)[: len(pairs) + 1] if ends else np.zeros(1, np.int32)
    rows = pa.py_buffer(at[offsets].astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, rows, data])


def as_text(array: pa.Array) -> pa.BinaryArray:
    """Each value as SQL's CAST AS STRING writes it, in UTF-8; binary values as they are.

    Floating point numbers are the shortest that read back as the same, in Java's form; Java before
    19 itself sometimes writes a digit more.

    Raises:
        TypeError: of nested values, intervals and the like.
    """
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        text = array.cast(pa.string())
    elif pa.types.is_floating(kind):
        text = _floating_text(array)
    elif pa.types.is_decimal(kind):
        text = _decimal_text(array)
    elif pa.types.is_date32(kind):
        text = _signed_years(array.cast(pa.string()), array.cast(pa.int32()), _SIGNED_YEAR_DAYS)
    elif pa.types.is_timestamp(kind):
        text = _timestamp_text(array)
    elif pa.types.is_time(kind):
        text = _without_zeros(array.cast(pa.string()))
    elif is_bytes_like(kind) or pa.types.is_null(kind):
        text = array
    else:
        raise TypeError(f"no text for values of type {kind}")
    return text.cast(pa.binary())


def is_bytes_like(kind: pa.DataType) -> bool:
    """True if values are bytes already, text or not."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _floating_text(array: pa.Array) -> pa.StringArray:
    """Digits with a point from 10**-3 up to 10**7, else with an exponent: 0.5, 1.0E7, NaN."""
    text = array.cast(pa.string())
    size = pc.abs(array)
    plain = pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7))
    plain = pc.or_(plain, pc.equal(size, 0.0))
    whole = pc.invert(pc.match_substring(text, "."))
    text = pc.if_else(pc.and_(plain, whole), pc.binary_join_element_wise(text, ".0", ""), text)
    rare = pc.invert(plain)
    if pc.any(rare).as_py():
        written = [_scientific(shortest) for shortest in text.filter(rare).to_pylist()]
        text = pc.replace_with_mask(text, pc.fill_null(rare, False), pa.array(written, pa.string()))
    return text


def _scientific(shortest: str | None) -> str | None:
    """A very small or large number as Java writes it, of the same digits otherwise written."""
    if shortest is None:
        return None
    match shortest.removeprefix("-"):
        case "nan":
            return "NaN"
        case "inf":
            return shortest.replace("inf", "Infinity")
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def _decimal_text(array: pa.Array) -> pa.Array:
    """All digits, never an exponent, which Arrow would write of 0.0000001."""
    if array.type.scale <= 0 or pa.types.is_decimal256(array.type):
        return array.cast(pa.string())
    scale = array.type.scale
    unscaled = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset
    ).cast(pa.string())
    negative = pc.starts_with(unscaled, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled, "-"), scale + 1, "0")
    return pc.binary_join_element_wise(
        pc.if_else(negative, "-", ""),
        pc.utf8_slice_codeunits(digits, 0, -scale),
        ".",
        pc.utf8_slice_codeunits(digits, -scale),
        "",
    )


def _timestamp_text(array: pa.Array) -> pa.Array:
    """As a clock of the session's time zone shows it, without zeros at the end."""
    if array.type.tz in ("UTC", "Etc/UTC", "Z", "GMT"):
        array = array.cast(pa.timestamp(array.type.unit))
    elif array.type.tz is not None:
        array = pc.local_timestamp(array)
    array = array.cast(pa.timestamp("us"))
    text = _without_zeros(array.cast(pa.string()))
    return _signed_years(text, array.cast(pa.int64()), _SIGNED_YEAR_US)


def _without_zeros(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(text, r"\.?0+$", "")


def _signed_years(text: pa.Array, value: pa.Array, bound: int) -> pa.Array:
    far = pc.greater_equal(value, bound)
    if not pc.any(far).as_py():
        return text
    return pc.if_else(far, pc.binary_join_element_wise("+", text, ""), text)


def _bulk_heads(values: pa.BinaryArray) -> pa.BinaryArray:
    """``$5\\r\\n`` of a value of five bytes; null of null."""
    lengths = pc.binary_length(values)
    longest = pc.max(lengths).as_py() or 0
    if longest < len(_BULK_HEADS):
        return _BULK_HEADS.take(lengths)
    return _join(b"$", lengths.cast(pa.string()).cast(pa.binary()), _CRLF)


def _array_heads(counts: np.ndarray) -> pa.BinaryArray:
    """``*6\\r\\n`` of three fields with their values.

    Raises:
        NoFieldError: a count is 0.
    """
    if not len(counts):
        return pa.array([], pa.binary())
    first = int(counts.argmin())
    if counts[first] == 0:
        raise NoFieldError(first)
    if int(counts.max()) < len(_ARRAY_HEADS):
        return _ARRAY_HEADS.take(pa.array(counts))
    return _join(b"*", pa.array(2 * counts).cast(pa.string()).cast(pa.binary()), _CRLF)


def _validity(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_valid())


def _join(*parts: Any, null_handling: str = "emit_null") -> pa.BinaryArray:
    return pc.binary_join_element_wise(*parts, _NOTHING, null_handling=null_handling)
