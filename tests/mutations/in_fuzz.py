"""Planted bugs at the borders of a node: bounds of what decoders take, and what they refuse.

Without one of them a message of a peer, or a file, takes memory or time without end, or reaches an
assertion that stops the node.
"""

from typing import Final

from tests.mutations.mutation import Mutation

NONSENSE: Final = "tests/rules/test_merge_nonsense.py::"

BORDERS: Final = (
    Mutation(
        "lower-ids-under-later-dots",
        "crdtstream/core/merge/lanes.py",
        "    if last_id >= first_id:\n",
        "    if last_id == first_id:\n",
        (NONSENSE + "test_lower_ids_under_later_dots_are_refused_without_points",),
        "I5: the last step of a merge fails at an assertion, and the node stops",
    ),
)
