"""Settings for rehearsals, on real nodes: a wrong clock."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import Cluster, cluster_of

HOUR_MS = 3_600_000


@pytest.fixture
def two_regions(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(2, tmp_path) as cluster:
        cluster.configure()
        yield cluster


@pytest.mark.long
def test_a_clock_that_is_wrong_on_purpose(
    two_regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = two_regions[1], two_regions[2]
    one.launch()
    monkeypatch.setenv("CRDTSTREAM_DRILL__CLOCK_OFFSET_MS", str(-2 * HOUR_MS))
    two.launch()
    one.wait()
    two.wait()

    (right, _), (wrong, _) = one.client.time(), two.client.time()
    assert right - wrong == pytest.approx(2 * HOUR_MS // 1000, abs=60)
    entry_id = two.client.xadd("s", {"f": "v"})
    assert right * 1000 - int(entry_id.split(b"-")[0]) > HOUR_MS
    assert two.client.info("crdt")["crdt_drill_clock_offset_ms"] == -2 * HOUR_MS
    assert "crdt_drill_clock_offset_ms" not in one.client.info("crdt")
    assert "clock is wrong on purpose" in two.log.read_text()
    two_regions.converge()
