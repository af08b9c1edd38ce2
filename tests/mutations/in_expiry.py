"""Planted bugs about time: the end of keys, its delete, the window of idempotent producers."""

from typing import Final

from tests.mutations.mutation import Mutation

EXPIRE: Final = "tests/rules/test_expire_key.py::"
AGAIN: Final = EXPIRE + "test_a_group_made_again_after_the_deadline_survives_the_delete"
SCENARIO: Final = "tests/scenario/test_scenarios.py::test_scenario"
DELETED: Final = "tests/rules/test_deleted_and_again.py::"
FLOORS: Final = "tests/core/test_floors.py::"
HANGS: Final = EXPIRE + "test_what_hangs_on_a_create_goes_with_it"

EXPIRIES: Final = (
    Mutation(
        "flushall-knows-nothing-of-what-expired",
        "crdtstream/commands/keys/keys.py",
        "in replica.remembered_keys()",
        "in replica.known_keys()",
        (SCENARIO + "[0-keys/flushall-forgets-what-expired]",),
        "rule 8: in an empty database a stream begins above IDs that nobody can see",
    ),
    Mutation(
        "expiry-deletes-as-a-user-does",
        "crdtstream/core/issuing/issuer.py",
        "        self.issue(ExpireKey(key))\n",
        "        self.issue(DeleteKey(key))\n",
        (AGAIN,),
        "rule 7: a group made again after the deadline is lost though OK was answered",
    ),
    Mutation(
        "expiry-leaves-a-tombstone",
        "crdtstream/core/applying/apply_effect.py",
        "            _expire_key(state, effect, dot, context)\n",
        "            state.tombstones.add(dot, effect.key, None)\n"
        "            _expire_key(state, effect, dot, context)\n",
        (AGAIN, EXPIRE + "test_a_tombstone_is_left_by_del_and_not_by_expiry"),
        "rule 7: a group made again after the deadline is lost though OK was answered",
    ),
    Mutation(
        "expiry-ends-creates-that-it-had-not-observed",
        "crdtstream/core/groups/creates.py",
        "gone = [dot for dot in self._by_dot if covers_dot(context, dot)]",
        "gone = list(self._by_dot)",
        (HANGS,),
        "rule 7: a concurrent group goes, in some regions",
    ),
    Mutation(
        "expiry-leaves-deadlines",
        "crdtstream/core/applying/apply_effect.py",
        "        registers.forget_covered_by(context)\n        keys.judge_deadline",
        "        keys.judge_deadline",
        (SCENARIO + "[0-keys/an-expired-key-begins-again]",),
        "a deadline that is over ends the stream that begins after it",
    ),
    Mutation(
        "interval-stays-when-its-create-ended",
        "crdtstream/core/groups/creates.py",
        "        self.intervals = {}\n        self.mode = ModeRegister()\n        for",
        "        self.mode = ModeRegister()\n        for",
        (HANGS,),
        "what the group's name stood for before counts as acknowledged, in some regions",
    ),
    Mutation(
        "mode-stays-when-its-create-ended",
        "crdtstream/core/groups/creates.py",
        "        self.intervals = {}\n        self.mode = ModeRegister()\n        for",
        "        self.intervals = {}\n        for",
        (HANGS,),
        "regions differ about who hands out",
    ),
    Mutation(
        "due-for-good",
        "crdtstream/core/keyspace/expiry.py",
        "while self._passed and -self._passed[0][0] > self._now:",
        "while False:",
        (EXPIRE + "test_a_key_comes_back_with_a_clock_that_is_set_back",),
        "rule 7: expiry outlives a clock that was set back, and the next write deletes the key",
    ),
    Mutation(
        "due-here-for-good",
        "crdtstream/core/keyspace/expiry.py",
        "            self.due.remove(key)\n            self._due_here.pop(key, None)\n",
        "            self.due.remove(key)\n",
        (EXPIRE + "test_the_region_of_the_deadline_spares_it_when_its_clock_was_set_back_in_time",),
        "a key is deleted that is not over",
    ),
    Mutation(
        "a-lane-begins-again-under-a-group-that-read-further",
        "crdtstream/core/applying/apply_effect.py",
        "                    state.floors.raise_to(key, origin, last.id, dot)\n",
        "                    pass\n",
        (EXPIRE + "test_a_key_begins_again_at_any_id_once_no_group_can_have_read_further",),
        "an entry is handed out nowhere",
    ),
    Mutation(
        "a-delete-forgets-a-floor-that-it-had-not-observed",
        "crdtstream/core/keyspace/floors.py",
        "            if covers(context, floor.expiries):\n",
        "            if True:\n",
        (SCENARIO + "[0-keys/a-delete-spares-a-floor-it-had-not-observed]",),
        "rule 7: an entry lies in what a group behind the delete has read, and is never handed out",
    ),
    Mutation(
        "a-window-names-what-a-delete-took",
        "crdtstream/core/producers/idempotency.py",
        "if not has_lost and not covers_dot(records.deleted, dot):",
        "if not has_lost:",
        (DELETED + "test_a_retry_is_a_new_entry_if_all_that_had_its_id_went_with_the_key",),
        "rule 20: a retry is answered with the ID of an entry that was deleted with its key",
    ),
    Mutation(
        "a-window-keeps-what-gave-way-to-one-that-gave-way",
        "crdtstream/core/applying/settling.py",
        "            stream.window.forget(idempotent)\n",
        "            pass\n",
        (DELETED + "test_a_message_that_gave_way_to_one_that_gave_way_is_recognised_no_more",),
        "rule 20: a retry is answered with the ID of an entry that gave way, and is lost",
    ),
    Mutation(
        "a-window-names-the-smallest-dot",
        "crdtstream/core/producers/idempotency.py",
        "in reversed(records.by_name[idempotent].items()):",
        "in sorted(records.by_name[idempotent].items()):",
        (DELETED + "test_a_retry_is_taken_for_the_last_of_several",),
        "rule 20: a delete of the earlier makes the retry of the later a second entry",
    ),
    Mutation(
        "a-checkpoint-forgets-which-records-a-delete-took",
        "crdtstream/core/checkpoint/restoring.py",
        "        state.idempotency.note_deleted(key.key, content.deleted)\n",
        "",
        (DELETED + "test_a_checkpoint_has_what_a_delete_took",),
        "rule 20: after a restart a retry is taken for an entry that was deleted with its key",
    ),
    Mutation(
        "a-floor-ends-with-the-first-expiry",
        "crdtstream/core/keyspace/floors.py",
        "if all(covers(stable, floor.expiries) for floor in floors.values())",
        "if any(stable.get(r, 0) >= n for f in floors.values() for r, n in f.expiries.items())",
        (FLOORS + "test_a_floor_lasts_until_all_its_expiries_are_stable",),
        "rule 7: an entry is handed out nowhere",
    ),
    Mutation(
        "a-floor-ends-with-the-first-expiry-of-a-region",
        "crdtstream/core/keyspace/floors.py",
        "            join(expiries, before.expiries)\n",
        "            expiries |= before.expiries\n",
        (FLOORS + "test_a_floor_lasts_until_the_last_expiry_of_a_region_is_stable",),
        "rule 7: an entry is handed out nowhere",
    ),
    Mutation(
        "window-counts-from-the-id",
        "crdtstream/core/producers/idempotency.py",
        "    return now - tracked.arrived >= duration_s * 1000\n",
        "    return now - (tracked.entry_id >> 64) >= duration_s * 1000\n",
        (SCENARIO + "[0-producers/a-clock-a-day-ahead]",),
        "rule 20: a retry in a region whose clock is ahead makes a second entry",
    ),
)
