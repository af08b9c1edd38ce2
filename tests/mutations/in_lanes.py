"""Planted bugs of macro nodes that come and go between memory and disk."""

from typing import Final

from tests.mutations.mutation import Mutation

COLD = "tests/core/test_cold_lane.py::TestColdLane::runTest"
NODES = "tests/core/test_cold_nodes.py::"
COMPACTION = "tests/core/test_compaction.py::"

LANES: Final[tuple[Mutation, ...]] = (
    Mutation(
        "append-into-a-node-that-a-cut-needs",
        "crdtstream/core/lanes/lane.py",
        "node.open_in == limits.changes.epoch",
        "True",
        (COMPACTION + "test_nothing_is_appended_to_a_merged_node",),
        "a checkpoint has entries that came after its cut",
    ),
    Mutation(
        "trim-begins-before-it-has-what-it-needs",
        "crdtstream/core/lanes/lane.py",
        "            cut.warm()\n",
        "            pass\n",
        (NODES + "test_a_trim_that_cuts_a_node_asks_first",),
        "I10: a trim that is refused has removed half",
    ),
    Mutation(
        "a-changed-node-leaves-memory",
        "crdtstream/core/lanes/residency.py",
        "        self._warm.pop(node, None)\n\n    def forget",
        "\n    def forget",
        (NODES + "test_a_node_that_changed_stays_until_it_is_written_again",),
        "an entry that was deleted is back when its macro node is read again",
    ),
    Mutation(
        "nodes-on-disk-that-share-a-block",
        "crdtstream/core/lanes/reading.py",
        "        if joined and block_of(first_n) != last_block:\n",
        "        if joined:\n",
        (COLD,),
        "I1: the digest depends on where macro nodes begin",
    ),
)
