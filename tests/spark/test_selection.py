"""Filters that the source takes over mean what they mean on rows; of others only the bounds."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples

ds = pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import types  # noqa: E402

from crdtstream.spark.entries import default_schema  # noqa: E402
from crdtstream.spark.options import ID_MAX, EntryId, ValueFormat  # noqa: E402
from crdtstream.spark.selection import Selection, narrowed  # noqa: E402
from crdtstream.spark.vectors import Vector  # noqa: E402

SCHEMA = default_schema(ValueFormat.STRING)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
I64_MAX = 2**63 - 1
TIMESTAMP_MS_MAX = I64_MAX // 1000


class Entry(NamedTuple):
    key: bytes
    origin: int
    entry_id: EntryId
    n: int


KEYS = [b"a", b"ab", b"b", "größe".encode(), b"\xff", b"a*", b""]
MILLIS = [0, 1, 5, 6, 1_718_000_000_000, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX + 1, I64_MAX, 2**63]
entries = st.builds(
    Entry,
    st.sampled_from(KEYS),
    st.integers(1, 5),
    st.builds(EntryId, st.sampled_from(MILLIS), st.sampled_from([0, 1, 2**64 - 1])),
    st.integers(1, 20),
)


def value_of(entry: Entry, name: str) -> Any:
    """The value in the column; of a timestamp the microseconds."""
    ms, seq = entry.entry_id
    match name:
        case "stream":
            return entry.key.decode(errors="replace")
        case "origin":
            return entry.origin
        case "id":
            return f"{ms}-{seq}"
        case "ms":
            return ms if ms <= I64_MAX else None
        case "seq":
            return seq
        case "dot":
            return entry.n
        case "timestamp":
            return ms * 1000 if ms <= TIMESTAMP_MS_MAX else None
    raise AssertionError(name)


def literal(value: Any) -> Any:
    """A literal of Spark's, to compare with :func:`value_of`."""
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def passes(one: Any, entry: Entry) -> bool | None:
    """The result of the filter in SQL; None is NULL."""
    if isinstance(one, ds.Not):
        inner = passes(one.child, entry)
        return None if inner is None else not inner
    value = value_of(entry, one.attribute[0])
    if isinstance(one, ds.IsNull):
        return value is None
    if isinstance(one, ds.IsNotNull):
        return value is not None
    if isinstance(one, ds.In):
        others = [literal(other) for other in one.value]
        if value is None:
            return None
        if value in [other for other in others if other is not None]:
            return True
        return None if None in others else False
    other = literal(one.value)
    if isinstance(one, ds.EqualNullSafe):
        return bool(value == other)
    if value is None or other is None:
        return None
    if isinstance(one, ds.StringStartsWith):
        return bool(value.startswith(other))
    if isinstance(one, ds.StringEndsWith):
        return bool(value.endswith(other))
    if isinstance(one, ds.StringContains):
        return other in value
    compared = {
        ds.EqualTo: value == other,
        ds.LessThan: value < other,
        ds.LessThanOrEqual: value <= other,
        ds.GreaterThan: value > other,
        ds.GreaterThanOrEqual: value >= other,
    }
    return bool(compared[type(one)])


def selected(selection: Selection, entry: Entry) -> bool:
    """True if an entry would be read."""
    from crdtstream.commands.glob import compile_glob

    if selection.is_empty:
        return False
    request = selection.plan_request(Vector(), Vector(dict.fromkeys(range(1, 6), 100)))
    matchers = [compile_glob(pattern) for pattern in request.patterns]
    bounds = dict(zip(request.above.regions, request.above.counts, strict=True))
    upto = dict(zip(request.upto.regions, request.upto.counts, strict=True))
    return (
        (not matchers or any(matches(entry.key) for matches in matchers))
        and selection.takes(entry.key)
        and entry.origin in request.origins
        and bounds.get(entry.origin, 0) < entry.n <= upto[entry.origin]
        and (request.start.ms, request.start.seq) <= entry.entry_id
        and entry.entry_id <= (request.end.ms, request.end.seq)
    )


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


LITERALS = {
    "stream": st.sampled_from(["a", "ab", "b", "größe", "\ufffd", "a*", "", "x"]),
    "origin": st.integers(-1, 7),
    "id": st.sampled_from(
        ["5-0", "5-1", "05-0", "5", "", "0-0", f"{2**63}-1", "6-18446744073709551615"]
    ),
    "ms": st.integers(-2, 8) | st.sampled_from([I64_MAX, I64_MAX - 1, TIMESTAMP_MS_MAX]),
    "seq": st.integers(0, 2),
    "dot": st.integers(-1, 22),
    "timestamp": st.integers(-2_001, 8_001).map(moment),
}


@st.composite
def filters(draw: Any) -> Any:
    name = draw(st.sampled_from(sorted(LITERALS)))
    value, path = LITERALS[name], (name,)
    kinds: list[Any] = [
        ds.EqualTo,
        ds.EqualNullSafe,
        ds.LessThan,
        ds.LessThanOrEqual,
        ds.GreaterThan,
        ds.GreaterThanOrEqual,
    ]
    if name in ("stream", "id"):
        kinds += [ds.StringStartsWith, ds.StringEndsWith, ds.StringContains]
    one = draw(
        st.one_of(
            st.builds(lambda kind, v: kind(path, v), st.sampled_from(kinds), value),
            st.lists(value | st.none(), min_size=1, max_size=3).map(
                lambda v: ds.In(path, tuple(v))
            ),
            st.sampled_from([ds.IsNull(path), ds.IsNotNull(path)]),
        )
    )
    return ds.Not(one) if draw(st.booleans()) else one


@given(st.lists(filters(), min_size=1, max_size=3), st.lists(entries, max_size=10))
@settings(max_examples=examples(500), deadline=None)
def test_reading_and_filtering_returns_the_entries_that_pass(given: Any, some: list[Entry]) -> None:
    selection, rest = narrowed(Selection(), given, SCHEMA)
    assert all(any(one is other for other in given) for one in rest)
    for entry in some:
        expected = all(passes(one, entry) for one in given)
        found = selected(selection, entry) and all(passes(one, entry) for one in rest)
        assert found == expected, entry


def test_the_options_bounds_stay() -> None:
    start, end = EntryId(5, 0), EntryId(9, 0)
    options = Selection((b"a*",), (1, 2), start, end)
    given = [
        ds.GreaterThan(("ms",), 2),
        ds.LessThan(("ms",), 7),
        ds.EqualTo(("stream",), "b"),
        ds.GreaterThan(("origin",), 1),
    ]
    selection, rest = narrowed(options, given, SCHEMA)
    assert rest == []
    assert (selection.patterns, selection.origins) == ((b"a*",), (2,))
    assert (selection.start, selection.end) == (start, EntryId(6, 2**64 - 1))
    assert not selection.takes(b"a")


@pytest.mark.parametrize(
    ("one", "patterns"),
    [
        (ds.EqualTo(("stream",), "a*"), [b"a\\*"]),
        (ds.In(("stream",), ("a", "b")), [b"a", b"b"]),
        (ds.StringStartsWith(("stream",), "a["), [b"a\\[*"]),
        (ds.EqualTo(("stream",), "\ufffd"), []),
        (ds.StringEndsWith(("stream",), "a"), []),
    ],
)
def test_a_node_need_not_look_at_other_streams(one: Any, patterns: list[bytes]) -> None:
    selection, _ = narrowed(Selection(), [one], SCHEMA)
    assert list(selection.plan_request(Vector(), Vector({1: 5})).patterns) == patterns


def test_a_field_by_the_name_of_a_column_is_left_to_spark() -> None:
    schema = types.StructType().add("ms", types.StringType()).add("origin", types.IntegerType())
    given = [ds.EqualTo(("ms",), "5"), ds.EqualTo(("nested", "origin"), 5)]
    assert narrowed(Selection(), given, schema) == (Selection(end=ID_MAX), given)
