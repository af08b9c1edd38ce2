"""``crdtstream crdb repair`` between real nodes: under load, twice, and killed at each step."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crdtstream.store.failpoints import EXIT_STATUS
from tests.live.bootstraps import level
from tests.live.cluster import Cluster, Node, cluster_of
from tests.live.test_members import crdb
from tests.live.test_verify import level_vectors, load, plant, started, verified
from tests.patience import seconds, wait_until


def repaired(node: Node, *words: str) -> "subprocess.CompletedProcess[str]":
    return crdb(node, "repair", "flights", "--instance-id", "2", "--source", "1", *words)


def damaged(cluster: Cluster) -> None:
    """Region 2 has another field in the 18th entry, which it has delivered, and it is level."""
    started(cluster)
    cluster[2].client.xgroup_create("flights", "its", "0")
    cluster[2].client.xreadgroup("its", "c", {"flights": ">"}, count=25)
    level(*cluster.nodes.values())
    plant(cluster[2])
    level_vectors(cluster)


def field_of(node: Node) -> bytes:
    entries: Any = node.client.xrange("flights")
    found: bytes = next(
        fields[b"from"] for _, fields in entries if fields[b"from"][-2:] in (b"17", b"71")
    )
    return found


@pytest.mark.long
def test_a_damaged_stream_is_replaced_while_clients_write(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with cluster_of(3, tmp_path) as cluster:
        damaged(cluster)
        pending = cluster[2].client.xpending("flights", "its")["pending"]
        assert field_of(cluster[2]) == b"airport-71"
        with load(cluster[1], cluster[3]):
            run = repaired(cluster[1], "--dry-run")
            assert run.returncode == 0, run.stdout + run.stderr
            assert "key flights: lane 1 differs from region 1" in run.stdout
            assert "Nothing has changed" in run.stdout
            run = repaired(cluster[1], "--yes", "--json", "--backup", str(backup))
        assert run.returncode == 0, run.stdout + run.stderr
        told = json.loads(run.stdout)
        assert told["repaired"]
        assert [one["part"] for one in told["differences"]] == ["lane"]
        level(*cluster.nodes.values())
        status, _ = verified(cluster[1])
        assert status == 0
        assert cluster[2].client.xpending("flights", "its")["pending"] == pending
        # Twice does no harm.
        run = repaired(cluster[3], "--yes", "--backup", str(tmp_path / "another"))
        assert run.returncode == 1
        assert "Nothing to repair" in run.stdout
        cluster[2].client.xadd("flights", {"from": "later"})
        cluster[2].end(signal.SIGKILL)
        cluster[2].start()
        level(*cluster.nodes.values())
    fsck = subprocess.run(
        [sys.executable, "-m", "crdtstream", "fsck", str(backup)],
        capture_output=True,
        text=True,
        check=False,
    )
    # The backup is whole, and has the damage: the log says something else than the checkpoint.
    assert fsck.returncode == 1, fsck.stdout
    found = [line.split() for line in fsck.stdout.splitlines() if "DAMAGE" in line]
    assert [line[:2] for line in found] == [["checkpoints", "DAMAGE"]], fsck.stdout


# Where the node is killed, and whether the damage is gone then; None: as the kernel has it.
STEPS = {
    "staging.begin": False,
    "staging.put-done": False,
    "staging.completed": False,
    "repair.staged": False,
    "repair.proved": False,
    "repair.merged": None,
    "repair.logged": True,
    "checkpoint.commit": True,
    "bootstrap.saved": True,
    # It is reached first where another copy is begun.
    "staging.discard": None,
}
IN_EVERY_RUN = {"repair.merged"}


@pytest.mark.parametrize(
    "step",
    [pytest.param(one, marks=[] if one in IN_EVERY_RUN else [pytest.mark.long]) for one in STEPS],
)
def test_a_region_that_is_killed_has_the_old_key_or_the_new_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster_of(2, tmp_path) as cluster:
        damaged(cluster)
        node = cluster[2]
        node.end(signal.SIGKILL)
        monkeypatch.setenv("CRDTSTREAM_DRILL_FAILPOINTS", "1")
        monkeypatch.setenv("CRDTSTREAM_DRILL__FAILPOINT", step)
        node.start()
        monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
        level_vectors(cluster)
        run = repaired(cluster[1], "--yes", "--backup", str(tmp_path / "backup"))
        assert node.process is not None
        assert node.process.wait(seconds()) == EXIT_STATUS, run.stderr
        node.start()
        level_vectors(cluster)
        found = field_of(node)
        is_repaired = STEPS[step]
        if is_repaired is not None:
            assert found == (b"airport-17" if is_repaired else b"airport-71")
        pending = node.client.xpending("flights", "its")["pending"]
        assert pending == 25
        run = repaired(cluster[1], "--yes", "--backup", str(tmp_path / "another"))
        assert run.returncode == (1 if found == b"airport-17" else 0), run.stdout + run.stderr
        level(*cluster.nodes.values())
        assert field_of(node) == b"airport-17"


@pytest.mark.long
def test_impossible_repairs_are_refused(tmp_path: Path) -> None:
    with cluster_of(2, tmp_path) as cluster:
        damaged(cluster)
        run = crdb(cluster[1], "repair", "flights", "--instance-id", "1", "--source", "1")
        assert run.returncode == 2
        assert "the same region" in run.stderr
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").touch()
        run = repaired(cluster[1], "--yes", "--backup", str(tmp_path / "full"))
        assert run.returncode == 2
        run = repaired(cluster[1])
        # Nobody has said yes.
        assert run.returncode == 1
        for node in cluster.nodes.values():
            node.set_links(paused=True)
        wait_until(lambda: cluster[2].link(1).state != 2, "the link is down")
        run = repaired(cluster[1], "--yes", "--timeout", "2", "--backup", str(tmp_path / "one"))
        assert run.returncode == 1
        assert "has no link to region 1" in run.stderr or "could not be compared" in run.stderr
        assert field_of(cluster[2]) == b"airport-71"
        assert cluster[2].client.xadd("flights", {"from": "later"})
        cluster[1].end()
        run = repaired(cluster[2], "--yes", "--backup", str(tmp_path / "two"))
        assert run.returncode == 1
        assert "region 1 does not answer" in run.stderr
