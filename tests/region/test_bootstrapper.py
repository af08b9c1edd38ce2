"""The bootstrapper: what it does after a failure, and when what is staged may be deleted."""

import pytest

from crdtstream.bootstrapper import Bootstrapper
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.bootstrap import Phase
from crdtstream.region.links.errors import PeerError
from crdtstream.region.region import Region
from crdtstream.store.failpoints import Armed, refuse
from crdtstream.store.log import MemoryLog
from crdtstream.store.staging import MemoryStaging, StagedCut, Staging
from tests.harness.driven import make_region

R2, R3 = RegionId(2), RegionId(3)
NOW = Millis(1_000)
SAVED_SEQ = 7
CUT = StagedCut(bytes(16), R2, {R2: 5}, 0, 0, 0)


class NoTicks:
    """An engine that has nothing to log."""

    def end_tick(self) -> int:
        return SAVED_SEQ

    async def wait_logged(self, seq: int) -> None:
        assert seq == SAVED_SEQ


async def no_peer_answers(source: RegionId, staging: Staging) -> None:
    assert staging.staged() is None
    raise PeerError(source, "UNAVAILABLE: it is away")


def bootstrapper_of(region: Region, staging: Staging) -> Bootstrapper:
    return Bootstrapper(region, MemoryLog(), staging, NoTicks(), no_peer_answers, now=lambda: NOW)


async def complete() -> MemoryStaging:
    staging = MemoryStaging()
    await staging.begin(CUT)
    await staging.finish()
    return staging


async def test_what_is_staged_stays_until_a_checkpoint_has_what_was_merged() -> None:
    region, staging = make_region(), await complete()
    one = bootstrapper_of(region, staging)
    region.bootstrap.note_merged(SAVED_SEQ)
    await one.look()
    assert staging.is_complete
    region.checkpointing.note_found(SAVED_SEQ, NOW, size_bytes=1)
    await one.look()
    assert staging.staged() is None
    assert region.bootstrap.phase is Phase.IDLE


async def test_what_the_disk_does_not_delete_is_deleted_later() -> None:
    region, staging = make_region(), await complete()
    staging.failpoints = Armed("staging.discard", refuse)
    one = bootstrapper_of(region, staging)
    region.bootstrap.note_merged(SAVED_SEQ)
    region.checkpointing.note_found(SAVED_SEQ, NOW, size_bytes=1)
    phases = []
    for _ in range(2):
        await one.look()
        phases.append(region.bootstrap.phase)
    assert phases == [Phase.SAVING, Phase.IDLE]


async def test_a_restart_goes_on_with_the_state_that_its_log_names() -> None:
    region, staging = make_region(), await complete()
    await bootstrapper_of(region, staging).begin(SAVED_SEQ)
    assert (region.bootstrap.phase, region.bootstrap.source) == (Phase.SAVING, R2)
    assert staging.is_complete


async def test_what_is_staged_and_of_no_use_any_more_is_deleted_at_the_start() -> None:
    region, staging = make_region(), await complete()
    assert region.bootstrap.is_of_use(Merged(CUT.id, CUT.source, CUT.vv))
    region.replica.vv = {R2: 5}
    await bootstrapper_of(region, staging).begin(0)
    assert staging.staged() is None


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> Region:
    """A region that a state is wanted for, from each peer in turn."""
    region = make_region()
    monkeypatch.setattr(
        type(region),
        "bootstrap_wanted",
        lambda self, _now: self.bootstrap._next_of([R2, R3]),
    )
    return region


async def test_after_a_failure_another_peer_is_asked_and_the_reason_is_kept(
    lacking: Region,
) -> None:
    one = bootstrapper_of(lacking, MemoryStaging())
    failures = []
    for _ in range(3):
        await one.look()
        failures.append(lacking.bootstrap.failure)
    assert failures == [f"region {peer}: UNAVAILABLE: it is away" for peer in (2, 3, 2)]
    assert (lacking.bootstrap.failures, lacking.bootstrap.count) == (3, 0)
    assert lacking.bootstrap.phase is Phase.IDLE
