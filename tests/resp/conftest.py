"""Nodes for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.resp.node import Node, RawClient, running


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node that the tests of a module share; what one leaves behind must not matter."""
    with running() as node:
        yield node


@pytest.fixture
def client(node: Node) -> Iterator[RawClient]:
    with node.client() as client:
        yield client
