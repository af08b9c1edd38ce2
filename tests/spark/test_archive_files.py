"""Contents of an archive's folder: names that are safe, files, commits in one step."""

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crdtstream.spark.jobs.archive_layout import (
    LABEL_BYTES_MAX,
    key_of,
    label_of,
    matching,
)
from crdtstream.spark.jobs.archive_state import (
    Move,
    Publication,
    Segment,
    State,
    commit,
    load,
)
from crdtstream.spark.jobs.folder import (
    ArchiveError,
    Folder,
    FolderError,
    HadoopFolder,
    LocalFolder,
    TakenError,
    folder_at,
)
from crdtstream.spark.vectors import Vector
from tests.spark.odd_names import ODD_NAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# --- Names --------------------------------------------------------------------------------------


def test_labels_differ_as_names_do_and_tell_the_name() -> None:
    labels = {label_of(name) for name in ODD_NAMES}

    assert len(labels) == len(ODD_NAMES)
    assert all(0 < len(label.encode()) <= LABEL_BYTES_MAX for label in labels)
    for name in ODD_NAMES:
        assert key_of(label_of(name)) in (name, None)
    assert [name for name in ODD_NAMES if key_of(label_of(name)) is None] == ODD_NAMES[-4:]


@pytest.mark.parametrize(
    "name", ["messages", "orders:eu", "1001", "0", "naïve/ä", "a b", "2024-orders", "info", "EWR"]
)
def test_common_names_are_labels_as_they_are(name: str) -> None:
    assert label_of(name.encode()) == name


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        (b"a*", b"abc", True),
        (b"a*", b"ba", False),
        (b"a?c", b"a\nc", True),
        (b"a?c", b"ac", False),
        (b"[a-c]x", b"bx", True),
        (b"[^a-c]x", b"bx", False),
        (b"[^a-c]x", b"dx", True),
        (b"[c-a]x", b"bx", True),
        (b"a\\*", b"a*", True),
        (b"a\\*", b"ab", False),
        (b"[]x", b"x", False),
        (b"[a\\]]x", b"]x", True),
        (b"a.c", b"abc", False),
        (b"\xff*", b"\xff\x00", True),
    ],
)
def test_patterns_match_as_keys_does(pattern: bytes, key: bytes, *, matches: bool) -> None:
    assert matching([pattern], key) is matches
    assert matching([], key)


# --- The folder ---------------------------------------------------------------------------------


@pytest.fixture(params=["local", "hadoop"])
def folder(request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path) -> Folder:
    """The same folder, as this machine's and as one that Hadoop reaches."""
    root = tmp_path / "a folder"
    root.mkdir()
    if request.param == "local":
        return LocalFolder(root)
    return HadoopFolder(spark, root.as_uri())


def test_a_file_is_created_once(folder: Folder) -> None:
    folder.create("x/y", b"one")
    with pytest.raises(TakenError):
        folder.create("x/y", b"two")

    assert folder.read("x/y") == b"one"
    assert folder.names("x") == ["y"]


def test_of_many_that_create_the_same_file_one_does(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    taken = []

    def create(number: int) -> None:
        try:
            folder.create("state/1", b"%d" % number)
        except TakenError:
            taken.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(taken) == 7
    assert int(folder.read("state/1")) in set(range(8)) - set(taken)
    assert folder.names("state") == ["1"]


def test_replacing_and_deleting(folder: Folder) -> None:
    folder.create("a", b"old")
    folder.create("deep/b", b"new")
    folder.replace("deep/b", "a")
    folder.create("deep/c", b"")
    folder.replace("deep/c", "stream=x%2Fy/date=1/c")

    assert folder.read("a") == b"new"
    assert [file.path for file in folder.files("")] == ["a", "stream=x%2Fy/date=1/c"]
    assert folder.exists("stream=x%2Fy")
    folder.delete("stream=x%2Fy")
    folder.delete("never/there")
    assert [file.path for file in folder.files("")] == ["a"]
    assert folder.files("nowhere") == [] == folder.names("nowhere")
    with pytest.raises(FileNotFoundError):
        folder.read("nowhere")


def test_a_path_without_a_scheme_is_one_of_this_machine(
    spark: "SparkSession", tmp_path: Path
) -> None:
    assert isinstance(folder_at(spark, str(tmp_path)), LocalFolder)
    assert isinstance(folder_at(spark, tmp_path.as_uri()), LocalFolder)
    with pytest.raises(FolderError, match="S3AFileSystem"):
        folder_at(spark, "s3a://bucket/archive")
    with pytest.raises(FolderError, match="no name"):
        folder_at(spark, " ")


def test_two_programs_cannot_have_one_folder(tmp_path: Path) -> None:
    with (
        LocalFolder(tmp_path).claimed(),
        pytest.raises(TakenError, match="another program"),
        LocalFolder(tmp_path).claimed(),
    ):
        pass
    with LocalFolder(tmp_path).claimed():
        pass


# --- The state ----------------------------------------------------------------------------------


def test_the_state_reads_back(folder: Folder) -> None:
    assert load(folder) is None
    state = commit(
        folder,
        State(
            database="d",
            streams=("a*", "\udcff"),
            query="q",
            batch=3,
            vector=Vector({1: 5, 2: 2**63}, {2: "@1764012345678"}),
            beyond=Vector({3: 9}),
            entries=7,
            segments=(Segment("_archive/segments/x", 7, 100, 11),),
            publication=Publication(4, "staging", (Move(("old",), (("new", "name"),)),), ("x",), 7),
        ),
    )

    assert load(folder) == state
    assert state.version == 1


def test_of_two_programs_the_slower_one_cannot_commit(folder: Folder) -> None:
    state = commit(folder, State())
    newer = commit(folder, State(version=state.version, batch=7))

    with pytest.raises(ArchiveError, match="another program"):
        commit(folder, State(version=state.version, batch=8))
    assert load(folder) == newer


def test_a_state_that_is_not_ours_is_not_taken_for_an_empty_archive(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    path = tmp_path / "_archive" / "state" / f"{1:020}.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(ArchiveError, match="damaged"):
        load(folder)
    path.write_text(json.dumps({"format": 1_000}))
    with pytest.raises(ArchiveError, match="newer version"):
        load(folder)
