"""Headless Chromium as the browser of a person: a page, its keys and colours, its complaints."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import Any, Final

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

from tests import patience
from tests.conftest import program

# Rules of axe that a page has to keep: WCAG 2.1, levels A and AA, and good practice.
AXE_TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")
HEIGHT: Final = 900
# Texts beyond the edges of their cell or card, words that are broken though they are short, and
# elements with more inside than they are wide.  Names of clients may break anywhere.
MISPLACED: Final = r"""
const found = [];
const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
const isUnseen = (one) => one.closest(".hidden, svg, option, datalist") || !one.checkVisibility()
  || (one.closest("thead") && getComputedStyle(one.closest("thead")).position === "absolute");
const range = document.createRange();
for (let text = texts.nextNode(); text; text = texts.nextNode()) {
  const parent = text.parentElement;
  if (!text.data.trim() || isUnseen(parent)) continue;
  const place = parent.closest("td, th, dt, dd, li, p, .card, main").getBoundingClientRect();
  range.selectNodeContents(text);
  for (const one of range.getClientRects())
    if (one.left < place.left - 1 || one.right > place.right + 1)
      found.push(`${text.data.trim()}: beyond its place`);
  if (parent.closest("code, a, .fields")) continue;
  for (const word of text.data.matchAll(/\p{L}{2,12}/gu)) {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
    if (lines.size > 1) found.push(`${word[0]}: broken`);
  }
}
for (const one of document.querySelectorAll("main *"))
  if (!isUnseen(one) && !one.matches("input, select") && one.clientWidth
      && one.scrollWidth > one.clientWidth + 1)
    found.push(`${one.localName}.${one.className}: wider inside: ${one.textContent.slice(0, 40)}`);
return found;
"""


class Browser:
    """One window."""

    def __init__(self, driver: "webdriver.Chrome") -> None:
        self._driver = driver

    def looks_like(self, *, width: int, dark: bool = False) -> None:
        """Have this width in CSS pixels, and the colours of day or night."""
        self._width = width
        self._size(HEIGHT)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def _size(self, height: int) -> None:
        self._driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": self._width,
                "height": height,
                "deviceScaleFactor": 1,
                "mobile": self._width < 500,
            },
        )

    def open(self, url: str) -> None:
        self._driver.get(url)

    def run(self, script: str, *arguments: object) -> Any:
        """The value that a script returns."""
        return self._driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """Text of the first element, as it is at present; empty if there is none."""
        found: str = self.run(
            "const one = document.querySelector(arguments[0]); return one ? one.innerText : ''",
            selector,
        )
        return found

    def until(
        self, condition: Callable[[], object], what: str, *, base: float = patience.SECONDS
    ) -> None:
        """Wait for a condition; an element that is asked for may not exist yet."""

        def holds() -> object:
            with suppress(NoSuchElementException):
                return condition()
            return False

        patience.wait_until(holds, what, base=base)

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self._driver).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        """All that the browser has complained of since it was last asked: errors, refused loads."""
        return [one["message"] for one in self._driver.get_log("browser")]

    def violations(self) -> list[str]:
        """Rules of accessibility that the page breaks, each with the elements that do."""
        # As a script of the tool, not of the page, whose policy forbids it.
        source = (files("axe_core_python") / "axe.min.js").read_text()
        self._driver.execute_script(source)
        found = self._driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run({runOnly: {type: 'tag', values: arguments[0]}}).then(done)",
            list(AXE_TAGS),
        )
        return [
            f"{one['id']}: {node['html'][:200]} {json.dumps(node.get('any', []))[:300]}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def overflow(self) -> int:
        """Pixels by which the page reaches beyond the right edge."""
        found: int = self.run(
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
        )
        return found

    def misplaced(self) -> list[str]:
        """Texts that leave their cell or card, or are broken within a word."""
        found: list[str] = self.run(MISPLACED)
        return found

    def open_another(self, url: str) -> None:
        """Open a page in a tab of its own, in front of the others."""
        self._driver.switch_to.new_window("tab")
        self.open(url)

    def close_others(self) -> None:
        """Close all tabs but the first, and go back to that one."""
        first, *others = self._driver.window_handles
        for handle in others:
            self._driver.switch_to.window(handle)
            self._driver.close()
        self._driver.switch_to.window(first)

    def picture(self, height_max: int = 4_000) -> bytes:
        """The whole page as PNG."""
        height = self.run("return document.documentElement.scrollHeight")
        self._size(min(height, height_max))
        found: bytes = self._driver.get_screenshot_as_png()
        self._size(HEIGHT)
        return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser of Debian's packages; the test is skipped without it."""
    chromium, chromedriver = program("chromium"), program("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(chromium)
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--hide-scrollbars", "--force-prefers-reduced-motion", "--no-proxy-server"),
        # It is to ask nobody but the node.
        *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(chromedriver)))
    driver.set_page_load_timeout(patience.seconds())
    try:
        yield Browser(driver)
    finally:
        driver.quit()
