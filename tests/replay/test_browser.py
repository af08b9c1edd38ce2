"""A report in a real browser: played, paused, moved by keyboard, on a desk and a phone."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from crdtstream.drill.outcome import Report
from crdtstream.drill.report.files import write_json
from crdtstream.scenario.report_file import write_reports
from tests.console.browser import Browser, open_browser
from tests.drill.making import a_failed_run, a_run
from tests.live.forked import Forked
from tests.patience import seconds, wait_until
from tests.scenario.test_report import made

pytestmark = pytest.mark.live

PICTURES = os.environ.get("CRDTSTREAM_PICTURES", "")
LOOKS = [
    pytest.param(1280, False, id="desk-light"),
    pytest.param(380, True, id="phone-dark"),
    pytest.param(768, True, id="tablet-dark", marks=pytest.mark.long),
    pytest.param(380, False, id="phone-light", marks=pytest.mark.long),
]
PATHS = {
    "list": "",
    "report": "report?name=after%2Freport.json",
    "scenario": "replay?name=scenarios.json&run=0&at=3",
    "replay": "replay?name=after%2Freport.json&run=0&at=25",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the pages of a folder, as the command prints it."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "after").mkdir()
    write_json(Report(runs=[a_run(), a_failed_run()]), folder / "after" / "report.json")
    write_reports([made()], folder / "scenarios.json")
    said = tmp_path_factory.mktemp("said") / "output"
    process = Forked(["crdtstream", "replay", str(folder), "--port", "0"], said)
    try:
        wait_until(lambda: said.exists() and "Ctrl-C" in said.read_text(), "it says its address")
        found = re.match(r"(http://127\.0\.0\.1:\d+/) ", said.read_text())
        assert found is not None
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(seconds()) == 0
    finally:
        process.kill()


@pytest.mark.parametrize(("width", "dark"), LOOKS)
@pytest.mark.parametrize("name", PATHS)
def test_a_page_is_clear_in_each_look(
    browser: Browser, url: str, name: str, width: int, dark: bool
) -> None:
    browser.looks_like(width=width, dark=dark)
    browser.open(url + PATHS[name])
    assert browser.overflow() == 0
    assert browser.misplaced() == []
    assert browser.violations() == []
    assert browser.complaints() == []


@pytest.mark.skipif(not PICTURES, reason="CRDTSTREAM_PICTURES names no folder")
def test_a_picture_is_taken_for_the_documentation(browser: Browser, url: str) -> None:
    browser.looks_like(width=1280)
    browser.open(url + PATHS["replay"])
    (Path(PICTURES) / "replay.png").write_bytes(browser.picture(height_max=900))


@pytest.mark.parametrize("width", [1280, 380])
def test_the_slider_is_as_long_as_the_strip(browser: Browser, url: str, width: int) -> None:
    """At each end the middle of its thumb is the end of the strip."""
    browser.looks_like(width=width)
    browser.open(url + PATHS["replay"])
    left, right = browser.run(
        "const box = (one) => document.querySelector(one).getBoundingClientRect();"
        "const slider = box('#at'), strip = box('svg.strip');"
        "return [strip.left - slider.left, slider.right - strip.right]"
    )
    assert left == right == 8


def test_a_page_has_room_between_its_introduction_and_the_card(browser: Browser, url: str) -> None:
    browser.looks_like(width=1280)
    browser.open(url + PATHS["replay"])
    room = browser.run(
        "const card = document.querySelector('main > .card').getBoundingClientRect();"
        "return card.top - document.querySelector('main > .quiet').getBoundingClientRect().bottom"
    )
    assert room > 4


def test_the_list_tells_drills_from_scenarios_and_how_they_ended(
    browser: Browser, url: str
) -> None:
    browser.looks_like(width=1280)
    browser.open(url)
    rows = browser.run(
        "return [...document.querySelectorAll('tbody tr')].map((row) =>"
        " [...row.children].slice(0, 3).map((one) => one.innerText))"
    )
    assert sorted(rows) == [
        ["after/report.json", "2 drills", "failed"],
        ["scenarios.json", "1 scenario", "failed"],
    ]


def at(browser: Browser) -> float:
    """The moment that the page shows."""
    return float(browser.text("output").removesuffix(" s"))


def test_a_report_is_played_and_paused(browser: Browser, url: str) -> None:
    browser.looks_like(width=1280)
    # At speed 1 the fault lasts for 15 s, so that it is seen on a busy machine, too.
    browser.open(f"{url}replay?name=after%2Freport.json&run=0&at=19.5")
    assert browser.text("[data-cell=faults]") == "no fault"
    browser.run("document.querySelector('#play').click()")
    assert browser.text("#play") == "Pause"
    browser.until(lambda: browser.text("[data-cell=faults]") == "region 1: kill -9", "the fault")
    browser.run("document.querySelector('#play').click()")
    assert browser.text("#play") == "Play"
    stopped = browser.run("return document.querySelector('#at').value")
    browser.until(lambda: at(browser) == float(stopped), "the newest moment is shown")
    state = "return document.querySelector(\"[data-state-of='region.1.state']\").dataset.state"
    assert 20 <= at(browser) < 62.5
    assert browser.run(state) == browser.text("[data-cell='region.1.state']")
    assert browser.violations() == []
    assert browser.complaints() == []


def test_it_ends_at_the_end_and_begins_again(browser: Browser, url: str) -> None:
    browser.open(f"{url}replay?name=after%2Freport.json&run=0&at=60")
    browser.run("document.querySelector('#speed').value = '30'")
    browser.run("document.querySelector('#play').click()")
    browser.until(lambda: browser.text("#play") == "Play", "it ends")
    browser.until(lambda: at(browser) == 62.5, "at the end")
    browser.run("document.querySelector('#speed').value = '1'")
    browser.run("document.querySelector('#play').click()")
    browser.until(lambda: 0 < at(browser) < 60, "it begins again")
    browser.run("document.querySelector('#play').click()")


def test_the_moment_is_moved_by_keyboard(browser: Browser, url: str) -> None:
    browser.looks_like(width=1280)
    browser.open(f"{url}replay?name=after%2Freport.json&run=0&at=19.9")
    browser.run("document.querySelector('#at').focus()")
    browser.press(Keys.ARROW_RIGHT)
    browser.until(lambda: at(browser) == 20.0, "one step on")
    browser.until(
        lambda: browser.text("[data-cell=faults]") == "region 1: kill -9", "the fault has begun"
    )
    spoken = "return document.querySelector('#at').getAttribute('aria-valuetext')"
    assert browser.run(spoken) == "20.0 s"
    browser.press(Keys.ARROW_LEFT)
    browser.until(lambda: browser.text("[data-cell=faults]") == "no fault", "and back")
    browser.press(Keys.END)
    browser.until(lambda: at(browser) == 62.5, "the end")


def test_a_scenario_is_moved_row_by_row(browser: Browser, url: str) -> None:
    browser.looks_like(width=1280)
    browser.open(f"{url}replay?name=scenarios.json&run=0")
    assert browser.text("output") == "begin"
    browser.run("document.querySelector('#at').focus()")
    for _ in range(3):
        browser.press(Keys.ARROW_RIGHT)
    browser.until(lambda: browser.text("[data-cell='row.2.state']") == "now", "the third row")
    assert browser.text("[data-cell='region.3.state']") == "no process"
    # innerText leaves out what is not seen: answers that are to come.
    assert "110-1" in browser.text("main")
    assert "→ 1" not in browser.text("tbody tr:last-child")
    browser.run("document.querySelector('#speed').value = '30'")
    browser.run("document.querySelector('#play').click()")
    browser.until(lambda: browser.text("[data-cell='row.6.state']") == "now", "it plays to its end")
    assert "→ 1" in browser.text("tbody tr:last-child")
    assert browser.complaints() == []


def test_an_event_leads_to_its_moment(browser: Browser, url: str) -> None:
    browser.open(f"{url}replay?name=after%2Freport.json&run=0")
    links = "[...document.querySelectorAll('tbody a')].find((one) => one.innerText === '35.0 s')"
    browser.open(browser.run(f"return {links}.href"))
    assert at(browser) == 35.0
    assert browser.text("[data-cell='mark.2.state']") == "past"
