"""Rows to entries' fields: the same bytes as XADD makes of them, and text as Spark casts it."""

import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.fields import encode_fields
from crdtstream.spark import row_encoding
from crdtstream.spark.row_encoding import (
    NoFieldError,
    as_text,
    encode_columns,
    encode_maps,
    pieces,
)

# Lengths around those at which a length gets another digit, or the look-up table ends.
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "x" * 9, "x" * 10, "x" * 99, "x" * 100, "x" * 1023, "é" * 512]),
)
blobs = st.one_of(st.binary(max_size=12), st.sampled_from([b"\r\n", b"$3\r\n", b"\xff" * 1024]))


def plainly(rows: list[list[tuple[bytes, bytes | None]]]) -> list[bytes]:
    """The slow encoder: a row at a time, by the node's own code."""
    encoded = []
    for row in rows:
        given = [part for name, value in row if value is not None for part in (name, value)]
        encoded.append(encode_fields(given))
    return encoded


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[bytes | None]]]:
    """Names of columns, and columns with at least one value in every row."""
    names = draw(st.lists(texts, min_size=1, max_size=5))
    value = st.one_of(st.none(), blobs) if draw(st.booleans()) else blobs
    row = st.tuples(*[value for _ in names]).filter(lambda row: any(v is not None for v in row))
    rows = draw(st.lists(row, max_size=8))
    return names, [[row[at] for row in rows] for at in range(len(names))]


@given(tables(), st.integers(0, 3), st.integers(0, 3))
def test_columns_become_what_xadd_makes(
    table: tuple[list[str], list[list[bytes | None]]], before: int, after: int
) -> None:
    """Also of a slice, whose offsets do not begin at 0."""
    names, columns = table
    rows = len(columns[0])
    arrays = [
        pa.array([b"no"] * before + column + [None] * after, pa.binary()).slice(before, rows)
        for column in columns
    ]
    expected = plainly(
        [
            [(name.encode(), column[at]) for name, column in zip(names, columns, strict=True)]
            for at in range(rows)
        ]
    )
    assert encode_columns(names, arrays).to_pylist() == expected


@given(
    st.lists(
        st.lists(st.tuples(blobs, st.one_of(st.none(), blobs)), min_size=1, max_size=5).filter(
            lambda pairs: any(value is not None for _, value in pairs)
        ),
        max_size=8,
    ),
    st.integers(0, 3),
)
def test_maps_become_what_xadd_makes(
    rows: list[list[tuple[bytes, bytes | None]]], before: int
) -> None:
    """In the order of their pairs, which are all kept, even under one name."""
    kind = pa.map_(pa.binary(), pa.binary())
    maps = pa.array([[(b"no", b"1"), (b"no", b"2")]] * before + rows, kind).slice(before)
    assert encode_maps(maps).to_pylist() == plainly(rows)


@given(st.lists(st.one_of(st.none(), texts), min_size=1, max_size=20))
def test_many_pieces_are_what_one_is(column: list[str | None]) -> None:
    batch = pa.record_batch({"a": pa.array(column, pa.string())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_encoding, "_PIECE_BYTES", 100)
        cut = list(pieces(batch))
    assert pa.Table.from_batches(cut, batch.schema).to_pydict() == {"a": column}
    assert len(cut) == batch.num_rows or all(piece.nbytes <= 100 for piece in cut)


def test_more_fields_and_longer_values_than_the_look_up_tables_have() -> None:
    names = [f"column{at}" for at in range(1100)]
    arrays = [pa.array(["x" * at, "y" * (2 * at)]) for at in range(1100)]
    expected = plainly(
        [
            [
                (name.encode(), column[row].as_py().encode())
                for name, column in zip(names, arrays, strict=True)
            ]
            for row in range(2)
        ]
    )
    assert encode_columns(names, arrays).to_pylist() == expected
    pairs = [(name, f"{at}") for at, name in enumerate(names)]
    maps = pa.array([pairs], pa.map_(pa.string(), pa.string()))
    assert encode_maps(maps).to_pylist() == plainly(
        [[(key.encode(), value.encode()) for key, value in pairs]]
    )


def test_a_map_of_numbers_is_text_too() -> None:
    maps = pa.array([[(1, 0.5), (2, None)]], pa.map_(pa.int32(), pa.float64()))
    assert encode_maps(maps).to_pylist() == [encode_fields([b"1", b"0.5"])]


@pytest.mark.parametrize(
    ("maps", "row"),
    [
        ([[("a", "1")], None], 1),
        ([[("a", "1")], []], 1),
        ([[("a", None), ("b", None)], [("a", "1")]], 0),
    ],
    ids=["null", "empty", "of nulls"],
)
def test_a_map_without_a_field_is_named(maps: Any, row: int) -> None:
    with pytest.raises(NoFieldError) as failure:
        encode_maps(pa.array(maps, pa.map_(pa.string(), pa.string())))
    assert failure.value.row == row


def test_a_row_of_nulls_is_named() -> None:
    columns = [pa.array([1, 2, None]), pa.array(["a", None, None]), pa.nulls(3)]
    with pytest.raises(NoFieldError) as failure:
        encode_columns(["a", "b", "c"], columns)
    assert failure.value.row == 2


BERLIN = ZoneInfo("Europe/Berlin")


def at(*parts: int) -> datetime:
    """A moment that knows of no zone, as TIMESTAMP_NTZ has it."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -128, "-128"),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.float64(), 0.0, "0.0"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), 1.0, "1.0"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), -1e-3, "-0.001"),
        (pa.float64(), 9.5e-4, "9.5E-4"),
        (pa.float64(), 1e-5, "1.0E-5"),
        (pa.float64(), 9999999.0, "9999999.0"),
        (pa.float64(), 1e7, "1.0E7"),
        (pa.float64(), -123456789.125, "-1.23456789125E8"),
        (pa.float64(), 120000000.0, "1.2E8"),
        (pa.float64(), 1.7976931348623157e308, "1.7976931348623157E308"),
        (pa.float64(), math.nan, "NaN"),
        (pa.float64(), math.inf, "Infinity"),
        (pa.float64(), -math.inf, "-Infinity"),
        (pa.float32(), 0.1, "0.1"),
        (pa.float32(), 16777216.0, "1.6777216E7"),
        (pa.decimal128(38, 18), Decimal("0"), "0.000000000000000000"),
        (pa.decimal128(10, 9), Decimal("-0.000000001"), "-0.000000001"),
        (pa.decimal128(10, 2), Decimal("-12345678.90"), "-12345678.90"),
        (pa.decimal128(20, 0), Decimal(2**64 - 1), "18446744073709551615"),
        (pa.date32(), date(2013, 1, 9), "2013-01-09"),
        (pa.date32(), 3_000_000, "+10183-09-21"),
        (pa.date32(), 2_932_896, "9999-12-31"),
        (pa.date32(), 2_932_897, "+10000-01-01"),
        (pa.timestamp("us"), at(2013, 1, 1, 5, 0), "2013-01-01 05:00:00"),
        (pa.timestamp("us"), at(2013, 1, 1, 5, 0, 1, 20), "2013-01-01 05:00:01.00002"),
        (pa.timestamp("us"), at(1969, 12, 31, 23, 59, 59, 500_000), "1969-12-31 23:59:59.5"),
        (pa.timestamp("us"), 253402300800000000, "+10000-01-01 00:00:00"),
        (pa.timestamp("us", "UTC"), datetime(2013, 7, 1, 5, 0, tzinfo=UTC), "2013-07-01 05:00:00"),
        (
            pa.timestamp("us", "Europe/Berlin"),
            datetime(2013, 7, 1, 5, 0, tzinfo=BERLIN),
            "2013-07-01 05:00:00",
        ),
        (pa.time64("ns"), time(1, 2, 3), "01:02:03"),
        (pa.time64("ns"), time(1, 2, 3, 450_000), "01:02:03.45"),
        (pa.string(), "naïve", "naïve"),
        (pa.large_string(), "naïve", "naïve"),
    ],
    ids=str,
)
def test_text_is_that_of_a_cast(kind: pa.DataType, value: Any, text: str) -> None:
    """Between nulls, which stay."""
    array = pa.array([None, value, None], kind)
    assert as_text(array).to_pylist() == [None, text.encode(), None]
    assert as_text(array.slice(1)).to_pylist() == [text.encode(), None]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_bytes_stay_as_they_are(kind: pa.DataType) -> None:
    assert as_text(pa.array([b"\xff\x00"], kind)).to_pylist() == [b"\xff\x00"]


@given(st.lists(st.one_of(st.none(), st.floats(width=64)), max_size=20))
def test_floating_point_numbers_read_back_as_they_were(values: list[float | None]) -> None:
    read_back = [
        None if text is None else float(text)
        for text in as_text(pa.array(values, pa.float64())).to_pylist()
    ]

    def same(a: float | None, b: float | None) -> bool:
        return a == b if a is None or b is None else struct.pack("d", a) == struct.pack("d", b)

    values = [math.nan if v is not None and math.isnan(v) else v for v in values]
    assert all(same(a, b) for a, b in zip(values, read_back, strict=True))


@given(
    st.integers(0, 38).flatmap(
        lambda scale: st.tuples(
            st.just(scale), st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=8)
        )
    )
)
def test_decimals_have_all_their_digits(case: tuple[int, list[int]]) -> None:
    scale, unscaled = case
    values = [
        Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale)) for digits in unscaled
    ]
    array = pa.array(values, pa.decimal128(38, scale))
    assert as_text(array).to_pylist() == [f"{value:f}".encode() for value in values]


@given(st.integers(-(10**15), 10**17))
def test_times_without_zeros_at_the_end(microseconds: int) -> None:
    moment = at(1970, 1, 1) + timedelta(microseconds=microseconds)
    text = moment.isoformat(" ", "microseconds").rstrip("0").rstrip(".")
    if moment.microsecond == 0:
        text = moment.isoformat(" ", "seconds")
    assert as_text(pa.array([microseconds], pa.timestamp("us"))).to_pylist() == [text.encode()]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.duration("us")],
    ids=str,
)
def test_values_without_a_text_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match="no text"):
        as_text(pa.nulls(1, kind))


def test_no_rows_are_no_entries() -> None:
    assert encode_columns(["a"], [pa.array([], pa.int64())]).to_pylist() == []
    assert encode_maps(pa.array([], pa.map_(pa.string(), pa.string()))).to_pylist() == []
