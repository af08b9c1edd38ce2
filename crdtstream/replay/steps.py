"""A scenario as of each of its rows: what was done by then, which regions run, which links work.

Pure, as ``timeline.py``; the moments are 0, before the first row, to the number of rows.
"""

from collections.abc import Iterator
from itertools import permutations

from crdtstream.console.cells import Cells
from crdtstream.replay.timeline import ReplayedLink, ReplayedRegion
from crdtstream.scenario.report_file import ScenarioReport


class Steps:
    """One scenario.

    Attributes:
        begin, end: the first moment and the last one.
        regions, links: as of a ``Timeline``; all regions are linked.
    """

    def __init__(self, report: ScenarioReport) -> None:
        self.report = report
        self.begin, self.end = 0.0, float(len(report.rows))
        self.regions = list(report.regions)
        self.links = list(permutations(self.regions, 2))

    def within(self, at: float) -> float:
        """The moment, or the nearest one that the scenario has."""
        return float(round(min(max(at, self.begin), self.end)))

    def cells(self, at: float) -> Cells:
        """All texts as of a moment."""
        done, rows = int(at), self.report.rows
        return {
            "at": f"{_label(rows[done - 1].label, done)} of {len(rows)}" if done else "begin",
            **dict(self._of_regions(done)),
            **dict(self._of_links(done)),
            **{f"row.{n}.state": _state(n, done) for n in range(len(rows))},
        }

    def regions_on_map(self) -> list[ReplayedRegion]:
        return [ReplayedRegion(one) for one in self.regions]

    def links_on_map(self, cells: Cells) -> list[ReplayedLink]:
        return [ReplayedLink(one, to, cells[f"link.{one}-{to}.state"]) for one, to in self.links]

    def _of_regions(self, done: int) -> Iterator[tuple[str, str]]:
        crashed = self.report.rows[done - 1].crashed if done else []
        for region in self.regions:
            yield f"region.{region}.state", "no process" if region in crashed else "ok"

    def _of_links(self, done: int) -> Iterator[tuple[str, str]]:
        row = self.report.rows[done - 1] if done else None
        for source, to in self.links:
            is_cut = row is not None and (min(source, to), max(source, to)) in row.cut
            is_down = row is not None and {source, to} & set(row.crashed)
            yield f"link.{source}-{to}.state", "cut" if is_cut else "unknown" if is_down else "ok"
            yield f"link.{source}-{to}.label", "cut" if is_cut else ""


def _label(label: str, number: int) -> str:
    return f"{label}, row {number}" if label else f"row {number}"


def _state(row: int, done: int) -> str:
    if row >= done:
        return "to come"
    return "now" if row == done - 1 else "past"
