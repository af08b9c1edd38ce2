"""The runbooks of ``docs/operations.md``: each command runs, and prints what the page says."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import redis

from tests.conftest import ROOT, VENV, program
from tests.live.bootstraps import SMALL_BACKLOG, cut_log, level, write
from tests.live.cluster import Cluster, Node, cluster_of, running_regions, vv_of
from tests.live.damage import flip
from tests.live.test_incarnations import use
from tests.live.test_members import crdb
from tests.live.test_verify import level_vectors
from tests.patience import LONG, seconds, wait_until

PAGE: Final = ROOT / "docs" / "operations.md"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NODE = re.compile(
    r"crdtstream node (?:--join (\S+) --token-file (\S+) )?--config region-(\d)\.toml &"
)
_KILL = re.compile(r"^kill .*\.pid")
_KILLED = re.compile(r"region-(\d)\.pid")
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
    """The place of the page's commands: settings, folders and process IDs of a cluster."""

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
            timeout=seconds(LONG),
            check=False,
        )
        shown = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}\n{shown}{self._logs()}"
        found = [plain(line) for line in shown.splitlines()]
        missing = [line for line in map(plain, step.printed) if line not in found]
        assert not missing, f"{command}\n{shown}"
        for number in _KILLED.findall(command) if _KILL.search(command) else ():
            process = self.cluster[int(number)].process
            assert process is not None
            process.wait(seconds())

    def _start(self, node: Node, *options: str) -> None:
        if node.process is not None:
            # A command of the page has ended it.
            node.process.wait(seconds())
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
    with running_regions(3, folder) as cluster:
        for node in cluster.nodes.values():
            write(node, "s", 50)
        level(*cluster.nodes.values())
        for node in cluster.nodes.values():
            cut_log(node)
        yield cluster


@contextmanager
def away_for_too_long(folder: Path) -> Iterator[Cluster]:
    with running_regions(3, folder, replication_backlog_size=SMALL_BACKLOG) as cluster:
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
    with running_regions(4, folder, replication_backlog_size=SMALL_BACKLOG) as cluster:
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
def two_parts(folder: Path) -> Iterator[Cluster]:
    """Each half has removed a region of the other one, and taken writes; they never link again."""
    with running_regions(4, folder) as cluster:
        nodes = list(cluster.nodes.values())
        for node in nodes:
            write(node, "s", 1)
        level(*nodes)
        halves = nodes[:2], nodes[2:]
        for half, others in (halves, halves[::-1]):
            for node in others:
                node.end()
            for node in half:
                if node.process is None:
                    node.launch()
            for node in half:
                node.wait()
            words = ("--instance-id", str(others[0].region), "--force", "--without-majority")
            run = crdb(half[0], "remove-instance", *words, "--yes")
            assert run.returncode == 0, run.stderr
            for node in half:
                write(node, "s", 20)
            level(*half)
        for node in halves[0]:
            node.start()
        wait_until(lambda: "has split" in nodes[1].link(4).error, "they refuse each other")
        yield cluster
        # One entry of each, and 20.
        assert {node.client.xlen("s") for node in halves[0]} == {84}


@contextmanager
def one_is_dead(folder: Path) -> Iterator[Cluster]:
    with running_regions(3, folder) as cluster:
        write(cluster[3], "s", 50)
        level(*cluster.nodes.values())
        cluster[3].end(signal.SIGKILL)
        yield cluster


@contextmanager
def one_is_left(folder: Path) -> Iterator[Cluster]:
    with running_regions(3, folder, appendfsync="everysec") as cluster:
        first = cluster[1]
        write(first, "s", 50)
        level(*cluster.nodes.values())
        for node in cluster.nodes.values():
            node.end(signal.SIGKILL)
        first.launch()
        first.wait(for_writes=False)
        wait_until(lambda: "waits for region 2, 3" in first.status().fault, "it waits")
        yield cluster
        write(first, "s", 1)
        assert first.client.xlen("s") == 51


@contextmanager
def bound_without_peer(folder: Path) -> Iterator[Cluster]:
    with running_regions(
        2, folder, replication_lag_action="refuse", max_replication_lag_effects=1
    ) as cluster:
        first = cluster[1]
        write(first, "s", 1)
        level(*cluster.nodes.values())
        cluster[2].end(signal.SIGKILL)
        write(first, "s", 1)
        with pytest.raises(redis.ResponseError, match="LAGGED"):
            write(first, "s", 1)
        wait_until(lambda: bool(first.status().fault), "it says that it refuses writes")
        yield cluster
        write(first, "s", 3)
        assert first.client.xlen("s") == 5


@contextmanager
def one_is_removed(folder: Path, *, to_come: int = 0) -> Iterator[Cluster]:
    """Region 3 is removed, and nobody else has what it wrote.

    Args:
        to_come: how many regions do not run, and are known to nobody.
    """
    with cluster_of(3 + to_come, folder) as cluster:
        three = [cluster[region] for region in (1, 2, 3)]
        for node in three:
            node.configure({one.region: one.grpc_address for one in three if one is not node})
            node.launch()
        for node in three:
            node.wait()
        level(*three)
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
def one_has_moved(folder: Path) -> Iterator[Cluster]:
    """Region 1 goes on in a copy of its folder, and had taken writes in the old one behind it."""
    with three_that_run(folder) as cluster:
        first = cluster[1]
        old, copy = first.folder, folder / "copy"
        write(first, "s", 50)
        level(*cluster.nodes.values())
        for node in (cluster[2], cluster[3]):
            node.set_links(paused=True, peers=[1])
        first.end()
        shutil.copytree(old, copy)
        first.start()
        write(first, "s", 20)
        first.end()
        use(first, copy)
        first.launch()
        for node in (cluster[2], cluster[3]):
            node.set_links(paused=False)
        first.wait()
        write(first, "s", 10)
        level(*cluster.nodes.values())
        first.end()
        use(first, old)
        yield cluster

        def is_whole() -> bool:
            return {cluster[region].client.xlen("s") for region in (2, 3)} == {80}

        wait_until(is_whole, "what both folders took is there")


@contextmanager
def one_to_come_back(folder: Path) -> Iterator[Cluster]:
    with one_is_removed(folder, to_come=1) as cluster:
        yield cluster
        assert cluster[4].client.xlen("s") == 50
        assert not cluster[3].folder.exists()


@contextmanager
def three_that_run(folder: Path) -> Iterator[Cluster]:
    with running_regions(3, folder) as cluster:
        level(*cluster.nodes.values())
        yield cluster


@contextmanager
def three_with_a_stream(folder: Path) -> Iterator[Cluster]:
    with three_that_run(folder) as cluster:
        for node in cluster.nodes.values():
            write(node, "s", 2)
        level(*cluster.nodes.values())
        yield cluster


@contextmanager
def three_with_keys(folder: Path) -> Iterator[Cluster]:
    with three_that_run(folder) as cluster:
        for number in range(50):
            cluster[2].client.xadd(f"s{number}", {"n": number})
        cluster[2].client.set("lock", "v")
        level(*cluster.nodes.values())
        yield cluster


@contextmanager
def one_is_damaged(folder: Path) -> Iterator[Cluster]:
    """Region 2 has another field in the second entry of a stream."""
    with three_that_run(folder) as cluster:
        cluster[1].client.xgroup_create("s", "g", "0", mkstream=True)
        for number in (1, 2, 3):
            cluster[1].client.xadd("s", {"from": f"airport-{number}"})
        level(*cluster.nodes.values())
        cluster[2].end(signal.SIGKILL)
        flip(cluster[2], b"airport-2", b"airport-7")
        cluster[2].start()
        level_vectors(cluster)
        yield cluster
        assert len({str(node.client.xrange("s")) for node in cluster.nodes.values()}) == 1


RUNBOOKS: Final = {
    "A folder is lost": folder_lost,
    "A region was away for longer than the backlog": away_for_too_long,
    "Two halves were apart for too long": halves_apart,
    "Two halves went on alone": two_parts,
    "Add a region": two_of_three,
    "Remove a dead region": one_is_dead,
    "One region is left": one_is_left,
    "A bound on the lag, and no region left": bound_without_peer,
    "Remove a region that runs": three_that_run,
    "An earlier folder is started": one_has_moved,
    "Salvage what a removed region had": one_is_removed,
    "Bring a removed region back": one_to_come_back,
    "Move a region to another address": three_that_run,
    "Delete all keys": three_with_keys,
    "Compare regions": three_with_a_stream,
    "Repair a stream": one_is_damaged,
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
