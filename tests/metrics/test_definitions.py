"""The definitions keep Prometheus' conventions, and the documentation is written from them."""

import re
import subprocess
import sys

import pytest

from crdtstream.metrics import definitions
from crdtstream.metrics.definitions import (
    DEFINITIONS,
    PREFIX,
    PROCESS_METRICS,
    REGION,
    SECTIONS,
    Definition,
)
from tests.conftest import ROOT

# https://prometheus.io/docs/practices/naming: base units only.
FOREIGN_UNITS = re.compile(r"_(ms|millis\w*|us|micros\w*|ns|minutes|hours|kb|kib|mb|percent)(_|$)")
RESERVED_LABELS = frozenset({"le", "quantile", "job", "instance", REGION})


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_names_and_labels_are_as_prometheus_wants_them(definition: Definition) -> None:
    assert re.fullmatch(rf"{PREFIX}[a-z][a-z0-9_]*", definition.name)
    assert not FOREIGN_UNITS.search(definition.name)
    assert not definition.name.endswith(("_bucket", "_sum", "_count", "_info_total"))
    assert all(re.fullmatch(r"[a-z]+", label) for label in definition.labels)
    assert not RESERVED_LABELS & set(definition.labels)
    assert list(definition.bounds) == sorted(set(definition.bounds))
    assert definition.help.endswith(".")


def test_no_name_is_given_twice() -> None:
    names = [name for definition in DEFINITIONS for name in definition.series_names]
    assert len(names) == len(set(names))
    assert len(DEFINITIONS) == sum(map(len, SECTIONS.values()))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("crdtstream_link_lag_seconds", "seconds"),
        ("crdtstream_link_lag_effects", ""),
        ("crdtstream_client_sent_bytes_total", "bytes"),
        ("crdtstream_commit_records", ""),
    ],
)
def test_the_unit_is_told_by_the_name(name: str, unit: str) -> None:
    (definition,) = (one for one in DEFINITIONS if one.name == name)
    assert definition.unit == unit


def test_the_page_of_metrics_is_current() -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "metrics.py", "--check"], check=True)
    text = (ROOT / "docs" / "metrics.md").read_text()
    for definition in DEFINITIONS:
        assert f"\n| `{definition.name}` |" in text


def test_every_definition_has_a_section() -> None:
    """One without a section would be in no page, and no reader would miss it."""
    found = [one for one in vars(definitions).values() if isinstance(one, Definition)]
    assert [one.name for one in found if one not in (*DEFINITIONS, *PROCESS_METRICS)] == []
