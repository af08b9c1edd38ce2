"""Metrics of real regions: what deploy/ names is there, figures follow what happens."""

import http.client
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from crdtstream.metrics.definitions import DEFINITIONS, PROCESS_METRICS
from tests.conftest import ROOT, free_base_port, program
from tests.live.cluster import Cluster, Node, running_regions
from tests.live.test_mutual_tls import secure_regions
from tests.metrics.expressions import Use, uses
from tests.patience import seconds, wait_until

# What Prometheus adds, and what rules add to alerts.
BY_PROMETHEUS = {"up": {"job", "instance", "region"}}
ADDED = {"job", "instance"}


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three regions that hold a stream, a group, and one error."""
    with running_regions(3, tmp_path_factory.mktemp("regions")) as cluster:
        client = cluster[1].client
        client.xgroup_create("orders", "billing", "0", mkstream=True)
        for number in range(20):
            client.xadd("orders", {"number": number})
        client.xreadgroup("billing", "alice", {"orders": ">"}, count=5)
        cluster.converge()
        yield cluster


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(node: Node) -> Series:
    """Every sample of the page; the label ``region`` is checked, and left out."""
    url = f"http://127.0.0.1:{node.http_port}/metrics"
    with urllib.request.urlopen(url, timeout=seconds()) as page:
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = page.read().decode()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("region") == str(node.region)
            found[sample.name, frozenset(labels.items())] = sample.value
    return found


def value(node: Node, name: str, **labels: str) -> float:
    return scrape(node)[f"crdtstream_{name}", frozenset(labels.items())]


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with secure_regions(1, tmp_path_factory.mktemp("secure")) as secure:
        yield secure[1]


@pytest.fixture(scope="module")
def labels_of(regions: Cluster, with_tls: Node) -> dict[str, set[str]]:
    """The labels of each series on real pages: of a region with peers, and of one with TLS."""
    found: dict[str, set[str]] = {}
    for node in (regions[1], with_tls):
        for name, labels in scrape(node):
            found.setdefault(name, {"region"}).update(label for label, _ in labels)
    return found


def test_fields_of_info_that_the_runbook_names_exist(regions: Cluster, with_tls: Node) -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    named = {
        field.replace("_N", "_2")
        for fields in re.findall(r"((?:`[\w]+`(?:,| and)? )+)in INFO", page)
        for field in re.findall(r"`(\w+)`", fields)
    }
    assert len(named) > 15
    assert named <= set(regions[1].client.info("everything")) | set(with_tls.client.info("crdt"))


def test_every_metric_that_is_documented_is_on_the_page(labels_of: dict[str, set[str]]) -> None:
    defined = {name for one in DEFINITIONS for name in one.series_names}
    # Nobody was answered an error here, and no peer lacks anything.
    absent = {"crdtstream_errors_total", "crdtstream_log_kept_seconds"}
    assert labels_of.keys() | absent == defined | absent | set(PROCESS_METRICS)


@pytest.mark.parametrize("use", uses(), ids=lambda use: f"{use.where}: {use.expression}"[:60])
def test_alerts_and_dashboard_name_metrics_and_labels_that_are_there(
    use: Use, labels_of: dict[str, set[str]]
) -> None:
    known = labels_of | BY_PROMETHEUS
    known.setdefault("crdtstream_errors_total", {"region", "kind"})
    assert use.selected
    anywhere = set(ADDED)
    for name, labels in use.selected.items():
        assert name in known, f"{use.where}: no metric {name}"
        assert labels <= known[name] | ADDED, f"{use.where}: {name} has no label {labels}"
        anywhere |= known[name]
    assert use.grouped <= anywhere, f"{use.where}: nothing has {use.grouped - anywhere}"


def test_the_figures_are_those_of_the_region(regions: Cluster) -> None:
    here, there = scrape(regions[1]), scrape(regions[2])

    def at(series: Series, name: str, **labels: str) -> float:
        return series[f"crdtstream_{name}", frozenset(labels.items())]

    assert at(here, "command_duration_seconds_count", command="xadd") == 20
    assert at(here, "effects_issued_total", kind="Append") == 20
    assert at(there, "effects_applied_total", kind="Append") == 20
    # Some may come again: a link that opens before that to a third region asks for effects of that
    # one as well, and begins once more when that link stands.
    assert at(there, "link_received_effects_total", peer="1") >= 21
    assert at(there, "link_received_bytes_total", peer="1") > 0
    assert at(here, "link_sent_unpacked_bytes_total", peer="2") > 0
    assert at(there, "link_delay_seconds_count", peer="1") == at(
        there, "link_received_batches_total", peer="1"
    )
    assert at(here, "commit_duration_seconds_count") > 0
    assert at(here, "log_bytes") > 0
    assert at(here, "group_pending_entries", key="orders", group="billing") == 5
    assert at(here, "groups_lag_entries") == 15
    # Who read is known where they read; what was not acknowledged is still to come elsewhere.
    assert at(there, "groups_lag_entries") == 20
    for origin in ("1", "2", "3"):
        name = "version_vector"
        assert at(here, name, origin=origin) == at(there, name, origin=origin)


def test_lag_grows_while_a_region_is_frozen_and_goes_when_it_goes_on(regions: Cluster) -> None:
    frozen = regions[3].process
    assert frozen is not None
    frozen.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: value(regions[1], "link_up", peer="3") == 0, "the link is given up")
        before = scrape(regions[1])
        lag = ("crdtstream_link_lag_seconds", frozenset({("peer", "3")}))
        silence = ("crdtstream_link_silence_seconds", frozenset({("peer", "3")}))
        # Nothing is known to be missing, and it grows.
        assert value(regions[1], "link_lag_effects", peer="3") == 0
        wait_until(lambda: scrape(regions[1])[lag] > before[lag] + 0.3, "the lag grows")
        assert scrape(regions[1])[silence] > before[silence] + 0.3
        other = ("crdtstream_link_lag_seconds", frozenset({("peer", "2")}))

        def lags_alone() -> bool:
            series = scrape(regions[1])
            return series[other] < series[lag]

        wait_until(lags_alone, "the lag of the other region does not grow")
        regions[1].client.xadd("orders", {"number": "while frozen"})
        assert value(regions[1], "peer_lag_effects", peer="3") >= 1
        reconnects = value(regions[1], "link_reconnects_total", peer="3")
        assert reconnects >= 1
    finally:
        frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: value(regions[1], "link_up", peer="3") == 1, "it is heard again")
    wait_until(lambda: value(regions[1], "link_lag_seconds", peer="3") < 1, "no lag any more")
    wait_until(lambda: value(regions[1], "peer_lag_effects", peer="3") == 0, "it has it all")
    # It noticed itself that it stood still.
    assert value(regions[3], "loop_stall_max_seconds") > 0.3
    regions.converge()


def test_a_link_that_is_paused_says_so(regions: Cluster) -> None:
    regions[2].set_links(paused=True, peers=[1])
    try:
        assert value(regions[2], "link_state", peer="1", state="paused") == 1
        assert value(regions[2], "link_up", peer="1") == 0
    finally:
        regions[2].set_links(paused=False, peers=[1])
    wait_until(lambda: value(regions[2], "link_state", peer="1", state="live") == 1, "it is live")


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 405)])
def test_only_reading_is_answered(regions: Cluster, method: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", regions[1].http_port)
    connection.request(method, "/metrics")
    assert connection.getresponse().status == status
    connection.close()


def test_the_exporter_for_redis_reads_streams_and_groups(regions: Cluster) -> None:
    """Debian's prometheus-redis-exporter, made for Redis and never changed for us."""
    exporter = program("prometheus-redis-exporter")
    address = f"127.0.0.1:{free_base_port(1)}"
    with subprocess.Popen(
        [
            exporter,
            f"-redis.addr=redis://127.0.0.1:{regions[1].resp_port}",
            "-check-streams=db0=orders",
            f"-web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            found: dict[str, float] = {}
            wait_until(lambda: exported(address, found), "the exporter answers")
        finally:
            process.terminate()
            assert process.stderr is not None
            said = process.stderr.read().decode()
    assert found["redis_up"] == 1
    assert found["redis_exporter_last_scrape_error"] == 0, said
    assert found["redis_stream_length"] == regions[1].client.xlen("orders")
    assert found["redis_stream_groups"] == 1
    assert found["redis_stream_group_consumers"] == 1
    assert found["redis_stream_group_messages_pending"] == 5
    assert found["redis_stream_group_consumer_messages_pending"] == 5
    assert found["redis_connected_clients"] >= 1
    assert found["redis_commands_total xadd"] >= 20
    assert "level=error" not in said


def exported(address: str, found: dict[str, float]) -> bool:
    """Read the exporter's page; by metric, and for commands with their name."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=seconds()) as page:
            text = page.read().decode()
    except urllib.error.URLError:
        return False
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            command = sample.labels.get("cmd")
            found[f"{sample.name} {command}" if command else sample.name] = sample.value
    return True
