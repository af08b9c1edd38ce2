"""A region as load balancers and clients see it: available, behind, in a minority, back."""

import random
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc
from toxiproxy import Toxiproxy

from tests.live.apart import Regions, get, regions_apart, stalling
from tests.patience import seconds, wait_until

# As ``cluster.py`` sets it.
ANSWER_MS_MAX = "catch_up_answer_ms_max = 500"
PLAIN = "/v1/bdbs/1/availability"
LOCAL = "/v1/local/bdbs/1/endpoint/availability"
LAG = "?extend_check=lag&availability_lag_tolerance_ms=1000"
SERVICES = ("", "crdtstream.v1.Replication", "crdtstream.v1.Admin", "crdtstream.v1.Query")


@pytest.fixture(scope="module")
def regions(
    tmp_path_factory: pytest.TempPathFactory, toxiproxy_server: Toxiproxy
) -> Iterator[Regions]:
    folder = tmp_path_factory.mktemp("available")
    # No test but one is about the time in which a loop comes to a request.
    with regions_apart(folder, toxiproxy_server, availability_latency_tolerance_ms=0) as found:
        yield found


def serving(address: str) -> list[str]:
    """The services that gRPC health calls serving."""
    with grpc.insecure_channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        return [
            service
            for service in SERVICES
            if health.Check(
                health_pb2.HealthCheckRequest(service=service), timeout=seconds()
            ).status
            == health_pb2.HealthCheckResponse.SERVING
        ]


def test_a_region_that_is_well_is_available_in_all_ways(regions: Regions) -> None:
    assert regions.get(1, "/healthz") == (200, {"alive": True, "fault": None})
    assert regions.get(1, "/readyz") == (
        200,
        {"ready": True, "reason": None, "missing_effects": 0},
    )
    # As in Redis Enterprise, without a body.
    for path in (PLAIN, LOCAL):
        assert regions.get(1, path) == (200, None)
    for path in (PLAIN + LAG, LOCAL + LAG):
        wait_until(lambda path=path: regions.get(1, path) == (200, None), f"{path} says so")  # type: ignore[misc]
    wait_until(lambda: serving(regions[1].grpc_address) == list(SERVICES), "gRPC says so")


@pytest.mark.long
def test_a_region_whose_loop_stalls_is_unavailable_until_it_keeps_up(regions: Regions) -> None:
    process = regions[3].process
    assert process is not None
    regions[3].client.config_set("availability_latency_tolerance_ms", 500)
    with stalling(process):
        wait_until(lambda: regions.get(3, "/readyz")[0] == 503, "it says that it is slow")
        status, body = regions.get(3, PLAIN)
        assert (status, body["error_code"]) == (503, "bdb_unavailable")
        assert "ms until the event loop comes to a request" in body["description"]
        # It does all that it is asked for.
        assert regions[3].client.xadd("slow", {"f": "v"})
        regions[3].client.config_set("availability_latency_tolerance_ms", 0)
        assert regions.get(3, "/readyz")[0] == 200
        regions[3].client.config_set("availability_latency_tolerance_ms", 500)
        status, body = regions.get(3, "/readyz")
        assert status == 503, body
    wait_until(lambda: regions.get(3, "/readyz")[0] == 200, "it keeps up again")
    regions[3].client.config_set("availability_latency_tolerance_ms", 0)


def test_the_database_is_found_by_host_and_port(regions: Regions) -> None:
    status, (bdb,) = regions.get(2, "/v1/bdbs")
    assert status == 200
    assert (bdb["uid"], bdb["name"], bdb["status"], bdb["crdt"]) == (1, "crdb", "active", True)
    assert bdb["crdt_replica_id"] == 2
    (endpoint,) = bdb["endpoints"]
    assert endpoint["dns_name"] == "127.0.0.2"
    assert endpoint["port"] == regions[2].resp_port
    assert {"127.0.0.2", "localhost"} <= set(endpoint["addr"])
    assert regions.get(2, "/v1/bdbs/1") == (200, bdb)
    # Jedis and Lettuce ask for two fields.
    assert regions.get(2, "/v1/bdbs?fields=uid,endpoints") == (
        200,
        [{"uid": 1, "endpoints": [endpoint]}],
    )


def test_a_client_finds_a_node_by_the_name_that_it_asked_for(regions: Regions) -> None:
    url = f"http://127.0.0.1:{regions.http_port}/v1/bdbs"
    asked = urllib.request.Request(url, headers={"Host": "redis.eu.example.org:8381"})
    with urllib.request.urlopen(asked) as page:
        assert b'"dns_name":"redis.eu.example.org"' in page.read()
    # What is no name is not repeated.
    asked = urllib.request.Request(url, headers={"Host": "<script>"})
    with urllib.request.urlopen(asked) as page:
        assert b"script" not in page.read()


WRONG = [
    ("/v1/bdbs/2", 404, "db_not_found"),
    ("/v1/bdbs/2/availability", 404, "db_not_found"),
    ("/v1/local/bdbs/2/endpoint/availability", 404, "db_not_found"),
    ("/v1/bdbs/one", 400, "invalid_schema"),
    ("/v1/bdbs/-1/availability", 400, "invalid_schema"),
    ("/v1/bdbs/99999999999999999999/availability", 400, "invalid_schema"),
    (PLAIN + "?extend_check=luck", 400, "invalid_schema"),
    (PLAIN + "?extend_check=", 400, "invalid_schema"),
    (PLAIN + "?extend_check=lag&availability_lag_tolerance_ms=soon", 400, "invalid_schema"),
    (PLAIN + "?extend_check=lag&availability_lag_tolerance_ms=-1", 400, "invalid_schema"),
    (PLAIN + "?availability_lag_tolerance_ms=2147483648", 400, "invalid_schema"),
    (PLAIN + "?extend_check=lag&extend_check=lag", 400, "invalid_schema"),
    (PLAIN + "?lag=1", 400, "invalid_schema"),
    (PLAIN + "?extend_check=lag" + "," * 2_000, 400, "invalid_schema"),
    ("/v1/nothing", 404, "not_found"),
]


@pytest.mark.parametrize(("path", "status", "error_code"), WRONG)
def test_a_wrong_question_is_answered_with_what_is_wrong(
    regions: Regions, path: str, status: int, error_code: str
) -> None:
    found, body = regions.get(1, path)
    assert (found, body["error_code"]) == (status, error_code)
    assert body["description"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_get_and_head_are_served(regions: Regions, method: str) -> None:
    url = f"http://127.0.0.1:{regions.http_port}/v1/bdbs"
    status, body = get(url, method=method)
    assert (status, body["error_code"]) == (405, "method_not_allowed")
    assert get(url, method="HEAD") == (200, None)


def test_the_head_of_a_request_is_bounded(regions: Regions) -> None:
    """A request that does not end is ended by the node."""
    with socket.create_connection(
        ("127.0.0.1", regions.http_port), timeout=seconds()
    ) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * (32 << 10))
        assert connection.recv(1 << 10).startswith(b"HTTP/1.1 400 ")
    assert regions.get(1, "/healthz")[0] == 200


def test_a_region_that_comes_back_behind_takes_no_writes_until_it_has_caught_up(
    regions: Regions,
) -> None:
    node, other = regions[1], regions[2]
    node.end(signal.SIGKILL)
    noise = random.Random(1)
    # They take 40 s and more through the thin lines, however long the node takes to start.
    count = 200
    for _ in range(count):
        other.client.xadd("while away", {"field": noise.randbytes(20_000)})
    proxies = [regions.proxies[1, peer] for peer in (2, 3)]
    for proxy in proxies:
        proxy.add_toxic(name="thin", type="bandwidth", attributes={"rate": 50})
    # It waits for what its peers say as long as it takes, also on a busy machine.
    before = node.config.read_text()
    assert ANSWER_MS_MAX in before
    node.config.write_text(before.replace(ANSWER_MS_MAX, "catch_up_answer_ms_max = 60000"))
    try:
        node.launch()
        node.wait(for_writes=False)
        status, body = regions.get(1, "/readyz")
        assert (status, body["ready"]) == (503, False)
        assert 0 < body["missing_effects"] <= count
        told = f"came back behind its peers and catches up: {body['missing_effects']} effect"
        assert told in body["reason"]
        with pytest.raises(redis.ResponseError, match="MISCONF region 1 came back behind"):
            node.client.xadd("s", {"f": "v"})
        # Clients that check by PING must not come back yet.
        with pytest.raises(redis.ResponseError, match="MISCONF region 1 came back behind"):
            node.client.ping()
        assert node.client.xlen("while away") < count
        for path, error_code in (
            (PLAIN, "bdb_unavailable"),
            (LOCAL, "bdb_endpoint_unavailable"),
            (PLAIN + LAG, "bdb_unavailable"),
        ):
            status, body = regions.get(1, path)
            assert (status, body["error_code"]) == (503, error_code)
            assert "came back behind" in body["description"]
        assert regions.get(1, "/healthz")[0] == 200
        # It may be read and pulled from, and put right, while it takes no writes.
        wait_until(lambda: serving(node.grpc_address) == list(SERVICES[1:]), "gRPC says so")
    finally:
        node.config.write_text(before)
        for proxy in proxies:
            proxy.destroy_toxic("thin")
    node.wait()
    assert node.client.xlen("while away") == count
    assert regions.get(1, "/readyz")[0] == 200


@pytest.mark.long
def test_a_region_that_was_cut_off_is_not_current_before_it_has_what_it_missed(
    regions: Regions,
) -> None:
    cut = [proxy for link, proxy in regions.proxies.items() if 1 in link]
    for proxy in cut:
        proxy.disable()
    began = time.monotonic()
    wait_until(lambda: regions.get(1, PLAIN + LAG)[0] == 503, "it hears nobody")
    noise = random.Random(2)
    for _ in range(40):
        regions[2].client.xadd("while cut off", {"field": noise.randbytes(20_000)})
    pulls = [regions.proxies[1, peer] for peer in (2, 3)]
    for proxy in pulls:
        proxy.add_toxic(name="thin", type="bandwidth", attributes={"rate": 50})
    wait_until(lambda: time.monotonic() > began + 1.5, "it is cut off for longer than is tolerated")
    for proxy in cut:
        proxy.enable()

    def is_behind() -> bool:
        status, body = regions.get(1, PLAIN + LAG)
        assert status == 503, "it has missed something"
        return bool(body["error_code"] == "bdb_unavailable")

    wait_until(is_behind, "it hears the others, and is behind them")
    assert regions.get(1, PLAIN) == (200, None)
    for proxy in pulls:
        proxy.destroy_toxic("thin")
    wait_until(lambda: regions.get(1, PLAIN + LAG) == (200, None), "it is current")
    assert regions[1].client.xlen("while cut off") == 40


def test_a_lone_survivor_starts_and_knows_that_it_may_be_cut_off(regions: Regions) -> None:
    for number in (1, 2, 3):
        regions[number].end(signal.SIGKILL)
    regions[1].start()
    assert regions[1].client.xadd("s", {"f": "v"})
    assert regions.get(1, PLAIN) == (200, None)
    status, body = regions.get(1, PLAIN + LAG)
    assert (status, body["error_code"]) == (503, "no_quorum")
    assert "hears 0 of its 2 peers" in body["description"]
    # With one of the others it is a majority.
    regions[2].start()
    wait_until(lambda: regions.get(1, PLAIN + LAG) == (200, None), "it hears region 2")
    regions[3].start()
    regions.cluster.converge()


@pytest.mark.long
def test_three_regions_that_start_at_once_wait_for_each_other_and_not_for_ever(
    regions: Regions,
) -> None:
    for number in (1, 2, 3):
        regions[number].client.xadd("s", {"f": "v"})
        regions[number].end(signal.SIGKILL)
    for number in (1, 2, 3):
        regions[number].launch()
    for number in (1, 2, 3):
        regions[number].wait()
        assert regions[number].client.xadd("s", {"f": "v"})
    regions.cluster.converge()
