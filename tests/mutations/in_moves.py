"""Planted bugs in moves: what is brought, what is compared, what is left alone."""

from typing import Final

from tests.mutations.mutation import Mutation

CHECKS: Final = "tests/move/test_checks.py::"
FENCES: Final = "tests/move/test_fence.py::"

MOVING: Final = "crdtstream/move/moving.py"
STREAMS: Final = "crdtstream/move/streams.py"

OF_MOVES: Final = (
    Mutation(
        "a-stop-that-leaves-the-fence",
        "crdtstream/cli/moving.py",
        "    while not task.done() and not is_stopped():\n"
        "        await asyncio.wait([task], timeout=STOP_SECONDS)\n"
        "    # Once: the work then lowers its fence, which another cancellation would interrupt.\n"
        "    task.cancel()\n",
        "    while not task.done():\n"
        "        if is_stopped():\n"
        "            task.cancel()\n"
        "        await asyncio.wait([task], timeout=0)\n",
        ("tests/move/test_stopping.py::test_work_that_is_stopped_has_the_time_to_clean_up",),
        "after Ctrl-C in a cut-over the old server refuses writes, and nobody serves",
    ),
    Mutation(
        "a-last-id-above-entries-to-come",
        STREAMS,
        "    if source.last != target.last:\n        return\n",
        "",
        (CHECKS + "test_a_last_id_is_not_set_above_entries_that_are_still_to_be_copied",),
        "entries that come next are below the target's last ID, so the stream is copied again",
    ),
    Mutation(
        "a-fence-raised-outside-of-what-lowers-it",
        MOVING,
        "        before = await self._remember_unfenced() if stop_writes else None\n"
        "        is_done = False\n"
        "        try:\n"
        "            if before is not None:\n"
        "                await raise_fence(self._ends, before)\n",
        "        before = await self._remember_unfenced() if stop_writes else None\n"
        "        is_done = False\n"
        "        if before is not None:\n"
        "            await raise_fence(self._ends, before)\n"
        "        try:\n",
        (FENCES + "test_a_fence_whose_reply_is_lost_remembers_no_settings_of_its_own",),
        "a fence whose raising is stopped, or loses its replies, stays up after exit 1",
    ),
)
