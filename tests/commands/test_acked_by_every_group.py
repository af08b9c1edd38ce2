"""ACKED spares an entry for as long as one of the groups has not acknowledged it."""

import pytest

from tests.harness.regions import Node


@pytest.mark.parametrize("first", ["g", "h"])
def test_acked_waits_for_every_group(first: str) -> None:
    node = Node(1)
    node.run("XADD x 1 f v", "XGROUP CREATE x g 0", "XGROUP CREATE x h 0")
    second = "h" if first == "g" else "g"
    node.run(f"XREADGROUP GROUP {first} c STREAMS x >", f"XACK x {first} 1")
    assert node.run("XDELEX x ACKED IDS 1 1") == [2]
    assert node.run("XTRIM x MAXLEN 0 ACKED") == 0
    node.run(f"XREADGROUP GROUP {second} c STREAMS x >", f"XACK x {second} 1")
    assert node.run("XDELEX x ACKED IDS 1 1") == [1]
