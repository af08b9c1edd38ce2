"""A dead region is removed: the others go on without it, have the same of it, and refuse it."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from crdtstream.local.regions import LocalRegions
from crdtstream.v1 import admin_pb2 as pb
from tests.conftest import free_base_port
from tests.live.bootstraps import lose_folder
from tests.live.cluster import Cluster, running_regions
from tests.live.test_joining import Joiner, level, status_of
from tests.live.test_members import crdb, listed
from tests.patience import seconds, wait_until

HOUR_MS = 3_600_000


def remove(cluster: Cluster, region: int, *words: str) -> str:
    run = crdb(
        cluster[1], "remove-instance", "--instance-id", str(region), "--force", "--yes", *words
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_effects_of_a_dead_region_spread_from_one_member_to_all(cluster: Cluster) -> None:
    """Region 1 never heard of the last entry of region 3, and region 2 has it."""
    cluster[3].client.xadd("s", {"n": "early"})
    cluster.converge()
    cluster[1].set_links(paused=True, peers=[3, 2])
    cluster[3].client.xadd("s", {"n": "late"})
    wait_until(lambda: cluster[2].client.xlen("s") == 2, "region 2 has it")
    cluster[3].end(signal.SIGKILL)
    assert cluster[1].client.xlen("s") == 1
    told = remove(cluster, 3)
    assert "region 1 has 1, region 2 has 2" in told
    cluster[1].set_links(paused=False)
    wait_until(lambda: cluster[1].client.xlen("s") == 2, "region 1 has it, too")
    level([cluster[1], cluster[2]])
    # Nobody waits for it any more.
    cluster[1].client.xadd("s", {"n": "after"})
    assert cluster[1].client.execute_command("WAIT", 1, 0) == 1
    assert [link.peer for link in cluster[1].status().links] == [2]


@pytest.mark.long
def test_the_node_of_a_removed_region_hears_of_it_and_takes_no_writes(cluster: Cluster) -> None:
    cluster.converge()
    cluster[3].end(signal.SIGKILL)
    remove(cluster, 3)
    before = cluster[1].status().digest
    cluster[3].launch()

    def is_refused() -> bool:
        try:
            cluster[3].client.xadd("s", {"n": "void"})
        except redis.ResponseError as error:
            return "was removed at epoch 2" in str(error)
        except redis.ConnectionError:
            return False
        return False

    wait_until(is_refused, "it says that it was removed")
    # Also after a restart, which nobody answers.
    cluster[3].end(signal.SIGKILL)
    cluster[3].launch()
    wait_until(is_refused, "it still knows")
    assert cluster[1].status().digest == before


@pytest.mark.long
def test_the_members_are_the_same_after_all_were_killed(cluster: Cluster) -> None:
    cluster[3].client.xadd("s", {"n": "1"})
    cluster.converge()
    cluster[3].end(signal.SIGKILL)
    remove(cluster, 3)
    for region in (1, 2):
        cluster[region].end(signal.SIGKILL)
    for region in (1, 2):
        cluster[region].launch()
    for region in (1, 2):
        cluster[region].wait()
        cluster[region].client.xadd("s", {"from": region})
    level([cluster[1], cluster[2]])
    assert {listed(cluster[region])["epoch"] for region in (1, 2)} == {2}


@pytest.mark.long
def test_a_dead_region_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    cluster[3].client.xadd("s", {"n": "1"})
    cluster.converge()
    cluster[3].end(signal.SIGKILL)
    remove(cluster, 3)
    joiner = Joiner(tmp_path)

    def is_added() -> bool:
        joiner.token.unlink(missing_ok=True)
        return joiner.add(cluster[1]).returncode == 0

    wait_until(is_added, "another region is added")
    joiner.launch(cluster[2])
    try:
        joiner.wait_until_active(cluster[1])
        level([cluster[1], cluster[2], joiner.node])
        assert status_of(joiner.node, 3) == "removed"
    finally:
        joiner.node.end(signal.SIGKILL)


@pytest.mark.long
def test_of_two_regions_one_goes_on_alone(tmp_path: Path) -> None:
    with running_regions(2, tmp_path) as cluster:
        cluster[2].client.xadd("s", {"n": "1"})
        cluster.converge()
        cluster[2].end(signal.SIGKILL)
        run = crdb(cluster[1], "remove-instance", "--instance-id", "2", "--force", "--yes")
        assert run.returncode == 1
        assert "--without-majority" in run.stderr
        remove(cluster, 2, "--without-majority")
        cluster[1].client.xadd("s", {"n": "2"})
        assert cluster[1].client.xlen("s") == 2
        assert not cluster[1].status().links


def test_of_two_regions_one_that_takes_no_writes_as_the_other_is_dead_goes_on_alone(
    tmp_path: Path,
) -> None:
    """A fenced region must still be able to make the change that ends its fencing."""
    with running_regions(
        2, tmp_path, replication_lag_action="refuse", max_replication_lag_effects=1
    ) as cluster:
        first = cluster[1].client
        cluster[2].client.xadd("s", {"n": "1"})
        cluster.converge()
        cluster[2].end(signal.SIGKILL)
        first.xadd("s", {"n": "2"})
        with pytest.raises(redis.ResponseError):
            first.xadd("s", {"n": "3"})
        wait_until(lambda: bool(cluster[1].status().fault), "it says that it refuses writes")
        remove(cluster, 2, "--without-majority")
        first.xadd("s", {"n": "3"})


@pytest.mark.parametrize("count", [3, pytest.param(2, marks=pytest.mark.long)])
def test_the_last_one_left_goes_on_alone_though_it_recovers(tmp_path: Path, count: int) -> None:
    """A power cut took all of them; with `everysec` each may have lost its end, and asks all."""
    with running_regions(count, tmp_path, appendfsync="everysec") as cluster:
        first = cluster[1]
        first.client.xadd("s", {"n": "1"})
        cluster.converge()
        for node in cluster.nodes.values():
            node.end(signal.SIGKILL)
        first.launch()
        first.wait(for_writes=False)
        wait_until(lambda: "waits for region 2" in first.status().fault, "it waits for the dead")
        for region in range(count, 1, -1):
            told = remove(cluster, region, "--without-majority")
            assert "Region 1 takes no writes now, and has" in told
        first.wait()
        first.client.xadd("s", {"n": "2"})
        first.end(signal.SIGKILL)
        first.start()
        assert first.client.xlen("s") == 2
        assert listed(first)["instances"][0]["status"] == "active"


@pytest.mark.long
def test_after_a_vote_that_failed_the_one_that_is_left_goes_on_alone(cluster: Cluster) -> None:
    for region in (2, 3):
        cluster[region].end(signal.SIGKILL)
    words = ("remove-instance", "--instance-id", "3", "--force", "--yes")
    run = crdb(cluster[1], *words)
    assert run.returncode == 1
    assert "2 did not answer" in run.stderr
    remove(cluster, 3, "--without-majority")
    remove(cluster, 2, "--without-majority")
    cluster[1].client.xadd("s", {"n": "1"})
    assert not cluster[1].status().links


def test_nothing_is_removed_without_an_answer_or_while_the_region_lives(cluster: Cluster) -> None:
    run = crdb(cluster[1], "remove-instance", "--instance-id", "3", "--force", "--yes")
    assert run.returncode == 1
    assert "region 3 answers" in run.stderr
    cluster[3].end(signal.SIGKILL)
    run = crdb(cluster[1], "remove-instance", "--instance-id", "3", "--force")
    assert run.returncode == 1
    assert status_of(cluster[1], 3) == "active"
    run = crdb(cluster[1], "remove-instance", "--instance-id", "3", "--yes")
    assert run.returncode == 1
    assert "region 3 does not answer" in run.stderr
    run = crdb(cluster[1], "remove-instance", "--instance-id", "9", "--force", "--yes")
    assert run.returncode == 1
    assert "no region 9" in run.stderr
    assert "into the void" not in run.stdout


def test_a_region_that_waits_for_the_dead_one_goes_on_when_that_is_removed(
    cluster: Cluster,
) -> None:
    """Region 2 lost its folder as well: it takes no writes before all members have answered it."""
    cluster[1].client.xadd("s", {"n": "1"})
    cluster.converge()
    cluster[3].end(signal.SIGKILL)
    lose_folder(cluster[2])
    cluster[2].launch()
    cluster[2].wait(for_writes=False)
    wait_until(lambda: "waits for region 3" in cluster[2].status().fault, "it waits")
    assert "crdb remove-instance" in cluster[2].status().fault
    remove(cluster, 3, "--without-majority")
    cluster[2].wait()
    cluster[2].client.xadd("s", {"n": "2"})
    level([cluster[1], cluster[2]])


def test_the_heir_deletes_keys_and_hands_out_groups_of_the_removed_region(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, third = cluster[1].client, cluster[3].client
    third.execute_command("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    third.execute_command("CRDT.XGROUP", "SETMODE", "s", "g", "HOME", "3")
    for number in range(4):
        third.xadd("s", {"n": number})
    ((_, read),) = third.xreadgroup("g", "c", {"s": ">"}, count=2)
    third.xack("s", "g", read[0][0])
    third.set("lock", "x", px=HOUR_MS)
    cluster.converge()
    with pytest.raises(redis.ResponseError, match="NOTHOME"):
        first.xreadgroup("g", "c", {"s": ">"})
    cluster[3].end(signal.SIGKILL)
    remove(cluster, 3, "--heir", "1")
    ((_, found),) = first.xreadgroup("g", "c", {"s": ">"})
    # What was acknowledged stays so; what was pending at the dead home comes again.
    assert [fields[b"n"] for _, fields in found] == [b"1", b"2", b"3"]
    assert first.get("lock") == b"x"
    # Only the heir's clock is beyond the deadline, so region 2 loses the key by its effect alone.
    cluster[1].end()
    monkeypatch.setenv("CRDTSTREAM_DRILL__CLOCK_OFFSET_MS", str(2 * HOUR_MS))
    cluster[1].start()
    wait_until(lambda: cluster[2].client.exists("lock") == 0, "the heir deletes it")
    level([cluster[1], cluster[2]])


@pytest.mark.long
def test_a_member_restored_from_before_the_removal_does_not_wait_for_the_removed_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    """M8: its folder names three members, and it hears of the removal before it looks for them."""
    second, backup = cluster[2], tmp_path / "backup"
    second.end()
    shutil.copytree(second.folder, backup)
    second.start()
    second.client.xadd("s", {"n": "behind the backup"})
    cluster.converge()
    cluster[3].end(signal.SIGKILL)
    remove(cluster, 3)
    level([cluster[1], second])
    lose_folder(second)
    shutil.copytree(backup, second.folder)
    second.launch()
    second.wait()
    assert status_of(second, 3) == "removed"
    assert [link.peer for link in second.status().links] == [1]
    second.client.xadd("s", {"n": "new"})
    level([cluster[1], second])
    assert cluster[1].client.xlen("s") == 2


@pytest.mark.long
def test_a_backup_of_before_a_removal_takes_nothing_of_the_removed_region_that_lives_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Region 3 is isolated and takes writes; region 2 is put back to when that was a member, and
    meets it before it hears of the removal."""
    first, second, third = cluster.nodes.values()
    backup = tmp_path / "backup"
    first.client.xadd("s", {"n": "before"})
    cluster.converge()
    second.end()
    shutil.copytree(second.folder, backup)
    second.start()
    cluster.converge()
    third.end(signal.SIGKILL)
    remove(cluster, 3)
    first.client.xadd("s", {"n": "counts"})
    level([first, second])
    # It reaches nobody, and hears of nothing.
    nowhere = f"{first.host}:{first.grpc_port - 1}"
    third.configure({1: nowhere, 2: nowhere})
    third.start()
    third.client.xadd("s", {"n": "void"})
    lose_folder(second)
    shutil.copytree(backup, second.folder)
    first.end()
    second.launch()
    second.wait(for_writes=False)
    wait_until(lambda: second.link(3).state == pb.LinkStatus.State.UP, "it meets the removed one")
    third.client.xadd("s", {"n": "void, too"})
    assert "waits for region 1" in second.status().fault
    assert second.client.xlen("s") == 1
    first.start()
    second.wait()
    second.client.xadd("s", {"n": "new"})
    level([first, second])
    assert [fields[b"n"] for _, fields in first.client.xrange("s")] == [
        b"before",
        b"counts",
        b"new",
    ]
    assert [link.peer for link in second.status().links] == [1]


@pytest.mark.long
def test_a_region_restored_to_before_its_only_peer_was_replaced_goes_on(tmp_path: Path) -> None:
    """It asks the one that is dead, and hears from the new one, which it does not know."""
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster.nodes.values()
        backup, joiner = tmp_path / "backup", Joiner(tmp_path)
        first.client.xadd("s", {"n": "1"})
        cluster.converge()
        second.end()
        shutil.copytree(second.folder, backup)
        second.start()
        first.end(signal.SIGKILL)
        words = ("--instance-id", "1", "--force", "--without-majority", "--yes")
        assert crdb(second, "remove-instance", *words).returncode == 0
        wait_until(lambda: joiner.add(second).returncode == 0, "another region is added")
        # After a change without a majority its number is drawn.
        joiner.node.region = listed(second)["instances"][-1]["id"]
        joiner.launch(second)
        try:
            joiner.wait_until_active(second)
            second.client.xadd("s", {"n": "2"})
            level([second, joiner.node])
            lose_folder(second)
            shutil.copytree(backup, second.folder)
            second.launch()
            second.wait()
            second.client.xadd("s", {"n": "3"})
            level([second, joiner.node])
            assert joiner.node.client.xlen("s") == 3
            assert status_of(second, 1) == "removed"
        finally:
            joiner.node.end(signal.SIGKILL)


@pytest.mark.long
def test_up_starts_a_folder_of_which_a_region_was_removed(tmp_path: Path) -> None:
    base_port = free_base_port(2)

    @contextmanager
    def up() -> Iterator[LocalRegions]:
        local = LocalRegions(2, tmp_path / "regions", base_port=base_port)
        try:
            local.start_all()
            assert local.wait_until_healthy()
            yield local
        finally:
            local.stop_all()
            local.close()

    with up():
        words = ("--instance-id", "2", "--yes", "--dir", str(tmp_path / "regions"))
        command = [sys.executable, "-m", "crdtstream", "crdb", "remove-instance", *words]
        subprocess.run(command, check=True, timeout=seconds())
    with up() as local:
        assert [own.region for own in local.removed] == [2]
