"""Nodes for the tests of this folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.resp.node import Node, RawClient, running
from tests.resp.tls import Party


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node that the tests of a module share; what one leaves behind must not matter."""
    with running() as node:
        yield node


@pytest.fixture
def client(node: Node) -> Iterator[RawClient]:
    with node.client() as client:
        yield client


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    """A client of redis-py."""
    with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as client:
        yield client


@pytest.fixture
def party(tmp_path: Path) -> Party:
    """An authority, its node and its clients, for tests of TLS."""
    return Party.of(tmp_path)
