"""Publishing an archive: in moves, so that each entry is there once whoever reads.

No region here: entries come from DataFrames, and programs are killed between any two steps by
doing some steps only.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs import publishing
from crdtstream.spark.jobs.archive_layout import (
    FILE_SCHEMA,
    label_of,
)
from crdtstream.spark.jobs.archive_reader import each_message_once, read_archive
from crdtstream.spark.jobs.archive_state import (
    State,
    commit,
    load,
)
from crdtstream.spark.jobs.folder import (
    ArchiveError,
    Folder,
    HadoopFolder,
    LocalFolder,
)
from crdtstream.spark.jobs.moves import clear, finish
from crdtstream.spark.jobs.publishing import Merging, publish, write_segment
from tests.spark.odd_names import ODD_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000
NEVER_MERGED = Merging(file_bytes=64 << 20, small_files_max=1_000)
ALWAYS_MERGED = Merging(file_bytes=64 << 20, small_files_max=1)


def entries(
    spark: "SparkSession", dots: range, *, key: bytes = b"flights", days: int = 1
) -> "DataFrame":
    """One entry a dot, of region 1, on each of ``days`` days in turn."""
    rows = [
        (
            key,
            f"{dot % days * DAY_MS + dot}-1",
            None,
            dot % days * DAY_MS + dot,
            Decimal(1),
            1,
            dot,
            {"dot": str(dot)},
            None,
            None,
            None,
        )
        for dot in dots
    ]
    return spark.createDataFrame(rows, FILE_SCHEMA)


def with_segments(folder: Folder, state: State, *frames: "DataFrame") -> State:
    segments = [write_segment(folder, frame) for frame in frames]
    found = [segment for segment in segments if segment is not None]
    return commit(
        folder,
        replace(
            state,
            entries=state.entries + sum(segment.entries for segment in found),
            segments=(*state.segments, *found),
        ),
    )


def dots_of(frame: "DataFrame") -> list[int]:
    return sorted(row.dot for row in frame.select("dot").collect())


def plain_dots(spark: "SparkSession", folder: Folder) -> list[int]:
    """As a reader finds them who knows nothing of archives; and as another one does."""
    found = dots_of(spark.read.parquet(folder.url()))
    assert sorted(pd.read_parquet(folder.url(), columns=["dot"])["dot"]) == found
    return found


def visible(folder: Folder) -> list[str]:
    return [file.path for file in folder.files("") if file.path.startswith("stream=")]


def test_segments_become_visible_by_stream_and_day(spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    state = with_segments(
        folder,
        State(),
        entries(spark, range(1, 101), days=3),
        entries(spark, range(101, 151), key=b"other"),
    )

    state, published = publish(spark, folder, state, NEVER_MERGED)

    assert plain_dots(spark, folder) == list(range(1, 151))
    assert (published.entries, published.files, published.merged) == (150, 4, 0)
    assert {path.rpartition("/")[0] for path in visible(folder)} == {
        "stream=flights/date=1970-01-01",
        "stream=flights/date=1970-01-02",
        "stream=flights/date=1970-01-03",
        "stream=other/date=1970-01-01",
    }
    assert (state.segments, state.publication) == ((), None)
    assert folder.files("_archive/segments") == folder.files("_archive/staging") == []
    found = read_archive(spark, folder.url()).where("dot = 5").collect()[0]
    assert (bytes(found.key), found.fields, str(found.date)) == (
        b"flights",
        {"dot": "5"},
        "1970-01-03",
    )


def test_times_are_microseconds_as_other_readers_take_them(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Spark's own INT96 is nanoseconds to others, which Iceberg refuses."""
    folder = LocalFolder(tmp_path)
    rows = entries(spark, range(3)).withColumn("timestamp", F.timestamp_millis("ms"))
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")

    publish(spark, folder, with_segments(folder, State(), rows), NEVER_MERGED)

    (path,) = visible(folder)
    found = pq.read_table(tmp_path / path)
    assert found.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [0, 1_000, 2_000]
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before
    assert read_archive(spark, folder.url()).where("timestamp IS NOT NULL").count() == 3


def test_nothing_to_publish_changes_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    state = commit(folder, State())

    assert publish(spark, folder, state, ALWAYS_MERGED) == (state, publishing.Published())
    assert write_segment(folder, entries(spark, range(0))) is None
    assert read_archive(spark, folder.url()).count() == 0
    with pytest.raises(ArchiveError, match="no archive"):
        read_archive(spark, str(tmp_path / "nowhere"))


def test_odd_names_stay_apart_and_come_back(spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    rows = [
        (name, f"{dot}-1", None, dot, Decimal(1), 1, dot, {"a": "b"}, None, None, None)
        for dot, name in enumerate(ODD_NAMES)
    ]
    state = with_segments(folder, State(), spark.createDataFrame(rows, FILE_SCHEMA))

    publish(spark, folder, state, NEVER_MERGED)

    assert plain_dots(spark, folder) == list(range(len(ODD_NAMES)))
    found = read_archive(spark, folder.url())
    assert {row.dot: bytes(row.key) for row in found.collect()} == dict(enumerate(ODD_NAMES))
    plain = spark.read.parquet(folder.url()).select("dot", "stream").collect()
    assert {row.dot: row.stream for row in plain} == {
        dot: label_of(name) for dot, name in enumerate(ODD_NAMES)
    }
    for name in (b"", b"a/b", b"%", b"\xff\xfe", b"007", b"k" * 1_000):
        dot = ODD_NAMES.index(name)
        assert dots_of(read_archive(spark, folder.url(), streams=[name])) == [dot]
    assert dots_of(read_archive(spark, folder.url(), streams=[b"\xff*", b"%4?", b"k*"])) == [
        dot for dot, name in enumerate(ODD_NAMES) if name[:1] in (b"\xff", b"k") or name == b"%41"
    ]


def test_numbers_alone_stay_the_names_that_they_are(spark: "SparkSession", tmp_path: Path) -> None:
    """Else 007 and 7 were the same to a reader who takes folders' names for numbers."""
    folder = LocalFolder(tmp_path)
    frames = [
        entries(spark, range(dot, dot + 1), key=name) for dot, name in enumerate([b"7", b"007"])
    ]
    publish(spark, folder, with_segments(folder, State(), *frames), NEVER_MERGED)

    streams = {str(row.stream) for row in spark.read.parquet(folder.url()).collect()}
    assert streams == {"7", "%3007"}


def test_small_files_are_merged_when_there_are_too_many(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = LocalFolder(tmp_path)
    merging = Merging(file_bytes=64 << 20, small_files_max=3)
    state = State()
    counts = []
    for run in range(5):
        state = with_segments(folder, state, entries(spark, range(10 * run, 10 * run + 10)))
        state, published = publish(spark, folder, state, merging)
        counts.append((len(visible(folder)), published.merged))
        assert plain_dots(spark, folder) == list(range(10 * run + 10))

    assert counts == [(1, 0), (2, 0), (3, 0), (1, 3), (2, 0)]


def test_large_files_are_left_alone_and_large_days_are_cut(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = LocalFolder(tmp_path)
    tiny = Merging(file_bytes=4_000, small_files_max=1)
    state = with_segments(folder, State(), entries(spark, range(4_000)))
    state, published = publish(spark, folder, state, tiny)
    assert published.files > 3
    before = visible(folder)

    state = with_segments(folder, state, entries(spark, range(4_000, 4_010)))
    state, published = publish(spark, folder, state, tiny)

    large = {path for path in before if (tmp_path / path).stat().st_size >= 2_000}
    assert large
    assert large <= set(visible(folder))
    assert plain_dots(spark, folder) == list(range(4_010))


def test_publishing_and_merging_where_hadoop_has_the_folder(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = HadoopFolder(spark, (tmp_path / "an archive").as_uri())
    state = State()
    for run in range(3):
        frames = [entries(spark, range(10 * run, 10 * run + 10), key=b"a/b%\xff", days=2)]
        state, _ = publish(spark, folder, with_segments(folder, state, *frames), ALWAYS_MERGED)

    assert len([path for path in visible(folder) if path.endswith(".parquet")]) == 2
    found = read_archive(spark, folder.url(), streams=[b"a/b%\xff"])
    assert dots_of(found) == list(range(30))
    for name in ("segments", "staging", "old"):
        assert folder.names(f"_archive/{name}") == []


def test_files_are_sorted_by_id(spark: "SparkSession", tmp_path: Path) -> None:
    """So that a reader of some hours skips the rest of a day."""
    folder = LocalFolder(tmp_path)
    frame = entries(spark, range(1_000)).orderBy("id")
    publish(spark, folder, with_segments(folder, State(), frame), ALWAYS_MERGED)

    (path,) = visible(folder)
    assert pd.read_parquet(tmp_path / path).ms.is_monotonic_increasing


def test_compaction_everywhere_merges_days_without_news(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = LocalFolder(tmp_path)
    state = State()
    for run in range(3):
        frame = entries(spark, range(10 * run, 10 * run + 10), days=2)
        state, _ = publish(spark, folder, with_segments(folder, state, frame), NEVER_MERGED)
    assert len(visible(folder)) == 6

    state, published = publish(spark, folder, state, ALWAYS_MERGED, everywhere=True)

    assert (len(visible(folder)), published.entries, published.merged) == (2, 0, 6)
    assert plain_dots(spark, folder) == list(range(30))
    assert publish(spark, folder, state, ALWAYS_MERGED, everywhere=True)[1].files == 0


def test_reading_by_time(spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    state = with_segments(folder, State(), entries(spark, range(30), days=3))
    publish(spark, folder, state, ALWAYS_MERGED)

    found = read_archive(spark, folder.url(), start_ms=DAY_MS + 4, end_ms=2 * DAY_MS + 5)
    assert sorted(row.ms for row in found.collect()) == sorted(
        ms
        for ms in (dot % 3 * DAY_MS + dot for dot in range(30))
        if DAY_MS + 4 <= ms < 2 * DAY_MS + 5
    )


def test_a_message_in_two_regions_is_read_once(spark: "SparkSession") -> None:
    rows = [
        (b"s", "1-1", None, 1, Decimal(1), origin, dot, {"a": "b"}, None, producer, iid)
        for origin, dot, producer, iid in [
            (2, 1, "p", "1"),
            (1, 9, "p", "1"),
            (1, 10, "p", "2"),
            (2, 2, "q", "1"),
            (2, 3, None, None),
            (2, 4, None, None),
        ]
    ]
    once = each_message_once(spark.createDataFrame(rows, FILE_SCHEMA))

    assert sorted((row.origin, row.dot) for row in once.collect()) == [
        (1, 9),
        (1, 10),
        (2, 2),
        (2, 3),
        (2, 4),
    ]


# --- Killed between any two steps ---------------------------------------------------------------


class Killed(BaseException):
    """The end of a program before its next step."""


class KilledFolder(LocalFolder):
    """A folder of a program that is killed before it changes something for the nth time."""

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(root)
        self.steps = steps

    def _step(self) -> None:
        if self.steps == 0:
            raise Killed
        self.steps -= 1

    def create(self, path: str, content: bytes) -> None:
        self._step()
        super().create(path, content)

    def replace(self, source: str, target: str) -> None:
        self._step()
        super().replace(source, target)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)


@pytest.fixture
def unpublished(spark: "SparkSession", tmp_path: Path) -> Callable[[], Path]:
    """Makes archives with two days of two small files each, and a segment with more of both."""
    made = tmp_path / "made"
    folder = LocalFolder(made)
    state = State()
    for run in range(2):
        frame = entries(spark, range(10 * run, 10 * run + 10), days=2)
        state, _ = publish(spark, folder, with_segments(folder, state, frame), NEVER_MERGED)
    with_segments(folder, state, entries(spark, range(20, 30), days=2))

    def copy() -> Path:
        target = tmp_path / f"copy-{len(os.listdir(tmp_path))}"
        shutil.copytree(made, target)
        return target

    return copy


def test_killed_at_any_step_of_publishing_each_entry_is_there_once(
    spark: "SparkSession", unpublished: Callable[[], Path]
) -> None:
    """Before the moves are decided the old view holds, then the new one; and plain readers, who
    list the folder, see each entry at most once, and all but those of one day just being moved."""
    steps = 0
    views = []
    while True:
        root = unpublished()
        killed = KilledFolder(root, steps)
        before = load(killed)
        assert before is not None
        try:
            publish(spark, killed, before, ALWAYS_MERGED)
        except Killed:
            pass
        else:
            break
        folder = LocalFolder(root)
        state = load(folder)
        assert state is not None
        decided = state.publication is not None or not state.segments
        seen = dots_of(read_archive(spark, folder.url()))
        assert seen == list(range(30 if decided else 20))

        plain = plain_dots(spark, folder)
        assert len(plain) == len(set(plain))
        missing = set(range(20)) - set(plain)
        assert len({dot % 2 for dot in missing}) <= 1, "more than one day is missing"
        views.append((decided, bool(missing)))

        state = finish(folder, commit(folder, state))
        clear(folder, state)
        state, _ = publish(spark, folder, state, ALWAYS_MERGED)
        assert plain_dots(spark, folder) == list(range(30))
        assert len(visible(folder)) == 2
        for name in ("segments", "staging", "old"):
            assert folder.names(f"_archive/{name}") == []
        steps += 1

    # State, two days of two to hide and one to show each, state, and what is cleared away.
    assert steps >= 8
    assert {decided for decided, _ in views} == {False, True}


def test_remains_of_killed_programs_are_cleared_away(spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    state = with_segments(folder, State(), entries(spark, range(10)))
    write_segment(folder, entries(spark, range(10)))
    folder.create("_archive/staging/x/stream=y/date=z/part.parquet", b"half")
    assert len(folder.names("_archive/segments")) == 2

    clear(folder, state)

    assert [f"_archive/segments/{name}" for name in folder.names("_archive/segments")] == [
        state.segments[0].path
    ]
    assert folder.names("_archive/staging") == []


def test_incompletely_written_rows_are_not_published(spark: "SparkSession", tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    state = with_segments(folder, State(), entries(spark, range(10)))
    wrong = replace(state, segments=(replace(state.segments[0], entries=11),))

    with pytest.raises(ArchiveError, match=r"^11 rows .* this program sees 10 of them"):
        publish(spark, folder, wrong, ALWAYS_MERGED)
    assert visible(folder) == []
    assert load(folder) == state
