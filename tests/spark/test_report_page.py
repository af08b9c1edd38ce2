"""The page of the job ``report``: complete in itself, and nothing of it is markup by accident."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from crdtstream.spark.jobs.markup import Markup, element
from crdtstream.spark.jobs.plots import Series, line_plot, round_step, short, time_text
from crdtstream.spark.jobs.report_dead_letters import DeadLetter
from crdtstream.spark.jobs.report_page import Page, page_of
from crdtstream.spark.jobs.report_page_streams import FieldWindow, StreamPart
from crdtstream.spark.jobs.report_samples import LinkSample, RegionSummary
from crdtstream.spark.options import EntryId

HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;\u202e\x00"
MINUTE_MS = 60_000
START_MS = 1_700_000_040_000


class Elements(HTMLParser):
    """All elements of a page, as a browser takes it, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def window(at: int, *, numbers: int = 10, low: float = 1.0) -> FieldWindow:
    spread = [low + step for step in range(7)] if numbers else [None] * 7
    return FieldWindow(START_MS + at * MINUTE_MS, 12, numbers, 2, *spread)


def link(source: int, target: int, *, state: str = "up", lag_ms: int = 7) -> LinkSample:
    numbers = {"lag_ms_p50": 5, "lag_ms_p95": 50, "lag_ms_p99": 250, "lag_ms_max": 300}
    return LinkSample(
        at_seconds=1_700_000_000.0,
        source=source,
        target=target,
        state=state,
        lag_ms=lag_ms,
        lag_effects=3,
        silent_ms=None,
        clock_skew_ms=-2,
        reconnects=0,
        error="",
        **numbers,
    )


def stream(name: str) -> StreamPart:
    return StreamPart(
        name=name,
        entries=200,
        first_ms=START_MS,
        last_ms=START_MS + 9 * MINUTE_MS,
        width_ms=MINUTE_MS,
        entries_by_origin={
            1: {START_MS + at * MINUTE_MS: 10 + at for at in range(10)},
            2: {START_MS + at * MINUTE_MS: 7 for at in range(3)},
        },
        fields={"temp": [window(at, numbers=0 if at == 4 else 10) for at in range(10)]},
    )


def region(number: int) -> RegionSummary:
    return RegionSummary(
        region=number,
        address=f"127.0.0.1:738{number}",
        database_uid="5f0c" * 8,
        version="0.1.0",
        seconds=10.0,
        issued_per_second=12.5,
        applied_per_second=25.0,
        effects_issued=4711,
        vv={1: 4711},
        lacks=0,
        keys=2,
        clients=1,
        log_bytes=1 << 20,
        fault="",
    )


LETTER = DeadLetter(
    region=1,
    key=b"orders",
    group=b"readers",
    consumer=None,
    origin=2,
    id=EntryId(START_MS, 1),
    delivered_ms=START_MS + 5,
    deliveries=9,
    fields={"field": "value"},
)
PAGE = Page(
    database_id="crdb",
    database_uid="5f0c" * 8,
    made_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    source="the regions",
    window_ms=MINUTE_MS,
    entries=400,
    undated=0,
    missing_fields=(),
    streams_count=2,
    streams=(stream("weather"), stream("orders")),
    regions=(region(1), region(2)),
    absent={"region 3": "region 3 does not answer"},
    links=(link(1, 2), link(2, 1, lag_ms=11)),
    letters_count=1,
    deliveries_max=5,
    letters=(LETTER,),
)
EMPTY = replace(
    PAGE, entries=0, streams_count=0, streams=(), regions=(), links=(), letters_count=0, letters=()
)


@pytest.mark.parametrize("page", [PAGE, EMPTY], ids=["page", "empty page"])
def test_the_page_loads_nothing_and_runs_nothing(page: Page) -> None:
    text = page_of(page)
    elements = Elements(text)

    assert elements.open == []
    assert {tag for tag, _ in elements.found} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
    } == set()
    for _, attributes in elements.found:
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert not {"src", "srcset", "action", "data", "style"} & attributes.keys()
    assert re.search(r"(https?:)?//[a-z]|url\(|@import", text) is None
    (policy,) = [
        attributes["content"]
        for _, attributes in elements.found
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_names_and_values_stay_text() -> None:
    """The same elements stand in the page, whatever the names and values in it are."""
    letter = replace(
        LETTER,
        key=HOSTILE.encode(),
        group=HOSTILE.encode(),
        consumer=b"\xff" + HOSTILE.encode(),
        fields={HOSTILE: HOSTILE},
    )
    plain = replace(PAGE, letters=(replace(LETTER, consumer=b"consumer"),), missing_fields=("x",))
    weather, orders = plain.streams
    hostile = replace(
        plain,
        database_id=HOSTILE,
        source=HOSTILE,
        missing_fields=(HOSTILE,),
        streams=(
            replace(weather, name=HOSTILE, fields={HOSTILE: weather.fields["temp"]}),
            orders,
        ),
        regions=tuple(replace(one, address=HOSTILE, fault=HOSTILE) for one in plain.regions),
        absent={"region 3": HOSTILE},
        links=tuple(replace(one, error=HOSTILE, state=HOSTILE) for one in plain.links),
        letters=(letter,),
    )

    text = page_of(hostile)
    elements = Elements(text)

    assert [tag for tag, _ in elements.found] == [tag for tag, _ in Elements(page_of(plain)).found]
    assert "<script" not in text
    assert not any("\u202e" in part or "\x00" in part for part in elements.text)
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x00", "\ufffd")
    assert sum(shown in part for part in elements.text) >= 14


def test_what_is_told_stands_in_the_page() -> None:
    text = " ".join(Elements(page_of(PAGE)).text)

    for told in ("weather", "orders", "1 → 2", "9", "(nobody)", "2023-11-14 22:14:00", "crdb"):
        assert told in text


def test_long_values_and_many_streams_are_cut_and_the_page_says_so() -> None:
    letter = replace(LETTER, fields={"long": "x" * 100_000})
    page = replace(PAGE, letters=(letter,), letters_count=900, streams_count=1_002, undated=3)

    text = page_of(page)

    assert len(text) < 100_000
    assert "899 more" in text
    assert "1,000 more" in text
    assert "3 entries have IDs that are no time" in text


def test_windows_without_entries_are_drawn_as_none() -> None:
    text = page_of(PAGE)

    # Region 2 wrote in 3 of 10 windows; the table has a row for each, and zeros.
    rows = re.findall(
        r"<tr><td class=\"text time\">[^<]+</td><td>(\d+)</td><td>(\d+)</td></tr>", text
    )
    assert rows[:10] == [(str(10 + at), "7" if at < 3 else "0") for at in range(10)]


# --- Plots ----------------------------------------------------------------------------------------


def lines_of(plot: Markup) -> list[list[tuple[float, float]]]:
    paths = re.findall(r'<path d="([^"]+)" class="line', plot)
    return [[point(text) for text in re.split("[ML ]+", path) if text] for path in paths]


def point(text: str) -> tuple[float, float]:
    x, y = map(float, text.split(","))
    return x, y


def test_a_line_is_where_its_values_are() -> None:
    plot = line_plot("t", [0, 50, 100], [Series("a", [0.0, 10.0, 5.0])], unit="")

    ((first, second, third),) = lines_of(plot)
    assert first[0] < second[0] < third[0]
    assert second[0] - first[0] == pytest.approx(third[0] - second[0])
    # Upwards is less.
    assert second[1] < third[1] < first[1]
    assert first[1] - third[1] == pytest.approx(third[1] - second[1], abs=0.11)


def test_a_line_is_interrupted_where_there_is_no_value() -> None:
    series = Series("a", [1.0, 2.0, None, 3.0, None, 4.0, 5.0])

    plot = line_plot("t", list(range(7)), [series], unit="")

    (path,) = re.findall(r'<path d="([^"]+)" class="line', plot)
    assert path.count("M") == 2
    assert plot.count("<circle") == 1


@pytest.mark.parametrize("values", [[0.0], [-5.0, -5.0], [1e-9, 2e-9], [1e300, 0.0], [-1e12, 1e12]])
def test_any_values_can_be_drawn(values: list[float]) -> None:
    plot = line_plot("t", list(range(len(values))), [Series("a", values)], unit="ms")

    coordinates = [float(number) for number in re.findall(r'\b[xy][12]?="([^"]+)"', plot)]
    assert all(0 <= number <= 720 for number in coordinates)


@pytest.mark.parametrize(
    ("rough", "step"), [(0.9, 1), (1, 1), (1.1, 2), (2.1, 5), (7, 10), (0.03, 0.05), (1234, 2000)]
)
def test_steps_are_round(rough: float, step: float) -> None:
    assert round_step(rough) == pytest.approx(step)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (0.001, "1.0e-03"),
        (7, "7"),
        (1234, "1,234"),
        (12_345, "12.3k"),
        (1_234_000, "1.23M"),
        (-5e9, "-5G"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("step_ms", "text"),
    [
        (86_400_000, "2023-11-14"),
        (3_600_000, "11-14 22:14"),
        (60_000, "22:14"),
        (1_000, "22:14:00"),
        (1, "22:14:00.000"),
    ],
)
def test_times_are_as_exact_as_needed(step_ms: float, text: str) -> None:
    assert time_text(START_MS, step_ms) == text


# --- Markup ---------------------------------------------------------------------------------------


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("b", "<i>", element("i", 1), title='"<') == (
        '<b title="&quot;&lt;">&lt;i&gt;<i>1</i></b>'
    )
