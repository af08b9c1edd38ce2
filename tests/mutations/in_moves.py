"""Planted bugs in moves: what is brought, what is compared, what is left alone."""

from typing import Final

from tests.mutations.mutation import Mutation

MOVES: Final = "tests/move/test_moves.py::"
KILLS: Final = "tests/move/test_kills.py::"
CHECKS: Final = "tests/move/test_checks.py::"
REFUSALS: Final = "tests/move/test_refusals.py::"
FENCES: Final = "tests/move/test_fence.py::"
GONE: Final = "tests/move/test_gone.py::"
BOUNDS: Final = "tests/move/test_bounds.py::"

MOVING: Final = "crdtstream/move/moving.py"
STREAMS: Final = "crdtstream/move/streams.py"
GROUPS: Final = "crdtstream/move/groups.py"
CHECKING: Final = "crdtstream/move/checking.py"

OF_MOVES: Final = (
    Mutation(
        "a-move-takes-keys-of-applications",
        "crdtstream/move/survey.py",
        "    elif taken:\n",
        "    elif False:\n",
        (REFUSALS + "test_keys_that_an_application_made_at_the_target_are_left_alone",),
        "a key that an application made at the target is overwritten, or its entries deleted",
    ),
    Mutation(
        "a-move-deletes-entries-of-applications",
        MOVING,
        "not (is_foreign or lacks or key in self._record.earlier)",
        "True",
        (REFUSALS + "test_an_entry_of_another_program_is_not_deleted",),
        "an acknowledged entry of another program at the target is deleted at the cut-over",
    ),
    Mutation(
        "a-move-shows-passwords",
        "crdtstream/move/address.py",
        "    password: str | None = field(default=None, repr=False)\n",
        "    password: str | None = None\n",
        (BOUNDS + "test_urls",),
        "the password is in every traceback and log line that shows an address",
    ),
    Mutation(
        "a-move-warns-of-no-password-in-a-url",
        "crdtstream/cli/moving.py",
        "    if address.password is not None:\n",
        "    if False:\n",
        (REFUSALS + "test_a_password_in_a_url_is_warned_about_and_never_shown",),
        "nobody learns that every user of the machine can read the password",
    ),
    Mutation(
        "a-move-trusts-any-server",
        "crdtstream/move/connection.py",
        "        if address.certificate is not None:\n",
        "        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE\n"
        "        if address.certificate is not None:\n",
        ("tests/move/test_tls.py::test_a_server_that_cannot_prove_itself_gets_no_password",),
        "whoever answers at the address gets the password, and all entries",
    ),
    Mutation(
        "a-stop-that-leaves-the-fence",
        "crdtstream/cli/moving.py",
        "    while not task.done() and not is_stopped():\n"
        "        await asyncio.wait([task], timeout=STOP_SECONDS)\n"
        "    # Once: the work then lowers its fence, which another cancellation would interrupt.\n"
        "    task.cancel()\n",
        "    while not task.done():\n"
        "        if is_stopped():\n"
        "            task.cancel()\n"
        "        await asyncio.wait([task], timeout=0)\n",
        ("tests/move/test_stopping.py::test_work_that_is_stopped_has_the_time_to_clean_up",),
        "after Ctrl-C in a cut-over the old server refuses writes, and nobody serves",
    ),
    Mutation(
        "a-fence-that-lets-writes-through",
        "crdtstream/move/fence.py",
        '    await pair.source.call("CONFIG", "SET", _NUMBER, REPLICAS)\n',
        "",
        (KILLS + "test_a_fence_stays_when_both_ends_are_equal",),
        "what is written behind the last pass is lost",
    ),
    Mutation(
        "a-fence-that-stays-after-a-failure",
        MOVING,
        "            if before is not None and not is_done:\n",
        "            if False:\n",
        (KILLS + "test_a_cut_over_that_fails_lowers_the_fence",),
        "a cut-over that fails leaves the application without any server that takes writes",
    ),
    Mutation(
        "a-cut-over-that-does-not-see-writes",
        MOVING,
        "strict=True) if one != other\n",
        "strict=True) if False\n",
        (CHECKS + "test_a_source_that_is_written_to_during_the_check_is_not_given_up",),
        "the source is given up, and entries that came behind the comparison are lost",
    ),
    Mutation(
        "a-cut-over-that-does-not-see-new-keys",
        MOVING,
        "        outcome.written_meanwhile += sorted(latest.kinds.keys() ^ kinds.keys())\n",
        "",
        (CHECKS + "test_a_source_that_is_written_to_during_the_check_is_not_given_up",),
        "a stream that begins during the cut-over stays behind, and the source is given up",
    ),
    Mutation(
        "late-entries-stay-behind",
        MOVING,
        "id_of(check.first_missing) < target.last_id",
        "False",
        (MOVES + "test_an_entry_that_arrives_late_is_brought_all_the_same",),
        "an export can never end while another region's entry came late",
    ),
    Mutation(
        "new-entries-taken-for-late-ones",
        MOVING,
        "id_of(check.first_missing) < target.last_id",
        "id_of(check.first_missing) != target.last_id",
        (CHECKS + "test_a_source_that_is_written_to_during_the_check_is_not_given_up",),
        "a stream with producers is deleted at the target and copied again, for ever",
    ),
    Mutation(
        "a-last-id-above-entries-to-come",
        STREAMS,
        "    if source.last != target.last:\n        return\n",
        "",
        (CHECKS + "test_a_last_id_is_not_set_above_entries_that_are_still_to_be_copied",),
        "entries that come next are below the target's last ID, so the stream is copied again",
    ),
    Mutation(
        "groups-stay-as-they-were-first-brought",
        GROUPS,
        "        if found.texts:\n",
        "        if name not in target:\n",
        (MOVES + "test_groups_move_on_between_an_import_and_the_cut_over",),
        "consumers get entries again that they acknowledged at the source",
    ),
    Mutation(
        "pending-entries-are-young-again",
        GROUPS,
        '"TIME", delivered_ms, ',
        "",
        (MOVES + "test_pending_entries_keep_the_time_of_their_delivery",),
        "what has been pending for hours is claimed hours later",
    ),
    Mutation(
        "a-check-that-counts-only",
        CHECKING,
        "        return (self.source.entries, self.source.digest) == (\n",
        "        return (self.source.entries, self.target.digest) == (\n",
        (CHECKS + "test_other_fields_are_found_and_named",),
        "entries with other fields count as equal",
    ),
    Mutation(
        "a-reply-without-bound",
        "crdtstream/move/connection.py",
        "            if self.bytes_read > bound:\n",
        "            if False:\n",
        (BOUNDS + "test_an_entry_beyond_the_bound_is_named",),
        "a page of huge entries fills the memory of the machine that moves",
    ),
    Mutation(
        "large-pages-again-and-again",
        "crdtstream/move/pages.py",
        "            bounds[self._key] = max(1, count // 16)\n",
        "",
        (BOUNDS + "test_a_page_beyond_the_bound_of_a_reply_is_read_in_smaller_pieces",),
        "a stream whose entries become large is asked for in the same page for ever",
    ),
    Mutation(
        "a-restarted-source-taken-for-one-that-deletes",
        "crdtstream/move/gone.py",
        "    restarted = has_restarted(recorded, gone.run_id)\n    if",
        "    restarted = False\n    of = max(of, 3 * count)\n    if",
        (GONE + "test_a_source_that_restarts_empty_does_not_empty_the_target",),
        "a source without persistence that restarts wipes the only copy, and it counts as equal",
    ),
    Mutation(
        "keys-that-are-gone-in-bulk-are-deleted",
        "crdtstream/move/gone.py",
        "count > GONE_MAX or 2 * count > of",
        "False",
        (GONE + "test_keys_that_are_gone_in_bulk_are_not_deleted",),
        "a source that was emptied by mistake takes its copy with it",
    ),
    Mutation(
        "a-stream-begun-again-trims-its-copy",
        "crdtstream/move/gone.py",
        "    return source.entries_added < target.entries_added\n",
        "    return False\n",
        (GONE + "test_a_stream_that_a_restarted_source_began_again_is_not_trimmed",),
        "a restarted source with one new entry deletes all earlier ones at the target",
    ),
    Mutation(
        "a-fence-that-leaves-the-lag",
        "crdtstream/move/fence.py",
        '    await pair.source.call("CONFIG", "SET", _LAG, before.lag)\n',
        "",
        (FENCES + "test_a_cut_over_that_fails_puts_both_settings_back",),
        "a source that looked at no replicas refuses all writes after a cut-over that failed",
    ),
    Mutation(
        "a-fence-that-remembers-itself",
        "crdtstream/move/fence.py",
        "    if int(now.number) < REPLICAS:\n",
        "    if True:\n",
        (
            FENCES
            + "test_a_later_run_puts_back_what_the_source_had_before_the_fence_of_a_killed_one",
        ),
        "the fence of a killed run is taken for the source's own setting, and put back for ever",
    ),
    Mutation(
        "a-fence-raised-outside-of-what-lowers-it",
        MOVING,
        "        before = await self._remember_unfenced() if stop_writes else None\n"
        "        is_done = False\n"
        "        try:\n"
        "            if before is not None:\n"
        "                await raise_fence(self._ends, before)\n",
        "        before = await self._remember_unfenced() if stop_writes else None\n"
        "        is_done = False\n"
        "        if before is not None:\n"
        "            await raise_fence(self._ends, before)\n"
        "        try:\n",
        (FENCES + "test_a_fence_whose_reply_is_lost_remembers_no_settings_of_its_own",),
        "a fence whose raising is stopped, or loses its replies, stays up after exit 1",
    ),
    Mutation(
        "an-equal-outcome-lost-with-the-record",
        MOVING,
        '            outcome.record_left = f"{self._record.name} ({error})"\n',
        "            raise error\n",
        (FENCES + "test_ends_that_are_equal_are_told_so_even_if_the_record_stays",),
        "both ends are equal, and nobody is told; the next run wants to move everything again",
    ),
    Mutation(
        "the-way-back-deletes-late-writes",
        MOVING,
        "not (is_foreign or lacks or key in self._record.earlier)",
        "not is_foreign",
        (GONE + "test_a_late_write_to_the_old_server_survives_the_way_back",),
        "what a late producer wrote to the old server is discarded by the export",
    ),
    Mutation(
        "the-way-back-trims-late-writes",
        MOVING,
        "        if key in self._record.earlier and not self._selection.delete_gone:\n",
        "        if False:\n",
        (GONE + "test_an_entry_that_is_at_the_old_server_only_is_not_trimmed_on_the_way_back",),
        "a region that trims its stream takes late writes at the old server with it",
    ),
    Mutation(
        "deletions-repaired-once",
        MOVING,
        "            if check.only_at_target_count == len(check.only_at_target):\n",
        "            if True:\n",
        (GONE + "test_deletions_are_repaired_in_rounds_and_counted",),
        "a stream with many scattered deletions can never be cut over",
    ),
    Mutation(
        "a-user-without-password-is-the-default-user",
        "crdtstream/cli/moving.py",
        "    if address.user is not None and address.password is None:\n",
        "    if False:\n",
        (REFUSALS + "test_requests_that_make_no_sense",),
        "a move that is to run with few rights runs as the default user, who has all",
    ),
)
