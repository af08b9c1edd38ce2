"""One folder, one process: whatever becomes of the file ``lock``."""

import signal
import subprocess
from pathlib import Path

from tests.live.cluster import Node, running_regions
from tests.live.forked import completed
from tests.patience import seconds

IN_USE = "another process has this folder open; stop that node first"


def crdtstream(*words: object) -> "subprocess.CompletedProcess[str]":
    return completed(["crdtstream", *map(str, words)])


def test_a_folder_without_its_lock_file_still_takes_one_node(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        acknowledged = [node.client.xadd("s", {"f": "v"}) for _ in range(30)]
        (node.folder / "lock").unlink()

        second = Node(1, node.resp_port + 100, tmp_path)
        second.config = tmp_path / "second.toml"
        second.log = tmp_path / "second.log"
        second.configure({})
        assert second.launch().wait(seconds()) == 1
        second.process = None
        assert IN_USE in second.log.read_text()
        # Neither does a program for folders come between.
        assert IN_USE in crdtstream("fsck", node.folder).stderr

        acknowledged += [node.client.xadd("s", {"f": "v"}) for _ in range(30)]
        node.end(signal.SIGKILL)
        node.start()
        assert [entry_id for entry_id, _ in node.client.xrange("s")] == acknowledged
        node.end()
        assert crdtstream("fsck", node.folder).returncode == 0
