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
STABILITY_TESTS: Final = "tests/core/test_stability.py::"

INCARNATIONS: Final = (
    Mutation(
        "only-letters-grant-a-bid",
        NUMBERING,
        "        self.bidding.note_known(peer, said.lineages.get(self._here, NO_LINEAGE).bid)\n",
        "",
        (REGION_TESTS + "test_a_peer_whose_answers_are_lost_grants_a_bid_as_a_link_opens",),
        "a region whose peer cannot reach it takes no writes for good",
    ),
    Mutation(
        "a-silent-peer-is-not-asked-by-a-link",
        BIDDING,
        "            if peer in self._sent_to:\n",
        "            if False:\n",
        (REGION_TESTS + "test_a_peer_whose_answers_are_lost_grants_a_bid_as_a_link_opens",),
        "a link that is up stays so, and nobody hears that the bid is granted",
    ),
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
    Mutation(
        "a-bid-is-told-to-nobody-else",
        NUMBERING,
        "        return encode_incarnations(replace(self.known, successor=None))\n",
        "        own = {self._here: self._lineage_of(self._here)}\n"
        "        return encode_incarnations(replace(self.known, successor=None, lineages=own))\n",
        (
            REGION_TESTS + "test_v14_a_newcomer_hears_in_which_folder_a_region_goes_on",
            REGION_TESTS + "test_v14_a_member_that_was_put_back_hears_it_from_any_other[the bid]",
        ),
        "V14: a newcomer takes the effects of the old folder",
    ),
    Mutation(
        "a-grant-is-of-all-runs-of-a-node",
        BIDDING,
        "            self._runs[peer] = run_id\n            self._granted_by.discard(peer)\n",
        "            self._runs[peer] = run_id\n",
        (REGION_TESTS + "test_v15_a_member_that_was_put_back_since_is_asked_again",),
        "V15: a member that forgot the grant takes the old folder's effects",
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
        "any-recovering-folder-is-taken-for-the-region-at-once",
        NUMBERING,
        "        if recovers:\n            self._recovering_runs[peer] = run_id\n",
        "        if recovers:\n            self._recovering_runs[peer] = run_id\n"
        "            after_n = self._replica.vv.get(peer, 0)\n"
        "            asked = Begin(run_id + 2000, bytes(16), after_n)\n"
        "            self._keep_lineage(peer, self._lineage_of(peer).with_bid(asked))\n",
        (REGION_TESTS + "test_v16_a_copy_that_not_all_answer_leaves_nothing_behind",),
        "V16: a copy that is started by accident locks the region out",
    ),
    Mutation(
        "a-bid-is-answered-before-the-folder-has-it",
        NUMBERING,
        "        self._share.send([answer])\n",
        "        self._tick.send([answer])\n",
        (REGION_TESTS + "test_a_bid_is_answered_once_the_folder_has_it",),
        "rule 18: a member that loses power has granted what it does not know",
    ),
    Mutation(
        "a-change-of-incarnations-is-not-looked-for",
        NUMBERING,
        "        self._share.note_changed()\n",
        "        self._share.wanted += 1\n        self._tick.open()\n",
        ("tests/sim/test_histories.py::test_mended_histories_do_not_fail_again",),
        "rule 18: the folder never gets what was heard, and the region applies nothing any more",
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
        "an-earlier-folder-is-heard",
        NUMBERING,
        "        if recovers or highest is None or not _is_below(own, highest):\n"
        "            return None\n",
        "        if recovers or highest is None or not _is_below(own, highest) or True:\n"
        "            return None\n",
        (REGION_TESTS + "test_v14_a_newcomer_hears_in_which_folder_a_region_goes_on",),
        "rule 18: 1:6 stands for two things",
    ),
    Mutation(
        "an-earlier-folder-forgets-that-it-is-one",
        NUMBERING,
        "        self._keep(replace(self._newest, successor=successor))\n",
        "",
        (REGION_TESTS + "test_an_earlier_folder_hears_so_at_its_first_link_and_keeps_that",),
        "rule 18: an earlier folder takes writes again at its next start",
    ),
    Mutation(
        "effects-behind-a-bid-are-taken",
        NUMBERING,
        "lineage.bid is not None and n > lineage.bid.after_n",
        "lineage.bid is not None and n > lineage.bid.after_n + 1000",
        (REGION_TESTS + "test_effects_behind_a_bid_wait_until_it_has_begun",),
        "rule 18: a member has effects that the bid that it granted ends",
    ),
    Mutation(
        "who-relays-does-not-hear-that-it-has-begun",
        NUMBERING,
        "            has_begun = lineage.begins != past.begins\n",
        "            has_begun = lineage.highest != past.highest\n",
        (REGION_TESTS + "test_effects_behind_a_bid_wait_until_it_has_begun",),
        "rule 18: effects are relayed to who does not know their incarnation",
    ),
    Mutation(
        "tokens-name-no-incarnation",
        "crdtstream/core/replica.py",
        "        return {region: one.number for region, one in marked.items() if one.number}\n",
        "        return {region: one.number for region, one in marked.items() if one.number < 0}\n",
        (NAMED_TESTS + "test_effects_of_an_earlier_folder_are_lost[CRDT.TOKEN-1:4@2000]",),
        "rule 18: a token of lost effects is taken for good",
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
        "a-cursor-of-an-unknown-incarnation-is-read-on",
        "crdtstream/commands/beyond_redis/cursor.py",
        "    if replica.are_unheard(cursor.vv, cursor.numbers):\n",
        "    if replica.are_unheard(cursor.vv, cursor.numbers) and not cursor:\n",
        (NAMED_TESTS + "test_a_cursor_of_an_unknown_incarnation_stays_as_it_is",),
        "rule 18: a reader skips or repeats effects of another folder",
    ),
    Mutation(
        "a-lost-mark-of-a-token-is-passed-over",
        "crdtstream/commands/beyond_redis/version_vectors.py",
        "        if n and number:\n            numbers[region] = number\n",
        "        if n and number < 0:\n            numbers[region] = number\n",
        (NAMED_TESTS + "test_an_incarnation_that_is_not_known_here_is_waited_for",),
        "rule 18: WAITFOR says yes for effects of another folder",
    ),
    Mutation(
        "a-folder-begins-without-asking",
        BIDDING,
        "        return self.bid is not None and not self._asked\n",
        "        return self.bid is not None\n",
        (REGION_TESTS + "test_an_incarnation_begins_when_all_have_granted_it",),
        "I22: both folders of a region number effects, and nobody knows which one is the region",
    ),
    Mutation(
        "an-earlier-folder-takes-writes",
        NUMBERING,
        "        return self._told_own(successor, is_over=False)\n",
        "        return None\n",
        (
            OF_FOLDERS + "[1]",
            REGION_TESTS + "test_an_earlier_folder_hears_so_at_its_first_link_and_keeps_that",
        ),
        "I22: clients write into a folder that has no links, for good",
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
        "what-a-region-said-before-it-began-anew-counts",
        "crdtstream/core/stability.py",
        "            if region in ends:\n                heard.counted",
        "            if False:\n                heard.counted",
        (STABILITY_TESTS + "test_a_member_that_numbers_effects_anew_has_to_say_again_what_it_has",),
        "rule 3: effects of a new incarnation are taken for later than all that an earlier one had",
    ),
    Mutation(
        "what-others-had-of-ended-effects-counts-for-new-ones",
        "crdtstream/core/stability.py",
        "                heard.counted = capped(heard.counted, ends)\n"
        "                heard.waiting = capped(heard.waiting, ends)\n"
        "                heard.newest = capped(heard.newest, ends)\n",
        "                pass\n",
        (
            STABILITY_TESTS
            + "test_version_vectors_over_ended_effects_do_not_count_for_their_successors",
        ),
        "rule 3: a tombstone goes before a region has it that may issue a concurrent create",
    ),
    Mutation(
        "an-added-member-s-floor-goes-with-its-folder",
        "crdtstream/core/stability.py",
        "heard.newest = floor\n",
        "heard.newest = {}\n",
        (
            STABILITY_TESTS
            + "test_effects_observed_by_all_of_a_member_stay_so_in_its_next_incarnation",
        ),
        "a region that lost its folder while it joined holds tombstones back",
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
    Mutation(
        "wait-counts-who-had-what-ended",
        "crdtstream/region/knowledge.py",
        "                vvs[region] = capped(vv, ends)\n",
        "                vvs[region] = vv\n",
        (WORD_TESTS + "test_version_vectors_do_not_cover_effects_that_reuse_ended_numbers",),
        "WAIT counts regions that lack the write",
    ),
    Mutation(
        "the-log-is-cut-of-what-others-had-before-it-ended",
        "crdtstream/region/retention.py",
        "member.durable_vv = dict(capped(member.durable_vv, ends))\n",
        "member.durable_vv = dict(member.durable_vv)\n",
        (WORD_TESTS + "test_version_vectors_do_not_cover_effects_that_reuse_ended_numbers",),
        "I19: a log is cut of effects that another region lacks",
    ),
    Mutation(
        "a-region-lags-for-want-of-effects-that-ended",
        "crdtstream/region/freshness.py",
        "heard.ahead = deque(one._replace(vv=capped(one.vv, ends)) for one in heard.ahead)\n",
        "pass\n",
        (WORD_TESTS + "test_nothing_lacks_for_want_of_effects_that_ended",),
        "health pages say no to a region that lacks nothing",
    ),
    Mutation(
        "a-region-that-starts-waits-for-effects-that-ended",
        "crdtstream/region/catching_up.py",
        "self._answers[peer] = replace(answer, vv=capped(answer.vv, ends))\n",
        "pass\n",
        (WORD_TESTS + "test_a_region_that_starts_does_not_wait_for_effects_that_ended",),
        "a region refuses writes for want of what nobody has",
    ),
    Mutation(
        "words-of-before-count-if-they-come-late",
        "crdtstream/region/links/words.py",
        "        return None if region in self._ends else capped(durable_vv, self._ends)\n",
        "        return durable_vv\n",
        (
            WORD_TESTS + "test_words_of_before_that_come_late_by_a_link_to_a_peer_do_not_count",
            WORD_TESTS + "test_words_of_before_that_come_late_by_a_link_of_a_peer_do_not_count",
        ),
        "rule 3: a tombstone goes before a region has it that may issue a concurrent create",
    ),
    Mutation(
        "only-links-that-relay-begin-again",
        "crdtstream/region/links/links.py",
        "            if peer == origin or has_begun:\n",
        "            if peer == origin or (has_begun and origin in pull.origins):\n",
        (WORD_TESTS + "test_words_of_before_that_come_late_by_a_link_to_a_peer_do_not_count",),
        "what others have of a new incarnation is not counted for as long as a link stays up",
    ),
)
