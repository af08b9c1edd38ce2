"""Planted bugs in contexts, batches, lanes, removing, registers, producers and the digest."""

from typing import Final

from tests.mutations.mutation import Mutation

RULES: Final = "tests/rules/test_rules.py::"
FRONTIER: Final = "tests/rules/test_frontier.py::"
DIGEST: Final = "tests/rules/test_digest.py::test_the_digest_sees_every_replicated_fact"
INBOX: Final = "tests/core/test_inbox.py::"
LANE: Final = "tests/core/test_lane_bounds.py::"

CORE: Final = (
    # --- Found by assertions ---
    Mutation(
        "a-deleted-key-stays-in-the-order-of-keys",
        "crdtstream/core/keyspace/keyspace.py",
        "            if key not in self.strings:\n                self._order.remove(key)\n",
        "            if key in self.strings:\n                self._order.remove(key)\n",
        (RULES + "test_delete_and_create_in_one_transaction_leave_the_group_everywhere",),
        "SCAN returns keys that are gone, and DBSIZE counts them",
    ),
    Mutation(
        "a-delete-spares-the-groups-of-its-key",
        "crdtstream/core/applying/apply_effect.py",
        "        if stream.groups:\n            stream.drop_groups()\n",
        "",
        (RULES + "test_a_transaction_is_one_batch",),
        "a group lives on after DEL",
    ),
    # --- Contexts and batches: rules 1 and 2 ---
    Mutation(
        "context-covers-one-less",
        "crdtstream/core/clock.py",
        "return vv.get(dot.region, 0) >= dot.n",
        "return vv.get(dot.region, 0) > dot.n",
        (FRONTIER + "test_frontier_is_sent_as_in_the_reference_table",),
        "what was observed last counts as not observed",
    ),
    Mutation(
        "known-batch-applied-again",
        "crdtstream/core/replica.py",
        "return batch.last_n <= self.vv.get(batch.origin, 0)",
        "return batch.last_n < self.vv.get(batch.origin, 0)",
        (RULES + "test_a_batch_that_is_known_already_changes_nothing",),
        "I4: a batch that came by two links is applied twice",
    ),
    Mutation(
        "inbox-hands-out-what-must-wait",
        "crdtstream/core/inbox.py",
        "            elif self._replica.ready(found[0]):",
        "            else:",
        (INBOX + "test_a_remove_waits_for_what_its_issuer_had_observed",),
        "rule 2: a batch that has to wait is lost until the link opens again",
    ),
    # --- Delete-wins: tombstones ---
    # --- Stability: rule 3 ---
    # --- Observed-remove ---
    Mutation(
        "remove-by-id-alone",
        "crdtstream/core/lanes/lane.py",
        "        if n > n_max:\n            return 0\n",
        "",
        (RULES + "test_xdel_spares_an_entry_that_was_added_again_under_the_same_id",),
        "an ID alone names entries that were not observed",
    ),
    # --- Keys, last IDs and registers: rules 5 to 8 ---
    # --- Lanes ---
    Mutation(
        "node-takes-one-too-many",
        "crdtstream/core/lanes/lane.py",
        "node.added >= limits.entries_max > 0",
        "node.added > limits.entries_max > 0",
        (LANE + "test_nodes_are_full_and_no_fuller",),
        "macro nodes split one entry later than stream-node-max-entries says",
    ),
    # --- Idempotent producers: rule 20 ---
    # --- Bytes, and what comes from outside ---
    # --- The digest: rule 22 ---
    Mutation(
        "digest-without-dot-number",
        "crdtstream/core/lanes/blocks.py",
        "                ns[8 * at : 8 * stop],\n",
        "",
        (DIGEST + "[an entry's dot number]",),
        "an entry under the wrong dot goes unnoticed",
    ),
)
