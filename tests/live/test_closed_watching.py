"""A closed set-up is watched by real programs: curl, Prometheus with the operators' rules, and the
exporter for Redis, each with a user of few rights."""

import json
import signal
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import redis
import yaml

from crdtstream.access.basic import Login
from tests.conftest import ROOT, free_base_port, program
from tests.live.closed import PASSWORD, Closed, closed_regions
from tests.live.cluster import Node
from tests.metrics.expressions import of_dashboard
from tests.patience import seconds, wait_until

pytestmark = pytest.mark.live

EXAMPLE: Final = ROOT / "deploy" / "closed" / "prometheus.yml"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    # With bounds, which two panels show.
    bounds = {"max_replication_lag_effects": 100_000, "max_replication_lag_ms": 60_000}
    with closed_regions(2, tmp_path_factory.mktemp("closed"), **bounds) as closed:
        yield closed


def page(closed: Closed, node: Node, path: str, user: str | None = None) -> tuple[int, str]:
    """Status and text of a page, by TLS; the name of the node is checked."""
    request = urllib.request.Request(f"https://localhost:{node.http_port}{path}")
    if user is not None:
        request.add_header("Authorization", Login(PASSWORD, user).header)
    context = ssl.create_default_context(cafile=str(closed.authority.ca))
    try:
        with urllib.request.urlopen(request, timeout=seconds(), context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_is_open_and_pages_want_a_user_with_the_right(closed: Closed) -> None:
    node = closed[1]
    assert page(closed, node, "/readyz")[0] == 200
    assert page(closed, node, "/v1/bdbs/1/availability")[0] == 200
    for path in ("/metrics", "/v1/bdbs", "/v1/crdbs"):
        assert page(closed, node, path)[0] == 401
        assert page(closed, node, path, "nobody")[0] == 403
        assert page(closed, node, path, "prometheus")[0] == 200


def test_the_pages_name_regions_by_https(closed: Closed) -> None:
    [database] = json.loads(page(closed, closed[1], "/v1/crdbs", "prometheus")[1])
    urls = {one["id"]: one["cluster"]["url"] for one in database["instances"]}
    assert urls[1] == f"https://0.0.0.0:{closed[1].http_port}"


def test_no_page_is_served_without_tls(closed: Closed) -> None:
    url = f"http://127.0.0.1:{closed[1].http_port}/readyz"
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(url, timeout=seconds())


def test_renewed_certificates_are_shown_to_the_next_browser(closed: Closed) -> None:
    node = closed[2]
    address = ("127.0.0.1", node.http_port)
    before = ssl.get_server_certificate(address)
    current = closed.authority.region(2)
    renewed = closed.authority.folder / "renewed-2"
    closed.authority.run(
        *("issue", str(closed.authority.folder), "region", "2", "--host", "localhost"),
        *("--host", "127.0.0.1", "--out", str(renewed)),
    )
    # Both at once would be a rename of the folder; half of a pair is not used anyway.
    for name in ("key.pem", "cert.pem"):
        (renewed / name).replace(current.folder / name)
    assert node.process is not None
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: ssl.get_server_certificate(address) != before, "the new one is shown")
    assert page(closed, node, "/readyz")[0] == 200


# --- Prometheus ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus(closed: Closed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a server that scrapes both regions each second.

    Its configuration is that of ``deploy/closed``, with the addresses and files of this test.
    """
    server, folder = program("prometheus"), tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load(EXAMPLE.read_text())
    config["global"] = dict.fromkeys(("scrape_interval", "evaluation_interval"), "1s")
    config["rule_files"] = [str(ROOT / "deploy" / "alerts.yml")]
    [job] = config["scrape_configs"]
    assert job["scheme"] == "https"
    assert job["basic_auth"]["username"] == "prometheus"
    job["tls_config"]["ca_file"] = str(closed.authority.ca)
    job["basic_auth"]["password_file"] = str(closed.password_file())
    job["static_configs"] = [
        {"targets": [f"localhost:{node.http_port}"], "labels": {"region": str(node.region)}}
        for node in closed.nodes
    ]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    port = free_base_port(1)
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            [
                str(server),
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(partial(_are_up, port, 2), "both regions are scraped")
        yield port
    finally:
        process.kill()
        process.wait()


def test_prometheus_scrapes_by_tls_with_a_user_and_judges_the_alerts(prometheus: int) -> None:
    [link] = _asked(prometheus, "query?query=crdtstream_link_up{region='1'}")["result"]
    assert link["value"][1] == "1"
    wait_until(lambda: set(_rules(prometheus)) == {"ok"}, "all rules were evaluated")
    assert len(_rules(prometheus)) > 10


# They have data once something is wrong, or a region takes over a state.
QUIET: Final = (
    "crdtstream_link_silence_seconds",
    "crdtstream_bootstrap_size_bytes",
    "crdtstream_bootstrap_phase",
)


def test_each_panel_of_the_dashboard_has_data_of_closed_regions(
    closed: Closed, prometheus: int
) -> None:
    client = closed[1].client
    client.xgroup_create("orders:1", "workers", "0", mkstream=True)
    stranger = closed.redis(closed[1], username=None, password=None)
    missing = {use.expression for use in of_dashboard() if not use.expression.startswith(QUIET)}
    assert len(missing) > 50

    def are_answered() -> bool:
        """A moment's work of clients, and another look at those without data."""
        for node in closed.nodes:
            node.client.xadd("orders:1", {"f": "v"})
        read = client.xreadgroup("workers", "c1", {"orders:1": ">"}, count=1)
        client.xack("orders:1", "workers", *(one for _, got in read for one, _ in got))
        with pytest.raises(redis.ResponseError):
            client.get("orders:1")
        with pytest.raises(redis.AuthenticationError):
            stranger.ping()
        missing.difference_update(filter(partial(_has_data, prometheus), sorted(missing)))
        return not missing

    try:
        wait_until(are_answered, "each panel has data")
    except AssertionError:
        pytest.fail(f"no data: {sorted(missing)}")


def _has_data(port: int, expression: str) -> bool:
    """True if it has a number; NaN is the share of nothing."""
    asked = expression.replace("$__rate_interval", "10s").replace("$region", ".*")
    found = _asked(port, f"query?{urllib.parse.urlencode({'query': asked})}")["result"]
    return any(one["value"][1] != "NaN" for one in found)


def _asked(port: int, what: str) -> Any:
    url = f"http://127.0.0.1:{port}/api/v1/{what}"
    with urllib.request.urlopen(url, timeout=seconds()) as answer:
        return json.load(answer)["data"]


def _rules(port: int) -> list[str]:
    """End of the last evaluation of each rule."""
    groups = _asked(port, "rules")["groups"]
    return [rule["health"] for group in groups for rule in group["rules"]]


def _are_up(port: int, count: int) -> bool:
    try:
        found = _asked(port, "query?query=up")["result"]
    except OSError:
        return False
    return [one["value"][1] for one in found] == ["1"] * count


def test_the_exporter_for_redis_reads_with_a_user_by_tls(closed: Closed, tmp_path: Path) -> None:
    exporter = program("prometheus-redis-exporter")
    node = closed[1]
    node.client.xadd("orders:1", {"f": "v"})
    port = free_base_port(1)
    passwords = tmp_path / "passwords.json"
    # It looks the password up by the address.
    address = f"rediss://localhost:{node.resp_port}"
    passwords.write_text(json.dumps({address: PASSWORD}))
    paths = closed.authority.client("exporter").paths
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen(
            [
                str(exporter),
                f"--redis.addr={address}",
                "--redis.user=exporter",
                f"--redis.password-file={passwords}",
                f"--tls-ca-cert-file={paths.ca}",
                f"--tls-client-cert-file={paths.certificate}",
                f"--tls-client-key-file={paths.key}",
                "--check-streams=db0=orders:*",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        found: list[str] = []

        def is_scraped() -> bool:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/metrics", timeout=seconds()
                ) as page:
                    found[:] = page.read().decode().splitlines()
            except OSError:
                return False
            return "redis_up 1" in found

        wait_until(is_scraped, "the exporter reads the region")
        assert any(
            line.startswith("redis_stream_length") and 'stream="orders:1"' in line for line in found
        )
    finally:
        process.kill()
        process.wait()
