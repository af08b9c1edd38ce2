"""File systems that are full, that turn read-only, files that nobody may write: real ones.

They are made and mounted by root: by who runs the tests, or by ``sudo`` where that asks nothing.
"""

import contextlib
import os
import re
import signal
import subprocess
from base64 import b85encode
from collections.abc import Iterator
from pathlib import Path
from random import randbytes
from typing import Any, Final

import pytest
import redis

from crdtstream.store.folder_lock import LOG_FILE
from tests.conftest import require
from tests.live.cluster import Node, cluster_of
from tests.patience import wait_until

MIB: Final = 1 << 20
# What the node may fill, and what its checkpoints have of that.
DISK_BYTES: Final = 64 * MIB
ENTRIES: Final = 3_000
# It cannot be made much smaller.
TEXT: Final = b85encode(randbytes(8_000)).decode()


def as_root(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a program as root."""
    before = () if os.geteuid() == 0 else ("sudo", "-n")
    return subprocess.run([*before, *command], capture_output=True, text=True, check=False)


def must(*command: str) -> None:
    """Run a program as root; skips the test, or fails it, where that is not allowed."""
    done = as_root(*command)
    require(done.returncode == 0, f"`{' '.join(command)}` as root: {done.stderr.strip()}")


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A file system of its own, for as long as the block takes."""
    folder.mkdir()
    must("mount", *options, str(folder))
    try:
        must("chmod", "777", str(folder))
        yield folder
    finally:
        # Lazily: the JVM keeps files open that a task of its could not write.
        as_root("umount", "--lazy", str(folder))


def fill(node: Node) -> None:
    """Entries of which some are on disk only."""
    pipe = node.client.pipeline(transaction=False)
    for index in range(1, ENTRIES + 1):
        pipe.xadd("s", {"index": index, "text": os.urandom(100).hex()}, id=f"{index}-*")
    pipe.execute()
    saved = int(node.client.info("persistence")["checkpoint_record"])
    node.client.bgsave()
    wait_until(lambda: node.client.info("persistence")["checkpoint_record"] > saved, "a checkpoint")
    node.end()
    # What a start finds in a checkpoint is on disk only.
    node.start()
    assert node.client.info("persistence")["macro_nodes_on_disk_only"] > 0


def write_until_refused(node: Node, acknowledged: list[bytes]) -> str:
    """Write until it is refused; the error."""
    for _ in range(2 * DISK_BYTES // len(TEXT)):
        try:
            acknowledged.append(node.client.xadd("t", {"f": TEXT}))
        except redis.ResponseError as error:
            return str(error)
    raise AssertionError("nothing was refused")


def takes_writes(node: Node, acknowledged: list[bytes]) -> bool:
    try:
        acknowledged.append(node.client.xadd("t", {"f": "again"}))
    except redis.ResponseError:
        return False
    return True


def check_refusing(node: Node, reason: str) -> None:
    """Writes are refused with a reason that all can see; what is sound is served."""
    for command in (("XADD", "t", "*", "f", "v"), ("XDEL", "s", "1-1"), ("PING",)):
        with pytest.raises(redis.ResponseError, match=f"MISCONF .*({reason})"):
            node.client.execute_command(*command)
    told = node.client.info("persistence")
    assert re.search(reason, str(told["writes_refused"]))
    assert told["aof_last_write_status"] == "err"
    assert re.search(reason, node.status().fault)
    # Entries that are on disk only, too.
    entries: Any = node.client.xrange("s")
    assert len(entries) == ENTRIES
    assert node.client.xlen("t") > 0


def check_kept(node: Node, acknowledged: list[bytes]) -> None:
    """After a kill it has all that was acknowledged, and what it had."""
    digest = node.client.execute_command("CRDT.DIGEST")
    node.end(signal.SIGKILL)
    node.start()
    assert node.client.execute_command("CRDT.DIGEST") == digest
    assert set(acknowledged) <= {entry_id for entry_id, _ in node.client.xrange("t")}
    assert len(node.client.xrange("s")) == ENTRIES


def leave_little(ballast: Path) -> None:
    """Take all room on a file's disk but 2 MiB, also while others take some."""
    size = 0
    with ballast.open("wb") as file:
        with contextlib.suppress(OSError):
            while True:
                os.posix_fallocate(file.fileno(), size, MIB)
                size += MIB
        file.truncate(size - 2 * MIB)


def take_all(ballast: Path) -> None:
    """Take what room is left, to the last byte."""
    with ballast.open("ab") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(512))


@pytest.mark.long
def test_a_full_file_system_is_used_again_when_there_is_room(tmp_path: Path) -> None:
    options = ("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none")
    with mounted(tmp_path / "disk", *options) as disk, cluster_of(1, tmp_path) as regions:
        node = regions[1]
        node.folder = disk / "region"
        regions.configure()
        node.start()
        fill(node)
        ballast = disk / "ballast"
        leave_little(ballast)
        acknowledged: list[bytes] = []
        error = write_until_refused(node, acknowledged)
        assert "database or disk is full" in error or "outcome is unknown" in error
        check_refusing(node, "disk is full")
        failures = node.client.info("persistence")["checkpoint_failures"]
        node.client.execute_command("BGSAVE")
        wait_until(
            lambda: node.client.info("persistence")["checkpoint_failures"] > failures,
            "a checkpoint that finds no room",
        )
        ballast.unlink()
        wait_until(lambda: takes_writes(node, acknowledged), "the room is used")
        assert node.client.info("persistence")["writes_refused"] == "no"
        check_kept(node, acknowledged)


@pytest.mark.long
@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
def test_a_node_that_is_killed_on_a_full_disk_starts_for_reading(
    tmp_path: Path, appendfsync: str
) -> None:
    options = ("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none")
    with mounted(tmp_path / "disk", *options) as disk, cluster_of(1, tmp_path) as regions:
        node = regions[1]
        node.folder = disk / "region"
        regions.configure(appendfsync=appendfsync)
        node.start()
        fill(node)
        ballast = disk / "ballast"
        leave_little(ballast)
        acknowledged: list[bytes] = []
        write_until_refused(node, acknowledged)
        for _ in range(2):
            node.end(signal.SIGKILL)
            take_all(disk / "more")
            node.launch()
            node.wait(for_writes=False)
            write_until_refused(node, acknowledged)
            check_refusing(node, "disk is full|disk has no room")
            assert set(acknowledged) <= {entry_id for entry_id, _ in node.client.xrange("t")}
        ballast.unlink()
        wait_until(lambda: takes_writes(node, acknowledged), "the room is used")
        assert node.client.info("persistence")["writes_refused"] == "no"
        check_kept(node, acknowledged)


@pytest.mark.long
def test_a_file_that_nobody_may_write_is_used_again_when_one_may(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as regions:
        regions.configure()
        node = regions[1]
        node.start()
        fill(node)
        acknowledged: list[bytes] = []
        assert takes_writes(node, acknowledged)
        files = [str(node.folder / name) for name in (LOG_FILE, f"{LOG_FILE}-wal")]
        # Unlike its mode, this holds for who has it open, and for root.
        must("chattr", "+i", *files)
        try:
            error = write_until_refused(node, acknowledged)
            assert "cannot write row" in error or "outcome is unknown" in error
            check_refusing(node, "log.sqlite")
        finally:
            as_root("chattr", "-i", *files)
        wait_until(lambda: takes_writes(node, acknowledged), "the file is written again")
        check_kept(node, acknowledged)


@pytest.mark.long
def test_a_file_system_that_turned_read_only_is_read(tmp_path: Path) -> None:
    """As ext4 does after an error of the disk; only mounting it anew has it written again."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, DISK_BYTES)
    must("mkfs.ext4", "-q", "-F", str(image))
    options = ("-o", "loop,errors=remount-ro", str(image))
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(mounted(tmp_path / "disk", *options))
        regions = stack.enter_context(cluster_of(1, tmp_path))
        node = regions[1]
        node.folder = disk / "region"
        regions.configure()
        node.start()
        fill(node)
        acknowledged: list[bytes] = []
        assert takes_writes(node, acknowledged)
        device = Path(_source_of(disk)).name
        must("sh", "-c", f"echo 1 > /sys/fs/ext4/{device}/trigger_fs_error")
        error = write_until_refused(node, acknowledged)
        assert "cannot write row" in error or "outcome is unknown" in error
        check_refusing(node, "log.sqlite")
        # It ends as it is told to, and says why it did not end well.
        assert node.end() == 1
        *before, last = node.log.read_text().splitlines()
        assert not any("Traceback" in line for line in before)
        assert re.match(r"region 1: .*cannot write row", last)
        must("umount", str(disk))
        # 1: there was something to mend, and it was.
        assert as_root("fsck.ext4", "-p", "-f", str(image)).returncode in (0, 1)
        must("mount", *options, str(disk))
        node.start()
        assert takes_writes(node, acknowledged)
        check_kept(node, acknowledged)


def _source_of(disk: Path) -> str:
    return as_root("findmnt", "-n", "-o", "SOURCE", str(disk)).stdout.strip()
