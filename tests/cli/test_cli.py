"""The programs ``crdtstream`` and ``rladmin``: help of all commands, refusals, live regions."""

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner, Result

from crdtstream.admin.client import Survey, lacking
from crdtstream.cli import start
from crdtstream.cli.rladmin import app as rladmin_app
from crdtstream.cli.start import program
from crdtstream.cli.status import reasons as status_reasons
from crdtstream.cli.status import tables as status_tables
from crdtstream.cli.tables import print_text
from crdtstream.command_line.reach import Reach
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import removed_ends
from crdtstream.core.wire.codec import encode_vv
from crdtstream.local.regions import (
    LocalRegion,
    LocalRegions,
    LocalRegionsError,
    admin_addresses,
    layout,
    settings_text,
)
from crdtstream.secrets.aclfiles import EPOCH_MAX, FILE_BYTES_MAX
from crdtstream.settings.node_settings import load_settings
from crdtstream.v1 import admin_pb2
from tests.conftest import ROOT, free_base_port
from tests.patience import seconds, wait_until

PROGRAMS = {"crdtstream": program(), "rladmin": rladmin_app}


def run(program: str, *arguments: str) -> Result:
    return CliRunner().invoke(PROGRAMS[program], list(arguments))


# --- Help -------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Every command of both programs, with the words one types for it."""

    def walk(path: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
        if isinstance(command, TyperGroup):
            for name, inner in sorted(command.commands.items()):
                yield from walk(f"{path} {name}", inner)
        else:
            assert isinstance(command, TyperCommand)
            yield path, command

    for name, app in PROGRAMS.items():
        yield from walk(name, typer.main.get_command(app))


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_an_example_and_the_exit_statuses(path: str) -> None:
    text = COMMANDS[path].help or ""
    assert f"Example: {path}" in text
    assert "Exit status: 0" in text


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_explained(path: str) -> None:
    for parameter in COMMANDS[path].params:
        assert getattr(parameter, "help", None), f"{path}: {parameter.name}"


@pytest.mark.parametrize("path", COMMANDS)
def test_help_can_be_shown(path: str) -> None:
    program, *words = path.split()
    result = run(program, *words, "--help")
    assert result.exit_code == 0
    assert "Example:" in result.output


@pytest.mark.parametrize("path", COMMANDS)
def test_command_stands_in_the_docs(path: str) -> None:
    assert f"### {path}\n" in (ROOT / "docs" / "commands.md").read_text()


LOGIN_OPTIONS = (
    "--user",
    "--password-file",
    "--tls-cert-file",
    "--tls-key-file",
    "--tls-ca-cert-file",
)
# These run on nodes that are made for it, or that clients change without a login.
WITHOUT_LOGIN = {"crdtstream scenario run", "crdtstream drill run"}


@pytest.mark.parametrize("path", COMMANDS)
def test_commands_to_nodes_take_the_same_options_in_the_same_order(path: str) -> None:
    options = [one.opts[0] for one in COMMANDS[path].params if one.param_type_name == "option"]
    if "--address" not in options or path in WITHOUT_LOGIN:
        return
    at = options.index("--address")
    assert tuple(options[at + 1 : at + 1 + len(LOGIN_OPTIONS)]) == LOGIN_OPTIONS
    assert "--dir" not in options or options[at - 1] == "--dir"


# Files of certificates are named as OpenSSL names them; a restored folder gets a new name.
SEVERAL_MEANINGS = {"--key", "--new-database"}


def test_an_option_has_one_meaning() -> None:
    meanings: dict[str, dict[tuple[object, ...], list[str]]] = {}
    for path, command in COMMANDS.items():
        for one in command.params:
            if one.param_type_name == "option":
                meaning = (one.metavar, getattr(one, "is_flag", False))
                of_name = meanings.setdefault(one.opts[0], {})
                of_name.setdefault(meaning, []).append(path)
    several = {name: of_name for name, of_name in meanings.items() if len(of_name) > 1}
    assert several.keys() == SEVERAL_MEANINGS, several


# Names by which one parameter goes: crdb has that of Redis Enterprise's crdb-cli, and folders that
# are not of `crdtstream up` say of what they are.
SEVERAL_NAMES = {
    "region": {"--region", "--instance-id"},
    "regions": {"--regions", "--instance-id"},
    "folder": {"--dir", "--folder", "--region-dir"},
    "streams": {"--streams", "--with-streams"},
}


def test_an_option_has_one_name() -> None:
    by_parameter: dict[str, set[str]] = {}
    by_text: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for one in command.params:
            if one.param_type_name == "option":
                by_parameter.setdefault(one.name, set()).add(one.opts[0])
                by_text.setdefault(getattr(one, "help", ""), set()).add(one.opts[0])
    assert {name: found for name, found in by_parameter.items() if len(found) > 1} == SEVERAL_NAMES
    assert [found for found in by_text.values() if len(found) > 1] == []


def test_a_push_above_the_highest_epoch_is_told_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users.acl"
    users.write_text("user eve on\n")
    for epoch in (EPOCH_MAX, 2**64 - 1):
        reply = admin_pb2.StatusReply(region=2, users_epoch=epoch)
        found = Survey(replies={RegionId(2): reply})
        monkeypatch.setattr(Reach, "find_regions", lambda _: found)  # noqa: B023
        result = run("crdtstream", "crdb", "acl", "push", str(users))
        assert result.exit_code == 1
        assert f"region 2 has the epoch {epoch}" in result.output
        assert "run ACL LOAD there, and push again" in " ".join(result.output.split())


def test_a_file_too_large_to_push_is_refused_before_regions_are_asked(tmp_path: Path) -> None:
    users = tmp_path / "users.acl"
    users.write_bytes(b"#" * (FILE_BYTES_MAX.value + 1))
    result = run("crdtstream", "crdb", "acl", "push", str(users))
    assert result.exit_code == 2
    assert "is larger than an aclfile may be" in " ".join(result.output.split())


def test_all_promised_commands_are_there() -> None:
    promised = {
        "crdtstream up",
        "crdtstream node",
        "crdtstream status",
        "crdtstream doctor",
        "crdtstream fsck",
        "crdtstream dump",
        "crdtstream backup",
        "crdtstream restore",
        "crdtstream sync pause",
        "crdtstream sync resume",
        "crdtstream sync wait",
        "crdtstream scenario run",
        "crdtstream scenario render",
        "crdtstream demo",
        "crdtstream pipeline archive",
        "crdtstream pipeline replay",
        "crdtstream pipeline audit",
        "crdtstream pipeline report",
        "crdtstream pipeline demo",
        "rladmin tune db",
        "rladmin info cluster",
        "rladmin info db",
        "rladmin info node",
        "rladmin status",
        "rladmin verify balance",
        "rladmin verify rack_aware",
        "rladmin help",
        "crdtstream completion",
    }
    assert promised <= COMMANDS.keys()


# Verbs that change nothing.
READING = {"list", "get", "health-report", "verify"}


@pytest.mark.parametrize("path", [path for path in COMMANDS if path.startswith("crdtstream crdb ")])
def test_crdb_commands_print_json_and_those_that_change_can_be_rehearsed(path: str) -> None:
    """``health-report`` is JSON in any case; what only reads needs no rehearsal."""
    verb = path.rpartition(" ")[2]
    options = {word for one in COMMANDS[path].params for word in one.opts}
    assert ("--json" in options) == (verb != "health-report")
    assert ("--dry-run" in options) == (verb not in READING), f"name {verb} in READING, if it reads"


# --- Refusals, with nothing running -----------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        ("crdtstream status --address 127.0.0.1:1", 1, "no region node answers at 127.0.0.1:1"),
        ("crdtstream sync wait --address 127.0.0.1:1", 1, "start it (crdtstream up)"),
        ("crdtstream sync pause --region 1024", 2, "--region"),
        ("crdtstream status --dir nowhere", 1, "nowhere: no regions here"),
        ("crdtstream status --dir x --address 127.0.0.1:1", 2, "use only one of them"),
        ("crdtstream status --address nowhere", 2, "--address: 'nowhere' is not host:port"),
        ("crdtstream status --address 127.0.0.1:1,127.0.0.1:0", 2, "'127.0.0.1:0' is not"),
        ("crdtstream backup copy --address 127.0.0.1:1,127.0.0.1:2", 2, "name one node"),
        ("crdtstream backup copy --address 127.0.0.1", 2, "--address: '127.0.0.1' is not"),
        ("crdtstream backup copy", 2, "Missing option '--address'"),
        ("crdtstream status --user me", 2, "--user me: its password is missing"),
        ("crdtstream backup copy --address a:1 --user me", 2, "its password is missing"),
        ("crdtstream crdb list --tls-cert-file /dev/stdin", 2, "--tls-key-file belong together"),
        ("crdtstream crdb list --tls-ca-cert-file /dev/stdin", 2, "name all three"),
        ("crdtstream up --base-port 65000 --dir nowhere", 1, "choose one up to"),
        ("crdtstream up --regions 0", 2, "--regions"),
        ("crdtstream node --config nowhere.toml", 2, "nowhere.toml: correct this"),
        ("crdtstream node", 2, "--config"),
        ("crdtstream nonsense", 2, "nonsense"),
        ("rladmin tune db crdb crdt_xadd_id_uniqueness_mode --all", 2, "has none"),
        ("rladmin tune db crdb p v --all --region 1", 2, "use only one of them"),
        ("rladmin tune db crdb p v --address 127.0.0.1:1", 1, "no region node answers"),
        # A value below 0 is for the node to refuse.
        ("rladmin tune db crdb p -5 --address 127.0.0.1:1", 1, "no region node answers"),
    ],
)
def test_refusal(
    words: str, status: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words.split())
    assert (result.exit_code, result.stdout) == (status, "")
    assert expected in result.stderr


def test_node_tells_all_problems_of_its_settings(tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text('region = 0\ndir = "d"\napendfsync = "no"')
    result = run("crdtstream", "node", "--config", str(config))
    assert result.exit_code == 2
    assert "region: " in result.stderr
    assert "did you mean appendfsync?" in result.stderr


# --- Where regions live -----------------------------------------------------------------------


def test_default_ports_end_in_the_region(tmp_path: Path) -> None:
    regions = layout(3, tmp_path)
    assert [own.resp_port for own in regions] == [6381, 6382, 6383]
    assert [own.grpc_port for own in regions] == [7381, 7382, 7383]
    assert [own.http_port for own in regions] == [8381, 8382, 8383]


def test_written_settings_load(tmp_path: Path) -> None:
    regions = layout(3, tmp_path / 'a "quoted" folder', base_port=20000)
    text = settings_text(regions[1], regions, {"appendfsync": "no", "stream_node_max_bytes": 0})
    (tmp_path / "region-2.toml").write_text(text)

    settings = load_settings(tmp_path / "region-2.toml")
    assert (settings.region, settings.resp_port, settings.dir) == (2, 20002, regions[1].data)
    assert (settings.appendfsync, settings.stream_node_max_bytes) == ("no", 0)
    assert [peer.address for peer in settings.peers] == ["127.0.0.1:21001", "127.0.0.1:21003"]
    assert admin_addresses(tmp_path) == ["127.0.0.1:21002"]


def test_lacking_counts_by_region_and_origin() -> None:
    r1, r2, r3 = RegionId(1), RegionId(2), RegionId(3)
    vvs = {r1: {r1: 5, r2: 2}, r2: {r1: 3, r2: 2}, r3: {r1: 5}}
    assert lacking(vvs, regions=vvs, peers=vvs, ends={}) == {r2: {r1: 2}, r3: {r2: 2}}
    assert lacking(vvs, regions=[r1], peers=vvs, ends={}) == {}
    assert lacking(vvs, regions=vvs, peers=[r3], ends={}) == {r2: {r1: 2}}
    same = {r1: {r1: 1}, r2: {r1: 1}}
    assert lacking(same, regions=same, peers=same, ends={}) == {}


def test_lost_effects_of_a_removed_region_are_lacking_nowhere() -> None:
    r1, r3 = RegionId(1), RegionId(3)
    vvs = {r1: {r1: 5, r3: 2}, r3: {r3: 9}}
    ends = removed_ends({r3: 4})
    assert lacking(vvs, regions=[r1], peers=vvs, ends=ends) == {r1: {r3: 2}}


# --- Live -------------------------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    """True if a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegions]:
    """Three regions, shared by the tests here; each leaves links running and mode strict."""
    regions = LocalRegions(3, tmp_path_factory.mktemp("regions"), base_port=free_base_port())
    try:
        regions.start_all()
        regions.wait_until_healthy()
        yield regions
    finally:
        regions.stop_all()
        regions.close()


def folder_of(local: LocalRegions) -> str:
    return str(local.regions[0].config.parent)


def client(own: LocalRegion) -> "redis.Redis":
    return redis.Redis(port=own.resp_port, decode_responses=True)


@pytest.mark.live
def test_write_is_seen_everywhere_after_sync_wait(local: LocalRegions) -> None:
    first, *others = map(client, local.regions)
    entry_id = first.xadd("seen", {"text": "hello"})
    waited = run("crdtstream", "sync", "wait", "--dir", folder_of(local))
    assert waited.exit_code == 0
    compared, equal = waited.stderr.splitlines()
    assert re.fullmatch(r"digests compared in \d+\.\d\d s", compared)
    assert equal == "equal: regions 1, 2, 3"
    for other in others:
        assert other.xrange("seen") == [(entry_id, {"text": "hello"})]


@pytest.mark.live
def test_paused_links_carry_nothing_until_resumed(local: LocalRegions) -> None:
    first, second, _ = map(client, local.regions)
    where = ("--dir", folder_of(local))

    paused = run("crdtstream", "sync", "pause", "--region", "2", *where)
    assert (paused.exit_code, paused.stderr) == (0, "paused: 1 → 2, 3 → 2\n")
    first.xadd("held", {"a": "b"})
    arrived = run("crdtstream", "sync", "wait", "--region", "3", "--peer", "1", *where)
    assert (arrived.exit_code, arrived.stderr) == (
        0,
        "region 3 lacks nothing that region 1 has\n",
    )
    late = run("crdtstream", "sync", "wait", "--timeout", "0.2", *where)
    assert late.exit_code == 1
    assert "region 2 lacks 1 effects of region 1" in late.stderr
    assert "paused: 1 → 2, 3 → 2; crdtstream sync resume lets them run again" in late.stderr
    assert second.exists("held") == 0

    resumed = run("crdtstream", "sync", "resume", "--region", "2", *where)
    assert (resumed.exit_code, resumed.stderr) == (0, "resumed: 1 → 2, 3 → 2\n")
    assert run("crdtstream", "sync", "wait", *where).exit_code == 0
    assert second.exists("held") == 1


@pytest.mark.live
def test_one_link_can_be_paused(local: LocalRegions) -> None:
    where = ("--dir", folder_of(local))
    paused = run("crdtstream", "sync", "pause", "--region", "2", "--peer", "3", *where)
    assert paused.stderr == "paused: 3 → 2\n"
    shown = json.loads(run("crdtstream", "status", "--json", *where).stdout)
    states = {
        (region["region"], link["peer"]): link["paused"]
        for region in shown["regions"]
        for link in region["links"]
    }
    assert [link for link, is_paused in states.items() if is_paused] == [(2, 3)]
    resumed = run("crdtstream", "sync", "resume", "--peer", "3", *where)
    assert resumed.stderr == "resumed: 3 → 1, 3 → 2\n"


@pytest.mark.live
@pytest.mark.parametrize("words", ["--region 7", "--peer 7", "--region 1 --peer 7"])
def test_unknown_region_is_refused(local: LocalRegions, words: str) -> None:
    result = run("crdtstream", "sync", "pause", *words.split(), "--dir", folder_of(local))
    assert result.exit_code == 1
    assert "7" in result.stderr
    shown = json.loads(run("crdtstream", "status", "--json", "--dir", folder_of(local)).stdout)
    assert not any(link["paused"] for region in shown["regions"] for link in region["links"])


@pytest.mark.live
def test_status_finds_all_regions_through_one(local: LocalRegions) -> None:
    client(local.regions[0]).xadd("statuses", {"a": "b"})
    client(local.regions[0]).set("no-stream", "text")
    address = local.regions[1].grpc_address
    result = run("crdtstream", "status", "--address", address, "--with-streams")
    assert result.exit_code == 0
    for own in local.regions:
        assert own.resp_address in result.stdout
        assert own.grpc_address in result.stdout
    for link in ("2 → 1", "3 → 1", "1 → 2", "3 → 2", "1 → 3", "2 → 3"):
        assert link in result.stdout
    assert "statuses" in result.stdout
    assert "no-stream" not in result.stdout

    shown = json.loads(run("crdtstream", "status", "--address", address, "--json").stdout)
    assert [region["region"] for region in shown["regions"]] == [1, 2, 3]
    assert shown["regions"][0]["vv"].keys() <= {"1", "2", "3"}
    assert {"lag_ms", "lag_effects", "state"} <= shown["regions"][0]["links"][0].keys()


@pytest.mark.live
def test_tune_sets_the_mode_of_one_region_or_all(local: LocalRegions) -> None:
    first, second, _ = map(client, local.regions)
    words = ["tune", "db", "crdb", "crdt_xadd_id_uniqueness_mode"]
    where = ["--address", local.regions[0].grpc_address]
    with pytest.raises(redis.ResponseError):
        first.xadd("tuned", {"a": "b"}, id="110-7")

    one = run("rladmin", *words, "semi-strict", *where)
    assert (one.exit_code, one.stdout) == (0, "Tuning database: o\nFinished successfully\n")
    assert first.xadd("tuned", {"a": "b"}, id="110-7") == "110-7"
    with pytest.raises(redis.ResponseError):
        second.xadd("elsewhere", {"a": "b"}, id="110-7")

    every = run("rladmin", *words, "liberal", "--all", *where)
    assert every.exit_code == 0
    assert second.xadd("elsewhere", {"a": "b"}, id="120") == "120-0"
    assert run("rladmin", *words, "strict", "--all", *where).exit_code == 0


@pytest.mark.live
def test_tune_says_which_redis_a_region_is(local: LocalRegions) -> None:
    first, second, _ = map(client, local.regions)
    first.xadd("versioned", {"a": "b"})
    where = ["--address", local.regions[0].grpc_address]
    assert run("rladmin", "tune", "db", "crdb", "redis-version", "8.6.1", *where).exit_code == 0
    assert first.info("server")["redis_version"] == "8.6.1"
    assert "idmp-duration" in first.xinfo_stream("versioned")
    assert second.info("server")["redis_version"] == "8.2.3"
    assert run("rladmin", "tune", "db", "crdb", "redis-version", "8.2.3", *where).exit_code == 0
    assert "idmp-duration" not in first.xinfo_stream("versioned")


@pytest.mark.live
@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        ("crdb crdt_xadd_id_uniqueness_mode lax", 1, "allowed are strict, semi-strict, liberal"),
        ("crdb crdt_xread_mode maybe", 1, "allowed are by-id, never-skip"),
        (
            "crdb redis-version 8.2",
            1,
            "must be a version of Redis from 7.4.0 to 8.10.x, in three parts, as 8.2.3",
        ),
        ("crdb nonsense 1", 1, "crdt_xadd_id_uniqueness_mode"),
        ("other crdt_xadd_id_uniqueness_mode strict", 2, "no database other; there is crdb"),
    ],
)
def test_tune_refuses(local: LocalRegions, words: str, status: int, expected: str) -> None:
    where = ["--address", local.regions[0].grpc_address]
    result = run("rladmin", "tune", "db", *words.split(), *where)
    assert result.exit_code == status
    assert expected in result.stderr
    assert "Finished successfully" not in result.stdout


@pytest.mark.live
def test_rladmin_shows_database_and_nodes(local: LocalRegions) -> None:
    where = ["--dir", folder_of(local)]
    info = run("rladmin", "info", "db", "crdb", *where)
    assert info.exit_code == 0
    assert info.stdout.startswith("db:1 [crdb]:\n    ")
    assert "    crdt_xadd_id_uniqueness_mode: strict\n" in info.stdout

    status = run("rladmin", "status", *where)
    assert status.exit_code == 0
    for part in ("*node:1", "node:2", "node:3", "DATABASES:", "ENDPOINTS:", "LINKS:"):
        assert part in status.stdout


@pytest.mark.live
def test_folder_in_use_is_refused(local: LocalRegions) -> None:
    with pytest.raises(LocalRegionsError, match=r"run in .* already"):
        LocalRegions(3, Path(folder_of(local)))


# --- `crdtstream up` as a process ---------------------------------------------------------------


class Up:
    """A running ``crdtstream up`` with one or more regions, its output in a file."""

    def __init__(self, folder: Path, *options: str, regions: int, base_port: int) -> None:
        self.folder = folder
        self.base_port = base_port
        self.output = folder.with_suffix(".out")
        command = [sys.executable, "-m", "crdtstream", "up", "--regions", str(regions)]
        command += ["--dir", str(folder), "--base-port", str(base_port), *options]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def text(self) -> str:
        return self.output.read_text()

    def wait_for_table(self) -> None:
        wait_until(lambda: "Ctrl-C" in self.text() or self.process.poll() is not None, "the table")
        assert self.process.poll() is None, self.text()

    def node_pids(self) -> list[int]:
        """From the table's last column."""
        rows = [line.split() for line in self.text().splitlines()]
        return [int(row[-1]) for row in rows if len(row) == 5 and row[0].isdigit()]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(seconds())


@pytest.fixture
def start_up(tmp_path: Path, base_port: int) -> Iterator[Callable[..., Up]]:
    started = []

    def start(regions: int, *options: str) -> Up:
        started.append(Up(tmp_path / "data", *options, regions=regions, base_port=base_port))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.mark.live
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_signal_stops_all_and_the_data_stays(
    start_up: Callable[[int], Up], number: signal.Signals
) -> None:
    up = start_up(2)
    up.wait_for_table()
    for region in (1, 2):
        for shift in (0, 1000, 2000):
            assert f"127.0.0.1:{up.base_port + shift + region}" in up.text()
    assert f"Console: http://127.0.0.1:{up.base_port + 2001}/\n" in up.text()
    pids = up.node_pids()
    assert len(pids) == 2
    with redis.Redis(port=up.base_port + 1, decode_responses=True) as first:
        entry_id = first.xadd("kept", {"a": "b"})

    up.process.send_signal(number)
    assert up.process.wait(seconds()) == 0
    assert not any(map(is_alive, pids))

    again = start_up(2)
    again.wait_for_table()
    with redis.Redis(port=up.base_port + 1, decode_responses=True) as first:
        assert first.xrange("kept") == [(entry_id, {"a": "b"})]


@pytest.mark.live
@pytest.mark.long
def test_deleted_data_are_told_and_a_new_database_is_begun_on_request(
    start_up: Callable[..., Up],
) -> None:
    up = start_up(1)
    up.wait_for_table()
    up.end()
    shutil.rmtree(up.folder / "region-1")
    refused = start_up(1)
    assert refused.process.wait(seconds()) == 1
    assert "has held region 1 of database 'crdb'" in refused.text()
    assert "start with --new-database" in refused.text()

    start_up(1, "--new-database").wait_for_table()


@pytest.mark.live
def test_nodes_stop_when_up_is_killed(start_up: Callable[[int], Up]) -> None:
    up = start_up(2)
    up.wait_for_table()
    pids = up.node_pids()
    up.process.kill()
    wait_until(lambda: not any(map(is_alive, pids)), "the nodes to stop")


@pytest.mark.live
def test_death_of_a_node_is_told(start_up: Callable[[int], Up]) -> None:
    up = start_up(2)
    up.wait_for_table()
    os.kill(up.node_pids()[1], signal.SIGKILL)
    wait_until(lambda: "region 2 ended: killed by signal 9" in up.text(), "the report")
    assert f"crdtstream node --config {up.folder / 'region-2.toml'}" in up.text()
    assert up.process.poll() is None

    os.kill(up.node_pids()[0], signal.SIGKILL)
    assert up.process.wait(seconds()) == 1
    assert "no region is left" in up.text()


@contextmanager
def occupied(port: int) -> Iterator[None]:
    """Somebody else listens there."""
    with socket.socket() as other:
        # Connections of earlier tests may linger on this port.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        yield


# One of the three is enough where people wait.
EACH_PORT = pytest.mark.parametrize(
    "shift",
    [
        pytest.param(0, id="RESP"),
        pytest.param(1000, id="gRPC", marks=pytest.mark.long),
        pytest.param(2000, id="HTTP", marks=pytest.mark.long),
    ],
)


@pytest.mark.live
@EACH_PORT
def test_taken_port_is_named(start_up: Callable[[int], Up], base_port: int, shift: int) -> None:
    with occupied(base_port + shift + 2):
        up = start_up(2)
        assert up.process.wait(seconds()) == 1
    assert f"port {base_port + shift + 2} (" in up.text()
    assert "of region 2) is taken" in up.text()
    assert "--base-port" in up.text()


@pytest.mark.live
@EACH_PORT
def test_node_names_a_taken_port(tmp_path: Path, base_port: int, shift: int) -> None:
    (own,) = layout(1, tmp_path, base_port=base_port)
    own.config.write_text(settings_text(own, [own], {}))
    with occupied(base_port + shift + 1):
        command = [sys.executable, "-m", "crdtstream", "node", "--config", str(own.config)]
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=seconds()
        )
    assert ended.returncode == 1
    assert str(base_port + shift + 1) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_settings_that_somebody_added_survive_the_next_start(tmp_path: Path) -> None:
    regions = layout(2, tmp_path, base_port=6380)
    own = regions[0]
    own.config.write_text(
        settings_text(own, regions, {}).replace("resp_port = 6381", "resp_port = 1")
        + "\n[limits]\nclients_max = 7\n"
    )
    own.config.write_text("slowlog_max_len = 9 # mine\n" + own.config.read_text())
    own.config.write_text(settings_text(own, regions, {"appendfsync": "no"}))
    settings = load_settings(own.config)
    assert (settings.slowlog_max_len, settings.limits.clients_max) == (9, 7)
    assert (settings.resp_port, settings.appendfsync) == (6381, "no")
    own.config.write_text("no TOML [")
    assert "slowlog" not in settings_text(own, regions, {})


def in_python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )


@pytest.mark.long
@pytest.mark.parametrize("command", ["up", "node", "status", "fsck", "dump", "sync"])
def test_a_command_loads_no_other(command: str) -> None:
    done = in_python(
        f"import sys; sys.argv = ['crdtstream', '{command}', '--help']\n"
        "from crdtstream.cli.start import main\n"
        "try: main()\n"
        "finally: print(*sys.modules)"
    )
    assert f"Usage: crdtstream {command}" in done.stdout, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    others = start.COMMANDS.keys() - {command}
    assert not loaded & {start.COMMANDS[other] for other in others}
    assert not loaded & {"redis", "requests", "toxiproxy"}


@pytest.mark.parametrize("words", [["node"], ["fsck", "folder"], ["simulate", "--seeds", "1"]])
def test_no_command_runs_without_its_assertions(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "crdtstream", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "run Python without -O" in done.stderr
    assert not done.stdout


def test_the_version_is_told_without_loading_a_command() -> None:
    done = in_python(
        "import sys; sys.argv = ['crdtstream', '--version']\n"
        "from crdtstream.cli.start import main\n"
        "try: main()\n"
        "finally: print(*sys.modules)"
    )
    said, loaded = done.stdout.splitlines()
    assert said.startswith("crdtstream ")
    assert not set(loaded.split()) & set(start.COMMANDS.values())


@pytest.mark.long
def test_without_the_libraries_of_drills_all_else_goes_on() -> None:
    hidden = "import sys; sys.modules['redis'] = None\n"
    start = "from crdtstream.cli.start import main; main()"
    done = in_python(f"{hidden}sys.argv = ['crdtstream', '--help']\n{start}")
    assert done.returncode == 0, done.stderr
    done = in_python(f"{hidden}sys.argv = ['crdtstream', 'drill', 'list']\n{start}")
    assert done.returncode == 0, done.stderr
    assert "region-loss" in done.stdout
    done = in_python(f"{hidden}sys.argv = ['crdtstream', 'drill', 'run', 'all']\n{start}")
    assert done.returncode == 2
    assert "pip install 'crdtstream[drill]'" in done.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_a_long_reason_stands_in_full_below_the_tables_and_not_in_a_column(columns: int) -> None:
    why = (
        "region 2 has cut region 2's effects 6 to 105 from its log, and this region lacks them; "
        * 4
    )
    reply = admin_pb2.StatusReply(
        region=1, resp_address="127.0.0.1:6381", grpc_address="127.0.0.1:7381", fault=why
    )
    reply.links.add(peer=2, state=admin_pb2.LinkStatus.State.NEEDS_BOOTSTRAP, error=why)
    found = Survey(replies={RegionId(1): reply})
    shown = io.StringIO()
    for table in status_tables(found, streams=False):
        Console(file=shown, width=columns).print(table)
    assert len(shown.getvalue().splitlines()) < 25
    assert "effects 6 to 105" not in shown.getvalue()
    assert list(status_reasons(found)) == [
        f"region 1 refuses writes: {why}",
        f"link 2 → 1 (needs bootstrap): {why}",
    ]


def test_status_shows_who_joins_and_who_was_removed_and_counts_neither_as_behind() -> None:
    status = admin_pb2.MemberStatus.Status
    replies = {
        RegionId(region): admin_pb2.StatusReply(region=region, member_status=member)
        for region, member in ((1, status.ACTIVE), (3, status.REMOVED), (4, status.JOINING))
    }
    replies[RegionId(1)].vv.CopyFrom(encode_vv({RegionId(1): 9, RegionId(3): 4}))
    replies[RegionId(1)].cuts.CopyFrom(encode_vv({RegionId(3): 4}))
    replies[RegionId(3)].vv.CopyFrom(encode_vv({RegionId(3): 7}))
    replies[RegionId(4)].vv.CopyFrom(encode_vv({RegionId(1): 8, RegionId(3): 4}))
    replies[RegionId(4)].leaving.add(region=5, silent=[1, 2])
    found = Survey(replies=replies)
    shown = [" ".join(line.split()) for line in shown_tables(found).splitlines()]
    assert [line for line in shown if line.endswith(" 0 0")] == [
        "1 ok 1:9,3:4 0 0 0",
        "3 removed 3:7 0 0 0",
        "4 joins 1:8,3:4 1 0 0",
    ]
    assert list(status_reasons(found)) == [
        (
            "region 5 was removed, and region 4 still looks for its last effects in the others; "
            "not heard yet: region 1, 2"
        )
    ]


def test_status_shows_the_state_that_a_region_gets_and_nothing_where_none_does() -> None:
    reply = admin_pb2.StatusReply(region=3)
    found = Survey(replies={RegionId(3): reply})
    assert "bootstrap" not in shown_tables(found)
    reply.bootstrap.CopyFrom(
        admin_pb2.BootstrapStatus(
            phase=admin_pb2.BootstrapStatus.Phase.COPYING,
            source=1,
            images_done=430,
            images=1_000,
            bytes_done=43 << 20,
            bytes=100 << 20,
            bytes_per_s=2 << 20,
            seconds_left=28,
            failures=1,
            failure="region 2: UNAVAILABLE: it recovers",
        )
    )
    shown = " ".join(shown_tables(found).split())
    assert "1 → 3 copying 430 of 1000 43.0 100.0 2.0 28 0 1" in shown
    (told,) = status_reasons(found)
    assert told == (
        "region 3 could not get the state of a peer; it tries again by itself: "
        "region 2: UNAVAILABLE: it recovers"
    )


def test_status_names_the_incarnation_of_a_region_that_went_on_in_another_folder() -> None:
    reply = admin_pb2.StatusReply(region=1, token=f"{'5f0c' * 8}/1:9@1764012345678,2:4")
    reply.vv.CopyFrom(encode_vv({RegionId(1): 9, RegionId(2): 4}))
    assert "1:9@1764012345678,2:4" in shown_tables(Survey(replies={RegionId(1): reply}))


def test_texts_that_a_peer_chose_drive_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;owned\x07[red]"
    reply = admin_pb2.StatusReply(
        region=1, resp_address=hostile, grpc_address=hostile, database_uid=hostile, fault=hostile
    )
    reply.token = f"0/{hostile}"
    found = Survey(replies={RegionId(1): reply})
    for reason in status_reasons(found):
        print_text(reason)
    shown = shown_tables(found) + capsys.readouterr().out
    assert all(one.isprintable() or one == "\n" for one in shown)
    # The database, two addresses, the version vector and the fault.
    assert shown.count(r"\x1b") == 5


def shown_tables(found: Survey) -> str:
    shown = io.StringIO()
    for table in status_tables(found, streams=False):
        Console(file=shown, width=120).print(table)
    return shown.getvalue()


@pytest.mark.parametrize(("marks", "is_told"), [((7, 7), False), ((7, 8), True), ((7, 0), False)])
def test_status_says_that_passwords_differ(marks: tuple[int, int], is_told: bool) -> None:
    found = Survey(
        replies={
            RegionId(region): admin_pb2.StatusReply(region=region, password_mark=mark)
            for region, mark in enumerate(marks, start=1)
        }
    )
    told = [reason for reason in status_reasons(found) if "requirepass" in reason]
    assert len(told) == is_told
    assert all(reason.startswith("regions 1, 2 ") for reason in told)
