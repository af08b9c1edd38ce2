"""Planted bugs in who is a member, how a change is decided, and the cut of a removed region."""

from typing import Final

from tests.mutations.mutation import Mutation

MEMBERS: Final = "crdtstream/core/membership/members.py"
DECIDING: Final = "crdtstream/core/membership/deciding.py"
CUT: Final = "crdtstream/core/membership/region_cut.py"
REGION: Final = "crdtstream/region/members/membership.py"
OF_PULL: Final = "tests/region/test_pull.py::"
OF_REGION: Final = "tests/region/test_membership.py::"
OF_STARTS: Final = "tests/region/test_membership_starts.py::"
OF_MEMBERS: Final = "tests/membership/test_members.py::"
OF_DECIDING: Final = "tests/membership/test_deciding.py::"
EXHAUSTIVELY: Final = "tests/membership/test_deciding_exhaustively.py::"
SEALING: Final = "crdtstream/region/members/sealing.py"
OF_SEALING: Final = "tests/region/test_sealing.py::"
OF_CUT: Final = "tests/membership/test_region_cut.py::"

MEMBERSHIP: Final = (
    # --- Members ---
    Mutation(
        "a-region-that-recovers-ends-over-a-split",
        REGION,
        "            except ForkError as error:\n"
        "                self._note_refused_message(peer, error)\n"
        "                del self._said_by[peer]\n",
        "            except ZeroDivisionError:\n                pass\n",
        (
            OF_STARTS + "test_two_go_on_without_each_other_while_a_region_recovers_from_both",
            "tests/sim/test_histories.py::test_mended_histories_do_not_fail_again",
        ),
        "the node ends with a traceback, as two that it recovers from went on without each other",
    ),
    Mutation(
        "the-heir-is-one-that-was-removed",
        MEMBERS,
        "        while member is not None and member.heir is not None:\n",
        "        if member is not None and member.heir is not None:\n",
        (OF_MEMBERS + "test_the_heir_is_named_and_does_not_move",),
        "M15: what a removed region left is handed out by nobody once its heir is removed",
    ),
    Mutation(
        "histories-are-compared-by-their-epochs",
        MEMBERS,
        "    if mine.hash_at(common) != other.hash_at(common):\n        return Relation.FORK\n",
        "",
        (OF_MEMBERS + "test_a_fork_is_told_with_both_lists",),
        "M3: two parts that went on without each other apply each other's effects",
    ),
    # --- The effect ---
    Mutation(
        "members-are-not-in-the-digest",
        "crdtstream/core/whole/digest.py",
        "    if members.epoch:\n        hasher.update(bytes_of_members(members))\n",
        "",
        ("tests/rules/test_digest.py::test_the_members_are_in_the_digest",),
        "I1: regions that have different members look equal",
    ),
    # --- Deciding ---
    Mutation(
        "a-decision-is-not-part-of-an-answer",
        DECIDING,
        "        if decided is None:\n            return turn\n",
        "        return turn\n",
        (
            OF_DECIDING + "test_a_restored_member_hears_what_was_decided",
            EXHAUSTIVELY + "test_two_remove_each_other_while_a_folder_is_restored",
        ),
        "V3: what a restored member had voted for is decided, and it votes for something else",
    ),
    Mutation(
        "a-forced-removal-needs-half-of-those-who-stay",
        DECIDING,
        "        if len(asked) < needed:\n",
        "        needed = len(asked) // 2 + 1\n        if len(asked) < needed:\n",
        (OF_DECIDING + "test_a_forced_removal_needs_more_than_half_of_all",),
        "M2, M3: of two regions each removes the other",
    ),
    Mutation(
        "a-member-votes-behind-any-epoch",
        DECIDING,
        "if epoch != self.votes.epoch or not self.may_vote",
        "if epoch < self.votes.epoch or not self.may_vote",
        (OF_DECIDING + "test_a_member_votes_only_behind_the_epoch_that_it_has",),
        "V12: a removal is decided by those who lack the one before",
    ),
    # --- The cut ---
    Mutation(
        "words-outlive-the-start-they-are-of",
        CUT,
        "            if word is not None and word.start < start:\n"
        "                del self._words[member]\n",
        "",
        (OF_CUT + "test_words_of_an_earlier_start_are_forgotten",),
        "V8: a cut that nobody can reach: stability stands still for good",
    ),
    Mutation(
        "a-word-of-an-earlier-start-is-heard",
        CUT,
        "        if word.start < self._starts.get(word.member, 0):\n            return\n",
        "",
        (OF_CUT + "test_words_of_an_earlier_start_are_forgotten",),
        "V8: a cut that nobody can reach: stability stands still for good",
    ),
    # --- A region's part ---
    Mutation(
        "a-link-joins-two-histories",
        REGION,
        "        self.members.note_newest(members)\n",
        "        if members.epoch > self.members.newest.epoch:\n"
        "            self.members.note_newest(members)\n",
        (OF_REGION + "test_a_link_tells_newer_members_and_refuses_another_history",),
        "M3: both halves of a split link, and apply each other's effects",
    ),
    # --- Cuts, as a region finds them ---
    Mutation(
        "who-recovers-applies-what-a-removed-region-sends",
        "crdtstream/region/holding.py",
        "        return self.asks_members or not self._numbering.is_kept\n",
        "        return not self._numbering.is_kept\n",
        (OF_PULL + "test_a_recovering_region_applies_nothing_before_all_members_have_answered",),
        "V10: a restored member takes effects beyond the cut from a region that was removed",
    ),
    Mutation(
        "who-recovers-applies-before-the-folder-knows-the-members",
        "crdtstream/region/holding.py",
        (
            "        if self._membership.members.newest.epoch > known.epoch:\n"
            "            return True\n"
        ),
        "",
        (
            OF_PULL
            + "test_a_recovering_region_applies_nothing_of_a_region_removed_meanwhile[restored]",
        ),
        "V10: with the last answer, what a removed region sent is applied at once",
    ),
    # --- Seals ---
    Mutation(
        "a-final-seal-ends-by-itself",
        SEALING,
        "        if self.wanted.epoch:\n            return\n",
        "",
        (OF_SEALING + "test_a_final_region_issues_nothing_and_does_not_go_back_by_itself",),
        "the removal is decided behind what the region acknowledged since, and that is lost",
    ),
    # --- At a start, and by links ---
    Mutation(
        "what-is-decided-counts-before-it-is-compared",
        REGION,
        "        if turn.must_keep:\n            self.members",
        "        self.part = turn.after\n        if turn.must_keep:\n            self.members",
        (
            OF_STARTS
            + "test_a_decision_of_another_history_than_the_one_that_is_known_changes_nothing",
        ),
        "M3: the effect of another history is issued, and no start can read folder and log",
    ),
)
