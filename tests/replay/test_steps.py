"""A scenario as of each of its rows, and its pages."""

import json
import re
from pathlib import Path

import pytest

from crdtstream.replay.folder import FolderError, ReportFolder
from crdtstream.replay.steps import Steps
from crdtstream.scenario.report_file import write_reports
from tests.replay.test_pages import get
from tests.scenario.test_report import made

RUN = {"name": "s.json", "run": "0"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_reports([made()], tmp_path / "s.json")
    return tmp_path


@pytest.mark.parametrize(
    ("at", "cell", "text"),
    [
        (0.0, "at", "begin"),
        (0.0, "row.0.state", "to come"),
        (0.0, "region.3.state", "ok"),
        (1.0, "row.0.state", "now"),
        (2.0, "row.0.state", "past"),
        (2.0, "row.1.state", "now"),
        (2.0, "link.1-2.state", "cut"),
        (2.0, "link.2-1.state", "cut"),
        (2.0, "link.2-1.label", "cut"),
        (2.0, "link.1-3.state", "ok"),
        (3.0, "region.3.state", "no process"),
        (3.0, "link.1-3.state", "unknown"),
        (4.0, "link.1-2.state", "ok"),
        (5.0, "region.3.state", "ok"),
        (7.0, "row.6.state", "now"),
    ],
)
def test_a_moment_is_behind_its_row(at: float, cell: str, text: str) -> None:
    assert Steps(made()).cells(at)[cell] == text


def test_a_moment_between_two_rows_is_the_nearest_one() -> None:
    steps = Steps(made())
    assert [steps.within(at) for at in (-1.0, 0.4, 2.6, 99.0)] == [0.0, 0.0, 3.0, 7.0]


async def test_the_report_leads_to_its_scenarios(folder: Path) -> None:
    answer = await get(folder, "/report", {"name": "s.json"})
    assert 'href="/replay?name=s.json&amp;run=0"' in answer.text
    assert "failed" in answer.text


async def test_a_page_and_its_changes_have_the_same_texts(folder: Path) -> None:
    page = await get(folder, "/replay", {**RUN, "at": "3"})
    cells = json.loads((await get(folder, "/replay/at", {**RUN, "at": "3"})).text)["cells"]
    shown = re.findall(r'data-cell="([^"]+)"[^>]*>([^<]*)<', page.text)
    assert len(shown) > 10
    for name, text in shown:
        assert cells[name] == text, name


async def test_a_cell_has_the_answer_and_what_was_expected_instead(folder: Path) -> None:
    text = (await get(folder, "/replay", RUN)).text
    assert '<code>XADD s 110 f v</code><span class="answer"> → 110-1</span><br>' in text
    assert '> → 0</span><b class="unmet"> expected: 7</b>' in text


def test_a_damaged_report_is_told_in_a_sentence(folder: Path) -> None:
    path = folder / "s.json"
    path.write_text(path.read_text().replace('"passed"', '"past"'))
    with pytest.raises(FolderError, match="damaged report of scenarios"):
        ReportFolder(folder).report("s.json")
