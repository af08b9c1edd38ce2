"""Folders that are restored, wiped or of format 5, with real processes and disks."""

import contextlib
import shutil
import signal
import sqlite3
from functools import partial
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.opening import OPENED_FILE
from crdtstream.upkeep.backup import write_meta
from tests.live.cluster import Cluster, Node
from tests.patience import seconds, wait_until


def names(node: Node, peer: int, uid: str) -> bool:
    """True if the link from a peer is refused with this identity."""
    return uid in node.link(peer).error


def add(node: Node, count: int) -> None:
    for index in range(count):
        node.client.xadd("s", {"value": index})


def refusal(node: Node) -> str:
    with pytest.raises(redis.ResponseError) as refused:
        node.client.xadd("s", {"f": "v"})
    return str(refused.value)


@pytest.mark.parametrize(
    "way",
    [
        "as new files",
        pytest.param("in place", marks=pytest.mark.long),
        pytest.param("after a kill", marks=pytest.mark.long),
        pytest.param("in another folder", marks=pytest.mark.long),
    ],
)
def test_a_restored_folder_takes_no_write_while_a_member_is_away(
    two_regions: Cluster, tmp_path: Path, way: str
) -> None:
    """With ``appendfsync always``: the log has all it ever had, and is an earlier state of it."""
    first, second = two_regions.nodes.values()
    add(first, 5)
    if way == "after a kill":
        first.end(signal.SIGKILL)
    else:
        first.end()
    backup = tmp_path / "backup"
    shutil.copytree(first.folder, backup)
    first.start()
    add(first, 3)
    two_regions.converge()
    first.end(signal.SIGKILL)
    second.end()
    if way == "in place":
        for path in first.folder.iterdir():
            if not (backup / path.name).exists():
                path.unlink()
        for path in backup.iterdir():
            shutil.copyfile(path, first.folder / path.name)
    else:
        shutil.rmtree(first.folder)
        if way == "in another folder":
            first.folder = tmp_path / "elsewhere"
            first.configure({2: second.grpc_address})
        shutil.copytree(backup, first.folder)
    first.launch()
    first.wait(for_writes=False)
    assert "MISCONF the folder of region 1 is fresh, copied or restored" in refusal(first)
    assert "waits for region 2" in refusal(first)
    assert first.client.xlen("s") == 5
    second.start()
    first.wait()
    assert first.client.xlen("s") == 8
    add(first, 1)
    two_regions.converge()
    assert second.client.xlen("s") == 9


@pytest.mark.long
def test_a_wiped_folder_takes_no_write_while_a_member_is_away(two_regions: Cluster) -> None:
    first, second = two_regions.nodes.values()
    add(first, 5)
    two_regions.converge()
    first.end(signal.SIGKILL)
    second.end()
    shutil.rmtree(first.folder)
    first.launch()
    first.wait(for_writes=False)
    assert "waits for region 2" in refusal(first)
    second.start()
    first.wait()
    assert first.client.xlen("s") == 5
    assert first.status().database_uid == second.status().database_uid
    add(first, 6)
    two_regions.converge()


@pytest.mark.long
def test_a_region_that_goes_on_with_its_own_folder_waits_for_nobody(two_regions: Cluster) -> None:
    first, second = two_regions.nodes.values()
    add(first, 5)
    second.end()
    for number in (signal.SIGTERM, signal.SIGKILL):
        first.end(number)
        first.start()
        add(first, 1)
    second.start()
    two_regions.converge()


@pytest.mark.long
def test_a_new_database_may_begin_with_one_region(tmp_path: Path) -> None:
    cluster = Cluster(2, tmp_path)
    first, second = cluster.nodes.values()
    cluster.configure()
    try:
        first.launch()
        first.wait(for_writes=False)
        told = refusal(first)
        assert "waits for region 2" in told
        assert "start one region with --new-database" in told
        first.end()
        shutil.rmtree(first.folder)
        first.start("--new-database")
        add(first, 3)
        second.start()
        cluster.converge()
        assert second.client.xlen("s") == 3
        assert first.status().database_uid == second.status().database_uid
        first.end()
        assert first.launch("--new-database").wait(seconds()) == 1
        first.process = None
        assert "start without --new-database, or with an empty folder" in first.log.read_text()
    finally:
        for node in cluster.nodes.values():
            if node.process is not None:
                node.end(signal.SIGKILL)


def test_regions_of_two_databases_refuse_each_other(two_regions: Cluster) -> None:
    first, second = two_regions.nodes.values()
    add(first, 3)
    two_regions.converge()
    old = first.status().database_uid
    first.end()
    shutil.rmtree(first.folder)
    first.start("--new-database")
    new = first.status().database_uid
    assert old != new
    add(first, 3)
    for node, peer in ((first, 2), (second, 1)):
        wait_until(partial(names, node, peer, old), "it says which")
        assert new in node.link(peer).error
    waited = CliRunner().invoke(
        program(),
        ["sync", "wait", "--address", first.grpc_address, "--address", second.grpc_address],
    )
    assert waited.exit_code == 1
    assert "several databases" in waited.output
    assert f"{old}: region 2" in waited.output
    assert [entry for entry, _ in second.client.xrange("s")] != [
        entry for entry, _ in first.client.xrange("s")
    ]
    assert second.client.xlen("s") == 3


@pytest.mark.long
def test_folders_of_format_5_that_have_no_identity_are_read_and_agree_on_one(
    two_regions: Cluster,
) -> None:
    first, second = two_regions.nodes.values()
    add(first, 3)
    add(second, 4)
    two_regions.converge()
    for node in (first, second):
        node.end()
        (node.folder / OPENED_FILE).unlink()
        with contextlib.closing(sqlite3.connect(node.folder / LOG_FILE)) as log, log:
            settings = dict(log.execute("SELECT key, value FROM meta"))
            for name in ("format", "opening", "fsync", "database_uid", "database_declared"):
                settings.pop(name, None)
            write_meta(log, {**settings, "format_version": "5"})
    second.launch()
    second.wait(for_writes=False)
    assert "waits for region 1" in refusal(second)
    first.launch()
    first.wait()
    second.wait()
    assert first.status().database_uid == second.status().database_uid != ""
    add(first, 1)
    add(second, 1)
    two_regions.converge()
    assert first.client.xlen("s") == 9
