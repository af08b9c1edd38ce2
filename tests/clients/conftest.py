"""What the tests of clients share: an empty node, and waiting until a client of it is blocked."""

from collections.abc import Iterator

import pytest

from tests.clients.libraries import LIBRARIES, Library
from tests.live.cluster import wait_until
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


@pytest.fixture(params=LIBRARIES, ids=str)
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    return found


def wait_until_blocked(node: Node, count: int = 1) -> None:
    """Wait until ``count`` clients wait in a blocking read."""
    wait_until(
        lambda: node.call(lambda: node.database.waiting_count) == count, f"{count} blocked clients"
    )
