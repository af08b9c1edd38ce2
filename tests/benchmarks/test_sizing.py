"""Sizes of regions, computed from what was measured."""

import re

import pytest

from benchmarks import sizing
from benchmarks.measured import Outcome
from tests.benchmarks.test_pages import REGIONS, outcome
from tests.conftest import ROOT

OUTCOMES: dict[str, Outcome] = {
    one.part: one
    for one in (
        REGIONS,
        outcome("latency", ("everysec", "crdtstream", {"cpu_us": 100.0}), rounds=1),
        outcome("xadd", ("everysec, -P 16", "crdtstream", {"cpu_us": 5.0}), rounds=1),
        outcome("consume", ("everysec", "crdtstream", {"cpu_us": 3.0}), rounds=1),
        outcome("idle", ("3 nodes", "crdtstream", {"core_percent": 1.0}), rounds=1),
        outcome(
            "wire",
            ("one client, one by one", "crdtstream", {"connection_bytes": 60.0}),
            ("10,000 messages a second", "crdtstream", {"connection_bytes": 12.0}),
            rounds=1,
        ),
        outcome(
            "cold",
            ("sensor, 4 fields", "crdtstream", {"memory_bytes": 1.0, "disk_bytes": 16.0}),
            rounds=1,
        ),
    )
}


def test_cores_are_those_of_serving_a_share_and_applying_the_rest() -> None:
    costs = sizing.costs_of(OUTCOMES)
    assert costs is not None
    # The slope of 4 + 2 (R - 1).
    assert costs.apply_us == pytest.approx(2.0)
    assert sizing.cores(costs, 30_000, 8.0, 3) == pytest.approx(0.01 + 0.03 * (8 + 2 * 2) / 3)
    assert sizing.cores(costs, 30_000, 8.0, 2) == pytest.approx(0.01 + 0.03 * (8 + 2) / 2)


def test_a_row_has_what_a_node_needs() -> None:
    rows = {row[0]: list(row) for row in sizing.size_rows(OUTCOMES)}
    entries = 10_000 * 86_400 * 7
    memory = (entries + (98 + 16 + 64) * 2**20) / 2**30
    disk = (2 * 16 * entries + 3 * 16 * 2**20 + 2**30 + 16 * 2**20) / 2**30
    assert rows["10,000"] == [
        "10,000",
        f"{entries:,}",
        "0.357",
        "0.05",
        "0.06",
        "320 … 1,600",
        f"{memory:.3g}",
        f"{disk:.3g}",
    ]
    assert rows["50,000"][2] == "1.74: too much"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("install.md", r"\| resident memory, .* \| (\d+) MiB \|$"),
        ("sizing.md", r"maxmemory = (\d+) MiB for the process"),
        ("storage.md", r"used_memory ≈ (\d+) MiB"),
    ],
)
def test_pages_agree_on_the_memory_of_an_empty_node(page: str, said: str) -> None:
    (found,) = re.findall(said, (ROOT / "docs" / page).read_text(), re.MULTILINE)
    assert int(found) == sizing.PROCESS_MIB


@pytest.mark.parametrize("missing", sorted(OUTCOMES))
def test_no_table_is_made_of_half_of_the_figures(missing: str) -> None:
    outcomes = {name: one for name, one in OUTCOMES.items() if name != missing}
    assert list(sizing.size_rows(outcomes)) == []
    assert list(sizing.cost_rows(outcomes)) == []
