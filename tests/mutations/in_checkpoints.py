"""Planted bugs in what a checkpoint has of a state that goes on changing."""

from typing import Final

from tests.mutations.mutation import Mutation

MACHINE: Final = ("tests/rules/test_checkpoints.py::TestCheckpoints::runTest",)
SIMULATED: Final = ("tests/sim/test_histories.py::test_every_invariant_holds[2]",)
PARTS_OF_CUT: Final = "tests/core/test_parts.py::"
PARTS: Final = "crdtstream/core/checkpoint/parts.py"

CHECKPOINTS: Final = (
    Mutation(
        "a-turn-of-a-checkpoint-has-no-end",
        PARTS,
        "                if is_over():\n                    break\n",
        "",
        (PARTS_OF_CUT + "test_parts_are_taken_until_the_turn_is_over",),
        "a checkpoint of many small streams holds the event loop for as long as a put has bytes",
    ),
    # --- A kind of effect whose state is in no checkpoint ---
)
