"""Selection of the entries that a query reads: by its options, and by the filters of its WHERE.

Spark asks which filters the source takes over.  Those that it takes exactly are not evaluated
again, so they must mean here what they mean in SQL.  Of others the source uses the bounds, and
Spark does the rest.

    stream, origin          any comparison: evaluated per lane, before anything is read
    ms, timestamp, dot      =, <, <=, >, >= become bounds; IN bounds and a rest
    id                      = becomes a bound; IN a bound and a rest
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from crdtstream.spark.entries import I64_MAX, TIMESTAMP_MS_MAX, is_of_entry
from crdtstream.spark.options import (
    ID_MAX,
    ID_MIN,
    REGION_MAX,
    EntryId,
    SourceOptions,
    parse_id,
)
from crdtstream.spark.patterns import patterns_literal
from crdtstream.spark.vectors import U64_MAX, Vector, message_of
from crdtstream.v1 import effects_pb2, query_pb2

# More names than this are looked for among all streams.
_NAMES_MAX: Final = 100


class _Bounds(NamedTuple):
    """Whole numbers from low to high, both included; and whether they are just what was asked."""

    low: int
    high: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries to read.

    Attributes:
        patterns: of the streams' names; none: all.
        origins: only these; None: all.
        start, end: of IDs, both included.
        above_n, upto_n: dot numbers in between, of each origin.
        stream_filters: on the streams' names, beside the patterns.
    """

    patterns: tuple[bytes, ...] = ()
    origins: tuple[int, ...] | None = None
    start: EntryId = ID_MIN
    end: EntryId = ID_MAX
    above_n: int = 0
    upto_n: int = U64_MAX
    stream_filters: tuple[ds.Filter, ...] = ()

    @classmethod
    def of(cls, options: SourceOptions) -> "Selection":
        return cls(options.streams, options.regions or None, options.start, options.end)

    @property
    def is_empty(self) -> bool:
        """True if no entry can be selected."""
        return self.start > self.end or self.above_n >= self.upto_n or self.origins == ()

    def takes(self, key: bytes) -> bool:
        """True if the filters take a stream."""
        text = key.decode("utf-8", "replace")
        return all(_holds(one, text) for one in self.stream_filters)

    def moving(self, above: Vector, upto: Vector) -> Vector:
        """Up to where each selected origin has something beyond ``above``; not in it: nowhere."""
        return upto.at(
            {
                origin: min(n, self.upto_n)
                for origin, n in upto.items()
                if min(n, self.upto_n) > max(above.get(origin, 0), self.above_n)
                and (self.origins is None or origin in self.origins)
            }
        )

    def plan_request(
        self,
        above: Vector,
        upto: Vector,
        *,
        range_entries: int = 0,
        entries_max: int = 0,
        only_end: bool = False,
    ) -> query_pb2.PlanRequest:
        """To plan what is selected between two vectors; see the message for the rest.

        Nothing but the origins in between is named: a node need not have what is not asked for.
        """
        moving = self.moving(above, upto)
        base = moving.between(
            above, {origin: max(above.get(origin, 0), self.above_n) for origin in moving}
        )
        return query_pb2.PlanRequest(
            patterns=self.patterns or self._patterns_of_filters(),
            above=message_of(base),
            upto=message_of(moving),
            above_token=base.token,
            upto_token=moving.token,
            origins=sorted(moving),
            start=effects_pb2.Id(ms=self.start.ms, seq=self.start.seq),
            end=effects_pb2.Id(ms=self.end.ms, seq=self.end.seq),
            range_entries=range_entries,
            entries_max=entries_max,
            only_end=only_end,
        )

    def _patterns_of_filters(self) -> list[bytes]:
        """Patterns that leave out most streams that the filters do not take; none: all stay."""
        for one in self.stream_filters:
            match one:
                case ds.EqualTo(_, str(name)) | ds.EqualNullSafe(_, str(name)):
                    names, tail = [name], b""
                case ds.In(_, names) if len(names) <= _NAMES_MAX:
                    names, tail = list(names), b""
                case ds.StringStartsWith(_, str(name)):
                    names, tail = [name], b"*"
                case _:
                    continue
            # Bytes that are no UTF-8 are read as U+FFFD, so a name with one may stand for others.
            if not any("\ufffd" in name for name in names):
                return [key + tail for key in patterns_literal(map(str.encode, names))]
        return []


def narrowed(
    selection: Selection, filters: Iterable[ds.Filter], schema: StructType
) -> tuple[Selection, list[ds.Filter]]:
    """The selection that filters leave, and those filters that Spark must still evaluate."""
    rest = []
    for one in filters:
        narrower, exact = _narrowed_by(selection, one, schema)
        selection = narrower
        if not exact:
            rest.append(one)
    return selection, rest


def _narrowed_by(
    selection: Selection, one: ds.Filter, schema: StructType
) -> tuple[Selection, bool]:
    name = _column(one, schema)
    match name:
        case "stream" if _is_decidable(one, str):
            filters = (*selection.stream_filters, one)
            return replace(selection, stream_filters=filters), True
        case "origin" if _is_decidable(one, int):
            regions = range(1, REGION_MAX + 1) if selection.origins is None else selection.origins
            return replace(selection, origins=tuple(r for r in regions if _holds(one, r))), True
        case "id" | "seq" | "dot" | "ms" | "timestamp":
            return _narrowed_by_number(selection, one, name)
        case _:
            return selection, False


def _narrowed_by_number(selection: Selection, one: ds.Filter, name: str) -> tuple[Selection, bool]:
    if isinstance(one, ds.IsNotNull) and name in ("id", "seq"):
        return selection, True
    if name == "id":
        return _narrowed_by_id(selection, one)
    # Of a timestamp the bounds are microseconds, as the literals are.
    unit = 1_000 if name == "timestamp" else 1
    top = TIMESTAMP_MS_MAX if name == "timestamp" else I64_MAX
    bounds = _bounds(one, top * unit)
    if bounds is None or name == "seq":
        return selection, False
    low, high = max(0, -(-bounds.low // unit)), bounds.high // unit
    if high < low:
        return replace(selection, origins=()), bounds.exact
    if name == "dot":
        above_n = max(selection.above_n, low - 1)
        selection = replace(selection, above_n=above_n, upto_n=min(selection.upto_n, high))
    else:
        selection = replace(
            selection,
            start=max(selection.start, EntryId(low, 0)),
            end=min(selection.end, EntryId(high, U64_MAX)),
        )
    return selection, bounds.exact


def _narrowed_by_id(selection: Selection, one: ds.Filter) -> tuple[Selection, bool]:
    match one:
        case ds.EqualTo(_, str(text)) | ds.EqualNullSafe(_, str(text)):
            texts, exact = [text], True
        case ds.In(_, texts) if all(isinstance(text, str) for text in texts):
            exact = len(texts) == 1
        case _:
            return selection, False
    # Text is compared as text: what is no ID as the column shows them equals none.
    ids = [entry_id for entry_id in map(_canonical_id, texts) if entry_id is not None]
    if not ids:
        return replace(selection, origins=()), True
    start, end = max(selection.start, min(ids)), min(selection.end, max(ids))
    return replace(selection, start=start, end=end), exact


def _canonical_id(text: str) -> EntryId | None:
    try:
        entry_id = parse_id(text, seq=0)
    except ValueError:
        return None
    return entry_id if str(entry_id) == text else None


def _column(one: ds.Filter, schema: StructType) -> str | None:
    """The name of the entry's column that a filter is on; None: on something else."""
    while isinstance(one, ds.Not):
        one = one.child
    path: Sequence[str] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    return path[0] if is_of_entry(schema[path[0]]) else None


def _is_decidable(one: ds.Filter, kind: type) -> bool:
    """True if :func:`_holds` decides as SQL does for a value that is not null."""
    match one:
        case ds.Not(child):
            return _is_decidable(child, kind)
        case ds.IsNull() | ds.IsNotNull():
            return True
        case ds.In(_, values):
            # With a NULL among them SQL's answer may be neither yes nor no.
            return all(_is(value, kind) for value in values)
        case _:
            return _is(getattr(one, "value", None), kind)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _holds(one: ds.Filter, value: Any) -> bool:
    """True if a value that is not null passes a filter."""
    match one:
        case ds.Not(child):
            return not _holds(child, value)
        case ds.EqualTo(_, other) | ds.EqualNullSafe(_, other):
            return bool(value == other)
        case ds.In(_, others):
            return value in others
        case ds.LessThan(_, other):
            return bool(value < other)
        case ds.LessThanOrEqual(_, other):
            return bool(value <= other)
        case ds.GreaterThan(_, other):
            return bool(value > other)
        case ds.GreaterThanOrEqual(_, other):
            return bool(value >= other)
        case ds.StringStartsWith(_, part):
            return bool(value.startswith(part))
        case ds.StringEndsWith(_, part):
            return bool(value.endswith(part))
        case ds.StringContains(_, part):
            return part in value
        case ds.IsNull():
            return False
        case ds.IsNotNull():
            return True
        case _:
            raise AssertionError(f"not decidable: {one}")


def _bounds(one: ds.Filter, top: int) -> _Bounds | None:
    """The numbers that pass a filter; a column is null beyond ``top``, and null passes none."""
    match one:
        case ds.IsNotNull():
            return _Bounds(0, top, exact=True)
        case ds.In(_, values):
            numbers = [_number(value) for value in values]
            if not numbers or None in numbers:
                return None
            known = [number for number in numbers if number is not None]
            return _Bounds(min(known), min(max(known), top), exact=len(known) == 1)
        case ds.Not():
            return None
        case _:
            number = _number(getattr(one, "value", None))
    if number is None:
        return None
    match one:
        case ds.EqualTo() | ds.EqualNullSafe():
            return _Bounds(number, min(number, top), exact=True)
        case ds.LessThan():
            return _Bounds(0, min(number - 1, top), exact=True)
        case ds.LessThanOrEqual():
            return _Bounds(0, min(number, top), exact=True)
        case ds.GreaterThan():
            return _Bounds(number + 1, top, exact=True)
        case ds.GreaterThanOrEqual():
            return _Bounds(number, top, exact=True)
        case _:
            return None


def _number(value: object) -> int | None:
    """A literal as a whole number; of a moment the microseconds since 1970."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return None
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
