"""Planted bugs in groups: acknowledged runs, positions, modes and handovers."""

from typing import Final

from tests.mutations.mutation import Mutation

PEL: Final = "tests/core/test_pel.py::"
PROGRESS: Final = "tests/core/test_progress.py::"
RULES: Final = "tests/rules/test_rules.py::"
TAKEOVER: Final = "tests/rules/test_mode_takeover.py::"

GROUPS: Final = (
    # --- Pending entries ---
    Mutation(
        "what-follows-a-claimed-entry-is-claimed-too",
        "crdtstream/core/groups/pel_chunk.py",
        "            if following != values:\n",
        "            if following == values:\n",
        (PEL + "test_a_claimed_entry_s_neighbours_keep_their_owner",),
        "XCLAIM of one entry takes its neighbours",
    ),
    # --- Acknowledged runs: rules 9 to 12 ---
    Mutation(
        "pending-entries-outlive-their-group",
        "crdtstream/core/applying/apply_effect.py",
        "        stream.drop_group(effect.group)\n",
        "        if effect.group in stream.groups:\n"
        "            stream.groups[effect.group].creates = Creates()\n",
        (RULES + "test_a_create_that_observed_the_destroy_makes_a_fresh_group",),
        "rule 12: a group made anew begins with what its forerunner had pending",
    ),
    # --- Modes: rule 13 ---
    Mutation(
        "a-handover-cuts-a-stretch-in-two",
        "crdtstream/core/groups/progress.py",
        "        if handover.last_delivered < handover.ignore_until:\n",
        "        if handover.last_delivered != handover.ignore_until:\n",
        (PROGRESS + "test_a_handover_that_was_not_set_back_leaves_stretches_as_they_are",),
        "a trim with ACKED asks entry by entry, and stretches overlap",
    ),
    # --- Who ends up handing out: rule 13 ---
    Mutation(
        "a-handover-that-loses-tells-nothing",
        "crdtstream/core/groups/takeover.py",
        "                _take_in_handed_out(reading, pel, region, handover)\n"
        "                if wins:\n",
        "                if wins:\n"
        "                    _take_in_handed_out(reading, pel, region, handover)\n",
        (TAKEOVER + "test_a_forced_home_does_not_repeat_deliveries_of_the_old_one",),
        "what is handed out depends on the order in which modes come",
    ),
    Mutation(
        "acked-at-the-old-home-looks-at-itself",
        "crdtstream/core/groups/group.py",
        "        if not self.hands_out(region):\n            return False\n",
        "",
        (TAKEOVER + "test_acked_at_the_old_home_spares_what_the_new_one_has_pending",),
        "a trim with ACKED removes what the new home still owes",
    ),
    # --- What a removed region handed out: rules 4 and 13 ---
)
