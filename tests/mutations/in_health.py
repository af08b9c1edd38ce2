"""Planted bugs in what a region tells of itself: that it is current, level, available."""

from typing import Final

from tests.mutations.mutation import Mutation

FRESH: Final = "tests/region/test_freshness.py::"

HEALTH: Final = (
    # --- Writes ---
    # --- Lag ---
    Mutation(
        "a-survivor-of-two-is-a-minority",
        "crdtstream/region/freshness.py",
        "return 2 * (self.linked + own) < self.peers + own",
        "return 2 * (self.linked + own) <= self.peers + own",
        (FRESH + "test_a_majority_of_regions_counts",),
        "when one of two regions is lost, clients are sent away from the other one too",
    ),
    # --- Coming back ---
    # --- Pages ---
)
