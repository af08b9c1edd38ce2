"""``rladmin`` and ``--watch`` on real regions: as commands, as a shell, and at a terminal."""

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crdtstream.cli.rladmin import app
from tests.clients.terminal import Terminal, at_terminal
from tests.conftest import ROOT
from tests.live.cluster import Cluster, Node
from tests.live.test_operations import plain
from tests.patience import seconds

pytestmark = pytest.mark.live

RLADMIN = (sys.executable, "-m", "crdtstream.cli.rladmin")
CRDTSTREAM = (sys.executable, "-m", "crdtstream")


@pytest.fixture
def cluster(regions_left_alone: Cluster) -> Cluster:
    """Shared by the tests here; one that kills a node starts it again."""
    return regions_left_alone


def run(node: Node, words: str) -> Result:
    return CliRunner().invoke(app, [*words.split(), "--address", node.grpc_address])


@contextmanager
def killed(node: Node) -> Iterator[None]:
    node.end(signal.SIGKILL)
    try:
        yield
    finally:
        node.launch()
        node.wait()


def rows(shown: str, heading: str) -> list[list[str]]:
    """The rows of one table below its titles."""
    lines = shown.partition(f"{heading}\n")[2].partition("\n\n")[0].splitlines()
    return [line.split() for line in lines[1:]]


# --- Commands -------------------------------------------------------------------------------------


def test_status_has_the_documented_tables_of_all_regions(cluster: Cluster) -> None:
    done = run(cluster[2], "status")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("CLUSTER:\nOK. Cluster master: ")
    shown = rows(done.stdout, "CLUSTER NODES:")
    assert [row[0] for row in shown] == ["node:1", "*node:2", "node:3"]
    assert [row[-1] for row in shown] == ["OK"] * 3
    assert {row[5] for row in shown} == {str(os.cpu_count())}
    assert all(re.fullmatch(r"[\d.]+[KMGT]B/[\d.]+[KMGT]B", row[6]) for row in shown)
    (database,) = rows(done.stdout, "DATABASES:")
    assert " ".join(database) == (
        f"db:1 crdb redis active 1 dense enabled aof 127.0.0.1:{cluster[2].resp_port}"
    )
    assert [row[2:] for row in rows(done.stdout, "ENDPOINTS:")] == [
        [f"endpoint:1:{region}", f"node:{region}", "all-nodes", "No"] for region in (1, 2, 3)
    ]
    assert len(rows(done.stdout, "LINKS:")) == 6


def test_a_region_that_is_down_is_a_row_and_a_sentence(cluster: Cluster) -> None:
    with killed(cluster[3]):
        done = run(cluster[1], "status nodes issues_only")
        assert done.exit_code == 1
        assert [(row[0], row[-1]) for row in rows(done.stdout, "CLUSTER NODES:")] == [
            ("node:3", "DOWN")
        ]
        assert f"error: no region node answers at {cluster[3].grpc_address}" in done.stderr
        found = json.loads(run(cluster[1], "status shards --json").stdout)
        assert [one["status"] for one in found["shards"]] == ["OK", "OK", "DOWN"]
        assert list(found["unreachable"]) == [cluster[3].grpc_address]


def test_streams_and_groups_have_tables_of_their_own(cluster: Cluster) -> None:
    client = cluster[1].client
    client.xadd("listed", {"a": "b"})
    client.xgroup_create("listed", "workers", 0)
    client.xreadgroup("workers", "one", {"listed": ">"})
    assert rows(run(cluster[1], "status streams node 1").stdout, "STREAMS:") == [
        ["db:1", "node:1", "listed", "1", "1:1", "1"]
    ]
    assert rows(run(cluster[1], "status groups node 1").stdout, "GROUPS:") == [
        ["db:1", "node:1", "listed", "workers", "1", "1", "0"]
    ]


def test_info_is_listed_in_the_documented_layouts(cluster: Cluster) -> None:
    about = run(cluster[1], "info cluster")
    assert about.stdout.startswith("Cluster configuration:\n    shards_overbooking: disabled\n")

    node = run(cluster[1], "info node 3").stdout.splitlines()
    assert node[:4] == [
        "Command Output: node:3",
        "    address: 127.0.0.1",
        "    external addresses: N/A",
        "    recovery path: N/A",
    ]
    every = run(cluster[1], "info node").stdout
    assert every.count("Command Output: node:") == 3

    db = run(cluster[1], "info db")
    lines = db.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("db:1 [crdb]:", "    syncer_mode: centralized")
    assert "    crdt_xadd_id_uniqueness_mode: strict" in lines
    assert "    crdt_repl_backlog: 1GB (1073741824 bytes)" in lines
    assert "    checkpoint_interval_s: 300 seconds" in lines
    found = json.loads(run(cluster[1], "info db --json").stdout)["db:1"]
    assert (found["name"], found["crdt_repl_backlog"]) == ("crdb", 1 << 30)


def test_tune_takes_several_parameters_and_megabytes_of_the_backlog(cluster: Cluster) -> None:
    done = run(
        cluster[1], "tune db db:1 crdt_repl_backlog 512MB checkpoint_interval_s 60 --region 2"
    )
    assert (done.exit_code, done.stdout) == (0, "Tuning database: o\nFinished successfully\n")
    shown = run(cluster[1], "info db --region 2").stdout
    assert "    replication_backlog_size: 512MB (536870912 bytes)\n" in shown
    assert "    checkpoint_interval_s: 60 seconds\n" in shown
    assert "    checkpoint_interval_s: 300 seconds\n" in run(cluster[1], "info db").stdout


def test_an_unknown_parameter_among_several_changes_nothing(cluster: Cluster) -> None:
    done = run(cluster[1], "tune db db:1 checkpoint_log_bytes 1048576 nonsense 1")
    assert done.exit_code == 1
    assert "no parameter 'nonsense'; there are appendfsync, " in done.stderr
    assert "checkpoint_log_bytes: 16MB" in run(cluster[1], "info db").stdout


def test_a_refused_value_names_what_is_set_already(cluster: Cluster) -> None:
    done = run(cluster[1], "tune db db:1 replication_backlog_ttl_s 86400 appendfsync sometimes")
    assert done.exit_code == 1
    assert "allowed are everysec, always, no" in done.stderr
    assert "set already: replication_backlog_ttl_s 86400 in region 1" in done.stderr
    assert "Finished" not in done.stdout


def test_continue_on_error_skips_regions_that_are_down(cluster: Cluster) -> None:
    words = "tune db db:1 checkpoint_interval_s 300 --all"
    with killed(cluster[3]):
        assert run(cluster[1], words).exit_code == 1
        done = run(cluster[1], f"{words} continue_on_error")
        assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "Finished successfully")
        assert f"skipped: no region node answers at {cluster[3].grpc_address}" in done.stderr


def test_a_balanced_database_has_a_report_without_rows(cluster: Cluster) -> None:
    expected = (
        "The table presents all of the unbalanced endpoints/nodes in the cluster\n"
        "BALANCE:\n"
        "NODE:ID  DB:ID  NAME  ENDPOINT:ID  PROXY_POLICY  LOCAL SHARDS  TOTAL SHARDS\n"
    )
    for words in ("verify balance", "verify balance node 1"):
        done = run(cluster[1], words)
        assert (done.exit_code, done.stdout) == (0, expected)
    assert run(cluster[1], "verify balance node 9").exit_code == 2


# --- The shell ------------------------------------------------------------------------------------


def test_lines_of_a_pipe_are_commands_and_the_last_one_is_the_status(cluster: Cluster) -> None:
    lines = "# a comment\nverify rack_aware\nnonsense\n\nstatus 'nodes\nstatus nodes sort X\nexit\n"
    done = subprocess.run(
        [*RLADMIN, "--address", cluster[1].grpc_address],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(),
    )
    assert done.stdout == "Cluster policy is not configured for rack awareness.\n"
    assert "No such command 'nonsense'" in done.stderr
    assert "a quotation mark is not closed" in done.stderr
    assert "sort X: nodes have NODE:ID" in done.stderr
    assert done.returncode == 2


@contextmanager
def shell(node: Node, home: Path) -> Iterator[Terminal]:
    with at_terminal(*RLADMIN, "--address", node.grpc_address, home=home) as terminal:
        yield terminal


@pytest.mark.long
def test_the_shell_completes_what_the_regions_have_and_outlives_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster[1].client.ping()
    with shell(cluster[1], tmp_path) as terminal:
        shown = terminal.enter("status nodes")
        assert "*node:1" in shown
        # Tab: a command, a database, a parameter and its value, each as far as it is the only one.
        terminal.type("tu\tdb c\tcrdt_xadd\tsem\t")
        terminal.expect("tune db crdb crdt_xadd_id_uniqueness_mode semi-strict")
        # Ctrl-C drops the line, and nothing is set.
        terminal.process.send_signal(signal.SIGINT)
        terminal.expect("^C")
        assert "crdt_xadd_id_uniqueness_mode: strict" in terminal.enter("info db")
        assert "Usage: rladmin status" in terminal.enter("? status")

        with killed(cluster[1]):
            assert f"no region node answers at {cluster[1].grpc_address}" in " ".join(
                terminal.enter("status").split()
            )
            # A line of its own goes to another node.
            other = f"status nodes --address {cluster[2].grpc_address}"
            assert "*node:2" in terminal.enter(other)
        assert "OK. Cluster master:" in terminal.enter("status")
        terminal.enter("tune db db:1 requirepass hunter2")
        terminal.type("exit\r")
        # The status of the last command.
        assert terminal.wait() == 1

    (history,) = (tmp_path / ".local" / "state" / "crdtstream").iterdir()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert history.read_text().splitlines()[:3] == ["status nodes", "info db", "? status"]
    assert "hunter2" not in history.read_text()


def test_the_shell_has_the_lines_of_the_last_time_and_ends_by_ctrl_d(
    cluster: Cluster, tmp_path: Path
) -> None:
    with shell(cluster[1], tmp_path) as terminal:
        terminal.enter("verify rack_aware")
        terminal.type("\x04")
        assert terminal.wait() == 0
    with shell(cluster[1], tmp_path) as terminal:
        terminal.expect("rladmin>")
        # Ctrl-P: the line before.
        terminal.type("\x10")
        terminal.expect("rladmin> verify rack_aware")


# --- Watching -------------------------------------------------------------------------------------


def test_a_watch_is_redrawn_in_place_outlives_a_node_and_ends_by_ctrl_c(
    cluster: Cluster, tmp_path: Path
) -> None:
    address = cluster[3].grpc_address
    words = ("status", "nodes", "--watch", "0.2", "--address", address)
    with at_terminal(*RLADMIN, *words, home=tmp_path) as terminal:
        terminal.expect("Every 0.2 s")
        terminal.expect("*node:3")
        with killed(cluster[3]):
            terminal.expect(f"error: no region node answers at {address}")
        terminal.expect("*node:3")
        assert terminal.screen.count("Every 0.2 s") == 1
        assert "error" not in terminal.screen
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait() == 0
        # The last picture stays.
        assert "*node:3" in terminal.screen
        assert "Traceback" not in terminal.screen


@pytest.mark.parametrize(
    "words",
    [
        "status",
        pytest.param("crdb list", marks=pytest.mark.long),
        pytest.param("crdb get", marks=pytest.mark.long),
        pytest.param("crdb health-report", marks=pytest.mark.long),
    ],
)
def test_a_program_gets_a_document_a_line(cluster: Cluster, words: str) -> None:
    options = ["--watch", "0.1", "--address", cluster[1].grpc_address]
    if "health" not in words:
        options.append("--json")
    with subprocess.Popen(
        [*CRDTSTREAM, *words.split(), *options], stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        found = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(seconds()) == 0
        assert "\x1b" not in watching.stdout.read()
    assert [type(one) for one in found] == [type(found[0])] * 2


# --- The page -------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "rladmin.md"
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, list[str]]]:
    """Commands, and the lines that they print."""
    found: list[tuple[str, list[str]]] = []
    for block in _CONSOLE.findall(PAGE.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def shown(line: str) -> str:
    """A line without figures; machines have more or less memory."""
    return re.sub(r"N[KMGT]B", "NB", plain(line))


def test_the_page_shows_what_the_commands_print(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = cluster[1].client, cluster[2].client
    one.xadd("orders", {"item": "book"})
    two.xadd("orders", {"item": "pen"})
    cluster.converge()
    one.xgroup_create("orders", "billing", 0)
    one.xreadgroup("billing", "one", {"orders": ">"}, count=1)
    cluster.converge()

    monkeypatch.setenv("CRDTSTREAM_ADMIN", cluster[1].grpc_address)
    commands = steps()
    assert len(commands) > 10
    for command, printed in commands:
        words = shlex.split(command.removesuffix(" || true"))
        assert words[0] == "rladmin"
        done = CliRunner().invoke(app, words[1:])
        assert (done.exit_code == 0) != command.endswith(" || true"), done.output
        found = [shown(line) for line in done.output.splitlines()]
        missing = [line for line in map(shown, printed) if line not in found]
        assert not missing, f"{command}\n{done.output}"
