"""The page of the job ``report``: complete in itself, and nothing of it is markup by accident."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from crdtstream.spark.jobs.report_dead_letters import DeadLetter
from crdtstream.spark.jobs.report_page import Page, page_of
from crdtstream.spark.jobs.report_page_streams import FieldWindow, StreamPart
from crdtstream.spark.jobs.report_samples import LinkSample, RegionSummary
from crdtstream.spark.options import EntryId
from tests.page.elements import HOSTILE, Elements

MINUTE_MS = 60_000
START_MS = 1_700_000_040_000


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


def test_all_results_are_in_the_page() -> None:
    text = " ".join(Elements(page_of(PAGE)).text)

    for told in ("weather", "orders", "1 → 2", "9", "(deleted)", "2023-11-14 22:14:00", "crdb"):
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
