"""Planted bugs in version vectors that leave a region: by calls, offsets and archives."""

from typing import Final

from tests.mutations.mutation import Mutation

VALUE: Final = "crdtstream/core/incarnations.py"
LOST: Final = "crdtstream/core/membership/lost.py"
SERVICE: Final = "crdtstream/query/service.py"
VECTORS: Final = "crdtstream/spark/vectors.py"
SOURCE: Final = "crdtstream/spark/stream_source.py"
OF_VALUE: Final = "tests/core/test_incarnations.py::"
OF_COMMANDS: Final = "tests/commands/test_named_incarnations.py::"
OF_SERVICE: Final = "tests/query/test_incarnations.py::"
OF_OFFSETS: Final = "tests/spark/test_incarnations.py::"
OF_FOLDERS: Final = "tests/spark/test_lost_folder.py::"

NAMED_VECTORS: Final = (
    # --- Which incarnations need no name ---
    Mutation(
        "a-second-incarnation-is-not-named",
        VALUE,
        "        return 0 if is_first and is_sure else self.number\n",
        "        return 0 if is_sure else self.number\n",
        (OF_COMMANDS + "test_effects_of_an_earlier_folder_are_lost",),
        "rule 18: a token of lost effects says yes",
    ),
    Mutation(
        "the-first-incarnation-is-named",
        VALUE,
        "        return 0 if is_first and is_sure else self.number\n",
        "        return self.number\n",
        (OF_COMMANDS + "test_in_a_first_incarnation_tokens_are_numbers_alone",),
        "offsets of all queries change, and a program of an earlier version cannot read them",
    ),
    Mutation(
        "a-bid-that-may-have-begun-is-forgotten",
        VALUE,
        "        return self.is_first_unsure or may_be_gone\n",
        "        return self.is_first_unsure\n",
        (
            OF_VALUE + "test_folders_in_turns_never_mix_two_histories",
            OF_VALUE + "test_a_number_without_an_incarnation_is_lost_if_the_first_one_is_unsure",
        ),
        "dots of a folder that died before anybody heard of it are taken for those of the next one",
    ),
    Mutation(
        "two-bids-of-a-first-incarnation-are-one",
        VALUE,
        "        is_unsure |= n == 0 and 0 in [one.after_n for one in bids]\n",
        "",
        (OF_VALUE + "test_a_number_without_an_incarnation_is_lost_if_the_first_one_is_unsure",),
        "dots of a folder that died before anybody heard of it are taken for those of the next one",
    ),
    Mutation(
        "a-name-that-is-left-out-is-always-the-first",
        VALUE,
        "        if not number and self.begins and self.is_first_unsure:\n            return 0\n",
        "",
        (OF_VALUE + "test_a_number_without_an_incarnation_is_lost_if_the_first_one_is_unsure",),
        "dots of a folder that died before anybody heard of it are taken for those of the next one",
    ),
    Mutation(
        "the-cut-of-a-removed-region-hides-what-its-folder-lost",
        LOST,
        "        if region not in found or end.last_n < found[region].last_n:\n",
        "        if region not in found:\n",
        (OF_COMMANDS + "test_of_a_removed_region_its_cut_is_the_end",),
        "WAITFOR says yes for effects of a lost folder, once their region is removed",
    ),
    # --- The query service ---
    Mutation(
        "a-plan-may-begin-in-an-unheard-incarnation",
        SERVICE,
        "        if unheard:\n",
        "        if unheard and not vector.numbers:\n",
        (OF_SERVICE + "test_an_incarnation_that_is_not_known_here_is_waited_for",),
        "a query reads on beyond other effects than those that it had",
    ),
    Mutation(
        "what-a-lost-folder-had-may-be-trimmed",
        SERVICE,
        "        if read.numbers is not None:\n",
        "        if not read.vv:\n",
        (OF_SERVICE + "test_effects_of_an_earlier_folder_are_lost[trim]",),
        "an archive of lost entries has new ones trimmed that it never read",
    ),
    Mutation(
        "numbers-alone-are-of-the-first-incarnation",
        SERVICE,
        "            return _Vector(decode_vv(message), None)\n",
        "            return _Vector(decode_vv(message), {})\n",
        (OF_SERVICE + "test_a_program_of_an_earlier_version_is_answered_as_before",),
        "a program of an earlier version can read nothing at all",
    ),
    Mutation(
        "a-plan-s-end-is-not-named",
        SERVICE,
        "        return bounds, self._region.replica.numbers_of(upto.vv)\n",
        "        return bounds, {}\n",
        (OF_SERVICE + "test_a_position_and_a_plan_say_in_which_incarnation_their_dots_are",),
        "a query of a restored region is told of a loss that is none",
    ),
    # --- Offsets ---
    Mutation(
        "an-offset-names-no-incarnation",
        VECTORS,
        'f"{n}{marks[region]}" if region in marks else n',
        "n",
        (OF_OFFSETS + "test_offsets_name_a_later_one_and_are_read_again",),
        "a query skips the new effects that have the numbers of lost ones",
    ),
    Mutation(
        "an-end-is-of-all-incarnations",
        VECTORS,
        '        of_mark = self._of_marks.get((region, vector.marks.get(region, "")))\n',
        '        of_mark = self._of_marks.get((region, ""))\n',
        (OF_OFFSETS + "test_ends_are_of_the_incarnation_that_was_asked_about",),
        "a query reads the new effects again and again",
    ),
    Mutation(
        "equal-numbers-are-named-as-before",
        VECTORS,
        "            if n >= counts.get(region, 0):\n",
        "            if n > counts.get(region, 0):\n",
        (OF_OFFSETS + "test_a_vector_keeps_what_its_numbers_are_of",),
        "an archive's state names an incarnation longer than its checkpoint does",
    ),
    Mutation(
        "a-plan-is-asked-for-without-its-beginning-s-name",
        "crdtstream/spark/selection.py",
        "            above_token=base.token,\n",
        '            above_token="",\n',
        (OF_OFFSETS + "test_offsets_name_a_later_one_and_are_read_again",),
        "a folder that is lost between two calls is not told",
    ),
    Mutation(
        "a-task-reads-whatever-has-its-numbers",
        "crdtstream/spark/ranges.py",
        "            mark=end.mark_at(one.origin, one.upto_n),\n",
        '            mark="",\n',
        (OF_OFFSETS + "test_offsets_name_a_later_one_and_are_read_again",),
        "a task that goes on at a restored region mixes two histories",
    ),
    Mutation(
        "numbers-of-an-unheard-incarnation-are-taken-for-had",
        SOURCE,
        "for region, n in durable.items() if region not in unheard}",
        "for region, n in durable.items() if region not in unheard or n}",
        (OF_OFFSETS + "test_a_node_that_has_not_heard_of_an_incarnation_has_nothing_of_it",),
        "a query goes on at a node that has other effects under its numbers",
    ),
    Mutation(
        "a-second-loss-of-a-region-is-no-news",
        SOURCE,
        "            which = (region, vector.mark_at(region, 0))\n",
        '            which = (region, "")\n',
        (OF_OFFSETS + "test_each_loss_of_a_region_is_told_and_counted",),
        "the smaller loss of a region that is put back twice is told nobody",
    ),
    Mutation(
        "what-was-trimmed-of-a-lost-folder-hides-losses",
        SOURCE,
        "                self._forget_losses_beyond(end)\n",
        "",
        (OF_OFFSETS + "test_trims_of_the_lost_folder_hide_no_later_loss",),
        "new entries are trimmed unread, and the query does not end",
    ),
    # --- Archives and audits ---
    Mutation(
        "an-audit-compares-whatever-has-its-numbers",
        "crdtstream/spark/jobs/regions.py",
        "            _refuse_lost(wanted, positions.values())\n",
        "",
        (OF_FOLDERS + "test_an_audit_compares_the_folder_that_goes_on_and_no_other",),
        "an audit finds faults where a region went on in another folder",
    ),
    Mutation(
        "an-archive-does-not-take-note-of-a-loss",
        "crdtstream/spark/jobs/archive.py",
        "        if not beyond(end, archived) and not tells_loss:\n",
        "        if not beyond(end, archived):\n",
        (OF_FOLDERS + "test_an_archive_that_holds_what_is_lost_is_told_and_gets_all_that_is_new",),
        "an archive whose region lost a folder never goes on",
    ),
    Mutation(
        "a-replay-goes-on-with-entries-that-it-cannot-tell-apart",
        "crdtstream/spark/jobs/replay.py",
        "        if first < plan.chunks:\n            self._refuse_growth(plan)\n",
        "",
        (OF_FOLDERS + "test_an_archive_that_holds_what_is_lost_is_told_and_gets_all_that_is_new",),
        "a replay appends entries under the numbers of others, and leaves those out",
    ),
)
