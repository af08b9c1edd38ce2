"""Planted bugs in reports of drills: a figure that misleads is worse than none."""

from typing import Final

from tests.mutations.mutation import Mutation

REPORT: Final = "crdtstream/drill/report/"
COMPARE: Final = "tests/drill/test_report_compare.py::"
FILES: Final = "tests/drill/test_report_files.py::"
JUNIT: Final = "tests/drill/test_report_junit.py::"
LIVE: Final = "tests/drill/test_report_live.py::"
PAGE: Final = "tests/drill/test_report_page.py::"
TERMINAL: Final = "tests/drill/test_report_terminal.py::"

REPORTS: Final = (
    Mutation(
        "report-hides-an-open-fault",
        REPORT + "figures.py",
        "                if not lasting:\n                    spans[-1]",
        "                if True:\n                    spans[-1]",
        (PAGE + "test_a_span_lasts_while_any_fault_does",),
        "a plot shows no fault while one lasts",
    ),
    Mutation(
        "report-forgets-who-never-recovered",
        REPORT + "figures.py",
        "is_recovered=all(stall.recovery_s is not None for stall in hit),",
        "is_recovered=True,",
        (PAGE + "test_one_client_that_never_recovered_outweighs_all_that_did",),
        "the slowest recovery is that of those who recovered",
    ),
    Mutation(
        "report-thins-out-peaks",
        REPORT + "page_plots.py",
        "        [one_of(values[start : start + width]) for start in starts],",
        "        [values[start] for start in starts],",
        (PAGE + "test_a_peak_is_never_thinned_out",),
        "the highest lag of a long drill is in no plot",
    ),
    Mutation(
        "report-pastes-names-into-markup",
        "crdtstream/page/markup.py",
        "    return Markup(html.escape(showable(text)))",
        "    return Markup(showable(text))",
        (PAGE + "test_names_and_findings_of_a_drill_stay_text",),
        "an entry's text becomes part of the page",
    ),
    Mutation(
        "report-lets-texts-steer-the-terminal",
        REPORT + "terminal.py",
        "Text(showable(text), style=STYLES[cell.tone])",
        "Text(text, style=STYLES[cell.tone])",
        (TERMINAL + "test_texts_never_steer_a_terminal",),
        "an entry's text changes colours, title or contents of a terminal",
    ),
    Mutation(
        "report-is-written-in-place",
        REPORT + "files.py",
        "        descriptor, temporary = tempfile.mkstemp("
        'dir=path.parent, prefix=f".{path.name[:50]}.")\n',
        "        descriptor = os.open(temporary := str(path), os.O_RDWR"
        " | os.O_CREAT | os.O_TRUNC)\n",
        (FILES + "test_a_file_is_replaced_whole",),
        "a full disk takes the report of the run before",
    ),
    Mutation(
        "report-reads-any-format",
        REPORT + "files.py",
        "        if one != FORMAT:\n",
        "        if one is None:\n",
        (FILES + "test_files_that_are_no_report_are_refused",),
        "a report of another version is told in words of pydantic, or misread",
    ),
    Mutation(
        "junit-calls-an-aborted-drill-passed",
        REPORT + "junit.py",
        '            _add_text(case, "error", why.splitlines()[0], run, *why.splitlines()[1:])\n',
        "            pass\n",
        (JUNIT + "test_one_test_case_per_drill_in_order_with_its_outcome",),
        "CI is green though nothing was tested",
    ),
    Mutation(
        "comparison-has-noise-in-losses",
        REPORT + "compare.py",
        "    if unit is not Unit.EXACT:\n        is_small = abs(change) <= NOISE[unit]\n",
        "    if True:\n        is_small = abs(change) <= NOISE.get(unit, 10.0)\n",
        (COMPARE + "test_a_change_counts_beyond_noise",),
        "a lost entry is noise",
    ),
    Mutation(
        "comparison-judges-upwards-only",
        REPORT + "compare.py",
        "SHARE_MIN * min(abs(before), abs(after))",
        "SHARE_MIN * abs(before)",
        (COMPARE + "test_there_and_back_are_judged_alike",),
        "a figure becomes worse and, back where it was, not better",
    ),
    Mutation(
        "live-view-hides-short-stalls",
        REPORT + "live.py",
        'bars = Text(_bars(axis, points, most, min), style="green")',
        'bars = Text(_bars(axis, points, most, max), style="green")',
        (LIVE + "test_a_stall_shorter_than_a_column_is_seen",),
        "a stall of a second is not seen in a drill of minutes",
    ),
)
