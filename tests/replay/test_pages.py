"""Pages of reports: as of a moment, without scripts, for no other site."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.types import Message

from crdtstream.drill.outcome import Report
from crdtstream.drill.report.files import write_json
from crdtstream.replay.app import make_replay
from crdtstream.replay.folder import ReportFolder
from tests.console.shown import Answer
from tests.drill.making import a_run, all_drills, an_aborted_run
from tests.page.elements import HOSTILE

RUN = {"name": "one.json", "run": "0"}


class Tags(HTMLParser):
    """Elements and texts of a page, as a browser takes it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(Report(runs=[a_run(), an_aborted_run()]), tmp_path / "one.json")
    return tmp_path


async def get(
    folder: Path,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    given = {"host": "127.0.0.1:8390", **(headers or {})}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": urlencode(query or {}).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("127.0.0.1", 8390),
        "client": ("127.0.0.1", 4711),
    }
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await make_replay(ReportFolder(folder))(scope, receive, send)
    head, *rest = told
    return Answer(
        head["status"],
        {name.decode(): value.decode() for name, value in head["headers"]},
        b"".join(message.get("body", b"") for message in rest).decode(),
    )


async def test_the_list_leads_to_reports_and_these_to_drills(folder: Path) -> None:
    listed = await get(folder, "/")
    assert 'href="/report?name=one.json"' in listed.text
    report = await get(folder, "/report", {"name": "one.json"})
    assert 'href="/replay?name=one.json&amp;run=0"' in report.text
    assert "passed" in report.text
    assert "aborted" in report.text


async def test_an_empty_folder_says_how_a_report_is_written(tmp_path: Path) -> None:
    assert "drill run all --out" in (await get(tmp_path, "/")).text


async def test_a_page_is_as_of_the_moment_that_is_asked_for(folder: Path) -> None:
    """Without scripts: the slider is a form."""
    before = await get(folder, "/replay", {**RUN, "at": "10"})
    during = await get(folder, "/replay", {**RUN, "at": "25.5"})
    assert "no fault" in before.text
    assert 'data-cell="faults" aria-live="polite">region 1: kill -9<' in during.text
    assert 'value="25.5"' in during.text
    assert 'href="/replay?name=one.json&amp;run=0&amp;at=20.0"' in during.text


async def test_a_page_and_its_changes_have_the_same_texts(folder: Path) -> None:
    page = await get(folder, "/replay", {**RUN, "at": "25.5"})
    cells = json.loads((await get(folder, "/replay/at", {**RUN, "at": "25.5"})).text)["cells"]
    shown = re.findall(r'data-cell="([^"]+)"[^>]*>([^<]*)<', page.text)
    assert len(shown) > 20
    for name, text in shown:
        assert cells[name] == text, name
    states = re.findall(r'data-state-of="([^"]+)" data-state="([^"]*)"', page.text)
    assert {name for name, _ in states} >= {"region.1.state", "link.1-2.state"}
    assert all(cells[name] == state for name, state in states)


@pytest.mark.parametrize("run", range(13))
async def test_every_drill_has_a_page(tmp_path: Path, run: int) -> None:
    write_json(all_drills(), tmp_path / "all.json")
    answer = await get(tmp_path, "/replay", {"name": "all.json", "run": str(run)})
    assert answer.status == 200
    assert {"Timeline", "Events"} <= set(Tags(answer.text).text)


async def test_names_that_are_markup_are_text(tmp_path: Path) -> None:
    marks = [one.model_copy(update={"what": HOSTILE}) for one in a_run().marks]
    write_json(Report(runs=[a_run(HOSTILE, about=HOSTILE, marks=marks)]), tmp_path / "<b>.json")
    for path, query in (
        ("/", {}),
        ("/report", {"name": "<b>.json"}),
        ("/replay", {"name": "<b>.json", "run": "0", "at": "25"}),
    ):
        answer = await get(tmp_path, path, query)
        assert answer.status == 200
        found = Tags(answer.text)
        assert "img" not in {tag for tag, _ in found.found}
        scripts = [attrs for tag, attrs in found.found if tag == "script"]
        assert all((one["src"] or "").startswith("/console/static/") for one in scripts)
        assert "<script>alert(1)</script>" in "".join(found.text) or path == "/"


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("/report", {"name": "../one.json"}, 404, "no report of this name"),
        ("/report", {}, 404, "no report of this name"),
        ("/replay", {**RUN, "run": "2"}, 404, "fewer of them"),
        ("/replay", {**RUN, "run": "-1"}, 400, "number of a drill"),
        ("/replay", {**RUN, "run": "9" * 5_000}, 400, "number of a drill"),
        ("/replay", {**RUN, "at": "nan"}, 400, "number of seconds"),
        ("/replay/at", {**RUN, "at": "1e9"}, 400, "number of seconds"),
        ("/replay", {**RUN, "path": "/etc"}, 400, "each once"),
        ("/report", {"name": "x" * 9_000}, 414, "too long"),
        ("/console/streams", {}, 404, "no page at this address"),
    ],
)
async def test_bad_addresses_are_told_in_a_sentence(
    folder: Path, path: str, query: Mapping[str, str], status: int, says: str
) -> None:
    answer = await get(folder, path, query)
    assert answer.status == status
    assert says in answer.text


async def test_a_file_that_is_no_report_says_what_writes_both_kinds(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    answer = await get(tmp_path, "/report", {"name": "other.json"})
    assert answer.status == 404
    assert "drill run --out" in answer.text
    assert "scenario run --report" in answer.text
    assert 'href="/"' in answer.text


@pytest.mark.parametrize("path", ["/", "/report", "/replay", "/replay/at"])
async def test_other_sites_read_nothing(folder: Path, path: str) -> None:
    for headers, status in (
        ({"host": "evil.example:8390"}, 421),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
    ):
        answer = await get(folder, path, RUN, headers=headers)
        assert answer.status == status
        assert "one.json" not in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_reports_are_only_shown(folder: Path, method: str) -> None:
    own = {"origin": "http://127.0.0.1:8390"}
    assert (await get(folder, "/", method=method, headers=own)).status == 405
    assert (await get(folder, "/", method=method)).status == 403
