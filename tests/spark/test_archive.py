"""Streams to Parquet: each entry once, its bytes whole, and what is trimmed is archived."""

import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crdtstream.spark.jobs import archive as archive_module
from crdtstream.spark.jobs.archive import (
    ArchiveError,
    ArchiveFormat,
    ArchiveOptions,
    ArchiveOutcome,
    archive,
)
from crdtstream.spark.jobs.archive_layout import FILE_SCHEMA
from crdtstream.spark.jobs.archive_reader import read_archive
from crdtstream.spark.jobs.archive_state import commit, load
from crdtstream.spark.jobs.folder import LocalFolder
from crdtstream.spark.options import NodesOptions, Security
from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS
from tests.live.cluster import Cluster
from tests.patience import LONG, wait_until
from tests.spark.archiving import SMALL_FILES_MAX, Archiving
from tests.spark.conftest import nodes_of, require_spark
from tests.spark.killed import kill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live


def options_of(cluster: Cluster, path: Path, *streams: bytes) -> ArchiveOptions:
    return ArchiveOptions(nodes=nodes_options(cluster), path=str(path), streams=streams)


def nodes_options(cluster: Cluster) -> NodesOptions:
    addresses = tuple(node.grpc_address for node in cluster.nodes.values())
    return NodesOptions(addresses, Security(), failover_seconds=20.0)


def add(cluster: Cluster, region: int, stream: bytes, numbers: range) -> list[str]:
    """Entries that tell their number; returns their IDs."""
    with cluster[region].client.pipeline(transaction=False) as pipeline:
        for number in numbers:
            pipeline.xadd(stream, {"number": number, "region": region})
        return [entry_id.decode() for entry_id in pipeline.execute()]


def ids_of(spark: "SparkSession", path: Path) -> list[str]:
    """Of all archived entries, as a reader finds them who knows nothing of archives."""
    return sorted(row.id for row in spark.read.parquet(str(path)).select("id").collect())


# --- What is archived ---------------------------------------------------------------------------


def test_runs_go_on_where_the_last_one_was(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path / "a", b"on:*")
    ids = add(shared_regions, 1, b"on:a", range(300)) + add(shared_regions, 2, b"on:b", range(200))
    shared_regions.converge()

    first = archive(spark, options)
    ids += add(shared_regions, 3, b"on:a", range(50)) + add(shared_regions, 1, b"on:c", range(5))
    shared_regions.converge()
    second = archive(spark, options)
    third = archive(spark, options)

    assert (first.entries, second.entries, third.entries) == (500, 55, 0)
    assert (second.entries_total, third.entries_total) == (555, 555)
    assert ids_of(spark, tmp_path / "a") == sorted(ids)
    assert read_archive(spark, options.path, streams=[b"on:a"]).count() == 350


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="this PySpark does not limit batches")
def test_batches_are_bounded(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    ids = add(shared_regions, 1, b"bounded", range(500))
    shared_regions.converge()
    options = options_of(shared_regions, tmp_path, b"bounded")

    outcome = archive(spark, replace(options, entries_per_batch_max=100))

    assert (outcome.entries, outcome.batches) == (500, 5)
    assert outcome.files == 1
    assert ids_of(spark, tmp_path) == sorted(ids)


@pytest.mark.skipif(HAS_READ_LIMITS, reason="this PySpark limits batches")
def test_a_bound_that_cannot_be_kept_is_refused(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path, b"bounded")
    with pytest.raises(ArchiveError, match=r"--entries-per-batch needs PySpark 4\.2 or newer"):
        archive(spark, replace(options, entries_per_batch_max=100))
    assert list(tmp_path.iterdir()) == []


def test_an_entry_is_archived_as_it_is(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    client, key = shared_regions[2].client, b"odd/\xff"
    plain = client.xadd(key, {"city": "Zürich", "empty": ""}).decode()
    binary = client.xadd(key, {b"\xfe": b"\x00\xff", "text": "x"}).decode()
    twice = client.execute_command("XADD", key, "*", "a", "1", "b", "2", "a", "3").decode()
    shared_regions.converge()

    archive(spark, options_of(shared_regions, tmp_path, b"odd/\xff"))

    found = {row.id: row for row in read_archive(spark, str(tmp_path), streams=[key]).collect()}
    assert found.keys() == {plain, binary, twice}
    row = found[plain]
    assert (bytes(row.key), row.fields, row.raw) == (key, {"city": "Zürich", "empty": ""}, None)
    ms, seq = map(int, plain.split("-"))
    assert (row.ms, int(row.seq), row.origin) == (ms, seq, 2)
    assert row.timestamp.timestamp() * 1_000 == ms
    assert str(row.date) == time.strftime("%Y-%m-%d", time.gmtime(ms / 1_000))
    assert found[binary].fields == {"\ufffd": "\x00\ufffd", "text": "x"}
    assert bytes(found[binary].raw) == (
        b"*4\r\n$1\r\n\xfe\r\n$2\r\n\x00\xff\r\n$4\r\ntext\r\n$1\r\nx\r\n"
    )
    assert found[twice].fields == {"b": "2", "a": "3"}
    assert bytes(found[twice].raw) == (
        b"*6\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\n3\r\n"
    )


def test_all_streams_and_none(spark: "SparkSession", regions: Cluster, tmp_path: Path) -> None:
    options = options_of(regions, tmp_path / "a")
    assert archive(spark, options).entries == 0
    assert read_archive(spark, options.path).columns[:-2] == FILE_SCHEMA.fieldNames()
    assert read_archive(spark, options.path).count() == 0

    names = [b"", b"a/b", b"7", b"007", b"%", "ä".encode()]
    for name in names:
        add(regions, 1, name, range(2))
    regions.converge()

    assert archive(spark, options).entries == 12
    rows = read_archive(spark, options.path).groupBy("key").count().collect()
    assert {bytes(row.key): row["count"] for row in rows} == dict.fromkeys(names, 2)


def test_a_late_entry_with_a_low_id_is_archived_and_not_trimmed_before(
    spark: "SparkSession", regions: Cluster, tmp_path: Path
) -> None:
    """Entries that region 3 appended while cut off have lower IDs than those archived by then."""
    options = replace(options_of(regions, tmp_path / "a", b"late"), trim_older_than_seconds=0.0)
    add(regions, 1, b"late", range(10))
    regions.converge()
    regions[3].set_links(paused=True)
    for region in (1, 2):
        regions[region].set_links(paused=True, peers=[3])
    late = add(regions, 3, b"late", range(100))
    wait_until(lambda: _ms_of(regions, 1) > int(late[-1].split("-")[0]), "a later millisecond")
    add(regions, 1, b"late", range(100))
    near = replace(options.nodes, addresses=options.nodes.addresses[:2])

    first = archive(spark, replace(options, nodes=near))

    assert (first.entries, first.trimmed) == (110, 110)
    for region in regions.nodes:
        regions[region].set_links(paused=False)
    regions.converge()
    # Of the lower IDs nothing is trimmed, as none of it is archived.
    assert [entry_id.decode() for entry_id, _ in regions[1].client.xrange(b"late")] == late

    second = archive(spark, options)

    assert (second.entries, second.trimmed) == (100, 100)
    assert set(late) <= set(ids_of(spark, tmp_path / "a"))
    assert len(ids_of(spark, tmp_path / "a")) == 210
    assert regions[1].client.xlen(b"late") == 0


def _ms_of(cluster: Cluster, region: int) -> int:
    seconds, micros = cluster[region].client.time()
    return int(seconds * 1_000 + micros // 1_000)


def test_only_what_groups_are_done_with_and_is_old_is_trimmed(
    spark: "SparkSession", regions: Cluster, tmp_path: Path
) -> None:
    client = regions[1].client
    ids = add(regions, 1, b"held", range(20))
    add(regions, 1, b"free", range(20))
    client.xgroup_create(b"held", "g", id="0")
    client.xreadgroup("g", "c", {b"held": ">"}, count=15)
    client.xack(b"held", "g", *ids[:5])
    regions.converge()
    options = options_of(regions, tmp_path / "a", b"held", b"free")

    young = archive(spark, replace(options, trim_older_than_seconds=86_400.0))
    assert (young.entries, young.trimmed) == (40, 0)
    outcome = archive(spark, replace(options, trim_older_than_seconds=0.0))

    assert outcome.trimmed == 25
    assert [entry_id.decode() for entry_id, _ in client.xrange(b"held")] == ids[5:]
    assert client.xlen(b"free") == 0
    assert len(ids_of(spark, tmp_path / "a")) == 40


def test_entries_trimmed_before_archiving_are_reported(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path, b"lost")
    add(shared_regions, 1, b"lost", range(10))
    shared_regions.converge()
    archive(spark, options)
    add(shared_regions, 1, b"lost", range(10))
    shared_regions[1].client.xtrim(b"lost", maxlen=5, approximate=False)
    shared_regions.converge()

    with pytest.raises(ArchiveError, match=r"'lost', region 1: entries up to dot .* were trimmed"):
        archive(spark, options)
    outcome = archive(spark, replace(options, fail_on_data_loss=False))

    assert (outcome.entries, outcome.entries_total) == (5, 15)


# --- Following ----------------------------------------------------------------------------------


def test_following_makes_entries_visible_and_ends_when_told(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = replace(
        options_of(shared_regions, tmp_path, b"followed"),
        follow=True,
        batch_seconds=0.2,
        publish_seconds=0.1,
    )
    stopping = threading.Event()
    outcomes: list[ArchiveOutcome] = []
    ids = add(shared_regions, 1, b"followed", range(20))
    following = threading.Thread(
        target=lambda: outcomes.append(archive(spark, options, stopping=stopping))
    )
    following.start()
    try:
        for region in (1, 2, 3):
            ids += add(shared_regions, region, b"followed", range(20))
            wait_until(
                lambda: _visible(spark, tmp_path) == len(ids),  # noqa: B023 - called at once
                f"{len(ids)} entries",
            )
    finally:
        stopping.set()
        following.join()

    assert outcomes[0].entries == 80
    assert ids_of(spark, tmp_path) == sorted(ids)


def _visible(spark: "SparkSession", path: Path) -> int:
    if not list(path.glob("stream=*/date=*/*.parquet")):
        return 0
    return read_archive(spark, str(path)).count()


# --- What is refused ----------------------------------------------------------------------------


def test_an_archive_keeps_to_its_streams_and_its_database(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path, b"kept")
    add(shared_regions, 1, b"kept", range(3))
    shared_regions.converge()
    archive(spark, options)

    with pytest.raises(ArchiveError, match="archive of 'kept'"):
        archive(spark, replace(options, streams=(b"kept", b"more")))
    folder = LocalFolder(tmp_path)
    state = load(folder)
    assert state is not None
    commit(folder, replace(state, database="another"))
    with pytest.raises(ArchiveError, match="archive of database 'another'"):
        archive(spark, options)


def test_a_second_program_is_refused_while_one_runs(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    with (
        LocalFolder(tmp_path).claimed(),
        pytest.raises(ArchiveError, match="another program writes to the archive"),
    ):
        archive(spark, options_of(shared_regions, tmp_path, b"two"))


def test_options_that_cannot_be_meant(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path, b"x")
    with pytest.raises(ArchiveError, match=r"file_bytes must be above 0; small_files_max must"):
        archive(spark, replace(options, file_bytes=0, small_files_max=-1))
    with pytest.raises(ArchiveError, match="no name"):
        archive(spark, replace(options, path=""))
    with pytest.raises(ArchiveError, match="wildcards"):
        archive(spark, replace(options, path=str(tmp_path / "a[1]")))
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveError, match="Not a directory"):
        archive(spark, replace(options, path=str(tmp_path / "file")))


def test_without_delta_lake_it_is_told_what_to_install(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = replace(options_of(shared_regions, tmp_path, b"x"), format=ArchiveFormat.DELTA)
    with pytest.raises(ArchiveError, match=r"packages=io\.delta:delta-spark_4\.\d_2\.13"):
        archive(spark, options)
    assert list(tmp_path.iterdir()) == []


# --- Killed -------------------------------------------------------------------------------------


def test_a_batch_that_comes_again_is_known(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    """Killed after the archive committed a batch, and before Spark's checkpoint did."""
    options = options_of(shared_regions, tmp_path, b"again")
    ids = add(shared_regions, 1, b"again", range(10))
    shared_regions.converge()
    archive(spark, options)
    ids += add(shared_regions, 1, b"again", range(10))
    shared_regions.converge()
    archive(spark, options)
    for name in ("1", ".1.crc"):
        (tmp_path / "_archive" / "checkpoint" / "commits" / name).unlink()
    ids += add(shared_regions, 2, b"again", range(10))
    shared_regions.converge()

    # Not trimmed before the checkpoint has the batch, too, which it gets in this run.
    outcome = archive(spark, replace(options, trim_older_than_seconds=0.0))

    assert (outcome.entries, outcome.entries_total, outcome.trimmed) == (10, 30, 30)
    assert ids_of(spark, tmp_path) == sorted(ids)


def test_a_lost_checkpoint_is_made_anew_from_the_end_of_the_archive(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path, b"anew")
    ids = add(shared_regions, 1, b"anew", range(10))
    shared_regions.converge()
    archive(spark, replace(options, entries_per_batch_max=4 if HAS_READ_LIMITS else None))
    shutil.rmtree(tmp_path / "_archive" / "checkpoint")
    ids += add(shared_regions, 1, b"anew", range(10))
    shared_regions.converge()

    assert archive(spark, options).entries == 10
    assert ids_of(spark, tmp_path) == sorted(ids)


def test_a_lost_state_is_not_taken_for_an_empty_archive(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = options_of(shared_regions, tmp_path, b"gone")
    add(shared_regions, 1, b"gone", range(10))
    shared_regions.converge()
    archive(spark, options)
    shutil.rmtree(tmp_path / "_archive" / "state")

    with pytest.raises(ArchiveError, match="has _archive/checkpoint, _archive/ledger and no state"):
        archive(spark, options)


@pytest.mark.parametrize("older", ["state", "checkpoint"])
def test_a_checkpoint_that_does_not_go_on_from_the_archive_is_refused(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, older: str
) -> None:
    """As when one of the two was brought back from a backup, and the other one not.

    From an older checkpoint Spark plans the batches again, and they end elsewhere then.
    """
    key = b"apart:" + older.encode()
    options = options_of(shared_regions, tmp_path / "a", key)
    hidden, ids = tmp_path / "a" / "_archive", []
    for _ in range(2):
        ids += add(shared_regions, 1, key, range(10))
        shared_regions.converge()
        archive(spark, options)
        if not (tmp_path / "old").exists():
            shutil.copytree(hidden / older, tmp_path / "old")
    shutil.rmtree(hidden / older)
    shutil.move(tmp_path / "old", hidden / older)
    ids += add(shared_regions, 1, key, range(10))
    shared_regions.converge()

    with pytest.raises(ArchiveError, match=f"{older} is older than"):
        archive(spark, options)
    assert len(ids_of(spark, tmp_path / "a")) == 20
    if older == "checkpoint":
        shutil.rmtree(hidden / "checkpoint")
        archive(spark, options)
        assert ids_of(spark, tmp_path / "a") == sorted(ids)


def test_an_error_of_the_folder_is_told_as_it_is(
    spark: "SparkSession",
    shared_regions: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not as what Java makes of an error that it carries from Python to Python."""

    def refuse(*_: object) -> None:
        raise ArchiveError("another program writes to the archive")

    add(shared_regions, 1, b"told", range(10))
    shared_regions.converge()
    monkeypatch.setattr(archive_module, "write_segment", refuse)

    with pytest.raises(ArchiveError, match=r"^another program writes to the archive$"):
        archive(spark, options_of(shared_regions, tmp_path, b"told"))


class Drill:
    """An archive being made in spite of kills."""

    def __init__(self, regions: Cluster, folder: Path, seed: int) -> None:
        self.regions = regions
        self.path = folder / "archive"
        self.chance = random.Random(seed)
        self.ids: list[str] = []
        self.archiving = Archiving(
            folder / "archiving.log",
            nodes=nodes_of(regions),
            streams="kills:*",
            path=str(self.path),
        )

    def fill(self, entries: int) -> None:
        for region in self.regions.nodes:
            for stream in (b"kills:a", b"kills:b"):
                self.ids += add(self.regions, region, stream, range(entries))
        self.regions.converge()

    def start(self) -> None:
        """Start the program, and wait until it has done something."""
        before = self.version()
        self.archiving.start()
        self.wait(lambda: self.version() > before + 1, "a new state")

    def version(self) -> int:
        state = load(LocalFolder(self.path))
        return 0 if state is None else state.version

    def wait(self, condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(lambda: condition() or self.archiving.status() is not None, what, base=LONG)
        except AssertionError as error:
            error.add_note(self.archiving.log())
            raise

    def pass_some_steps(self) -> None:
        """Let it go on by some commits, and then by a moment."""
        upto = self.version() + self.chance.randrange(1, 8)
        self.wait(lambda: self.version() >= upto, f"state {upto}")
        time.sleep(self.chance.random() * 0.3)

    def end(self) -> None:
        if self.archiving.starts and self.archiving.status() is None:
            self.archiving.kill()


@pytest.fixture
def drill(regions: Cluster, tmp_path: Path, seed: int) -> Iterator[Drill]:
    require_spark()
    print(f"seed {seed}")
    running = Drill(regions, tmp_path, seed)
    try:
        yield running
    finally:
        running.end()


@pytest.mark.timeout(4 * LONG)
@pytest.mark.parametrize(
    ("seed", "entries", "kills"),
    [(4711, 100, 1), pytest.param(4711, 400, 2, marks=pytest.mark.soak)],
    ids=["some", "many"],
)
def test_each_entry_is_archived_once_in_spite_of_kills(
    spark: "SparkSession", drill: Drill, entries: int, kills: int
) -> None:
    """Of the whole program, of a task's Python process, and of the region that is read."""
    drill.fill(entries)
    for _ in range(kills):
        drill.start()
        drill.pass_some_steps()
        drill.archiving.kill()
        found = ids_of(spark, drill.path) if list(drill.path.glob("stream=*")) else []
        assert len(found) == len(set(found))
        assert set(found) <= set(drill.ids)

    drill.start()
    drill.wait(drill.archiving.task_workers, "a task")
    for pid in drill.archiving.task_workers():
        kill(pid)
    drill.pass_some_steps()
    drill.regions[1].end(signal.SIGKILL)
    drill.wait(lambda: False, "the end")
    if drill.archiving.status() != 0:
        drill.start()
        drill.wait(lambda: False, "the end")

    assert drill.archiving.status() == 0, drill.archiving.log()
    assert ids_of(spark, drill.path) == sorted(drill.ids)
    state = load(LocalFolder(drill.path))
    assert state is not None
    assert (state.entries, state.segments, state.publication) == (len(drill.ids), (), None)
    # Each stream's day is a few files, however often it was published.
    files = [path.name for path in drill.path.glob("stream=*/date=*/*.parquet")]
    assert len({name.rpartition("-")[0] for name in files}) <= SMALL_FILES_MAX + 3, files
    assert len(files) <= 2 * (SMALL_FILES_MAX + 3), files
