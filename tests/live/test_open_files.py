"""A node takes as many clients as its settings say, where the system allows the files."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from crdtstream.machine.open_files import FILES_SPARE
from tests.live.cluster import NODE_PROGRAM, cluster_of, running_regions

# What a shell often begins with.
SOFT = 1_024


@contextmanager
def soft_limit(files: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_node_raises_what_its_shell_allowed_to_what_its_clients_need(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path, program=NODE_PROGRAM) as cluster:
        cluster.configure()
        with soft_limit(SOFT):
            cluster.start()
        node = cluster[1]
        assert node.process is not None
        soft, _ = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
        assert soft == 10_000 + FILES_SPARE
        assert node.client.config_get("maxclients") == {"maxclients": "10000"}


@pytest.mark.long
def test_more_clients_than_files_are_refused_as_redis_does(tmp_path: Path) -> None:
    with running_regions(1, tmp_path, program=NODE_PROGRAM) as cluster:
        node = cluster[1]
        assert node.process is not None
        resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (SOFT, SOFT))
        with pytest.raises(redis.ResponseError) as refused:
            node.client.config_set("maxclients", 5_000)
        assert str(refused.value) == (
            "CONFIG SET failed (possibly related to argument 'maxclients') - The operating system "
            f"is not able to handle the specified number of clients, try with {SOFT - FILES_SPARE}"
        )
        assert node.client.config_get("maxclients") == {"maxclients": "10000"}
        node.client.config_set("maxclients", SOFT - FILES_SPARE)


@pytest.mark.long
def test_a_node_that_may_open_few_files_says_so_and_takes_fewer_clients(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path, program=NODE_PROGRAM) as cluster:
        cluster.configure()
        settings = cluster[1].config
        settings.write_text(
            settings.read_text().replace("[limits]", "[limits]\nclients_max = 2000000000")
        )
        cluster.start()
        node = cluster[1]
        assert node.process is not None
        _, most = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE)
        assert node.client.config_get("maxclients") == {"maxclients": str(most - FILES_SPARE)}
        assert "clients_max is lowered" in node.log.read_text()
