"""Every command that reaches a node works on closed set-ups: one by hand, and ``up --tls``.

The table names each command once.  Each row runs with what the set-up asks for, and again without,
where nothing but a clear refusal may come.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
import redis
import typer
from typer.testing import CliRunner

from crdtstream.cli import rladmin
from crdtstream.cli.start import program
from crdtstream.local.regions import LocalRegions
from tests.conftest import free_base_port
from tests.live.closed import Closed, Files, closed_regions
from tests.live.forked import completed

pytestmark = pytest.mark.live

# Also a user: it logs in to the port for Redis clients, which a certificate alone does not.
AS_USER: Final = "as user"
# Only an address: there is no --dir.
ONE: Final = "one node"
# It looks for a node for a minute before it gives up.
PATIENT: Final = "patient"
# It tells why a node does not answer, and has done its work.
TELLS: Final = "tells"


class SetUp(Protocol):
    """A set-up with three regions, in a folder."""

    folder: Path

    def reach(self, *how: str, region: int = 1) -> tuple[str, ...]:
        """Options that lead to the regions, and in."""

    def address(self, region: int) -> str: ...


@dataclass(frozen=True)
class Row:
    """One command.

    Attributes:
        words: with ``{folder}`` and the addresses of regions as ``{a1}``.
        said: a part of what it prints, which only a node can have told.
    """

    words: str
    said: str
    how: tuple[str, ...] = ()
    status: int = 0

    @property
    def name(self) -> str:
        return " ".join(word for word in self.words.split() if not word.startswith(("-", "{")))


ROWS: Final = (
    Row("crdtstream status --json", '"database_uid"'),
    Row("crdtstream console --print", "https://127.0.0.1:"),
    Row("crdtstream crdb list", "crdb"),
    Row("crdtstream crdb get", "Replication-Endpoint: "),
    Row("crdtstream crdb health-report", "commit"),
    Row("crdtstream crdb update --instance-id 2 --instance fqdn=two", "2"),
    Row("crdtstream crdb verify", "equal"),
    Row(
        "crdtstream crdb repair orders --instance-id 2 --source 1 --dry-run", "Nothing to", status=1
    ),
    Row("crdtstream crdb acl push {folder}/pushed.acl", "epoch 1"),
    Row("crdtstream certs reload", "region 1"),
    Row("crdtstream certs revoke 123abc --until 2040-01-01", "123abc"),
    Row("crdtstream certs revoked", "123abc"),
    Row("crdtstream sync pause --region 2", "paused: 1 → 2, 3 → 2"),
    Row("crdtstream sync resume", "resumed: "),
    Row("crdtstream sync wait --timeout 60", "equal: regions 1, 2, 3"),
    Row("crdtstream backup {folder}/backup", "backup", (ONE,)),
    Row("crdtstream doctor --output - --without-fsck", '"database_uid"', (TELLS,)),
    Row("crdtstream scenario run {folder}/scenario.yaml --live", "1 passed", (ONE, AS_USER)),
    Row("rladmin status", "node:1"),
    Row("rladmin info db crdb", "appendfsync"),
    Row("rladmin info cluster", "data_internode_encryption: enabled"),
    Row("rladmin info node 2", "Command Output: node:2"),
    Row("rladmin verify balance", "BALANCE:"),
    Row("rladmin tune db crdb appendfsync everysec --all", "Finished successfully"),
    Row("crdtstream crdb flush --yes", "deleted"),
    # The last ones change the regions.
    Row("crdtstream crdb remove-instance --instance-id 3 --force --yes", "3"),
    Row("crdtstream crdb salvage {folder}/region-3", "appended", (ONE, PATIENT)),
    Row(
        "crdtstream crdb add-instance --token-file {folder}/token"
        " --instance fqdn=four,replication_endpoint=127.0.0.1:9",
        "4",
    ),
)
# Commands that reach nodes, and have tests of their own.
ELSEWHERE: Final = {
    "crdtstream up": "tests/live/test_local_tls.py",
    "crdtstream node": "tests/live/test_mutual_tls.py",
    "crdtstream drill run": "tests/drill/test_closed.py",
    "crdtstream pipeline archive": "tests/spark/test_closed.py",
    "crdtstream pipeline replay": "tests/spark/test_closed.py",
    "crdtstream pipeline audit": "tests/spark/test_closed.py",
    "crdtstream pipeline report": "tests/spark/test_closed.py",
}
SCENARIO: Final = """\
about: Regions write and read, with a login each.
source: this test
regions: {r1: 1, r2: 2}
rows:
  - r1: XADD messages 110 text hello     -> 110-1
  - sync
  - r2: XLEN messages                    -> 1
"""


# --- Set-ups --------------------------------------------------------------------------------------


class ByHand:
    """Files, users and settings that an operator wrote."""

    def __init__(self, closed: Closed) -> None:
        self.closed = closed
        self.folder = closed.folder
        users = (self.folder / "users-1.acl").read_text()
        (self.folder / "pushed.acl").write_text(users)

    def reach(self, *how: str, region: int = 1) -> tuple[str, ...]:
        node = self.closed[region]
        login: tuple[str, ...] = ()
        if AS_USER in how:
            login = ("--user", "root", "--password-file", str(self.closed.password_file()))
        return ("--address", node.grpc_address, *node.login_options, *login)

    def address(self, region: int) -> str:
        return self.closed[region].grpc_address

    def client(self, region: int) -> Any:
        return self.closed[region].client

    def kill(self, region: int) -> None:
        self.closed[region].end(signal.SIGKILL)


class Up:
    """Regions of ``crdtstream up --tls``, found by their folder."""

    def __init__(self, local: LocalRegions, folder: Path) -> None:
        self.local = local
        self.folder = folder
        self._files = Files(folder / "certificates" / "operator-up")

    def reach(self, *how: str, region: int = 1) -> tuple[str, ...]:
        if ONE in how:
            return ("--address", self.address(region), *self._files.options)
        return ("--dir", str(self.folder))

    def address(self, region: int) -> str:
        return self.local.regions[region - 1].grpc_address

    def client(self, region: int) -> Any:
        port = self.local.regions[region - 1].resp_port
        return redis.Redis(host="localhost", port=port, **self._files.for_redis)

    def kill(self, region: int) -> None:
        self.local.kill(self.local.regions[region - 1].region)


def prepared(set_up: Any) -> Any:
    """The same set-up, with a stream, and a scenario in its folder."""
    (set_up.folder / "scenario.yaml").write_text(SCENARIO)
    set_up.client(1).xadd("orders", {"f": "v"})
    return set_up


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    folder = tmp_path_factory.mktemp("closed")
    with closed_regions(3, folder) as closed:
        yield prepared(ByHand(closed))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    users = folder / "pushed.acl"
    users.write_text("user default on nopass ~* &* +@all\n")
    own = {
        region: {"aclfile": str(folder / f"users-{region}.acl")} for region in map(int, (1, 2, 3))
    }
    for one in own.values():
        Path(str(one["aclfile"])).write_text(users.read_text())
    local = LocalRegions(
        3,
        folder,
        base_port=free_base_port(3),
        settings_of=own,  # type: ignore[arg-type]
        tls=True,
    )
    try:
        local.start_all()
        assert local.wait_until_healthy()
        yield prepared(Up(local, folder))
    finally:
        local.stop_all()
        local.close()


# --- The table ------------------------------------------------------------------------------------


def run(words: list[str]) -> tuple[int, str]:
    """Status and all that was printed."""
    if words[0] == "rladmin":
        found = CliRunner().invoke(rladmin.app, words[1:])
        return found.exit_code, found.output
    done = completed(words)
    return done.returncode, done.stdout + done.stderr


def checked(row: Row, set_up: Any) -> None:
    """Run a row without anything to present, and then with it."""
    words = row.words.format(folder=set_up.folder).split()
    if PATIENT not in row.how:
        status, said = run([*words, "--address", set_up.address(1)])
        assert status == (0 if TELLS in row.how else 1), (row.name, said)
        assert "Traceback" not in said
        assert "--tls-cert-file" in said
    presented = set_up.reach(*row.how)
    if "scenario" in words:
        presented += ("--address", set_up.address(2))
    status, said = run([*words, *presented])
    assert status == row.status, (row.name, said)
    assert row.said in said


def test_a_user_who_may_only_see_info_is_told_that_comparing_needs_more(by_hand: ByHand) -> None:
    """The regions have everything by then, so the wait is over and cannot say `equal`."""
    login = ("--user", "auditor", "--password-file", str(by_hand.closed.password_file()))
    words = ["crdtstream", "sync", "wait", "--timeout", "60", *by_hand.reach(), *login]
    status, said = run(words)
    assert status == 1
    assert "needs a user with all commands of @admin (+@admin)" in said
    assert "equal: " not in said
    status, said = run([*words, "--region", "1"])
    assert (status, "region 1 lacks nothing" in said) == (0, True), said


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_command_works_by_hand(by_hand: ByHand, row: Row) -> None:
    if "remove-instance" in row.words:
        leave_behind(by_hand)
    checked(row, by_hand)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_commands_work_with_up(up: Up) -> None:
    """In one test: a row may need what an earlier one did, and long tests are drawn one by one."""
    for row in ROWS:
        if "remove-instance" in row.words:
            leave_behind(up)
        checked(row, up)


def leave_behind(set_up: Any) -> None:
    """Region 3 has an entry that no other region has, and is killed."""
    for region in (1, 2):
        status, said = run(
            ["crdtstream", "sync", "pause", "--region", str(region), *set_up.reach()]
        )
        assert status == 0, said
    set_up.client(3).xadd("orders", {"only": "here"})
    set_up.kill(3)
    # The others resume; the dead one is reported as that, and its certificate is not blamed.
    _, said = run(["crdtstream", "sync", "resume", *set_up.reach()])
    assert set_up.address(3) in said
    assert "node answers" in said
    assert "certificate" not in said


# --- Nothing is left out --------------------------------------------------------------------------


def commands_of(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from commands_of(one, (*words, name))
    else:
        yield " ".join(words), command


def reaching() -> set[str]:
    """Commands that have an option for the address of a node, or for a folder of ``up``."""
    found = set()
    for name, app in (("crdtstream", program()), ("rladmin", rladmin.app)):
        for words, command in commands_of(typer.main.get_command(app), (name,)):
            options = {option for one in command.params for option in one.opts}
            if options & {"--address", "--join", "--dir"}:
                found.add(words)
    return found


def test_every_command_that_reaches_a_node_is_tried() -> None:
    tried = {name for name in reaching() for row in ROWS if row.words.startswith(f"{name} ")}
    tried |= {row.words for row in ROWS}
    assert reaching() - tried == set(ELSEWHERE)
