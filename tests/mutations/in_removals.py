"""Planted bugs in what operators do with a whole database, and with what a removal left behind."""

from typing import Final

from tests.mutations.mutation import Mutation

FLUSHING: Final = "crdtstream/admin/flushing.py"
OF_REMOVED: Final = "tests/upkeep/test_removed.py::"
OF_LOST: Final = "tests/region/test_lost_effects.py::"
OF_FLUSHING: Final = "tests/admin/test_flushing.py::"

REMOVALS: Final = (
    # --- A removed region and its cut -------------------------------------------------------------
    Mutation(
        "a-removed-region-says-yes-to-what-is-lost",
        "crdtstream/commands/beyond_redis/tokens.py",
        "        refuse_lost(replica, token)\n        is_here",
        "        if covers(replica.vv, token.vv):\n            return 1\n"
        "        refuse_lost(replica, token)\n        is_here",
        (OF_LOST + "test_the_removed_region_is_told_what_counts_of_it",),
        "a client takes for safe what no other region has, or will ever have",
    ),
    # --- Salvage and purge ------------------------------------------------------------------------
    Mutation(
        "a-folder-is-purged-under-its-node",
        "crdtstream/upkeep/purge.py",
        "    with locked(folder):\n        # A node may",
        "    if True:\n        # A node may",
        (OF_REMOVED + "test_a_folder_that_is_open_is_not_deleted",),
        "a node that runs loses its folder",
    ),
    # --- A flush ----------------------------------------------------------------------------------
    Mutation(
        "a-flush-takes-one-long-turn",
        FLUSHING,
        "                if turn.is_over():\n                    return\n",
        "",
        (OF_FLUSHING + "test_others_have_their_turn_between_two_slices",),
        "clients wait for each slice of 1,024 keys, however long these take",
    ),
    Mutation(
        "a-flush-waits-for-nobody",
        FLUSHING,
        "            if count < upto\n",
        "            if count > upto\n",
        (OF_FLUSHING + "test_it_says_who_lacks_how_many_effects",),
        "it says that all is deleted everywhere while a region is away",
    ),
    # --- Pages about the database -----------------------------------------------------------------
)
