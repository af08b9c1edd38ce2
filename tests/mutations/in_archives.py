"""Planted bugs in archives and Spark's source: entries that nobody has any more."""

from typing import Final

from tests.mutations.mutation import Mutation

JOBS: Final = "crdtstream/spark/jobs/"
DAMAGE: Final = "tests/spark/test_archive_damage.py::"
OFFSETS: Final = "tests/spark/test_stream_offsets.py::"
SERVICE: Final = "tests/query/test_service.py::"

ARCHIVES: Final = (
    Mutation(
        "trim-looks-after-no-file",
        JOBS + "archive.py",
        "            self._check_before_trimming(plans)\n",
        "",
        (DAMAGE + "test_nothing_is_trimmed_whose_file_is_not_as_it_was_read_back",),
        "entries are trimmed whose only copy was deleted or damaged",
    ),
    Mutation(
        "ledger-compares-no-content",
        JOBS + "ledger.py",
        'return "" if sha256 == noted.sha256 else',
        'return "" if sha256 else',
        (DAMAGE + "test_each_damage_is_found_in_the_file",),
        "a file with one flipped bit counts as the one that was read back",
    ),
    Mutation(
        "ledger-passes-over-files-that-are-gone",
        JOBS + "ledger.py",
        '        return f"{noted.path} is gone"\n',
        '        return ""\n',
        (DAMAGE + "test_each_damage_is_found_in_the_file",),
        "entries are trimmed whose file was deleted",
    ),
    Mutation(
        "merging-takes-damaged-files-for-sound",
        JOBS + "publishing.py",
        "    _check_merged(folder, ledger, targets)\n",
        "",
        (DAMAGE + "test_nothing_is_trimmed_where_a_new_batch_stands_on_a_damaged_file",),
        "a damaged file becomes part of a new one, which the ledger then vouches for",
    ),
    Mutation(
        "replay-takes-what-is-left",
        JOBS + "replay.py",
        "        self._check_archive()\n        plan",
        "        plan",
        (DAMAGE + "test_a_damaged_archive_is_not_replayed_reported_or_said_to_be_whole",),
        "a replay of changed files ends with status 0",
    ),
    Mutation(
        "trim-plan-forgets-groups",
        "crdtstream/query/trim_read.py",
        "        end = _acknowledged_upto(stream, origin, _last_before(before_ms))\n"
        "        within = Within(upto_n=read.get(origin, 0), end=end)\n"
        "        slices = lane.slices(within, entries_max=1",
        "        end = _last_before(before_ms)\n"
        "        within = Within(upto_n=read.get(origin, 0), end=end)\n"
        "        slices = lane.slices(within, entries_max=1",
        (SERVICE + "test_plan_trim_shows_the_entries_that_a_trim_would_remove",),
        "a trim takes entries of which no file was looked at",
    ),
    Mutation(
        "a-batch-that-was-cut-off-counts-in-a-table",
        JOBS + "delta.py",
        'dots = (F.col("dot") > above.get(origin, 0)) & (F.col("dot") <= n)',
        'dots = F.col("dot") > above.get(origin, 0)',
        ("tests/spark/test_read_back.py::test_a_batch_that_was_cut_off_is_not_counted_in_a_table",),
        "an archive whose program was killed is refused for good",
    ),
    Mutation(
        "tasks-are-cut-by-all-traffic",
        "crdtstream/spark/stream_source.py",
        "        return {CUTS: [list(cut) for cut in cuts]}\n",
        "        return {}\n",
        (OFFSETS + "test_tasks_are_cut_by_the_entries_of_the_streams_that_are_read",),
        "minPartitions gives one task with all entries, and others with none",
    ),
    Mutation(
        "a-query-dies-with-the-region-that-it-asked",
        "crdtstream/spark/stream_source.py",
        "            if not beyond(upto, self._newest):\n",
        "            if True:\n",
        (OFFSETS + "test_effects_of_a_region_that_dies_while_it_is_asked_are_read_later",),
        "a region that dies between two questions of a query ends the query",
    ),
)
