"""Rule 3: acks, heartbeats and causal stability speak of what a power cut cannot take back.

Each test holds a region's disk back, in one of two ways, and looks at what the region says while
it has applied more than is durable:

    appendfsync always      a commit does not return: applied, but not in the log
    appendfsync everysec    a sync does not return: in the log, sent by links, but not durable
"""

from collections.abc import Callable, Mapping

import pytest

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.engine.agenda import SYNC_SECONDS
from crdtstream.store.log import Fsync
from tests.patience import until
from tests.replication.regions import LiveRegion, addresses, live_regions
from tests.store.held_log import HeldLog

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)

HELD = pytest.mark.parametrize("fsync", [Fsync.ALWAYS, Fsync.EVERYSEC])


def region_on_held_log(
    number: int, where: Mapping[int, str], fsync: Fsync
) -> tuple[LiveRegion, HeldLog]:
    log = HeldLog(fsync)
    return LiveRegion(number, where, log=log, fsync=fsync), log


@pytest.fixture(autouse=True)
def _syncs_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYNC_SECONDS, Fsync.EVERYSEC, 0.005)


async def heard_after(before: float, last_heard: Callable[[], float]) -> None:
    await until(lambda: last_heard() > before)


async def said_again(last_heard: Callable[[], float]) -> None:
    """Wait until a message came that was made after this call: the next one may be older."""
    for _ in range(2):
        await heard_after(last_heard(), last_heard)


def heard(region: LiveRegion, of: RegionId) -> VersionVector:
    """The durable version vector of another region, as known in this one."""
    return region.knows_of(of)


@HELD
async def test_an_ack_names_nothing_that_is_not_durable(fsync: Fsync) -> None:
    where = addresses(2)
    first = LiveRegion(1, where)
    second, log = region_on_held_log(2, where, fsync)
    async with live_regions([first, second]):
        # What R1 hears of R2 are acks only.
        first.pause(R2)
        await until(lambda: R2 in first.serves)
        log.hold()
        first.add(1)
        await until(lambda: second.replica.vv == {R1: 1})
        await said_again(lambda: first.serves[R2]._heard_at)
        assert heard(first, R2) == {}
        log.let_go()
        await until(lambda: heard(first, R2) == {R1: 1})


@HELD
async def test_a_heartbeat_names_nothing_that_is_not_durable(fsync: Fsync) -> None:
    where = addresses(2)
    first = LiveRegion(1, where)
    second, log = region_on_held_log(2, where, fsync)
    async with live_regions([first, second]):
        # What R1 hears of R2 are heartbeats only.
        second.pause(R1)
        await until(lambda: first.pulls[R2].link.is_up)
        await until(lambda: R2 not in first.serves)
        log.hold()
        second.add(1)
        await until(lambda: second.replica.vv == {R2: 1})
        await said_again(lambda: first.pulls[R2].stats.heard_ms)
        assert heard(first, R2) == {}
        log.let_go()
        await until(lambda: heard(first, R2) == {R2: 1})


async def test_nothing_is_stable_that_is_not_durable_here() -> None:
    """R1 sent what a power cut may still take from it, and every other region has it for good."""
    where = addresses(3)
    first, log = region_on_held_log(1, where, Fsync.EVERYSEC)
    others = [LiveRegion(2, where), LiveRegion(3, where)]
    async with live_regions([first, *others]):
        log.hold()
        first.add(1)
        first.call("DEL", "s")
        await until(lambda: heard(first, R2) == heard(first, R3) == {R1: 2})
        assert first.logged_vv == {R1: 2}
        assert first.replica.tombstone_count == 1
        log.let_go()
        await until(lambda: first.replica.tombstone_count == 0)


async def test_commits_during_a_sync_become_durable_with_the_next_one() -> None:
    where = addresses(1)
    region, log = region_on_held_log(1, where, Fsync.EVERYSEC)
    async with live_regions([region]):
        log.hold()
        region.add(1)
        await until(lambda: log.is_syncing)
        region.add(1)
        await until(lambda: region.logged_vv == {R1: 2})
        log.let_one_go()
        await until(lambda: region.durable_vv)
        assert region.durable_vv == {R1: 1}
        log.let_go()
        await until(lambda: region.durable_vv == {R1: 2})
