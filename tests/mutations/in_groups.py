"""Planted bugs in groups: acknowledged runs, positions, modes and handovers."""

from typing import Final

from tests.mutations.mutation import Mutation

PEL: Final = "tests/core/test_pel.py::"
RULES: Final = "tests/rules/test_rules.py::"
FRONTIER: Final = "tests/rules/test_frontier.py::"
RUNS: Final = "tests/rules/test_acknowledged_runs.py::"
MODES: Final = "tests/rules/test_group_modes.py::"
TAKEOVER: Final = "tests/rules/test_mode_takeover.py::"
HANDING_OUT: Final = "tests/commands/test_delivery.py::"

GROUPS: Final = (
    # --- Pending entries ---
    Mutation(
        "entries-change-hands-without-a-note",
        "crdtstream/core/groups/pel.py",
        "            if matching:\n                self._note(chunk)\n",
        "            if matching:\n",
        (PEL + "test_a_claim_after_a_checkpoint_is_in_the_next_one",),
        "a checkpoint has an entry with an owner that it got after the cut",
    ),
    Mutation(
        "what-follows-a-claimed-entry-is-claimed-too",
        "crdtstream/core/groups/pel_chunk.py",
        "            if following != values:\n",
        "            if following == values:\n",
        (PEL + "test_a_claimed_entry_s_neighbours_keep_their_owner",),
        "XCLAIM of one entry takes its neighbours",
    ),
    Mutation(
        "empty-stretches-stay-above-what-is-appended",
        "crdtstream/core/groups/pel_chunk.py",
        "            self._cut_stretches(bisect_left(froms, keys[0]))\n",
        "            pass\n",
        (PEL + "test_what_is_appended_does_not_take_over_from_what_is_gone",),
        "an entry shows the owner of one that was acknowledged",
    ),
    # --- Acknowledged runs: rules 9 to 12 ---
    Mutation(
        "unite-drops-the-nack-at-from",
        "crdtstream/core/groups/pel.py",
        "next(lane.spans_within(start, end), None)",
        "next(lane.spans_within(StreamId(start - 1), end), None)",
        (RUNS + "test_an_interval_does_not_take_the_entry_at_its_from",),
        "the entry before an acknowledged run is lost",
    ),
    Mutation(
        "given-up-entries-stay-handed-out",
        "crdtstream/core/groups/progress.py",
        "        self.handed_out.remove(StreamId(entry_id - 1), entry_id)\n",
        "",
        (RUNS + "test_given_up_entries_of_a_run_read_before_a_lower_create_are_handed_out_again",),
        "what a deleted consumer held counts as acknowledged",
    ),
    Mutation(
        "run-goes-on-over-a-deleted-consumer",
        "crdtstream/core/groups/progress.py",
        "            self.run_from = entry_id\n",
        "",
        (
            FRONTIER + "test_one_xack_after_a_hole_vouches_for_nothing_before_it"
            "[XGROUP DELCONSUMER x g gone]",
        ),
        "rule 10: what a deleted consumer held counts as acknowledged",
    ),
    Mutation(
        "run-goes-on-over-a-jump",
        "crdtstream/core/groups/progress.py",
        "            self.run_from = position\n",
        "            pass\n",
        (RUNS + "test_what_xgroup_setid_passed_over_is_acknowledged_by_nobody",),
        "rule 10: what XGROUP SETID passed over counts as acknowledged",
    ),
    Mutation(
        "hole-made-before-the-run-is-measured",
        "crdtstream/core/applying/apply_change.py",
        "        case DeleteConsumer() | SetPosition():\n            return True\n",
        "        case DeleteConsumer() | SetPosition():\n            return False\n",
        (RUNS + "test_what_was_acknowledged_before_a_consumer_goes_is_told",),
        "what was acknowledged in the same tick is handed out again elsewhere",
    ),
    Mutation(
        "run-includes-its-first-pending-entry",
        "crdtstream/core/groups/group.py",
        "end = ID_MIN if lane is None else lane.predecessor(first_pending)",
        "end = first_pending",
        (RUNS + "test_a_region_vouches_for_nothing_from_its_first_pending_entry_on",),
        "an entry that is pending counts as acknowledged everywhere",
    ),
    Mutation(
        "highest-start-counts",
        "crdtstream/core/groups/creates.py",
        "return min(\n            (position_in(create.start, region)",
        "return max(\n            (position_in(create.start, region)",
        (RUNS + "test_the_frontier_reaches_back_to_the_lowest_start_of_all_creates",),
        "rule 9: CREATE $ in one region hides entries from CREATE 0 in another",
    ),
    Mutation(
        "intervals-join-over-a-gap",
        "crdtstream/core/ranges.py",
        "stop = bisect_right(self._froms, end)",
        "stop = bisect_right(self._froms, end + 1)",
        (RUNS + "test_intervals_are_joined_where_they_touch_and_only_there",),
        "the one entry between two acknowledged runs is lost",
    ),
    Mutation(
        "intervals-do-not-join-where-they-touch",
        "crdtstream/core/ranges.py",
        "first = bisect_left(self._tos, start)",
        "first = bisect_right(self._tos, start)",
        (RUNS + "test_intervals_are_joined_where_they_touch_and_only_there",),
        "the frontier stays where the first run ended",
    ),
    Mutation(
        "frontier-of-a-group-that-is-gone",
        "crdtstream/core/applying/apply_effect.py",
        "if stream is None or group is None or not group.creates.covers_any(context):",
        "if stream is None or group is None:",
        (FRONTIER + "test_a_frontier_that_arrives_after_the_destroy_changes_nothing",),
        "rule 12: a new group of the same name starts past entries it never had",
    ),
    Mutation(
        "frontier-measured-after-the-mode-has-changed",
        "crdtstream/core/issuing/issuer.py",
        "        if isinstance(effect, CreateGroup | DestroyGroup | SetGroupMode):",
        "        if isinstance(effect, CreateGroup | DestroyGroup):",
        (MODES + "test_what_was_acknowledged_before_the_change_in_one_tick_is_told",),
        "rule 12: what was acknowledged belongs to the group as it was",
    ),
    Mutation(
        "pending-entries-outlive-their-group",
        "crdtstream/core/applying/apply_effect.py",
        "        stream.drop_group(effect.group)\n",
        "        if effect.group in stream.groups:\n"
        "            stream.groups[effect.group].creates = Creates()\n",
        (RULES + "test_a_create_that_observed_the_destroy_makes_a_fresh_group",),
        "rule 12: a group made anew begins with what its forerunner had pending",
    ),
    Mutation(
        "received-run-moves-nobody-on",
        "crdtstream/core/groups/group.py",
        "        self.reading.skip_and_count(region, progress, lane, last_ids)\n",
        "",
        (HANDING_OUT + "test_lag_counts_what_other_regions_acknowledged_as_read",),
        "rule 10: last-delivered stays where this region itself has come to",
    ),
    Mutation(
        "lower-start-forgets-what-was-handed-out",
        "crdtstream/core/groups/reading.py",
        "            return\n        self.keep_as_handed_out(progress)\n",
        "            return\n",
        (FRONTIER + "test_what_is_pending_is_not_delivered_anew_when_the_start_moves_back",),
        "rule 10: an entry is pending with two consumers of a region",
    ),
    Mutation(
        "lower-start-of-a-create-takes-nobody-back",
        "crdtstream/core/groups/group.py",
        "            if new_start < old_start:\n",
        "            if new_start < old_start and not self.intervals:\n",
        (FRONTIER + "test_dollar_in_one_region_and_zero_in_another_skips_nothing",),
        "rule 10: entries before the first create's start are handed out nowhere",
    ),
    Mutation(
        "set-back-region-skips-what-it-knew",
        "crdtstream/core/groups/reading.py",
        "                progress.ignore_until = intervals.end\n",
        "                pass\n",
        (FRONTIER + "test_a_region_set_back_ignores_intervals_until_it_has_passed_them",),
        "rule 11: XGROUP SETID back reads nothing again",
    ),
    Mutation(
        "overlapping-stretches-counted-twice",
        "crdtstream/core/groups/undelivered.py",
        "count -= lane.count_above(max(start, position)) - lane.count_above(end)",
        "count -= lane.count_above(start) - lane.count_above(end)",
        (HANDING_OUT + "test_stretches_that_overlap_are_left_out_once",),
        "XINFO shows fewer undelivered entries than there are",
    ),
    Mutation(
        "lanes-are-cut-one-by-one",
        "crdtstream/core/groups/undelivered.py",
        "taken = Counter(region for _, region in places[:count])",
        "taken = Counter(region for _, region in places)",
        (HANDING_OUT + "test_what_is_handed_out_of_several_lanes_is_the_first_of_all",),
        "XREADGROUP COUNT hands out more than it was asked for",
    ),
    Mutation(
        "two-ids-have-one-key",
        "crdtstream/core/groups/pel_chunk.py",
        "fit(some, base_ms) and keys[index",
        "keys[index",
        (PEL + "test_ids_beyond_what_a_key_holds_are_not_taken_for_others",),
        "XACK of an ID that is not pending acknowledges another entry",
    ),
    # --- Modes: rule 13 ---
    Mutation(
        "handover-forgets-what-is-pending",
        "crdtstream/core/groups/takeover.py",
        "pending=tuple((nack.id, nack.delivery_count) for nack in progress.pel.nacks()),",
        "pending=(),",
        (MODES + "test_a_handover_with_120_pending_keeps_it_pending_at_the_new_home",),
        "what the old home had handed out is processed by nobody if its consumers die",
    ),
    Mutation(
        "handover-forgets-what-it-was-set-back-to",
        "crdtstream/core/groups/takeover.py",
        "        ignore_until=progress.ignore_until,\n",
        "        ignore_until=type(progress.ignore_until)(0),\n",
        (MODES + "test_a_home_that_was_set_back_hands_that_over_too",),
        "XGROUP SETID back is undone by a move of the home",
    ),
    Mutation(
        "highest-region-wins-an-epoch",
        "crdtstream/core/groups/mode.py",
        "return (self.epoch, -self.issuer) > (other.epoch, -other.issuer)",
        "return (self.epoch, self.issuer) > (other.epoch, other.issuer)",
        (MODES + "test_of_concurrent_settings_the_lowest_region_s_counts",),
        "rule 13 says lowest",
    ),
    Mutation(
        "lower-epoch-wins",
        "crdtstream/core/groups/mode.py",
        "return (self.epoch, -self.issuer) > (other.epoch, -other.issuer)",
        "return -self.issuer > -other.issuer or other.epoch == 0",
        (MODES + "test_a_setting_that_had_observed_another_beats_it",),
        "a mode that a low region set can never be changed again",
    ),
    Mutation(
        "everyone-vouches-in-partitioned-mode",
        "crdtstream/core/groups/group.py",
        "return self.mode.mode is not Mode.PARTITIONED or lane == self._here",
        "return self.mode.mode is Mode.PARTITIONED or lane <= self._here",
        (MODES + "test_partitioned_only_the_owner_tells_what_was_acknowledged",),
        "a region tells of a lane that is not its own",
    ),
    Mutation(
        "partitioned-region-hands-out-every-lane",
        "crdtstream/core/groups/mode.py",
        "                return region == lane\n",
        "                return region <= lane\n",
        (MODES + "test_partitioned_each_region_hands_out_its_own_lane",),
        "I12: two regions hand out one entry",
    ),
    Mutation(
        "others-hand-out-beside-the-home",
        "crdtstream/commands/groups/delivery.py",
        "    if group.mode.mode is Mode.HOME and home != region:\n",
        "    if group.mode.mode is Mode.HOME and home is None:\n",
        (MODES + "test_only_the_home_hands_out_and_all_the_lanes",),
        "a reader in the wrong region waits for ever and is not told why",
    ),
    Mutation(
        "third-region-s-acks-forgotten-in-a-handover",
        "crdtstream/core/groups/takeover.py",
        "if entry_id > handover.ignore_until and known.contains(entry_id):",
        "if entry_id <= handover.ignore_until and known.contains(entry_id):",
        (MODES + "test_a_late_xack_counts_in_whichever_order_it_meets_a_second_handover",),
        "an entry that was acknowledged is pending again at the new home",
    ),
    # --- Who ends up handing out: rule 13 ---
    Mutation(
        "only-a-winning-mode-takes-up-what-was-left",
        "crdtstream/core/groups/takeover.py",
        "        elif progress.has_left_out:\n",
        "        elif progress.has_left_out and mode.mode is not Mode.HOME:\n",
        (TAKEOVER + "test_concurrent_modes_heard_in_either_order_leave_nothing_out",),
        "an entry given up before is handed out nowhere",
    ),
    Mutation(
        "lanes-to-come-stay-jumped",
        "crdtstream/core/groups/reading.py",
        "            self.position_of_others = None\n            self.position_is_left = False\n",
        "            self.position_is_left = False\n",
        (TAKEOVER + "test_an_empty_handover_is_one",),
        "what is appended after an empty handover is handed out nowhere",
    ),
    Mutation(
        "a-lane-that-began-behind-a-jump-stays-jumped",
        "crdtstream/core/groups/reading.py",
        "                self.note_left_out(region, progress)\n        return progress\n",
        "                pass\n        return progress\n",
        (
            TAKEOVER + "test_a_lane_that_began_behind_a_jump_is_read_from_its_frontier_by_the_new"
            "_home",
        ),
        "what was appended after XGROUP SETID in another region is handed out nowhere",
    ),
    Mutation(
        "partitioned-a-jump-speaks-of-all-lanes-to-come",
        "crdtstream/core/groups/reading.py",
        "self.position_is_left = is_partitioned or not",
        "self.position_is_left = not",
        (TAKEOVER + "test_partitioned_a_jump_speaks_of_no_lane_to_come",),
        "what other regions append later is handed out nowhere once this one takes it over",
    ),
    Mutation(
        "a-handover-that-loses-tells-nothing",
        "crdtstream/core/groups/takeover.py",
        "                _take_in_handed_out(reading, pel, region, handover)\n"
        "                if wins:\n",
        "                if wins:\n"
        "                    _take_in_handed_out(reading, pel, region, handover)\n",
        (
            TAKEOVER + "test_what_the_old_home_handed_out_is_not_handed_out_by_a_forced_one_in"
            "_either_order",
        ),
        "what is handed out depends on the order in which modes come",
    ),
    Mutation(
        "what-was-given-up-counts-as-acknowledged",
        "crdtstream/core/groups/group.py",
        "return last <= progress.last_delivered and hands_out_alone",
        "return last <= progress.last_delivered",
        (TAKEOVER + "test_acked_spares_what_others_have_yet_to_hand_out",),
        "a trim with ACKED removes what nobody acknowledged",
    ),
    Mutation(
        "acked-at-the-old-home-looks-at-itself",
        "crdtstream/core/groups/group.py",
        "        if not self.mode.is_handed_out_by(self._here, region):\n"
        "            return False\n",
        "",
        (TAKEOVER + "test_acked_at_the_old_home_spares_what_the_new_one_has_pending",),
        "a trim with ACKED removes what the new home still owes",
    ),
)
