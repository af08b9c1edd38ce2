"""Members of real regions: named by the nodes' files, changed, and known after kills."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import genesis
from tests.live.cluster import Cluster, Node, cluster_of, running_regions
from tests.live.forked import completed
from tests.patience import wait_until

STORE = Path(__file__).parent.parent / "store"
ADDED = "fqdn=eu,replication_endpoint=127.0.0.1:7384"


def crdb(node: Node, *words: str) -> "subprocess.CompletedProcess[str]":
    command = ["crdtstream", "crdb", *words, "--address", node.grpc_address, *node.login_options]
    return completed(command)


def listed(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crdb(node, "list", "--json").stdout)
    return found


def names(node: Node) -> list[str]:
    return [one["name"] for one in listed(node)["instances"]]


def test_regions_are_members_as_their_files_name_them_and_know_it_after_a_kill(
    cluster: Cluster,
) -> None:
    cluster.converge()
    for node in cluster.nodes.values():
        node.end(signal.SIGKILL)
    for node in cluster.nodes.values():
        node.launch()
    for node in cluster.nodes.values():
        node.wait()
    found = [listed(node) for node in cluster.nodes.values()]
    assert [one["status"] for one in found[0]["instances"]] == ["active"] * 3
    assert {one["epoch"] for one in found} == {1}
    assert len({one["hash"] for one in found}) == 1
    cluster.converge()


def test_a_database_of_one_region_changes_its_members_at_its_first_start(tmp_path: Path) -> None:
    """Nobody answers it, and its folder is confirmed before its first tick."""
    with running_regions(1, tmp_path) as cluster:
        run = crdb(cluster[1], "update", "--instance-id", "1", "--instance", "fqdn=one")
        assert run.returncode == 0, run.stderr
        assert names(cluster[1]) == ["one"]


def test_a_folder_that_keeps_no_members_begins_with_those_of_its_file(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        cluster.configure()
        node = cluster[1]
        node.folder.mkdir()
        shutil.copyfile(STORE / "format_1" / "log.sqlite", node.folder / "log.sqlite")
        node.launch()
        node.wait()
        found = listed(node)
        assert (found["epoch"], found["hash"]) == (1, genesis([RegionId(1)]).hash.hex())
        assert node.client.dbsize() > 0
        rename = ("update", "--instance-id", "1", "--instance", "fqdn=new")
        for _ in range(2):
            run = crdb(node, *rename)
            assert run.returncode == 0, run.stderr
            found = listed(node)
            assert (found["epoch"], found["instances"][0]["name"]) == (2, "new")
            node.end(signal.SIGKILL)
            node.start()


def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    run = crdb(cluster[1], "update", "--instance-id", "1", "--instance", "fqdn=eu", "--dry-run")
    assert "epoch 2" in run.stdout
    assert listed(cluster[1])["epoch"] == 1
    assert sum(node.status().effects_issued for node in cluster.nodes.values()) == 0


def test_files_that_differ_are_told_until_they_are_corrected(tmp_path: Path) -> None:
    with cluster_of(3, tmp_path) as cluster:
        cluster.configure()
        # Region 3 knows nothing of region 2.
        cluster[3].configure({1: cluster[1].grpc_address})
        for node in cluster.nodes.values():
            node.launch()
        for node in cluster.nodes.values():
            node.wait(for_writes=False)
        told = "the database began with other regions"
        wait_until(lambda: told in cluster[1].status().fault, "region 1 says why it waits")
        wait_until(lambda: told in cluster[3].status().fault, "so does region 3")
        assert "[[peers]] of all nodes' files name the same regions" in cluster[3].status().fault
        cluster[3].end()
        cluster.configure()
        cluster[3].start()
        for node in cluster.nodes.values():
            node.wait()
        assert len({listed(node)["hash"] for node in cluster.nodes.values()}) == 1
        # Once all have answered, a file adds no region, and removes none.
        cluster[3].end()
        cluster[3].configure({1: cluster[1].grpc_address})
        cluster[3].start()
        assert [one["id"] for one in listed(cluster[3])["instances"]] == [1, 2, 3]
        assert "the file names other members" in cluster[3].log.read_text()


@pytest.mark.long
def test_a_change_is_decided_while_one_region_is_away_and_it_hears_of_it(
    cluster: Cluster,
) -> None:
    # The last change must be known to be everywhere, or the region that is away could lack it.
    update = ("update", "--instance-id", "2", "--instance", "fqdn=us")
    wait_until(lambda: crdb(cluster[1], *update).returncode == 0, "a first change is made")
    cluster.converge()
    cluster[3].end(signal.SIGKILL)
    rename = ("update", "--instance-id", "1", "--instance", "fqdn=eu")
    run = crdb(cluster[1], *rename)
    assert run.returncode == 0, run.stderr
    assert crdb(cluster[1], *rename).returncode == 0
    assert names(cluster[2]) == ["eu", "us", "region-3"]
    cluster[3].start()
    wait_until(lambda: names(cluster[3]) == ["eu", "us", "region-3"], "region 3 knows it")
    cluster.converge()


def test_a_wrong_address_is_refused_and_cuts_nobody_off_if_it_is_forced(cluster: Cluster) -> None:
    first, second, third = cluster.nodes.values()

    def update(address: str, *options: str) -> "subprocess.CompletedProcess[str]":
        instance = ("--instance-id", "2", "--instance", f"replication_endpoint={address}")
        return crdb(first, "update", *instance, *options)

    nobody = "127.0.0.1:1"
    for wrong, answer in ((nobody, f"region 2 at {nobody}"), (third.grpc_address, "is region 3,")):
        refused = update(wrong)
        assert refused.returncode == 1
        assert answer in refused.stderr
        assert "--force" in refused.stderr
    assert listed(first)["epoch"] == 1

    forced = update(nobody, "--force")
    assert forced.returncode == 0, forced.stderr
    second.client.xadd("s", {"f": "v"})
    cluster.converge()
    assert first.link(2).address == second.grpc_address
    # The second address is then that of the file.
    first.end()
    first.start()
    second.client.xadd("s", {"f": "v"})
    cluster.converge()

    # A region that is away has not heard of the wrong address, and is not waited for.
    third.end(signal.SIGKILL)
    assert update("127.0.0.1:2", "--force").returncode == 0
    corrected = update(second.grpc_address)
    assert corrected.returncode == 0, corrected.stderr
    third.start()
    wait_until(lambda: listed(third)["epoch"] == 4, "region 3 knows it")
    cluster.converge()


@pytest.mark.long
def test_less_than_half_decide_nothing_and_say_who_is_missing(cluster: Cluster) -> None:
    for region in (2, 3):
        cluster[region].end(signal.SIGKILL)
    run = crdb(cluster[1], "update", "--instance-id", "1", "--instance", "fqdn=eu")
    assert run.returncode == 1
    assert "2, 3 did not answer" in run.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("update", "--instance-id", "9", "--instance", "fqdn=x"), "there is no region 9"),
        (("update", "--instance-id", "1", "--instance", "fqdn=region-2"), "take another"),
        (("update", "--instance-id", "1", "--instance", "color=x"), "keys are"),
        (("update", "--instance-id", "1", "--instance", "url=nowhere"), "host:port"),
        (("update", "--instance-id", "1", "--instance", "endpoint=http://h:1"), "host:port"),
        (("update", "--instance-id", "1", "--instance", "endpoint=::1:7384"), "[address]:port"),
        (("get", "--crdb-guid", "0" * 32), "no database"),
    ],
)
def test_impossible_changes_are_refused_with_a_reason(
    shared_cluster: Cluster, words: tuple[str, ...], reason: str
) -> None:
    run = crdb(shared_cluster[1], *words)
    assert run.returncode != 0
    assert reason in run.stderr
    assert listed(shared_cluster[1])["epoch"] == 1


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_regions(2, tmp_path_factory.mktemp("members")) as cluster:
        cluster.converge()
        yield cluster


@pytest.mark.parametrize(
    "words",
    [
        ("update", "--instance-id", "1", "--instance", "fqdn=us", "--dry-run"),
        ("add-instance", "--instance", ADDED, "--token-file", "unused", "--dry-run"),
        ("remove-instance", "--instance-id", "2", "--dry-run"),
    ],
    ids=lambda words: words[0],
)
def test_programs_get_json_and_nothing_else_on_stdout(
    shared_cluster: Cluster, words: tuple[str, ...]
) -> None:
    run = crdb(shared_cluster[1], *words, "--json")
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["epoch"] == 2
    assert told["instances"]
    assert listed(shared_cluster[1])["epoch"] == 1


def test_the_health_report_tells_of_each_region(cluster: Cluster) -> None:
    wait_until(lambda: crdb(cluster[1], "health-report").returncode == 0, "all is well")
    report = json.loads(crdb(cluster[2], "health-report").stdout)
    assert [one["active_config_version"] for one in report] == [1, 1, 1]
    assert [peer["status"] for one in report for peer in one["connections"]] == ["ok"] * 6
    assert {one["status"] for one in report} == {"ok"}
    assert len({one["history"] for one in report}) == 1
    assert report[0]["configurations"][0]["status"] == "commit-completed"
    cluster[3].end(signal.SIGKILL)
    run = crdb(cluster[1], "health-report")
    assert run.returncode == 1
    *_, last = json.loads(run.stdout)
    assert (last["id"], last["status"]) == (3, "error")
    assert "no region node answers" in last["connection_error"]
