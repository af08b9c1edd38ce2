"""Planted bugs in what happens when peers come, move and go while a region runs."""

from typing import Final

from tests.mutations.mutation import Mutation

RETENTION: Final = "crdtstream/region/retention.py"
LINKS: Final = "crdtstream/region/links/links.py"
CHANGING: Final = "tests/region/test_changing_peers.py::"
LIVE: Final = "tests/replication/test_changing_peers.py::"

PEERS: Final = (
    # --- Addresses ---
    # --- Who follows a change ---
    # --- What they count for ---
    # --- The log ---
    Mutation(
        "a-removed-peer-still-pins-the-log",
        RETENTION,
        "        for number in change.removed:\n            del self._members[number]\n",
        "",
        (
            CHANGING + "test_the_log_is_not_kept_for_a_peer_that_is_removed",
            LIVE + "test_a_dead_region_that_is_removed_is_waited_for_by_nothing",
        ),
        "the log grows up to the backlog's bounds for a region that never comes back",
    ),
    # --- Starting ---
    # --- Links ---
    Mutation(
        "a-removed-peer-is-still-served",
        LINKS,
        "            if serve is not None:\n                serve.end()\n            for pull",
        "            for pull",
        (CHANGING + "test_links_with_a_peer_that_is_removed_end_at_once",),
        "a removed region goes on as if it belonged to the database",
    ),
    Mutation(
        "what-others-relayed-of-a-removed-peer-stays",
        LINKS,
        "                if peer in pull.origins:\n                    pull.reopen()\n",
        "                pass\n",
        (CHANGING + "test_unapplied_batches_relayed_for_a_removed_peer_are_dropped",),
        "rule 4: a held batch beyond the cut is applied later, at one region",
    ),
)
