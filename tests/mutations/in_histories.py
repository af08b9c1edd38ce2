"""Planted bugs in what tells the copies of a region's folder apart."""

from typing import Final

from tests.mutations.mutation import Mutation

VALUE: Final = "crdtstream/core/histories.py"
COMPARED: Final = "crdtstream/region/histories.py"
REPLICA: Final = "crdtstream/core/replica.py"
TESTS: Final = "tests/core/test_histories.py::"
REGION_TESTS: Final = "tests/region/test_histories.py::"
NAMED_TESTS: Final = "tests/commands/test_named_histories.py::"
OF_FOLDERS: Final = (
    "tests/sim/test_folders.py::test_a_number_stands_for_one_effect_whichever_folder_is_used"
)

HISTORIES: Final = (
    Mutation(
        "histories-are-not-compared",
        COMPARED,
        "        if found is not None:\n            return self.note_apart(peer, found)\n",
        "",
        (
            OF_FOLDERS + "[8]",
            REGION_TESTS + "test_a_peer_that_welcomes_with_effects_of_a_clone_is_refused",
            REGION_TESTS + "test_a_region_with_effects_of_a_copy_is_not_welcomed",
        ),
        "I23: 1:6 is two things in two regions that are linked",
    ),
    Mutation(
        "points-of-what-is-unknown-stay",
        VALUE,
        "                self.set_points(origin, points if is_known else [])\n",
        "                if is_known:\n                    self.set_points(origin, points)\n",
        (TESTS + "test_of_what_is_merged_and_unknown_nothing_is_known_any_more",),
        "a region that took over a state without a history is refused for good",
    ),
    Mutation(
        "tokens-have-no-hash",
        REPLICA,
        "            if point is not None:\n                found[region] = point\n",
        "            if point is None:\n                found[region] = point\n",
        (NAMED_TESTS + "test_a_token_says_of_which_effects_it_is", OF_FOLDERS + "[8]"),
        "I23: a client believes that its write is there, and it is in another copy",
    ),
    Mutation(
        "clones-are-salvaged-under-one-name",
        "crdtstream/upkeep/salvage.py",
        """        clone = "" if self.clone is None else""",
        """        clone = "" if self.clone is not None or True else""",
        ("tests/upkeep/test_removed.py::test_entries_of_several_clones_are_appended_once_each",),
        "of two clones what the second one has is taken for salvaged, and lost",
    ),
)
