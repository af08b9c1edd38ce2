"""Dead letters: entries that are delivered again and again and never acknowledged.

Pending entries are local to a region, so every region is asked, and several may return one entry.
Its fields are looked up in the same region: null if it was removed since.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from crdtstream.spark.fields import decode_fields
from crdtstream.spark.jobs.archive_layout import DATED_MS_MAX
from crdtstream.spark.jobs.regions import Regions
from crdtstream.spark.nodes import Nodes
from crdtstream.spark.options import EntryId
from crdtstream.v1 import effects_pb2, query_pb2

SCHEMA: Final = (
    "region INT, stream STRING, key BINARY, group STRING, consumer STRING, origin INT, id STRING,"
    " delivered_at TIMESTAMP, deliveries LONG, fields MAP<STRING, STRING>"
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A pending entry of one group in one region.

    Attributes:
        consumer: None: it was deleted.
        delivered_ms: last.
        fields: as text; None if the entry is gone, or was not looked up.
    """

    region: int
    key: bytes
    group: bytes
    consumer: bytes | None
    origin: int
    id: EntryId
    delivered_ms: int
    deliveries: int
    fields: Mapping[str, str] | None


def find_dead_letters(
    regions: Regions, streams: Sequence[bytes], *, deliveries_max: int, looked_up_max: int
) -> list[DeadLetter]:
    """Find entries that were delivered more than ``deliveries_max`` times, the worst first.

    Args:
        looked_up_max: how many are shown with their fields, in each region.
    """
    request = query_pb2.ScanPendingRequest(patterns=streams, deliveries_min=deliveries_max + 1)

    def ask(node: Nodes) -> list[DeadLetter]:
        found = sorted(_pending(node, request), key=_badness)
        looked_up = [_with_fields(node, one) for one in found[:looked_up_max]]
        return looked_up + found[looked_up_max:]

    letters = [
        replace(one, region=region) for region, found in regions.each(ask).items() for one in found
    ]
    return sorted(letters, key=_badness)


def _badness(one: DeadLetter) -> tuple[object, ...]:
    return (-one.deliveries, one.delivered_ms, one.region, one.key, one.group, one.origin, one.id)


def _pending(node: Nodes, request: query_pb2.ScanPendingRequest) -> Iterable[DeadLetter]:
    for batch in node.scan_pending(request):
        for row in batch.to_pylist():
            yield DeadLetter(
                region=0,
                key=row["key"],
                group=row["group"],
                consumer=row["consumer"],
                origin=row["origin"],
                id=EntryId(row["ms"], row["seq"]),
                delivered_ms=row["delivered_ms"],
                deliveries=row["deliveries"],
                fields=None,
            )


def _with_fields(node: Nodes, letter: DeadLetter) -> DeadLetter:
    """With the entry's fields, if there is an entry."""
    entry_id = effects_pb2.Id(ms=letter.id.ms, seq=letter.id.seq)
    request = query_pb2.ScanRequest(
        key=letter.key, origin=letter.origin, start=entry_id, end=entry_id
    )
    for batch in node.scan(request):
        decoded = decode_fields(batch.column("fields"))
        pairs = zip(decoded.names.to_pylist(), decoded.values.to_pylist(), strict=True)
        return replace(letter, fields={text_of(name): text_of(value) for name, value in pairs})
    return letter


def text_of(name: bytes) -> str:
    """Bytes to be read by people; those that are no UTF-8 are shown as U+FFFD."""
    return name.decode("utf-8", "replace")


def dead_letters_table(spark: SparkSession, letters: Sequence[DeadLetter]) -> DataFrame:
    """``SCHEMA``."""
    rows = [
        (
            one.region,
            text_of(one.key),
            one.key,
            text_of(one.group),
            None if one.consumer is None else text_of(one.consumer),
            one.origin,
            str(one.id),
            moment_of(one.delivered_ms),
            one.deliveries,
            None if one.fields is None else dict(one.fields),
        )
        for one in letters
    ]
    return spark.createDataFrame(rows, SCHEMA)


def moment_of(ms: int) -> datetime:
    """XCLAIM TIME may have set any time; one beyond the year 9999 becomes its end."""
    return datetime.fromtimestamp(min(ms, DATED_MS_MAX) / 1_000, UTC)
