"""Scripts and styles: of this package alone, and never older than the node."""

import re

import pytest

from crdtstream.console.assets import TYPES
from tests.conftest import ROOT
from tests.console.shown import Shown

FOLDER = ROOT / "crdtstream" / "console" / "static"


@pytest.mark.parametrize("name", TYPES)
async def test_a_file_is_served_once_and_then_confirmed(name: str) -> None:
    shown = Shown()
    answer = await shown.get(f"/console/static/{name}")
    assert answer.status == 200
    assert answer.text == (FOLDER / name).read_text()
    assert answer.headers["content-type"] == TYPES[name]
    assert answer.headers["cache-control"] == "no-cache"
    etag = answer.headers["etag"]
    again = await shown.get(f"/console/static/{name}", headers={"if-none-match": etag})
    assert (again.status, again.text) == (304, "")
    other = await shown.get(f"/console/static/{name}", headers={"if-none-match": '"other"'})
    assert other.status == 200


@pytest.mark.parametrize("name", ["nothing.js", "..", "%2e%2e%2fapp.py"])
async def test_only_files_of_the_console_are_served(name: str) -> None:
    assert (await Shown().get(f"/console/static/{name}")).status == 404


def test_every_file_is_served() -> None:
    assert {path.name for path in FOLDER.iterdir()} == TYPES.keys()


@pytest.mark.parametrize("name", ["console.css", "console.js"])
def test_files_name_no_other_host(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)


def test_the_script_makes_no_markup_and_runs_no_text() -> None:
    text = (FOLDER / "console.js").read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(", text
    )
