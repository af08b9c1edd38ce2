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
        "            or node.open_in != limits.changes.epoch\n",
        "",
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
        "a-look-up-goes-on-from-a-node-that-is-gone",
        "crdtstream/core/lanes/chain.py",
        "        if self._near is node:\n            self._near = None\n",
        "",
        ("tests/core/test_lane.py::test_a_look_up_does_not_end_in_a_node_that_went",),
        "an entry is not found, or found where it no longer is",
    ),
    Mutation(
        "neighbours-are-removed-whatever-was-observed",
        "crdtstream/core/lanes/lane.py",
        "stop = max(index, min(stop, node.index_above(n_max)))",
        "pass",
        ("tests/core/test_lane.py::TestLane::runTest",),
        "a DELREF trim takes an entry that was appended again meanwhile",
    ),
    Mutation(
        "a-changed-node-leaves-memory",
        "crdtstream/core/lanes/residency.py",
        "        node.is_encoded = False\n        self._warm.pop(node, None)\n",
        "        node.is_encoded = False\n",
        (NODES + "test_a_node_that_changed_stays_until_it_is_written_again",),
        "an entry that was deleted is back when its macro node is read again",
    ),
    Mutation(
        "a-node-that-was-taken-over-leaves-memory-while-it-is-encoded",
        "crdtstream/core/lanes/residency.py",
        "        self._warm.pop(node, None)\n\n    def forget",
        "        pass\n\n    def forget",
        (NODES + "test_a_node_that_was_taken_over_stays_from_its_encoding_to_its_image",),
        "a macro node is nowhere: its staging went before its image could be read",
    ),
    Mutation(
        "nodes-on-disk-that-share-a-block",
        "crdtstream/core/lanes/reading.py",
        "        if joined and block_of(first_n) != last_block:\n",
        "        if joined:\n",
        (COLD,),
        "I1: the digest depends on where macro nodes begin",
    ),
    Mutation(
        "compaction-goes-on-while-writers-do",
        "crdtstream/core/lanes/compaction.py",
        "self._left = len(limits.small)\n",
        "self._left = 1 << 60\n",
        (COMPACTION + "test_a_round_ends_though_writers_are_quicker",),
        "while writers are quicker no checkpoint is cut, and a restart reads all they wrote",
    ),
    Mutation(
        "compaction-loses-arrivals-before-a-piece",
        "crdtstream/core/lanes/compaction.py",
        "    low = bisect_right(arrived, first_n) - 1 if start else 0\n",
        "    low = bisect_right(arrived, first_n - 1) if start else 0\n",
        (COMPACTION + "test_entries_keep_when_they_came",),
        "I17: an XREAD that may skip nothing takes late entries for early ones",
    ),
    Mutation(
        "compaction-takes-the-arrival-of-the-node-before",
        "crdtstream/core/lanes/compaction.py",
        "columns.arrivals[2 * (arrivals[-1:] == columns.arrivals[1:2]) :]",
        "columns.arrivals[2 * bool(arrivals) :]",
        (COMPACTION + "test_entries_keep_when_they_came",),
        "I17: an XREAD that may skip nothing takes late entries for early ones",
    ),
    Mutation(
        "compaction-loses-the-highest-removed-id",
        "crdtstream/core/lanes/compaction.py",
        "    merged[-1].highest_removed_id = last.highest_removed_id\n",
        "",
        (COMPACTION + "test_a_merged_node_reaches_as_far_as_its_last_one_did",),
        "I5: an ID below one that was there comes into a lane",
    ),
    Mutation(
        "compaction-forgets-what-producers-call-entries",
        "crdtstream/core/lanes/compaction.py",
        "        idempotent |= columns.idempotent or {}\n",
        "",
        (COMPACTION + "test_entries_keep_what_their_producers_call_them",),
        "rule 20: after a restart, two regions no longer take retries of one message for one entry",
    ),
    Mutation(
        "compaction-forgets-rows-at-a-seam",
        "crdtstream/core/lanes/columns.py",
        "first.behind(begin - run_n)",
        "first",
        (COMPACTION + "test_entries_keep_what_their_producers_call_them",),
        "rows of a numbered producer are called by the names of others",
    ),
    Mutation(
        "compaction-reads-what-is-on-disk-only",
        "crdtstream/core/lanes/compaction.py",
        "        node.counted_as in (State.WARM, State.PACKED)\n        and node.is_closed\n",
        "        node.is_closed\n",
        (COMPACTION + "test_small_nodes_on_disk_only_are_not_compacted",),
        "a checkpoint reads small nodes from disk, and the node ends",
    ),
)
