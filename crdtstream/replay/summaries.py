"""Summaries of the reports of a list: their content, and the worst outcome in it.

A file is read once, and again when its size or time has changed.  A list reads at most
``BYTES_MAX`` for the first time; the next one goes on with the rest.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

from crdtstream.console import words
from crdtstream.core.size import Size
from crdtstream.replay.folder import AnyReport, FolderError, ReportFile, ReportFolder
from crdtstream.scenario.report_file import ScenarioReports

# Parsed in less than a second.
BYTES_MAX: Final = Size(16 << 20, least=1)


class Summary(NamedTuple):
    """One report.

    Attributes:
        holds: its drills or scenarios, counted; empty: not known.
        outcome: the worst one of them, in a word.
    """

    holds: str
    outcome: str


NOT_READ: Final = Summary("", "not read yet")
NOT_SHOWN: Final = Summary("", "not shown")


class Summaries:
    """Those of one folder; its method blocks, and may be called from several threads."""

    def __init__(self, folder: ReportFolder) -> None:
        self._folder = folder
        self._found: dict[ReportFile, Summary] = {}
        self._lock = Lock()

    def of(self, files: Sequence[ReportFile]) -> Mapping[ReportFile, Summary]:
        """The summaries of these files, of which none is missing."""
        with self._lock:
            self._found = {one: self._found[one] for one in files if one in self._found}
            read = 0
            for file in files:
                if file in self._found or (read and read + file.size > BYTES_MAX.value):
                    continue
                read += file.size
                self._found[file] = self._summary(file)
            return {one: self._found.get(one, NOT_READ) for one in files}

    def _summary(self, file: ReportFile) -> Summary:
        try:
            return summary_of(self._folder.report(file.name))
        except FolderError:
            return NOT_SHOWN


def summary_of(report: AnyReport) -> Summary:
    """The summary of one report."""
    if not isinstance(report, ScenarioReports):
        return Summary(words.number_of(len(report.runs), "drill"), report.verdict.value)
    scenarios = report.scenarios
    holds = words.number_of(len(scenarios), "scenario")
    if any(not one.skipped and not one.passed for one in scenarios):
        return Summary(holds, "failed")
    if scenarios and all(one.skipped for one in scenarios):
        return Summary(holds, "skipped")
    return Summary(holds, "passed")
