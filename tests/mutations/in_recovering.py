"""Planted bugs in the way of a region from its start to its first effect, and in whose database."""

from typing import Final

from tests.mutations.mutation import Mutation

LEVEL: Final = "tests/region/test_catching_up.py::"
READY: Final = "tests/region/test_readiness.py::"
RECOVERING: Final = "tests/replication/test_recovering.py::"
OPENING: Final = "tests/store/test_opening.py::"
BEFORE: Final = RECOVERING + "test_what_is_held_unapplied_goes_before_the_answer_can_leave"
NOT_TAKEN: Final = RECOVERING + "test_effects_of_a_peer_that_recovers_are_not_taken"

FOUND: Final = "tests/sim/test_histories.py::test_what_was_found_stays_mended"

RECOVERIES: Final = (
    # --- What a folder proves ---
    Mutation(
        "any-folder-with-the-file-is-the-one",
        "crdtstream/store/sqlite.py",
        "is_same = found is not None and opening == str(found)",
        "is_same = found is not None",
        (OPENING + "test_a_copy_is_not",),
        "rule 18: a copied or restored folder uses dots again",
    ),
    Mutation(
        "the-file-s-time-of-change-does-not-count",
        "crdtstream/store/opening.py",
        'return f"{status.st_ino}:{status.st_ctime_ns}:{log.stat().st_ino}"',
        'return f"{status.st_ino}:{log.stat().st_ino}"',
        (OPENING + "test_a_backup_that_was_put_back_is_not",),
        "rule 18: a backup put back in place uses dots again",
    ),
    Mutation(
        "a-crash-without-fsync-proves",
        "crdtstream/store/sqlite.py",
        "self.is_proven = is_same and (was_clean or was_synced)",
        "self.is_proven = is_same",
        (OPENING + "test_without_fsync_only_a_clean_stop_proves",),
        "rule 18: a power cut without fsync takes back dots that peers have",
    ),
    Mutation(
        "looking-at-a-folder-makes-it-the-one",
        "crdtstream/store/sqlite.py",
        "        if self.is_proven:\n            await self.confirm()\n        else:\n",
        "        await self.confirm()\n        if not self.is_proven:\n",
        (OPENING + "test_a_copy_is_not",),
        "rule 18: a second start of a restored folder takes writes",
    ),
    # --- Who must answer ---
    Mutation(
        "first-answer-is-enough",
        "crdtstream/region/links/readiness.py",
        "            and not self._unanswered\n",
        "            and self._answers\n",
        (READY + "test_every_member_must_answer",),
        "rule 18: a dot that only the second peer has is used again",
    ),
    Mutation(
        "last-answer-counts",
        "crdtstream/region/links/readiness.py",
        "return max(self._known.values(), default=0)",
        "return next(reversed(self._known.values()), 0)",
        (READY + "test_the_highest_answer_counts",),
        "rule 18: dots are used a second time",
    ),
    Mutation(
        "a-heartbeat-is-an-answer",
        "crdtstream/region/links/readiness.py",
        "        self._known[peer] = max(self._known.get(peer, 0), n)\n",
        "        self._known[peer] = max(self._known.get(peer, 0), n)\n"
        "        self._answers.setdefault(peer, Answer(n))\n",
        (READY + "test_what_a_heartbeat_says_is_no_answer",),
        "rule 18: a peer that still holds effects of the earlier run applies them later",
    ),
    Mutation(
        "ready-without-what-its-peers-have",
        "crdtstream/region/links/readiness.py",
        "            and covers(vv, self._owed_vv())\n",
        "",
        (READY + "test_what_its_peers_have_must_be_here",),
        "rule 3: a tombstone that another region dropped is missing for what is created now",
    ),
    Mutation(
        "what-a-peer-lost-is-waited-for",
        "crdtstream/region/links/readiness.py",
        "Answer(before.own_n, meet([before.vv, answer.vv]))",
        "before",
        (READY + "test_what_a_peer_lost_after_its_answer_is_not_waited_for",),
        "a region that recovers waits for ever for what nobody has any more",
    ),
    Mutation(
        "a-region-that-recovers-forgets",
        "crdtstream/region/region.py",
        "        if self.replica.kept_until_stable and not self.opening.is_recovering:\n",
        "        if self.replica.kept_until_stable:\n",
        (FOUND + "[rows-come-back-to-the-region-that-lost-them]",),
        "rule 3: rows that it lost and gets back stand beside those of another region",
    ),
    Mutation(
        "what-is-said-while-recovering-counts",
        "crdtstream/region/knowledge.py",
        "        if not regains and _grow(",
        "        if _grow(",
        (FOUND + "[rows-come-back-behind-a-region-that-recovers]",),
        "rule 3: rows that come back to another region stand there beside those that they beat",
    ),
    Mutation(
        "what-is-said-while-recovering-is-passed-on",
        "crdtstream/region/links/gossip.py",
        "self._knowledge.counted.items()\n            # A version",
        "self._knowledge.vvs.items()\n            # A version",
        ("tests/region/test_gossip.py::test_what_was_said_while_recovering_is_not_passed_on",),
        "rule 3: a region without a link forgets what is still to be settled",
    ),
    Mutation(
        "a-loss-goes-unnoticed",
        "crdtstream/region/links/readiness.py",
        "        if self._is_recovering or not self.are_lost(issued):\n",
        "        if True:\n",
        (READY + "test_a_region_that_learns_of_a_loss_asks_everybody_again",),
        "rule 18: a region goes on though peers have effects of it that it lacks",
    ),
    Mutation(
        "a-recovered-region-waits-for-the-next-deadline",
        "crdtstream/region/region.py",
        "        # Its peers answered while it recovered: it may be level with them already.\n"
        "        self.opening.note_time(now)\n",
        "",
        (LEVEL + "test_a_region_that_has_recovered_takes_writes_at_once",),
        "a region whose end was not synced refuses writes for two seconds after each kill",
    ),
    # --- What peers do before they answer ---
    Mutation(
        "a-peer-keeps-what-it-holds-unapplied",
        "crdtstream/region/links/pull.py",
        "        self.inbox.discard()\n        self._must_reopen",
        "        self._must_reopen",
        (BEFORE,),
        "rule 18: a peer applies effects of an earlier run after it has answered",
    ),
    Mutation(
        "relayed-effects-are-not-forgotten",
        "crdtstream/region/links/pull.py",
        "        if origin in self.origins:\n            self.reopen()",
        "        if origin == self.peer:\n            self.reopen()",
        (BEFORE,),
        "rule 18: what a third region relayed of an earlier run is applied later",
    ),
    Mutation(
        "held-effects-are-asked-for",
        "crdtstream/region/links/routes.py",
        "return frozenset(origins - {peer} if self._is_held(peer) else origins)",
        "return frozenset(origins)",
        (NOT_TAKEN,),
        "rule 18: effects are taken that may be used again",
    ),
    Mutation(
        "held-effects-are-not-relayed",
        "crdtstream/region/links/routes.py",
        "            if self._is_held(other):\n                origins.add(other)\n",
        "",
        (RECOVERING + "test_healthy_regions_relay_effects_of_one_that_recovers_and_waits",),
        "one region that recovers stops the others",
    ),
    Mutation(
        "held-until-ready",
        "crdtstream/region/links/readiness.py",
        "return self._is_recovering and bool(self._unanswered)",
        "return self._is_recovering",
        (READY + "test_it_asks_until_all_have_answered_and_recovers_until_nothing_lacks",),
        "two regions that recover wait for each other",
    ),
    Mutation(
        "a-lower-answer-is-just-taken",
        "crdtstream/region/links/readiness.py",
        "is_lower = before is not None and answer.own_n < before.own_n",
        "is_lower = False",
        (READY + "test_when_a_peer_has_lost_what_it_had_answered_for_all_answer_again",),
        "rule 18: a third region has what the peer had relayed before it lost it",
    ),
    Mutation(
        "a-loss-does-not-take-the-proof-back",
        "crdtstream/region/opening.py",
        "            self._must_revoke = True\n",
        "",
        (RECOVERING + "test_a_region_that_found_a_loss_is_not_taken_for_whole_by_its_next_start",),
        "rule 18: a second start goes on without what was found to be lost",
    ),
    Mutation(
        "an-earlier-run-ends-the-hold",
        "crdtstream/region/links/peer_runs.py",
        "        elif self._held.get(region) == run_id:\n",
        "        elif region in self._held:\n",
        (READY + "test_what_an_earlier_run_says_late_counts_for_nothing",),
        "rule 18: effects are taken that may be used again",
    ),
    Mutation(
        "a-second-start-is-not-told-of",
        "crdtstream/region/links/peer_runs.py",
        "        elif self._held.get(region) != run_id:\n",
        "        elif region not in self._held:\n",
        (READY + "test_each_run_that_recovers_is_told_of_anew",),
        "rule 18: what came between two starts is applied after the second answer",
    ),
    # --- Whose database ---
    Mutation(
        "every-region-names-the-database",
        "crdtstream/region/links/readiness.py",
        "is_lowest = all(self._region < peer for peer in self._peers)",
        "is_lowest = True",
        (READY + "test_the_lowest_region_names_the_database_when_all_have_answered",),
        "regions set up together end as several databases",
    ),
    Mutation(
        "another-database-is-let-in",
        "crdtstream/region/links/readiness.py",
        "        if own.uid:\n            return self._refusal",
        "        if not own.uid:\n            return self._refusal",
        (READY + "test_two_databases_are_refused_with_both_identities",),
        "dots of two databases are mixed",
    ),
    Mutation(
        "old-effects-join-a-database-declared-new",
        "crdtstream/region/links/readiness.py",
        "        if theirs.declared and self._has_effects:\n",
        "        if False:\n",
        (READY + "test_effects_of_an_earlier_version_do_not_join_a_database_declared_new",),
        "dots of two databases are mixed",
    ),
    Mutation(
        "a-token-of-another-database-counts",
        "crdtstream/commands/beyond_redis/version_vectors.py",
        "    if theirs != uid:\n",
        "    if theirs != uid and not uid:\n",
        ("tests/commands/test_tokens.py::test_what_another_database_gave_is_refused",),
        "a reader skips entries that it has never seen",
    ),
    Mutation(
        "a-call-that-means-another-database-is-answered",
        "crdtstream/query/service.py",
        "        if given is not None and given != own:\n",
        "        if given is not None and not own:\n",
        ("tests/query/test_service.py::test_a_call_that_means_another_database_is_refused",),
        "Spark takes up a state that says nothing about this database",
    ),
)
