"""Planted bugs in version vectors that leave a region: by calls, offsets and archives."""

from typing import Final

from tests.mutations.mutation import Mutation

VALUE: Final = "crdtstream/core/incarnations.py"
VECTORS: Final = "crdtstream/spark/vectors.py"
OF_VALUE: Final = "tests/core/test_incarnations.py::"
OF_OFFSETS: Final = "tests/spark/test_incarnations.py::"
OF_FOLDERS: Final = "tests/spark/test_lost_folder.py::"

NAMED_VECTORS: Final = (
    # --- Which incarnations need no name ---
    Mutation(
        "a-name-that-is-left-out-is-always-the-first",
        VALUE,
        "        if not number and self.begins and self.is_first_unsure:\n            return 0\n",
        "",
        (OF_VALUE + "test_a_number_without_an_incarnation_is_lost_if_the_first_one_is_unsure",),
        "dots of a folder that died before anybody heard of it are taken for those of the next one",
    ),
    # --- The query service ---
    # --- Offsets ---
    Mutation(
        "equal-numbers-are-named-as-before",
        VECTORS,
        "            if n >= counts.get(region, 0):\n",
        "            if n > counts.get(region, 0):\n",
        (OF_OFFSETS + "test_a_vector_keeps_what_its_numbers_are_of",),
        "an archive's state names an incarnation longer than its checkpoint does",
    ),
    # --- Archives and audits ---
    Mutation(
        "a-replay-goes-on-with-entries-that-it-cannot-tell-apart",
        "crdtstream/spark/jobs/replay.py",
        "        if first < plan.chunks:\n            self._refuse_growth(plan)\n",
        "",
        (OF_FOLDERS + "test_an_archive_that_holds_what_is_lost_is_told_and_gets_all_that_is_new",),
        "a replay appends entries under the numbers of others, and leaves those out",
    ),
)
