"""A folder that goes under a running node: nothing more is acknowledged, and everyone is told."""

import contextlib
import json
import re
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.store.folder_lock import LOG_FILE
from tests.live.cluster import Node, running_regions
from tests.live.forked import completed
from tests.patience import seconds, wait_until

WAL = f"{LOG_FILE}-wal"


def files_of(process: int) -> dict[Path, Path]:
    """By its name, also one that was deleted, each file that a process has open."""
    files = {}
    for file in Path(f"/proc/{process}/fd").iterdir():
        # A connection may have been closed since.
        with contextlib.suppress(FileNotFoundError):
            files[Path(str(file.readlink()).removesuffix(" (deleted)"))] = file
    return files


def page(node: Node, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}{path}") as found:
            return found.status, json.load(found)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def crdtstream(*words: object) -> None:
    completed(["crdtstream", *map(str, words)]).check_returncode()


def is_refused(node: Node) -> bool:
    try:
        node.client.xadd("s", {"f": "v"})
    except redis.ResponseError as error:
        return "MISCONF" in str(error)
    return False


def delete(node: Node) -> None:
    shutil.rmtree(node.folder)


def move(node: Node) -> None:
    node.folder.rename(node.folder.with_name("elsewhere"))


def unlink_log(node: Node) -> None:
    (node.folder / LOG_FILE).unlink()


def unlink_wal(node: Node) -> None:
    (node.folder / WAL).unlink()


def replace(node: Node) -> None:
    """Another folder in its place, with files of the same names."""
    move(node)
    shutil.copytree(node.folder.with_name("elsewhere"), node.folder)


@pytest.mark.parametrize(
    "harm",
    [
        delete,
        unlink_wal,
        pytest.param(unlink_log, marks=pytest.mark.long),
        pytest.param(replace, marks=pytest.mark.long),
    ],
)
def test_writes_that_a_restart_would_not_find_are_not_acknowledged(
    tmp_path: Path, harm: Callable[[Node], None]
) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        node.client.xadd("s", {"f": "v"})
        harm(node)
        wait_until(lambda: is_refused(node), "the loss is noticed")
        reason = "while the node has it open"
        with pytest.raises(redis.ResponseError, match=rf"MISCONF .*{reason}.*do not stop the node"):
            node.client.xadd("s", {"f": "v"})
        with pytest.raises(redis.ResponseError, match=reason):
            node.client.save()
        assert node.client.execute_command("WAITAOF", 1, 0, 50) == [0, 0]
        # What was there is read.
        assert node.client.xlen("s") >= 1
        status, body = page(node, "/readyz")
        assert status == 503
        assert reason in body["reason"]
        assert reason in page(node, "/healthz")[1]["fault"]
        told = node.client.info("persistence")
        assert reason in str(told["writes_refused"])
        assert told["aof_last_write_status"] == "err"
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as metrics:
            text = metrics.read().decode()
        assert re.search(r'^crdtstream_writes_refused\{.*reason="disk".*\} 1', text, re.M)
        assert node.end() == 1
        assert "Traceback" not in node.log.read_text()


@pytest.mark.long
def test_a_folder_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        acknowledged = [node.client.xadd("s", {"f": "v"})]
        move(node)
        wait_until(lambda: is_refused(node), "the loss is noticed")
        node.folder.with_name("elsewhere").rename(node.folder)
        wait_until(lambda: page(node, "/readyz")[0] == 200, "the folder is found again")
        acknowledged.append(node.client.xadd("s", {"f": "v"}))
        node.client.save()
        node.end(signal.SIGKILL)
        node.start()
        assert set(acknowledged) <= {entry_id for entry_id, _ in node.client.xrange("s")}


@pytest.mark.long
def test_the_files_of_a_deleted_folder_are_saved_from_the_process(tmp_path: Path) -> None:
    """As docs/storage.md says."""
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        acknowledged = [node.client.xadd("s", {"f": "v"}) for _ in range(100)]
        delete(node)
        # By no write: one during which the loss is noticed is in the state, and perhaps in no file.
        wait_until(lambda: page(node, "/readyz")[0] != 200, "the loss is noticed")
        digest = node.client.execute_command("CRDT.DIGEST")
        assert node.process is not None
        node.folder.mkdir()
        files = files_of(node.process.pid)
        for name in (LOG_FILE, WAL):
            shutil.copy(files[node.folder / name], node.folder / name)
        node.end(signal.SIGKILL)
        node.start()
        assert node.client.execute_command("CRDT.DIGEST") == digest
        found = [entry_id for entry_id, _ in node.client.xrange("s")]
        assert found[: len(acknowledged)] == acknowledged


def test_a_loss_is_noticed_while_nobody_writes(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        wait_until(lambda: page(node, "/readyz")[0] == 200, "it is ready")
        delete(node)
        # It waits for no write.
        wait_until(lambda: page(node, "/readyz")[0] != 200, "the loss is noticed")


def test_a_deleted_folder_is_not_started_as_a_new_database(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        node.client.xadd("s", {"f": "v"})
        before = node.status().database_uid
        backup = tmp_path / "backup"
        crdtstream("backup", backup, "--address", node.grpc_address)
        node.end(signal.SIGKILL)
        delete(node)
        assert node.launch().wait(seconds()) == 1
        node.process = None
        assert not node.folder.exists()
        told = node.log.read_text()
        assert f"has held region 1 of database 'crdb', identity {before}" in told
        assert "restore a backup" in told

        # The two ways that the message names.
        node.start("--new-database")
        assert node.status().database_uid != before
        assert node.client.xlen("s") == 0
        node.end(signal.SIGKILL)
        delete(node)
        crdtstream("restore", backup, node.folder)
        node.start()
        assert node.client.xlen("s") == 1
        assert node.status().database_uid == before
        node.end(signal.SIGKILL)
        # The marker is of what is in the folder now.
        delete(node)
        assert node.launch().wait(seconds()) == 1
        node.process = None
        assert node.log.read_text().rstrip().endswith("start with --new-database")
        assert f"identity {before}" in node.log.read_text().splitlines()[-1]
