"""Planted bugs in what operators do with a region's folder."""

from typing import Final

from tests.mutations.mutation import Mutation

BACKUP: Final = "tests/upkeep/test_backup.py::"
FSCK: Final = "tests/upkeep/test_fsck.py::"

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
        (BACKUP + "test_what_is_not_whole_leaves_nothing",),
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
)
