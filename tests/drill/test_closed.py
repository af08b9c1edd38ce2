"""A drill on a closed set-up: clients, calls and Prometheus present a certificate and a user."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer

from crdtstream.drill.outcome import Verdict
from crdtstream.drill.report.files import read_json
from tests.conftest import free_base_port, program
from tests.live.closed import Closed
from tests.live.cluster import cluster_of

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(240)]

# Each way that a drill's clients and calls go.
DRILL: Final = """\
about: Clients of region 1 move while it is cut off, and one link is slow.
seconds: 6
groups:
  - {name: workers}
load:
  - {kind: plain, region: 2, per_second: 10}
  - {kind: idempotent, region: 1, per_second: 10}
  - {kind: multidb, region: 1, per_second: 10}
  - {kind: consumer, group: workers, region: 2, claim_after_ms: 500}
  - {kind: xread, region: 3}
  - {kind: crdt.xread, region: 2}
  - {kind: herd, region: 1, clients: 5}
steps:
  - {do: cut-clients, region: 1, at: 1.5, lasts: 1.5}
  - {do: slow-links, at: 1, lasts: 2, links: [[3, 2]], rtt_ms: 200}
must_hold:
  again: [claimed, other region]
  hit_at_least: 1
alerts: []
"""


@pytest.fixture
def toxiproxy(toxiproxy_server: Toxiproxy) -> Toxiproxy:
    return toxiproxy_server


@pytest.fixture
def closed(tmp_path: Path, toxiproxy: Toxiproxy) -> Iterator[Closed]:
    """Three closed regions whose ways lead through proxies with the names that drills know."""
    with cluster_of(3, tmp_path) as cluster:
        closed = Closed(cluster, tmp_path)
        # redis-py's health check knows one port for all hosts.
        health_port = free_base_port(1)
        for region, node in cluster.nodes.items():
            host = f"127.0.0.{region}"
            toxiproxy.create(f"127.0.0.1:{node.resp_port}", f"clients-of-{region}", f"{host}:0")
            health = f"{host}:{health_port}"
            toxiproxy.create(f"127.0.0.1:{node.http_port}", f"health-of-{region}", health)
            peers = {}
            for peer, other in cluster.nodes.items():
                if peer != region:
                    name = f"{region}-pulls-{peer}"
                    peers[peer] = toxiproxy.create(other.grpc_address, name, "127.0.0.1:0").listen
            node.configure(peers, **closed.settings_of(node))
        cluster.start()
        yield closed
    toxiproxy.destroy_all()


def test_every_client_of_a_drill_gets_in_with_its_certificate_and_user(
    closed: Closed, toxiproxy: Toxiproxy, tmp_path: Path
) -> None:
    program("prometheus")
    path, out = tmp_path / "closed.yaml", tmp_path / "out"
    path.write_text(DRILL)
    words: list[Any] = [
        *(sys.executable, "-m", "crdtstream", "drill", "run", path, "--out", out, "--alerts"),
        *("--address", closed.addresses),
        *("--toxiproxy", f"{APIConsumer.host}:{APIConsumer.port}"),
        *("--user", "drill", "--password-file", closed.password_file()),
        *closed.operator.options,
    ]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = read_json(out / "report.json").runs
    assert run.verdict is Verdict.PASSED
    kinds = {"plain", "idempotent", "multidb", "herd"}
    assert {one.kind for one in run.produced if one.acknowledged} == kinds
    assert closed[1].client.keys("*") == []


def test_without_a_certificate_the_drill_does_not_begin(
    closed: Closed, toxiproxy: Toxiproxy, tmp_path: Path
) -> None:
    path = tmp_path / "closed.yaml"
    path.write_text(DRILL)
    words = [
        *(sys.executable, "-m", "crdtstream", "drill", "run", str(path), "--no-alerts"),
        *("--address", closed.addresses),
        *("--toxiproxy", f"{APIConsumer.host}:{APIConsumer.port}"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "--tls-cert-file" in done.stdout + done.stderr
