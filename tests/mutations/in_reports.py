"""Planted bugs in reports of drills: a figure that misleads is worse than none."""

from typing import Final

from tests.mutations.mutation import Mutation

REPORT: Final = "crdtstream/drill/report/"
COMPARE: Final = "tests/drill/test_report_compare.py::"

REPORTS: Final = (
    Mutation(
        "comparison-has-noise-in-losses",
        REPORT + "compare.py",
        "    if unit is not Unit.EXACT:\n        is_small = abs(change) <= NOISE[unit]\n",
        "    if True:\n        is_small = abs(change) <= NOISE.get(unit, 10.0)\n",
        (COMPARE + "test_a_change_counts_beyond_noise",),
        "a lost entry is noise",
    ),
)
