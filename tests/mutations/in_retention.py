"""Planted bugs in what the log is kept for, and in serving from a log that was cut."""

from typing import Final

from tests.mutations.mutation import Mutation

RETENTION: Final = "crdtstream/region/retention.py"
TABLES: Final = "tests/region/test_retention.py::"
STORED: Final = "tests/store/test_checkpoints.py::"
LIVE: Final = "tests/replication/test_cut_logs.py::"
ALONE: Final = "tests/live/test_only_copies.py::"

TURN: Final = "tests/store/test_turns.py::test_a_turn_of_a_checkpoint_is_bounded"
ROOM: Final = "tests/region/test_room.py::"
ENGINE: Final = "tests/region/test_engine.py::"

RETAINING: Final = (
    Mutation(
        "the-only-copy-is-cut",
        "crdtstream/engine/cutting.py",
        "only_copy_seq = await _first_beyond(retention.elsewhere_vv, log, origins)",
        "only_copy_seq = log.last_seq + 1",
        (
            LIVE + "test_two_regions_that_were_alone_for_too_long_converge_by_their_logs",
            LIVE + "test_effects_of_a_third_region_that_no_member_has_are_kept",
            ALONE + "test_regions_alone_for_longer_than_the_backlog_converge_by_their_logs",
        ),
        "two regions that were alone for longer than the backlog differ for ever",
    ),
    Mutation(
        "what-was-cut-is-looked-for-in-the-log",
        RETENTION,
        "elsewhere: MutableVersionVector = dict(self.begins)",
        "elsewhere: MutableVersionVector = {}",
        (TABLES + "test_a_member_that_needs_a_bootstrap_holds_what_only_this_log_has",),
        "the log is never cut again once a region needs a bootstrap",
    ),
    Mutation(
        "what-is-staged-counts-as-a-copy",
        RETENTION,
        "            join(elsewhere, self._members[number].durable_vv or {})\n",
        "            join(elsewhere, self._members[number].will_have_vv or {})\n",
        (TABLES + "test_a_member_that_takes_over_a_state_needs_what_that_lacks",),
        "the only durable copy is cut for one that is being made",
    ),
    Mutation(
        "what-a-state-lacks-is-kept-as-for-anybody",
        RETENTION,
        "        if member.staging_vv is not None and away_ms < STALLED_MS.value:\n",
        "        if False:\n",
        (TABLES + "test_a_member_that_takes_over_a_state_needs_what_that_lacks",),
        "a state that takes long is old before it is there, again and again",
    ),
    Mutation(
        "given-up-though-nothing-of-it-is-elsewhere",
        RETENTION,
        "if keeping is Keeping.GIVEN_UP and is_only_copy:",
        "if keeping is Keeping.GIVEN_UP and not is_only_copy:",
        (TABLES + "test_a_record_that_no_other_member_has_is_kept_beyond_the_bounds",),
        "operators read that the log may be cut while it fills the disk",
    ),
    Mutation(
        "a-bootstrap-lets-only-copies-go",
        RETENTION,
        "        if self._peers.active:\n            needed.append(only_copy_seq - 1)\n",
        "        if any(one.holds for one in self.held.values()):\n"
        "            needed.append(only_copy_seq - 1)\n",
        (TABLES + "test_a_member_that_needs_a_bootstrap_holds_what_only_this_log_has",),
        "what a region that needs a bootstrap could still be sent by nobody else is cut",
    ),
    Mutation(
        "cut-by-what-is-not-durable",
        "crdtstream/region/links/links.py",
        "own.retention.note_opened(region, opening.vv)",
        "own.retention.note_durable(region, opening.vv)",
        (LIVE + "test_nothing_is_cut_that_a_member_has_not_made_durable",),
        "rules 3: a power cut at a peer takes effects that no log has any more",
    ),
    Mutation(
        "old-gossip-counts-after-a-lost-disk",
        RETENTION,
        "if member is not None and member.word_after is None:",
        "if member is not None:",
        (TABLES + "test_a_member_that_lost_its_disk_is_taken_at_its_own_word",),
        "the log is cut for a member that lost what it had",
    ),
    Mutation(
        "silent-member-lacks-nothing",
        RETENTION,
        "if vv is not None and not covers(vv, self.begins)",
        "if not covers(vv or {}, self.begins)",
        (TABLES + "test_a_peer_silent_since_the_start_may_lack_the_whole_log",),
        "after each restart the log is cut before anybody has said what it has",
    ),
    Mutation(
        "uncounted-rows-take-nothing",
        "crdtstream/store/sqlite.py",
        "        await self.count_older()\n        return self._bytes_from(seq)\n",
        "        return self._bytes_from(seq)\n",
        (STORED + "test_the_size_of_the_log_is_known_before_its_rows_are_counted",),
        "rules 17: after a restart the log that is kept for a member that is away is cut",
    ),
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
        "a-gap-is-served",
        "crdtstream/region/links/serve.py",
        "        self.origins -= unserved\n",
        "",
        ("tests/region/test_serve.py::test_an_origin_that_was_cut_is_left_out_of_what_is_relayed",),
        "rules 17: a region that lacks what was cut gets what comes behind it",
    ),
    Mutation(
        "away-for-ever",
        RETENTION,
        " and is_in_time",
        "",
        (TABLES + "test_the_log_is_kept_for_a_peer_within_the_backlog_bounds",),
        "a region that was given up long ago fills the disks of all others",
    ),
    Mutation(
        "a-restart-prolongs-an-absence",
        RETENTION,
        "                member.since_ms = Millis(since_ms)\n",
        "                pass\n",
        (TABLES + "test_a_restart_does_not_prolong_how_long_a_member_is_waited_for",),
        "a node that restarts each hour keeps its log for a region that never comes back",
    ),
    Mutation(
        "a-member-is-given-up-before-it-can-link",
        RETENTION,
        "away_ms <= ttl_ms or now - self._started_ms <= min(ttl_ms, STALLED_MS.value)",
        "away_ms <= ttl_ms",
        (TABLES + "test_an_away_peer_has_a_minute_to_reconnect_after_a_restart",),
        "a member that came back while a node was down needs a bootstrap for nothing",
    ),
    Mutation(
        "always-without-a-sync",
        "crdtstream/engine/agenda.py",
        "mark = self.region.outstanding.mark() if fsync is Fsync.ALWAYS else None",
        "mark = None",
        (ENGINE + "test_always_begins_with_a_sync_of_what_was_committed_without_one",),
        "appendfsync always answers, and a power cut takes what came before",
    ),
    Mutation(
        "transaction-passes-maxmemory",
        "crdtstream/database/database.py",
        "(handler.adds or adds_by_exec(session, handler))",
        "handler.adds",
        (ROOM + "test_a_transaction_that_adds_data_is_discarded_as_in_redis",),
        "a client that uses MULTI fills memory",
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
        "links-wait-for-a-disk-that-refuses",
        "crdtstream/region/checkpointing.py",
        "is_coming and not self.failure",
        "is_coming",
        (ROOM + "test_links_are_never_held_for_good",),
        "a full disk stops replication too",
    ),
    Mutation(
        "a-checkpoint-that-was-asked-for-is-not-in-progress",
        "crdtstream/region/checkpointing.py",
        "return self.began_ms is not None or self.is_coming",
        "return self.began_ms is not None",
        ("tests/resp/test_saving.py::test_bgsave_asks_for_a_checkpoint",),
        "a backup script that waits for BGSAVE copies the folder before it has begun",
    ),
    Mutation(
        "compaction-looks-at-all-streams-in-one-step",
        "crdtstream/core/lanes/compaction.py",
        "while limits.small and looked_at < LOOKED_AT_MAX.value:",
        "while limits.small:",
        (TURN,),
        "a checkpoint of a million short streams holds the event loop for seconds",
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
        "parts-are-taken-in-one-turn",
        "crdtstream/engine/checkpointer.py",
        "cut.take_some(PUT_BYTES.value - size, turn.is_over)",
        "cut.take_some(PUT_BYTES.value - size, lambda: False)",
        (TURN,),
        "a checkpoint holds the event loop for each mebibyte that it writes",
    ),
    Mutation(
        "links-outrun-checkpoints",
        "crdtstream/region/holding.py",
        "            or self._checkpointing.holds_links\n",
        "",
        (ROOM + "test_batches_of_other_regions_wait_for_a_late_checkpoint",),
        "a restart reads all that was pulled while the first checkpoint was written",
    ),
    Mutation(
        "links-read-while-nothing-is-applied",
        "crdtstream/region/links/pull.py",
        "return not inbox.full and not (len(inbox) and self._own.holding.holds_links)",
        "return not inbox.full",
        ("tests/region/test_pull.py::test_it_reads_nothing_more_while_nothing_is_applied",),
        "inboxes take more than what leaves memory gives",
    ),
)
