"""A region that takes over another's state is as if it had applied its effects (``rules`` 16)."""

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from crdtstream.core.clock import covers
from tests.conftest import examples
from tests.harness.regions import Node
from tests.rules.test_convergence import AT, Regions


class Merges(Regions):
    """As ``Regions``, where regions also take over each other's states.

    Whatever came by effects and whatever by a state: equal version vectors, equal digests, and
    what the model says of the effects.
    """

    @rule(at=AT, source=AT)
    def merge(self, at: int, source: int) -> None:
        if at != source:
            self.nodes[at].merge(self.nodes[source])
            self.note_issued(self.nodes[source])
            self.check(self.nodes[at])

    def take_next(self, node: Node, source: Node) -> bool:
        """What a region that recovers cannot have from a log, it takes over with a state."""
        if super().take_next(node, source):
            return True
        if covers(node.replica.vv, source.replica.vv):
            return False
        node.merge(source)
        return True


TestMerges = pytest.mark.timeout(900)(Merges.TestCase)
TestMerges.settings = settings(max_examples=examples(250), stateful_step_count=30, deadline=None)
