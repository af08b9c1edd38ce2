"""Planted bugs in what bounds the replication lag."""

from typing import Final

from tests.mutations.mutation import Mutation

TABLES: Final = "tests/region/test_staleness.py::"

LAG: Final = (
    Mutation(
        "acknowledging-is-refused",
        "crdtstream/commands/documentation/stream.py",
        "XACK key group id...\n    since 5.0.0; flags write fast; here despite_lag;",
        "XACK key group id...\n    since 5.0.0; flags write fast;",
        (TABLES + "test_writes_of_data_are_refused_at_the_bound_and_other_commands_run",),
        "consumers stand still while links are cut",
    ),
)
