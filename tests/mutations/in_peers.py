"""Planted bugs in what happens when peers come, move and go while a region runs."""

from typing import Final

from tests.mutations.mutation import Mutation

PEERS_FILE: Final = "crdtstream/region/peers.py"
KNOWLEDGE: Final = "crdtstream/region/knowledge.py"
RETENTION: Final = "crdtstream/region/retention.py"
LINKS: Final = "crdtstream/region/links/links.py"
STABILITY: Final = "tests/core/test_stability.py::"
CHANGING: Final = "tests/region/test_changing_peers.py::"
OF_PULL: Final = "tests/region/test_pull.py::"
OF_MEMBERS: Final = "tests/live/test_members.py::"
OF_STRANGERS: Final = "tests/replication/test_strangers.py::"
LIVE: Final = "tests/replication/test_changing_peers.py::"

PEERS: Final = (
    # --- Addresses ---
    Mutation(
        "a-wrong-address-is-decided-untried",
        "crdtstream/admin/members.py",
        "request.update.grpc_address and not request.update.force:",
        "False:",
        (OF_MEMBERS + "test_a_wrong_address_is_refused_and_cuts_nobody_off_if_it_is_forced",),
        "after a typing error nobody reaches a region at its address",
    ),
    Mutation(
        "an-address-of-another-database-is-taken",
        "crdtstream/replication/membership_client.py",
        "if uid and its and its != uid:",
        "if False:",
        (OF_STRANGERS + "test_an_address_is_taken_if_that_region_of_the_database_answers_there",),
        "after a typing error all regions call a node of another database",
    ),
    Mutation(
        "the-former-address-is-forgotten-at-once",
        "crdtstream/region/links/pull.py",
        "self._choices = _choices(address, self._reached)",
        'self._choices = _choices(address, "")',
        (OF_PULL + "test_the_former_address_goes_on_until_the_new_one_answers",),
        "a typing error in an address cuts a region off",
    ),
    Mutation(
        "the-former-address-goes-on-for-good",
        "crdtstream/region/links/pull.py",
        "            self._choices = (self.address,)\n",
        "            pass\n",
        (OF_PULL + "test_the_former_address_goes_on_until_the_new_one_answers",),
        "a region that has moved is looked for at its former address at each outage",
    ),
    Mutation(
        "a-refusal-is-not-followed-by-the-former-address",
        "crdtstream/region/links/pull.py",
        "self._takes_other_choice = True\n        self._end_call()\n        self._feed(event",
        "self._end_call()\n        self._feed(event",
        (OF_PULL + "test_a_refusal_at_one_address_is_followed_by_the_other",),
        "an address of another database cuts a region off",
    ),
    Mutation(
        "a-changed-address-is-the-only-one-after-a-restart",
        "crdtstream/region/known_members.py",
        'former=configured.get(one.region, ""),',
        'former="",',
        (
            OF_PULL
            + "test_after_a_restart_the_file_s_address_goes_on_if_a_changed_one_does_not_answer",
        ),
        "a typing error in an address cuts a region off at the next restart",
    ),
    Mutation(
        "two-addresses-are-logged-in-turns",
        "crdtstream/region/links/pull.py",
        "return before != reason",
        "return True",
        (OF_PULL + "test_each_address_is_logged_once_for_one_reason",),
        "each attempt at a link writes a line to the log",
    ),
    # --- Who follows a change ---
    Mutation(
        "a-part-does-not-follow-the-peers",
        "crdtstream/region/others.py",
        "        self.lags.follow_peers(change)\n",
        "",
        (CHANGING + "test_every_part_that_keeps_something_for_a_peer_follows_a_change",),
        "a region counts itself behind a peer that does not exist any more",
    ),
    Mutation(
        "a-part-of-the-links-does-not-follow-the-peers",
        LINKS,
        "        self._own.claims.follow_peers(change)\n",
        "",
        (CHANGING + "test_every_part_that_keeps_something_for_a_peer_follows_a_change",),
        "a link ends with an error though its peer said what is true",
    ),
    # --- What they count for ---
    Mutation(
        "a-peer-that-is-added-does-not-count-for-stability",
        KNOWLEDGE,
        "        self._stability.count(self._peers.counting, has=self._peers.has)\n",
        "",
        (CHANGING + "test_a_peer_that_is_added_counts_for_stability_at_once",),
        "rule 3: a tombstone is dropped that the new region has not seen",
    ),
    Mutation(
        "a-joining-peer-does-not-count-for-stability",
        PEERS_FILE,
        "self.counting = frozenset(self.addresses) | self.leaving",
        "self.counting = self.active | self.leaving",
        (CHANGING + "test_a_peer_that_is_added_counts_for_stability_at_once",),
        "rule 3: what a region that joins issues meets no tombstone any more",
    ),
    Mutation(
        "a-removed-peer-does-not-count-until-its-cut",
        PEERS_FILE,
        "self.counting = frozenset(self.addresses) | self.leaving",
        "self.counting = frozenset(self.addresses)",
        (CHANGING + "test_a_leaving_peer_counts_for_stability_until_it_is_gone",),
        "rule 3: its last effects, which others bring, meet no tombstone any more",
    ),
    Mutation(
        "what-a-new-peer-says-lowers-what-it-has-observed",
        "crdtstream/core/stability.py",
        "        join(newest, heard.floor)\n",
        "",
        (STABILITY + "test_effects_that_all_effects_of_an_added_member_observed_are_stable",),
        "nothing becomes stable while a region joins, for hours with a large database",
    ),
    Mutation(
        "what-is-told-of-a-removed-peer-counts",
        KNOWLEDGE,
        " or self._peers.is_gone(region):",
        ":",
        (
            CHANGING
            + "test_a_peer_that_is_removed_holds_nothing_back_and_nothing_told_of_it_counts",
        ),
        "regions tell each other of a removed one for ever",
    ),
    Mutation(
        "a-removed-peer-counts-for-wait",
        KNOWLEDGE,
        "sum(peer in active and vv.get(region, 0) >= n for",
        "sum(vv.get(region, 0) >= n for",
        (
            CHANGING + "test_a_peer_that_is_removed_does_not_count_for_wait",
            CHANGING + "test_only_active_peers_count_for_wait",
        ),
        "WAIT answers that a write is in a region that does not exist any more",
    ),
    Mutation(
        "who-waits-is-not-tried-again-when-peers-change",
        "crdtstream/region/region.py",
        "what an activated one has.\n        self.clients.settle_acks(now)\n",
        "what an activated one has.\n",
        (CHANGING + "test_only_active_peers_count_for_wait",),
        "a client waits on although enough regions have its write",
    ),
    Mutation(
        "a-joining-peer-has-what-is-no-copy",
        "crdtstream/region/lag.py",
        "if peer in self._peers.active and (n > self.known_n or is_first):",
        "if n > self.known_n or is_first:",
        (CHANGING + "test_a_joining_peer_reduces_replication_lag_only_once_it_is_active",),
        "I15: more than the bound is lost with this region, as the one that joined was given up",
    ),
    Mutation(
        "what-a-removed-peer-has-does-not-lag",
        "crdtstream/region/lag.py",
        "        self._set_known(self._most_n)\n\n    def _set_known",
        "\n    def _set_known",
        (CHANGING + "test_effects_that_only_a_removed_peer_has_count_as_lag",),
        "I15: effects count as safe that are in this region only",
    ),
    Mutation(
        "a-joining-peer-counts-for-the-majority",
        "crdtstream/region/freshness.py",
        "        active = self._peers.active\n        lags",
        "        active = self._peers.counting\n        lags",
        (CHANGING + "test_the_freshness_is_of_active_peers",),
        "a region is unavailable because one that joins has not started yet",
    ),
    # --- The log ---
    Mutation(
        "a-removed-peer-still-pins-the-log",
        RETENTION,
        "        for number in change.removed:\n            del self._members[number]\n",
        "",
        (
            CHANGING + "test_the_log_is_not_kept_for_a_peer_that_is_removed",
            LIVE + "test_a_dead_region_that_is_removed_is_waited_for_by_nothing",
        ),
        "the log grows up to the backlog's bounds for a region that never comes back",
    ),
    Mutation(
        "the-log-is-not-kept-for-a-peer-that-is-added",
        RETENTION,
        "        for number in change.added:\n",
        "        for number in change.added[:0]:\n",
        (
            CHANGING + "test_the_log_is_kept_for_a_peer_that_is_added",
            LIVE + "test_a_region_that_is_added_to_a_running_pair_replicates_in_both_directions",
        ),
        "a region that joins needs a state again and again",
    ),
    Mutation(
        "an-empty-folder-lowers-what-a-joining-peer-will-have",
        RETENTION,
        "        join(vv, self.floor_vv or {})\n",
        "",
        (CHANGING + "test_a_joining_peer_needs_what_lies_behind_the_state_that_it_begins_with",),
        "the log is cut behind the state that a joining region is sent",
    ),
    Mutation(
        "the-log-is-cut-for-a-copy-that-joins",
        RETENTION,
        "        for number in self._peers.active:\n",
        "        for number in self._members:\n",
        (CHANGING + "test_a_joining_peer_has_no_copy_to_rely_on",),
        "a region that joins is given up, and with it the only other copy",
    ),
    Mutation(
        "a-look-at-the-log-misses-a-new-peer",
        RETENTION,
        "if not lacks.keys() >= self._members.keys():",
        "if not lacks.keys() & self._members.keys():",
        (CHANGING + "test_nothing_is_cut_by_a_look_that_did_not_ask_for_a_new_peer",),
        "a region stops because a peer was added while its log was cut",
    ),
    # --- Starting ---
    Mutation(
        "a-removed-peer-s-answer-counts",
        "crdtstream/region/readiness.py",
        "change.removed:\n            self._answers.pop(peer, None)\n            self._known",
        "change.removed:\n            self._known",
        (CHANGING + "test_a_recovering_region_does_not_wait_for_a_peer_that_is_removed",),
        "a region never takes writes, as it waits for effects that only the removed one has",
    ),
    Mutation(
        "a-joining-peer-is-not-asked-by-who-recovers",
        "crdtstream/region/readiness.py",
        "frozenset(self._peers.addresses.keys() - self._answers.keys())",
        "frozenset(self._peers.active - self._answers.keys())",
        (CHANGING + "test_a_recovering_region_asks_a_joining_peer_too",),
        "rule 18: a dot is used again whose effect only the joining region has",
    ),
    Mutation(
        "a-region-that-starts-waits-for-a-joining-peer",
        "crdtstream/region/catching_up.py",
        "        return self._peers.active.difference(self._answers)\n",
        "        return self._peers.counting.difference(self._answers)\n",
        (CHANGING + "test_a_region_that_starts_does_not_wait_for_a_removed_or_a_joining_peer",),
        "each restart takes longer while another region is being set up",
    ),
    # --- Links ---
    Mutation(
        "a-link-to-the-old-address-survives",
        LINKS,
        "            self.pulls[peer].move(self._peers.addresses[peer], change.now)\n",
        "            self.pulls[peer].address = self._peers.addresses[peer]\n",
        (
            CHANGING + "test_the_link_to_a_peer_that_moves_begins_again_at_the_new_address",
            LIVE + "test_a_link_to_the_old_address_ends_when_its_peer_moves",
        ),
        "a region goes on pulling from a machine that is not its peer any more",
    ),
    Mutation(
        "a-link-that-moves-waits-for-its-pause-to-end",
        "crdtstream/region/links/pull.py",
        "        self._begin_again(now)\n        self._try_now()\n",
        "        self._begin_again(now)\n",
        (CHANGING + "test_the_link_to_a_peer_that_moves_does_not_wait_for_the_pause_to_end",),
        "a corrected address helps only after seconds",
    ),
    Mutation(
        "a-removed-peer-is-still-pulled-from",
        LINKS,
        "            self.pulls.pop(peer).end()\n",
        "            self.pulls.pop(peer)\n",
        (CHANGING + "test_links_with_a_peer_that_is_removed_end_at_once",),
        "effects beyond the cut come in after the removal",
    ),
    Mutation(
        "a-removed-peer-is-still-served",
        LINKS,
        "            if serve is not None:\n                serve.end()\n            for pull",
        "            for pull",
        (CHANGING + "test_links_with_a_peer_that_is_removed_end_at_once",),
        "a removed region goes on as if it belonged to the database",
    ),
    Mutation(
        "what-others-relayed-of-a-removed-peer-stays",
        LINKS,
        "                if peer in pull.origins:\n                    pull.reopen()\n",
        "                pass\n",
        (CHANGING + "test_unapplied_batches_relayed_for_a_removed_peer_are_dropped",),
        "rule 4: a held batch beyond the cut is applied later, at one region",
    ),
    Mutation(
        "nobody-is-asked-for-what-a-removed-peer-left",
        "crdtstream/region/links/routes.py",
        "origins = {peer, *self._peers.leaving}",
        "origins = {peer}",
        (CHANGING + "test_routes_follow_the_peers",),
        "its last acknowledged effects stay in one region, and the others never get them",
    ),
    Mutation(
        "one-peer-of-several-is-taken-for-the-only-one",
        "crdtstream/region/links/claims.py",
        "        if change.added or change.removed:\n",
        "        if change.added and change.removed:\n",
        (CHANGING + "test_one_peer_of_several_may_have_what_was_sent_to_another",),
        "a link ends with an error though its peer said what is true",
    ),
    Mutation(
        "a-state-that-was-copied-before-a-removal-is-merged",
        "crdtstream/region/bootstrap.py",
        "        self.held.add(peer)\n",
        "        del peer\n",
        (
            CHANGING
            + "test_a_state_that_was_copied_before_is_of_no_use_if_it_has_more_of_a_removed_peer",
        ),
        "one region has effects beyond the cut, which no other will ever have",
    ),
    Mutation(
        "a-removed-peer-is-sent-the-state-to-its-end",
        "crdtstream/replication/bootstrap_server.py",
        "if copy.region not in self._engine.region.peers.addresses:",
        "if False:",
        ("tests/replication/test_bootstraps.py::test_a_copy_to_a_peer_that_is_removed_ends",),
        "the log is kept, and the disk is read, for a region that is of no use",
    ),
)
