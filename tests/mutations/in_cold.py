"""Planted bugs in commands that need entries which are on disk only."""

from typing import Final

from tests.mutations.mutation import Mutation

COLD: Final = "tests/region/test_cold_entries.py::"
UNREADABLE: Final = "tests/region/test_unreadable.py::"

COLD_BUGS: Final = (
    Mutation(
        "who-waits-has-more-read-each-tick",
        "crdtstream/region/fetching.py",
        "        if go_on in self._waiters.get(images[0], ()):\n            return None\n",
        "",
        (COLD + "test_a_client_that_asks_again_while_it_waits_causes_no_second_read",),
        "each tick that ends while a node is being read has twice as much read behind it",
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
)
