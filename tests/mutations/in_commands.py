"""Planted bugs in commands: transactions, clients that wait, trimming."""

from typing import Final

from tests.mutations.mutation import Mutation

DATABASE: Final = "tests/database/test_database.py::"
WAITING: Final = "tests/database/test_waiting.py::"
TIME_IS_OVER: Final = "tests/database/test_time_is_over.py::"
VERSIONS: Final = "tests/commands/test_stream_commands_8x.py::"
NEVER_SKIP: Final = "tests/commands/test_never_skip.py::"
SLOW: Final = "tests/region/test_answering.py::"
COMMANDS_TESTS: Final = "tests/commands/test_commands.py::"

COMMANDS: Final = (
    Mutation(
        "watch-sleeps-through-changes",
        "crdtstream/database/serving.py",
        "            keys = sorted(touched)\n"
        "            touched.clear()\n"
        "            transactions.note_changed(keys)\n",
        "            keys = sorted(touched)\n            touched.clear()\n",
        (DATABASE + "test_watch_trips_when_the_key_changes",),
        "a transaction overwrites what another client wrote meanwhile",
    ),
    Mutation(
        "a-large-reply-is-one-part",
        "crdtstream/commands/streams/entries.py",
        "in islice(chosen, ENTRIES_PER_PART.value)",
        "in islice(chosen, None)",
        ("tests/commands/test_large_replies.py::test_a_large_reply_is_never_joined",),
        "an XREVRANGE of everything, or an XRANGE of two lanes, is in memory twice",
    ),
    Mutation(
        "watch-sees-acknowledgements",
        "crdtstream/core/applying/apply_effect.py",
        "            touches = False\n            _ack_frontier",
        "            _ack_frontier",
        (DATABASE + "test_watch_does_not_trip_on_acknowledgements_here_or_elsewhere",),
        "nobody can run a transaction on a stream that others consume",
    ),
    Mutation(
        "a-woken-reader-trusts-its-keys",
        "crdtstream/commands/streams/xread.py",
        "            stream_or_none(replica, key)\n",
        "            replica.stream(key)\n",
        ("tests/like_redis/test_scripts.py",),
        "a reader of a key that became a string is served as if nothing had happened",
    ),
    Mutation(
        "watch-sees-what-deletes-nothing",
        "crdtstream/core/applying/apply_effect.py",
        "            touches = _remove(state, effect, context)\n",
        "            _remove(state, effect, context)\n",
        ("tests/like_redis/test_scripts.py",),
        "XDELEX DELREF of an entry that is not there has a transaction of others refused",
    ),
    Mutation(
        "watch-sleeps-through-expiry",
        "crdtstream/database/database.py",
        "as EXEC has to know.\n            self._transactions.note_changed(self.replica.touched)\n",
        "as EXEC has to know.\n            pass\n",
        (
            DATABASE + "test_a_watched_key_that_expires_is_a_change",
            "tests/commands/test_expiry.py::test_expiry_trips_watch",
        ),
        "a transaction runs although its key is gone",
    ),
    Mutation(
        "unwatch-keeps-the-key-tripped",
        "crdtstream/database/transactions.py",
        "        session.dirty = False\n",
        "        session.dirty = bool(session.dirty)\n",
        (DATABASE + "test_unwatch_untrips",),
        "UNWATCH does not help",
    ),
    Mutation(
        "transaction-split-over-batches",
        "crdtstream/database/database.py",
        "        reply = self._run(handler, session, now, argv)\n"
        "        if not isinstance(reply, Blocked):\n",
        "        reply = self._run(handler, session, now, argv)\n"
        "        self.replica.seal(now)\n"
        "        if not isinstance(reply, Blocked):\n",
        (DATABASE + "test_a_transaction_is_one_batch",),
        "another region shows half of a MULTI",
    ),
    Mutation(
        "transaction-runs-after-an-error-in-its-queue",
        "crdtstream/database/refusing.py",
        "            session.queue_broken = True\n",
        "            session.queue_broken = False\n",
        (DATABASE + "test_a_command_refused_when_queued_aborts_exec",),
        "half of a MULTI runs",
    ),
    Mutation(
        "last-come-first-served",
        "crdtstream/database/waiting.py",
        "return [found[seq] for seq in sorted(found)]",
        "return [found[seq] for seq in sorted(found, reverse=True)]",
        (WAITING + "test_one_entry_serves_the_group_reader_who_came_first",),
        "who waits longest gets nothing under load",
    ),
    Mutation(
        "blocked-client-wakes-one-ms-late",
        "crdtstream/database/waiting.py",
        "is_over = waiter.deadline is not None and waiter.deadline <= now",
        "is_over = waiter.deadline is not None and waiter.deadline < now",
        (TIME_IS_OVER + "test_a_blocked_client_is_answered_in_its_last_millisecond",),
        "a client whose time is over waits on",
    ),
    Mutation(
        "writes-go-on-while-the-disk-refuses",
        "crdtstream/database/database.py",
        "        if self.fault is not None and (handler.writes or",
        "        if self.fault == b'' and (handler.writes or",
        (DATABASE + "test_only_writes_are_refused_while_the_disk_refuses",),
        "writes are taken that no disk holds",
    ),
    Mutation(
        "blocked-writer-served-while-the-disk-refuses",
        "crdtstream/database/database.py",
        "if waiter.handler.writes and self.fault is not None:",
        "if waiter.handler.writes and self.fault == b'':",
        (WAITING + "test_blocked_writers_hear_of_a_refusing_disk",),
        "entries are handed out that no disk knows to be pending",
    ),
    Mutation(
        "deadline-fires-while-the-disk-refuses",
        "crdtstream/database/database.py",
        "        if self.fault is None:\n            self.replica.expire_due()\n",
        "        self.replica.expire_due()\n",
        ("tests/commands/test_expiry.py::test_nobody_is_deleted_while_the_disk_refuses_writes",),
        "effects are issued by a region that must not",
    ),
    Mutation(
        "trim-leaves-one-too-few",
        "crdtstream/commands/streams/trimming.py",
        "    excess = stream.length + more - trimming.maxlen\n",
        "    excess = stream.length + more - trimming.maxlen + 1\n",
        (COMMANDS_TESTS + "test_trimming_takes_the_lowest_ids_over_all_lanes",),
        "XTRIM MAXLEN n leaves n - 1",
    ),
    Mutation(
        "approximate-trim-takes-more-than-asked",
        "crdtstream/commands/streams/trimming.py",
        "return self._length - len(piece) >= trimming.maxlen",
        "return self._length > trimming.maxlen",
        (COMMANDS_TESTS + "test_approximate_trimming_takes_whole_macro_nodes",),
        "XTRIM MAXLEN ~ n leaves fewer than n",
    ),
    Mutation(
        "approximate-trim-takes-one-id-too-many",
        "crdtstream/commands/streams/trimming.py",
        "return piece.highest_id < (trimming.minid or ID_MIN)",
        "return piece.highest_id <= (trimming.minid or ID_MIN)",
        (COMMANDS_TESTS + "test_approximate_trimming_takes_whole_macro_nodes",),
        "XTRIM MINID ~ takes the entry it names",
    ),
    Mutation(
        "acked-looks-at-one-group",
        "crdtstream/commands/streams/delete_policies.py",
        "return all(group.is_settled(lane, entry_id, alone=alone) for group in groups)",
        "return any(group.is_settled(lane, entry_id, alone=alone) for group in groups)",
        ("tests/commands/test_acked_by_every_group.py::test_acked_waits_for_every_group",),
        "XDELEX ACKED takes what another group has still to read",
    ),
    # --- XREAD that skips nothing ---
    Mutation(
        "late-entries-are-taken-for-given",
        "crdtstream/commands/streams/never_skip.py",
        "            n = min(n, lane.last_n_before(arrived))\n",
        "            pass\n",
        (NEVER_SKIP + "test_another_connection_is_given_what_arrived_later_than_its_id[False]",),
        "a reader who connects again skips what came late",
    ),
    Mutation(
        "what-arrived-before-is-taken-for-given",
        "crdtstream/commands/streams/never_skip.py",
        "            n = min(n, lane.last_n_before(arrived))\n",
        "            n = lane.last_n_before(arrived)\n",
        (NEVER_SKIP + "test_entries_above_the_id_are_returned_although_they_arrived_before",),
        "a reader with COUNT skips what he had not come to",
    ),
    Mutation(
        "what-count-leaves-out-is-taken-for-given",
        "crdtstream/commands/streams/never_skip.py",
        "        after[region] = max(after.get(region, 0), node.n[index])\n",
        "        after = dict(replica.vv)\n",
        (NEVER_SKIP + "test_a_partial_reply_gives_only_what_it_holds",),
        "a partial reply counts as all there was",
    ),
    Mutation(
        "any-id-is-the-latest-one",
        "crdtstream/commands/streams/never_skip.py",
        "            had = _had_at(given, stream, entry_id)\n",
        "            had = given.after\n",
        (NEVER_SKIP + "test_an_id_stands_for_the_reply_that_had_it",),
        "a reader who failed, and asks again, skips what he had failed with",
    ),
    Mutation(
        "arrivals-go-back-with-the-clock",
        "crdtstream/core/keyspace/keyspace.py",
        "        if now > self.arrival:\n            self.arrival = now\n",
        "        self.arrival = now\n",
        (NEVER_SKIP + "test_a_clock_that_is_set_back_hides_nothing",),
        "what comes after a clock was set back counts as there before",
    ),
    Mutation(
        "a-gone-entry-never-was",
        "crdtstream/commands/streams/never_skip.py",
        "    return gone | found\n",
        "    return found\n",
        (NEVER_SKIP + "test_an_id_whose_entry_is_gone_skips_nothing[XDEL x 130-1-strict]",),
        "a reader whose last entry was deleted skips what came late",
    ),
    Mutation(
        "plus-is-the-last-of-what-comes-at-once",
        "crdtstream/commands/streams/never_skip.py",
        'shows_last=text == b"+" and not is_empty',
        'shows_last=text == b"+"',
        (NEVER_SKIP + "test_plus_of_an_empty_stream_skips_nothing_of_what_comes_at_once",),
        "a reader who waits for the first entry skips it when two come at once",
    ),
    Mutation(
        "a-string-is-an-empty-stream",
        "crdtstream/commands/streams/never_skip.py",
        "    stream = stream_or_none(replica, key)\n    if text in",
        "    stream = replica.stream(key)\n    if text in",
        (NEVER_SKIP + "test_a_string_is_no_stream",),
        "a reader of a string waits for ever and is told nothing",
    ),
    Mutation(
        "a-broken-append-changed-nothing",
        "crdtstream/region/clients.py",
        "        return replica.has_unsettled_changes or has_appended\n",
        "        return replica.has_unsettled_changes\n",
        (
            (
                "tests/resp/test_bugs.py::"
                "test_a_run_that_breaks_half_way_ends_the_node_and_leaves_nothing"
            ),
        ),
        "half of what a bug broke off is logged, and the rest of it is told as refused",
    ),
    Mutation(
        "a-region-is-well-as-soon-as-it-is-within-the-bound",
        "crdtstream/region/answering.py",
        "self.ms_max // 2 if self._is_slow else self.ms_max",
        "self.ms_max",
        (SLOW + "test_a_slow_region_is_so_until_it_takes_less_than_half_of_the_bound",),
        "clients who left a slow region come back at once, and make it slow again",
    ),
    # --- The announced version ---
    Mutation(
        "newer-fields-are-told",
        "crdtstream/commands/streams/newer_fields.py",
        "if SINCE.get(name, announced) <= announced]",
        "if SINCE.get(name, announced) <= (9,)]",
        (VERSIONS + "test_xinfo_has_the_keys_of_the_announced_version[8.2.3-stream1-group1]",),
        "go-redis, and KEDA with it, ends in an error at a key that it does not know",
    ),
)
