"""Drills on real nodes, with real clients and a real toxiproxy-server."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer

from crdtstream.drill.drill import Drill
from crdtstream.drill.outcome import Mark, Report, Run, Verdict
from crdtstream.drill.parse import load
from crdtstream.drill.rehearsal import Local
from crdtstream.drill.report.files import read_json
from crdtstream.drill.runner import Progress
from tests.conftest import ROOT, program
from tests.live.cluster import Cluster, cluster_of
from tests.live.conftest import toxiproxy_running
from tests.patience import seconds, wait_until
from tests.planted.program import node_with

pytestmark = pytest.mark.live

DRILLS = ROOT / "scenarios" / "drills"
# A drill and its set-up take half a minute, and on a busy machine more.
TIMEOUT_SECONDS = 300

SHORT = """\
about: Region 1 is cut off, then killed, in a few seconds.
seconds: 7
groups:
  - {name: workers}
load:
  - {kind: plain, region: 1, per_second: 10}
  - {kind: idempotent, region: 1, per_second: 10}
  - {kind: multidb, region: 1, per_second: 10}
  - {kind: idempotent, region: 2, per_second: 10}
  - {kind: consumer, group: workers, region: 1, clients: 2, claim_after_ms: 500}
  - {kind: xread, region: 2}
  - {kind: crdt.xread, region: 1}
steps:
  - {do: partition, at: 1, lasts: 1.5, sides: [[1], [2, 3]]}
  - {do: kill, region: 1, at: 3.5, lasts: 1}
must_hold:
  again: [claimed, other region]
  hit_at_least: 4
"""


class Marks:
    """Notes what happens."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.began_ = threading.Event()

    def began(self, name: str, drill: Drill) -> None:
        self.began_.set()

    def mark(self, mark: Mark) -> None:
        self.marks.append(mark)

    def progress(self, progress: Progress) -> None:
        pass


def rehearse(
    name: str,
    drill: Drill,
    *,
    node: Sequence[str] | None = None,
    watches_alerts: bool = False,
) -> Run:
    program("toxiproxy-server")
    local = Local(stop=lambda: False, watches_alerts=watches_alerts, node=node)
    run = local.run(name, drill, Marks())
    assert run.verdict is not Verdict.ABORTED, run.problem
    return run


def not_met(run: Run) -> set[str]:
    return {check.name.partition(" ")[0] for check in run.checks if not check.is_met}


def failures(run: Run) -> set[str]:
    """The same without what happened, and was late: seconds are for the report."""
    return {
        check.name
        for check in run.checks
        if not check.is_met and not ("_within_s" in check.name and check.found.endswith(" s"))
    }


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.long
def test_a_region_that_is_cut_off_and_killed_costs_nobody_anything(tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    path.write_text(SHORT)
    run = rehearse("short", load(path))
    assert failures(run) == set(), run.findings
    by_kind = {each.kind: each for each in run.produced}
    for kind in ("idempotent", "multidb"):
        each = by_kind[kind]
        assert each.acknowledged > 0
        assert (each.unknown, each.refused, each.lost) == (0, 0, 0)
    [group] = run.consumed
    assert group.delivered >= group.acknowledged >= by_kind["idempotent"].acknowledged
    assert group.never == 0
    moved = {each.kind: each.moves for each in run.stalls}
    assert moved["consumer"] >= 2
    assert moved["xread"] == 0
    # What each link lacked while region 1 was cut off is seen.
    lag = {(link.puller, link.peer): max(each or 0 for each in link.lag_ms) for link in run.links}
    assert lag[2, 1] >= 1_000
    assert max(each or 0 for each in run.nodes[0].rss_bytes) > 1 << 20


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize(
    ("bug", "name", "turns_red"),
    [
        ("ack-before-commit", "region-loss", {"lost"}),
        ("dot-lost-on-restart", "region-loss", {"lost", "digests"}),
        ("frontier-too-far", "region-loss", {"never_delivered"}),
        ("healthy-while-stale", "disk-full", {"deceived"}),
    ],
)
def test_each_planted_bug_turns_the_verdict_red(bug: str, name: str, turns_red: set[str]) -> None:
    run = rehearse(name, load(DRILLS / f"{name}.yaml"), node=node_with(bug))
    assert run.verdict is Verdict.FAILED
    assert not_met(run) & turns_red, not_met(run)


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("name", ["region-frozen", "group-home-loss-force", "disk-full"])
def test_drills_of_the_project_pass_and_their_alerts_fire(name: str) -> None:
    program("prometheus", hint="apt-get install prometheus")
    run = rehearse(name, load(DRILLS / f"{name}.yaml"), watches_alerts=True)
    assert failures(run) == set(), run.findings
    assert any(alert.is_expected and alert.fired_at is not None for alert in run.alerts)


# --- A deployment that runs already -----------------------------------------------------------

GIVEN = """\
about: Region 2 hears nothing of the others for a while.
seconds: {seconds}
regions: 3
load:
  - {{kind: idempotent, region: 1, per_second: 20}}
  - {{kind: crdt.xread, region: 2}}
steps:
  - {{do: one-way-partition, at: 0.5, lasts: {lasts}, link: [2, 1]}}
  - {{do: one-way-partition, at: 0.5, lasts: {lasts}, link: [2, 3]}}
  - {{do: slow-links, at: 0.5, lasts: {lasts}, rtt_ms: 20, clients: true}}
"""


APART = """\
about: Region 1 hears nothing of what region 2 adds.
seconds: 60
regions: 3
load:
  - {kind: idempotent, region: 2, per_second: 100, moves: false}
steps:
  - {do: partition, at: 0.5, lasts: 50, sides: [[1], [2, 3]]}
"""


SHORT_GIVEN = """\
about: Two regions lose sight of each other.
regions: 2
seconds: 2
load:
  - {kind: idempotent, region: 1}
steps:
  - {do: partition, at: 0.5, lasts: 1, sides: [[1], [2]]}
"""


@pytest.fixture(scope="module")
def toxiproxy(toxiproxy_server: Toxiproxy) -> Toxiproxy:
    """The server, with the proxies of this module's deployment."""
    return toxiproxy_server


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, toxiproxy: Toxiproxy) -> Iterator[Cluster]:
    """Three regions whose ways lead through proxies with the names that drills know."""
    with cluster_of(3, tmp_path_factory.mktemp("regions")) as cluster:
        ways = {}
        for puller in cluster.nodes:
            node = cluster[puller]
            toxiproxy.create(f"127.0.0.1:{node.resp_port}", f"clients-of-{puller}")
            toxiproxy.create(f"127.0.0.1:{node.http_port}", f"health-of-{puller}")
            for peer in cluster.nodes:
                if peer != puller:
                    upstream = cluster[peer].grpc_address
                    ways[puller, peer] = toxiproxy.create(upstream, f"{puller}-pulls-{peer}").listen
        cluster.configure(ways)
        cluster.start()
        yield cluster
    toxiproxy.destroy_all()


def drill_words(cluster: Cluster, path: Path, out: Path) -> list[str]:
    nodes = ",".join(node.grpc_address for node in cluster.nodes.values())
    return [
        *(sys.executable, "-m", "crdtstream", "drill", "run", str(path), "--out", str(out)),
        *("--address", nodes, "--toxiproxy", f"{APIConsumer.host}:{APIConsumer.port}"),
        "--no-alerts",
    ]


def is_whole(toxiproxy: Toxiproxy) -> bool:
    return all(proxy.enabled and not proxy.toxics() for proxy in toxiproxy.proxies().values())


def report_of(out: Path) -> Report:
    return read_json(out / "report.json")


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_a_given_deployment_is_rehearsed_and_left_as_it_was(
    tmp_path: Path, deployment: Cluster, toxiproxy: Toxiproxy
) -> None:
    deployment[1].client.xadd("theirs", {"f": "v"})
    path, out = tmp_path / "given.yaml", tmp_path / "out"
    path.write_text(GIVEN.format(seconds=3, lasts=1.5))
    done = subprocess.run(
        drill_words(deployment, path, out), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = report_of(out).runs
    [produced] = run.produced
    assert produced.acknowledged > 0
    assert (produced.unknown, produced.refused, produced.lost) == (0, 0, 0)
    lag = {(link.puller, link.peer): max(each or 0 for each in link.lag_ms) for link in run.links}
    assert lag[2, 1] >= 1_000
    assert lag[2, 1] > lag[3, 1]
    assert (out / "junit.xml").read_text().count("<testcase") == 1
    assert is_whole(toxiproxy)
    assert deployment[1].client.keys("*") == [b"theirs"]


def entries_at(deployment: Cluster, region: int) -> int:
    """Number of entries of drills that a region has."""
    client = deployment[region].client
    return sum(client.xlen(key) for key in client.keys("drill:*"))


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_an_interruption_takes_all_faults_back(
    tmp_path: Path, deployment: Cluster, toxiproxy: Toxiproxy
) -> None:
    path, out = tmp_path / "given.yaml", tmp_path / "out"
    # What region 2 adds is not known in region 1 when the drill ends.
    path.write_text(APART)
    with subprocess.Popen(
        drill_words(deployment, path, out), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        wait_until(lambda: not is_whole(toxiproxy), "faults are made")
        wait_until(lambda: entries_at(deployment, 2) > entries_at(deployment, 1) + 50, "it lags")
        # As a link that waits for its next attempt: the ways are open again before it is up.
        deployment[1].set_links(paused=True)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=seconds())
    deployment[1].set_links(paused=False)
    assert process.returncode == 3, output.decode()
    assert b"interrupted; all faults are taken back" in output
    assert is_whole(toxiproxy)
    [run] = report_of(out).runs
    assert run.verdict is Verdict.ABORTED
    assert run.checks == []
    deployment.converge()
    keys = [node.client.keys("drill:*") for node in deployment.nodes.values()]
    assert keys == [[], [], []], "what the drill added is gone"


@pytest.mark.long
def test_an_unwell_deployment_is_refused_unless_anyway(
    tmp_path: Path, deployment: Cluster, toxiproxy: Toxiproxy
) -> None:
    path, out = tmp_path / "given.yaml", tmp_path / "out"
    path.write_text(GIVEN.format(seconds=2, lasts=1))
    deployment[3].end(signal.SIGKILL)
    done = subprocess.run(
        drill_words(deployment, path, out), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no region node answers" in done.stdout + done.stderr
    deployment[3].start()
    deployment[2].set_links(paused=True)
    wait_until(lambda: deployment[2].link(1).paused, "the link is paused")
    done = subprocess.run(
        drill_words(deployment, path, out), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "Mend that first, or say --anyway" in done.stdout
    assert is_whole(toxiproxy)
    deployment[2].set_links(paused=False)


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_a_deployment_whose_links_lead_past_the_proxies_is_refused(tmp_path: Path) -> None:
    """A fault that reaches no link would pass every check.

    Drills know proxies by their names, so this deployment has a server of its own: the module's
    may stand behind proxies of the same names.
    """
    with toxiproxy_running() as toxiproxy, cluster_of(2, tmp_path) as cluster:
        for region, node in cluster.nodes.items():
            peer = 3 - region
            toxiproxy.create(f"127.0.0.1:{node.resp_port}", f"clients-of-{region}")
            toxiproxy.create(f"127.0.0.1:{node.http_port}", f"health-of-{region}")
            toxiproxy.create(cluster[peer].grpc_address, f"{region}-pulls-{peer}")
        cluster.configure()
        cluster.start()
        path, out = tmp_path / "given.yaml", tmp_path / "out"
        path.write_text(SHORT_GIVEN)
        done = subprocess.run(
            drill_words(cluster, path, out), capture_output=True, text=True, check=False
        )
    assert done.returncode == 3
    assert "these links do not lead through their proxies" in done.stdout
    assert f"region 1 pulls from region 2 at {cluster[2].grpc_address}" in done.stdout
