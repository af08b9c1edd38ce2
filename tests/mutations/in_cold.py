"""Planted bugs in commands that need entries which are on disk only."""

from typing import Final

from tests.mutations.mutation import Mutation

COLD: Final = "tests/region/test_cold_entries.py::"
IDLE: Final = "tests/region/test_idle_entries.py::"
COLD_NODES: Final = "tests/core/test_cold_nodes.py::"
UNREADABLE: Final = "tests/region/test_unreadable.py::"
QUERY: Final = "tests/query/test_cold_queries.py::"

COLD_BUGS: Final = (
    Mutation(
        "who-waits-has-more-read-each-tick",
        "crdtstream/region/fetching.py",
        "        if go_on in self._waiters.get(images[0], ()):\n            return None\n",
        "",
        (COLD + "test_who_asks_again_while_it_waits_has_no_more_read",),
        "each tick that ends while a node is being read has twice as much read behind it",
    ),
    Mutation(
        "idle-data-stay",
        "crdtstream/core/lanes/residency.py",
        "                self._drop(node)\n            if is_over():",
        "                self._packed[node] = None\n            if is_over():",
        (IDLE + "test_what_is_not_read_is_packed_and_then_leaves",),
        "what nobody reads takes memory for ever",
    ),
    Mutation(
        "what-is-read-leaves",
        "crdtstream/core/lanes/residency.py",
        "        if node.used or is_small",
        "        if is_small",
        (IDLE + "test_what_is_read_between_two_rounds_stays",),
        "who reads the same entries again and again waits for the disk each time",
    ),
    Mutation(
        "what-changes-may-leave",
        "crdtstream/core/lanes/residency.py",
        "        node.is_encoded = False\n        self._warm.pop(node, None)\n",
        "        node.is_encoded = False\n",
        (IDLE + "test_what_no_checkpoint_has_stays",),
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
        (COLD_NODES + "test_who_is_gone_from_the_front_of_a_node_is_known_without_it",),
        "I10: a Remove reads from disk while it is applied, and a damaged image ends the node",
    ),
    Mutation(
        "lanes-read-one-by-one",
        "crdtstream/core/stream.py",
        "                images += cold.images\n",
        "                raise ColdError(cold.images) from None\n",
        (COLD + "test_what_several_lanes_need_to_begin_is_read_at_once",),
        "whoever seeks in a stream of nine lanes waits for the disk nine times",
    ),
    Mutation(
        "a-megabyte-read-for-an-entry",
        "crdtstream/core/lanes/residency.py",
        "AHEAD_BYTES: Final = Size(64 << 10, least=2)\n",
        "AHEAD_BYTES: Final = Size(1 << 20, least=2)\n",
        (COLD_NODES + "test_who_reads_on_is_read_more_and_more_ahead",),
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
        "crdtstream/core/issuing/grown_runs.py",
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
        "bug-in-a-command-is-logged",
        "crdtstream/resp/clients/connection.py",
        "            self._acceptor.stop_on_bug(bug)\n            return\n",
        "            raise\n",
        ("tests/resp/test_bugs.py",),
        "half a command is in the log, and in every region",
    ),
)
