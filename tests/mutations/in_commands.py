"""Planted bugs in commands: transactions, clients that wait, trimming."""

from typing import Final

from tests.mutations.mutation import Mutation

NEVER_SKIP: Final = "tests/commands/test_never_skip.py::"
COMMANDS_TESTS: Final = "tests/commands/test_commands.py::"

COMMANDS: Final = (
    Mutation(
        "deadline-fires-while-the-disk-refuses",
        "crdtstream/database/database.py",
        "        if self.fault is None:\n            self.replica.expire_due()\n",
        "        self.replica.expire_due()\n",
        ("tests/commands/test_expiry.py::test_nobody_is_deleted_while_the_disk_refuses_writes",),
        "effects are issued by a region that must not",
    ),
    Mutation(
        "approximate-trim-takes-one-id-too-many",
        "crdtstream/commands/streams/trimming.py",
        "return piece.highest_id < (trimming.minid or ID_MIN)",
        "return piece.highest_id <= (trimming.minid or ID_MIN)",
        (COMMANDS_TESTS + "test_approximate_trimming_takes_whole_macro_nodes",),
        "XTRIM MINID ~ takes the entry it names",
    ),
    # --- XREAD that skips nothing ---
    Mutation(
        "arrivals-go-back-with-the-clock",
        "crdtstream/core/keyspace/keyspace.py",
        "        if now > self.arrival:\n            self.arrival = now\n",
        "        self.arrival = now\n",
        (NEVER_SKIP + "test_a_clock_that_is_set_back_hides_nothing",),
        "what comes after a clock was set back counts as there before",
    ),
    # --- The announced version ---
)
