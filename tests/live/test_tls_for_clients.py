"""A node whose only port for clients has TLS, as a process; its certificate changes under load."""

import json
import signal
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.live.cluster import Node, cluster_of
from tests.patience import seconds, wait_until
from tests.resp.tls import Party, TlsClient

pytestmark = pytest.mark.live


@pytest.fixture
def party(tmp_path: Path) -> Party:
    folder = tmp_path / "certificates"
    folder.mkdir()
    return Party.of(folder)


def client_of(node: Node, party: Party) -> Any:
    certificate, key = party.files_of("default")
    return redis.Redis(
        host="localhost",
        port=node.resp_port,
        socket_timeout=seconds(),
        retry=Retry(NoBackoff(), 0),
        ssl=True,
        ssl_ca_certs=str(party.ca_path),
        ssl_certfile=str(certificate),
        ssl_keyfile=str(key),
    )


@pytest.fixture
def node(party: Party, tmp_path: Path) -> Iterator[Node]:
    """It asks for a password, and its clients get in by their certificate."""
    with cluster_of(1, tmp_path) as cluster:
        node = cluster[1]
        node.client = client_of(node, party)
        paths = party.folder.paths
        cluster.configure(
            resp_port=0,
            tls_port=node.resp_port,
            tls_auth_clients_user="CN",
            tls_cert_file=str(paths.certificate),
            tls_key_file=str(paths.key),
            tls_ca_cert_file=str(paths.ca),
            requirepass="secret",
        )
        cluster.start()
        yield node


def test_clients_get_in_by_their_certificate_alone(node: Node, party: Party) -> None:
    assert node.client.acl_whoami() == "default"
    server = node.client.info("server")
    assert server["tcp_port"] == server["listener2"]["port"] == node.resp_port
    assert "listener0" not in server
    with pytest.raises(redis.ConnectionError):
        redis.Redis(port=node.resp_port, password="secret", retry=Retry(NoBackoff(), 0)).ping()
    with TlsClient(node.resp_port, party.context("stranger")) as stranger:
        stranger.send(b"PING\r\n")
        assert stranger.read_line().startswith(b"-NOAUTH")


def test_pages_name_the_port_of_tls(node: Node) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/v1/bdbs/1") as page:
        found = json.load(page)
    assert found["endpoints"][0]["port"] == node.resp_port


def test_the_log_names_no_plain_port_where_there_is_none(node: Node) -> None:
    (serving,) = [line for line in node.log.read_text().splitlines() if " serving " in line]
    assert f"tls_port={node.resp_port}" in serving
    assert " resp=" not in serving


def test_certificates_change_under_load_without_an_error(node: Node, party: Party) -> None:
    stop = threading.Event()
    errors: list[Exception] = []
    counts = [0, 0]

    clients = [client_of(node, party) for _ in counts]

    def write(own: int) -> None:
        try:
            while not stop.is_set():
                clients[own].xadd(f"s{own}", {"n": counts[own]})
                counts[own] += 1
                if own == 1:
                    # The next one comes over a new connection.
                    clients[own].connection_pool.disconnect()
        except redis.RedisError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(own,)) for own in range(len(clients))]
    for thread in threads:
        thread.start()
    try:
        for number in range(3):
            party.folder.put_all(party.issue(f"server {number}"))
            assert node.process is not None
            node.process.send_signal(signal.SIGHUP)
            wait_until(lambda: _version(node) == number + 2, "the new certificate")  # noqa: B023
            seen = counts[1]
            wait_until(lambda: counts[1] > seen + 5 or errors, "new connections")  # noqa: B023
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert [node.client.xlen(f"s{n}") for n in (0, 1)] == counts


def _version(node: Node) -> int:
    """Sets of certificates that the node has had."""
    return node.log.read_text().count("new certificates") + 1


def test_a_node_whose_tls_port_is_taken_says_so(node: Node, party: Party, tmp_path: Path) -> None:
    with cluster_of(1, tmp_path / "another") as cluster:
        (tmp_path / "another").mkdir()
        other, paths = cluster[1], party.folder.paths
        cluster.configure(
            resp_port=0,
            tls_port=node.resp_port,
            tls_auth_clients="no",
            tls_cert_file=str(paths.certificate),
            tls_key_file=str(paths.key),
        )
        process = other.launch()
        assert process.wait(seconds()) == 1
        other.process = None
        assert "cannot be listened on (tls_port)" in other.log.read_text()
