"""The pages about Active-Active databases, asked over HTTP."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.live.cluster import Cluster, Node, running_regions
from tests.live.test_members import crdb
from tests.patience import seconds, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_regions(3, tmp_path_factory.mktemp("pages")) as cluster:
        yield cluster


def get(node: Node, path: str) -> tuple[int, Any]:
    """Status and body of a page."""
    url = f"http://{node.host}:{node.http_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=seconds()) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def guid_of(cluster: Cluster) -> str:
    return cluster[1].status().database_uid


def reports(node: Node, guid: str) -> list[Any]:
    status, found = get(node, f"/v1/crdbs/{guid}/health_report")
    assert status == 200
    return list(found)


def is_well(report: Any) -> bool:
    """True if it has its configuration everywhere, and all its links are up."""
    (configuration,) = report["configurations"]
    statuses = [one["status"] for one in report["connections"]]
    return configuration["status"] == "commit-completed" and statuses == ["ok", "ok"]


def all_well(node: Node, guid: str, epoch: int) -> bool:
    """True if a node reports all as well, and at the same change."""
    found = reports(node, guid)
    return all(is_well(one) and one["active_config_version"] == epoch for one in found)


def test_all_regions_show_the_same_members_and_are_well(cluster: Cluster) -> None:
    guid = guid_of(cluster)
    # At first only their files name them.
    for epoch in (1, 2):
        # What another region answered is good for a second: also what it said before.
        wait_until(partial(all_well, cluster[2], guid, epoch), f"all have change {epoch}")
        found = reports(cluster[2], guid)
        assert [one["cluster_name"] for one in found] == ["region-1", "region-2", "region-3"]
        links = [one["replication_links"][0] for one in found[0]["connections"]]
        assert links == [
            {"link_uid": "1:2", "status": "up"},
            {"link_uid": "1:3", "status": "up"},
        ]
        if epoch == 1:
            url = f"url={cluster[3].host}:{cluster[3].http_port}"
            named = crdb(cluster[1], "update", "--instance-id", "3", "--instance", url)
            assert named.returncode == 0
            cluster.converge()
    last = cluster[3]
    for node in cluster.nodes.values():
        status, (shown,) = get(node, "/v1/crdbs")
        assert status == 200
        assert shown["guid"] == guid
        clusters = {one["id"]: one["cluster"] for one in shown["instances"]}
        assert clusters == {
            other.region: {
                "name": f"region-{other.region}",
                # Files name no pages of others.
                "url": f"http://{other.host}:{other.http_port}" if other in (node, last) else "",
                "replication_endpoint": other.grpc_address,
            }
            for other in cluster.nodes.values()
        }
        mine = [one["db_uid"] for one in shown["instances"]]
        assert mine.index("1") == node.region - 1
    assert get(cluster[1], "/v1/crdbs/" + "0" * 32)[0] == 404


def test_a_region_that_does_not_answer_has_a_connection_error(cluster: Cluster) -> None:
    guid = guid_of(cluster)
    cluster[3].end(signal.SIGKILL)

    def tells() -> bool:
        first, _, third = reports(cluster[1], guid)
        statuses = [one["status"] for one in first["connections"]]
        return statuses == ["ok", "error"] and "connection_error" in third

    wait_until(tells, "region 3 is not there")
    _, (one,) = get(cluster[1], f"/v1/crdbs/{guid}/health_report?instance_id=2")
    assert one["cluster_name"] == "region-2"
    # As in Redis Enterprise: of one that is no instance, all are shown.
    _, found = get(cluster[1], f"/v1/crdbs/{guid}/health_report?instance_id=9")
    assert len(found) == 3
