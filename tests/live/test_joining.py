"""Regions that join a database while clients write: real nodes, real tokens."""

import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.engine.log_cutting import CUT_RECORDS_MIN
from crdtstream.v1 import admin_pb2 as pb
from tests import patience
from tests.conftest import free_base_port
from tests.live.bootstraps import SMALL_BACKLOG, cut_log, write
from tests.live.cluster import Cluster, Node, running_regions, vv_of
from tests.live.forked import Forked
from tests.live.test_members import crdb, listed
from tests.patience import wait_until

NEW = 4


class Joiner:
    """The node of a region that joins: files of its own, on ports of its own."""

    def __init__(self, folder: Path, region: int = NEW) -> None:
        # Its ports are those of a first region: no range of ports has room for every number.
        self.node = Node(region, free_base_port(1) + 1 - region, folder)
        self.token = folder / "new.token"
        self.tokens = [self.token]
        self.log = folder / "join.log"
        # Options that name the files of its certificate.
        self.options: tuple[str, ...] = ()
        self.process: Forked | None = None

    @property
    def instance(self) -> str:
        node = self.node
        return (
            f"fqdn=new,replication_endpoint={node.grpc_address},"
            f"endpoint={node.host}:{node.resp_port},url={node.host}:{node.http_port}"
        )

    def add(self, member: Node, *words: str) -> "subprocess.CompletedProcess[str]":
        given = ("--instance", self.instance, "--token-file", str(self.token))
        return crdb(member, "add-instance", *given, *words)

    def launch(self, member: Node, *, token: Path | None = None, name: str = "") -> None:
        """Start the node, which joins by this member."""
        config = self.node.config.with_name(f"{name or self.node.config.stem}.toml")
        words = ["--token-file", str(token or self.token), "--config", str(config), *self.options]
        self.process = self.node.process = Forked(
            ["crdtstream", "node", "--join", member.grpc_address, *words], self.log
        )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def refused(self, member: Node, *, token: Path | None = None, name: str = "") -> str:
        """The fault that a node reports if it is not let in."""
        self.log.unlink(missing_ok=True)
        self.launch(member, token=token, name=name)
        assert self.process is not None
        assert self.process.wait(patience.seconds()) != 0
        self.node.process = None
        return self.log.read_text()

    def wait_until_active(self, member: Node) -> None:
        wait_until(lambda: status_of(member, self.node.region) == "active", "it is active")
        self.node.wait()


def status_of(member: Node, region: int) -> str:
    found = {one["id"]: one["status"] for one in listed(member)["instances"]}
    return str(found.get(region, ""))


def level(nodes: list[Node]) -> None:
    """Wait for equal version vectors; digests must be equal then."""

    def equal() -> bool:
        found = [node.status() for node in nodes]
        return all(vv_of(one) == vv_of(found[0]) for one in found)

    wait_until(equal, "equal version vectors")
    assert len({node.status().digest for node in nodes}) == 1


@pytest.fixture
def joiner(tmp_path: Path) -> Iterator[Joiner]:
    joiner = Joiner(tmp_path)
    yield joiner
    if joiner.node.process is not None:
        joiner.node.end(signal.SIGKILL)


def test_a_region_joins_under_load_and_writes(cluster: Cluster, joiner: Joiner) -> None:
    """Clients write in all regions all the while, and nothing of it is lost or doubled."""
    is_over = threading.Event()
    written: dict[int, int] = {}

    def write(node: Node) -> None:
        client, count = node.connect(), 0
        while not is_over.is_set():
            client.xadd("s", {"n": f"{node.region}:{count}"})
            count += 1
        written[node.region] = count

    writers = [threading.Thread(target=write, args=(node,)) for node in cluster.nodes.values()]
    for writer in writers:
        writer.start()
    try:
        assert joiner.add(cluster[1]).returncode == 0
        assert stat.S_IMODE(joiner.token.stat().st_mode) == 0o600
        joiner.launch(cluster[2])
        joiner.wait_until_active(cluster[3])
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    new = joiner.node
    new.client.xadd("s", {"n": "4:0"})
    level([*cluster.nodes.values(), new])
    texts = [fields[b"n"] for _, fields in new.client.xrange("s")]
    wanted = {b"%d:%d" % (r, n) for r, count in written.items() for n in range(count)}
    assert sorted(texts) == sorted(wanted | {b"4:0"})
    # It counts from here on.
    cluster[1].client.xadd("s", {"n": "last"})
    assert cluster[1].client.execute_command("WAIT", 3, 0) == 3


@pytest.mark.long
def test_a_region_joins_when_the_logs_were_cut(tmp_path: Path) -> None:
    with running_regions(2, tmp_path, replication_backlog_size=SMALL_BACKLOG) as cluster:
        joiner = Joiner(tmp_path, 3)
        write(cluster[1], "s", 2 * CUT_RECORDS_MIN)
        cluster.converge()
        for node in cluster.nodes.values():
            cut_log(node)
        assert joiner.add(cluster[1]).returncode == 0
        joiner.launch(cluster[1])
        try:
            joiner.wait_until_active(cluster[1])
            assert joiner.node.status().bootstrap.taken_over == 1
            level([*cluster.nodes.values(), joiner.node])
        finally:
            joiner.node.end(signal.SIGKILL)


@pytest.mark.long
def test_killed_at_any_time_the_same_command_goes_on(cluster: Cluster, joiner: Joiner) -> None:
    for number in range(300):
        cluster[1].client.xadd("s", {"n": number})
    assert joiner.add(cluster[1]).returncode == 0
    for seconds in (0.2, 0.5, 0.8, 1.0, 1.2, 1.5):
        joiner.launch(cluster[1])
        assert joiner.process is not None
        try:
            joiner.process.wait(seconds)
        except subprocess.TimeoutExpired:
            joiner.kill()
    joiner.launch(cluster[1])
    joiner.wait_until_active(cluster[1])
    level([*cluster.nodes.values(), joiner.node])
    # Later it starts with its settings alone.
    joiner.node.end(signal.SIGTERM)
    joiner.node.start()
    joiner.node.client.xadd("s", {"n": "later"})
    level([*cluster.nodes.values(), joiner.node])


@pytest.mark.long
def test_members_are_known_after_all_were_killed(cluster: Cluster, joiner: Joiner) -> None:
    assert joiner.add(cluster[1]).returncode == 0
    joiner.launch(cluster[1])
    joiner.wait_until_active(cluster[1])
    nodes = [*cluster.nodes.values(), joiner.node]
    for node in nodes:
        node.end(signal.SIGKILL)
    for node in nodes:
        node.launch()
    for node in nodes:
        node.wait()
        node.client.xadd("s", {"from": node.region})
    level(nodes)
    assert {listed(node)["epoch"] for node in nodes} == {3}


@pytest.mark.long
def test_a_token_is_of_one_node(cluster: Cluster, joiner: Joiner) -> None:
    assert joiner.add(cluster[1]).returncode == 0
    joiner.launch(cluster[1])
    joiner.wait_until_active(cluster[1])
    second = Joiner(joiner.node.config.parent, 5)
    told = second.refused(cluster[1], token=joiner.token, name="region-5")
    assert "no token of a region that may join" in told
    assert not second.node.config.exists()


@pytest.mark.long
def test_a_second_machine_is_refused_while_the_first_one_joins(
    cluster: Cluster, joiner: Joiner
) -> None:
    assert joiner.add(cluster[1]).returncode == 0
    # It is stopped before it is active, and its folder stays.
    joiner.launch(cluster[1])
    assert joiner.process is not None
    wait_until(lambda: joiner.node.config.exists(), "it was let in")
    joiner.kill()
    if status_of(cluster[1], NEW) == "joining":
        second = Joiner(joiner.node.config.parent, 5)
        told = second.refused(cluster[1], token=joiner.token, name="second")
        assert "another node joins as region 4" in told
    joiner.launch(cluster[1])
    joiner.wait_until_active(cluster[1])


@pytest.mark.long
def test_tokens_that_are_over_or_wrong_are_refused(cluster: Cluster, joiner: Joiner) -> None:
    assert joiner.add(cluster[1], "--hours", "0.01").returncode == 0
    wrong = joiner.token.with_name("wrong.token")
    wrong.write_text("00" * 32)
    assert "no token of a region that may join" in joiner.refused(cluster[1], token=wrong)
    wrong.write_text("hello")
    assert "no token, which" in joiner.refused(cluster[1], token=wrong)
    assert "cannot be read" in joiner.refused(cluster[1], token=Path("missing"))


@pytest.mark.long
def test_a_region_that_did_not_join_is_taken_back_and_its_number_is_gone(
    cluster: Cluster, joiner: Joiner
) -> None:
    assert joiner.add(cluster[1]).returncode == 0
    removed = crdb(cluster[1], "remove-instance", "--instance-id", str(NEW))
    assert removed.returncode == 0, removed.stderr
    assert crdb(cluster[1], "remove-instance", "--instance-id", str(NEW)).returncode == 0
    assert "no token of a region that may join" in joiner.refused(cluster[2])
    joiner.token.unlink()
    again = joiner.add(cluster[1])
    assert again.returncode == 0, again.stderr
    assert "Region 5 may join" in again.stdout
    # The others do not wait for what never was.
    cluster[1].client.xadd("s", {"n": "1"})
    assert cluster[1].client.execute_command("WAIT", 2, 0) == 2


def test_a_refused_add_leaves_no_token(cluster: Cluster, joiner: Joiner) -> None:
    taken = f"fqdn=new,replication_endpoint={cluster[2].grpc_address}"
    run = crdb(cluster[1], "add-instance", "--instance", taken, "--token-file", str(joiner.token))
    assert run.returncode == 1
    assert "take another" in run.stderr
    assert not joiner.token.exists()
    joiner.token.write_text("precious")
    assert joiner.add(cluster[1]).returncode == 2
    assert joiner.token.read_text() == "precious"


@pytest.mark.long
def test_a_folder_that_is_not_empty_does_not_join(cluster: Cluster, joiner: Joiner) -> None:
    assert joiner.add(cluster[1]).returncode == 0
    joiner.node.folder.mkdir()
    (joiner.node.folder / "log.sqlite").write_text("something")
    assert "is not empty" in joiner.refused(cluster[1])
    # The files of a region that runs already, perhaps in another database.
    cluster[3].end(signal.SIGTERM)
    told = joiner.refused(cluster[1], name=cluster[3].config.stem)
    assert "is the folder of region 3" in told
    assert "did not join with a token" in told


def test_a_region_moves_to_another_address_without_restarts_of_the_others(
    cluster: Cluster,
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    moving = cluster[3]
    moving.end(signal.SIGTERM)
    moved = f"127.0.0.1:{port}"
    endpoint = f"replication_endpoint={moved}"
    # Its node starts there later.
    given = ("update", "--instance-id", "3", "--instance", endpoint, "--force")
    wait_until(lambda: crdb(cluster[1], *given).returncode == 0, "the address is changed")
    text = moving.config.read_text().replace(
        f"grpc_port = {moving.grpc_port}", f"grpc_port = {port}"
    )
    moving.config.write_text(text)
    moving.grpc_port, moving.grpc_address = port, moved
    moving.start()
    moving.client.xadd("s", {"from": "3"})
    level(list(cluster.nodes.values()))
    # Region 2 may have brought the entry before.
    wait_until(lambda: cluster[1].link(3).address == moved, "the link leads there")
    epoch = listed(cluster[1])["epoch"]
    again = crdb(cluster[1], *given)
    assert again.returncode == 0
    assert "has this name and these addresses already" in again.stdout
    assert listed(cluster[1])["epoch"] == epoch


@pytest.mark.long
def test_a_join_that_fails_here_does_not_use_up_the_token(cluster: Cluster, joiner: Joiner) -> None:
    assert joiner.add(cluster[1]).returncode == 0
    taken = joiner.node.config.with_name("taken.toml")
    taken.write_text("region = 1")
    assert "name a new file" in joiner.refused(cluster[1], name="taken")
    assert not taken.with_suffix("").exists()
    # A file of its own, which lacks regions whose addresses only files have.
    joiner.node.configure({1: cluster[1].grpc_address})
    told = joiner.refused(cluster[1])
    assert "has no address of region 2, 3" in told
    lacking = [f'[[peers]]\nregion = {n}\naddress = "{cluster[n].grpc_address}"' for n in (2, 3)]
    assert "\n\n".join(lacking) in told
    with joiner.node.config.open("a") as file:
        file.write("\n" + "\n\n".join(lacking) + "\n")
    joiner.launch(cluster[1])
    joiner.wait_until_active(cluster[1])


@pytest.mark.long
def test_a_region_joins_at_an_address_of_ipv6(cluster: Cluster, joiner: Joiner) -> None:
    node = joiner.node
    instance = (
        f"fqdn=new,replication_endpoint=[::1]:{node.grpc_port},"
        f"endpoint=[::1]:{node.resp_port},url=http://[::1]:{node.http_port}/"
    )
    given = ("--instance", instance, "--token-file", str(joiner.token))
    run = crdb(cluster[1], "add-instance", *given)
    assert run.returncode == 0, run.stderr
    joiner.launch(cluster[1])
    wait_until(lambda: status_of(cluster[1], NEW) == "active", "it is active")
    wait_until(lambda: cluster[1].link(NEW).state == pb.LinkStatus.State.UP, "it is linked")
