"""Planted bugs in what is known of the incarnations of a region."""

from typing import Final

from tests.mutations.mutation import Mutation

VALUE: Final = "crdtstream/core/incarnations.py"
TESTS: Final = "tests/core/test_incarnations.py::"
NUMBERING: Final = "crdtstream/region/numbering.py"
BIDDING: Final = "crdtstream/region/bidding.py"
NAMED_TESTS: Final = "tests/commands/test_named_incarnations.py::"
OF_FOLDERS: Final = (
    "tests/sim/test_folders.py::test_a_number_stands_for_one_effect_whichever_folder_is_used"
)
REGION_TESTS: Final = "tests/region/test_numbering.py::"
WORD_TESTS: Final = "tests/region/test_ended_words.py::"

INCARNATIONS: Final = (
    Mutation(
        "a-rival-s-bid-is-granted",
        VALUE,
        "bid.number <= highest.number):\n        return None",
        "bid.number < highest.number):\n        return None",
        (TESTS + "test_a_bid_is_granted_to_one_folder_and_ends_nothing_that_is_here",),
        "rule 18: two folders begin the same incarnation",
    ),
    Mutation(
        "an-answer-of-an-earlier-run-counts",
        BIDDING,
        "        if self._runs.get(sender) != answer.run_id:\n            return\n",
        "",
        (REGION_TESTS + "test_v15_a_member_that_was_put_back_since_is_asked_again",),
        "V15: a member that forgot the grant takes the old folder's effects",
    ),
    Mutation(
        "a-bid-of-any-run-is-granted",
        NUMBERING,
        "        if self._recovering_runs.get(sender) != letter.run_id:\n            return\n",
        "",
        (REGION_TESTS + "test_a_bid_of_an_earlier_run_that_comes_late_locks_nobody_out",),
        "rule 18: a late letter locks the region out of its own folder",
    ),
    Mutation(
        "waitfor-looks-at-numbers-first",
        "crdtstream/commands/beyond_redis/tokens.py",
        "        refuse_lost(replica, token)\n        is_here",
        "        if not covers(replica.vv, token.vv):\n"
        "            refuse_lost(replica, token)\n        is_here",
        (NAMED_TESTS + "test_effects_of_an_earlier_folder_are_lost",),
        "rule 18: WAITFOR says yes for lost writes",
    ),
    Mutation(
        "what-an-earlier-folder-had-is-not-lost",
        "crdtstream/core/replica.py",
        "        if self.lineages and numbers is not None:\n",
        "        if self.lineages and numbers is None:\n",
        (OF_FOLDERS + "[6]", NAMED_TESTS + "test_effects_of_an_earlier_folder_are_lost"),
        "I22: a client believes that its lost write is there",
    ),
    Mutation(
        "nobody-hears-that-effects-ended",
        NUMBERING,
        "        if ended:\n            self._tick.post(EffectsEnded(ended))\n",
        "",
        (
            WORD_TESTS
            + "test_a_region_that_lost_effects_holds_stability_back_until_it_begins_again",
        ),
        "nothing is stable until a region has issued as many effects again as it lost",
    ),
)
