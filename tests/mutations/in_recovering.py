"""Planted bugs in the way of a region from its start to its first effect, and in whose database."""

from typing import Final

from tests.mutations.mutation import Mutation

READY: Final = "tests/region/test_readiness.py::"
SERVING: Final = "tests/region/test_serve.py::"
RECOVERING: Final = "tests/replication/test_recovering.py::"
OPENING: Final = "tests/store/test_opening.py::"


RECOVERIES: Final = (
    # --- What a folder proves ---
    Mutation(
        "looking-at-a-folder-makes-it-the-one",
        "crdtstream/store/sqlite.py",
        "            if self.is_proven:\n                await self._confirm()\n"
        "            else:\n",
        "            await self._confirm()\n            if not self.is_proven:\n",
        (OPENING + "test_a_copy_is_not",),
        "rule 18: a second start of a restored folder takes writes",
    ),
    Mutation(
        "a-start-on-a-full-disk-has-begun",
        "crdtstream/store/sqlite.py",
        "        if not self._has_begun:\n            return False\n",
        "",
        ("tests/store/test_presence.py::test_nothing_is_written_before_the_folder_says_so",),
        "a log without its mark is taken for whole after a power cut",
    ),
    # --- Who must answer ---
    # --- What peers do before they answer ---
    Mutation(
        "held-effects-are-not-relayed",
        "crdtstream/region/links/routes.py",
        ("            if self._peer_runs.is_held(other):\n                origins.add(other)\n"),
        "",
        (RECOVERING + "test_healthy_regions_relay_effects_of_one_that_recovers_and_waits",),
        "one region that recovers stops the others",
    ),
    Mutation(
        "a-duplicate-is-asked-for-before-the-database",
        "crdtstream/region/links/links.py",
        "        if reason is not None:\n            return Refusal(RefusalKind.MISMATCH, reason)\n"
        "        if opening.region not in self.serve_stats:\n",
        "        if opening.region not in self.serve_stats:\n",
        (SERVING + "test_the_database_is_compared_before_numbers_and_runs",),
        "an address of another database stops the writes of the region that calls there",
    ),
    Mutation(
        "a-look-at-a-database-takes-it-over",
        "crdtstream/region/readiness.py",
        "        own = self.database\n        if not theirs.uid or theirs.uid == own.uid:\n"
        "            return None\n",
        "        own = self.database\n        if not theirs.uid or theirs.uid == own.uid:\n"
        "            return None\n        self.database = own if own.uid else theirs\n",
        (READY + "test_another_database_is_not_taken_over_by_a_look_at_it",),
        "a call that is refused decides of which database a fresh region is",
    ),
    # --- Whose database ---
)
