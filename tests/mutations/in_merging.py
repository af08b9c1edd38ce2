"""Planted bugs in how two states are made one."""

from typing import Final

from tests.mutations.mutation import Mutation

SLICES: Final = "crdtstream/core/merge/merging.py"
MERGE: Final = "crdtstream/core/merge/merge.py"
ALIKE: Final = "crdtstream/core/merge/alike.py"
PRESENCE: Final = "crdtstream/core/merge/presence.py"
LANES: Final = "crdtstream/core/merge/lanes.py"
KEYS: Final = "crdtstream/core/merge/keys.py"
GROUPS: Final = "crdtstream/core/merge/groups.py"
GROUP: Final = "crdtstream/core/groups/group.py"
PRODUCERS: Final = "crdtstream/core/merge/producers.py"
RESIDENCY: Final = "crdtstream/core/lanes/residency.py"
NODE: Final = "crdtstream/core/lanes/node.py"

OF_ENTRIES: Final = "tests/rules/test_merge_entries.py::"
OF_KEYS: Final = "tests/rules/test_merge_keys.py::"
OF_GROUPS: Final = "tests/rules/test_merge_groups.py::"
OF_PRODUCERS: Final = "tests/rules/test_merge_producers.py::"
OF_SLICES: Final = "tests/rules/test_merge_slices.py::"
OF_FOLDERS: Final = "tests/rules/test_merge_folders.py::"

MERGING: Final = (
    # --- Entries ----------------------------------------------------------------------------------
    Mutation(
        "merge-keeps-what-the-other-removed",
        LANES,
        "    for first_n, last_n in gone:\n"
        "        lane.remove_dots(first_n, last_n - first_n + 1)\n",
        "",
        (OF_ENTRIES + "test_what_was_removed_there_goes_and_what_was_removed_here_stays_gone",),
        "I1: an entry that was removed before a bootstrap lives on in one region",
    ),
    Mutation(
        "merge-leaves-the-last-macro-nodes-out",
        LANES,
        "        if (is_last or first_n > end) and (stretch.here or stretch.there):\n",
        "        if first_n > end and (stretch.here or stretch.there):\n",
        (OF_ENTRIES + "test_a_macro_node_may_lie_across_what_is_known_here",),
        "I1: removed entries live on where a macro node reaches beyond what both have",
    ),
    Mutation(
        "merge-leaves-a-macro-node-across-the-boundary-out",
        LANES,
        "        if header.first_n <= here_n < header.last_n:\n",
        "        if False:\n",
        (OF_ENTRIES + "test_a_macro_node_may_lie_across_what_is_known_here",),
        "acknowledged entries are missing in a region that was bootstrapped",
    ),
    Mutation(
        "merge-takes-an-entry-twice",
        LANES,
        "first = next(at for at, n in enumerate(columns.n) if n > here_n)",
        "first = next(at for at, n in enumerate(columns.n) if n >= here_n)",
        (OF_ENTRIES + "test_a_macro_node_may_lie_across_what_is_known_here",),
        "I5: an entry stands twice in its lane, or the node stops",
    ),
    Mutation(
        "merge-removes-what-the-other-has-not-heard-of",
        LANES,
        "list(_gone(lane, sent, min(here_n, there_n), residency))",
        "list(_gone(lane, sent, here_n, residency))",
        (OF_ENTRIES + "test_what_was_appended_here_since_stays",),
        "acknowledged entries that only this region has are lost by a bootstrap",
    ),
    Mutation(
        "merge-reads-all-macro-nodes",
        LANES,
        "        if not here or are_alike(here, there, upto_n):\n",
        "        if not here:\n",
        (OF_ENTRIES + "test_nodes_that_are_alike_are_not_read",),
        "a merge of a large stream stops the node for minutes",
    ),
    Mutation(
        "merge-takes-equal-counts-for-equal-entries",
        LANES,
        "        and sum(node.own_digest() for node in here) & DIGEST_MASK\n"
        "        == sum(header.digest for header in headers) & DIGEST_MASK\n",
        "",
        (OF_ENTRIES + "test_what_was_removed_there_goes_and_what_was_removed_here_stays_gone",),
        "I1: each side removed another entry, and both live on",
    ),
    Mutation(
        "merge-empties-a-lane-of-what-is-new",
        MERGE,
        "            lane.remove_prefix(up_to=ID_MAX, n_max=there_n)\n",
        "            lane.remove_prefix(up_to=ID_MAX, n_max=1 << 62)\n",
        (OF_ENTRIES + "test_what_was_appended_since_all_was_removed_elsewhere_stays",),
        "acknowledged entries that only this region has are lost by a bootstrap",
    ),
    Mutation(
        "merge-notes-no-loss",
        MERGE,
        "    merge_lost(state, sent, stream)\n",
        "",
        (OF_ENTRIES + "test_what_a_trim_took_elsewhere_is_lost_here",),
        "a cursor skips entries that were trimmed, and its reader is not told",
    ),
    Mutation(
        "merge-forgets-what-went-with-a-forgotten-key",
        MERGE,
        "        elif content is None and sent.content.gone is None:\n",
        "        elif False:\n",
        (OF_ENTRIES + "test_what_went_with_a_key_that_the_other_has_forgotten_is_lost_here",),
        "a cursor skips entries that were deleted, and its reader is not told",
    ),
    Mutation(
        "merge-takes-counters-of-the-other",
        MERGE,
        "known.entries_added = max(known.entries_added, facts.entries_added)",
        "known.entries_added = facts.entries_added - 1",
        (OF_ENTRIES + "test_counters_of_a_lane_do_not_go_back",),
        "XINFO shows fewer entries-added than before",
    ),
    Mutation(
        "merge-forgets-lanes-without-entries",
        MERGE,
        ", *(one.region for one in facts_of_lanes)}",
        "}",
        (OF_ENTRIES + "test_counters_of_a_lane_whose_entries_are_gone_are_taken_over",),
        "XINFO shows fewer entries-added in a region that was bootstrapped",
    ),
    Mutation(
        "merge-touches-every-key",
        SLICES,
        "        if is_unchanged(self._state, sent, self._both):\n",
        "        if False:\n",
        (
            OF_ENTRIES + "test_a_key_that_both_have_wakes_nobody",
            OF_FOLDERS + "test_a_merge_of_what_is_had_changes_nothing",
        ),
        "after a merge each checkpoint is a full one, and each EXEC behind a WATCH fails",
    ),
    Mutation(
        "merge-takes-equal-last-ids-for-equal-streams",
        ALIKE,
        "    return _has_all(stream, content.stream, sent) and _are_alike",
        "    return _are_alike",
        (OF_ENTRIES + "test_what_was_appended_here_since_stays",),
        "a region never gets the entries that it was bootstrapped for",
    ),
    Mutation(
        "merge-takes-equal-entries-for-equal-groups",
        ALIKE,
        "_has_all(stream, content.stream, sent) and _are_alike(stream.groups, sent.groups)\n",
        "_has_all(stream, content.stream, sent)\n",
        (OF_GROUPS + "test_what_is_newly_acknowledged_is_pending_no_more_and_is_skipped",),
        "what another region acknowledged is delivered again",
    ),
    # --- Keys -------------------------------------------------------------------------------------
    Mutation(
        "merge-keeps-an-orphan-deadline",
        KEYS,
        "    register.values = both.without_destroyed(united, destroys.here, destroys.there)\n",
        "    register.values = united\n",
        (OF_KEYS + "test_a_deadline_that_a_delete_had_not_observed_goes",),
        "rule 7: DEL here, EXPIRE there, and the deadline later deletes a new stream (C1)",
    ),
    Mutation(
        "merge-loses-a-value-that-is-new-here",
        PRESENCE,
        "        kept.update((dot, one) for dot, one in there.items() if self.is_new_here(dot))\n",
        "",
        (OF_KEYS + "test_of_concurrent_values_the_one_with_the_lowest_dot_counts",),
        "a value of a string that was answered OK is lost by a bootstrap",
    ),
    Mutation(
        "merge-keeps-a-value-that-the-other-removed",
        PRESENCE,
        "        kept = {dot: one for dot, one in here.items() if dot in there"
        " or self.is_new_there(dot)}\n",
        "        kept = dict(here)\n",
        (OF_KEYS + "test_a_value_that_was_overwritten_or_deleted_elsewhere_goes",),
        "I1: a string that was deleted is back in one region",
    ),
    Mutation(
        "merge-resurrects-a-value",
        PRESENCE,
        "        kept.update((dot, one) for dot, one in there.items() if self.is_new_here(dot))\n",
        "        kept.update((dot, one) for dot, one in there.items())\n",
        (OF_KEYS + "test_a_value_that_was_overwritten_or_deleted_elsewhere_goes",),
        "I1: a string that was deleted here is back with an older state",
    ),
    Mutation(
        "merge-keeps-the-old-deadline-of-a-string",
        KEYS,
        "            value.expiry.values = both.united(value.expiry.values,"
        " theirs[dot].expiry.values)\n",
        "            pass\n",
        (OF_KEYS + "test_a_deadline_of_a_value_that_was_changed_elsewhere_counts",),
        "I16: a lock ends sooner in a region that was bootstrapped",
    ),
    Mutation(
        "merge-takes-the-older-last-id",
        KEYS,
        'kept[region] = max(here, there, key=attrgetter("n"))',
        "kept[region] = here",
        (OF_KEYS + "test_of_an_origins_last_ids_the_one_that_was_set_last_counts",),
        "I1: XADD takes IDs in one region that it refuses in another",
    ),
    Mutation(
        "merge-keeps-a-last-id-that-a-delete-took",
        KEYS,
        "        elif here is not None and both.is_new_there(Dot(region, here.n)):\n",
        "        elif here is not None:\n",
        (OF_KEYS + "test_a_last_id_that_a_delete_took_elsewhere_goes",),
        "I1: a deleted stream exists in one region",
    ),
    Mutation(
        "merge-takes-a-last-id-back-that-a-delete-took",
        KEYS,
        "        elif there is not None and both.is_new_here(Dot(region, there.n)):\n",
        "        elif there is not None:\n",
        (OF_KEYS + "test_a_last_id_that_a_delete_took_elsewhere_goes",),
        "I1: a deleted stream exists again in one region",
    ),
    Mutation(
        "merge-takes-no-tombstones",
        MERGE,
        "    merge_tombstones(state, sent)\n",
        "",
        (OF_KEYS + "test_a_tombstone_that_came_by_a_state_ends_what_comes_later",),
        "I1: a group that a destroy ended everywhere else lives in one region",
    ),
    Mutation(
        "merge-takes-no-floors",
        MERGE,
        "    merge_floors(state, sent)\n",
        "",
        (OF_KEYS + "test_a_region_that_was_wiped_goes_on_above_its_floor",),
        "I9: an entry lies inside an acknowledged interval, and is never delivered (M14)",
    ),
    Mutation(
        "merge-takes-the-lower-floor",
        "crdtstream/core/keyspace/floors.py",
        "            last_id = max(last_id, before.last_id)\n",
        "            last_id = min(last_id, before.last_id)\n",
        (OF_KEYS + "test_of_two_floors_the_higher_one_counts",),
        "I9: an entry lies inside an acknowledged interval, and is never delivered",
    ),
    Mutation(
        "gone-key-keeps-its-place",
        "crdtstream/core/keyspace/keyspace.py",
        "        self._trimmed.take(key)\n        self._keep_lost(key, lost)\n",
        "        self._keep_lost(key, lost)\n",
        (OF_KEYS + "test_a_loss_of_a_key_that_is_gone_is_remembered_as_the_latest",),
        "I8: after a restart another loss is forgotten than without one",
    ),
    # --- Groups -----------------------------------------------------------------------------------
    Mutation(
        "merge-keeps-a-create-that-a-destroy-took",
        GROUPS,
        "    united = both.without_destroyed(both.united(mine, theirs),"
        " destroys.here, destroys.there)\n",
        "    united = both.united(mine, theirs)\n",
        (OF_GROUPS + "test_a_create_dies_by_a_destroy_that_had_not_observed_it",),
        "I1: delete-wins: a group that was destroyed lives in one region",
    ),
    Mutation(
        "merge-keeps-local-facts-of-a-group-that-went",
        GROUPS,
        "        if group is not None and not any(dot in creates for dot in mine):\n",
        "        if group is not None and not creates:\n",
        (OF_GROUPS + "test_all_that_is_local_goes_with_the_creates",),
        "I9: a new group of the same name begins where the old one was (C4)",
    ),
    Mutation(
        "merge-tells-of-a-group-that-went",
        GROUPS,
        "            state.grown_runs.forget((sent.key, name))\n",
        "",
        (OF_GROUPS + "test_what_was_still_to_be_said_goes_with_the_creates",),
        "rule 12: what was acknowledged in a group that is gone counts for its successor",
    ),
    Mutation(
        "merge-does-not-go-back",
        GROUP,
        "            if self.start_of(region) < start:\n"
        "                self.reading.go_back(region, self.start_of(region))\n"
        "        known = ",
        "            pass\n        known = ",
        (OF_GROUPS + "test_of_creates_of_both_sides_the_lowest_start_counts",),
        "I9: entries before the higher of two starts are never delivered (C5)",
    ),
    Mutation(
        "merge-skips-what-was-set-back",
        GROUP,
        "            fresh = [part for low, high in intervals"
        " for part in of_lane.missing(low, high)]\n",
        "            fresh = list(intervals)\n",
        (
            OF_GROUPS
            + "test_what_was_claimed_again_stays_pending_though_it_is_known_to_be_acknowledged",
        ),
        "a merge ends what was taken up again on purpose (C6)",
    ),
    Mutation(
        "merge-keeps-pending-what-was-acknowledged",
        GROUP,
        "            for low, high in fresh:\n"
        "                self.pel.drop_within(region, low, high, keep={})\n"
        "            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)\n",
        "            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)\n",
        (OF_GROUPS + "test_what_is_newly_acknowledged_is_pending_no_more_and_is_skipped",),
        "what another region acknowledged is claimed and processed again",
    ),
    Mutation(
        "merge-delivers-what-was-acknowledged",
        GROUP,
        "                self.pel.drop_within(region, low, high, keep={})\n"
        "            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)\n",
        "                self.pel.drop_within(region, low, high, keep={})\n",
        (OF_GROUPS + "test_a_position_inside_a_newly_acknowledged_run_moves_to_its_end",),
        "a run that was acknowledged elsewhere is not vouched for",
    ),
    Mutation(
        "merge-takes-intervals-of-one-side",
        "crdtstream/core/groups/creates.py",
        "        for one in (self, other):\n",
        "        for one in (other,):\n",
        (OF_GROUPS + "test_intervals_of_both_sides_are_united",),
        "I1: what this region acknowledged is unknown to it after a bootstrap",
    ),
    Mutation(
        "merge-forgets-handovers",
        GROUPS,
        "        for dot, setting in in_causal_order(settings):\n",
        "        for dot, setting in ():\n",
        (OF_GROUPS + "test_what_the_old_home_left_pending_is_pending_at_the_new_one",),
        "120 is pending at the old home, and never processed (C7, M12)",
    ),
    Mutation(
        "merge-takes-the-mode-without-its-change",
        GROUPS,
        "            create.mode = ModeRegister()\n",
        "            pass\n",
        (OF_GROUPS + "test_what_the_old_home_left_pending_is_pending_at_the_new_one",),
        "the change of mode finds itself applied, and the new home does not continue (C7)",
    ),
    Mutation(
        "merge-applies-settings-again",
        GROUPS,
        " for one in contents if both.is_new_here(one.dot)]",
        " for one in contents]",
        (OF_GROUPS + "test_a_setting_that_was_heard_is_not_applied_again",),
        "what the old home left pending is pending again after it was acknowledged",
    ),
    Mutation(
        "merge-applies-settings-in-any-order",
        "crdtstream/core/groups/settings.py",
        "    return sorted(settings, key=lambda row: (sum(row[1].context.values()), row[0]))\n",
        "    return sorted(settings, key=lambda row: row[0], reverse=True)\n",
        (OF_GROUPS + "test_settings_are_applied_in_causal_order",),
        "what a home in between had acknowledged is pending at the last one",
    ),
    Mutation(
        "merge-settles-who-delivers-always",
        GROUPS,
        "        if settings or any(dot not in creates for dot in mine):\n",
        "        if True:\n",
        (OF_GROUPS + "test_a_jump_stays_though_others_deliver_too",),
        "a merge takes up what a client jumped (C7)",
    ),
    Mutation(
        "merge-keeps-no-settings",
        GROUPS,
        "                state.settings.note(dot, sent.key, name)\n",
        "",
        (OF_GROUPS + "test_a_stable_setting_is_forgotten",),
        "changes of mode are kept for ever",
    ),
    # --- Producers --------------------------------------------------------------------------------
    Mutation(
        "merge-collapses-nothing",
        PRODUCERS,
        "            _settle(state, stream, key, name, mine[name], entries)\n",
        "            pass\n",
        (OF_PRODUCERS + "test_appends_of_one_name_beyond_each_other_are_one",),
        "rule 20: a message that was tried in two regions is there twice",
    ),
    Mutation(
        "merge-collapses-what-had-observed-the-other",
        PRODUCERS,
        "        if both.is_new_there(dot):\n"
        "            mine.setdefault(name, {})[dot] = entry_id\n"
        "        elif",
        "        mine.setdefault(name, {})[dot] = entry_id\n        if both.is_new_there(dot):\n"
        "            pass\n        elif",
        (OF_PRODUCERS + "test_an_append_that_had_observed_the_other_stays",),
        "rule 20: a new message is taken for a retry, and lost",
    ),
    Mutation(
        "merge-forgets-what-gave-way-elsewhere",
        PRODUCERS,
        "        if state.idempotency.has(sent.key, name, row.dot):\n",
        "        if False:\n",
        (OF_PRODUCERS + "test_a_message_that_gave_way_elsewhere_is_recognised_no_more",),
        "a retry is answered with an entry that is in no region: the message is lost",
    ),
    Mutation(
        "merge-keeps-records-that-are-stable-elsewhere",
        PRODUCERS,
        "        elif dot not in kept:\n            records.forget(key, name, dot)\n",
        "",
        (OF_PRODUCERS + "test_a_record_that_the_other_forgot_as_stable_names_nothing_deleted",),
        "a retry is answered with an entry that was deleted with its key: the message is lost",
    ),
    Mutation(
        "gave-way-to-the-last",
        "crdtstream/core/producers/idempotency.py",
        "        if before is None or collapsed.stays < before.stays:\n",
        "        if True:\n",
        (OF_PRODUCERS + "test_of_several_the_one_that_gave_way_stays_with_the_smallest",),
        "who asks where a message stayed is told of one that gave way itself",
    ),
    Mutation(
        "merge-does-not-take-what-was-deleted",
        PRODUCERS,
        "    records.note_deleted(key, theirs.deleted)\n",
        "",
        (OF_PRODUCERS + "test_a_message_deleted_with_its_key_elsewhere_is_recognised_no_more",),
        "a retry of a message that was deleted with its key is swallowed",
    ),
    Mutation(
        "merge-takes-no-window",
        PRODUCERS,
        "    _merge_window(state, stream, sent, arrived=arrived)\n",
        "",
        (OF_PRODUCERS + "test_a_retry_of_what_came_by_a_state_is_recognised",),
        "a retry of what came by a bootstrap is appended again (C9)",
    ),
    Mutation(
        "merge-takes-the-age-of-names-of-the-other",
        PRODUCERS,
        "            window.add(name, named[1], named[0], arrived=arrived, maxsize=maxsize)\n",
        "            window.add(name, named[1], named[0], arrived=Millis(0), maxsize=maxsize)\n",
        (OF_PRODUCERS + "test_a_message_that_came_by_a_state_is_as_old_as_it_is_here",),
        "another region's clock decides whether a retry is recognised",
    ),
    Mutation(
        "merge-keeps-names-of-what-is-gone",
        PRODUCERS,
        "(both_have or _lives(stream, one))",
        "True",
        (OF_PRODUCERS + "test_a_name_known_to_one_side_is_forgotten_if_its_entry_is_gone",),
        "a retry is answered with an entry that the other region deleted (C9)",
    ),
    Mutation(
        "merge-forgets-names-of-what-was-removed",
        PRODUCERS,
        "(both_have or _lives(stream, one))",
        "_lives(stream, one)",
        (OF_PRODUCERS + "test_a_name_known_to_both_sides_is_recognised_though_its_entry_is_gone",),
        "a retry of a message that was processed and removed is appended again (C9)",
    ),
    Mutation(
        "merge-keeps-the-window-though-a-bound-changed",
        KEYS,
        "        stream.window.clear()\n",
        "        pass\n",
        (OF_PRODUCERS + "test_a_bound_that_changed_elsewhere_forgets_the_window",),
        "XCFGSET means something else where it came by a bootstrap",
    ),
    Mutation(
        "merge-knows-rows-that-were-deleted-here",
        PRODUCERS,
        "            run.known = run.known and there[dot].known\n",
        "            run.known = run.known or there[dot].known\n",
        (OF_PRODUCERS + "test_rows_deleted_here_are_not_known_by_an_older_state",),
        "I13: a row that was deleted is not written again (C8)",
    ),
    Mutation(
        "merge-takes-the-newest-batch-of-either",
        "crdtstream/core/producers/numbered.py",
        "        self.newest = max(live, default=-1)\n",
        "        self.newest = max([self.newest, *live])\n",
        (OF_PRODUCERS + "test_rows_deleted_here_are_not_known_by_an_older_state_of_a_later_batch",),
        "a batch that is to be written again after a DEL is refused as too old (C8)",
    ),
    Mutation(
        "stable-rows-have-no-dots",
        "crdtstream/core/producers/numbered.py",
        "                if not run.known or rows.batch < producer.oldest_known:\n",
        "                if True:\n",
        (OF_PRODUCERS + "test_stable_rows_stay_known",),
        "I13: Spark's last batch is written twice after a bootstrap (C8)",
    ),
    Mutation(
        "merge-keeps-rows-of-both-sides",
        PRODUCERS,
        "            stream.remove_dots(one.first, one.count)\n",
        "            pass\n",
        (OF_PRODUCERS + "test_rows_of_both_sides_are_there_once",),
        "I13: a row that was written in two regions is there twice",
    ),
    Mutation(
        "merge-takes-rows-for-stable",
        PRODUCERS,
        "            run.is_stable = False\n",
        "            pass\n",
        (OF_PRODUCERS + "test_rows_that_came_by_a_state_are_forgotten_when_they_are_stable_here",),
        "rows that another region knows to be everywhere count as such where they are not",
    ),
    # --- Macro nodes that were taken over ---------------------------------------------------------
    Mutation(
        "taken-over-node-leaves-with-another-header",
        RESIDENCY,
        "        if header is not None and (image == node.image or node.image >= STAGED):\n",
        "        if False:\n",
        (OF_FOLDERS + "test_a_node_that_was_taken_over_and_read_leaves_memory_and_is_read_again",),
        "after a bootstrap a node stops at the first entry that is read a second time",
    ),
    Mutation(
        "taken-over-node-forgets-that-a-checkpoint-was-abandoned",
        RESIDENCY,
        "        if header is not None and (image == node.image or node.image >= STAGED):\n",
        "        if header is not None and image == node.image:\n",
        (
            OF_FOLDERS
            + "test_a_node_that_is_read_during_a_checkpoint_that_is_abandoned_leaves_as_it_came",
        ),
        "a disk that is full during the first checkpoint after a bootstrap stops the node later",
    ),
    Mutation(
        "taken-over-node-leaves-before-it-is-written",
        RESIDENCY,
        '        """It gets an image of its own, and stays until that one can be read'
        ' (``note_saved``)."""\n        self._warm.pop(node, None)\n',
        '        """It gets an image of its own, and stays until that one can be read'
        ' (``note_saved``)."""\n',
        (OF_FOLDERS + "test_a_node_that_was_read_stays_in_memory_until_its_own_image_can_be_read",),
        "a read during the first checkpoint after a bootstrap stops the node",
    ),
    Mutation(
        "taken-over-entries-arrive-as-elsewhere",
        LANES,
        "(*header[:6], arrived, arrived, *header[8:-1], True)",
        "header",
        (OF_FOLDERS + "test_all_entries_arrive_when_the_state_is_merged",),
        "I17: readers by arrival skip what came by a bootstrap",
    ),
    Mutation(
        "numbering-does-not-go-on-behind-a-merge",
        "crdtstream/core/replica.py",
        "        self.merged_count += 1\n"
        "        # Effects of this region that it had lost: numbering goes on behind them.\n"
        "        self._section.begin(self.issued + 1)\n",
        "        self.merged_count += 1\n",
        (OF_FOLDERS + "test_a_region_that_lost_effects_of_its_own_goes_on_behind_them",),
        "I3: two effects have one dot",
    ),
    Mutation(
        "a-merge-is-not-replayed",
        "crdtstream/core/replica.py",
        "            self._merge(self.merging(local.merged), local.arrived)\n",
        "            pass\n",
        (OF_FOLDERS + "test_a_merge_is_replayed_as_it_was",),
        "I8: a restart loses all that came by a bootstrap",
    ),
    # --- Slices -----------------------------------------------------------------------------------
    Mutation(
        "a-slice-skips-a-key",
        SLICES,
        "            return all(self._look_at_next() for _ in range(SLICE_KEYS.value))\n",
        "            next(self._coming, None)\n"
        "            return all(self._look_at_next() for _ in range(SLICE_KEYS.value))\n",
        (OF_SLICES + "test_a_slice_looks_at_no_more_keys_than_its_size",),
        "I1: a region that was bootstrapped lacks keys that all others have",
    ),
    Mutation(
        "a-slice-has-no-end",
        SLICES,
        "for _ in range(SLICE_KEYS.value))",
        "for _ in range(1 << 62))",
        (OF_SLICES + "test_a_slice_looks_at_no_more_keys_than_its_size",),
        "clients wait for seconds while many keys are merged",
    ),
    Mutation(
        "all-is-left-for-the-last-step",
        SLICES,
        "            self._built[sent.key] = sent.content.number\n",
        "            self._forget_built(sent.key)\n            self._left[sent.key] = sent, {}\n",
        (OF_SLICES + "test_the_last_step_merges_no_key_that_was_built_or_alike",),
        "clients wait for seconds while many keys are merged",
    ),
    Mutation(
        "made-between-slices-and-not-merged-again",
        SLICES,
        "        self._look_again()\n",
        "",
        (OF_SLICES + "test_a_key_that_is_created_between_slices_has_what_both_have",),
        "I1: what a client wrote during a bootstrap is lost",
    ),
    Mutation(
        "built-though-it-was-created-meanwhile",
        SLICES,
        "            self._forget_built(key)\n            self._look_at",
        "            self._look_at",
        (OF_SLICES + "test_a_key_that_is_created_between_slices_has_what_both_have",),
        "I1: what was built hides what a client wrote during a bootstrap",
    ),
    Mutation(
        "built-parts-are-noted-as-shown",
        SLICES,
        "            with state.changes.aside(self._parts):\n",
        "            with state.residency.in_place():\n",
        (OF_SLICES + "test_a_checkpoint_between_slices_has_nothing_of_it",),
        "I8: a node does not start that was killed during a bootstrap",
    ),
    Mutation(
        "built-parts-are-never-noted",
        SLICES,
        "        self._state.changes.take_in(self._parts)\n",
        "",
        (OF_SLICES + "test_a_checkpoint_after_the_last_step_has_all",),
        "I8: after a bootstrap a restart lacks most of it, and the staging is gone",
    ),
    Mutation(
        "slices-hold-though-others-effects-came",
        SLICES,
        "        if not self._holds():\n",
        "        if False:\n",
        (OF_SLICES + "test_effects_of_others_between_slices_begin_the_merge_again",),
        "I1: entries that were deleted meanwhile live again",
    ),
    Mutation(
        "built-entries-arrive-before-they-are-seen",
        SLICES,
        "                if part.cold.first_arrival != arrived:\n",
        "                if False:\n",
        (OF_SLICES + "test_entries_arrive_when_they_can_be_seen",),
        "I17: readers by arrival skip what was built while they read",
    ),
    Mutation(
        "built-keys-come-before-later-ones",
        "crdtstream/core/checkpoint/key_parts.py",
        "                part.stream_order += order\n",
        "                pass\n",
        (OF_SLICES + "test_keys_come_behind_those_that_were_created_between_slices",),
        "keys stand in another order after a restart",
    ),
    Mutation(
        "what-is-given-up-is-counted-for-ever",
        SLICES,
        "                self._state.residency.forget(part)\n        self._parts = {}\n",
        "                pass\n        self._parts = {}\n",
        (OF_SLICES + "test_what_is_given_up_leaves_nothing",),
        "each bootstrap that fails takes memory that nobody has",
    ),
    Mutation(
        "entries-are-read-in-the-last-step",
        SLICES,
        "            self._left[sent.key] = sent, self._plans_of(sent)\n",
        "            self._left[sent.key] = sent, {}\n",
        (OF_SLICES + "test_no_entry_is_read_in_the_last_step",),
        "clients wait for seconds while entries are read from the disk",
    ),
)
