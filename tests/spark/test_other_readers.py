"""An archive as programs read it that know nothing of crdtstream: DuckDB, and Iceberg's own client.

Iceberg is the strict one: it refuses times in nanoseconds, and types that it has no name for.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs import publishing
from crdtstream.spark.jobs.archive_layout import FILE_SCHEMA
from crdtstream.spark.jobs.archive_state import State, commit
from crdtstream.spark.jobs.folder import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
STREAMS = (b"flights", b"odd/name")
ENTRIES = 20
MERGING = publishing.Merging(file_bytes=64 << 20, small_files_max=1_000)


def time_of(dot: int) -> datetime:
    """Of each stream half of the entries are of the next day, a millisecond apart."""
    return datetime.fromtimestamp((dot // 2 % 2 * DAY_MS + dot) / 1_000, UTC)


@pytest.fixture
def archive(spark: "SparkSession", tmp_path: Path) -> Path:
    """The folder of an archive of two streams and two days."""
    folder = LocalFolder(tmp_path / "archive")
    rows = [
        (
            STREAMS[dot % 2],
            f"{dot // 2 % 2 * DAY_MS + dot}-1",
            None,
            dot // 2 % 2 * DAY_MS + dot,
            Decimal(1),
            1,
            dot,
            {"dot": str(dot)},
            b"\xff" if dot == 0 else None,
            None,
            None,
        )
        for dot in range(ENTRIES)
    ]
    frame = spark.createDataFrame(rows, FILE_SCHEMA)
    segment = publishing.write_segment(
        folder, frame.withColumn("timestamp", F.timestamp_millis("ms"))
    )
    assert segment is not None
    state = commit(folder, State(entries=segment.entries, segments=(segment,)))
    publishing.publish(spark, folder, state, MERGING)
    return tmp_path / "archive"


def test_duckdb_reads_streams_days_times_and_fields(archive: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(
            "SELECT dot, stream, date, timestamp, fields['dot'], raw"
            f" FROM read_parquet('{archive}/stream=*/date=*/*.parquet', hive_partitioning = true)"
            " ORDER BY dot"
        ).fetchall()

    assert found == [
        (
            dot,
            STREAMS[dot % 2].decode(),
            date(1970, 1, 1 + dot // 2 % 2),
            time_of(dot),
            str(dot),
            b"\xff" if dot == 0 else None,
        )
        for dot in range(ENTRIES)
    ]


def test_iceberg_takes_the_files_as_they_are(archive: Path, tmp_path: Path) -> None:
    files = [str(path) for path in sorted(archive.glob("stream=*/date=*/*.parquet"))]
    assert len(files) == len(STREAMS) * 2
    catalog = SqlCatalog(
        "here", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("of")
    table = catalog.create_table("of.entries", schema=pq.read_schema(files[0]))

    table.add_files(files)

    found = table.scan().to_arrow().sort_by("dot")
    assert found["dot"].to_pylist() == list(range(ENTRIES))
    assert found["key"].to_pylist() == [STREAMS[dot % 2] for dot in range(ENTRIES)]
    assert found["timestamp"].to_pylist() == [time_of(dot) for dot in range(ENTRIES)]
    assert [dict(fields) for fields in found["fields"].to_pylist()] == [
        {"dot": str(dot)} for dot in range(ENTRIES)
    ]
    some = table.scan(row_filter="timestamp >= '1970-01-02T00:00:00+00:00'").to_arrow()
    assert set(some["dot"].to_pylist()) == {dot for dot in range(ENTRIES) if dot // 2 % 2}
    catalog.close()
