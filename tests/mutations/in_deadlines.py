"""Planted bugs in deadlines: a part of a region is not looked at when it is time."""

from typing import Final

from tests.mutations.mutation import Mutation

TABLE: Final = "crdtstream/region/deadlines.py"
OF_TABLE: Final = "tests/region/test_deadlines.py::"
OF_MEMBERSHIP: Final = "tests/region/test_membership.py::"
SEALING: Final = "tests/region/test_sealing.py::"
CATCHING_UP: Final = "tests/region/test_catching_up.py::"
EARLIEST: Final = OF_TABLE + "test_the_earliest_is_the_least_of_all_that_are_set"

DEADLINES: Final = (
    Mutation(
        "a-deadline-that-ends-stays-the-earliest",
        TABLE,
        "        elif before == earliest:\n",
        "        elif at is not None and before == earliest:\n",
        (EARLIEST, OF_TABLE + "test_a_deadline_that_two_parts_share_stays_when_one_ends"),
        "the node's timer fires without end, as what is due never moves",
    ),
    Mutation(
        "a-deadline-that-moves-away-hides-the-others",
        TABLE,
        "            self._find_earliest()\n",
        "            self.earliest = at\n",
        (EARLIEST,),
        "another part is looked at too late, or never",
    ),
    Mutation(
        "the-deadlines-of-parts-are-not-reported",
        "crdtstream/region/region.py",
        "            deadline = earliest\n",
        "            pass\n",
        (OF_TABLE + "test_the_earlier_one_of_parts_and_clients_is_reported",),
        "a region that is alone never ends what it waits for",
    ),
    Mutation(
        "a-rest-from-reading-has-no-end",
        "crdtstream/region/cold_reads.py",
        "            self.rests_until.set(None)\n",
        "",
        ("tests/region/test_cold_entries.py::test_a_peers_batch_is_tried_again_after_a_failure",),
        "the timer fires without end after entries could not be read",
    ),
    Mutation(
        "a-region-that-starts-is-not-looked-at",
        "crdtstream/region/catching_up.py",
        "        self._set_deadline()\n        return changed",
        "        return changed",
        (
            CATCHING_UP + "test_it_gives_up_when_nothing_has_come_for_long",
            CATCHING_UP + "test_peers_that_do_not_answer_hold_it_back_only_so_long",
        ),
        "a lone survivor never takes writes",
    ),
    Mutation(
        "a-bid-is-not-sent-again",
        "crdtstream/region/bidding.py",
        "        self.deadline.set(Millis(now + RESEND_MS.value) if asked else None)\n",
        "        self.deadline.set(None)\n",
        ("tests/region/test_numbering.py::test_a_bid_that_is_not_answered_is_sent_again",),
        "a letter is lost, and a region recovers for ever",
    ),
    Mutation(
        "a-wish-is-looked-at-only-once",
        "crdtstream/region/wishes.py",
        "PATIENCE_MS.value)\n        self._set_deadline()\n\n    def end_seal_of",
        "PATIENCE_MS.value)\n\n    def end_seal_of",
        ("tests/region/test_wishes.py::test_a_wish_is_looked_at_again_after_a_while",),
        "the node's timer fires without end while a change waits for an answer",
    ),
    Mutation(
        "an-effect-is-issued-only-if-something-happens",
        "crdtstream/region/membership.py",
        "            self._issue_at.set(issue_at)\n            return\n",
        "            return\n",
        (OF_MEMBERSHIP + "test_another_region_issues_the_effect_if_the_proposer_is_gone",),
        "M4: the coordinator dies after the decision, and the database stands still",
    ),
    Mutation(
        "a-seal-has-no-lease",
        "crdtstream/region/sealing.py",
        "            self._deadline.set(self._until)\n",
        "            pass\n",
        ("tests/region/test_sealing.py::test_a_seal_ends_when_nobody_asks_any_more",),
        "a region whose removal was given up takes no writes for good",
    ),
    Mutation(
        "the-seal-of-a-removed-region-has-an-end",
        "crdtstream/region/membership.py",
        "            self.sealing.note_removed()\n",
        "",
        (SEALING + "test_a_sealed_region_that_is_removed_by_force_asks_for_no_time",),
        "the node of a removed region takes a whole processor, as what is due never moves",
    ),
    Mutation(
        "a-removed-region-sets-the-end-of-its-seal-again",
        "crdtstream/region/sealing.py",
        "        if self._is_removed or self.wanted is None or self.wanted.epoch:\n",
        "        if self.wanted is None or self.wanted.epoch:\n",
        (SEALING + "test_a_sealed_region_that_is_removed_by_force_asks_for_no_time",),
        "the node of a removed region takes a whole processor, as what is due never moves",
    ),
    Mutation(
        "a-bound-of-the-lag-is-looked-at-only-by-chance",
        "crdtstream/region/staleness.py",
        "            self._note_exceeded(now)\n        self._set_deadline()\n",
        "            self._note_exceeded(now)\n",
        ("tests/region/test_staleness.py::test_a_throttled_write_waits_no_longer_than_its_time",),
        "a throttled write waits for longer than it may",
    ),
)
