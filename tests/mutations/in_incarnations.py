"""Planted bugs in what is known of the incarnations of a region."""

from typing import Final

from tests.mutations.mutation import Mutation

VALUE: Final = "crdtstream/core/incarnations.py"
TESTS: Final = "tests/core/test_incarnations.py::"

INCARNATIONS: Final = (
    Mutation(
        "a-bid-may-end-effects-that-are-here",
        VALUE,
        "    if n > bid.after_n or (highest",
        "    if (highest",
        (TESTS + "test_a_bid_is_granted_to_one_folder_and_ends_nothing_that_is_here",),
        "rule 18: a member holds effects whose numbers are given again",
    ),
    Mutation(
        "a-rival-s-bid-is-granted",
        VALUE,
        "bid.number <= highest.number):\n        return None",
        "bid.number < highest.number):\n        return None",
        (TESTS + "test_a_bid_is_granted_to_one_folder_and_ends_nothing_that_is_here",),
        "rule 18: two folders begin the same incarnation",
    ),
    Mutation(
        "a-newer-lineage-stands-whatever-it-ends",
        VALUE,
        "        if count is not None and n > count:\n            raise",
        "        if count is not None and n > count + 1000:\n            raise",
        (TESTS + "test_the_newer_lineage_stands_if_it_ends_nothing_that_is_here",),
        "rule 18: histories that differ are merged",
    ),
    Mutation(
        "only-the-next-incarnation-ends-effects",
        VALUE,
        "        return min(later, default=None)\n",
        "        return next(iter(later), None)\n",
        (TESTS + "test_of_an_incarnation_counts_what_no_later_one_ended[0-3]",),
        "rule 18: a token of lost effects is taken for good",
    ),
    Mutation(
        "an-unheard-incarnation-is-a-known-one",
        VALUE,
        "        if number > lineages.get(region, NO_LINEAGE).number\n",
        "        if number > lineages.get(region, NO_LINEAGE).number + 1000\n",
        (
            TESTS
            + "test_a_token_of_effects_that_ended_is_lost_and_one_of_an_unheard_incarnation_waits",
        ),
        "rule 18: WAITFOR says yes for effects of another folder",
    ),
)
