"""socket.io over two regions: frameworks that know XREAD, PUBLISH and PUBSUB, and nothing of us."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.v1 import admin_pb2 as pb
from tests.clients.test_node_clients import PACKAGES, SCRIPTS
from tests.conftest import program, require
from tests.live.cluster import Cluster, running_regions
from tests.patience import seconds, wait_until


@pytest.fixture
def two_regions(tmp_path: Path) -> Iterator[Cluster]:
    with running_regions(2, tmp_path, crdt_xread_mode="never-skip") as cluster:
        for region, peer in ((1, 2), (2, 1)):
            wait_until(
                lambda region=region, peer=peer: (  # type: ignore[misc]
                    cluster[region].link(peer).state == pb.LinkStatus.State.UP
                ),
                f"region {region} is linked to {peer}",
            )
        yield cluster


def test_socket_io_loses_no_broadcast_and_recovers_sessions(two_regions: Cluster) -> None:
    executable = program("node", hint="apt-get install nodejs npm, then `make tools`")
    require(
        (PACKAGES / "@socket.io").is_dir(), "socket.io is missing: run `make tools` (wants npm)"
    )
    ports = ",".join(str(node.resp_port) for node in two_regions.nodes.values())
    done = subprocess.run(
        [executable, "--test", "--test-reporter=tap", SCRIPTS / "socket_io.test.cjs"],
        env={**os.environ, "NODE_PATH": str(PACKAGES), "PORTS": ports},
        capture_output=True,
        text=True,
        timeout=seconds(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass 3$", done.stdout, re.MULTILINE), done.stdout
