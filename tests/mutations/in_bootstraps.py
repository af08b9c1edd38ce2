"""Planted bugs in how a region's state gets to another one."""

from typing import Final

from tests.mutations.mutation import Mutation

COPIED: Final = "tests/replication/test_bootstraps.py::"
STAGED: Final = "tests/store/test_staging.py::"
STORED: Final = "tests/store/test_checkpoints.py::"
PARTED: Final = "tests/core/test_parts.py::"
DRIVEN: Final = "tests/region/test_bootstrapper.py::"
TOLD: Final = "tests/region/test_bootstrap_told.py::"
DRIVER: Final = "crdtstream/bootstrapper.py"
SERVER: Final = "crdtstream/replication/bootstrap_server.py"
CLIENT: Final = "crdtstream/replication/bootstrap_client.py"
WIRE: Final = "crdtstream/replication/bootstrap_wire.py"
ON_DISK: Final = "crdtstream/store/sqlite_staging.py"
CHECKPOINTS: Final = "crdtstream/store/checkpoints.py"
LAYOUT: Final = "crdtstream/store/layout.py"

BOOTSTRAPS: Final = (
    Mutation(
        "staging-complete-without-reading-it-back",
        ON_DISK,
        "            await self._read_back(self._cut)\n",
        "            pass\n",
        (STAGED + "test_a_damaged_image_is_never_complete",),
        "I19: a region goes over to a state of which the disk lost a part",
    ),
    Mutation(
        "staging-reads-heads-back-only",
        ON_DISK,
        "is_sound and crc == of_body and is_sound_body(number, packed, crc)",
        "is_sound",
        (STAGED + "test_a_damaged_image_is_never_complete",),
        "I19: entries cannot be read after a bootstrap that was said to be whole",
    ),
    Mutation(
        "damaged-staging-discarded-though-complete",
        ON_DISK,
        "            if _may_be_complete(staging.path):",
        "            if False:",
        (STAGED + "test_what_is_damaged_is_discarded_if_it_was_never_complete",),
        "the state that the log builds on is deleted without a word",
    ),
    Mutation(
        "a-body-of-the-staging-is-not-checked",
        ON_DISK,
        "    if row is None or not is_sound_body(number, *row):",
        "    if row is None:",
        (STAGED + "test_a_body_is_checked_whenever_it_is_read",),
        "clients are answered with entries that the disk changed",
    ),
    Mutation(
        "a-number-of-the-staging-is-dropped",
        "crdtstream/core/checkpoint/parts.py",
        "        for number in self._before.values():\n"
        "            yield number if number < STAGED else NO_IMAGE\n",
        "        for number in self._before.values():\n            yield number\n",
        (PARTED + "test_a_checkpoint_drops_no_image_of_the_staging",),
        "after a bootstrap no checkpoint is ever committed: an image to be dropped is not there",
    ),
    Mutation(
        "a-packed-body-is-packed-again",
        LAYOUT,
        "compressor.compress(image.body) if image.body and not image.is_packed else image.body",
        "compressor.compress(image.body) if image.body else image.body",
        (STORED + "test_a_body_that_is_packed_is_written_as_it_is",),
        "after a bootstrap the entries of macro nodes cannot be read",
    ),
    Mutation(
        "a-packed-body-has-the-size-of-its-frame",
        LAYOUT,
        "        size = frame_content_size(body) if is_packed and body else len(body)\n",
        "        size = len(body)\n",
        (STORED + "test_who_reads_the_folder_finds_a_body_that_came_packed_sound",),
        "fsck and backups take sound macro nodes for damaged",
    ),
    Mutation(
        "what-is-read-ahead-must-be-in-the-staging",
        "crdtstream/store/sqlite_checkpoints.py",
        "fetch_staged(self.staging, staged, must=numbers[0] >= STAGED)",
        "fetch_staged(self.staging, staged, must=True)",
        (STORED + "test_numbers_of_the_staging_are_read_from_there",),
        "a client waits for ever for entries that can be read",
    ),
    Mutation(
        "what-is-pending-is-sent",
        "crdtstream/store/sending.py",
        '    f"AND kind != {NOT_SENT.value} ORDER BY image.number LIMIT ?"',
        '    f"ORDER BY image.number LIMIT ?"',
        (STORED + "test_all_but_what_is_pending_is_sent_byte_for_byte",),
        "what one region delivered is pending in another one",
    ),
    Mutation(
        "a-bootstrap-holds-all-of-the-log",
        CHECKPOINTS,
        "        if self.purpose is Purpose.BOOTSTRAP and self.checkpoint is not None:\n",
        "        if False:\n",
        (STORED + "test_a_bootstrap_holds_the_log_behind_its_checkpoint_only",),
        "the sender's disk fills while a large state crosses a slow line",
    ),
    Mutation(
        "a-bootstrap-ends-after-some-hours",
        CHECKPOINTS,
        "now + HOLD_SECONDS_MAX.value if self.purpose is Purpose.BACKUP else inf",
        "now + HOLD_SECONDS_MAX.value",
        (STORED + "test_a_bootstrap_lasts_as_long_as_parts_move",),
        "a state that takes more than six hours never arrives",
    ),
    Mutation(
        "a-copy-that-breaks-begins-at-the-first-image",
        SERVER,
        "        return copy, 0 if resume is None else resume.after\n",
        "        return copy, 0\n",
        (COPIED + "test_a_copy_that_breaks_at_any_piece_goes_on_behind_it",),
        "over a line that breaks each hour a state that takes two never arrives",
    ),
    Mutation(
        "a-copy-is-not-gone-on-with",
        CLIENT,
        "    if found is not None and found[0].source == peer:\n",
        "    if False:\n",
        (COPIED + "test_a_copy_that_breaks_at_any_piece_goes_on_behind_it",),
        "over a line that breaks each hour a state that takes two never arrives",
    ),
    Mutation(
        "two-calls-go-on-with-one-copy",
        SERVER,
        "    if not reason and copy.calls != call:\n",
        "    if False:\n",
        (COPIED + "test_another_call_of_the_region_takes_a_copy_over",),
        "a dead connection keeps a checkpoint of the sender's on its disk",
    ),
    Mutation(
        "a-hold-that-lapsed-is-gone-on-with",
        SERVER,
        "        await self._release_lapsed()\n        copy = ",
        "        copy = ",
        (COPIED + "test_a_hold_that_lapsed_is_another_cut",),
        "a region is sent images of a checkpoint that the sender has forgotten",
    ),
    Mutation(
        "any-number-of-copies-at-a-time",
        SERVER,
        " or len(self._copies) >= COPIES_MAX.value:",
        ":",
        (COPIED + "test_many_calls_hold_no_more_than_a_few_checkpoints",),
        "regions that ask again and again fill the sender's disk with checkpoints",
    ),
    Mutation(
        "the-faster-bound-counts",
        SERVER,
        "/ min(bounds)",
        "/ max(bounds)",
        (COPIED + "test_the_state_is_sent_no_faster_than_allowed",),
        "a bootstrap takes all of a line that clients' effects go over",
    ),
    Mutation(
        "what-is-sent-may-not-be-acknowledged",
        SERVER,
        "        region.links.note_sent(cut.vv.get(region.replica.region, 0))\n",
        "",
        (COPIED + "test_what_was_sent_may_be_acknowledged",),
        "the link of a region that took over a state ends as if it lied",
    ),
    Mutation(
        "a-copy-goes-on-however-the-log-grows",
        SERVER,
        "        if behind > most.backlog_bytes_max:\n",
        "        if False:\n",
        (COPIED + "test_a_copy_ends_when_the_log_has_grown_too_much",),
        "the sender's disk fills while a large state crosses a slow line",
    ),
    Mutation(
        "any-database-is-sent-the-state",
        SERVER,
        "        if asked.uid and uid and asked.uid != uid:\n",
        "        if False:\n",
        (COPIED + "test_only_a_peer_of_the_same_database_is_sent_the_state",),
        "two databases of one name are merged into one",
    ),
    Mutation(
        "an-image-that-came-damaged-is-staged",
        WIRE,
        "    if not image.is_sound:\n",
        "    if False:\n",
        (COPIED + "test_what_a_checkpoint_cannot_have_is_refused",),
        "what a line or a machine's memory changed becomes a region's state",
    ),
    Mutation(
        "an-image-may-come-twice",
        WIRE,
        "        if image.number <= after:\n",
        "        if image.number < after:\n",
        (COPIED + "test_what_a_checkpoint_cannot_have_is_refused",),
        "a peer that repeats itself stops the node with a failed assertion",
    ),
    Mutation(
        "a-missing-image-is-not-missed",
        CLIENT,
        "                if staging.sums != cut.sums:\n",
        "                if False:\n",
        (COPIED + "test_what_a_checkpoint_cannot_have_is_refused",),
        "the own disk is blamed for what a peer did not send",
    ),
    Mutation(
        "staging-deleted-before-a-checkpoint-has-it",
        DRIVER,
        "        if region.checkpointing.seq < region.bootstrap.saved_seq:\n",
        "        if False:\n",
        (DRIVEN + "test_what_is_staged_stays_until_a_checkpoint_has_what_was_merged",),
        "a region that is killed after a bootstrap cannot start: its log names what is gone",
    ),
    Mutation(
        "a-merge-takes-one-turn",
        DRIVER,
        "            if turn.is_over():\n                await self._pause()\n",
        "            if False:\n                await self._pause()\n",
        (DRIVEN + "test_clients_are_served_between_slices_and_see_nothing_of_the_state",),
        "clients wait for seconds while many keys are merged",
    ),
    Mutation(
        "what-was-built-is-not-given-up",
        DRIVER,
        "                undoing.callback(merging.give_up)\n",
        "",
        (
            DRIVEN + "test_a_process_that_ends_between_slices_leaves_the_region_as_it_was",
            DRIVEN + "test_an_image_that_cannot_be_leaves_the_region_as_it_was",
        ),
        "each bootstrap that fails takes memory that nobody has, and no other one can begin",
    ),
    Mutation(
        "the-same-peer-is-asked-again-and-again",
        "crdtstream/region/bootstrap.py",
        "            self._tried.append(self.source)\n",
        "            pass\n",
        (DRIVEN + "test_after_a_failure_another_peer_is_asked_and_the_reason_is_kept",),
        "one peer that refuses keeps a region from the state of all others",
    ),
    Mutation(
        "a-copy-is-whole-before-its-end",
        "crdtstream/region/bootstrap.py",
        "100 * self.bytes_done // self.bytes if",
        "round(100 * self.bytes_done / self.bytes) if",
        (TOLD + "test_a_copy_is_never_said_to_be_whole_before_it_is",),
        "100 % is shown, and writes are refused for minutes more",
    ),
    Mutation(
        "a-restart-counts-as-a-state-taken-over",
        "crdtstream/region/bootstrap.py",
        "        self.count += self.phase is Phase.MERGING\n",
        "        self.count += 1\n",
        (TOLD + "test_a_merge_that_a_restart_found_is_not_counted_again",),
        "each restart looks like one more bootstrap",
    ),
    Mutation(
        "a-full-disk-is-hidden-by-a-bootstrap",
        "crdtstream/region/region.py",
        "        if fault is not None and self.fault is None:\n",
        "        if fault is not None:\n",
        (TOLD + "test_a_disk_that_refuses_is_the_first_reason",),
        "the operator waits for a state that cannot be written",
    ),
    Mutation(
        "attempts-that-fail-are-not-counted",
        "crdtstream/metrics/figures.py",
        "Reading(bootstrap.failures)",
        "Reading(bootstrap.count)",
        ("tests/metrics/test_page.py::test_a_state_that_is_copied_is_told",),
        "no alert fires for a region that never gets a state",
    ),
)
