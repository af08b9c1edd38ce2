"""Planted bugs in how a damaged key is replaced."""

from typing import Final

from tests.mutations.mutation import Mutation

REPAIRING: Final = "crdtstream/core/merge/repairing.py"
GROUP: Final = "crdtstream/core/groups/group.py"
REGION: Final = "crdtstream/region/repair.py"
SHELL: Final = "crdtstream/engine/repairer.py"
BOOTSTRAPPER: Final = "crdtstream/engine/bootstrapper.py"
SERVER: Final = "crdtstream/replication/bootstrap_server.py"
OF_REPAIR: Final = "tests/rules/test_repair.py::"
OF_SHELL: Final = "tests/region/test_repairer.py::"
OF_COPIES: Final = "tests/replication/test_bootstraps.py::"

REPAIRS: Final = (
    Mutation(
        "a-repair-keeps-the-damaged-lane",
        REPAIRING,
        "        stream.replace_last_ids({})\n",
        "",
        (OF_REPAIR + "test_a_damaged_key_becomes_that_of_the_other_region",),
        "a last ID that is too high stays: regions differ for good",
    ),
    Mutation(
        "a-repair-forgets-what-is-pending",
        REPAIRING,
        "    if group is not None and not any(dot in creates for dot in group.creates):\n",
        "    if group is not None:\n",
        (OF_REPAIR + "test_an_entry_that_was_not_here_is_handed_out",),
        "all entries of a group are delivered again, and its consumers are gone",
    ),
    Mutation(
        "a-repair-does-not-hand-out-what-was-missing",
        REPAIRING,
        "                if not are_alike(here, there):\n",
        "                if False:\n",
        (OF_REPAIR + "test_an_entry_that_was_not_here_is_handed_out",),
        "an entry that this region lacked is delivered to nobody",
    ),
    Mutation(
        "a-repair-believes-in-wrong-acknowledgements",
        GROUP,
        "            for low, high in sorted([*skipped, *unread.get(region, ())]):\n",
        "            for low, high in sorted(unread.get(region, ())):\n",
        (OF_REPAIR + "test_entries_wrongly_taken_for_acknowledged_are_delivered_after_a_repair",),
        "entries that nobody acknowledged are delivered to nobody",
    ),
    Mutation(
        "a-repair-keeps-what-others-acknowledged-pending",
        GROUP,
        "                for fresh in of_lane.missing(low, high):\n",
        "                for fresh in of_lane.missing(low, low):\n",
        (OF_REPAIR + "test_entries_acknowledged_in_the_other_region_are_pending_no_more",),
        "what another region has acknowledged is claimed and processed here once more",
    ),
    Mutation(
        "what-cannot-be-read-is-sound",
        REPAIRING,
        "            unreadable = unreadable or _unreadable(node, self._state.residency)\n",
        "",
        (OF_REPAIR + "test_entries_that_are_not_what_was_written_are_damage",),
        "a disk that lost entries whose heads are sound is told to be sound",
    ),
    Mutation(
        "a-repair-applies-what-is-beyond-the-copy",
        REGION,
        "        return batch.last_n > self._upto.get(batch.origin, 0)\n",
        "        return False\n",
        (OF_SHELL + "test_nothing_beyond_the_aim_is_applied",),
        "two regions are compared at different vectors: effects on their way are called damage, and"
        " are lost by the repair",
    ),
    Mutation(
        "a-staged-key-is-merged-as-a-whole-state",
        BOOTSTRAPPER,
        "        if cut.key is not None:\n",
        "        if False:\n",
        (OF_SHELL + "test_a_staged_key_is_never_merged_as_a_state",),
        "all other keys of the region count as deleted elsewhere, and go",
    ),
    Mutation(
        "a-copy-of-a-key-goes-on-as-one-of-the-state",
        SERVER,
        "        if resume is not None and copy is not None and copy.key != asked.key:\n",
        "        if False:\n",
        (OF_COPIES + "test_a_copy_of_a_key_is_not_gone_on_with_as_one_of_the_state",),
        "a region takes one key for the whole state of another one",
    ),
    Mutation(
        "a-key-is-sent-of-a-checkpoint-that-lacks-effects",
        SERVER,
        "        return covers(vv, asked.vv)\n",
        "        return True\n",
        (OF_COPIES + "test_a_key_is_sent_of_a_checkpoint_with_all_that_the_region_has",),
        "own effects that only the damaged region has are lost by the repair",
    ),
)
