"""Entries that only the folder of a removed region has are appended again, each once."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from crdtstream.admin.client import vv_of
from crdtstream.cli.start import program
from crdtstream.core.ids import RegionId
from crdtstream.v1 import effects_pb2
from tests.live.bootstraps import lose_folder
from tests.live.cluster import Cluster, Node, running_regions
from tests.live.forked import completed
from tests.live.test_joining import level
from tests.live.test_members import crdb
from tests.patience import seconds, wait_until

STRANDED = 40


def salvage(folder: Path, into: Node, *words: str) -> "subprocess.CompletedProcess[str]":
    command = ["crdtstream", "crdb", "salvage", str(folder), "--address", into.grpc_address, *words]
    return completed(command)


def has(message: effects_pb2.VersionVector, region: int) -> int:
    """Number of a region's effects that a version vector has."""
    return vv_of(message).get(RegionId(region), 0)


def texts(node: Node, key: str) -> list[bytes]:
    return [fields[b"n"] for _, fields in node.client.xrange(key)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Region 3 is removed, and its folder has what nobody else has."""
    with running_regions(3, tmp_path) as cluster:
        third = cluster[3].client
        third.xadd("s", {"n": "counts"})
        cluster.converge()
        for region in (1, 2):
            cluster[region].set_links(paused=True, peers=[3])
        for number in range(STRANDED):
            third.xadd("s", {"n": number})
            third.xadd("other", {"n": number})
        third.execute_command("XADD", "s", "IDMP", "p", "retried", "*", "n", "retried")
        third.xadd("s", {"n": "gone"}, id="*")
        (last, _), *_ = third.xrevrange("s", count=1)
        third.xdel("s", last)
        third.set("k", "v")
        cluster[3].end(signal.SIGKILL)
        words = ("remove-instance", "--instance-id", "3", "--force", "--yes")
        run = crdb(cluster[1], *words)
        assert run.returncode == 0, run.stderr
        for region in (1, 2):
            cluster[region].set_links(paused=False)
        yield cluster


def is_known(node: Node) -> bool:
    """True if a region knows the cut of the removed one."""
    return "Effects that count: 1" in crdb(node, "get").stdout


def test_each_entry_is_appended_once_however_often_it_is_run(cluster: Cluster) -> None:
    """M18: twice, into two regions; and one that its own producer has appended again by then."""
    first, second = cluster[1], cluster[2]
    first.client.execute_command("XADD", "s", "IDMP", "p", "retried", "*", "n", "retried")
    wait_until(lambda: is_known(first), "the cut is final")
    folder = cluster[3].folder
    run = salvage(folder, first, "--dry-run")
    assert run.returncode == 0, run.stderr
    assert f"{2 * STRANDED + 1} of them entries that still exist" in run.stdout
    assert "Nothing has changed" in run.stdout
    assert texts(first, "s") == [b"counts", b"retried"]
    for node in (first, first, second):
        run = salvage(folder, node)
        assert run.returncode == 0, run.stderr
        level([first, second])
    numbers = [b"%d" % number for number in range(STRANDED)]
    assert texts(second, "s") == [b"counts", b"retried", *numbers]
    assert texts(second, "other") == numbers
    assert "3 are left out" in run.stdout
    # What is removed after it was salvaged does not come again.
    second.client.xtrim("other", maxlen=0, approximate=False)
    level([first, second])
    assert salvage(folder, first).returncode == 0
    assert first.client.xlen("other") == 0


@pytest.mark.long
def test_a_removed_region_knows_what_counts_of_it(cluster: Cluster) -> None:
    """Its node is started once, and is told; that stays in its folder."""
    first, third = cluster[1], cluster[3]
    wait_until(lambda: is_known(first), "the cut is final")
    third.launch()
    third.wait(for_writes=False)
    wait_until(lambda: third.client.info("crdt").get("crdt_removed_3"), "it is told")
    told = {"epoch": 2, "effects": 1}
    wait_until(lambda: third.client.info("crdt")["crdt_removed_3"] == told, "and what counts")
    try:
        urllib.request.urlopen(f"http://{third.host}:{third.http_port}/readyz", timeout=seconds())
        pytest.fail("it is ready")
    except urllib.error.HTTPError as error:
        body = json.load(error)
    assert body["counted_effects"] == 1
    assert "of its effects 1 count" in body["reason"]
    assert third.client.execute_command("CRDT.WAITFOR", "3:1", "0") is not None
    with pytest.raises(redis.ResponseError, match="LOST region 3 was removed; of its effects 2…"):
        third.client.execute_command("CRDT.WAITFOR", "3:2", "0")
    third.end()
    words = ["crdb", "salvage", str(third.folder), "--address", first.grpc_address]
    run = CliRunner().invoke(program(), words)
    assert run.exit_code == 0, run.output
    assert first.client.xlen("other") == STRANDED


def _has(node: Node, count: int) -> bool:
    return bool(node.client.xlen("other") >= count)


@pytest.mark.long
def test_killed_in_the_middle_it_goes_on(cluster: Cluster) -> None:
    first = cluster[1]
    wait_until(lambda: is_known(first), "the cut is final")
    command = [sys.executable, "-m", "crdtstream", "crdb", "salvage", str(cluster[3].folder)]
    command += ["--address", first.grpc_address]
    for count in (1, STRANDED // 2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(partial(_has, first, count), "some are there")
        process.kill()
        process.wait()
    first.end(signal.SIGKILL)
    first.launch()
    first.wait()
    assert salvage(cluster[3].folder, first).returncode == 0
    numbers = [b"%d" % number for number in range(STRANDED)]
    assert texts(first, "other") == numbers
    assert sorted(texts(first, "s")) == sorted([b"counts", b"retried", *numbers])


@pytest.mark.long
def test_entries_that_a_lost_region_had_sent_to_this_one_alone_are_salvaged(
    tmp_path: Path,
) -> None:
    """Region 1 acknowledges them by WAIT 1, and loses its disk; region 3, which has them, is gone
    for good: only its folder has them."""
    with running_regions(3, tmp_path) as cluster:
        first, second, third = cluster.nodes.values()
        first.client.xadd("s", {"n": "counts"})
        cluster.converge()
        second.set_links(paused=True)
        # In few batches: of many only some ends are remembered, by chance not the first one.
        with first.client.pipeline(transaction=False) as stranded:
            for number in range(STRANDED):
                stranded.xadd("s", {"n": number})
            stranded.execute()
        assert first.client.execute_command("WAIT", 1, 60_000) == 1
        wait_until(lambda: third.client.xlen("s") == STRANDED + 1, "region 3 has them")
        third.client.xadd("s", {"n": "own"})
        issued = STRANDED + 1
        wait_until(lambda: has(second.link(3).peer_vv, 1) == issued, "region 2 hears that")
        third.end(signal.SIGKILL)
        lose_folder(first)
        first.launch()
        first.wait(for_writes=False)
        second.set_links(paused=False)
        words = ("--instance-id", "3", "--force", "--without-majority", "--yes")
        run = crdb(second, "remove-instance", *words)
        assert run.returncode == 0, run.stderr
        lost = f"have {issued} effects of region 1; the regions that answer have 1: at least"
        assert f"It said to {lost} {STRANDED} are lost with it." in run.stdout
        first.wait()
        first.client.xadd("s", {"n": "after"})
        level([first, second])
        wait_until(
            lambda: "Effects that count: 0" in crdb(second, "get").stdout, "the cut is final"
        )
        for into in (second, first, second):
            run = salvage(third.folder, into)
            assert run.returncode == 0, run.stderr
            beyond = f"{STRANDED} are beyond that, {STRANDED} of them entries"
            assert f"Of region 1 1 effects count; {beyond}" in run.stdout
            assert "Of region 3 0 effects count; 1 are beyond that, 1 of them" in run.stdout
            level([first, second])
        numbers = [b"%d" % number for number in range(STRANDED)]
        assert texts(first, "s") == [b"counts", b"after", *numbers, b"own"]


@pytest.mark.long
def test_only_a_removed_region_that_is_down_is_salvaged(cluster: Cluster, tmp_path: Path) -> None:
    run = salvage(cluster[2].folder, cluster[1])
    assert run.returncode == 2
    assert "has" in run.stderr
    run = salvage(tmp_path / "nothing", cluster[1])
    assert run.returncode == 2
    cluster[2].end(signal.SIGKILL)
    run = salvage(cluster[2].folder, cluster[1])
    assert run.returncode == 2
    assert "region 2 was not removed" in run.stderr
