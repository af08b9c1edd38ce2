"""Planted bugs in commands: transactions, clients that wait, trimming."""

from typing import Final

from tests.mutations.mutation import Mutation

DATABASE: Final = "tests/database/test_database.py::"
TIME_IS_OVER: Final = "tests/database/test_time_is_over.py::"
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
        "watch-sleeps-through-expiry",
        "crdtstream/database/database.py",
        "as EXEC has to know.\n"
        "                self._transactions.note_changed(self.replica.touched)\n",
        "as EXEC has to know.\n                pass\n",
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
        (DATABASE + "test_one_entry_serves_the_group_reader_who_came_first",),
        "who waits longest gets nothing under load",
    ),
    Mutation(
        "blocked-client-wakes-one-ms-late",
        "crdtstream/database/waiting.py",
        "if waiter.deadline is not None and waiter.deadline <= now:",
        "if waiter.deadline is not None and waiter.deadline < now:",
        (TIME_IS_OVER + "test_a_blocked_client_is_answered_in_its_last_millisecond",),
        "a client whose time is over waits on",
    ),
    Mutation(
        "writes-go-on-while-the-disk-refuses",
        "crdtstream/database/database.py",
        "        if handler.writes and self.fault is not None:\n            return self._refusals.",
        "        if handler.writes and self.fault == b'':\n            return self._refusals.",
        (DATABASE + "test_only_writes_are_refused_while_the_disk_refuses",),
        "writes are taken that no disk holds",
    ),
    Mutation(
        "blocked-writer-served-while-the-disk-refuses",
        "crdtstream/database/database.py",
        "if waiter.handler.writes and self.fault is not None:",
        "if waiter.handler.writes and self.fault == b'':",
        (DATABASE + "test_blocked_writers_hear_of_a_refusing_disk",),
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
        "    excess = stream.length - trimming.maxlen\n",
        "    excess = stream.length - trimming.maxlen + 1\n",
        (COMMANDS_TESTS + "test_trimming_takes_the_lowest_ids_over_all_lanes",),
        "XTRIM MAXLEN n leaves n - 1",
    ),
    Mutation(
        "approximate-trim-takes-more-than-asked",
        "crdtstream/commands/streams/trimming.py",
        "goes = self._length - len(node) >= trimming.maxlen",
        "goes = self._length > trimming.maxlen",
        (COMMANDS_TESTS + "test_approximate_trimming_takes_whole_macro_nodes",),
        "XTRIM MAXLEN ~ n leaves fewer than n",
    ),
    Mutation(
        "approximate-trim-takes-one-id-too-many",
        "crdtstream/commands/streams/trimming.py",
        "goes = node.highest_id < (trimming.minid or ID_MIN)",
        "goes = node.highest_id <= (trimming.minid or ID_MIN)",
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
)
