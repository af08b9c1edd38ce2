"""Reports of a folder: what is listed is what can be opened, and nothing else is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from crdtstream.drill.outcome import Report, Throughput
from crdtstream.drill.report.files import write_json
from crdtstream.replay import folder as folders
from crdtstream.replay.folder import FolderError, ReportFolder
from crdtstream.scenario.report_file import CallReport, CellReport, RowReport, ScenarioReports
from tests.drill.making import a_run
from tests.replay.test_pages import get
from tests.scenario.test_report import made

# With its end, of Linux.
PATH_MAX: Final = 4_096
ONE = Report(runs=[a_run()])


def names(folder: ReportFolder) -> list[str]:
    return [one.name for one in folder.listing().files]


def test_files_and_folders_of_drills_are_listed_the_newest_first(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    for at, name in enumerate(("before/report.json", "after.json", "notes.txt")):
        write_json(ONE, tmp_path / name)
        os.utime(tmp_path / name, (1_000 + at, 1_000 + at))
    (tmp_path / "empty").mkdir()
    folder = ReportFolder(tmp_path)
    assert names(folder) == ["after.json", "before/report.json"]
    assert folder.report("before/report.json") == ONE


def test_nothing_outside_of_the_folder_is_listed_or_opened(tmp_path: Path) -> None:
    inside, outside = tmp_path / "reports", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    write_json(ONE, outside / "report.json")
    (inside / "link.json").symlink_to(outside / "report.json")
    (inside / "linked").symlink_to(outside)
    folder = ReportFolder(inside)
    assert names(folder) == []
    for name in (
        *("../elsewhere/report.json", "link.json", "linked/report.json", "", "."),
        *(f"{outside}/report.json", "..\\elsewhere\\report.json", "%2e%2e/elsewhere/report.json"),
    ):
        with pytest.raises(FolderError, match="no report of this name"):
            folder.report(name)


def scenarios(**changed: Any) -> str:
    """A report of one scenario, changed."""
    one = made().model_copy(update=changed)
    return ScenarioReports(scenarios=[one]).model_dump_json(indent=1)


def drills(*, count: int = 1, **changed: Any) -> str:
    """A report of the same drill some times, changed."""
    return Report(runs=[a_run().model_copy(update=changed)] * count).model_dump_json()


ROW = RowReport(label="", explain="", cells={}, crashed=[], cut=[])
CALL = CallReport(client="", text="XLEN s", answer="0", expected="0", is_met=True)
CALLS = ROW.model_copy(update={"cells": {1: CellReport(calls=[CALL] * 10_000)}})
RATES = Throughput(at=[0.0], acknowledged={1: [1e308], 2: [1e308]}, delivered=[0.0])
# Regular expressions: thousands are a narrow space apart.
LARGE: dict[str, tuple[Callable[[], str], str]] = {
    "regions": (lambda: scenarios(regions=[*range(1, 1_501)]), "1.500 regions, and 32 at most"),
    "digests": (lambda: scenarios(digests=dict.fromkeys(range(33), "0")), "33 regions"),
    "rows": (lambda: scenarios(rows=[ROW] * 1_001), "1.001 rows, and 1.000 at most"),
    "cells": (lambda: scenarios(rows=[CALLS]), "10.003 cells, and 10.000 at most"),
    "faults": (
        lambda: scenarios(rows=[ROW.model_copy(update={"cut": [(1, 2)] * 10})]),
        "a row with more faults",
    ),
    "scenarios": (
        lambda: ScenarioReports(
            scenarios=[made().model_copy(update={"rows": []})] * 2_001
        ).model_dump_json(indent=1),
        "2.001 scenarios, and 2.000 at most",
    ),
    "drills": (
        lambda: drills(count=1_001, marks=[], links=[], nodes=[]),
        "1.001 drills, and 1.000 at most",
    ),
    "events": (lambda: drills(marks=a_run().marks[:1] * 2_001), "2.001 events"),
    "nodes": (lambda: drills(nodes=a_run().nodes[:1] * 33), "33 regions"),
    "links": (lambda: drills(links=a_run().links[:1] * 1_025), "more links than 32 regions"),
    "time": (lambda: drills(seconds=1e308), "a time or a rate that no run can have"),
    "rate": (lambda: drills(throughput=RATES), "a time or a rate that no run can have"),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_report_that_asks_for_too_much_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    make, why = LARGE[name]
    (tmp_path / "large.json").write_text(make())
    write_json(ONE, tmp_path / "one.json")
    folder = ReportFolder(tmp_path)
    with pytest.raises(FolderError, match=why):
        folder.report("large.json")
    assert folder.report("one.json") == ONE


async def test_a_beginning_that_no_calendar_has_in_utc_is_shown_as_it_is(tmp_path: Path) -> None:
    began = "0001-01-01T00:00:00+23:59"
    (tmp_path / "one.json").write_text(drills(began=began))
    page = await get(tmp_path, "/report", {"name": "one.json"})
    assert page.status == 200
    assert began in page.text


async def test_a_name_that_is_not_utf_8_hides_no_other_report(tmp_path: Path) -> None:
    write_json(ONE, tmp_path / "one.json")
    (tmp_path / os.fsdecode(b"\xff.json")).write_text("{}")
    page = await get(tmp_path, "/")
    assert page.status == 200
    assert "/report?name=one.json" in page.text
    assert "1 name left out, as it is not UTF-8 or cannot be read: \\xff.json" in page.text
    assert (await get(tmp_path, "/report", {"name": "one.json"})).status == 200


def test_a_folder_that_cannot_be_read_hides_no_other_report(tmp_path: Path) -> None:
    # Its own path is as long as Linux takes, so that of a report in it is too long.  Root, too,
    # cannot read that.
    root = tmp_path
    while len(str(root)) < PATH_MAX - 260:
        root /= "d" * 200
        root.mkdir()
    inner = root / ("e" * (PATH_MAX - 6 - len(str(root))))
    inner.mkdir()
    write_json(ONE, root / "one.json")
    folder = ReportFolder(root)
    assert names(folder) == ["one.json"]
    assert folder.listing().refused == [inner.name]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"members": []}', "not a report of drills"),
        (b'{"format": 2, "runs": []}', "of format 2"),
        (b'{"runs": [{"drill": 7}]}', "damaged report"),
    ],
)
def test_a_file_that_is_no_report_is_told_in_a_sentence(
    tmp_path: Path, content: bytes, why: str
) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(FolderError, match=why):
        ReportFolder(tmp_path).report("bad.json")


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(ONE, tmp_path / "large.json")
    monkeypatch.setattr(folders.FILE_BYTES_MAX, "value", 1_000)
    with pytest.raises(FolderError, match="drill report"):
        ReportFolder(tmp_path).report("large.json")


def test_of_many_files_the_newest_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders.FILES_MAX, "value", 2)
    for at in range(5):
        (tmp_path / f"{at}.json").write_text("{}")
        os.utime(tmp_path / f"{at}.json", (1_000 + at, 1_000 + at))
    folder = ReportFolder(tmp_path)
    assert names(folder) == ["4.json", "3.json"]
    assert folder.listing().older == 3


def test_a_report_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_json(ONE, path)
    folder = ReportFolder(tmp_path)
    assert folder.report("one.json") is folder.report("one.json")
    write_json(Report(runs=[]), path)
    assert folder.report("one.json") == Report(runs=[])


def test_a_bounded_number_of_reports_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders.KEPT_MAX, "value", 1)
    for name in ("one.json", "two.json"):
        write_json(ONE, tmp_path / name)
    folder = ReportFolder(tmp_path)
    first = folder.report("one.json")
    folder.report("two.json")
    assert folder.report("one.json") is not first


def test_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path / "gone")
    with pytest.raises(FolderError, match="cannot be read"):
        folder.listing()
