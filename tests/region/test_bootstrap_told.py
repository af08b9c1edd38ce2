"""The report of a bootstrap for an operator: phase, source, how far it is, why it failed."""

import json

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.bootstrap import Bootstrap, Phase
from crdtstream.region.region import Region
from crdtstream.region.tick import Tick
from crdtstream.region.write_gate import Cause
from tests.harness.driven import Driven, make_region
from tests.harness.parts import Applied

R1, R3 = RegionId(1), RegionId(3)
MIB = 1 << 20
NOW = Millis(1_000)


@pytest.fixture
def bootstrap() -> Bootstrap:
    return Bootstrap(Tick(), Applied(), patience_ms=100)


def copied(bootstrap: Bootstrap, done: int, *, of: int, rate: float = 0.0) -> None:
    progress = bootstrap.progress
    progress.bytes_done, progress.bytes, progress.rate = done, of, rate


def test_a_copy_says_how_much_has_come_how_fast_and_how_long_the_rest_takes(
    bootstrap: Bootstrap,
) -> None:
    assert bootstrap.told(R3) == ""
    bootstrap.note_begun(R1, NOW)
    assert (
        bootstrap.told(R3) == "region 3 gets the state of region 1: it waits for the first images"
    )
    copied(bootstrap, 43 * MIB, of=100 * MIB, rate=2 * MIB)
    assert bootstrap.told(R3) == (
        "region 3 gets the state of region 1: 43 % of 100.0 MiB, 2.0 MiB/s, 28 s left"
    )


def test_a_copy_is_never_said_to_be_whole_before_it_is(bootstrap: Bootstrap) -> None:
    bootstrap.note_begun(R1, NOW)
    copied(bootstrap, 999, of=1_000)
    assert bootstrap.progress.percent == 99


def test_a_failure_is_told_until_a_state_is_merged(bootstrap: Bootstrap) -> None:
    bootstrap.note_begun(R1, NOW)
    bootstrap.note_failed("region 1: UNAVAILABLE: no checkpoint", NOW)
    bootstrap.note_begun(R1, NOW)
    assert "UNAVAILABLE: no checkpoint" in bootstrap.told_failure()
    bootstrap.note_staged(R1, {R1: 5})
    bootstrap.note_merged(7)
    assert bootstrap.told_failure() == ""
    assert (bootstrap.count, bootstrap.failures) == (1, 1)


def test_a_merge_that_a_restart_found_is_not_counted_again(bootstrap: Bootstrap) -> None:
    bootstrap.note_merged(7)
    assert bootstrap.count == 0
    assert "has merged the state of another region" in bootstrap.told(R3)


@pytest.fixture
def stale() -> Region:
    """A region that takes no writes before it has what its peers have."""
    return Driven(make_region()).region


def test_a_region_that_refuses_writes_says_whose_state_it_gets(stale: Region) -> None:
    stale.database.fault = "region 1 came back and lacks 5 effects"
    stale.bootstrap.note_begun(R3, NOW)
    copied(stale.bootstrap, MIB, of=2 * MIB)
    assert stale.refuses_writes == stale.bootstrap.told(R1)
    stale.bootstrap.note_merged(7)
    assert stale.refuses_writes == "region 1 came back and lacks 5 effects"


def test_a_region_that_takes_writes_says_nothing_of_a_bootstrap_there(stale: Region) -> None:
    stale.database.fault = None
    stale.bootstrap.note_begun(R3, NOW)
    assert stale.refuses_writes is None


def test_a_disk_that_refuses_is_the_first_reason(stale: Region) -> None:
    stale.gate.refuse(Cause.DISK, "no space left")
    stale.bootstrap.note_begun(R3, NOW)
    assert stale.refuses_writes == "no space left"


def test_the_phases_are_the_words_that_json_can_have() -> None:
    assert json.dumps(list(Phase)) == '["idle", "copying", "merging", "saving"]'
