"""Planted bugs in the engine and in the log: run, log, then tell."""

from typing import Final

from tests.mutations.mutation import Mutation

ENGINE_TESTS: Final = "tests/region/test_engine.py::"
ROWS: Final = "tests/store/test_rows.py::"
OPENING: Final = "tests/store/test_opening.py::"
DAMAGE: Final = "tests/store/test_log_damage.py::"
CHECKPOINTS: Final = "tests/store/test_checkpoints.py::"
STORE: Final = "tests/store/test_store.py::"
DURABLE: Final = "tests/replication/test_durable_version_vectors.py::"

ENGINE: Final = (
    Mutation(
        "a-stop-cuts-a-change-of-the-folder-short",
        "crdtstream/store/sqlite.py",
        "await asyncio.shield(asyncio.ensure_future(self._write_whole_meta(changed)))",
        "await self._write_whole_meta(changed)",
        (OPENING + "test_a_folder_is_whole_after_a_stop_that_cuts_a_change_of_it_short",),
        "a node stops while its folder is written, and does not start again: damaged (checksum)",
    ),
    Mutation(
        "reply-before-commit",
        "crdtstream/region/region.py",
        "            self.outstanding.add(records, parcels)\n",
        "            self.outstanding.add(records, [])\n            told += parcels\n",
        ("tests/region/test_region.py::test_a_write_is_told_of_after_its_commit",),
        "I7: OK was answered and a crash takes the write back",
    ),
    Mutation(
        "read-reply-does-not-wait",
        "crdtstream/region/region.py",
        "elif parcels and (self.fault is not None or not self.outstanding.hold(parcels)):",
        "elif parcels:",
        (
            "tests/region/test_region.py::test_replies_of_a_tick_wait_for_all_commits_they_could_have_seen",
        ),
        "I7: a reader was shown what a crash takes back",
    ),
    Mutation(
        "replies-out-of-order",
        "crdtstream/region/outstanding.py",
        "self._ticks[-1].parcels.extend(parcels)",
        "self._ticks[0].parcels.extend(parcels)",
        (
            "tests/region/test_region.py::test_a_read_waits_for_the_write_queued_last_not_for_the_one_under_way",
        ),
        "I7: a read answers before the write that it saw is in the log",
    ),
    Mutation(
        "failed-commit-is-dropped",
        "crdtstream/engine.py",
        "                pause = min(RETRY_SECONDS_MAX, pause * 2)\n",
        "                pause = min(RETRY_SECONDS_MAX, pause * 2)\n                break\n",
        (ENGINE_TESTS + "test_a_failed_commit_is_repeated_with_the_same_content",),
        "rule 19: after a full disk a region shows what its log does not have",
    ),
    Mutation(
        "waiting-clients-not-told-of-a-failure",
        "crdtstream/region/outstanding.py",
        "parcels = [parcel for tick in self._ticks for parcel in tick.parcels]",
        "parcels = [parcel for tick in [*self._ticks][:1] for parcel in tick.parcels]",
        (ENGINE_TESTS + "test_what_was_queued_behind_a_failed_commit_hears_of_it",),
        "rule 19: clients hang while the disk is full",
    ),
    Mutation(
        "logged-counts-as-durable",
        "crdtstream/engine.py",
        "is_durable = self.fsync is Fsync.ALWAYS",
        "is_durable = self.fsync is not Fsync.NO",
        (ENGINE_TESTS + "test_without_fsync_replies_wait_for_the_log_but_not_for_the_disk",),
        "rule 3: WAITAOF counts what a power cut takes back",
    ),
    Mutation(
        "committed-during-a-sync-counts-as-synced",
        "crdtstream/engine.py",
        "        self.region.note_synced(mark, self.now())",
        "        self.region.note_synced(self.region.outstanding.mark(), self.now())",
        (DURABLE + "test_what_is_committed_during_a_sync_waits_for_the_next_one",),
        "rule 3: a power cut takes back what was told to be durable",
    ),
    Mutation(
        "stability-from-applied",
        "crdtstream/region/region.py",
        "self.knowledge.stable(self.outstanding.durable_vv)",
        "self.knowledge.stable(self.replica.vv)",
        (DURABLE + "test_nothing_is_stable_that_is_not_durable_here",),
        "rule 3: tombstones go that a power cut would make needed again",
    ),
    Mutation(
        "stability-from-logged",
        "crdtstream/region/region.py",
        "self.knowledge.stable(self.outstanding.durable_vv)",
        "self.knowledge.stable(self.outstanding.logged_vv)",
        (DURABLE + "test_nothing_is_stable_that_is_not_durable_here",),
        "rule 3: tombstones go that a power cut would make needed again",
    ),
    Mutation(
        "peers-forget-what-they-had",
        "crdtstream/region/knowledge.py",
        "= dict(known or {})",
        "= dict(durable_vv)",
        (
            "tests/region/test_region.py::test_older_news_of_a_peer_add_to_what_is_known_and_take_nothing_back",
        ),
        "gossip that is older takes back what an ack has told",
    ),
    Mutation(
        "records-kept-where-nothing-was-deleted",
        "crdtstream/region/region.py",
        "        if self.replica.kept_until_stable and not",
        "        if self.replica.tombstone_count and not",
        ("tests/region/test_region.py::test_idempotency_records_go_when_every_region_has_them",),
        "memory grows for ever",
    ),
    Mutation(
        "commit-past-the-committer",
        "crdtstream/engine.py",
        "        if self._rests and not self._wake.is_set():\n",
        "        if self._rests or self._wake.is_set():\n",
        (ENGINE_TESTS + "test_ticks_during_a_failed_commit_are_logged_behind_it",),
        "I3: records are logged in another order than they were applied in",
    ),
    Mutation(
        "refused-at-once-is-dropped",
        "crdtstream/engine.py",
        "                self._refused = records\n",
        "",
        (ENGINE_TESTS + "test_a_failed_commit_is_repeated_with_the_same_content[at once]",),
        "rule 19: after a full disk a region shows what its log does not have",
    ),
    # --- The log ---
    Mutation(
        "commit-past-the-turn",
        "crdtstream/store/connections.py",
        "return not self.turn.locked() and not self._must_wait_for_wal(WAL_BYTES_COMMITS_MAX)",
        "return not self._must_wait_for_wal(WAL_BYTES_COMMITS_MAX)",
        ("tests/store/test_at_once.py::test_nothing_is_committed_past_who_has_the_turn[everysec]",),
        "the event loop waits for a checkpoint's transaction",
    ),
    Mutation(
        "cancelled-hand-off-gives-the-turn-away",
        "crdtstream/store/writer.py",
        "            await asyncio.wait((running,))\n",
        "",
        ("tests/store/test_at_once.py::test_a_cancelled_hand_off_keeps_the_turn_until_it_is_done",),
        "two threads use one connection",
    ),
    Mutation(
        "trial-of-a-slow-disk-without-end",
        "crdtstream/store/pace.py",
        "            self._rest_ns = min(REST_NS_MAX, 2 * self._rest_ns)\n",
        "",
        (
            "tests/store/test_pace.py::test_each_failed_trial_makes_the_rest_twice_as_long_up_to_a_bound",
        ),
        "a slow disk holds the event loop every second",
    ),
    Mutation(
        "checksum-not-looked-at",
        "crdtstream/store/rows.py",
        "is_sound = columns_crc(seq, origin, first_n, last_n, batch, local) == crc\n",
        "is_sound = bool(crc)\n",
        (DAMAGE + "test_one_changed_bit_is_noticed[batch]",),
        "a damaged row is replayed and sent",
    ),
    Mutation(
        "checksum-without-local-changes",
        "crdtstream/store/rows.py",
        'return zlib.crc32(local or b"", zlib.crc32(batch or b"", crc))',
        'return zlib.crc32(batch or b"", crc)',
        (DAMAGE + "test_one_changed_bit_is_noticed[local]",),
        "damaged positions and pending entries are replayed",
    ),
    Mutation(
        "reads-are-bounded-by-what-rows-take-in-the-table",
        "crdtstream/store/row_queries.py",
        "        if taken and total + size > bytes_max:\n",
        "        if taken and stored > bytes_max:\n",
        (ROWS + "test_what_a_read_returns_is_bounded_as_it_is_unpacked",),
        "a link that catches up has a GiB in memory, as a thousand rows pack well",
    ),
    Mutation(
        "a-batch-that-looks-packed-stands-as-it-is",
        "crdtstream/store/rows.py",
        "        must_be_told_apart = batch.startswith(FRAME_MAGIC)\n",
        "        must_be_told_apart = False\n",
        (ROWS + "test_a_row_is_read_back_as_it_was",),
        "a row that was written well is read as damaged",
    ),
    Mutation(
        "missing-row-goes-unnoticed",
        "crdtstream/store/sqlite.py",
        "        if count != len(rows):\n",
        "        if count > len(rows):\n",
        (DAMAGE + "test_a_log_without_one_of_its_rows_is_not_opened",),
        "a region goes on without some of its effects",
    ),
    Mutation(
        "older-rows-are-not-counted-before-they-are-cut",
        "crdtstream/store/sqlite.py",
        "        await self.count_older()\n        if upto_seq",
        "        if upto_seq",
        (DAMAGE + "test_a_row_that_only_members_need_is_missed_before_it_matters",),
        "a lost row is forgotten, and a region that lacked it is told of a wrong beginning",
    ),
    Mutation(
        "crash-looks-like-a-clean-end",
        "crdtstream/store/sqlite.py",
        '        await self.set_meta("clean_shutdown", "no")\n',
        "",
        (OPENING + "test_without_fsync_only_a_clean_stop_proves",),
        "rule 18: a region that lost its log's end goes on numbering",
    ),
    Mutation(
        "seek-passes-over-the-next-batch",
        "crdtstream/store/sqlite.py",
        "origin = ? AND last_n > ? AND batch IS NOT NULL",
        "origin = ? AND last_n > ? + 1 AND batch IS NOT NULL",
        (STORE + "test_seek_finds_the_first_batch_beyond_a_version_vector",),
        "a link that comes back misses a batch",
    ),
    Mutation(
        "tail-off-by-one",
        "crdtstream/store/tail.py",
        "from_end = self.records[-1].seq - seq + 1\n",
        "from_end = self.records[-1].seq - seq\n",
        (STORE + "test_the_tail_is_the_end_of_the_log",),
        "a link that is up to date misses a batch",
    ),
    Mutation(
        "checkpoint-without-sum",
        "crdtstream/store/sqlite_checkpoints.py",
        "            yield images\n        if sums != stored.sums:",
        "            yield images\n        if sums.images > stored.sums.images:",
        (
            CHECKPOINTS
            + "test_a_damaged_checkpoint_falls_back_to_the_one_before[an image is missing]",
        ),
        "a page that lost some images is a state without some entries",
    ),
    Mutation(
        "what-died-stays-dead",
        "crdtstream/store/sqlite_checkpoints.py",
        'f"UPDATE image SET died = NULL WHERE number',
        'f"UPDATE image SET died = died WHERE number',
        (CHECKPOINTS + "test_a_discarded_checkpoint_leaves_the_one_before_as_it_was[sqlite]",),
        "after a crash within a checkpoint the one before lacks images",
    ),
    Mutation(
        "log-cut-without-verifying",
        "crdtstream/store/checkpoints.py",
        "if not any(one.is_verified for one in checkpoints) or covered < upto_seq:",
        "if covered < upto_seq:",
        (CHECKPOINTS + "test_a_log_is_cut_behind_a_verified_checkpoint_only[sqlite]",),
        "a damaged checkpoint has no log behind the one before it any more",
    ),
    Mutation(
        "lost-end-not-noticed",
        "crdtstream/store/sqlite.py",
        "                self._check_last(told.seq, self._last_seq)\n",
        "                assert told\n",
        (CHECKPOINTS + "test_a_lost_end_of_the_log_is_noticed",),
        "I3: acknowledged writes are gone after a restart, and their dots are used again",
    ),
)
