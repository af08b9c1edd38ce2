"""Planted bugs in the engine and in the log: run, log, then tell."""

from typing import Final

from tests.mutations.mutation import Mutation

WRITER: Final = "tests/store/test_writer.py::"
DAMAGE: Final = "tests/store/test_log_damage.py::"

ENGINE: Final = (
    # --- The log ---
    Mutation(
        "cancelled-hand-off-gives-the-turn-away",
        "crdtstream/store/writer.py",
        "            await asyncio.wait((running,))\n",
        "",
        ("tests/store/test_at_once.py::test_a_cancelled_hand_off_keeps_the_turn_until_it_is_done",),
        "two threads use one connection",
    ),
    Mutation(
        "the-second-time-who-waits-for-the-writer-is-cancelled-counts",
        "crdtstream/store/writer.py",
        "            while not running.done():\n",
        "            if not running.done():\n",
        (WRITER + "test_a_caller_cancelled_twice_keeps_the_connection_until_the_thread_ends",),
        "a commit finds the connection in use by a thread, as a node stops",
    ),
    Mutation(
        "missing-row-goes-unnoticed",
        "crdtstream/store/sqlite.py",
        "        if count != len(rows):\n",
        "        if count > len(rows):\n",
        (DAMAGE + "test_a_log_without_one_of_its_rows_is_not_opened",),
        "a region goes on without some of its effects",
    ),
)
