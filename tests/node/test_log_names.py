"""Lines of the log in JSON: their names stay, and no value breaks a line."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import structlog

from crdtstream.node.log_names import NAMES, UNNAMED, as_json, name_of
from tests.live.cluster import Cluster


def line_of(text: str, **details: object) -> Any:
    return json.loads(as_json(None, "info", {"event": text, **details}))


def test_a_line_has_time_level_name_and_sentence_and_then_its_details() -> None:
    line = line_of("link live", level="info", timestamp="2026-11-26T19:00:00Z", peer=2)
    assert list(line) == ["time", "level", "event", "message", "peer"]
    assert (line["event"], line["message"], line["peer"]) == ("link-live", "link live", 2)


def test_the_name_of_a_sentence_with_gaps_is_found() -> None:
    for name, texts in NAMES.items():
        for text in texts:
            assert name_of(text.replace("{}", "16 (x)")) == name
    assert name_of("nobody logs this") == UNNAMED


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"k\xff", "k\\xff"),
        ({1: b"a", (2, 3): [4]}, {"1": "a", "[2, 3]": [4]}),
        ({5}, [5]),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (Path("/a"), "/a"),
        ("two\nlines\u2028", "two\nlines\u2028"),
        ("lone \ud800", "lone \ud800"),
        (None, None),
    ],
)
def test_no_value_breaks_a_line(value: object, shown: object) -> None:
    text = as_json(None, "info", {"event": "link", "value": value})
    assert "\n" not in text
    assert "NaN" not in text
    assert json.loads(text)["value"] == shown


def test_a_detail_never_replaces_the_name() -> None:
    line = line_of("link", level="info", message="other", time="never")
    assert (line["event"], line["message"], line["time"]) == ("link", "link", None)


def test_a_traceback_is_one_field_of_one_line() -> None:
    output = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(output), processors=[structlog.processors.format_exc_info, as_json]
    )
    log.error("link", exc_info=ValueError("broken"))
    line = json.loads(output.getvalue())
    assert "ValueError: broken" in line["exception"]


@pytest.mark.live
def test_a_node_writes_json_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    node = Cluster(1, tmp_path)[1]
    node.configure({}, log_format="json")
    try:
        node.start("--new-database")
        assert node.end() == 0
    finally:
        if node.process is not None:
            node.process.kill()
        node.client.close()
    lines = [json.loads(line) for line in node.log.read_text().splitlines()]
    events = [line["event"] for line in lines]
    assert {"log-read", "serving", "stopping", "stopped"} <= set(events)
    assert UNNAMED not in events
    assert all(line["time"] and line["level"] and line["message"] for line in lines)
