"""Planted bugs in what a checkpoint has of a state that goes on changing."""

from typing import Final

from tests.mutations.mutation import Mutation

MACHINE: Final = ("tests/rules/test_checkpoints.py::TestCheckpoints::runTest",)
ENGINE: Final = "tests/region/test_engine.py::"
STORED: Final = "tests/store/test_checkpoints.py::"
SIMULATED: Final = ("tests/sim/test_histories.py::test_every_invariant_holds[2]",)
TURNS: Final = "tests/store/test_checkpointer.py::"
PARTS: Final = "crdtstream/core/checkpoint/parts.py"

CHECKPOINTS: Final = (
    Mutation(
        "what-was-held-is-forgotten-in-a-crash",
        "crdtstream/store/sqlite_checkpoints.py",
        "        checkpoints._forget = checkpoints._newest_verified()\n",
        "",
        (STORED + "test_a_crash_while_a_checkpoint_is_held_does_not_keep_the_log",),
        "a node that died during a backup cannot cut its log until the next checkpoint",
    ),
    Mutation(
        "key-changes-unnoted",
        "crdtstream/core/applying/apply_effect.py",
        "    state.parts.note(effect.key)\n",
        "",
        ("tests/rules/test_checkpoints.py::test_what_changes_a_key_is_in_the_next_checkpoint",),
        "a deadline or a delete is not in the next checkpoint, and forgotten at a restart",
    ),
    Mutation(
        "group-changes-unnoted",
        "crdtstream/core/groups/group.py",
        "            self._changes.note(self)\n",
        "            pass\n",
        MACHINE,
        "positions of a group are those of an earlier checkpoint after a restart",
    ),
    Mutation(
        "cut-sees-what-came-later",
        PARTS,
        "            self._cut.keep(part)\n",
        "            pass\n",
        MACHINE,
        "a checkpoint has a change whose record is replayed behind it once more",
    ),
    Mutation(
        "producers-change-unnoted",
        "crdtstream/core/applying/settling.py",
        "    state.parts.note_producers(key)\n    stays, stays_id",
        "    stays, stays_id",
        MACHINE,
        "a retry of an idempotent append is a second entry after a restart",
    ),
    Mutation(
        "what-is-pending-changes-unnoted",
        "crdtstream/core/groups/pel.py",
        "        if chunk.epoch != self._changes.epoch:\n            self._changes.note(chunk)\n",
        "        if not chunk.image and chunk.epoch != self._changes.epoch:\n"
        "            self._changes.note(chunk)\n",
        SIMULATED,
        "what was acknowledged is pending again after a restart",
    ),
    Mutation(
        "a-node-that-is-gone-stays-in-the-checkpoint",
        PARTS,
        "        if part.image or (self._cut is not None and self._cut.needs(part)):\n",
        "        if part.kind is not Kind.NODE and part.image:\n",
        SIMULATED,
        "what was deleted is back after a restart, or the checkpoint cannot be read",
    ),
    Mutation(
        "a-cut-comes-before-what-the-woken-write",
        "crdtstream/engine.py",
        "        while self.region.replica.has_open_section and self._crash is None:\n",
        "        while False:\n",
        (ENGINE + "test_a_tick_ended_for_a_checkpoint_leaves_nothing_open",),
        "the node stops as a checkpoint begins",
    ),
    Mutation(
        "abandoned-cut-is-forgotten",
        PARTS,
        "        self._changes.put_back([*self._waiting, *self._before], self._dropped)\n",
        "        self._changes.end()\n",
        MACHINE,
        "what changed before a checkpoint that failed is in no later one",
    ),
    Mutation(
        "an-early-end-of-a-turn-ends-the-checkpoint",
        "crdtstream/checkpointer.py",
        "while size < PUT_BYTES and (taken := cut.take()) is not None:\n",
        "while not turn.is_over() and (taken := cut.take()) is not None:\n",
        (TURNS + "test_a_checkpoint_is_whole_though_every_turn_is_over_at_once",),
        "on a busy machine a checkpoint ends before all is written, and the node stops",
    ),
    Mutation(
        "restored-keys-lose-their-order",
        "crdtstream/core/checkpoint/restoring.py",
        "        for _, key, stream in sorted(self._streams, key=lambda row: row[0]):\n",
        "        for _, key, stream in sorted(self._streams, key=lambda row: -row[0]):\n",
        ("tests/rules/test_checkpoints.py::test_keys_and_groups_keep_their_order",),
        "KEYS and XINFO list things in another order after a restart",
    ),
)
