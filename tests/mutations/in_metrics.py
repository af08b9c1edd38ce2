"""Planted bugs in what a node tells about itself."""

from typing import Final

from tests.mutations.mutation import Mutation

PAGE: Final = "tests/metrics/test_page.py::"
FIGURES: Final = "crdtstream/metrics/figures.py"

METRICS: Final = (
    Mutation(
        "slow-commands-count-as-fast",
        FIGURES,
        "        while at < len(d.COMMAND_NS_BOUNDS) and level > d.COMMAND_NS_BOUNDS[at]:",
        "        if at < len(d.COMMAND_NS_BOUNDS) and level > d.COMMAND_NS_BOUNDS[at]:",
        (PAGE + "test_a_duration_stands_in_the_bucket_that_holds_it",),
        "a command that takes seconds is shown to take microseconds",
    ),
)
