"""Planted bugs in what the log is kept for, and in serving from a log that was cut."""

from typing import Final

from tests.mutations.mutation import Mutation

TURN: Final = "tests/store/test_turns.py::test_a_turn_of_a_checkpoint_is_bounded"
ROOM: Final = "tests/region/test_room.py::"
ENGINE: Final = "tests/region/test_engine.py::"

RETAINING: Final = (
    Mutation(
        "an-earlier-sync-that-ends-later-ends-the-node",
        "crdtstream/region/outstanding.py",
        "        assert mark.seq <= self.logged_seq\n        if mark.seq < self.durable_seq:\n"
        "            return\n",
        "        assert self.durable_seq <= mark.seq <= self.logged_seq\n",
        (ENGINE + "test_of_two_syncs_the_one_that_began_first_may_end_last",),
        "a node ends when appendfsync becomes always while a sync is under way",
    ),
    Mutation(
        "links-outrun-what-leaves-memory",
        "crdtstream/region/holding.py",
        ("            self._memory.holds_links\n            or self._checkpointing.holds_links\n"),
        "            self._checkpointing.holds_links\n",
        (ROOM + "test_batches_of_other_regions_wait_while_memory_is_being_freed",),
        "what is pulled takes several times maxmemory before a checkpoint is written",
    ),
    Mutation(
        "new-parts-are-passed-over-in-one-step",
        "crdtstream/core/checkpoint/parts.py",
        "        for number in self._before.values():\n"
        "            yield number if number < STAGED else NO_IMAGE\n",
        "        for number in self._before.values():\n"
        "            if number:\n"
        "                yield number\n",
        (TURN,),
        "the first checkpoint of many keys holds the event loop",
    ),
    Mutation(
        "links-outrun-checkpoints",
        "crdtstream/region/holding.py",
        "            or self._checkpointing.holds_links\n",
        "",
        (ROOM + "test_links_rest_after_each_run_while_a_checkpoint_is_late",),
        "a restart reads all that was pulled while the first checkpoint was written",
    ),
)
