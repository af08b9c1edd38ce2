"""Planted bugs in what operators do with a region's folder."""

from typing import Final

from tests.mutations.mutation import Mutation

BACKUP: Final = "tests/upkeep/test_backup.py::"
FSCK: Final = "tests/upkeep/test_fsck.py::"
OF_STAGED: Final = "tests/upkeep/test_staged.py::"
STAGING: Final = "crdtstream/store/sqlite_staging.py"

UPKEEP: Final = (
    Mutation(
        "a-restored-folder-says-it-is-the-one",
        "crdtstream/upkeep/restore.py",
        "_restore(backup, folder, manifest, progress, _forget_opening)",
        "restore_as_new(\n        backup, folder, manifest, database_id=manifest.database_id,"
        " uid=DatabaseUid(bytes(16)), progress=progress\n    )",
        (BACKUP + "test_a_restored_folder_is_its_regions_and_proves_nothing",),
        "rule 18: a restored region gives dots away a second time",
    ),
    Mutation(
        "the-log-gets-its-name-first",
        "crdtstream/upkeep/restore.py",
        'RESTORING_FILE: Final = f"{LOG_FILE}.restoring"',
        "RESTORING_FILE: Final = LOG_FILE",
        (BACKUP + "test_a_restore_that_is_cut_off_leaves_no_log_and_can_be_done_again",),
        "a node starts with half a log",
    ),
    Mutation(
        "rows-are-taken-as-they-come",
        "crdtstream/upkeep/backup.py",
        "if row.seq != seq or record_crc(logged) != row.crc:",
        "if row.seq != seq:",
        (BACKUP + "test_an_incomplete_backup_leaves_nothing",),
        "what the node read wrongly is found when all has been written",
    ),
    Mutation(
        "frames-behind-a-damaged-one-are-not-looked-at",
        "crdtstream/store/wal.py",
        "            bad_at = number\n",
        "            break\n",
        ("tests/store/test_lost_end.py::test_damage_anywhere_in_a_frame_is_refused",),
        "commits lost in the WAL are not noticed",
    ),
    Mutation(
        "a-context-may-name-what-is-not-there",
        "crdtstream/upkeep/effects.py",
        "if not covers(self.vv, batch.context):",
        "if False:",
        (FSCK + "test_a_context_that_was_not_applied_before_is_found",),
        "a log whose rows cannot have been applied in this order passes",
    ),
    # --- States that are staged -------------------------------------------------------------------
    Mutation(
        "fsck-does-not-read-what-is-staged",
        "crdtstream/upkeep/fsck.py",
        "        staged.check()\n",
        "",
        (OF_STAGED + "test_damage_of_what_is_staged_is_found",),
        "fsck says ok, or ends with an error of its own, and the node cannot read entries",
    ),
    Mutation(
        "fsck-misses-no-staged-image",
        STAGING,
        "        if found is None or found[1] != found[0].sums:\n",
        "        if found is None:\n",
        (OF_STAGED + "test_damage_of_what_is_staged_is_found",),
        "fsck says ok, and a restart makes a state in which keys are missing",
    ),
    Mutation(
        "fsck-takes-half-a-copy-for-whole",
        STAGING,
        "        if not self.path.exists() or not _may_be_complete(self.path):\n",
        "        if not self.path.exists():\n",
        (OF_STAGED + "test_a_state_that_is_not_complete_is_not_the_one_that_was_merged",),
        "fsck says ok, and the node does not start",
    ),
    Mutation(
        "any-staged-state-is-the-merged-one",
        "crdtstream/store/staging.py",
        "    return cut is not None and (cut.id, cut.key) == (merged.cut_id, merged.key)\n",
        "    return cut is not None\n",
        (OF_STAGED + "test_another_state_that_is_staged_is_not_the_one_that_was_merged",),
        "I8: a restart merges another state than the one that its log names",
    ),
    Mutation(
        "fsck-needs-the-staging-for-good",
        "crdtstream/upkeep/state.py",
        "    bases = [one for one in sound if least_seq <= one.seq <= last_seq]\n",
        "    bases = [one for one in sound if least_seq < one.seq <= last_seq]\n",
        (OF_STAGED + "test_a_checkpoint_right_behind_the_merge_is_enough",),
        "fsck finds damage in each folder that has taken over a state",
    ),
    Mutation(
        "fsck-replays-what-is-staged-no-more",
        "crdtstream/upkeep/state.py",
        "if not is_staged(staged, merged))]",
        "if is_staged(staged, merged))]",
        (OF_STAGED + "test_once_a_checkpoint_has_it_the_staging_may_go",),
        "fsck finds damage in each folder that has taken over a state",
    ),
)
