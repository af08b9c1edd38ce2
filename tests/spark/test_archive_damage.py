"""An archive whose files are not as they were read back: nothing is trimmed, nothing is replayed.

What was archived is damaged between two runs, or while a program follows.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from crdtstream.cli.pipeline import app
from crdtstream.spark.jobs import archive as archive_module
from crdtstream.spark.jobs.archive import ArchiveError, ArchiveOptions, archive, verify
from crdtstream.spark.jobs.archive_reader import read_archive
from crdtstream.spark.jobs.archive_state import State, commit, load
from crdtstream.spark.jobs.folder import Folder, FolderError, HadoopFolder, LocalFolder
from crdtstream.spark.jobs.ledger import (
    DamagedArchiveError,
    faults,
    missing,
    note_all,
    read_ledger,
    write_ledger,
)
from crdtstream.spark.jobs.replay import ReplayOptions, replay
from crdtstream.spark.jobs.report import ReportError, ReportOptions, report
from crdtstream.spark.options import NodesOptions, Security
from tests.live.cluster import Node, running_regions
from tests.spark.test_read_back import alter, cut_off, remove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRIES = 50
Damage = Callable[[Path], None]


def flip(path: Path) -> None:
    """One bit in the middle; Hadoop's checksum beside it is left as it was."""
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def exchange(path: Path) -> None:
    """Another sound Parquet file, as long or not."""
    alter(path)


def remove_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent.parent)


# What happens to a published file, and what is told of it.
DAMAGES: list[tuple[Damage, str]] = [
    (remove, "is gone"),
    (cut_off, "bytes, not"),
    (flip, "has other content|cannot be read: Checksum error"),
    (exchange, "has other content|bytes, not"),
    (remove_its_folder, "is gone"),
]


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_regions(1, tmp_path_factory.mktemp("region")) as cluster:
        yield cluster[1]


def published(root: Path) -> list[Path]:
    return sorted(root.glob("stream=*/date=*/*.parquet"))


def options_of(region: Node, path: Path, stream: bytes) -> ArchiveOptions:
    nodes = NodesOptions((region.grpc_address,), Security(), failover_seconds=20.0)
    return ArchiveOptions(nodes, str(path), (stream,))


def add(region: Node, stream: bytes, count: int = ENTRIES) -> None:
    with region.client.pipeline(transaction=False) as pipeline:
        for number in range(count):
            pipeline.xadd(stream, {"number": number})
        pipeline.execute()


# --- Trimming -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archived(spark: "SparkSession", region: Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of one stream, of which nothing is trimmed."""
    add(region, b"damaged")
    path = tmp_path_factory.mktemp("archived")
    archive(spark, options_of(region, path, b"damaged"))
    return path


@pytest.mark.live
@pytest.mark.parametrize(("damage", "told"), DAMAGES)
@pytest.mark.parametrize("kind", ["local", "hadoop"])
def test_nothing_is_trimmed_whose_file_is_not_as_it_was_read_back(
    spark: "SparkSession",
    region: Node,
    archived: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Damage,
    told: str,
    kind: str,
) -> None:
    path = tmp_path / "archive"
    shutil.copytree(archived, path)
    if kind == "hadoop":
        found = HadoopFolder(spark, path.as_uri())
        monkeypatch.setattr(archive_module, "folder_at", lambda *_: found)
    options = options_of(region, path, b"damaged")
    (file,) = published(path)
    damage(file)

    with pytest.raises(DamagedArchiveError) as raised:
        archive(spark, replace(options, trim_older_than_seconds=0.0))

    assert raised.match(told)
    assert raised.match("Nothing was trimmed. To go on, bring it back")
    assert file.relative_to(path).as_posix() in str(raised.value)
    assert region.client.xlen(b"damaged") == ENTRIES


@pytest.mark.live
@pytest.mark.parametrize(("damage", "told"), DAMAGES)
@pytest.mark.parametrize("small_files", [0, 4], ids=["merged", "beside"])
def test_nothing_is_trimmed_where_a_new_batch_stands_on_a_damaged_file(
    spark: "SparkSession",
    region: Node,
    tmp_path: Path,
    damage: Damage,
    told: str,
    small_files: int,
) -> None:
    stream = f"on-top:{damage.__name__}:{small_files}".encode()
    options = replace(options_of(region, tmp_path, stream), small_files_max=small_files)
    add(region, stream)
    archive(spark, options)
    (file,) = published(tmp_path)
    kept = file.read_bytes()
    damage(file)
    add(region, stream, 7)

    with pytest.raises(DamagedArchiveError, match=told) as raised:
        archive(spark, replace(options, trim_older_than_seconds=0.0))

    assert file.relative_to(tmp_path).as_posix() in str(raised.value)
    assert region.client.xlen(stream) == ENTRIES + 7

    # With the file in its place again nothing is missing, and what was read meanwhile is there.
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(kept)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    outcome = archive(spark, replace(options, trim_older_than_seconds=0.0))
    assert (outcome.entries_total, outcome.trimmed) == (ENTRIES + 7, ENTRIES + 7)
    assert read_archive(spark, options.path).count() == ENTRIES + 7


@pytest.mark.live
def test_a_state_that_goes_while_a_program_runs_stops_its_trim(
    spark: "SparkSession", region: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(region, tmp_path, b"stateless")
    add(region, b"stateless")
    real = archive_module._Run._publish

    def publish_and_lose(run: archive_module._Run, *, everywhere: bool = False) -> None:
        real(run, everywhere=everywhere)
        shutil.rmtree(tmp_path / "_archive" / "state")

    with monkeypatch.context() as patched:
        patched.setattr(archive_module._Run, "_publish", publish_and_lose)
        with pytest.raises(DamagedArchiveError, match=r"state is not as this program left it"):
            archive(spark, replace(options, trim_older_than_seconds=0.0))
    assert region.client.xlen(b"stateless") == ENTRIES

    for wanted in (options, replace(options, trim_older_than_seconds=0.0)):
        with pytest.raises(
            DamagedArchiveError, match=r"it was an archive\. Bring its _archive back"
        ):
            archive(spark, wanted)
    with pytest.raises(DamagedArchiveError, match="no state"):
        read_archive(spark, options.path)
    shutil.rmtree(tmp_path / "_archive")
    with pytest.raises(ArchiveError, match="has files of an archive and no _archive"):
        archive(spark, options)
    assert region.client.xlen(b"stateless") == ENTRIES


@pytest.mark.live
def test_a_trim_reads_only_files_with_entries_that_it_removes(
    spark: "SparkSession", region: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trim reads the files that hold what goes, not the whole archive."""
    options = options_of(region, tmp_path, b"by-time")
    read: list[str] = []
    real = LocalFolder.digest

    def noting(folder: LocalFolder, path: str) -> tuple[int, str]:
        if path.startswith("stream="):
            read.append(path)
        return real(folder, path)

    add(region, b"by-time")
    archive(spark, replace(options, trim_older_than_seconds=0.0))
    (first,) = published(tmp_path)
    add(region, b"by-time")
    monkeypatch.setattr(LocalFolder, "digest", noting)
    assert archive(spark, replace(options, trim_older_than_seconds=86_400.0)).trimmed == 0
    assert read == []

    assert archive(spark, replace(options, trim_older_than_seconds=0.0)).trimmed == ENTRIES
    assert len(published(tmp_path)) == 2
    (second,) = set(published(tmp_path)) - {first}
    assert read == [second.relative_to(tmp_path).as_posix()]


# --- Reading ------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_a_damaged_archive_is_not_replayed_reported_or_said_to_be_whole(
    spark: "SparkSession",
    region: Node,
    archived: Path,
    tmp_path: Path,
    damage: Damage,
    told: str,
) -> None:
    path = tmp_path / "archive"
    shutil.copytree(archived, path)
    assert verify(spark, str(path)).faults == ()
    (file,) = published(path)
    damage(file)
    nodes = options_of(region, path, b"damaged").nodes

    with pytest.raises(ArchiveError, match=told) as replayed:
        replay(spark, ReplayOptions(nodes, str(path), prefix=b"again-"))
    with pytest.raises(ReportError, match=told) as reported:
        report(spark, ReportOptions(nodes, output=str(tmp_path / "r"), archive=str(path)))
    verified = verify(spark, str(path))

    name = file.relative_to(path).as_posix()
    assert name in str(replayed.value)
    assert name in str(reported.value)
    assert [name in fault for fault in verified.faults] == [True]
    assert region.client.exists(b"again-damaged") == 0
    if damage in (remove, cut_off, remove_its_folder):
        with pytest.raises(DamagedArchiveError, match="Nothing was read"):
            read_archive(spark, str(path))


@pytest.mark.live
def test_streams_that_are_whole_are_replayed_from_a_damaged_archive(
    spark: "SparkSession", region: Node, tmp_path: Path
) -> None:
    for stream in (b"part:a", b"part:b"):
        add(region, stream)
    options = options_of(region, tmp_path, b"part:*")
    archive(spark, options)
    published(tmp_path)[0].unlink()

    def replayed(stream: bytes) -> int:
        wanted = ReplayOptions(options.nodes, str(tmp_path), streams=(stream,), prefix=b"copy-")
        return replay(spark, wanted).entries

    with pytest.raises(DamagedArchiveError, match="stream=part%3Aa"):
        replayed(b"part:a")
    assert replayed(b"part:b") == ENTRIES


@pytest.mark.live
def test_verify_tells_by_its_exit_status_and_names(
    spark: "SparkSession", archived: Path, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    shutil.copytree(archived, path)
    whole = CliRunner().invoke(app, ["archive", str(path), "--verify", "--json"])
    assert whole.exit_code == 0, whole.output
    assert json.loads(whole.stdout) | {"file_bytes": 0} == {
        "entries": ENTRIES,
        "files": 1,
        "file_bytes": 0,
        "faults": [],
    }
    (file,) = published(path)
    stranger = file.with_name("part-of-somebody.parquet")
    stranger.write_bytes(file.read_bytes())
    flip(file)

    broken = CliRunner().invoke(app, ["archive", str(path), "--verify", "--json"])

    assert broken.exit_code == 1
    first, second = json.loads(broken.stdout)["faults"]
    assert first == f"{file.relative_to(path)} has other content"
    assert second.startswith(f"{stranger.relative_to(path)} is no file of the archive")


def test_an_unpublished_batch_is_verified_too(
    spark: "SparkSession", archived: Path, tmp_path: Path
) -> None:
    from crdtstream.spark.jobs.publishing import write_segment
    from tests.spark.test_read_back import entries

    path = tmp_path / "archive"
    shutil.copytree(archived, path)
    folder = LocalFolder(path)
    state = load(folder)
    assert state is not None
    segment = write_segment(folder, entries(spark, range(10)))
    assert segment is not None
    commit(folder, replace(state, segments=(segment,), entries=state.entries + 10))
    assert verify(spark, str(path)).faults == ()

    shutil.rmtree(path / segment.path)

    (fault,) = verify(spark, str(path)).faults
    assert segment.path in fault


# --- The ledger ---------------------------------------------------------------------------------


@pytest.fixture(params=["local", "hadoop"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        return LocalFolder(tmp_path)
    return HadoopFolder(request.getfixturevalue("spark"), tmp_path.as_uri())


def test_a_ledger_names_what_is_in_the_files(folder: Folder, tmp_path: Path) -> None:
    path = "stream=s/date=2026-01-01/x.parquet"
    (tmp_path / path).parent.mkdir(parents=True)
    for values, span in (([5, 3, 9], (3, 9)), ([5, None], (None, None)), ([], (None, None))):
        pq.write_table(pa.table({"ms": pa.array(values, pa.int64())}), tmp_path / path)
        noted = note_all(folder, [path])[path]
        assert (noted.entries, noted.first_ms, noted.last_ms) == (len(values), *span)
        assert faults(folder, [noted], moving={}) == missing(folder, [noted], moving={}) == []
    assert noted.may_hold(0, 0)
    assert not replace(noted, first_ms=3).may_hold(0, 2)
    assert not replace(noted, last_ms=9).may_hold(10, 11)
    assert replace(noted, first_ms=3, last_ms=9).may_hold(9, 9)

    moved = replace(noted, path="stream=s/date=2026-01-01/y.parquet")
    for find in (faults, missing):
        assert find(folder, [moved], moving={}) == [f"{moved.path} is gone"]
        assert find(folder, [moved], moving={moved.path: path}) == []
    with pytest.raises(FolderError, match="is gone"):
        note_all(folder, [moved.path])


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_each_damage_is_found_in_the_file(tmp_path: Path, damage: Damage, told: str) -> None:
    folder, path = LocalFolder(tmp_path), "stream=s/date=2026-01-01/x.parquet"
    (tmp_path / path).parent.mkdir(parents=True)
    pq.write_table(pa.table({"dot": list(range(100)), "ms": list(range(100))}), tmp_path / path)
    noted = note_all(folder, [path]).values()
    assert faults(folder, noted, moving={}) == []

    damage(tmp_path / path)

    (fault,) = faults(folder, noted, moving={})
    assert fault.startswith(path)
    assert re.search(told, fault)
    # Existence and length alone would not tell these two.
    if damage not in (flip, exchange):
        assert missing(folder, noted, moving={}) == [fault]


def test_a_ledger_that_is_missing_or_changed_is_refused(folder: Folder, tmp_path: Path) -> None:
    name = write_ledger(folder, 7, {})
    assert read_ledger(folder, name) == read_ledger(folder, None) == {}
    assert State.of_json(State(ledger=name).to_json()).ledger == name

    (tmp_path / name.path).write_text('[["a",1,"",1,1,1]]')
    for crc in tmp_path.rglob(".*.crc"):
        crc.unlink()
    with pytest.raises(DamagedArchiveError, match="was changed"):
        read_ledger(folder, name)
    (tmp_path / name.path).unlink()
    with pytest.raises(DamagedArchiveError, match="is gone"):
        read_ledger(folder, name)
