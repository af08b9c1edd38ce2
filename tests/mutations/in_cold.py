"""Planted bugs in commands that need entries which are on disk only."""

from typing import Final

from tests.mutations.mutation import Mutation

COLD: Final = "tests/region/test_cold_entries.py::"
IDLE: Final = "tests/region/test_idle_entries.py::"
RESIDENCY: Final = "tests/core/test_residency.py::"
COLD_LANE: Final = "tests/core/test_cold_lane.py::"
COLD_NODES: Final = "tests/core/test_cold_nodes.py::"
UNREADABLE: Final = "tests/region/test_unreadable.py::"
FLUSHING: Final = "tests/admin/test_flushing.py::"
QUERY: Final = "tests/query/test_cold_queries.py::"

COLD_BUGS: Final = (
    Mutation(
        "programs-never-read-in-place",
        "crdtstream/engine/programs.py",
        "in_place = tries >= TRIES_MAX.value",
        "in_place = False",
        ("tests/region/test_programs.py::test_many_attempts_end_with_one_that_reads_in_place",),
        "with little memory a query reads the same entries from disk without end",
    ),
    Mutation(
        "what-goes-with-its-stream-is-still-counted",
        "crdtstream/core/lanes/residency.py",
        "            self._bytes[_WARM] -= node.bytes_counted\n            node.bytes",
        "            node.bytes",
        (RESIDENCY + "test_nodes_that_no_lane_has_are_not_counted_and_not_kept",),
        "used_memory grows with each stream that is deleted",
    ),
    Mutation(
        "what-goes-with-its-stream-is-still-kept",
        "crdtstream/core/lanes/residency.py",
        "            node.counted_as = State.NOT\n            self._warm.pop(node, None)\n",
        "            node.counted_as = State.NOT\n",
        (RESIDENCY + "test_nodes_that_no_lane_has_are_not_counted_and_not_kept",),
        "memory of deleted streams is never free",
    ),
    Mutation(
        "a-delete-reads-lane-by-lane",
        "crdtstream/core/keyspace/stream.py",
        "            self._demand(self.needs_for_clear(context))\n",
        "            pass\n",
        (COLD_LANE + "test_a_delete_that_needs_the_disk_changes_no_lane",),
        "a delete that has to read from the disk has removed one lane of two, and fails",
    ),
    Mutation(
        "who-waits-has-more-read-each-tick",
        "crdtstream/region/fetching.py",
        "        if go_on in self._waiters.get(images[0], ()):\n            return None\n",
        "",
        (COLD + "test_a_client_that_asks_again_while_it_waits_causes_no_second_read",),
        "each tick that ends while a node is being read has twice as much read behind it",
    ),
    Mutation(
        "idle-data-stay",
        "crdtstream/core/lanes/residency.py",
        "                self._drop(node)\n            if is_over():",
        "                self._packed[node] = None\n            if is_over():",
        (IDLE + "test_nodes_that_are_not_read_are_packed_and_then_evicted",),
        "what nobody reads takes memory for ever",
    ),
    Mutation(
        "what-is-read-leaves",
        "crdtstream/core/lanes/residency.py",
        "        if node.used or is_small",
        "        if is_small",
        (IDLE + "test_nodes_read_between_two_rounds_stay_in_memory",),
        "who reads the same entries again and again waits for the disk each time",
    ),
    Mutation(
        "what-changes-may-leave",
        "crdtstream/core/lanes/residency.py",
        "        node.is_encoded = False\n        self._warm.pop(node, None)\n",
        "        node.is_encoded = False\n",
        (IDLE + "test_nodes_that_no_checkpoint_has_stay_in_memory",),
        "I19: a removed entry is back when its node was read from disk again",
    ),
    Mutation(
        "cold-command-loses-its-place",
        "crdtstream/region/clients.py",
        "                    if tried is None:\n                        stop = Stop.COLD\n",
        "                    if tried is None:\n                        stop = Stop.BLOCKED\n",
        (COLD + "test_a_command_waits_for_its_entries_and_those_behind_it_too",),
        "a command whose entries are on disk is never answered",
    ),
    Mutation(
        "what-is-gone-from-a-node-s-front-is-read",
        "crdtstream/core/lanes/lane.py",
        "        if columns is None and entry_id < node.first_id:\n",
        "        if columns is None and entry_id < node.key_id:\n",
        (COLD_NODES + "test_entries_removed_from_the_front_of_a_node_are_known_without_a_read",),
        "I10: a Remove reads from disk while it is applied, and a damaged image ends the node",
    ),
    Mutation(
        "lanes-read-one-by-one",
        "crdtstream/core/keyspace/stream.py",
        "                images += cold.images\n",
        "                raise ColdError(cold.images) from None\n",
        (COLD + "test_a_scan_reads_the_first_node_of_every_lane_in_one_request",),
        "whoever seeks in a stream of nine lanes waits for the disk nine times",
    ),
    Mutation(
        "a-megabyte-read-for-an-entry",
        "crdtstream/core/lanes/residency.py",
        "AHEAD_BYTES: Final = Size(64 << 10, least=2)\n",
        "AHEAD_BYTES: Final = Size(1 << 20, least=2)\n",
        (COLD_NODES + "test_a_scan_that_goes_on_reads_more_and_more_ahead",),
        "a read of one entry unpacks forty macro nodes",
    ),
    Mutation(
        "cold-transaction-half-run",
        "crdtstream/database/database.py",
        "        if not replica.residency.absent_count:\n            return\n        images: dict",
        "        if replica.residency.absent_count:\n            return\n        images: dict",
        (COLD + "test_a_transaction_waits_before_its_first_command",),
        "I10: a transaction holds up all others while it reads from disk, entry by entry",
    ),
    Mutation(
        "cold-reader-overtaken",
        "crdtstream/database/serving.py",
        "            if self._cold and self._stands_behind(waiter):\n",
        "            if not self._cold and self._stands_behind(waiter):\n",
        (COLD + "test_blocked_readers_keep_their_place_while_entries_are_read",),
        "a reader who came later is served first",
    ),
    Mutation(
        "cold-reader-times-out-with-entries",
        "crdtstream/database/waiting.py",
        "            if waiter.is_cold:\n                continue\n",
        "            if waiter.is_cold and not is_over:\n                continue\n",
        (COLD + "test_a_blocked_reader_whose_time_is_over_meanwhile_gets_its_entries",),
        "a reader for whom there are entries is told that there are none",
    ),
    Mutation(
        "cold-acknowledgement-forgotten",
        "crdtstream/core/whole/grown_runs.py",
        "        frontiers = self.frontiers(names, streams)\n        for name in names:\n"
        "            del self.lanes[name]\n        return frontiers\n",
        "        kept = {name: self.lanes[name] for name in names}\n"
        "        try:\n            return self.frontiers(names, streams)\n"
        "        finally:\n            for name in kept:\n                del self.lanes[name]\n",
        (COLD + "test_acknowledgements_are_told_once_their_entries_were_read",),
        "other regions are never told what was acknowledged",
    ),
    Mutation(
        "unreadable-in-place-is-fatal",
        "crdtstream/database/database.py",
        "        except UnreadableError as unreadable:\n"
        "            reply = self._note_unreadable(handler, unreadable)\n",
        "",
        (UNREADABLE + "test_a_queued_command_that_cannot_read_fails_by_itself",),
        "a damaged image ends the node, each time that a transaction comes upon it",
    ),
    Mutation(
        "in-place-without-looking-ahead",
        "crdtstream/core/lanes/residency.py",
        "        if not images:\n            return\n        loader",
        "        if not images or self.reads_in_place:\n            return\n        loader",
        (UNREADABLE + "test_an_effect_that_cannot_read_changes_nothing",),
        "I10: a trim that cannot read has removed the macro nodes before the one it reads",
    ),
    Mutation(
        "expired-keys-in-one-breath",
        "crdtstream/core/replica.py",
        "            # The next key may have to be read for, and can wait.\n"
        "            self._issuer.note_settled()\n",
        "",
        (UNREADABLE + "test_keys_that_expire_together_are_each_read_for",),
        "keys that expire together hold up all clients while entries are read from disk",
    ),
    Mutation(
        "rival-rows-not-looked-for",
        "crdtstream/core/applying/looking_ahead.py",
        "                images += lane.needs_for_dots(lost.first.n, lost.count)\n",
        "                assert lane\n",
        (UNREADABLE + "test_rows_that_rivals_of_a_batch_have_are_looked_for",),
        "a batch is half applied when what it removes cannot be read",
    ),
    Mutation(
        "keys-read-for-one-by-one",
        "crdtstream/commands/keys/deleting.py",
        "    if replica.residency.absent_count:\n        replica.look",
        "    if not replica.residency.absent_count:\n        replica.look",
        (COLD + "test_a_command_on_several_keys_reads_for_all_before_it_changes_one",),
        "I10: a DEL has deleted one key when an image of the next is damaged: the node ends",
    ),
    Mutation(
        "skipped-entries-not-looked-for",
        "crdtstream/commands/groups/xreadgroup.py",
        "            replica.look_ahead_of_change(delivery)\n",
        "            assert delivery\n",
        (COLD + "test_a_delivery_reads_what_it_skips_before_it_makes_its_consumer",),
        "I10: a consumer is made before a damaged image is found: the node ends",
    ),
    Mutation(
        "second-mention-looks-at-the-same-entries",
        "crdtstream/commands/groups/xreadgroup.py",
        "            begun[key] = found\n",
        "",
        (COLD + "test_a_stream_that_is_named_twice_is_read_for_as_far_as_both_deliver",),
        "I10: entries are delivered before a damaged image of the next is found: the node ends",
    ),
    Mutation(
        "flush-skips-what-is-on-disk",
        "crdtstream/admin/flushing.py",
        "                        self._cold_key = key\n",
        "",
        (FLUSHING + "test_a_key_that_needs_entries_is_deleted_once_they_were_read",),
        "a flush leaves a stream behind, and reports that all are deleted",
    ),
    Mutation(
        "bug-in-a-command-is-logged",
        "crdtstream/resp/clients/connection.py",
        "            self._acceptor.stop_on_bug(bug)\n            return\n",
        "            raise\n",
        ("tests/resp/test_bugs.py",),
        "half a command is in the log, and in every region",
    ),
)
