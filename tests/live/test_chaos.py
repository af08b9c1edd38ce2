"""The example experiments for the Chaos Toolkit, run by the real program against real regions."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer

from crdtstream.settings.node_settings import load_settings
from tests.conftest import ROOT, program
from tests.live.closed import Closed
from tests.live.cluster import Cluster, cluster_of
from tests.patience import LONG, seconds

FOLDER = ROOT / "deploy" / "chaostoolkit"
EXPERIMENTS = sorted(FOLDER.glob("*.yaml"))
CONTINUOUSLY = (
    "--hypothesis-strategy",
    "continuously",
    "--hypothesis-frequency",
    "1",
    "--fail-fast",
)


def test_the_proxies_lead_to_the_regions_of_deploy() -> None:
    """Each directed link has one, the experiment uses no other, and its defaults are theirs."""
    regions = {
        number: load_settings(ROOT / "deploy" / f"region-{number}.toml") for number in (1, 2, 3)
    }
    upstream = {
        f"{puller}-pulls-{peer.region}": peer.address
        for puller, settings in regions.items()
        for peer in settings.peers
    }
    for number, settings in regions.items():
        # For failover drills, whose clients go through proxies, too.
        upstream[f"clients-of-{number}"] = f"127.0.0.1:{settings.resp_port}"
        upstream[f"health-of-{number}"] = f"127.0.0.1:{settings.http_port}"
    proxies = json.loads((FOLDER / "toxiproxy.json").read_text())
    assert {proxy["name"]: proxy["upstream"] for proxy in proxies} == upstream
    assert len(EXPERIMENTS) == 2
    for path in EXPERIMENTS:
        experiment = yaml.safe_load(path.read_text())
        used = set(proxies_of(experiment))
        assert used
        assert used <= upstream.keys()
        defaults = {name: one["default"] for name, one in experiment["configuration"].items()}
        for number, settings in regions.items():
            assert defaults[f"http_{number}"] == f"http://127.0.0.1:{settings.http_port}"
            assert defaults[f"resp_{number}"] == str(settings.resp_port)
            grpc = f"127.0.0.1:{settings.grpc_port}"
            assert defaults.get(f"grpc_{number}", grpc) == grpc
        # What was done is taken back, whatever happened.
        assert [step["provider"]["func"] for step in experiment["rollbacks"]] == ["reset"]


def proxies_of(experiment: dict[str, Any]) -> Iterator[str]:
    for step in experiment["method"]:
        arguments = step["provider"].get("arguments")
        if isinstance(arguments, dict):
            yield arguments.get("for_proxy") or arguments["proxy_name"]


def proxied(cluster: Cluster, server: Toxiproxy) -> dict[tuple[int, int], str]:
    """The addresses of proxies with the experiment's names, by puller and peer."""
    return {
        (puller, peer): server.create(
            cluster[peer].grpc_address, f"{puller}-pulls-{peer}", "127.0.0.1:0"
        ).listen
        for puller in cluster.nodes
        for peer in cluster.nodes
        if peer != puller
    }


@pytest.fixture(scope="module")
def regions(
    tmp_path_factory: pytest.TempPathFactory, toxiproxy_server: Toxiproxy
) -> Iterator[Cluster]:
    """Three regions, the links between them through proxies with the experiment's names."""
    with cluster_of(3, tmp_path_factory.mktemp("regions")) as cluster:
        cluster.configure(proxied(cluster, toxiproxy_server), availability_latency_tolerance_ms=0)
        cluster.start()
        yield cluster
    toxiproxy_server.destroy_all()


def run_experiment(
    name: str, *options: str, cluster: Cluster, folder: Path, closed: Closed | None = None
) -> tuple[int, dict[str, Any]]:
    """Its exit status and its journal; on a closed set-up with what that asks for."""
    program("redis-cli")
    environment = {
        **os.environ,
        "TOXIPROXY_URL": f"http://{APIConsumer.host}:{APIConsumer.port}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
    }
    for number, node in cluster.nodes.items():
        scheme = "http" if closed is None else "https"
        environment[f"REGION_{number}_HTTP"] = f"{scheme}://127.0.0.1:{node.http_port}"
        environment[f"REGION_{number}_RESP"] = str(node.resp_port)
        environment[f"REGION_{number}_GRPC"] = node.grpc_address
    if closed is not None:
        environment |= closed.environment("root")
    journal = folder / "journal.json"
    # Its bounds are for a machine that does nothing else.
    experiment = folder / f"{name}.yaml"
    text = (FOLDER / experiment.name).read_text()
    experiment.write_text(re.sub(r"(timeout:? )\d+", rf"\g<1>{seconds():.0f}", text))
    done = subprocess.run(
        [
            *(str(program("chaos")), "--no-version-check", "--log-file", str(folder / "chaos.log")),
            *("run", "--journal-path", str(journal), *options, str(experiment)),
        ],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(LONG),
    )
    assert journal.exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(journal.read_text())
    return done.returncode, found


def failed(journal: dict[str, Any]) -> list[str]:
    """Steps that did not do what they should."""
    steps = [*journal["run"], *journal["rollbacks"]]
    return [
        f"{one['activity']['name']}: {one.get('output')}"
        for one in steps
        if one["status"] != "succeeded"
        or (isinstance(one["output"], dict) and one["output"].get("status"))
    ]


@pytest.mark.long
def test_regions_that_wrote_apart_hold_the_same_afterwards(
    regions: Cluster, tmp_path: Path
) -> None:
    status, journal = run_experiment("converges", cluster=regions, folder=tmp_path)
    assert failed(journal) == []
    assert (status, journal["status"], journal["deviated"]) == (0, "completed", False)
    # The faults were there while it wrote.
    ended = {one["activity"]["name"]: one["end"] for one in journal["run"]}
    assert ended["region-3-is-written-to"] < ended["the-network-is-well-again"]
    # What it wrote is there, in each region: nothing was lost and nothing came twice.
    assert [node.client.xlen("chaos") for node in regions.nodes.values()] == [300, 300, 300]


@pytest.mark.long
def test_regions_stay_available_while_the_network_is_bad(regions: Cluster, tmp_path: Path) -> None:
    before = regions[3].client.xlen("chaos")
    status, journal = run_experiment(
        "stays-available", *CONTINUOUSLY, cluster=regions, folder=tmp_path
    )
    assert failed(journal) == []
    assert (status, journal["status"], journal["deviated"]) == (0, "completed", False)
    # Each look at the hypothesis was a write in each region, also in the one that was cut off.
    looks = journal["steady_states"]["during"]
    assert len(looks) >= 4
    regions.converge()
    assert regions[3].client.xlen("chaos") - before == 3 * (len(looks) + 2)


@pytest.mark.long
def test_a_region_that_is_down_is_noticed(regions: Cluster, tmp_path: Path) -> None:
    regions[3].end(signal.SIGKILL)
    try:
        status, journal = run_experiment("stays-available", cluster=regions, folder=tmp_path)
    finally:
        regions[3].start()
    assert (status, journal["status"]) == (1, "failed")
    assert journal["run"] == []
    assert journal["steady_states"]["before"]["steady_state_met"] is False


@pytest.mark.long
@pytest.mark.parametrize("name", [path.stem for path in EXPERIMENTS])
def test_an_experiment_gets_in_to_a_closed_set_up(
    name: str, tmp_path: Path, toxiproxy_server: Toxiproxy
) -> None:
    """Its last tests: the proxies of the regions above have the same names."""
    toxiproxy_server.destroy_all()
    with cluster_of(3, tmp_path) as cluster:
        closed = Closed(cluster, tmp_path)
        ways = proxied(cluster, toxiproxy_server)
        for region, node in cluster.nodes.items():
            peers = {peer: way for (puller, peer), way in ways.items() if puller == region}
            node.configure(peers, **closed.settings_of(node))
        cluster.start()
        status, journal = run_experiment(name, cluster=cluster, folder=tmp_path, closed=closed)
        assert failed(journal) == []
        assert (status, journal["status"], journal["deviated"]) == (0, "completed", False)
    toxiproxy_server.destroy_all()
