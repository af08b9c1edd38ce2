"""Planted bugs in what operators do with a whole database, and with what a removal left behind."""

from typing import Final

from tests.mutations.mutation import Mutation

FLUSHING: Final = "crdtstream/admin/flushing.py"
REPORTS: Final = "crdtstream/admin/health_reports.py"
SHAPE: Final = "crdtstream/admin/region_reports.py"
OF_REPORTS: Final = "tests/admin/test_health_reports.py::"
OF_PAGES: Final = "tests/http/test_pages.py::"
OF_REMOVED: Final = "tests/upkeep/test_removed.py::"
SALVAGE: Final = "crdtstream/salvage.py"
OF_LOST: Final = "tests/region/test_lost_effects.py::"
OF_FLUSHING: Final = "tests/admin/test_flushing.py::"

REMOVALS: Final = (
    # --- A removed region and its cut -------------------------------------------------------------
    Mutation(
        "a-removed-region-says-yes-to-what-is-lost",
        "crdtstream/commands/beyond_redis/tokens.py",
        "        refuse_lost(replica, token)\n        is_here",
        "        if covers(replica.vv, token.vv):\n            return 1\n"
        "        refuse_lost(replica, token)\n        is_here",
        (OF_LOST + "test_the_removed_region_is_told_what_counts_of_it",),
        "a client takes for safe what no other region has, or will ever have",
    ),
    Mutation(
        "a-removed-region-is-not-told-its-cut",
        "crdtstream/region/known_members.py",
        "        return told if cut is None else told.with_cut(removed, cut)\n",
        "        return told\n",
        (OF_LOST + "test_the_removed_region_is_told_what_counts_of_it",),
        "nobody can tell at its node what is lost, and salvage needs a member that knows",
    ),
    Mutation(
        "a-removed-region-forgets-its-cut",
        "crdtstream/region/known_members.py",
        "            self._share.note_changed()\n\n    def told_to",
        "            pass\n\n    def told_to",
        (OF_LOST + "test_the_removed_region_is_told_what_counts_of_it",),
        "after a restart it says yes again to what is lost",
    ),
    Mutation(
        "a-removed-region-plans-what-is-lost",
        "crdtstream/query/service.py",
        "        return existing(region.outstanding.durable_vv, region.replica.ends)\n",
        "        return region.outstanding.durable_vv\n",
        ("tests/query/test_removed_regions.py::test_a_removed_region_shows_what_counts_of_it",),
        "a Spark query at its node begins a batch that it is then refused",
    ),
    # --- Salvage and purge ------------------------------------------------------------------------
    Mutation(
        "what-counts-is-salvaged-too",
        "crdtstream/upkeep/stranded.py",
        "lane.scan_dots(cut)",
        "lane.scan_dots(0)",
        (OF_REMOVED + "test_own_entries_beyond_the_cut_are_stranded_if_they_still_exist",),
        "entries that all regions have are there twice",
    ),
    Mutation(
        "others-entries-are-salvaged",
        "crdtstream/upkeep/stranded.py",
        "stream.lanes.get(replica.region)",
        "next(iter(stream.lanes.values()), None)",
        (OF_REMOVED + "test_own_entries_beyond_the_cut_are_stranded_if_they_still_exist",),
        "entries of other regions are there twice, and its own are lost",
    ),
    Mutation(
        "expired-streams-are-not-salvaged",
        "crdtstream/upkeep/stranded.py",
        "replica.held_stream(key)",
        "replica.stream(key)",
        (OF_REMOVED + "test_own_entries_beyond_the_cut_are_stranded_if_they_still_exist",),
        "a stream whose deadline another region has moved loses what was cut off",
    ),
    Mutation(
        "salvage-takes-rows-from-their-producer",
        SALVAGE,
        "row = one.row or Numbered(self.producer, self.region, one.n)",
        "row = Numbered(self.producer, self.region, one.n)",
        (OF_REMOVED + "test_rows_of_a_numbered_producer_stay_its_rows",),
        "M18: a Spark task that runs again appends its rows a second time",
    ),
    Mutation(
        "salvage-does-not-look-for-retries",
        SALVAGE,
        "        there = self._names_there(key, wanted) if wanted else set()\n",
        "        there: set[IdempotentId] = set()\n",
        (OF_REMOVED + "test_an_entry_that_has_been_retried_elsewhere_is_left_out",),
        "M18: what its producer has appended again elsewhere is there twice",
    ),
    Mutation(
        "any-folder-is-purged",
        "crdtstream/upkeep/purge.py",
        "if member is None or member.status is not Status.REMOVED:",
        "if member is None:",
        (OF_REMOVED + "test_only_the_folder_of_a_removed_region_is_deleted",),
        "an operator who mistypes a folder deletes a region that lives",
    ),
    Mutation(
        "a-folder-is-purged-under-its-node",
        "crdtstream/upkeep/purge.py",
        "    with locked(folder):\n        # A node may",
        "    if True:\n        # A node may",
        (OF_REMOVED + "test_a_folder_that_is_open_is_not_deleted",),
        "a node that runs loses its folder",
    ),
    # --- A flush ----------------------------------------------------------------------------------
    Mutation(
        "a-flush-leaves-what-expired-keys-left",
        FLUSHING,
        "    yield from replica.floor_keys()\n",
        "",
        (OF_FLUSHING + "test_all_that_is_kept_of_any_key_is_deleted",),
        "rule 8: after a flush a stream goes on above the IDs of one that had expired",
    ),
    Mutation(
        "a-flush-takes-one-long-turn",
        FLUSHING,
        "                if turn.is_over():\n                    return\n",
        "",
        (OF_FLUSHING + "test_others_have_their_turn_between_two_slices",),
        "clients wait for each slice of 1,024 keys, however long these take",
    ),
    Mutation(
        "a-flush-asks-for-more-than-may-lag",
        FLUSHING,
        "        at_most = min(KEYS_MAX.value, bound)\n",
        "        at_most = KEYS_MAX.value\n",
        (OF_FLUSHING + "test_a_slice_has_no_more_keys_than_the_bound_on_what_lags",),
        "with a bound on what lags no slice is ever taken",
    ),
    Mutation(
        "a-flush-ends-at-the-first-refusal",
        FLUSHING,
        "if error.text.startswith(LAGGED) and loop.time() < until:",
        "if False:",
        (OF_FLUSHING + "test_a_slice_has_no_more_keys_than_the_bound_on_what_lags",),
        "with a bound on what lags a large database takes thousands of runs",
    ),
    Mutation(
        "a-flush-waits-for-nobody",
        FLUSHING,
        "            if count < upto\n",
        "            if count > upto\n",
        (OF_FLUSHING + "test_it_says_who_lacks_how_many_effects",),
        "it says that all is deleted everywhere while a region is away",
    ),
    # --- Pages about the database -----------------------------------------------------------------
    Mutation(
        "any-guid-is-this-database",
        "crdtstream/http/crdbs.py",
        "if self._guid and guid == self._guid:",
        "if self._guid:",
        (OF_PAGES + "test_a_crdb_that_is_asked_for_wrongly_is_refused",),
        "a program takes another database for the one that it manages",
    ),
    Mutation(
        "a-removed-region-is-an-instance",
        SHAPE,
        "for one in members.members if one.status != REMOVED}\n    own",
        "for one in members.members}\n    own",
        (OF_REPORTS + "test_a_report_has_the_regions_that_are_members",),
        "operators wait for a region that was removed",
    ),
    Mutation(
        "a-configuration-is-complete-at-once",
        SHAPE,
        'if members.is_everywhere else "committed"',
        "",
        (OF_REPORTS + "test_a_configuration_is_complete_when_all_have_it",),
        "the next change is made while a region lacks the last one",
    ),
    Mutation(
        "another-region-answers-for-it",
        REPORTS,
        "(its.region, its.database_uid) != (member.region, members.database_uid)",
        "its.region == 0",
        (OF_REPORTS + "test_a_report_of_another_region_is_not_taken",),
        "a region behind a wrong address looks well",
    ),
    Mutation(
        "every-page-asks-the-others-again",
        REPORTS,
        "        async with other.lock:\n            if loop.time() >= other.good_until:\n",
        "        async with other.lock:\n            if True:\n",
        (OF_REPORTS + "test_many_who_ask_at_once_cost_one_question",),
        "whoever asks for a page without a password has each region asked as often",
    ),
)
