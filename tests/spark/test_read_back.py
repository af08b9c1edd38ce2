"""Rows of tasks count once they were read back: files that are changed on the way are noticed.

The folder does what a disk, a cache or another program may do: between the writing and the reading
a file is removed, cut off, or holds something else.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from crdtstream.spark.jobs import archive as archive_module
from crdtstream.spark.jobs import archive_check
from crdtstream.spark.jobs.archive import ArchiveError, ArchiveOptions, archive
from crdtstream.spark.jobs.archive_check import table_faults
from crdtstream.spark.jobs.archive_layout import FILE_SCHEMA
from crdtstream.spark.jobs.archive_reader import read_archive
from crdtstream.spark.jobs.archive_state import Segment, State, commit, load
from crdtstream.spark.jobs.content import NOTHING, Content, _row_hash, content_of
from crdtstream.spark.jobs.delta import check_in_table
from crdtstream.spark.jobs.folder import (
    FileSize,
    Folder,
    HadoopFolder,
    LocalFolder,
)
from crdtstream.spark.jobs.moves import finish
from crdtstream.spark.jobs.publishing import Merging, publish, write_segment
from crdtstream.spark.jobs.read_back import NotReadBackError, read_back, write_parquet
from crdtstream.spark.jobs.shared_folder import NotSharedError, check_shared, probe
from crdtstream.spark.jobs.tables import replace_tables
from crdtstream.spark.options import NodesOptions, Security
from crdtstream.spark.vectors import Vector
from tests.live.cluster import Node, running_regions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MERGED = Merging(file_bytes=64 << 20, small_files_max=1)


def remove(path: Path) -> None:
    path.unlink()


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def zero(path: Path) -> None:
    """Bytes in the middle, as of a block that never reached the disk."""
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    _without_checksum(path)


def alter(path: Path) -> None:
    """One value of one row; a sound file with as many rows."""
    table = pq.read_table(path)
    dots = pc.if_else(pc.equal(table["dot"], table["dot"][0]), pa.scalar(-1), table["dot"])
    index = table.schema.get_field_index("dot")
    altered = table.set_column(index, table.schema.field("dot"), dots)
    pq.write_table(altered, path)
    _without_checksum(path)


def double(path: Path) -> None:
    shutil.copy(path, path.with_name("part-again.parquet"))


def _without_checksum(path: Path) -> None:
    """Remove Hadoop's checksum, which would notice, and which object stores do not have."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


Meddling = Callable[[Path], None]
# What is done, and what is found.
MEDDLINGS = [
    (remove, "this program sees"),
    (cut_off, "a file of them is damaged"),
    (zero, "Spark cannot read them"),
    (alter, "with other content"),
    (double, "this program sees"),
]


class MeddledFolder(LocalFolder):
    """Something happens to a file once it is written below a path, before it is looked for."""

    def __init__(self, root: Path, below: str, meddling: Meddling) -> None:
        super().__init__(root)
        self._below = below
        self._meddling = meddling
        self.meddled = False

    def files(self, path: str) -> list[FileSize]:
        found = [file for file in super().files(path) if file.path.endswith(".parquet")]
        largest = max(found, key=lambda file: file.file_bytes, default=None)
        if self._below in path and largest is not None and not self.meddled:
            self.meddled = True
            self._meddling(self.root / largest.path)
        return super().files(path)


def entries(spark: "SparkSession", dots: range) -> "DataFrame":
    """One entry a dot, of region 1."""
    rows = [
        (b"s", f"{dot}-1", None, dot, Decimal(1), 1, dot, {"dot": str(dot)}, None, None, None)
        for dot in dots
    ]
    return spark.createDataFrame(rows, FILE_SCHEMA)


def dots_of(spark: "SparkSession", folder: Folder) -> list[int]:
    rows = read_archive(spark, folder.url()).select("dot").collect()
    return sorted(row.dot for row in rows)


# --- Archiving ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_regions(1, tmp_path_factory.mktemp("region")) as cluster:
        yield cluster[1]


@pytest.mark.live
def test_an_archive_without_what_was_written_does_not_go_on_and_trims_nothing(
    spark: "SparkSession", region: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        region.client.xadd("meddled", {"number": number})
    options = ArchiveOptions(
        NodesOptions((region.grpc_address,), Security(), failover_seconds=20.0),
        str(tmp_path),
        (b"meddled",),
        trim_older_than_seconds=0.0,
    )

    for meddling in (remove, alter):
        meddled = MeddledFolder(tmp_path, "segments", meddling)
        with monkeypatch.context() as patched:
            patched.setattr(archive_module, "folder_at", lambda *_, found=meddled: found)
            with pytest.raises(
                ArchiveError, match=r"^20 rows with .* Nothing was committed, replaced or trimmed"
            ):
                archive(spark, options)
        assert meddled.meddled
        assert region.client.xlen("meddled") == 20
        state = load(LocalFolder(tmp_path))
        assert state is not None
        assert (state.batch, state.vector, state.entries, state.segments) == (-1, {}, 0, ())

    outcome = archive(spark, options)
    assert (outcome.entries, outcome.trimmed) == (20, 20)
    assert read_archive(spark, options.path).count() == 20


@pytest.mark.parametrize(("meddling", "found"), MEDDLINGS)
def test_a_segment_that_is_not_as_it_was_written_is_refused(
    spark: "SparkSession", tmp_path: Path, meddling: Meddling, found: str
) -> None:
    folder = MeddledFolder(tmp_path, "segments", meddling)

    with pytest.raises(NotReadBackError, match=rf"^100 rows .* {found}"):
        write_segment(folder, entries(spark, range(100)))
    assert folder.meddled


# --- Publishing ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_once(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with ten entries in a file, and ten in a segment."""
    folder, state = LocalFolder(tmp_path_factory.mktemp("published")), State()
    for dots in (range(10), range(10, 20)):
        segment = write_segment(folder, entries(spark, dots))
        assert segment is not None
        state = commit(folder, replace(state, segments=(segment,)))
        if dots.start == 0:
            state, _ = publish(spark, folder, state, MERGED)
    return folder.root


@pytest.fixture
def published(made_once: Path, tmp_path: Path) -> State:
    """The same in a test's own folder."""
    shutil.copytree(made_once, tmp_path, dirs_exist_ok=True)
    state = load(LocalFolder(tmp_path))
    assert state is not None
    return state


def test_files_stay_where_merged_ones_are_not_as_they_were_written(
    spark: "SparkSession", published: State, tmp_path: Path
) -> None:
    folder = MeddledFolder(tmp_path, "staging", alter)

    with pytest.raises(NotReadBackError, match=r"^20 rows"):
        publish(spark, folder, published, MERGED)

    assert folder.meddled
    assert load(folder) == published
    assert dots_of(spark, folder) == list(range(10))
    publish(spark, folder, published, MERGED)
    assert dots_of(spark, folder) == list(range(20))


def test_merged_files_hold_what_was_in_segments_when_they_were_written(
    spark: "SparkSession", published: State, tmp_path: Path
) -> None:
    """Not what is in them by now."""
    folder = LocalFolder(tmp_path)
    for file in folder.files(published.segments[0].path):
        if file.path.endswith(".parquet") and folder.parquet_footer(file.path).rows:
            alter(tmp_path / file.path)

    with pytest.raises(NotReadBackError, match="with other content"):
        publish(spark, folder, published, MERGED)
    assert dots_of(spark, folder) == list(range(10))


def test_nothing_is_removed_while_what_replaces_it_is_not_in_its_place(
    spark: "SparkSession", published: State, tmp_path: Path
) -> None:
    """A program was killed while it moved files, and what it had staged was lost."""

    class Killed(BaseException):
        pass

    class KilledFolder(LocalFolder):
        def replace(self, source: str, target: str) -> None:
            super().replace(source, target)
            raise Killed

    folder = LocalFolder(tmp_path)
    with pytest.raises(Killed):
        publish(spark, KilledFolder(tmp_path), published, MERGED)
    state = load(folder)
    assert state is not None
    assert state.publication is not None
    (move,) = state.publication.moves
    ((source, _),) = move.show
    kept = folder.read(source)
    folder.delete(source)

    with pytest.raises(ArchiveError, match=r"without stream=s/date=.* Bring the files back"):
        finish(folder, state)
    assert [file for file in folder.files("_archive/old") if file.path.endswith(".parquet")]
    assert folder.files(state.segments[0].path)

    folder.create(source, kept)
    finish(folder, state)
    assert dots_of(spark, folder) == list(range(20))


def test_a_batch_that_was_cut_off_is_not_counted_in_a_table(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are in the table, and the state did not get to know them; they come again."""
    written = content_of(entries(spark, range(1, 21)))
    folder = LocalFolder(tmp_path)
    state = State(vector=Vector({1: 20}), entries=20, table_digest=written.digest)
    # By its content: this table is none of Delta Lake's.
    tables = {"cut off": entries(spark, range(1, 31)), "lost": entries(spark, range(2, 31))}
    monkeypatch.setattr(archive_check, "_table", lambda *_: tables["cut off"])
    assert table_faults(spark, folder, state) == ()
    monkeypatch.setattr(archive_check, "_table", lambda *_: tables["lost"])
    assert "holds 19 entries, or others, not the 20" in table_faults(spark, folder, state)[0]


def test_a_table_of_delta_lake_must_hold_the_batch(spark: "SparkSession", tmp_path: Path) -> None:
    """By its content: this table is none of Delta Lake's."""
    batch = entries(spark, range(11, 21))
    written = content_of(batch)
    segment = Segment("segments/x", written.rows, 100, written.digest)

    check_in_table(entries(spark, range(1, 31)), segment, Vector({1: 10}), Vector({1: 20}))
    for table in (range(1, 20), range(1), range(12, 31)):
        with pytest.raises(NotReadBackError, match=r"^10 entries were written to the table"):
            check_in_table(entries(spark, table), segment, Vector({1: 10}), Vector({1: 20}))


# --- Content ------------------------------------------------------------------------------------


def test_content_does_not_depend_on_order_and_adds_up(spark: "SparkSession") -> None:
    whole = content_of(entries(spark, range(100)))
    parts = [entries(spark, range(70, 100)), entries(spark, range(70))]

    assert whole.rows == 100
    assert content_of(parts[0].union(parts[1]).orderBy("id")) == whole
    assert content_of(parts[0]) + content_of(parts[1]) == whole
    assert content_of(parts[0].limit(0)) == NOTHING
    assert Content(1, 2**64 - 1) + Content(1, 2) == Content(2, 1)


def test_contents_differ_as_rows_do(spark: "SparkSession") -> None:
    rows: list[tuple[Any, ...]] = [
        (None, "a", {"x": "1"}),
        ("a", None, {"x": "1"}),
        (None, "a", {"x": "2"}),
        (None, "a", {"x": None}),
        (None, "a", {}),
        (None, "a", None),
        (None, None, {"x": "1"}),
    ]
    frame = spark.createDataFrame(rows, "a string, b string, m map<string, string>")

    hashes = [row.hash for row in frame.select(_row_hash(frame.schema).alias("hash")).collect()]

    assert len(set(hashes)) == len(rows)
    assert content_of(frame).digest == sum(hashes) % 2**64


def test_files_in_folders_of_hadoop_are_read_back_too(
    spark: "SparkSession", tmp_path: Path
) -> None:
    folder = HadoopFolder(spark, tmp_path.as_uri())
    frame = entries(spark, range(10))
    written, files = write_parquet(frame, folder, "a")

    assert (written, sum(folder.parquet_footer(file.path).rows for file in files)) == (
        content_of(frame),
        10,
    )
    for file in files:
        cut_off(tmp_path / file.path)
    with pytest.raises(NotReadBackError, match="a file of them is damaged"):
        read_back(spark, folder, "a", FILE_SCHEMA, written)
    with pytest.raises(NotReadBackError, match="sees 0 of them, in 0 files"):
        read_back(spark, folder, "b", FILE_SCHEMA, written)


# --- Tables -------------------------------------------------------------------------------------


def test_a_table_is_replaced_by_one_that_was_read_back(
    spark: "SparkSession", tmp_path: Path
) -> None:
    def found(name: str) -> int:
        return spark.read.parquet(str(tmp_path / name)).count()

    folder = LocalFolder(tmp_path)
    replace_tables(folder, {"one": spark.range(3), "two": spark.range(4)})
    replace_tables(folder, {"one": spark.range(5), "two": spark.range(0)})
    assert (found("one"), found("two")) == (5, 0)

    meddled = MeddledFolder(tmp_path, "two", cut_off)
    with pytest.raises(NotReadBackError, match=r"^7 rows"):
        replace_tables(meddled, {"one": spark.range(6), "two": spark.range(7)})
    assert meddled.meddled
    assert (found("one"), found("two")) == (5, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


# --- Is the folder shared? ----------------------------------------------------------------------


class TwoFolders(LocalFolder):
    """Folders of which this program and the tasks see different ones."""

    def __init__(self, root: Path, own: Path, *, apart: str) -> None:
        super().__init__(root)
        self._own = LocalFolder(own)
        self._apart = apart

    def create(self, path: str, content: bytes) -> None:
        super().create(path, b"of earlier" if self._apart == "writing" else content)

    def files(self, path: str) -> list[FileSize]:
        return self._own.files(path) if self._apart == "reading" else super().files(path)


@pytest.mark.parametrize(
    ("apart", "told"),
    [
        ("reading", "this program reads 0 of 3 files that tasks wrote"),
        ("writing", "tasks do not find the files that this program wrote"),
    ],
)
def test_both_ways_are_asked_for(
    spark: "SparkSession", tmp_path: Path, apart: str, told: str
) -> None:
    folder = TwoFolders(tmp_path / "a", tmp_path / "b", apart=apart)

    with pytest.raises(NotSharedError, match=told) as raised:
        probe(spark, folder, "hidden", 3)
    assert all(word in str(raised.value) for word in ("This program runs on", "local[2]", "s3a"))
    assert list((tmp_path / "a").rglob("probe-*")) == []


def test_a_folder_of_this_machine_is_shared_and_no_task_is_asked(
    spark: "SparkSession", tmp_path: Path
) -> None:
    for folder in (LocalFolder(tmp_path), HadoopFolder(spark, tmp_path.as_uri())):
        probe(spark, folder, "hidden", 3)
    jobs = spark.sparkContext.statusTracker()
    before = sorted(jobs.getJobIdsForGroup(None))

    check_shared(spark, LocalFolder(tmp_path), "hidden", outcome="Nothing was done")

    assert sorted(jobs.getJobIdsForGroup(None)) == before
    assert list(tmp_path.rglob("probe-*")) == []
