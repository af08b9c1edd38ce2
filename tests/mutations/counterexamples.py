"""The counterexamples of the design of members and bootstraps: what notices each if it comes back.

Each has a number, by which tests and planted bugs name it: M of members, V of what a checked model
of them showed, C of merging two states.  The page is written of this table:

    python -m tests.mutations.counterexamples > docs/counterexamples.md
"""

from typing import Final, NamedTuple

from tests.mutations.catalogue import MUTATIONS

PAGE: Final = "docs/counterexamples.md"
HEAD: Final = """# Counterexamples

How members, removals and bootstraps went wrong on paper or in a model, before there was code. Each
one is planted as a bug, and the test that notices it is named. `python -m tests.mutations NAME`
plants one. V14 to V16 are about [incarnations](decisions/a-folder-begins-an-incarnation.md). A test
checks that this table is complete; `python -m tests.mutations.counterexamples` writes it.

| | what went wrong | planted bugs | noticed by |
| --- | --- | --- | --- |
"""


class Counterexample(NamedTuple):
    """Attributes:
    story: what went wrong.
    bugs: planted ones that bring it back, by name.
    """

    story: str
    bugs: tuple[str, ...]


COUNTEREXAMPLES: Final = {
    "M1": Counterexample(
        "Two operators add a region at once: two machines get one number.",
        ("half-is-enough",),
    ),
    "M2": Counterexample(
        "Two regions remove each other.",
        ("a-lower-ballot-is-promised", "a-forced-removal-needs-half-of-those-who-stay"),
    ),
    "M3": Counterexample(
        "Both halves of a database go on alone, meet again, and apply each other's effects.",
        (
            "histories-are-compared-by-their-epochs",
            "a-link-joins-two-histories",
            "a-link-that-was-open-brings-another-history",
        ),
    ),
    "M4": Counterexample(
        "Who has a change decided dies before its effect is anywhere else, or loses its folder.",
        ("nobody-issues-the-effect-of-one-who-died", "newer-members-prove-nothing"),
    ),
    "M5": Counterexample(
        "A removed region's create has reached one region; another one drops the tombstone.",
        ("a-removed-peer-does-not-count-until-its-cut",),
    ),
    "M6": Counterexample(
        "A region holds a batch of the removed one, which waits for another origin.",
        ("what-others-relayed-of-a-removed-peer-stays",),
    ),
    "M7": Counterexample(
        "A region says what it has of the removed one; a power cut takes that.",
        ("a-word-is-of-what-is-durable-so-far", "a-word-is-said-before-it-is-durable"),
    ),
    "M8": Counterexample(
        "A folder of before a removal, or of before an add, is put back.",
        (
            "who-recovers-applies-what-a-removed-region-sends",
            "a-peer-that-is-added-does-not-count-for-stability",
        ),
    ),
    "M9": Counterexample(
        "Who joins is killed at any part, at any key of the merge, or at the switch.",
        (
            "a-merge-is-not-replayed",
            "staging-deleted-before-a-checkpoint-has-it",
            "what-was-built-is-not-given-up",
        ),
    ),
    "M10": Counterexample(
        "The others write so much while a state is sent that their logs are cut behind it.",
        ("a-copy-goes-on-however-the-log-grows", "the-log-is-not-kept-for-a-peer-that-is-added"),
    ),
    "M11": Counterexample(
        "Clients change what the state that is taken over has changed too.",
        (
            "made-between-slices-and-not-merged-again",
            "slices-hold-though-others-effects-came",
        ),
    ),
    "M12": Counterexample(
        "A handover comes by a state: what was pending at the old home is pending nowhere.",
        ("merge-forgets-handovers",),
    ),
    "M13": Counterexample(
        "Two regions, alone for longer than the backlog, both cut what only they have.",
        ("the-only-copy-is-cut",),
    ),
    "M14": Counterexample(
        "A region that was wiped appends below IDs that its groups have passed.",
        ("merge-takes-no-floors",),
    ),
    "M15": Counterexample(
        "Keys of a removed region never expire; nor once its heir is removed as well.",
        (
            "nobody-deletes-what-a-removed-region-let-expire",
            "what-an-heir-inherited-ends-with-it",
        ),
    ),
    "M16": Counterexample(
        "The heir is the lowest region that is left, and that moves when one is added.",
        ("the-heir-is-one-that-was-removed",),
    ),
    "M17": Counterexample(
        "A token, a cursor or an offset names effects of a removed region beyond its cut.",
        (
            "a-token-of-a-removed-region-waits-for-ever",
            "a-cursor-of-a-removed-region-is-read-on",
            "a-query-clamps-silently",
        ),
    ),
    "M18": Counterexample(
        "A salvage is run twice; or its entries were sent again by their own producer.",
        ("a-salvage-names-a-new-producer", "a-salvage-does-not-look-for-retries"),
    ),
    "M19": Counterexample(
        "One region drops a tombstone, another one that lacks the delete sends who joins a state.",
        (
            "a-peer-that-is-added-does-not-count-for-stability",
            "a-joining-peer-does-not-count-for-stability",
        ),
    ),
    "M20": Counterexample(
        "A region recovers that only a joining one can tell what it had.",
        ("a-joining-peer-is-not-asked-by-who-recovers",),
    ),
    "M21": Counterexample(
        "A node of an earlier version hears that members change.",
        ("an-effect-of-a-later-version-is-passed-over",),
    ),
    "M22": Counterexample(
        "Files name {1, 2, 3} and {3, 4, 5}: {1, 2} and {4, 5} decide in one database.",
        ("a-vote-for-another-beginning-is-given", "the-files-are-not-compared"),
    ),
    "C1": Counterexample(
        "DEL here, EXPIRE there: the deadline deletes a stream that was made later.",
        ("merge-keeps-an-orphan-deadline",),
    ),
    "C2": Counterexample(
        "Own entries that were removed elsewhere come back with the own log.",
        ("merge-keeps-what-the-other-removed",),
    ),
    "C3": Counterexample(
        "A delivery that is done again on top of the state jumps over what that has brought.",
        ("a-merge-is-not-replayed",),
    ),
    "C4": Counterexample(
        "Nothing of a group lives, and the next one of its name begins where it was.",
        ("merge-keeps-local-facts-of-a-group-that-went",),
    ),
    "C5": Counterexample(
        "A lower start comes by the state, and what lies between is never delivered.",
        ("merge-does-not-go-back",),
    ),
    "C6": Counterexample(
        "What XGROUP SETID had taken up again on purpose is skipped.",
        ("merge-skips-what-was-set-back",),
    ),
    "C7": Counterexample(
        "A change of mode that came by a state has done nothing, or settles who jumped on purpose.",
        ("merge-takes-the-mode-without-its-change", "merge-settles-who-delivers-always"),
    ),
    "C8": Counterexample(
        "Rows that were deleted are known, or known ones are forgotten.",
        ("merge-knows-rows-that-were-deleted-here", "stable-rows-have-no-dots"),
    ),
    "C9": Counterexample(
        "A retry of a message that came by a state is appended again.",
        ("merge-takes-no-window",),
    ),
    "C10": Counterexample(
        "What a region only stages counts as had, and it begins again from an older state.",
        ("what-a-region-stages-counts-as-had",),
    ),
    "V1": Counterexample(
        "A region that dies while it removes another one can itself never be removed.",
        ("one-who-said-yes-is-bound-for-good", "a-new-attempt-forgets-what-was-accepted"),
    ),
    "V2": Counterexample(
        "A message of an earlier attempt comes late, and frees a vote or counts as one.",
        ("an-earlier-attempt-is-accepted-late", "a-late-word-counts-for-the-next-attempt"),
    ),
    "V3": Counterexample(
        "A restored member votes twice.",
        (
            "a-member-that-answers-keeps-its-ballot",
            "a-restored-member-promises-nothing",
            "a-restored-member-votes-at-once",
            "a-folder-is-confirmed-before-its-votes",
        ),
    ),
    "V4": Counterexample(
        "Votes are forgotten, and a power cut takes the effect back.",
        (
            "votes-are-forgotten-with-the-decision",
            "a-vote-is-told-before-it-is-durable",
            "who-goes-on-forgets-what-was-decided",
        ),
    ),
    "V5": Counterexample(
        "All that are left recover, and wait for the dead one; or for two of them.",
        (
            "a-lost-end-of-the-log-takes-the-votes",
            "a-second-removal-waits-for-the-effect-of-the-first",
        ),
    ),
    "V6": Counterexample(
        "A region issues its own removal, and is refused before the others have that effect.",
        ("a-region-removes-itself",),
    ),
    "V7": Counterexample(
        "The epoch comes ahead of the log, and what was applied is not durable yet.",
        ("a-word-is-of-what-is-durable-so-far", "a-word-is-said-before-it-is-durable"),
    ),
    "V8": Counterexample(
        "What a member said it may have lost in a restart since.",
        (
            "words-outlive-the-start-they-are-of",
            "a-cut-is-final-before-it-is-reached",
            "a-later-start-leaves-words-of-before",
        ),
    ),
    "V9": Counterexample(
        "A member relays more to another one after it has spoken, and is removed.",
        ("words-outlive-the-epoch-they-are-of", "words-of-earlier-epochs-count"),
    ),
    "V10": Counterexample(
        "A restored member takes effects beyond the cut from a region that was removed.",
        ("who-recovers-applies-what-a-removed-region-sends",),
    ),
    "V11": Counterexample(
        "A member that recovers speaks, and then gets more back.",
        ("a-recovering-member-has-a-word", "who-recovers-says-what-it-has"),
    ),
    "V12": Counterexample(
        "A change is decided by members that lack the one before.",
        ("a-member-votes-behind-any-epoch", "an-add-does-not-wait-for-the-last-change"),
    ),
    "V13": Counterexample(
        "Everybody waits for a region that joins and has nothing.",
        ("a-region-that-starts-waits-for-a-joining-peer",),
    ),
    "V14": Counterexample(
        "A newcomer, or a restored member, takes effects of a region's earlier folder.",
        ("a-bid-is-told-to-nobody-else",),
    ),
    "V15": Counterexample(
        "A member grants a region its new folder, is restored, and takes effects of the old one.",
        ("a-grant-is-of-all-runs-of-a-node", "an-answer-of-an-earlier-run-counts"),
    ),
    "V16": Counterexample(
        "A copy is started by accident, gets one answer, and locks the region's own folder out.",
        ("any-recovering-folder-is-taken-for-the-region-at-once",),
    ),
    "V17": Counterexample(
        "What is held of an earlier removed region, or came over its links, is applied later.",
        (
            "what-others-relayed-of-a-removed-peer-stays",
            "a-removed-peer-is-still-pulled-from",
        ),
    ),
    "V18": Counterexample(
        "Two folders with a decision are lost, one after the other: its epoch is decided twice.",
        ("who-recovers-votes-for-nothing", "a-vote-is-not-part-of-an-answer"),
    ),
    "V19": Counterexample(
        "A region lost the effect of a change that a later change hides, and another one is dead:"
        " all that are left recover, and the removal that they wait for cannot be decided.",
        (
            "changes-that-later-ones-hide-are-told-to-nobody",
            "a-change-is-believed-though-its-hash-is-another",
            "recent-changes-are-not-kept",
            "a-start-remembers-no-change-that-the-folder-lacks",
        ),
    ),
}


def page() -> str:
    """The page of the documentation."""
    tests = {mutation.name: mutation.tests for mutation in MUTATIONS}
    rows = []
    for number, (story, bugs) in COUNTEREXAMPLES.items():
        noticed = dict.fromkeys(tests[bug][0] for bug in bugs)
        shown = " · ".join(f"`{bug}`" for bug in bugs), " · ".join(f"`{one}`" for one in noticed)
        rows.append(f"| {number} | {story} | {shown[0]} | {shown[1]} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
