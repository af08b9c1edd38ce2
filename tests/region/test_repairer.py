"""A repair of one key: what a region holds back meanwhile, and what becomes of what is staged."""

import pytest

from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.engine.bootstrapper import Bootstrapper
from crdtstream.engine.repairer import Repairer, RepairError
from crdtstream.region.bootstrap import Phase
from crdtstream.region.links.errors import PeerError
from crdtstream.store.log import MemoryLog
from crdtstream.store.staging import MemoryStaging, StagedCut, Staging
from tests.harness.driven import make_region
from tests.harness.regions import Node

R1, R2 = RegionId(1), RegionId(2)
NOW = Millis(1_000)
CUT = StagedCut(bytes(16), R2, {R2: 5}, 0, 0, 0, key=b"x")


class NoTicks:
    """An engine that has nothing to log."""

    def end_tick(self) -> int:
        return 1

    async def wait_logged(self, seq: int) -> None:
        assert seq == 1


async def no_copy(source: RegionId, staging: Staging, key: bytes | None = None) -> None:
    raise PeerError(source, "it is away")


def batches() -> list[EffectBatch]:
    """Two batches of region 2, of one effect each."""
    node = Node(2)
    node.run("XADD x * f v")
    node.run("XADD x * f v")
    return node.batches()


def test_nothing_beyond_the_aim_is_applied() -> None:
    first, second = batches()
    repair = make_region().repair
    holds = []
    repair.hold(b"x", R2)
    holds.append(repair.holds_links)
    repair.aim({R2: first.last_n})
    holds.append(repair.holds_links)
    assert holds == [True, False]
    assert not repair.is_beyond(first)
    assert repair.is_beyond(second)
    assert repair.lacks == first.last_n
    repair.end()
    assert not repair.is_beyond(second)


def test_no_writes_are_taken_meanwhile() -> None:
    region = make_region()
    before = region.database.fault
    region.repair.hold(b"x\r\n", R2)
    assert region.database.fault is not None
    assert "\n" not in region.database.fault
    assert region.bootstrap.needs_staging
    assert region.bootstrap_wanted(NOW) is None
    region.repair.end()
    assert region.database.fault == before
    assert not region.bootstrap.needs_staging


async def test_a_staged_key_is_never_merged_as_a_state() -> None:
    """A repair that ended before it could forget what it had staged."""
    region, staging = make_region(), MemoryStaging()
    await staging.begin(CUT)
    await staging.finish()
    bootstrapper = Bootstrapper(region, MemoryLog(), staging, NoTicks(), no_copy, now=lambda: NOW)
    await bootstrapper.look()
    assert staging.staged() is None
    assert region.bootstrap.phase is Phase.IDLE
    assert not region.replica.vv


async def test_a_region_without_a_link_is_not_asked_for_a_repair() -> None:
    region, staging = make_region(), MemoryStaging()
    repairer = Repairer(region, staging, NoTicks(), no_copy, now=lambda: NOW)
    for source in (R1, R2, RegionId(9)):
        with pytest.raises(RepairError):
            await repairer.repair(b"x", source, seconds=1.0)
    assert region.repair.is_idle
    assert not region.bootstrap.needs_staging
