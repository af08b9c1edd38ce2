"""A region joins a closed set-up: with its token, its certificate, and settings that were written
before; and nobody else does (S10)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import free_base_port
from tests.live.closed import Closed, Files, closed_regions
from tests.live.cluster import Node
from tests.live.forked import Forked, completed
from tests.live.test_joining import status_of
from tests.patience import seconds, wait_until

pytestmark = pytest.mark.live

NEW = 3


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Closed]:
    with closed_regions(2, tmp_path) as closed:
        yield closed


class Machine:
    """A machine that is to be the new region, with files that an operator wrote."""

    def __init__(self, closed: Closed, name: str, certificate: Files) -> None:
        self.closed = closed
        self.folder = closed.folder / name
        self.folder.mkdir()
        self.node = Node(NEW, free_base_port(1) + 1 - NEW, self.folder)
        self.certificate = certificate
        closed.prepare(self.node)
        peers = {region: node.grpc_address for region, node in closed.cluster.nodes.items()}
        self.node.configure(peers, **closed.settings_of(self.node))

    @property
    def instance(self) -> str:
        node = self.node
        return (
            f"fqdn=new,replication_endpoint={node.grpc_address},"
            f"endpoint=127.0.0.1:{node.resp_port},url=https://127.0.0.1:{node.http_port}"
        )

    def launch(self, token: Path) -> Forked:
        self.node.process = process = Forked(
            [
                *("crdtstream", "node", "--join", self.closed[1].grpc_address),
                *("--token-file", str(token), "--config", str(self.node.config)),
                *("--region-dir", str(self.node.folder), *self.certificate.options),
            ],
            self.node.log,
        )
        return process

    def refused(self, token: Path) -> str:
        """The reason why its node is not let in."""
        process = self.launch(token)
        assert process.wait(seconds()) != 0
        self.node.process = None
        return self.node.log.read_text()


def added(closed: Closed, machine: Machine) -> Path:
    token = closed.folder / "new.token"
    words = ["crdtstream", "crdb", "add-instance", "--instance", machine.instance]
    done: subprocess.CompletedProcess[str] = completed(
        [
            *words,
            *("--token-file", str(token), "--address", closed[1].grpc_address),
            *closed.operator.options,
        ],
    )
    assert done.returncode == 0, done.stderr
    return token


@pytest.mark.long
def test_a_region_joins_with_settings_that_were_written_before(closed: Closed) -> None:
    closed[1].client.xadd("orders:1", {"f": "v"})
    machine = Machine(closed, "new", closed.authority.region(NEW))
    before = machine.node.config.read_text()
    token = added(closed, machine)
    machine.launch(token)
    try:
        wait_until(lambda: status_of(closed[1], NEW) == "active", "it is active")
        machine.node.wait()
        # All its ports are closed from its first moment on, as the file says.
        assert machine.node.config.read_text() == before
        assert machine.node.client.xlen("orders:1") == 1
        assert machine.node.status().http_tls
        # Replayed, by whoever finds it, also with the right certificate.
        other = Machine(closed, "later", closed.authority.region(NEW))
        assert "no token of a region that may join" in other.refused(token)
    finally:
        if machine.node.process is not None:
            machine.node.end()


@pytest.mark.long
def test_a_thief_of_the_token_does_not_use_it_up(closed: Closed) -> None:
    """It has the certificate of another region, or of an operator."""
    machine = Machine(closed, "new", closed.authority.region(NEW))
    token = added(closed, machine)
    for name, stolen in (("two", closed.authority.region(2)), ("alice", closed.operator)):
        thief = Machine(closed, name, stolen)
        assert "certificate is of" in thief.refused(
            token
        ) or "joins with the certificate of its" in (thief.node.log.read_text())
    assert status_of(closed[1], NEW) == "joining"
    machine.launch(token)
    try:
        wait_until(lambda: status_of(closed[1], NEW) == "active", "its owner gets in")
    finally:
        machine.node.end()


@pytest.mark.long
def test_of_two_machines_at_the_same_moment_one_is_the_region(closed: Closed) -> None:
    """Both have the token and the certificate: a copied disk, or a thief of both."""
    machines = [Machine(closed, name, closed.authority.region(NEW)) for name in ("first", "second")]
    token = added(closed, machines[0])
    processes = [machine.launch(token) for machine in machines]
    try:
        wait_until(lambda: any(one.poll() is not None for one in processes), "one is refused")
        [lost] = [at for at, one in enumerate(processes) if one.poll() is not None]
        assert processes[lost].poll() != 0
        said = machines[lost].node.log.read_text()
        assert "another node joins as region 3" in said or "no token of a region" in said
        if lost == 1:
            # It is at the address that the members were told.
            wait_until(lambda: status_of(closed[1], NEW) == "active", "the first one is active")
        assert processes[1 - lost].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.wait()
