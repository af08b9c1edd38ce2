"""Planted bugs in drills: a verdict that cannot turn red, a fault or a program that stays."""

from typing import Final

from tests.mutations.mutation import Mutation

DRILL: Final = "crdtstream/drill/"
VERDICT: Final = "tests/drill/test_verdict.py::"
CHECKS: Final = "tests/drill/test_checks.py::"
JUDGING: Final = "tests/drill/test_judging.py::"
FAULTS: Final = "tests/drill/test_faults.py::"
PARSE: Final = "tests/drill/test_parse.py::"

DRILLS: Final = (
    Mutation(
        "drill-asks-only-regions-that-have-something",
        DRILL + "verdict.py",
        "for region in sorted(regions)}",
        "for region in sorted(regions) if records.found[region]}",
        (
            VERDICT + "test_a_region_in_which_nothing_is_found_has_lost_it_all",
            JUDGING + "test_regions_whose_streams_are_empty_have_lost_all",
        ),
        "a region that lost everything has lost nothing",
    ),
    Mutation(
        "drill-recovers-with-the-first-answer-after-a-mark",
        DRILL + "verdict.py",
        "            last_good, since = each, None\n",
        "            return worst\n",
        (VERDICT + "test_good_answers_right_after_a_fault_do_not_mean_that_it_is_over",),
        "a fault that clients feel a moment after its mark costs them nothing",
    ),
    Mutation(
        "drill-calls-a-rate-that-was-not-made-latency",
        DRILL + "verdict.py",
        "begun < BEGUN_SHARE_MIN * due",
        "begun < 0",
        (VERDICT + "test_a_rate_that_clients_could_not_make_says_so",),
        "the queue of a client is told as latency of a region",
    ),
    Mutation(
        "drill-does-not-count-the-herd",
        DRILL + "checks.py",
        "is_met=back == asked,",
        "is_met=back > 0,",
        (CHECKS + "test_every_client_of_a_herd_must_come_back",),
        "a herd of which one came back is back",
    ),
    Mutation(
        "drill-leaves-out-rows-that-nobody-answered",
        DRILL + "checks.py",
        "sum(each.unknown + each.refused for each in produced if",
        "sum(0 for each in produced if",
        (CHECKS + "test_each_thing_that_must_not_be_fails",),
        "a producer that waits for an answer until the drill is over is no finding",
    ),
    Mutation(
        "drill-does-not-judge-a-region-that-stays-away",
        DRILL + "judging.py",
        "        found = [unwell(course.unwell)]\n",
        "        found = []\n",
        (JUDGING + "test_a_region_that_does_not_come_back_is_a_failure_and_not_an_open_verdict",),
        "a drill passes after which a region is gone",
    ),
    Mutation(
        "drill-freezes-itself",
        DRILL + "deployment.py",
        "        if not pid:\n            raise UnwellError",
        "        if pid is None:\n            raise UnwellError",
        (FAULTS + "test_a_process_that_has_ended_is_not_mistaken_for_our_own",),
        "a step for a region that has crashed stops the drill and the shell that started it",
    ),
    Mutation(
        "drill-mends-ways-until-the-first-that-resists",
        DRILL + "deployment.py",
        '                errors.append(f"{way.name}: {error}")\n',
        "                raise\n",
        (FAULTS + "test_one_way_that_cannot_be_mended_keeps_no_other",),
        "faults stay in a deployment",
    ),
    Mutation(
        "drill-does-not-hear-of-a-fault-that-could-not-be-made",
        DRILL + "faults.py",
        "            self._error = error\n",
        "            pass\n",
        (FAULTS + "test_links_that_could_not_flap_are_no_fault_that_was_borne",),
        "a drill passes whose links never went down",
    ),
    Mutation(
        "drill-takes-steps-that-overlap",
        DRILL + "drill.py",
        "if any(r == region and begin < ends and step.at < end for",
        "if any(r == region and begin > ends and step.at < end for",
        (PARSE + "test_problems_are_reported_with_their_line",),
        "a drill ends in the middle, as one step starts what another one has",
    ),
)
