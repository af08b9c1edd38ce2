"""Planted bugs in how two states are made one."""

from typing import Final

from tests.mutations.mutation import Mutation

SLICES: Final = "crdtstream/core/merge/merging.py"
ALIKE: Final = "crdtstream/core/merge/alike.py"
LANES: Final = "crdtstream/core/merge/lanes.py"
GROUP: Final = "crdtstream/core/groups/group.py"
PRODUCERS: Final = "crdtstream/core/merge/producers.py"

OF_ENTRIES: Final = "tests/rules/test_merge_entries.py::"
OF_GROUPS: Final = "tests/rules/test_merge_groups.py::"
OF_PRODUCERS: Final = "tests/rules/test_merge_producers.py::"
OF_SLICES: Final = "tests/rules/test_merge_slices.py::"

MERGING: Final = (
    # --- Entries ----------------------------------------------------------------------------------
    Mutation(
        "merge-takes-equal-counts-for-equal-entries",
        LANES,
        "        and sum(node.own_digest() for node in here) & DIGEST_MASK\n"
        "        == sum(header.digest for header in headers) & DIGEST_MASK\n",
        "",
        (OF_ENTRIES + "test_entries_removed_in_either_state_are_gone_after_a_merge",),
        "I1: each side removed another entry, and both live on",
    ),
    Mutation(
        "deadlines-of-strings-are-taken-for-alike",
        ALIKE,
        "    return _has_dots(mine, theirs, both) and all(\n",
        "    return _has_dots(mine, theirs, both) or all(\n",
        (OF_SLICES + "test_a_string_or_a_deadline_that_differs_is_merged",),
        "I1: a string that was changed elsewhere stays as it was in a region that was bootstrapped",
    ),
    # --- Keys -------------------------------------------------------------------------------------
    # --- Groups -----------------------------------------------------------------------------------
    Mutation(
        "merge-does-not-go-back",
        GROUP,
        "            if self.start_of(region) < start:\n"
        "                self.reading.go_back(region, self.start_of(region))\n"
        "        known = ",
        "            pass\n        known = ",
        (OF_GROUPS + "test_of_creates_of_both_sides_the_lowest_start_counts",),
        "I9: entries before the higher of two starts are never delivered (C5)",
    ),
    Mutation(
        "merge-keeps-pending-what-was-acknowledged",
        GROUP,
        "            for low, high in fresh:\n"
        "                self.pel.drop_within(region, low, high, keep={})\n"
        "            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)\n",
        "            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)\n",
        (OF_GROUPS + "test_entries_acknowledged_in_the_merged_state_are_pending_no_more",),
        "what another region acknowledged is claimed and processed again",
    ),
    # --- Producers --------------------------------------------------------------------------------
    Mutation(
        "merge-collapses-what-had-observed-the-other",
        PRODUCERS,
        "        if both.is_new_there(dot):\n"
        "            mine.setdefault(name, {})[dot] = entry_id\n"
        "        elif",
        "        mine.setdefault(name, {})[dot] = entry_id\n        if both.is_new_there(dot):\n"
        "            pass\n        elif",
        (OF_PRODUCERS + "test_an_append_that_had_observed_the_other_stays",),
        "rule 20: a new message is taken for a retry, and lost",
    ),
    Mutation(
        "merge-keeps-records-that-are-stable-elsewhere",
        PRODUCERS,
        "        elif dot not in kept:\n            records.forget(key, name, dot)\n",
        "",
        (OF_PRODUCERS + "test_a_record_that_the_other_forgot_as_stable_names_nothing_deleted",),
        "a retry is answered with an entry that was deleted with its key: the message is lost",
    ),
    # --- Macro nodes that were taken over ---------------------------------------------------------
    # --- Slices -----------------------------------------------------------------------------------
    Mutation(
        "a-slice-skips-a-key",
        SLICES,
        "            for _ in range(SLICE_KEYS.value):\n",
        "            next(self._steps, None)\n            for _ in range(SLICE_KEYS.value):\n",
        (OF_SLICES + "test_a_slice_looks_at_no_more_keys_than_its_size",),
        "I1: a region that was bootstrapped lacks keys that all others have",
    ),
    Mutation(
        "merge-reads-what-was-trimmed",
        LANES,
        "        _find_all_gone(lane, start, header.first_n, gone)\n",
        "        for one in lane.nodes_within(Within(0, header.first_n)):\n"
        "            one.warm()\n"
        "        _find_all_gone(lane, start, header.first_n, gone)\n",
        (OF_SLICES + "test_nodes_trimmed_elsewhere_are_removed_without_being_read",),
        "a bootstrap takes as much memory as what was trimmed meanwhile",
    ),
    # --- Nonsense of a peer -----------------------------------------------------------------------
)
