"""Planted bugs in what tells the copies of a region's folder apart."""

from typing import Final

from tests.mutations.mutation import Mutation

VALUE: Final = "crdtstream/core/histories.py"
COMPARED: Final = "crdtstream/region/histories.py"
PULL: Final = "crdtstream/region/links/pull.py"
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
        "who-opens-a-link-is-not-compared",
        "crdtstream/region/links/links.py",
        "                reason = self._own.compared.hear(opening.region, opening.histories)\n",
        "                pass\n",
        (REGION_TESTS + "test_a_region_with_effects_of_a_copy_is_not_welcomed",),
        "I23: a region of which nothing is pulled takes what it has other effects of",
    ),
    Mutation(
        "a-batch-follows-whatever-is-here",
        REPLICA,
        "        check_follows(batch, self.histories)\n",
        "",
        (REGION_TESTS + "test_a_batch_that_follows_another_one_is_not_applied",),
        "I23: effects of two copies of a folder are mixed",
    ),
    Mutation(
        "a-batch-does-not-say-what-it-follows",
        "crdtstream/core/issuing/section.py",
        "            follows = histories.hash_at_end(region, first_n - 1)\n",
        "            follows = histories.hash_at_end(region, first_n)\n",
        (
            TESTS + "test_a_batch_says_which_one_it_follows",
            REGION_TESTS + "test_a_batch_that_follows_another_one_is_not_applied",
        ),
        "I23: a region that is far behind cannot find out, and takes effects of the other copy",
    ),
    Mutation(
        "a-part-of-a-batch-is-waited-for",
        PULL,
        "            if batch.first_n <= known_n < batch.last_n:\n",
        "            if batch.first_n <= known_n < batch.first_n:\n",
        (REGION_TESTS + "test_a_batch_of_which_only_a_part_is_here_is_of_a_copy",),
        "a link stands still for good, and nobody says why",
    ),
    Mutation(
        "heartbeats-are-not-compared",
        PULL,
        "        refusal = own.compared.hear_news(self.peer, progress.histories)\n",
        "        refusal = None\n",
        (
            REGION_TESTS
            + "test_two_regions_that_are_linked_hear_of_two_copies_by_the_next_heartbeat",
        ),
        "I23: two regions that got effects of two copies stay linked",
    ),
    Mutation(
        "a-heartbeat-tells-all-again",
        COMPARED,
        "        told.update(newest)\n",
        "",
        (REGION_TESTS + "test_a_heartbeat_tells_what_is_new",),
        "heartbeats of quiet regions weigh as much as those of busy ones",
    ),
    Mutation(
        "ends-of-batches-are-not-compared",
        VALUE,
        "        or (n not in known and begins[rank_of(hash_)] <= n <= newest_n)\n",
        "        or (n not in known and begins[rank_of(hash_)] <= n < n)\n",
        (TESTS + "test_a_batch_that_ends_elsewhere_is_another_one",),
        "I23: copies that made batches of other sizes are taken for the same",
    ),
    Mutation(
        "what-was-dropped-is-missed",
        VALUE,
        "            if newer[rank] < KEPT:\n                newer[rank] += 1\n",
        "            if newer[rank] < 2 * KEPT:\n                newer[rank] += 1\n",
        (TESTS + "test_one_history_never_parts_from_itself",),
        "a region that is behind is refused for good, though nothing differs",
    ),
    Mutation(
        "only-the-newest-points-are-kept",
        VALUE,
        "            rank = rank_of(hash_)\n            if newer[rank] < KEPT:\n",
        "            rank = rank_of(hash_)\n            if newer[0] < KEPT:\n",
        (TESTS + "test_a_region_that_is_far_behind_has_points_in_common_with_one_that_is_ahead",),
        "I23: a copy is noticed only by regions that have all of it",
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
        "a-state-comes-without-its-history",
        "crdtstream/core/merge/merging.py",
        "        state.histories.take_over(self._sent.histories, state.vv, self.merged.vv)\n",
        "",
        (REGION_TESTS + "test_it_comes_with_a_state_that_is_copied",),
        "I23: a region that was bootstrapped does not know what it has",
    ),
    Mutation(
        "states-of-two-copies-are-merged",
        "crdtstream/core/merge/merging.py",
        "        check_same(state.histories, self._sent.histories)\n",
        "",
        (REGION_TESTS + "test_a_state_of_another_history_is_not_merged",),
        "I23: entries of both copies go, as each side takes them for deleted in the other",
    ),
    Mutation(
        "a-state-of-a-copy-is-tried-again-and-again",
        "crdtstream/engine/bootstrapper.py",
        "            check_same(region.replica.histories, sent_histories(self._staging.root()))\n",
        "",
        (
            "tests/region/test_bootstrapper.py::test_a_state_made_of_effects_of_a_clone_of_a_folder_is_dropped",
        ),
        "the node ends by a merge that cannot be",
    ),
    Mutation(
        "a-start-forgets-histories",
        "crdtstream/core/whole/restoring.py",
        "            state.histories.set_points(origin, points)\n",
        "            pass\n",
        (REGION_TESTS + "test_known_histories_are_kept_in_the_folder",),
        "I23: a restart takes what differs for the same",
    ),
    Mutation(
        "replayed-batches-have-no-hash",
        REPLICA,
        "            self.histories.note(batch.origin, batch.last_n, hash_of(record.batch))\n",
        "",
        (REGION_TESTS + "test_known_histories_are_kept_in_the_folder",),
        "I23: a restart takes what differs for the same",
    ),
    Mutation(
        "writes-go-on-where-nobody-takes-them",
        COMPARED,
        "        if self._alike or not self._apart:\n",
        "        if True:\n",
        (REGION_TESTS + "test_writes_are_refused_if_a_peer_has_others_and_none_has_these",),
        "clients write into a folder that has no links, for good",
    ),
    Mutation(
        "one-peer-that-differs-stops-all-writes",
        COMPARED,
        "        if self._alike or not self._apart:\n",
        "        if not self._apart:\n",
        (REGION_TESTS + "test_writes_are_taken_while_another_peer_has_the_same",),
        "a region that took effects of a clone stops the region for all others",
    ),
    Mutation(
        "a-removed-peer-stops-writes-for-good",
        COMPARED,
        "            self._apart.pop(peer, None)\n            self._alike",
        "            self._alike",
        (REGION_TESTS + "test_a_peer_that_is_removed_is_in_nobody_s_way",),
        "a region takes no writes though all its peers have what it has",
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
        "hashes-of-tokens-are-passed-over",
        "crdtstream/commands/beyond_redis/version_vectors.py",
        "named.vv, named.numbers, named.points)\n    if lost",
        "named.vv, named.numbers)\n    if lost",
        (NAMED_TESTS + "test_tokens_of_a_clone_are_lost_where_the_other_clone_is_known",),
        "I23: a client believes that its write is there, and it is in another copy",
    ),
    Mutation(
        "a-token-tells-of-a-batch-that-is-not-made-yet",
        VALUE,
        "        return Point(line.ns[at], line.hashes[at])\n",
        "        return Point(n, line.hashes[at])\n",
        (NAMED_TESTS + "test_within_a_batch_it_says_so_of_what_was_before",),
        "a client's own write is told to be lost",
    ),
    Mutation(
        "clones-are-salvaged-under-one-name",
        "crdtstream/salvage.py",
        "        if self.clone is not None:\n            folder +=",
        "        if self.clone is None:\n            folder +=",
        ("tests/upkeep/test_removed.py::test_entries_of_several_clones_are_appended_once_each",),
        "of two clones what the second one has is taken for salvaged, and lost",
    ),
    Mutation(
        "what-both-clones-have-is-salvaged",
        "crdtstream/salvage.py",
        "            entries = self._without_common(key, self.clone.apart, entries)\n",
        "            pass\n",
        ("tests/upkeep/test_removed.py::test_of_a_clone_what_both_have_is_not_appended_again",),
        "entries that every region has are there twice",
    ),
    Mutation(
        "who-has-others-and-is-behind-is-sent-more",
        "crdtstream/region/histories.py",
        "        self._tick.post(HistoriesDiffer(peer))\n",
        "",
        (
            REGION_TESTS + "test_the_link_of_a_peer_that_has_others_ends_as_well",
            REGION_TESTS
            + "test_the_link_to_a_peer_that_has_others_begins_again_when_it_opens_its_own",
        ),
        "I23: a region that took a clone's effects gets what was built on those of the other one",
    ),
)
