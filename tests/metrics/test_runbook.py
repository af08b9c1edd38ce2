"""docs/alerts.md: each alert has its section there, and its link leads to it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from crdtstream.metrics.definitions import PROCESS_METRICS, SECTIONS
from tests.conftest import ROOT, program
from tests.metrics.test_alerts import NAMES, check, rules

PAGE: Final = ROOT / "docs" / "alerts.md"
PARTS: Final = ["Means", "See", "Do", "Harmless if"]
METRICS: Final = {one.name for part in SECTIONS.values() for one in part} | set(PROCESS_METRICS)


class Section(NamedTuple):
    """The text about an alert."""

    alert: str
    when: str
    parts: list[str]


def sections() -> Iterator[Section]:
    for text in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = text.partition("\n")
        when = re.search(r"^\*([^*]+)\*$", rest, re.MULTILINE)
        assert when, name
        yield Section(name, when[1], re.findall(r"^- \*\*([\w ]+):\*\* \S", rest, re.MULTILINE))


SECTIONS_OF_PAGE = {section.alert: section for section in sections()}


def test_each_alert_has_one_section_in_the_order_of_the_file() -> None:
    assert [section.alert for section in sections()] == NAMES


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_section_says_when_the_alert_fires_and_what_to_do(rule: dict[str, Any]) -> None:
    section = SECTIONS_OF_PAGE[rule["alert"]]
    wait = rule.get("for", "")
    after = f"after {wait[:-1]} {wait[-1]}" if wait else "at once"
    assert section.when == f"{rule['labels']['severity']}, {after}"
    assert section.parts == PARTS


def test_metrics_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:crdtstream|process)_\w+)`", PAGE.read_text()))
    assert len(named) > 10
    assert named <= METRICS


@pytest.mark.parametrize(
    ("labels", "page"),
    [
        ({}, "docs/alerts.md"),
        (
            {"runbooks": "https://docs.example.com/alerts.html"},
            "https://docs.example.com/alerts.html",
        ),
    ],
)
def test_the_link_of_an_alert_leads_to_its_section(
    tmp_path: Path, labels: dict[str, str], page: str
) -> None:
    """With Prometheus's own templates; the figures do not matter here."""
    promtool = program("promtool")
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules()}
    always = [
        {"alert": name, "expr": "vector(1)", "annotations": {"runbook_url": link}}
        for name, link in links.items()
    ]
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "links", "rules": always}]})
    )
    expected = [
        {
            "alertname": name,
            "eval_time": "1m",
            "exp_alerts": [{"exp_annotations": {"runbook_url": f"{page}#{name.lower()}"}}],
        }
        for name in NAMES
    ]
    test = {
        "rule_files": ["rules.yml"],
        "tests": [{"external_labels": labels, "alert_rule_test": expected}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    check(promtool, "test", "rules", tmp_path / "test.yml")
