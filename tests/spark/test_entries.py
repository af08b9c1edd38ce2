"""Decoding whole columns says what decoding entry by entry would, and faults are told."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from crdtstream.spark.entries import (  # noqa: E402
    Columns,
    Lane,
    MalformedValueError,
    SchemaError,
    default_schema,
    merged,
)
from crdtstream.spark.fields import FieldsError, decode_fields, without_repeats  # noqa: E402
from crdtstream.spark.options import ParseMode, ValueFormat  # noqa: E402

LANE = Lane(b"orders", 2)
U64_MAX = 2**64 - 1

Pairs = list[tuple[bytes, bytes]]


def resp(pairs: Pairs) -> bytes:
    """A RESP array, written the plain way."""
    texts = [text for pair in pairs for text in pair]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(t), t) for t in texts)


def plainly_parsed(blob: bytes) -> Pairs | None:
    """The pairs of a RESP array; None if it is none."""
    head = re.match(rb"\*([0-9]+)\r\n", blob)
    if head is None or int(head[1]) % 2 or not int(head[1]):
        return None
    at, texts = head.end(), []
    for _ in range(int(head[1])):
        bulk = re.compile(rb"\$([0-9]+)\r\n").match(blob, at)
        if bulk is None:
            return None
        at = bulk.end() + int(bulk[1])
        texts.append(blob[bulk.end() : at])
        if blob[at : at + 2] != b"\r\n":
            return None
        at += 2
    return list(zip(texts[::2], texts[1::2], strict=True)) if at == len(blob) else None


def wire(rows: Sequence[Pairs], *, ids: Sequence[tuple[int, int]] | None = None) -> Any:
    """Entries as a node sends them; the n-th has dot n."""
    ids = ids or [(1_000 + at, 2) for at in range(len(rows))]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([ms for ms, _ in ids], pa.uint64()),
            pa.array([seq for _, seq in ids], pa.uint64()),
            pa.array(range(1, len(rows) + 1), pa.uint64()),
            pa.array([resp(pairs) for pairs in rows], pa.binary()),
            pa.nulls(len(rows), pa.binary()),
            pa.nulls(len(rows), pa.binary()),
        ],
        names=["ms", "seq", "n", "fields", "producer", "idempotent_id"],
    )


def schema(**columns: Any) -> Any:
    built = types.StructType()
    for name, kind in columns.items():
        built.add(name, kind)
    return built


def column(
    values: Sequence[bytes | None], kind: Any, mode: ParseMode = ParseMode.PERMISSIVE
) -> list[Any]:
    """The value in a column of this type for a field with these values; None: no such field."""
    rows = [[(b"other", b"x")] + ([] if v is None else [(b"v", v)]) for v in values]
    batch = Columns(schema(v=kind), mode).batch(wire(rows), LANE)
    return list(batch.column("v").to_pylist())


# Few distinct short names, so that rows share them, repeat them and lack them.
names = st.sampled_from([b"a", b"b", b"", b"long-name", b"\r\n", b"\xff"]) | st.binary(max_size=3)
pairs_of_a_row = st.lists(st.tuples(names, st.binary(max_size=12)), min_size=1, max_size=6)
varied = st.lists(pairs_of_a_row, max_size=20)
same_names = st.lists(names, min_size=1, max_size=4).flatmap(
    lambda chosen: st.lists(
        st.tuples(*[st.tuples(st.just(name), st.binary(max_size=12)) for name in chosen]).map(list),
        min_size=1,
        max_size=20,
    )
)


@given(rows=varied | same_names, cut=st.tuples(st.integers(0, 5), st.integers(0, 5)))
@settings(deadline=None)
def test_names_and_values_are_those_of_a_plain_parser(rows: list[Pairs], cut: Any) -> None:
    blobs = pa.array([resp(pairs) for pairs in rows], pa.binary())
    # A slice shares its buffers with what lies around it.
    begin, end = min(cut[0], len(rows)), max(0, len(rows) - cut[1])
    end = max(begin, end)
    fields = decode_fields(blobs[begin:end])

    flat = list(zip(fields.names.to_pylist(), fields.values.to_pylist(), strict=True))
    decoded = [
        flat[start:stop] for start, stop in zip(fields.starts[:-1], fields.starts[1:], strict=True)
    ]
    assert decoded == rows[begin:end]
    if fields.shared is not None and decoded:
        assert all([name for name, _ in row] == list(fields.shared) for row in decoded)


@given(rows=varied | same_names)
@settings(deadline=None)
def test_a_field_is_the_last_of_its_name(rows: list[Pairs]) -> None:
    fields = decode_fields(pa.array([resp(pairs) for pairs in rows], pa.binary()))
    for name in (b"a", b"long-name", b"absent", b""):
        assert fields.values_of(name).to_pylist() == [dict(row).get(name) for row in rows]


@given(rows=varied | same_names)
@settings(deadline=None)
def test_a_map_has_each_name_once(rows: list[Pairs]) -> None:
    """As a dict of redis-py has it: the last value; in both formats, also where two names that are
    no UTF-8 look the same as text."""
    for value_format in ValueFormat:
        columns = Columns(default_schema(value_format), ParseMode.PERMISSIVE)
        found = columns.batch(wire(rows), LANE).column("fields").to_pylist()
        for row, pairs in zip(rows, found, strict=True):
            expected: dict[Any, Any] = dict(row)
            if value_format is ValueFormat.STRING:
                expected = {
                    name.decode(errors="replace"): value.decode(errors="replace")
                    for name, value in row
                }
            assert len(pairs) == len(expected)
            assert dict(pairs) == expected


def test_many_fields_of_one_name_are_one() -> None:
    row = [(b"f%d" % (at % 20), b"%d" % at) for at in range(50)]
    fields = decode_fields(pa.array([resp(row), resp(row[:3])], pa.binary()))
    kept = without_repeats(fields.names, fields)
    assert kept is not None
    assert len(kept) == 20 + 3
    assert [at for at in kept if at < 50] == list(range(30, 50))


@given(rows=varied, seed=st.integers(0, 2**32 - 1), flips=st.integers(1, 4))
@settings(deadline=None)
def test_damaged_fields_are_refused_or_still_well_formed(
    rows: list[Pairs], seed: int, flips: int
) -> None:
    """Just where a plain parser would refuse them; whatever lies around is not looked at."""
    rng = np.random.default_rng(seed)
    blobs = [bytearray(resp(pairs)) for pairs in rows]
    for _ in range(flips):
        if blobs:
            blob = blobs[rng.integers(len(blobs))]
            blob[rng.integers(len(blob))] = rng.choice(list(b"*$\r\n0129\x00\xff"))
    damaged = [bytes(blob) for blob in blobs]
    expected = [plainly_parsed(blob) for blob in damaged]
    if None in expected:
        with pytest.raises(FieldsError) as error:
            decode_fields(pa.array(damaged, pa.binary()))
        assert expected[error.value.row] is None
        return
    fields = decode_fields(pa.array(damaged, pa.binary()))
    flat = list(zip(fields.names.to_pylist(), fields.values.to_pylist(), strict=True))
    assert flat == [pair for pairs in expected for pair in pairs or []]


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"*",
        b"*0\r\n",
        b"*1\r\n$1\r\na\r\n",
        b"*2\r\n$1\r\na\r\n",
        b"*2\r\n$1\r\na\r\n$1\r\nb\r\nmore",
        b"*2\r\n$1\r\na\r\n$5\r\nb\r\n",
        b"*2\r\n$1\r\na\r\n$99999999999999999999\r\nb\r\n",
        b"*99999999999999999999\r\n",
        b"*2000000000\r\n$1\r\na\r\n$1\r\nb\r\n",
        b"*2\r\n:1\r\na\r\n$1\r\nb\r\n",
        b"*2\r\n$-1\r\n$1\r\nb\r\n",
        b"*2\r\n$1\r\naXX$1\r\nb\r\n",
        b"$2\r\n",
    ],
)
def test_malformed_fields_are_refused_with_their_row(blob: bytes) -> None:
    good = resp([(b"a", b"b")])
    with pytest.raises(FieldsError) as error:
        decode_fields(pa.array([good, good, blob, good], pa.binary()))
    assert error.value.row == 2


def test_a_damaged_answer_is_told_with_stream_and_entry() -> None:
    batch = wire([[(b"a", b"b")]]).set_column(3, "fields", pa.array([b"*"], pa.binary()))
    with pytest.raises(ValueError, match=r"stream 'orders', entry 1000-2 of region 2.*damaged"):
        Columns(default_schema(ValueFormat.STRING), ParseMode.PERMISSIVE).batch(batch, LANE)


def test_an_entry_has_its_id_time_and_origin() -> None:
    ids = [(1_718_000_000_123, 1025), (0, 0), (U64_MAX, U64_MAX), (2**63 - 1, 7)]
    columns = Columns(default_schema(ValueFormat.STRING), ParseMode.PERMISSIVE)
    rows = columns.batch(wire([[(b"a", b"b")]] * 4, ids=ids), LANE).to_pylist()

    assert [row["id"] for row in rows] == [f"{ms}-{seq}" for ms, seq in ids]
    assert [row["seq"] for row in rows] == [Decimal(seq) for _, seq in ids]
    assert [row["dot"] for row in rows] == [1, 2, 3, 4]
    assert {(row["stream"], row["origin"]) for row in rows} == {("orders", 2)}
    # What LONG and TIMESTAMP cannot hold is null; the ID says it all the same.
    assert [row["ms"] for row in rows] == [1_718_000_000_123, 0, None, 2**63 - 1]
    assert rows[0]["timestamp"] == datetime(2024, 6, 10, 6, 13, 20, 123_000, UTC)
    assert [row["timestamp"] is None for row in rows] == [False, False, True, True]


def test_producers_are_shown_where_there_are_any() -> None:
    batch = wire([[(b"a", b"b")]] * 2)
    batch = batch.set_column(4, "producer", pa.array([b"p\xff", None], pa.binary()))
    batch = batch.set_column(5, "idempotent_id", pa.array([b"0:1", None], pa.binary()))
    columns = Columns(default_schema(ValueFormat.BINARY), ParseMode.PERMISSIVE)
    rows = columns.batch(batch, LANE).to_pylist()
    assert [(row["producer"], row["idempotent_id"]) for row in rows] == [
        ("p\ufffd", "0:1"),
        (None, None),
    ]


def test_a_batch_has_just_the_schema_that_spark_expects() -> None:
    from crdtstream.spark.pyspark_versions import arrow_schema

    for value_format in ValueFormat:
        wanted = default_schema(value_format)
        batch = Columns(wanted, ParseMode.PERMISSIVE).batch(wire([[(b"a", b"b")]]), LANE)
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(wanted))


def test_a_column_is_the_entrys_own_by_name_and_type() -> None:
    """So a field called `id` or `timestamp` can be read where its type is another."""
    built = schema(id=types.LongType(), timestamp=types.StringType(), stream=types.StringType())
    row = [(b"id", b"77"), (b"timestamp", b"noon"), (b"stream", b"river")]
    batch = Columns(built, ParseMode.PERMISSIVE).batch(wire([row]), LANE)
    assert batch.to_pylist() == [{"id": 77, "timestamp": "noon", "stream": "orders"}]


TYPED = [
    (types.StringType(), [(b"x", "x"), (b"", ""), (b"\xff", "\ufffd")], []),
    (types.BinaryType(), [(b"\xff\x00", b"\xff\x00")], []),
    (
        types.BooleanType(),
        [(b"true", True), (b"False", False), (b"1", True), (b"0", False)],
        [b"yes", b"", b"2"],
    ),
    (types.ByteType(), [(b"-128", -128), (b"127", 127)], [b"128", b"1.0"]),
    (types.ShortType(), [(b"-32768", -32768), (b"+7", 7)], [b"32768"]),
    (types.IntegerType(), [(b"0042", 42), (b"-1", -1)], [b"0x1F", b"0X1f", b" 1", b"1_0", b"+"]),
    (
        types.LongType(),
        [(b"9223372036854775807", 2**63 - 1), (b"-9223372036854775808", -(2**63))],
        [b"9223372036854775808", b"12a", b"\xff"],
    ),
    (types.FloatType(), [(b"1.5", 1.5), (b"-inf", float("-inf"))], [b"1,5"]),
    (
        types.DoubleType(),
        [(b"1e-3", 1e-3), (b".5", 0.5), (b"+2.", 2.0), (b"Infinity", float("inf"))],
        [b"1.5.5", b"0x1p3", b"one"],
    ),
    (
        types.DecimalType(10, 2),
        [(b"1.23", Decimal("1.23")), (b"-7", Decimal("-7.00")), (b"1e3", Decimal("1000.00"))],
        [b"123456789.5", b"1.2.3", b"NaN"],
    ),
    (types.DateType(), [(b"2026-01-31", date(2026, 1, 31))], [b"2026-02-30", b"31.1.2026", b"0"]),
    (
        types.TimestampType(),
        [
            (b"2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
            (b"2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
            (b"2026-01-31 12:00:00.5", datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)),
            (b"2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ],
        [b"2026-01-31T25:00:00", b"1718000000000", b"today"],
    ),
    (
        types.TimestampNTZType(),
        [(b"2026-01-31T12:00:00", datetime(2026, 1, 31, 12))],  # noqa: DTZ001
        [b"2026-01-31T12:00:00Z"],
    ),
]


@pytest.mark.parametrize(
    ("kind", "good", "bad"), TYPED, ids=lambda x: getattr(x, "simpleString", str)()
)
def test_a_field_is_read_as_its_columns_type(
    kind: Any, good: list[tuple[bytes, Any]], bad: list[bytes]
) -> None:
    """A bad value is null; what is good stays good beside any number of bad ones."""
    texts = [text for text, _ in good]
    values = [value for _, value in good]
    assert column([*texts, None], kind) == [*values, None]
    # The bad ones in between, many times, so that they stand in every half of the column.
    mixed = (texts + bad) * 50
    assert column(mixed, kind) == (values + [None] * len(bad)) * 50
    for text in bad:
        assert column([text], kind) == [None]


@given(st.decimals(-99_999, 99_999, places=5))
@settings(deadline=None)
def test_decimals_are_rounded_half_away_from_zero(value: Decimal) -> None:
    rounded = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert column([str(value).encode()], types.DecimalType(10, 2)) == [rounded]


@given(st.lists(st.none() | st.binary(max_size=6) | st.integers().map(lambda n: b"%d" % n)))
@settings(deadline=None)
def test_numbers_are_found_among_anything(values: list[bytes | None]) -> None:
    def plainly(value: bytes | None) -> int | None:
        if (
            value is None
            or not value.lstrip(b"+-").isdigit()
            or len(value) - len(value.lstrip(b"+-")) > 1
        ):
            return None
        number = int(value)
        return number if -(2**31) <= number < 2**31 else None

    assert column(values, types.IntegerType()) == [plainly(value) for value in values]


def test_failfast_names_stream_entry_field_and_value() -> None:
    values = [b"1", b"2", b"three", b"four"]
    with pytest.raises(MalformedValueError) as error:
        column(values, types.IntegerType(), ParseMode.FAILFAST)
    told = str(error.value)
    for part in ("'orders'", "1002-2", "region 2", "'v'", "'three'"):
        assert part in told
    assert column([b"1", None], types.IntegerType(), ParseMode.FAILFAST) == [1, None]


def test_dropmalformed_leaves_out_rows_with_bad_values_only() -> None:
    built = schema(v=types.IntegerType(), w=types.IntegerType())
    rows = [
        [(b"v", b"1"), (b"w", b"1")],
        [(b"v", b"x"), (b"w", b"2")],
        [(b"v", b"3"), (b"w", b"y")],
        # Without a field is not malformed.
        [(b"v", b"4")],
    ]
    batch = Columns(built, ParseMode.DROPMALFORMED).batch(wire(rows), LANE)
    assert batch.to_pylist() == [{"v": 1, "w": 1}, {"v": 4, "w": None}]


def test_a_column_that_is_not_null_wants_its_field() -> None:
    built = types.StructType([types.StructField("v", types.IntegerType(), nullable=False)])
    rows = [[(b"v", b"1")], [(b"w", b"2")]]
    with pytest.raises(MalformedValueError, match=r"1001-2.*'v' is NOT NULL"):
        Columns(built, ParseMode.PERMISSIVE).batch(wire(rows), LANE)
    dropped = Columns(built, ParseMode.DROPMALFORMED).batch(wire(rows), LANE)
    assert dropped.to_pylist() == [{"v": 1}]


def test_all_unsupported_columns_are_told_at_once() -> None:
    built = schema(
        a=types.ArrayType(types.StringType()),
        fields=types.MapType(types.StringType(), types.LongType()),
        fine=types.StringType(),
    )
    with pytest.raises(SchemaError) as error:
        Columns(built, ParseMode.PERMISSIVE)
    assert "'a' is array<string>" in str(error.value)
    assert "'fields' is map<string,bigint>" in str(error.value)
    assert "fine" not in str(error.value)


def test_invalid_utf8_is_replaced_wherever_it_stands() -> None:
    values = [b"ok"] * 500
    for at in (0, 63, 64, 250, 499):
        values[at] = b"\xc3("
    assert column(values, types.StringType()) == [v.decode(errors="replace") for v in values]


@given(
    sizes=st.lists(st.integers(0, 30), max_size=12),
    rows_max=st.integers(1, 40),
    bytes_max=st.integers(1, 4_000),
)
@settings(deadline=None)
def test_merging_keeps_rows_and_their_order(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    batches = [wire([[(b"at", b"%d-%d" % (k, i))] for i in range(n)]) for k, n in enumerate(sizes)]
    found = list(merged(batches, rows_max=rows_max, bytes_max=bytes_max))
    rows = [row for batch in found for row in batch.to_pylist()]
    assert rows == [row for batch in batches for row in batch.to_pylist()]
    for batch in found:
        is_single = batch.num_rows in sizes
        assert is_single or batch.num_rows <= rows_max
