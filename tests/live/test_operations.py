"""The runbooks of ``docs/operations.md``: each command runs, and prints what the page says."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.conftest import ROOT, VENV, program
from tests.live.bootstraps import SMALL_BACKLOG, cut_log, level, write
from tests.live.cluster import WAIT_SECONDS, Cluster, Node, cluster_of, vv_of, wait_until
from tests.live.test_members import crdb

pytestmark = pytest.mark.live

PAGE: Final = ROOT / "docs" / "operations.md"
RUN_SECONDS: Final = 300.0
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NODE = re.compile(
    r"crdtstream node (?:--join (\S+) --token-file (\S+) )?--config region-(\d)\.toml &"
)
# As in `make up`: 638r, 738r, 838r.
_PORT = re.compile(r"\b([678])38(\d)\b")


class Step(NamedTuple):
    """A command of the page, and what it prints."""

    command: str
    printed: list[str]


def steps_of(section: str) -> list[Step]:
    (text,) = (body for title, body in sections(PAGE.read_text()).items() if title == section)
    steps: list[Step] = []
    for block in _CONSOLE.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line.removeprefix("$ "), []))
            else:
                steps[-1].printed.append(line)
    return steps


def sections(text: str) -> dict[str, str]:
    parts = _SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def plain(line: str) -> str:
    """A line without hashes and numbers, and as wide as its words."""
    line = re.sub(r"\b[0-9a-f]{8}(?:[0-9a-f]{24})?\b", "H", line)
    return " ".join(re.sub(r"\d+(\.\d+)?", "N", line).replace("─", "").split())


class Machine:
    """Where the commands of the page run: settings, folders and process IDs of a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self._environment = os.environ | {
            "CRDTSTREAM_ADMIN": cluster[1].grpc_address,
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def note_pid(self, node: Node) -> None:
        assert node.process is not None
        (self.folder / f"region-{node.region}.pid").write_text(str(node.process.pid))

    def run(self, step: Step) -> None:
        command = _PORT.sub(self._own_port, step.command)
        started = _NODE.fullmatch(command)
        if started is not None:
            address, token, number = started.groups()
            joins = ("--join", address, "--token-file", str(self.folder / str(token)))
            self._start(self.cluster[int(number)], *(joins if address else ()))
            return
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        shown = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}\n{shown}{self._logs()}"
        found = [plain(line) for line in shown.splitlines()]
        missing = [line for line in map(plain, step.printed) if line not in found]
        assert not missing, f"{command}\n{shown}"

    def _start(self, node: Node, *options: str) -> None:
        if node.process is not None:
            # A command of the page has ended it.
            node.process.wait(WAIT_SECONDS)
        node.launch(*options)
        self.note_pid(node)

    def _own_port(self, found: "re.Match[str]") -> str:
        if int(found[2]) not in self.cluster.nodes:
            # Nobody's: ports are free from the one below region 1's on.
            return str(self.cluster[1].grpc_port - 1)
        node = self.cluster[int(found[2])]
        ports = {"6": node.resp_port, "7": node.grpc_port, "8": node.http_port}
        return str(ports[found[1]])

    def _logs(self) -> str:
        return "".join(node.log.read_text() for node in self.cluster.nodes.values() if node.process)


@contextmanager
def folder_lost(folder: Path) -> Iterator[Cluster]:
    with cluster_of(3, folder) as cluster:
        cluster.configure()
        cluster.start()
        for node in cluster.nodes.values():
            write(node, "s", 50)
        level(*cluster.nodes.values())
        for node in cluster.nodes.values():
            cut_log(node)
        yield cluster


@contextmanager
def away_for_too_long(folder: Path) -> Iterator[Cluster]:
    with cluster_of(3, folder) as cluster:
        cluster.configure(replication_backlog_size=SMALL_BACKLOG)
        cluster.start()
        first, second, third = cluster.nodes.values()
        level(first, second, third)
        second.end()
        write(first, "s", 70, size=SMALL_BACKLOG // 16)
        level(first, third)
        for node in (first, third):
            cut_log(node)
        yield cluster


@contextmanager
def halves_apart(folder: Path) -> Iterator[Cluster]:
    with cluster_of(4, folder) as cluster:
        cluster.configure(replication_backlog_size=SMALL_BACKLOG)
        cluster.start()
        nodes = list(cluster.nodes.values())
        level(*nodes)
        halves = nodes[:2], nodes[2:]
        for half, other in (halves, halves[::-1]):
            for node in half:
                node.set_links(paused=True, peers=[peer.region for peer in other])
        for half in halves:
            write(half[0], "s", 70, size=SMALL_BACKLOG // 16)
            level(*half)
            for node in half:
                cut_log(node)
        for node in nodes:
            node.set_links(paused=False)
        yield cluster
        # Both sides kept what they had written.
        assert {node.client.xlen("s") for node in nodes} == {140}


@contextmanager
def two_of_three(folder: Path) -> Iterator[Cluster]:
    """Regions 1 and 2 run and do not know region 3, which has nothing."""
    with cluster_of(3, folder) as cluster:
        first, second = cluster[1], cluster[2]
        for node, peer in ((first, second), (second, first)):
            node.configure({peer.region: peer.grpc_address})
            node.launch()
        for node in (first, second):
            node.wait()
            write(node, "s", 50)
        level(first, second)
        for node in (first, second):
            cut_log(node)
        yield cluster
        assert vv_of(cluster[3].status()) == vv_of(first.status())


@contextmanager
def one_is_dead(folder: Path) -> Iterator[Cluster]:
    with cluster_of(3, folder) as cluster:
        cluster.configure()
        cluster.start()
        write(cluster[3], "s", 50)
        level(*cluster.nodes.values())
        cluster[3].end(signal.SIGKILL)
        yield cluster


@contextmanager
def one_is_removed(folder: Path) -> Iterator[Cluster]:
    """Region 3 is removed, and nobody else has what it wrote."""
    with cluster_of(3, folder) as cluster:
        cluster.configure()
        cluster.start()
        level(*cluster.nodes.values())
        for node in (cluster[1], cluster[2]):
            node.set_links(paused=True, peers=[3])
        write(cluster[3], "s", 50)
        cluster[3].end(signal.SIGKILL)
        run = crdb(cluster[1], "remove-instance", "--instance-id", "3", "--force", "--yes")
        assert run.returncode == 0, run.stderr
        for node in (cluster[1], cluster[2]):
            node.set_links(paused=False)
        wait_until(lambda: "Effects that count: 0" in crdb(cluster[1], "get").stdout, "it is known")
        yield cluster
        assert {cluster[region].client.xlen("s") for region in (1, 2)} == {50}


@contextmanager
def three_that_run(folder: Path) -> Iterator[Cluster]:
    with cluster_of(3, folder) as cluster:
        cluster.configure()
        cluster.start()
        level(*cluster.nodes.values())
        yield cluster


RUNBOOKS: Final = {
    "A folder is lost": folder_lost,
    "A region was away for longer than the backlog": away_for_too_long,
    "Two halves were apart for too long": halves_apart,
    "Add a region": two_of_three,
    "Remove a dead region": one_is_dead,
    "Remove a region that runs": three_that_run,
    "Salvage what a removed region had": one_is_removed,
    "Move a region to another address": three_that_run,
}
IN_EVERY_RUN: Final = {"A folder is lost"}


def test_every_runbook_is_run() -> None:
    assert list(sections(PAGE.read_text())) == list(RUNBOOKS)


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(section, marks=[] if section in IN_EVERY_RUN else [pytest.mark.long])
        for section in RUNBOOKS
    ],
)
def test_the_commands_of_a_runbook_do_and_print_what_the_page_says(
    section: str, tmp_path: Path
) -> None:
    if "curl" in str(steps_of(section)):
        program("curl")
    with RUNBOOKS[section](tmp_path) as cluster:
        machine = Machine(cluster, tmp_path)
        for node in cluster.nodes.values():
            if node.process is not None:
                machine.note_pid(node)
        for step in steps_of(section):
            machine.run(step)
