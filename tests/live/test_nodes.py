"""Region nodes as processes: starting, stopping, refusing, converging."""

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc
from tests.conftest import free_base_port
from tests.live.cluster import Cluster, Node, cluster_of, running_regions, vv_of
from tests.patience import seconds, wait_until


def test_three_regions_converge(three_regions: Cluster) -> None:
    for index in range(100):
        for region, node in three_regions.nodes.items():
            node.client.xadd("s", {"from": region, "index": index})
    status = three_regions.converge()
    assert vv_of(status) == {1: 100, 2: 100, 3: 100}
    replies = [node.client.xrange("s") for node in three_regions.nodes.values()]
    assert len(replies[0]) == 300
    assert replies[0] == replies[1] == replies[2]


def test_wait_counts_regions_that_have_it_durably(regions_left_alone: Cluster) -> None:
    client = regions_left_alone[1].client
    client.xadd("waited", {"f": "v"})
    assert client.execute_command("WAIT", 2, 0) == 2
    assert (
        regions_left_alone[2].client.xlen("waited")
        == regions_left_alone[3].client.xlen("waited")
        == 1
    )


def test_a_blocked_reader_is_woken_by_another_region(regions_left_alone: Cluster) -> None:
    reader = regions_left_alone[2].connect()
    connection = reader.connection_pool.get_connection()
    connection.send_command("XREAD", "BLOCK", 0, "STREAMS", "blocked", "$")
    wait_until(
        lambda: any(row["cmd"] == "xread" for row in regions_left_alone[2].client.client_list()),
        "the reader is there",
    )
    entry_id = regions_left_alone[1].client.xadd("blocked", {"f": "v"})
    assert connection.read_response() == {b"blocked": [[entry_id, [b"f", b"v"]]]}
    reader.close()


def test_paused_links_pull_nothing_until_they_are_resumed(regions_left_alone: Cluster) -> None:
    second = regions_left_alone[2]
    second.set_links(paused=True)
    regions_left_alone[1].client.xadd("paused", {"f": "v"})
    wait_until(lambda: regions_left_alone[3].client.xlen("paused") == 1, "region 3 has it")
    assert second.client.xlen("paused") == 0
    assert second.link(1).state == pb.LinkStatus.State.PAUSED
    second.set_links(paused=False)
    regions_left_alone.converge()
    assert second.client.xlen("paused") == 1


def test_status_tells_of_links_and_their_lag(three_regions: Cluster) -> None:
    second = three_regions[2]
    # It comes by the direct link, also if that must be opened once more.
    second.set_links(paused=True, peers=[3])
    three_regions[1].client.xadd("s", {"f": "v"})
    three_regions[1].client.execute_command("WAIT", 2, 0)

    def has_caught_up() -> bool:
        link = second.link(1)
        is_level = (link.lag_effects, link.lag_ms) == (0, 0) and link.effects_received > 0
        return is_level and link.state == pb.LinkStatus.State.UP

    wait_until(has_caught_up, "counted, and caught up")
    link = second.link(1)
    assert link.batches_received >= 1
    assert link.bytes_received > 0
    assert link.lag_ms_p50 <= link.lag_ms_max
    wait_until(lambda: three_regions[1].link(2).effects_sent >= 1, "counted where it was sent")
    second.set_links(paused=False)
    status = second.status()
    assert (status.region, status.database_id, status.keys) == (2, "crdb", 1)
    assert 0 < status.log_bytes < 10_000, "of one small entry; the folder takes more"


def test_a_second_node_of_a_region_is_refused_and_takes_no_writes(
    three_regions: Cluster, tmp_path: Path
) -> None:
    """A copied configuration with other ports and folder: dots would be used twice."""
    first, second, third = three_regions.nodes.values()
    first.client.xadd("x", {"from": "first"})
    three_regions.converge()
    twin = Node(1, free_base_port(1), tmp_path / "twin")
    twin.config.parent.mkdir()
    twin.configure({2: second.grpc_address, 3: third.grpc_address})
    twin.launch()
    twin.wait(for_writes=False)
    try:
        wait_until(lambda: "another node is linked" in twin.status().fault, "the twin is refused")
        with pytest.raises(redis.ResponseError, match=r"another node is linked .* as region 1"):
            twin.client.xadd("x", {"from": "twin"})
        first.client.xadd("x", {"from": "first"})
        three_regions.converge()
        assert [fields for _, fields in third.client.xrange("x")] == [{b"from": b"first"}] * 2
    finally:
        twin.end()


def test_an_address_of_another_database_stops_no_writes(tmp_path: Path) -> None:
    """The node there is linked to its own region 1, so that this one is not the only region 1."""
    with cluster_of(2, tmp_path) as others:
        others.configure()
        others.start()
        node = Node(1, free_base_port(1), tmp_path / "own")
        node.config.parent.mkdir()
        node.configure({2: others[2].grpc_address})
        node.launch("--new-database")
        try:
            node.wait()
            wait_until(lambda: "belongs to database" in node.link(2).error, "the link is refused")
            for one in (node, others[2]):
                assert one.status().database_uid in node.link(2).error
            node.client.xadd("x", {"from": "own"})
            others[1].client.xadd("x", {"from": "other"})
            others.converge()
            assert others[2].client.xlen("x") == 1
            assert node.client.xlen("x") == 1
        finally:
            node.end()


def test_a_paused_link_tells_how_far_behind_it_is(regions_left_alone: Cluster) -> None:
    first, second, _ = regions_left_alone.nodes.values()
    second.set_links(paused=True)
    for _ in range(3):
        first.client.xadd("behind", {"f": "v"})
    wait_until(lambda: second.link(1).lag_effects == 3, "the paused link lacks three effects")
    wait_until(lambda: second.link(1).lag_ms > 100, "and for how long")
    second.set_links(paused=False)
    regions_left_alone.converge()
    assert second.link(1).lag_effects == second.link(1).lag_ms == 0


def test_a_link_that_was_never_up_tells_how_far_behind_it_is(tmp_path: Path) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster.nodes.values()
        cluster.configure({(2, 1): "127.0.0.1:1"})
        first.launch()
        second.launch()
        first.wait()
        # Region 1 cannot answer it: it takes no writes.
        second.wait(for_writes=False)
        first.client.xadd("x", {"f": "v"})
        # Region 1 pulls from region 2, and its acks say what it has.
        wait_until(lambda: second.link(1).lag_effects == 1, "the broken link lacks one effect")
        wait_until(lambda: second.link(1).lag_ms > 0, "and for how long")
        assert second.link(1).heard_ms == 0


def test_a_link_to_no_peer_cannot_be_paused(regions_left_alone: Cluster) -> None:
    with pytest.raises(grpc.RpcError, match="region 7 is no peer of region 1; its peers are 2, 3"):
        regions_left_alone[1].set_links(paused=True, peers=[2, 7])
    assert regions_left_alone[1].link(2).state != pb.LinkStatus.State.PAUSED


def test_a_tunable_outlives_a_restart(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        with grpc.insecure_channel(node.grpc_address) as channel:
            admin = rpc.AdminStub(channel)
            parameter = "crdt_xadd_id_uniqueness_mode"
            reply = admin.Tune(pb.TuneRequest(parameter=parameter, value="liberal"))
            assert (reply.before, reply.value) == ("strict", "liberal")
            with pytest.raises(grpc.RpcError, match="allowed are strict, semi-strict, liberal"):
                admin.Tune(pb.TuneRequest(parameter=parameter, value="lax"))
            with pytest.raises(grpc.RpcError, match=r"no parameter 'speed'; there are .*crdt_"):
                admin.Tune(pb.TuneRequest(parameter="speed", value="high"))
        node.end(signal.SIGKILL)
        node.start()
        assert node.client.xadd("s", {"f": "v"}, id="5-5") == b"5-5"


def test_health_is_told_over_http_and_grpc(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/health") as page:
            body = json.load(page)
        assert body["region"] == 1
        assert body["healthy"] is True
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/nothing")
        with grpc.insecure_channel(node.grpc_address) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            for service in (
                "",
                "crdtstream.v1.Replication",
                "crdtstream.v1.Bootstrap",
                "crdtstream.v1.Admin",
            ):
                answer = health.Check(health_pb2.HealthCheckRequest(service=service))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            listing = reflection.ServerReflectionInfo(
                iter([reflection_pb2.ServerReflectionRequest(list_services="")])
            )
            names = {service.name for service in next(listing).list_services_response.service}
        assert {
            "crdtstream.v1.Replication",
            "crdtstream.v1.Bootstrap",
            "crdtstream.v1.Admin",
        } <= names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_node_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        node.client.xadd("s", {"f": "v"})
        assert node.end(number) == 0
        assert "Traceback" not in node.log.read_text()
        node.start()
        assert node.client.xlen("s") == 1


@pytest.mark.parametrize("port", ["resp_port", "grpc_port", "http_port"])
def test_a_taken_port_is_a_clear_error(tmp_path: Path, port: str) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        first.configure({})
        first.start()
        second.configure({}, **{port: getattr(first, port)})
        assert second.launch().wait(seconds()) == 1
        second.process = None
        text = second.log.read_text()
        assert f"127.0.0.1:{getattr(first, port)} cannot be listened on ({port})" in text
        assert "Traceback" not in text


def test_two_nodes_cannot_have_one_folder(tmp_path: Path) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        first.configure({})
        first.start()
        second.configure({}, dir=str(first.folder))
        assert second.launch().wait(seconds()) == 1
        second.process = None
        assert "another process has this folder open; stop that node first" in (
            second.log.read_text()
        )


def test_a_folder_of_another_region_is_a_clear_error(tmp_path: Path) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        first.configure({})
        first.start()
        first.end()
        second.configure({}, dir=str(first.folder))
        assert second.launch().wait(seconds()) == 1
        second.process = None
        assert "belongs to region 1, not to region 2" in second.log.read_text()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"database_id": "other"}, "region 1 holds database 'crdb', not 'other'"),
        ({"region": 1}, "both sides are region 1"),
    ],
)
def test_a_wrong_peer_is_refused_and_the_reason_shown(
    tmp_path: Path, settings: dict[str, object], reason: str
) -> None:
    with cluster_of(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        first.configure({2: second.grpc_address})
        peer = 2 if settings.get("region") == 1 else 1
        second.configure({peer: first.grpc_address}, **settings)
        for node in (first, second):
            node.start("--new-database")
        wait_until(
            lambda: second.link(peer).state == pb.LinkStatus.State.REFUSED, "the link is refused"
        )
        assert reason in second.link(peer).error
        first.client.xadd("s", {"f": "v"})
        assert second.client.xlen("s") == 0
