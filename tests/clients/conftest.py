"""Fixtures for the tests of clients: an empty node, and waiting until its client is blocked."""

from collections.abc import Iterator

import pytest

from tests.clients.libraries import LIBRARIES, Library
from tests.clients.secured import Secured, secured_node
from tests.patience import wait_until
from tests.resp.node import Node, request, running


@pytest.fixture(scope="module")
def serving() -> Iterator[Node]:
    with running() as node:
        yield node


@pytest.fixture
def node(serving: Node) -> Node:
    """A node without any keys."""
    with serving.client() as client:
        client.ask(request(b"FLUSHALL"), b"+OK\r\n")
    return serving


@pytest.fixture(scope="module")
def secured_serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_node(tmp_path_factory.mktemp("secured")) as secured:
        yield secured


@pytest.fixture
def secured(secured_serving: Secured) -> Secured:
    """A node that takes its clients over TLS alone, each as a user; it has no keys."""
    secured_serving.node.client.flushall()
    return secured_serving


@pytest.fixture(params=LIBRARIES, ids=str)
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    return found


def wait_until_blocked(node: Node, count: int = 1) -> None:
    """Wait until ``count`` clients wait in a blocking read."""
    wait_until(
        lambda: node.call(lambda: node.database.waiting_count) == count, f"{count} blocked clients"
    )
