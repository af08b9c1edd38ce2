"""Planted bugs in how regions are compared."""

from typing import Final

from tests.mutations.mutation import Mutation

CORE: Final = "crdtstream/core/comparing.py"
ADMIN: Final = "crdtstream/admin/comparing.py"
DIGESTS: Final = "crdtstream/admin/digests.py"
OF_CORE: Final = "tests/core/test_comparing.py::"
OF_VERIFY: Final = "tests/live/test_verify.py::"
OF_WORDS: Final = "tests/cli/test_verify_words.py::"
OF_ADMIN: Final = "tests/admin/test_comparing.py::"

COMPARING: Final = (
    Mutation(
        "one-sample-of-each-proves-a-difference",
        ADMIN,
        "    is_still = all(digests[at] == digests[at % 2] for at in range(len(digests)))\n",
        "    is_still = True\n",
        (
            OF_ADMIN + "test_samples_in_turns_decide",
            OF_ADMIN + "test_effects_on_their_way_are_no_difference",
        ),
        "an effect on its way is called damage, and somebody repairs a sound stream",
    ),
    Mutation(
        "a-sample-does-not-wait-for-what-the-last-one-shows",
        ADMIN,
        "        found = sample(self._sides[region], request, self._vv)\n",
        "        found = sample(self._sides[region], request, {})\n",
        (OF_ADMIN + "test_a_region_that_gets_nothing_is_told",),
        "two regions whose link is down are called different",
    ),
    Mutation(
        "a-block-ends-with-its-macro-node",
        CORE,
        "            return block_of(first_n) == block\n",
        "            return False\n",
        (OF_CORE + "test_a_sum_made_in_steps_is_that_of_the_lane",),
        "two regions whose macro nodes end elsewhere are called different",
    ),
    Mutation(
        "an-interval-that-grew-between-two-steps-counts-twice",
        CORE,
        "            if low > self.end or not self.count:\n",
        "            if True:\n",
        (OF_CORE + "test_intervals_that_grow_meanwhile_sum_up_to_one_state",),
        "a group that is acknowledged while it is compared is undecided for ever",
    ),
    Mutation(
        "acknowledged-of-a-group-that-was-made-again",
        CORE,
        "            if group is None or bytes_of_creates(group) != creates:\n",
        "            if group is None:\n",
        (OF_CORE + "test_a_group_that_is_made_again_is_another_one",),
        "intervals of one group count with the creates of another: no region has had that",
    ),
    Mutation(
        "registers-alone-are-not-compared",
        CORE,
        "            if cursor <= checksum < end:\n",
        "            if cursor < checksum < cursor:\n",
        (OF_CORE + "test_all_keys_are_met_once_by_buckets",),
        "a deadline that one region lacks is not noticed until the key is made again",
    ),
    Mutation(
        "the-size-of-a-lane-is-its-digest",
        CORE,
        "            hasher.update(head + group + one.digest)\n",
        "            hasher.update(head + group)\n",
        (OF_ADMIN + "test_fields_that_differ_are_told",),
        "fields that differ are not noticed as long as no entry is missing",
    ),
    Mutation(
        "a-page-too-many-is-left-out",
        DIGESTS,
        "                page, size = [], 0\n",
        "                return\n",
        (OF_ADMIN + "test_answers_come_in_pages",),
        "of many keys the first page is compared",
    ),
    Mutation(
        "equal-vectors-are-equal-regions",
        "crdtstream/cli/sync.py",
        "            lines = _differences(found, deadline)\n",
        "            lines = []\n",
        (OF_VERIFY + "test_regions_with_equal_vectors_are_not_equal_before_they_are_compared",),
        "an operator is told that regions are equal, and one has other fields",
    ),
    Mutation(
        "a-sound-region-is-to-be-repaired",
        "crdtstream/cli/crdb_verify.py",
        "            yield odd, others[0]\n            return\n",
        "            break\n",
        (OF_WORDS + "test_the_odd_one_out_is_repaired_and_else_both_ways_are_named",),
        "an operator is told to replace what two regions have by what the damaged one has",
    ),
)
