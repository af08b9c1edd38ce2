"""Real servers for the comparisons, each started once."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from crdtstream.core.ids import IdMode
from tests.like_redis import oracles
from tests.like_redis.oracles import RealServer
from tests.resp.node import Node, running


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """The server that ours is held to: the newest, Redis 8."""
    with oracles.newest(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def other_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealServer]]:
    """Redis 7 and Valkey as far as they are here: they tell where servers disagree."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(oracles.running(binary, tmp_path_factory.mktemp("other")))
            for name, binary in oracles.binaries().items()
            if name != "redis 8" and binary is not None
        ]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node in liberal mode behind a socket."""
    with running() as node:
        node.call(lambda: setattr(node.replica, "id_mode", IdMode.LIBERAL))
        yield node
