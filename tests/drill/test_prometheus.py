"""The drill's Prometheus: rules shortened, what alerts did, and a real server with real regions."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from crdtstream.drill.prometheus import RULES, Prometheus, PrometheusError, scaled_rules
from tests.conftest import free_base_port, program
from tests.live.cluster import Cluster, running_regions
from tests.patience import wait_until


def scaled(rule: str, *, factor: float = 0.1) -> dict[str, object]:
    text = f"groups: [{{name: g, rules: [{rule}]}}]"
    content = yaml.safe_load(scaled_rules(text, factor=factor, interval_seconds=1))
    found: dict[str, object] = content["groups"][0]["rules"][0]
    return found


@pytest.mark.parametrize(
    ("expression", "shortened"),
    [
        ("up == 0", "up == 0"),
        ("rate(x[5m]) > 300", "rate(x[30000ms]) > 300"),
        # A range of fewer scrapes would tell nothing.
        ("rate(x[20s]) > 1", "rate(x[5000ms]) > 1"),
        (
            "changes((min by (a) (x))[10m:1m]) == 0",
            "changes((min by (a) (x))[60000ms:6000ms]) == 0",
        ),
        ("x > 1.1 * (x offset 10m)", "x > 1.1 * (x offset 60000ms)"),
        ('x{state="5m"} > 5', 'x{state="5m"} > 5'),
    ],
)
def test_ranges_of_a_rule_are_shortened(expression: str, shortened: str) -> None:
    assert scaled(f"{{alert: A, expr: '{expression}'}}")["expr"] == shortened


@pytest.mark.parametrize(
    ("wait", "shortened"),
    [("30s", "3000ms"), ("1m30s", "9000ms"), ("15m", "90000ms"), ("1ms", "1ms")],
)
def test_the_waiting_time_of_a_rule_is_shortened(wait: str, shortened: str) -> None:
    assert scaled(f"{{alert: A, expr: up, for: {wait}}}")["for"] == shortened


def test_the_rules_keep_their_words() -> None:
    before = yaml.safe_load(RULES.read_text())
    after = yaml.safe_load(scaled_rules(RULES.read_text(), factor=0.1, interval_seconds=1))
    for group, other in zip(before["groups"], after["groups"], strict=True):
        for rule, shortened in zip(group["rules"], other["rules"], strict=True):
            assert rule.keys() == shortened.keys()
            assert rule["annotations"] == shortened["annotations"]


def alert(name: str, state: str, **labels: str) -> dict[str, object]:
    return {"labels": {"alertname": name, **labels}, "state": state}


def test_changes_of_alerts_are_reported_once_in_order(tmp_path: Path) -> None:
    watch = Prometheus({}, folder=tmp_path)
    for at, found in enumerate(
        [
            [],
            [alert("A", "pending", region="1")],
            [alert("A", "pending", region="1"), alert("A", "pending", region="2")],
            [alert("A", "firing", region="1")],
            [alert("A", "firing", region="1")],
            [],
            [alert("A", "firing", region="1")],
        ]
    ):
        watch._take(found, at)
    assert [(one.at, one.labels["region"], one.state) for one in watch.alerts()] == [
        (1, "1", "pending"),
        (2, "2", "pending"),
        (3, "1", "firing"),
        (3, "2", "gone"),
        (5, "1", "gone"),
        (6, "1", "firing"),
    ]
    assert watch.fired() == [("A", {"region": "1"}, 3), ("A", {"region": "1"}, 6)]


def test_without_the_program_it_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrometheusError, match="apt-get install prometheus"):
        Prometheus({}, folder=tmp_path).start()


def test_without_rules_it_says_which_file_is_missing(tmp_path: Path) -> None:
    program("prometheus")
    with pytest.raises(PrometheusError, match="no-rules"):
        Prometheus({}, folder=tmp_path, rules=tmp_path / "no-rules.yml").start()


def test_rules_that_are_none_end_it_with_what_it_says(tmp_path: Path) -> None:
    program("prometheus")
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: [{name: g, rules: [{alert: A, expr: 'up =='}]}]")
    with pytest.raises(PrometheusError, match="parse error"):
        Prometheus({}, folder=tmp_path / "p", rules=rules).start()


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program("prometheus")
    with running_regions(2, tmp_path_factory.mktemp("regions")) as cluster:
        yield cluster


@pytest.mark.live
@pytest.mark.long
def test_a_region_that_dies_fires_the_alerts_that_say_so(regions: Cluster, tmp_path: Path) -> None:
    targets = {number: f"127.0.0.1:{node.http_port}" for number, node in regions.nodes.items()}
    with Prometheus(
        targets,
        folder=tmp_path,
        factor=0.02,
        interval_seconds=0.2,
        port=free_base_port(1),
    ) as watch:
        assert watch.query("sum(crdtstream_link_up)") == [({}, 2.0)]
        assert watch.fired() == []
        regions[2].end(signal.SIGKILL)
        regions[2].client.close()
        wanted = {
            ("CrdtstreamRegionDown", "2"),
            ("CrdtstreamLinkDown", "1"),
            ("CrdtstreamRegionIsolated", "1"),
        }

        def fired() -> set[tuple[str, str]]:
            return {(name, labels["region"]) for name, labels, _ in watch.fired()}

        wait_until(lambda: wanted <= fired(), f"{wanted} fire")
        regions[2].start()
        wait_until(
            lambda: (
                ("CrdtstreamRegionDown", "gone")
                in {(change.name, change.state) for change in watch.alerts()}
            ),
            "the alert goes",
        )
        # A failed expression is told with Prometheus' own words.
        with pytest.raises(PrometheusError, match="parse error"):
            watch.query("up ==")
    # What alerts did is still there, and so is not the server.
    assert wanted <= fired()
    with pytest.raises(PrometheusError, match="does not answer"):
        watch.query("up")
