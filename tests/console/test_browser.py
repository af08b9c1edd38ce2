"""The console in a real browser, of real nodes: pages, keyboard, changes, on a desk and a phone.

With CRDTSTREAM_PICTURES=FOLDER the pictures of docs/console.md are written there:

    CRDTSTREAM_PICTURES=docs/console python -m pytest tests/console/test_browser.py -k pictures
"""

import itertools
import json
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import redis
from selenium.webdriver.common.keys import Keys

from crdtstream.access.basic import Login
from crdtstream.console.map import REGIONS_MAX
from crdtstream.v1 import admin_pb2 as pb
from tests import patience
from tests.console.browser import Browser, open_browser
from tests.console.shown import Shown, link, members, status
from tests.live.cluster import Cluster, Node, cluster_of, running_regions
from tests.live.test_joining import Joiner
from tests.patience import LONG

pytestmark = pytest.mark.live

PASSWORD = "a-password-of-26-characters"
PICTURES = os.environ.get("CRDTSTREAM_PICTURES", "")

PATHS = {
    "overview": "/",
    "streams": "/console/streams",
    "stream": "/console/stream?key=orders%3Anew",
    "pending": "/console/pending?key=orders%3Anew&group=billing",
    "pause": "/console/act/pause?peer=2",
    "tune": "/console/act/tune?parameter=appendfsync",
    "members": "/console/members",
    "add": "/console/act/add",
    "node": "/console/node",
}
LOOKS = [
    pytest.param(1280, False, id="desk-light"),
    pytest.param(380, True, id="phone-dark"),
    *(
        pytest.param(width, dark, id=name, marks=pytest.mark.long)
        for width, dark, name in (
            (1280, True, "desk-dark"),
            (768, False, "tablet-light"),
            (768, True, "tablet-dark"),
            (380, False, "phone-light"),
        )
    ),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with open_browser() as found:
        yield found


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser without the page of the test before: its nodes may have ended, and it goes on to
    ask for them."""
    chromium.open("about:blank")
    chromium.complaints()
    return chromium


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three regions with streams of several lanes, groups, and names that are no text."""
    with cluster_of(3, tmp_path_factory.mktemp("console")) as cluster:
        cluster.configure()
        cluster.start()
        for region, node in cluster.nodes.items():
            for key in ("orders:new", "orders:paid", "parcels", b"\xff<script>alert(1)</script>"):
                for at in range(10 * region):
                    fields = {
                        "customer": f"c{at}",
                        "amount": str(17 * at),
                        "text": "a gift, please",
                    }
                    node.client.xadd(key, fields)
        cluster.converge()
        first = cluster[1].client
        for group in ("billing", "audit"):
            first.xgroup_create("orders:new", group, "0")
        first.xreadgroup("billing", "worker-1", {"orders:new": ">"}, count=20)
        yield cluster


def url(cluster: Cluster, path: str, region: int = 1) -> str:
    return f"http://127.0.0.1:{cluster[region].http_port}{path}"


def state_of(browser: Browser) -> str:
    state: str = browser.run("return document.querySelector('.live').dataset.state")
    return state


def until_live(browser: Browser) -> None:
    browser.until(lambda: state_of(browser) == "on", "the page is live")


@pytest.mark.parametrize(("width", "dark"), LOOKS)
@pytest.mark.parametrize("name", PATHS)
def test_a_page_is_clear_in_each_look(
    browser: Browser, cluster: Cluster, name: str, width: int, dark: bool
) -> None:
    browser.looks_like(width=width, dark=dark)
    browser.open(url(cluster, PATHS[name]))
    if "data-live" in browser.run("return document.body.getAttributeNames()"):
        until_live(browser)
    assert browser.overflow() == 0
    assert browser.violations() == []
    assert browser.complaints() == []


@pytest.mark.parametrize("name", ["overview", "streams", "stream"])
def test_on_a_phone_each_figure_has_its_name_beside_it(
    browser: Browser, cluster: Cluster, name: str
) -> None:
    browser.looks_like(width=380)
    browser.open(url(cluster, PATHS[name]))
    nameless = browser.run(
        "const name = (one) => getComputedStyle(one, '::before');"
        "return [...document.querySelectorAll('tbody td')].filter((one) =>"
        " name(one).display === 'none' || name(one).content === 'none'"
        ").map((one) => one.dataset.name)"
    )
    assert nameless == []


@pytest.fixture
def wide(cluster: Cluster) -> Iterator[None]:
    """Figures that are long: bounds of memory and disk, entries that are minutes and years old."""
    client = cluster[1].client
    bounds = {"maxmemory": 4 << 30, "maxdisk": 40 << 30}
    for name, value in bounds.items():
        client.config_set(name, value)
    now = client.time()[0] * 1_000
    for key, age_s in (("old", 1_107 * 86_400 + 79_200), ("minutes old", 226)):
        if not client.exists(key):
            client.xadd(key, {"f": "v"}, id=str(now - age_s * 1_000))
    yield
    for name in bounds:
        client.config_set(name, 0)


@pytest.mark.parametrize(
    "width", [380, pytest.param(768, marks=pytest.mark.long), pytest.param(1_280)]
)
def test_no_text_leaves_its_card(
    browser: Browser, cluster: Cluster, wide: None, width: int
) -> None:
    browser.looks_like(width=width)
    old = {key: f"/console/stream?key={quote(key)}" for key in ("old", "minutes old")}
    for name, path in {**PATHS, **old}.items():
        browser.open(url(cluster, path))
        assert browser.misplaced() == [], name
        assert browser.overflow() == 0, name


def test_figures_change_without_a_reload(browser: Browser, cluster: Cluster) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/"))
    until_live(browser)
    browser.run("window.isSamePage = true")
    keys = int(browser.text("[data-cell='total.keys']"))
    cluster[1].client.xadd("one more", {"f": "v"})
    browser.until(
        lambda: browser.text("[data-cell='total.keys']") == str(keys + 1), "the key is counted"
    )
    assert browser.run("return window.isSamePage")


def test_more_pages_are_open_than_a_browser_has_connections(
    browser: Browser, cluster: Cluster
) -> None:
    """It has six to a node: a page that is not seen must need none."""
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/"))
    until_live(browser)
    try:
        for _ in range(7):
            browser.open_another(url(cluster, "/"))
            until_live(browser)
    finally:
        browser.close_others()
    # The first one is seen again, and goes on.
    cluster[1].client.xadd("seen again", {"f": "v"})
    count = str(cluster[1].client.dbsize())
    browser.until(lambda: browser.text("[data-cell='total.keys']") == count, "the key is counted")


# Pairs of texts on the map that share some of its surface.
MEETING = """
const texts = [...document.querySelectorAll(".map text")];
const places = texts.map((one) => one.getBoundingClientRect());
return texts.flatMap((one, at) => texts.slice(0, at).filter((_, other) => {
  const [a, b] = [places[at], places[other]];
  return Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
}).map((other) => `${one.textContent}, ${other.textContent}`));
"""


@pytest.mark.parametrize("count", range(2, REGIONS_MAX + 1))
async def test_labels_of_the_map_do_not_meet(browser: Browser, tmp_path: Path, count: int) -> None:
    shown, regions = Shown(), range(1, count + 1)
    # The longest texts that there are.
    reports = {
        one: status(one, *(link(peer, lag_ms=888) for peer in regions if peer != one))
        for one in regions
    }
    shown.members = members(*regions)
    shown.own, shown.others = reports.pop(1), dict(reports)
    sheet = await shown.get("/console/static/console.css")
    page = (await shown.get("/")).text.replace("</head>", f"<style>{sheet.text}</style></head>")
    path = tmp_path / "map.html"
    path.write_text(page)
    for width in (380, 768, 1_280):
        browser.looks_like(width=width)
        browser.open(path.as_uri())
        assert browser.run("return document.querySelectorAll('.label').length") == len(
            list(permutations(regions, 2))
        )
        assert browser.run(MEETING) == [], width
    # Scripts and styles of the node are not there.
    browser.complaints()


def test_a_paused_link_is_seen_on_the_map_in_the_table_and_as_a_notice(
    browser: Browser, cluster: Cluster
) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/"))
    until_live(browser)
    cluster[1].set_links(paused=True, peers=[2])
    try:
        browser.until(
            lambda: browser.text("[data-cell='link.2-1.state']") == "paused", "the table says so"
        )
        arrow = "return document.querySelector(\"[data-state-of='link.2-1.state']\").dataset.state"
        assert browser.run(arrow) == "paused"
        assert "CrdtstreamLinkPaused" in browser.text("[data-notices]")
        assert is_offered(browser, "Resume…")
        assert browser.violations() == []
    finally:
        cluster[1].set_links(paused=False, peers=[2])
    browser.until(
        lambda: "Nothing needs attention" in browser.text("[data-notices]"), "it is well again"
    )


def test_a_curve_is_drawn_of_what_is_sent(browser: Browser, cluster: Cluster) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/"))
    until_live(browser)
    line = "return document.querySelector(\"[data-curve='2-1.rate'] .line\").getAttribute('d')"
    before = browser.run(line)
    browser.until(lambda: browser.run(line) not in ("", before), "the curve moves on")


@pytest.mark.long
def test_a_page_says_when_its_node_is_gone_and_goes_on_when_it_is_back(
    browser: Browser, cluster: Cluster
) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/", region=3))
    until_live(browser)
    cluster[3].end()
    browser.until(lambda: state_of(browser) == "off", "the page says that it has no news")
    assert "no news since" in browser.text(".live")
    assert browser.run("return document.body.classList.contains('old')")
    assert browser.text("#banner") == "This node is silent. Look at: region 1 region 2"
    assert browser.run("return [...document.querySelectorAll('#banner a')].map((a) => a.href)") == [
        url(cluster, "/", region=1),
        url(cluster, "/", region=2),
    ]
    cluster[3].start()
    until_live(browser)
    assert browser.run("return document.querySelector('#banner').hidden")
    browser.complaints()


@pytest.mark.long
def test_an_old_page_says_so_after_an_upgrade(browser: Browser, cluster: Cluster) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/", region=2))
    until_live(browser)
    # As if the page were of an earlier version, and its node began again.
    browser.run("document.body.dataset.assets = 'of another version'")
    cluster[2].end()
    cluster[2].start()
    browser.until(lambda: "another version" in browser.text("#banner"), "the page says so")
    assert browser.run("return document.querySelector('#banner a').href") == url(
        cluster, "/", region=2
    )
    browser.complaints()


def test_all_is_reached_by_keyboard(browser: Browser, cluster: Cluster) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/console/streams"))
    focused = "const one = document.activeElement; return one.innerText || one.id"
    browser.press(Keys.TAB)
    assert browser.run(focused) == "Skip to the content"
    names = []
    for _ in range(5):
        browser.press(Keys.TAB)
        names.append(browser.run(focused))
    assert names == ["crdtstream", "Overview", "Streams", "Members", "Node"]
    browser.press(Keys.TAB)
    assert browser.run(focused) == "pattern"
    browser.press("orders:p*", Keys.ENTER)
    browser.until(lambda: "pattern=orders" in browser.run("return location.search"), "it searches")
    assert "orders:paid" in browser.text("main")
    assert "parcels" not in browser.text("main")


def test_names_that_are_markup_run_nothing(browser: Browser, cluster: Cluster) -> None:
    browser.open(url(cluster, "/console/streams"))
    assert "<script>alert(1)</script>" in browser.text("main")
    link = "[...document.querySelectorAll('a')].find((one) => one.innerText.includes('alert'))"
    browser.open(browser.run(f"return {link}.href"))
    assert browser.text("h1") == "\\xff<script>alert(1)</script>"
    assert "a gift, please" in browser.text("main")
    assert browser.complaints() == []


def test_the_timeline_leads_to_the_history_of_an_entry(browser: Browser, cluster: Cluster) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, PATHS["stream"]))
    browser.open(browser.run("return document.querySelector('.timeline a').href"))
    assert "not delivered yet" in browser.text("main")
    assert "customer" in browser.text("main .fields")
    assert browser.violations() == []
    browser.looks_like(width=380)
    assert browser.overflow() == 0


# --- Actions --------------------------------------------------------------------------------------


def click(browser: Browser, text: str) -> None:
    """Click the link or button whose text begins so, and wait for another page."""
    found = (
        "[...document.querySelectorAll('a, button')].find((one) => one.innerText.startsWith(%s))"
    )
    browser.run("document.body.dataset.isOld = ''")
    browser.run(f"{found % json.dumps(text)}.click()")
    is_new = "return document.readyState === 'complete' && !('isOld' in document.body.dataset)"
    browser.until(lambda: browser.run(is_new), f"{text} leads to another page")


def until_done(browser: Browser) -> None:
    """Wait for the end of an action: an outcome is shown before, and the page follows it."""
    browser.until(lambda: browser.text("[data-outcome] .state") == "done", "it is done")


def test_a_link_is_paused_and_resumed_after_the_page_has_asked(
    browser: Browser, cluster: Cluster
) -> None:
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/"))
    for action, state in (("Pause", "PAUSED"), ("Resume", "UP")):
        browser.until(partial(is_offered, browser, f"{action}…"), "the link is named by it")
        click(browser, f"{action}…")
        assert browser.text("h1") == f"{action} the link from region 2"
        assert link_state(cluster, 2) != state
        click(browser, f"{action} the link")
        until_done(browser)
        assert browser.violations() == []
        browser.until(partial(is_link, cluster, 2, state), f"it is {state}")
        click(browser, "Back")
    assert browser.complaints() == []


def is_offered(browser: Browser, action: str) -> bool:
    """True if the page offers this action for the link from region 2."""
    return browser.text("[data-cell='link.2-1.action']") == action


def is_link(cluster: Cluster, peer: int, state: str) -> bool:
    return link_state(cluster, peer) == state


def link_state(cluster: Cluster, peer: int) -> str:
    """State of the link by which region 1 pulls from a peer."""
    found = next(one for one in cluster[1].status().links if one.peer == peer)
    return pb.LinkStatus.State.Name(found.state)


def test_pending_entries_are_chosen_claimed_and_acknowledged(
    browser: Browser, cluster: Cluster
) -> None:
    client = cluster[1].client
    browser.looks_like(width=1280)
    browser.open(url(cluster, PATHS["stream"]))
    click(browser, "Consumers and pending entries of billing")
    browser.run("document.querySelectorAll('[name=id]')[0].focus()")
    browser.press(Keys.SPACE)
    chosen = browser.run("return document.querySelector('[name=id]:checked').value")
    click(browser, "Claim…")
    browser.run("document.querySelector('#idle').value = '0'; document.activeElement.blur()")
    browser.run("document.querySelector('#consumer').focus()")
    browser.press("worker-2")
    assert browser.violations() == []
    click(browser, "Go on")
    assert "become those of worker-2" in browser.text("main")
    click(browser, "Claim 1 entry for consumer worker-2")
    until_done(browser)
    own = client.xpending_range("orders:new", "billing", "-", "+", 10, "worker-2")
    assert [one["message_id"] for one in own] == [chosen.encode()]
    click(browser, "Back")
    browser.run("document.querySelector(`[value='${arguments[0]}']`).checked = true", chosen)
    click(browser, "Acknowledge…")
    click(browser, "Acknowledge 1 entry")
    until_done(browser)
    assert client.xpending_range("orders:new", "billing", chosen, chosen, 10) == []
    # A reload of the outcome repeats nothing, and asks nothing.
    browser.open(browser.run("return location.href"))
    assert browser.text("[data-outcome] .state") == "done"


def test_a_setting_is_tuned_by_the_console(browser: Browser, cluster: Cluster) -> None:
    browser.looks_like(width=380, dark=True)
    browser.open(url(cluster, "/console/act/tune?parameter=max_replication_lag_effects"))
    assert browser.violations() == []
    assert browser.overflow() == 0
    browser.run("document.querySelector('#value').value = '4711'")
    click(browser, "Go on")
    assert "becomes 4711" in browser.text("main")
    assert browser.violations() == []
    assert browser.overflow() == 0
    click(browser, "Set max_replication_lag_effects to 4711")
    until_done(browser)
    found = {one.name: one.value for one in cluster[1].status().tunables}
    assert found["max_replication_lag_effects"] == "4711"


def test_a_form_of_another_site_changes_nothing(browser: Browser, cluster: Cluster) -> None:
    """A page of another port is another site's, and a browser sends it nothing of ours."""
    browser.looks_like(width=1280)
    browser.open(url(cluster, "/console/act/pause?peer=3"))
    proof = browser.run("return document.querySelector('[name=proof]').value")
    form = (
        f'<form method="post" action="{url(cluster, "/console/act/pause?peer=3")}">'
        f'<input name="proof" value="{proof}"></form>'
    )
    browser.open(f"data:text/html,{quote(form)}")
    browser.run("document.forms[0].submit()")
    browser.until(lambda: "No page of this node" in browser.text("main"), "it is refused")
    assert link_state(cluster, 3) == "UP"
    browser.complaints()


@pytest.mark.long
def test_a_region_is_removed_after_its_seal(browser: Browser, tmp_path: Path) -> None:
    with running_regions(3, tmp_path) as cluster:
        for node in cluster.nodes.values():
            node.client.xadd("orders", {"f": "v"})
        cluster.converge()
        browser.looks_like(width=1280)
        browser.open(url(cluster, "/console/members"))
        click(browser, "Remove…")
        assert "would take no writes" in browser.text("main")
        assert "cannot be undone" in browser.text("main")
        assert browser.violations() == []
        click(browser, "Remove region 2")
        until_done(browser)
        assert "Members of epoch 2: 1, 3" in browser.text("main")
        click(browser, "Back")
        browser.until(lambda: "removed in epoch 2" in browser.text("main"), "the page says so")
        assert cluster[1].client.xlen("orders") == 3


HOSTILE = (b"<script>alert(1)</script>", "\u202eredro \u05d0\u05d1".encode(), b"k" * (1 << 20))
MANY_STREAMS = 100_000
# Entries of the stream that are there before its writer begins.
GIVEN = 20


@dataclass(frozen=True, slots=True)
class Crowd:
    """Regions with very many streams, and the writer of one of them."""

    cluster: Cluster
    writer: "FastWriter"


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Crowd]:
    """Three regions with very many streams, hostile names, and a writer who does not rest."""
    with running_regions(3, tmp_path) as cluster:
        first = cluster[1].client
        pipeline = first.pipeline(transaction=False)
        for at in range(MANY_STREAMS):
            pipeline.xadd(f"sensor:{at}", {"f": "v"})
            if not at % 1_000:
                pipeline.execute()
        for name in HOSTILE:
            for at in range(3):
                pipeline.xadd(name, {name[:100]: b"v" if at else name})
            pipeline.xgroup_create(name, name[:100], "0")
        for _ in range(GIVEN):
            pipeline.xadd("orders:new", {"customer": "c1"})
        pipeline.xgroup_create("orders:new", "billing", "0")
        pipeline.xreadgroup("billing", "worker-1", {"orders:new": ">"})
        pipeline.execute()
        writer = FastWriter(cluster[1])
        with ThreadPoolExecutor() as threads:
            writing = threads.submit(writer.run)
            try:
                yield Crowd(cluster, writer)
            finally:
                writer.ends.set()
        writing.result()


class FastWriter:
    """Writes 5,000 entries a second, as far as the machine lets it, in batches of 50.

    It packs commands and counts replies itself: a client library would take more of the processor
    than the node.

    Attributes:
        acknowledged: number of XADDs that were answered with an ID.
        seconds: for which it has written.
    """

    RATE, BATCH, LENGTH_MAX = 5_000, 50, 100_000

    def __init__(self, node: Node) -> None:
        self.ends, self.has_ended = Event(), Event()
        self.acknowledged = 0
        self.seconds = 0.0
        self._node = node

    def run(self) -> None:
        argv = (b"XADD", b"orders:new", b"*", b"customer", b"c4711", b"amount", b"17")
        command = b"*%d\r\n" % len(argv) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in argv)
        address = self._node.host, self._node.resp_port
        began = time.monotonic()
        with (
            self._node.connect() as client,
            socket.create_connection(address, timeout=patience.seconds()) as connection,
            connection.makefile("rb") as replies,
        ):
            while not self.ends.is_set():
                connection.sendall(command * self.BATCH)
                for _ in range(self.BATCH):
                    assert replies.readline().startswith(b"$")
                    replies.readline()
                self.acknowledged += self.BATCH
                self.seconds = time.monotonic() - began
                if not self.acknowledged % self.RATE:
                    client.xtrim("orders:new", self.LENGTH_MAX)
                # Behind its pace it goes on at once.
                self.ends.wait(max(0.0, self.acknowledged / self.RATE - self.seconds))
        self.has_ended.set()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_pages_are_clear_under_load_and_while_a_region_is_lost(
    browser: Browser,
    crowded: Crowd,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster, writer = crowded.cluster, crowded.writer
    paths = [
        *("/", "/console/streams", "/console/members", "/console/node"),
        *("/console/streams?pattern=*", PATHS["stream"], PATHS["pending"]),
        *(f"/console/stream?{urlencode({'key': name})}" for name in HOSTILE[:2]),
    ]

    def is_clear(look: str) -> None:
        before = writer.acknowledged
        for path in paths:
            browser.open(url(cluster, path))
            if path == "/":
                until_live(browser)
            if PICTURES:
                name = f"{look}-{paths.index(path)}.png"
                Path(PICTURES, name).write_bytes(browser.picture(height_max=1_600))
            assert browser.overflow() == 0, (look, path)
            assert browser.misplaced() == [], (look, path)
            assert browser.violations() == [], (look, path)
            assert browser.complaints() == [], (look, path)
        assert writer.acknowledged > before, look

    looks = [(width, dark) for width in (1_280, 768, 380) for dark in (False, True)]
    for width, dark in looks:
        browser.looks_like(width=width, dark=dark)
        is_clear(f"load-{width}-{dark}")

    cluster[3].end(signal.SIGKILL)
    browser.open(url(cluster, "/"))
    browser.until(lambda: "no answer" in browser.text("main"), "it is told", base=LONG)
    browser.complaints()
    for width, dark in looks:
        browser.looks_like(width=width, dark=dark)
        is_clear(f"lost-{width}-{dark}")
    cluster[3].start()
    browser.looks_like(width=1_280)
    browser.open(url(cluster, "/"))
    browser.until(
        lambda: "no answer" not in browser.text("main") and "3 of 3" in browser.text(".tiles"),
        "it is back",
        base=LONG,
    )
    writer.ends.set()
    assert writer.has_ended.wait(patience.seconds())
    added = cluster[1].client.xinfo_stream("orders:new")["entries-added"]
    assert added == GIVEN + writer.acknowledged
    cluster.converge()
    rate = round(writer.acknowledged / writer.seconds)
    record_property("xadds_per_second", rate)
    with capsys.disabled():
        print(f"\n{rate} XADDs a second, {writer.acknowledged} acknowledged")


@pytest.mark.long
def test_the_token_of_an_added_region_fits_a_phone_until_it_has_joined(
    browser: Browser, tmp_path: Path
) -> None:
    joiner = Joiner(tmp_path, 3)
    with running_regions(2, tmp_path) as cluster:
        cluster.converge()
        browser.looks_like(width=380)
        browser.open(url(cluster, PATHS["add"]))
        for name, value in (("name", "eu"), ("grpc", joiner.node.grpc_address)):
            browser.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)
        click(browser, "Go on")
        click(browser, "Add region eu")
        until_done(browser)
        assert "--token-file region-3.token" in browser.text("main")
        assert browser.text("[aria-current]") == "Members"
        assert browser.overflow() == 0
        assert browser.misplaced() == []
        assert browser.violations() == []
        joiner.token.write_text(browser.text(".secret code"))
        joiner.token.chmod(0o600)
        try:
            joiner.launch(cluster[1])
            browser.until(lambda: "Its node has joined." in browser.text("main"), "it is told")
            assert browser.text(".secret") == ""
        finally:
            joiner.kill()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that asks for a password, with a user who may read orders."""
    with cluster_of(1, tmp_path_factory.mktemp("closed")) as found:
        found.configure(requirepass=PASSWORD)
        client: Any = redis.Redis(port=found[1].resp_port, password=PASSWORD)
        found[1].client, found[1].login = client, Login(PASSWORD)
        found.start()
        for key in ("orders:new", "salaries"):
            client.xadd(key, {"f": "v"})
        rules = ["on", f">{PASSWORD}", "+info", "+@read", "+ping", "%R~orders:*"]
        client.execute_command("ACL", "SETUSER", "viewer", *rules)
        yield found[1]


def test_a_user_logs_in_by_the_browser_and_sees_what_it_may_read(
    browser: Browser, closed: Node
) -> None:
    browser.looks_like(width=1280)
    address = f"127.0.0.1:{closed.http_port}"
    browser.open(f"http://{address}/")
    assert browser.text("h1") in ("", "Log in")
    assert "regions without a fault" not in browser.text("body")
    # As if user and password were typed into the browser's own window.
    browser.open(f"http://viewer:{PASSWORD}@{address}/")
    until_live(browser)
    browser.open(f"http://{address}/console/streams")
    assert "orders:new" in browser.text("main")
    assert "salaries" not in browser.text("main")
    assert "1 stream hidden" in browser.text("main")
    browser.complaints()


@pytest.mark.skipif(not PICTURES, reason="CRDTSTREAM_PICTURES names no folder")
@pytest.mark.timeout(300)
def test_pictures_are_taken_of_regions_at_work(browser: Browser, cluster: Cluster) -> None:
    """The one test that makes files: for the documentation, of figures as they came."""
    folder = Path(PICTURES)
    ends = Event()
    with ThreadPoolExecutor() as threads:
        writers = [threads.submit(write, cluster, region, ends) for region in cluster.nodes]
        try:
            browser.looks_like(width=1280)
            browser.open(url(cluster, "/"))
            until_live(browser)
            browser.until(
                lambda: points_of(browser, "2-1.rate") > 70, "a minute of figures", base=LONG
            )
            cluster[1].set_links(paused=True, peers=[2])
            browser.until(
                lambda: "CrdtstreamLinkPaused" in browser.text("[data-notices]"), "it is told"
            )
            browser.until(lambda: points_of(browser, "2-1.rate") > 85, "some seconds of that")
            (folder / "overview.png").write_bytes(browser.picture())
            browser.looks_like(width=380, dark=True)
            (folder / "phone.png").write_bytes(browser.picture(height_max=1_250))
            browser.looks_like(width=1280)
            for name in ("stream", "streams"):
                browser.open(url(cluster, PATHS[name]))
                (folder / f"{name}.png").write_bytes(browser.picture(height_max=900))
            browser.open(url(cluster, claim_path(cluster)))
            (folder / "claim.png").write_bytes(browser.picture(height_max=420))
        finally:
            ends.set()
            cluster[1].set_links(paused=False, peers=[2])
    for writer in writers:
        writer.result()


def claim_path(cluster: Cluster) -> str:
    """Address at which three pending entries are claimed."""
    rows = cluster[1].client.xpending_range("orders:new", "billing", "-", "+", 3)
    values = [("key", "orders:new"), ("group", "billing"), ("consumer", "worker-2")]
    ids = [("id", row["message_id"].decode()) for row in rows]
    return f"/console/act/claim?{urlencode([*values, ('idle', '5000'), *ids])}"


def points_of(browser: Browser, curve: str) -> int:
    """Number of points that the page has of a curve."""
    found: int = browser.run("return curves.get(arguments[0]).points.length", curve)
    return found


def write(cluster: Cluster, region: int, ends: Event) -> None:
    """Write entries at a rate that rises and falls, until it ends."""
    node = cluster[region]
    client = node.connect()
    for at in itertools.count():
        for _ in range(int(12 * region * (1.3 + math.sin(at / 40 + region)))):
            client.xadd("orders:new", {"customer": f"c{at}", "amount": str(17 * region)})
        client.xreadgroup("billing", "worker-1", {"orders:new": ">"}, count=5)
        if ends.wait(0.2):
            break
    client.close()
