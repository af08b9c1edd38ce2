"""A damaged write-ahead log in a copy of a folder: nothing of it is lost without a word."""

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.wal import FRAME_HEADER_BYTES, HEADER_BYTES, check_wal
from tests.live.cluster import Node, running_regions
from tests.patience import seconds, wait_until

ENTRIES = 200
WAL = f"{LOG_FILE}-wal"


def cp_r(node: Node, copy: Path) -> None:
    subprocess.run(["cp", "-r", str(node.folder), str(copy)], check=True)


def cp_log(node: Node, copy: Path) -> None:
    """The database's files alone."""
    copy.mkdir()
    for path in node.folder.glob(f"{LOG_FILE}*"):
        shutil.copy(path, copy)


def cp_a(node: Node, copy: Path) -> None:
    """As rsync -a and an image have it: new files with the times of the old ones."""
    subprocess.run(["cp", "-a", str(node.folder), str(copy)], check=True)


def flip(folder: Path) -> None:
    wal = folder / WAL
    frame = check_wal(wal).committed * 4 // 5
    data = bytearray(wal.read_bytes())
    data[HEADER_BYTES + frame * (FRAME_HEADER_BYTES + 4096) + 1000] ^= 1
    wal.write_bytes(data)


def move_to(node: Node, folder: Path) -> None:
    """The node's settings name another folder from now on."""
    node.config.write_text(node.config.read_text().replace(str(node.folder), str(folder)))
    node.folder = folder


COPIES = pytest.mark.parametrize(
    ("copy", "is_killed", "appendfsync"),
    [
        (cp_r, False, "always"),
        pytest.param(cp_log, True, "everysec", marks=pytest.mark.long),
        pytest.param(cp_r, True, "everysec", marks=pytest.mark.long),
        pytest.param(cp_log, False, "always", marks=pytest.mark.long),
        pytest.param(cp_a, False, "everysec", marks=pytest.mark.long),
        pytest.param(cp_a, True, "always", marks=pytest.mark.long),
    ],
)


@pytest.mark.long
@COPIES
def test_a_copy_whose_end_is_lost_is_not_started_alone(
    tmp_path: Path, copy: Callable[[Node, Path], None], appendfsync: str, *, is_killed: bool
) -> None:
    with running_regions(1, tmp_path, appendfsync=appendfsync) as cluster:
        node = cluster[1]
        acknowledged = [node.client.xadd("s", {"f": "v"}) for _ in range(ENTRIES)]
        before = node.status().database_uid
        if is_killed:
            node.end(signal.SIGKILL)
        copy(node, tmp_path / "copy")
        if not is_killed:
            node.end(signal.SIGKILL)
        flip(tmp_path / "copy")
        move_to(node, tmp_path / "copy")
        for _ in range(2):
            assert node.launch().wait(seconds()) == 1
            node.process = None
        told = node.log.read_text()
        assert "lost" in told
        assert "start once with crdtstream node --accept-loss" in told

        # As the message says.
        node.start("--accept-loss")
        found = [entry_id for entry_id, _ in node.client.xrange("s")]
        assert 0 < len(found) < ENTRIES
        assert found == acknowledged[: len(found)]
        assert node.status().database_uid != before
        assert "the end of the log is lost" in node.log.read_text()
        added = node.client.xadd("s", {"f": "v"})
        node.end(signal.SIGKILL)
        node.start()
        assert [entry_id for entry_id, _ in node.client.xrange("s")] == [*found, added]


@COPIES
def test_a_copy_whose_end_is_lost_takes_it_back_from_its_peers(
    tmp_path: Path, copy: Callable[[Node, Path], None], appendfsync: str, *, is_killed: bool
) -> None:
    with running_regions(2, tmp_path, appendfsync=appendfsync) as cluster:
        node = cluster[1]
        acknowledged = [node.client.xadd("s", {"f": "v"}) for _ in range(ENTRIES)]
        before = cluster.converge().database_uid
        if is_killed:
            node.end(signal.SIGKILL)
        copy(node, tmp_path / "copy")
        if not is_killed:
            node.end(signal.SIGKILL)
        flip(tmp_path / "copy")
        move_to(node, tmp_path / "copy")
        cluster[2].end(signal.SIGKILL)
        node.launch()
        node.wait(for_writes=False)
        assert "the end of the log is lost" in node.log.read_text()
        # Before the peer has answered nothing is written.
        wait_until(lambda: "waits for region 2" in node.status().fault, "it says so")
        cluster[2].start()
        node.wait()
        node.client.xadd("s", {"f": "v"})
        cluster.converge()
        found = [entry_id for entry_id, _ in node.client.xrange("s")]
        assert found[:-1] == acknowledged
        assert node.status().database_uid == before
