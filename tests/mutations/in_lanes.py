"""Planted bugs of macro nodes that come and go between memory and disk."""

from typing import Final

from tests.mutations.mutation import Mutation

COMPACTION = "tests/core/test_compaction.py::"

LANES: Final[tuple[Mutation, ...]] = (
    Mutation(
        "append-into-a-node-that-a-cut-needs",
        "crdtstream/core/lanes/lane.py",
        "            or node.open_in != limits.changes.cut_number\n",
        "",
        (COMPACTION + "test_nothing_is_appended_to_a_merged_node",),
        "a checkpoint has entries that came after its cut",
    ),
    Mutation(
        "a-look-up-goes-on-from-a-node-that-is-gone",
        "crdtstream/core/lanes/chain.py",
        "        if self._near is node:\n            self._near = None\n",
        "",
        ("tests/core/test_lane.py::test_a_look_up_does_not_end_in_a_node_that_went",),
        "an entry is not found, or found where it no longer is",
    ),
)
