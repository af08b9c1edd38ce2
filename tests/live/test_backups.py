"""Backups of running regions, restored, with real processes and disks."""

import contextlib
import json
import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner, Result

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.cli.start import program
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.upkeep.backup import write_backup
from crdtstream.v1 import admin_pb2 as pb
from tests.conftest import free_base_port
from tests.live.cluster import Cluster, Node, running_regions, vv_of
from tests.patience import wait_until


def run(*words: object) -> Result:
    return CliRunner().invoke(program(), [str(word) for word in words])


def done(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def cut_log(node: Node) -> None:
    """Have it write a checkpoint, and cut its log behind that."""
    node.client.execute_command("BGSAVE")
    wait_until(lambda: first_row_of(node.folder) > 1, "the log is cut")


def first_row_of(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as log:
        found = log.execute("SELECT value FROM meta WHERE key = 'log_first'").fetchone()
    return 1 if found is None else int(found[0])


def add(node: Node, count: int, key: str = "s") -> list[bytes]:
    return [node.client.xadd(key, {"value": index}) for index in range(count)]


def backed_up(node: Node, folder: Path) -> Path:
    done("backup", folder, "--address", node.grpc_address)
    return folder


def manifest_of(backup: Path) -> dict[int, int]:
    manifest = json.loads((backup / "manifest.json").read_text())
    return {int(region): n for region, n in manifest["cut"]["vv"].items()}


def test_a_region_restored_from_a_backup_comes_back_with_everything(
    two_regions: Cluster, tmp_path: Path
) -> None:
    """Written after the backup, known elsewhere: it is taken back, and no dot is used again."""
    first, second = two_regions.nodes.values()
    first.client.xgroup_create("s", "g", "0", mkstream=True)
    early = add(first, 5)
    first.client.xreadgroup("g", "alice", {"s": ">"}, count=3)
    two_regions.converge()
    at_backup = vv_of(first.status())
    backup = backed_up(first, tmp_path / "backup")
    assert manifest_of(backup) == at_backup
    late = add(first, 4)
    two_regions.converge()
    first.end(signal.SIGKILL)
    second.end()
    shutil.rmtree(first.folder)

    done("restore", backup, first.folder, "--config", first.config)
    first.launch()
    first.wait(for_writes=False)
    with pytest.raises(redis.ResponseError, match="waits for region 2"):
        first.client.xadd("s", {"f": "v"})
    assert [entry_id for entry_id, _ in first.client.xrange("s")] == early
    assert first.client.xpending("s", "g")["pending"] == 3
    second.start()
    first.wait()
    assert [entry_id for entry_id, _ in first.client.xrange("s")] == early + late
    before = vv_of(first.status())[1]
    (again,) = add(first, 1)
    assert again not in early + late
    status = two_regions.converge()
    assert vv_of(status)[1] == before + 1
    assert [entry_id for entry_id, _ in second.client.xrange("s")] == [*early, *late, again]


@pytest.mark.long
def test_a_backup_becomes_a_new_database(two_regions: Cluster, tmp_path: Path) -> None:
    first, second = two_regions.nodes.values()
    mine, theirs = add(first, 3), add(second, 2)
    two_regions.converge()
    old = first.status().database_uid
    backup = backed_up(first, tmp_path / "backup")
    for node in (first, second):
        node.end()
        shutil.rmtree(node.folder)
    two_regions.configure(database_id="copy")
    done("restore", backup, first.folder, "--new-database", "copy", "--config", first.config)
    # It waits for nobody.
    first.start()
    assert first.status().database_uid not in ("", old)
    (new,) = add(first, 1)
    second.start()
    (other,) = add(second, 1)
    two_regions.converge()
    found = {entry_id for entry_id, _ in second.client.xrange("s")}
    assert found == {*mine, *theirs, new, other}


@pytest.mark.long
def test_a_backup_with_members_becomes_a_new_database_beside_the_old_one(
    two_regions: Cluster, tmp_path: Path
) -> None:
    """The new one has the members of the old one, whose nodes answer at their addresses."""
    old, other = two_regions.nodes.values()
    named = f"fqdn=us,replication_endpoint={other.grpc_address}"
    update = ("crdb", "update", "--instance-id", "2", "--instance", named)
    done(*update, "--address", old.grpc_address)
    add(old, 1)
    two_regions.converge()
    before = old.status().database_uid, len(other.status().links)
    backup = backed_up(old, tmp_path / "backup")
    (tmp_path / "new").mkdir()
    node = Node(1, free_base_port(1), tmp_path / "new")
    node.configure({}, database_id="copy")
    done("restore", backup, node.folder, "--new-database", "copy")
    try:
        node.launch()
        node.wait()
        words = ("--instance-id", 2, "--force", "--without-majority", "--yes")
        done("crdb", "remove-instance", *words, "--address", node.grpc_address)
        assert not node.status().links
        assert (old.status().database_uid, len(other.status().links)) == before
        add(other, 1)
        two_regions.converge()
    finally:
        node.end(signal.SIGKILL)


def test_a_backup_is_the_state_of_a_moment_while_clients_write(
    two_regions: Cluster, tmp_path: Path
) -> None:
    """It has all writes acknowledged before, and each region's effects without a gap."""
    first = two_regions[1]
    before = add(first, 50)
    stop = threading.Event()

    def write() -> None:
        with contextlib.closing(first.connect()) as client:
            while not stop.is_set():
                client.xadd("busy", {"f": "v" * 1000})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        backup = backed_up(first, tmp_path / "backup")
    finally:
        stop.set()
        writer.join()
    vv = manifest_of(backup)
    assert vv[1] >= len(before)
    assert vv[1] <= vv_of(first.status())[1]
    checked = done("fsck", backup)
    assert f"version vector {','.join(f'{region}:{n}' for region, n in sorted(vv.items()))}" in (
        checked.output
    )
    # The node's own folder is as it would be without.
    assert {path.name for path in first.folder.iterdir()} == {
        "acknowledged", "lock", "opened", "reserve", LOG_FILE, f"{LOG_FILE}-wal", f"{LOG_FILE}-shm",
    }  # fmt: skip


@pytest.mark.long
def test_the_digest_of_a_backup_is_the_digest_of_its_node(
    two_regions: Cluster, tmp_path: Path
) -> None:
    first = two_regions[1]
    add(first, 20)
    first.client.set("k", "v")
    status = two_regions.converge()
    backup = backed_up(first, tmp_path / "backup")
    assert f"digest {status.digest}" in done("fsck", backup, "--expect", status.digest).output
    refused = run("fsck", backup, "--expect", "0" * 40)
    assert refused.exit_code == 1
    assert f"expected {'0' * 40}" in refused.output


@pytest.mark.long
def test_a_folder_in_use_is_neither_checked_nor_restored(
    two_regions: Cluster, tmp_path: Path
) -> None:
    first = two_regions[1]
    add(first, 3)
    backup = backed_up(first, tmp_path / "backup")
    for words in (("fsck", first.folder), ("restore", backup, first.folder)):
        refused = run(*words)
        assert refused.exit_code == 2
        assert "another process has this folder open; stop that node first" in refused.output
    # Showing it is safe.
    lines = [
        json.loads(line)
        for line in done("dump", first.folder, "--key", "s").stdout.split("\n")
        if line
    ]
    effects = [effect for line in lines[1:] for effect in line["effects"]]
    assert [effect["fields"] for effect in effects] == [[["value", str(n)]] for n in range(3)]
    add(first, 1)


def test_a_damaged_row_ends_the_backup_and_leaves_nothing(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        add(node, 5)
        with contextlib.closing(sqlite3.connect(node.folder / LOG_FILE)) as log, log:
            log.execute("UPDATE log SET batch = zeroblob(length(batch)) WHERE seq = 3")
        before = set(tmp_path.iterdir())
        refused = run("backup", tmp_path / "backup", "--address", node.grpc_address)
        assert refused.exit_code == 1
        assert "row 3 of table log is damaged (checksum): no backup can be made" in refused.output
        assert set(tmp_path.iterdir()) == before


def test_one_backup_at_a_time_and_another_after_one_that_was_killed(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        for _ in range(60):
            node.client.xadd("s", {"f": "v" * 500_000})
        with AdminClient(node.grpc_address) as first, AdminClient(node.grpc_address) as second:
            pieces = first.backup()
            # It waits for us to take the rest.
            next(pieces)
            with pytest.raises(AdminError, match="another backup of this node runs"):
                next(second.backup())
        # As when the program was killed: the connection is gone.
        wait_until(
            lambda: (
                run("backup", tmp_path / "backup", "--address", node.grpc_address).exit_code == 0
            ),
            "the node takes another backup",
        )
        assert {path.name for path in (tmp_path / "backup").iterdir()} == {
            LOG_FILE,
            "manifest.json",
        }


def test_a_node_that_dies_leaves_no_backup(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        for _ in range(60):
            node.client.xadd("s", {"f": "v" * 500_000})
        before = {path.name for path in tmp_path.iterdir()}

        def dying(pieces: Iterator[pb.BackupPiece]) -> Iterator[pb.BackupPiece]:
            yield next(pieces)
            node.end(signal.SIGKILL)
            yield from pieces

        with (
            AdminClient(node.grpc_address) as client,
            pytest.raises(AdminError, match="no region node answers"),
        ):
            write_backup(dying(client.backup()), tmp_path / "backup")
        assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.long
def test_a_region_whose_log_was_cut_comes_back_from_a_backup(
    three_regions: Cluster, tmp_path: Path
) -> None:
    """A checkpoint, what came after it, and what only the others know are put together again."""
    first = three_regions[1]
    early = add(first, 200)
    first.client.xgroup_create("s", "g", "0")
    first.client.xreadgroup("g", "alice", {"s": ">"}, count=30)
    three_regions.converge()
    cut_log(first)
    middle = add(first, 10)
    first.client.xack("s", "g", *early[:5])
    three_regions.converge()
    digest = first.status().digest
    backup = backed_up(first, tmp_path / "backup")
    done("fsck", backup, "--expect", digest)
    assert first_row_of(backup) > 1
    late = add(first, 7)
    three_regions.converge()
    first.end(signal.SIGKILL)
    shutil.rmtree(first.folder)

    done("restore", backup, first.folder, "--config", first.config)
    done("fsck", first.folder, "--expect", digest)
    first.launch()
    first.wait()
    assert [entry_id for entry_id, _ in first.client.xrange("s")] == early + middle + late
    assert first.client.xpending("s", "g")["pending"] == 25
    add(first, 3)
    three_regions.converge()
    assert len({node.status().digest for node in three_regions.nodes.values()}) == 1


@pytest.mark.long
def test_a_backup_of_a_cut_log_becomes_a_new_database(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        entries = add(node, 200)
        cut_log(node)
        entries += add(node, 5)
        digest = cluster.converge().digest
        backup = backed_up(node, tmp_path / "backup")
        node.end(signal.SIGKILL)
        shutil.rmtree(node.folder)
        cluster.configure(database_id="copy")
        done("restore", backup, node.folder, "--new-database", "copy", "--config", node.config)
        done("fsck", node.folder, "--expect", digest)
        node.start()
        assert node.client.execute_command("CRDT.DIGEST").decode() == digest
        entries += add(node, 1)
        assert [entry_id for entry_id, _ in node.client.xrange("s")] == entries
