"""Planted bugs in what a checkpoint has of a state that goes on changing."""

from typing import Final

from tests.mutations.mutation import Mutation

MACHINE: Final = ("tests/rules/test_checkpoints.py::TestCheckpoints::runTest",)
PARTS: Final = "crdtstream/core/checkpoint/parts.py"

CHECKPOINTS: Final = (
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
        "abandoned-cut-is-forgotten",
        PARTS,
        "        self._changes.put_back([*self._waiting, *self._before], self._dropped)\n",
        "        self._changes.end()\n",
        MACHINE,
        "what changed before a checkpoint that failed is in no later one",
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
