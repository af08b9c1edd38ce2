"""Planted bugs in what a checkpoint has of a state that goes on changing."""

from typing import Final

from tests.mutations.mutation import Mutation

RESTARTED: Final = "tests/rules/test_groups_after_a_restart.py::"
MACHINE: Final = ("tests/rules/test_checkpoints.py::TestCheckpoints::runTest",)
ENGINE: Final = "tests/region/test_engine.py::"
STORED: Final = "tests/store/test_checkpoints.py::"
SIMULATED: Final = ("tests/sim/test_histories.py::test_every_invariant_holds[2]",)
TURNS: Final = "tests/store/test_checkpointer.py::"
PARTED: Final = "tests/core/test_parts.py::"
DUE: Final = "tests/region/test_checkpointing.py::"
WATCH: Final = "tests/region/test_storage_watch.py::"
PARTS: Final = "crdtstream/core/checkpoint/parts.py"

CHECKPOINTS: Final = (
    Mutation(
        "replaying-is-no-reason-for-a-checkpoint",
        "crdtstream/region/checkpointing.py",
        "return self.grown_us >= (REPLAY_US_QUIET.value if is_quiet else REPLAY_US_MAX.value)",
        "return self.grown_us >= REPLAY_US_QUIET.value and is_quiet",
        (DUE + "test_one_is_due_when_a_restart_would_take_too_long",),
        "each start replays millions of entries",
    ),
    Mutation(
        "one-checkpoint-follows-the-other",
        "crdtstream/region/checkpointing.py",
        "now < self.written_ms + REST.value * self.took_ms",
        "now < self.written_ms",
        (DUE + "test_checkpoints_for_replaying_leave_time_to_others",),
        "a node with many commits writes checkpoints all the time",
    ),
    Mutation(
        "what-went-during-a-checkpoint-stays-on-disk",
        PARTS,
        "        self._dropped.extend([part.image for part in self._dropped_in_cut",
        "        self._dropped.extend([part.image for part in self._dropped_in_cut[:0]",
        (PARTED + "test_a_part_that_goes_during_a_checkpoint_goes_with_the_next_one",),
        "a stream that was deleted while a checkpoint was written is there again after a restart",
    ),
    Mutation(
        "what-is-free-counts-as-used",
        "crdtstream/storage_watch.py",
        "        self._free_bytes = self._measures.free()\n",
        "",
        (WATCH + "test_what_was_deleted_is_not_used_though_the_process_keeps_it",),
        "after a delete of everything each write is answered OOM until a restart",
    ),
    Mutation(
        "little-that-is-free-is-not-looked-for",
        "crdtstream/storage_watch.py",
        " or self._region.memory.is_full\n",
        "\n",
        (WATCH + "test_little_that_became_free_counts_while_writers_are_refused",),
        "with a small maxmemory each write is answered OOM though there is room",
    ),
    Mutation(
        "near-the-bound-what-is-free-is-looked-for-as-seldom-as-ever",
        "crdtstream/storage_watch.py",
        " or _is_half_full(self._region.memory)\n",
        "\n",
        (WATCH + "test_little_that_became_free_counts_soon_where_memory_is_half_full",),
        "after a delete of everything there is room for little for another ten seconds",
    ),
    Mutation(
        "large-images-are-not-read-back",
        "crdtstream/store/sqlite_checkpoints.py",
        "                first = large[-1][0] + 1\n",
        "                first = last + 1\n",
        (STORED + "test_every_image_is_read_back_small_and_large",),
        "the log is cut behind a checkpoint that the disk has damaged",
    ),
    Mutation(
        "a-body-read-back-is-not-compared",
        "crdtstream/store/layout.py",
        "if not is_sound or crc32(body, ",
        "if not is_sound and crc32(body, ",
        (STORED + "test_every_image_is_read_back_small_and_large",),
        "the log is cut behind a checkpoint that the disk has damaged",
    ),
    Mutation(
        "a-long-entry-alone-is-hashed-as-a-short-one",
        "crdtstream/core/lanes/single.py",
        'kind = b"block" if is_short else b"entry"',
        'kind = b"block"',
        ("tests/core/test_single.py",),
        "regions with the same entries tell different digests after a restart",
    ),
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
        "    state.parts.note_producers(key)\n    _keep_smallest",
        "    _keep_smallest",
        MACHINE,
        "a retry of an idempotent append is a second entry after a restart",
    ),
    Mutation(
        "absorbed-chunk-is-used-again",
        "crdtstream/core/groups/pel.py",
        "        if not len(chunk) and chunk.image == NO_IMAGE",
        "        if not chunk.held and chunk.image == NO_IMAGE",
        (
            "tests/core/test_pel.py::test_a_chunk_that_was_absorbed_is_not_used_again",
            "tests/rules/test_sizes.py::test_with_tiny_sizes_the_same_is_answered",
        ),
        "a node ends when a consumer reads on that had acknowledged nearly all of what it read",
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
        "        elif part.image:\n            self._dropped",
        "        elif part.image and part.kind is not Kind.NODE:\n            self._dropped",
        SIMULATED,
        "what was deleted is back after a restart, or the checkpoint cannot be read",
    ),
    Mutation(
        "a-cut-comes-before-what-the-woken-write",
        "crdtstream/engine.py",
        "        while self.region.replica.has_untaken_records and self._crash is None:\n",
        "        while False:\n",
        (ENGINE + "test_a_tick_ended_for_a_checkpoint_leaves_nothing_open",),
        "the node stops as a checkpoint begins",
    ),
    Mutation(
        "a-cut-comes-before-a-batch-that-the-woken-closed",
        "crdtstream/engine.py",
        "        while self.region.replica.has_untaken_records and self._crash is None:\n",
        "        while self.region.replica.has_open_section and self._crash is None:\n",
        (ENGINE + "test_a_tick_ended_for_a_checkpoint_leaves_nothing_open",),
        "the node stops as a checkpoint begins, if a blocked client had 16 MiB of writes held",
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
        "while size < PUT_BYTES.value and (taken := self._take(cut)) is not None:\n",
        "while not turn.is_over() and (taken := self._take(cut)) is not None:\n",
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
    Mutation(
        "a-restored-group-forgets-that-it-was-set-back",
        "crdtstream/core/checkpoint/restoring.py",
        "    progress.ignore_until = id_of(content.ignore_until)\n",
        "",
        (RESTARTED + "test_a_group_that_was_set_back_delivers_again_what_it_had_acknowledged",),
        "rule 11: after XGROUP SETID 0 and a restart nothing is delivered again",
    ),
    Mutation(
        "a-restored-group-forgets-what-it-had-left-out",
        "crdtstream/core/checkpoint/restoring.py",
        "    progress.has_left_out = content.has_left_out\n",
        "",
        (RESTARTED + "test_a_region_that_becomes_home_delivers_what_it_had_left_out",),
        "rule 13: what it jumped while others delivered is delivered nowhere",
    ),
    Mutation(
        "a-restored-group-forgets-for-which-creates-setid-was",
        "crdtstream/core/checkpoint/restoring.py",
        "        reading.position_known = frozenset(content.position_known)\n",
        "",
        (RESTARTED + "test_a_group_made_elsewhere_with_a_lower_start_begins_there_after_setid",),
        "I9: a group that begins lower elsewhere is not read from there",
    ),
)
