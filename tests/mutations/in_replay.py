"""Planted bugs in the replay of reports: which files are opened, and what a moment shows."""

from typing import Final

from tests.mutations.mutation import Mutation

FOLDER_PY: Final = "crdtstream/replay/folder.py"
TIMELINE_PY: Final = "crdtstream/replay/timeline.py"
APP_PY: Final = "crdtstream/replay/app.py"
JS: Final = "crdtstream/console/static/replay.js"
FOLDER: Final = "tests/replay/test_folder.py::"
TIMELINE: Final = "tests/replay/test_timeline.py::"
PAGES: Final = "tests/replay/test_pages.py::"
STEPS: Final = "tests/replay/test_steps.py::"
BROWSER: Final = "tests/replay/test_browser.py::"

REPLAY: Final = (
    Mutation(
        "replay-opens-any-path",
        FOLDER_PY,
        "        file = next((one for one in self.listing().files if one.name == name), None)\n",
        "        path = self._root / name\n"
        "        file = ReportFile(name, path, 0, 0) if path.is_file() else None\n",
        (FOLDER + "test_nothing_outside_of_the_folder_is_listed_or_opened",),
        "a browser reads reports, and learns of files, anywhere on the machine",
    ),
    Mutation(
        "replay-follows-links-out-of-the-folder",
        FOLDER_PY,
        "if not inner.resolve().is_relative_to(self._root):",
        "if False:",
        (FOLDER + "test_nothing_outside_of_the_folder_is_listed_or_opened",),
        "a link in a folder that others may write shows files that they may not read",
    ),
    Mutation(
        "replay-reads-files-of-any-size",
        FOLDER_PY,
        "        if file.size > FILE_BYTES_MAX.value:\n",
        "        if file.size < 0:\n",
        (FOLDER + "test_a_large_file_is_not_read",),
        "one file takes all memory",
    ),
    Mutation(
        "replay-draws-reports-of-any-size",
        FOLDER_PY,
        "    check(found)\n",
        "",
        (FOLDER + "test_a_report_that_asks_for_too_much_is_told_in_a_sentence",),
        "8 KiB with 1,500 regions keep the program from answering for 17 s",
    ),
    Mutation(
        "replay-takes-any-time",
        "crdtstream/replay/bounds.py",
        "if any(abs(one) > FIGURE_MAX for one in _figures(run)):",
        "if False:",
        (FOLDER + "test_a_report_that_asks_for_too_much_is_told_in_a_sentence[time]",),
        "a time that cannot be written ends the page by an exception",
    ),
    Mutation(
        "replay-lets-one-file-hide-all",
        FOLDER_PY,
        "            except (OSError, UnicodeEncodeError):\n"
        "                refused.append(shown(path.name))\n",
        "            except ZeroDivisionError:\n                refused.append(shown(path.name))\n",
        (
            FOLDER + "test_a_name_that_is_not_utf_8_hides_no_other_report",
            FOLDER + "test_a_folder_that_cannot_be_read_hides_no_other_report",
        ),
        "a file of another program in the folder keeps all reports from being shown",
    ),
    Mutation(
        "replay-keeps-all-reports",
        FOLDER_PY,
        "            if len(self._kept) > KEPT_MAX.value:\n",
        "            if len(self._kept) > 1_000:\n",
        (FOLDER + "test_a_bounded_number_of_reports_stays_in_memory",),
        "whoever looks at many reports runs out of memory",
    ),
    Mutation(
        "replay-answers-other-sites",
        APP_PY,
        "refusal_of(Request(scope), NAMES) or self._app",
        "self._app",
        (PAGES + "test_other_sites_read_nothing",),
        "a site whose name leads to 127.0.0.1 reads the reports",
    ),
    Mutation(
        "replay-shows-what-is-to-come",
        TIMELINE_PY,
        "    found = bisect_right(times, at) - 1\n",
        "    found = bisect_right(times, at)\n",
        (TIMELINE + "test_a_moment_has_what_was_measured_last",),
        "a lag is seen before the fault that caused it",
    ),
    Mutation(
        "replay-ends-another-fault",
        TIMELINE_PY,
        "what if what in found else found[0]",
        "found[0]",
        (TIMELINE + "test_faults_last_from_their_mark_to_that_of_their_end",),
        "of two faults the wrong one seems to last",
    ),
    Mutation(
        "replay-does-not-show-what-it-asked-for",
        JS,
        "    show(found.cells);\n",
        "",
        (BROWSER + "test_the_moment_is_moved_by_keyboard",),
        "the slider moves, and the figures stay",
    ),
    Mutation(
        "replay-lists-read-all-files",
        "crdtstream/replay/summaries.py",
        "if file in self._found or (read and read + file.size > BYTES_MAX.value):",
        "if file in self._found:",
        ("tests/replay/test_summaries.py",),
        "a folder of large reports holds the program up before its list is shown",
    ),
    Mutation(
        "replay-shows-the-row-before",
        "crdtstream/replay/steps.py",
        "        crashed = self.report.rows[done - 1].crashed if done else []\n",
        "        crashed = self.report.rows[done - 2].crashed if done > 1 else []\n",
        (STEPS + "test_a_moment_is_behind_its_row",),
        "a region seems to run after the row in which it crashed",
    ),
    Mutation(
        "scenario-reports-forget-what-is-healed",
        "crdtstream/scenario/report.py",
        "                cut.clear()\n",
        "                pass\n",
        ("tests/scenario/test_report.py::test_a_row_has_the_regions_and_links_behind_it",),
        "links that work again are shown as cut to the end",
    ),
    Mutation(
        "scenario-reports-call-all-answers-right",
        "crdtstream/scenario/report.py",
        "all(one.call is not call for one in outcome.mismatches)",
        "True",
        ("tests/scenario/test_report.py::test_a_report_has_each_answer_and_what_differs",),
        "a replay does not show which answer was wrong",
    ),
)
