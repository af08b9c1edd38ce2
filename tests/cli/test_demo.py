"""The main job on real input: a year of weather, three producers, a cut, one consumer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from crdtstream.demo import weather
from crdtstream.demo.closing_tables import show
from crdtstream.local.regions import LocalRegions


@pytest.fixture
def regions(tmp_path: Path, base_port: int) -> Iterator[list[weather.Region]]:
    local = LocalRegions(3, tmp_path / "regions", base_port=base_port)
    try:
        local.start_all()
        local.wait_until_healthy()
        yield [weather.Region(own.region, own.resp_port, own.grpc_port) for own in local.regions]
    finally:
        local.stop_all()
        local.close()


@pytest.mark.live
@pytest.mark.long
async def test_a_year_of_weather_is_everywhere_and_delivered_once(
    regions: list[weather.Region],
) -> None:
    observations = weather.load()
    outcome = await weather.run(regions, observations)

    assert outcome.written == 26_115
    assert outcome.lanes == {region: {1: 8703, 2: 8706, 3: 8706} for region in (1, 2, 3)}
    assert len(set(outcome.digests.values())) == 1
    assert len(outcome.delivered) == outcome.written
    assert set(outcome.delivered.values()) == {1}
    assert (outcome.lag, outcome.pending, outcome.read_by_other) == (0, 0, 0)
    assert outcome.acknowledged == outcome.written
    # One by one acknowledged, but sent as runs.
    assert 0 < outcome.ack_effects < outcome.acknowledged / 10
    assert outcome.failures() == []

    # Every effect came over some link, and the tables can be printed.
    for puller in (1, 2, 3):
        received = sum(link.effects for link in outcome.links if link.puller == puller)
        assert received >= outcome.written - outcome.lanes[puller][puller]
    console = Console(record=True, width=100)
    show(outcome, console)
    assert "8706" in console.export_text()


def test_unmet_expectations_are_reported() -> None:
    outcome = weather.Outcome(written=2, lanes={1: {1: 1}}, digests={1: "a", 2: "b"}, lag=3)
    outcome.delivered.update(["1-1", "1-1"])
    assert len(outcome.failures()) == 4
