"""``rules`` 18 over gRPC: fresh, wiped and restored regions, and of which database they are."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.core.uid import NO_UID, DatabaseUid, shown_uid
from crdtstream.core.wire.codec import decode_batch
from crdtstream.engine.folder import INCARNATIONS
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.link import Link, LinkState
from crdtstream.region.links.pull import Pull
from crdtstream.store.log import Fsync, Log, MemoryLog
from crdtstream.store.sqlite import SqliteLog
from tests.harness.replies import of_type
from tests.patience import until
from tests.replication.regions import (
    LIMITS,
    PATIENT,
    LiveRegion,
    addresses,
    converged,
    live_regions,
)

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
OTHER = DatabaseUid(b"\xff" * 16)


def fresh(
    number: int, where: dict[int, str], limits: RegionLimits = LIMITS, log: Log | None = None
) -> LiveRegion:
    return LiveRegion(number, where, log=log, is_proven=False, uid=NO_UID, limits=limits)


async def copy_of(log: MemoryLog) -> MemoryLog:
    copy = MemoryLog()
    rows = await log.read_from(1, bytes_max=1 << 30)
    if rows:
        await copy.append([row.record for row in rows])
    return copy


def refusal(region: LiveRegion) -> str:
    reply = region.call("XADD", "s", "*", "f", "v")
    assert isinstance(reply, CommandError), reply
    return reply.text


async def test_fresh_regions_answer_each_other_and_agree_on_one_database() -> None:
    where = addresses()
    async with live_regions(fresh(number, where) for number in where) as regions:
        await until(lambda: all(one.obstacle is None for one in regions))
        assert len({one.replica.database_uid for one in regions}) == 1
        assert regions[0].replica.database_uid
        for region in regions:
            region.add(3)
        await converged(regions)
        assert regions[2].call("XLEN", "s") == 9
        for region in regions:
            assert await region.log.get_meta("database_uid") == shown_uid(
                regions[0].replica.database_uid
            )


async def test_a_fresh_region_whose_peers_are_away_waits_and_says_for_whom() -> None:
    where = addresses()
    first, second, third = (fresh(number, where) for number in where)
    async with first.running(), second.running():
        await until(lambda: "waits for region 3" in str(first.obstacle))
        assert "MISCONF" in refusal(first)
        assert "--new-database" in refusal(first)
        async with third.running():
            await until(lambda: first.obstacle is None)
            first.add(1)
            await converged([first, second, third])


async def test_a_restored_copy_takes_no_writes_while_a_member_is_away() -> None:
    """Five entries, a copy, three more that only region 2 hears of; then the copy is put back."""
    where = addresses(2)
    first, second = (LiveRegion(number, where) for number in where)
    async with second.running(), first.running():
        first.add(5)
        await until(lambda: first.logged_vv == {R1: 5})
        assert isinstance(first.log, MemoryLog)
        copy = await copy_of(first.log)
        first.add(3)
        await converged([first, second])
    restored = LiveRegion(1, where, log=copy, is_proven=False)
    again = LiveRegion(2, where, log=second.log)
    async with restored.running():
        for _ in range(20):
            assert "waits for region 2" in refusal(restored)
            await asyncio.sleep(0)
        async with again.running():
            await until(lambda: restored.obstacle is None)
            assert restored.replica.vv == {R1: 8}
            restored.add(2)
            await converged([restored, again])
            assert again.replica.vv == {R1: 10}


async def test_a_wiped_region_takes_its_effects_back_before_it_issues() -> None:
    where = addresses()
    regions = [LiveRegion(number, where) for number in where]
    first, second, third = regions
    async with second.running(), third.running():
        async with first.running():
            first.add(7)
            await converged(regions)
        wiped = fresh(1, where)
        async with wiped.running():
            assert "MISCONF" in refusal(wiped)
            await until(lambda: wiped.obstacle is None)
            assert wiped.replica.vv == {R1: 7}
            assert wiped.replica.database_uid == second.replica.database_uid
            wiped.add(1)
            await converged([wiped, second, third])


class SlowFolder(MemoryLog):
    """It keeps incarnations so slowly that all peers have sent what they can before."""

    pulls: Collection[Pull] = ()

    async def set_meta(self, key: str, value: str) -> None:
        if key == INCARNATIONS:
            # A heartbeat may come before the batches, and the next one does not.
            for _ in range(2):
                before = {pull.peer: pull.stats.heard_ms for pull in self.pulls}
                await until(partial(self._is_heard_after, before))
        await super().set_meta(key, value)

    def _is_heard_after(self, before: dict[RegionId, int]) -> bool:
        """True if each peer sent a heartbeat since, or batches, after which nothing is read."""
        return all(
            pull.stats.heard_ms > before[pull.peer] or not pull.may_read for pull in self.pulls
        )


async def test_a_wiped_region_is_sent_each_effect_once() -> None:
    """Its links begin again when its folder knows the incarnations of the others."""
    where = addresses()
    # No link may break, and no effect may come by another way.
    limits = replace(PATIENT, inbox_wait_ms_max=600_000)
    first, second, third = (fresh(number, where, limits) for number in where)
    async with first.running(), second.running():
        async with third.running():
            await until(lambda: not any(one.obstacle for one in (first, second)))
            first.add(7)
            second.add(5)
            await converged([first, second, third])
        log = SlowFolder()
        wiped = fresh(3, where, limits, log)
        async with wiped.running():
            log.pulls = wiped.pulls.values()
            await until(lambda: wiped.obstacle is None)
            await converged([first, second, wiped])
            received = {peer: pull.stats.effects for peer, pull in wiped.pulls.items()}
            assert received == {R1: 7, R2: 5}


async def logged(region: LiveRegion, vv: VersionVector) -> None:
    """Wait until this, and no more, is in its log."""
    await until(lambda: region.logged_vv == vv)


async def refused(link: Link) -> None:
    await until(lambda: link.state is LinkState.REFUSED)


@contextlib.asynccontextmanager
async def batches_of(count: int) -> AsyncIterator[list[Record]]:
    """Batches that region 1 issued in a run nobody else heard of."""
    where = addresses(1)
    region = LiveRegion(1, where)
    async with region.running():
        for n in range(1, count + 1):
            region.add(1)
            await logged(region, {R1: n})
        yield [row.record for row in await region.log.read_from(1, bytes_max=1 << 20)]


async def test_a_peer_forgets_what_it_holds_unapplied_before_it_answers() -> None:
    """Batches of an earlier run wait in an inbox, relayed ones too; the numbers are used again."""
    where = addresses()
    second, third = LiveRegion(2, where), LiveRegion(3, where)
    async with batches_of(3) as records, second.running(), third.running():
        await until(lambda: second.pulls[R3].link.state is LinkState.LIVE)
        # Region 3's link had been asked for region 1's effects, too: 2 and 3 came, 1 did not.
        puller = second.pulls[R3]
        puller.origins = frozenset({R1, R3})
        hold_back(second, puller.peer, records[1:])
        assert len(puller.inbox) == 2
        restored = LiveRegion(1, where, is_proven=False)
        async with restored.running():
            await until(lambda: restored.obstacle is None)
            assert len(puller.inbox) == 0
            restored.add(2)
            await converged([restored, second, third])
            assert second.replica.vv == {R1: restored.replica.issued}


@pytest.mark.parametrize("peer", [R1, R3], ids=["from the peer itself", "relayed"])
async def test_held_batches_are_dropped_before_answering(peer: RegionId) -> None:
    """Not when the link begins again: by then another link may have brought what it waits for."""
    where = addresses()
    second = LiveRegion(2, where)
    async with batches_of(3) as records:
        await second.begin()
        puller = second.pulls[peer]
        puller.origins = frozenset({R1, peer})
        hold_back(second, peer, records[1:])
        second.region.opening.peer_runs.note_start(R1, 7, recovering=True)
        assert len(puller.inbox) == 0


def hold_back(region: LiveRegion, peer: RegionId, records: Sequence[Record]) -> None:
    for record in records:
        assert record.batch is not None
        region.pulls[peer].inbox.offer(decode_batch(record.batch), record.batch)


async def test_effects_of_a_peer_that_recovers_are_not_taken() -> None:
    """Region 1 is restored and waits for region 3; region 2 must not take its effects meanwhile."""
    where = addresses()
    second = LiveRegion(2, where)
    async with batches_of(3) as records, second.running():
        copy = MemoryLog()
        await copy.append(records)
        restored = LiveRegion(1, where, log=copy, is_proven=False)
        async with restored.running():
            await until(lambda: second.pulls[R1].link.state is LinkState.LIVE)
            # Region 2 may ask it for the effects of region 3, which is down.
            await until(lambda: R1 not in second.pulls[R1].origins)
            await until(lambda: "waits for region 3" in str(restored.obstacle))
            assert second.replica.vv == {}
            async with LiveRegion(3, where).running():
                await until(lambda: second.replica.vv == {R1: 3})


@pytest.mark.parametrize("kind", ["wiped", "copies"])
async def test_two_regions_that_recover_at_the_same_time_help_each_other(kind: str) -> None:
    """Each one's own effects were issued after some of the other's, so it needs those first."""
    where = addresses()
    regions = first, second, third = [LiveRegion(number, where) for number in where]
    async with third.running():
        async with first.running(), second.running():
            first.add(2)
            second.add(2)
            await converged(regions)
            logs = [await copy_of(of_type(MemoryLog, one.log)) for one in (first, second)]
            for _ in range(4):
                for region in (first, second):
                    region.add(1)
                    await converged(regions)
        restored = (
            [fresh(1, where), fresh(2, where)]
            if kind == "wiped"
            else [
                LiveRegion(number, where, log=log, is_proven=False)
                for number, log in zip((1, 2), logs, strict=True)
            ]
        )
        async with live_regions(restored):
            await until(lambda: all(one.obstacle is None for one in restored))
            for region in restored:
                region.add(1)
            await converged([*restored, third])
            assert third.replica.vv == {R1: 7, R2: 7}


@pytest.mark.parametrize("count", [0, 1], ids=["nothing depends on it", "something does"])
async def test_healthy_regions_relay_effects_of_one_that_recovers_and_waits(count: int) -> None:
    """Region 2 is wiped and waits for region 4; what only region 3 has of it reaches region 1."""
    where = addresses(4)
    first, second, third = (LiveRegion(number, where) for number in (1, 2, 3))
    async with third.running():
        async with second.running():
            second.add(1)
            await until(lambda: third.replica.vv == {R2: 1})
        third.add(count)
        async with fresh(2, where).running() as wiped, first.running():
            await until(lambda: first.replica.vv == third.replica.vv)
            assert "waits for region 4" in str(wiped.obstacle)


async def test_a_region_that_found_a_loss_is_not_taken_for_whole_by_its_next_start(
    tmp_path: Path,
) -> None:
    """Its folder seemed to be the one; it stops before all have answered."""
    where = addresses(3)
    folder = tmp_path / "region-1"

    async def opened() -> SqliteLog:
        return await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)

    first, second = LiveRegion(1, where), LiveRegion(2, where)
    async with second.running():
        async with first.running():
            first.add(8)
            await until(lambda: second.replica.vv == {R1: 8})
        log = await opened()
        await log.confirm()
        await log.abandon()
        log = await opened()
        assert log.is_proven
        behind = LiveRegion(1, where, log=log, is_proven=log.is_proven)
        async with behind.running():
            await until(lambda: behind.region.opening.readiness.is_recovering)
            await until(lambda: "waits for region 3" in str(behind.obstacle))
        await log.close()
    log = await opened()
    assert not log.is_proven
    await log.abandon()


# --- Databases ------------------------------------------------------------------------------------


async def test_regions_of_two_databases_do_not_link_and_say_both_identities() -> None:
    where = addresses(2)
    first, second = LiveRegion(1, where), LiveRegion(2, where, uid=OTHER)
    async with live_regions([first, second]):
        for region, peer in ((first, R2), (second, R1)):
            link = region.pulls[peer].link
            await refused(link)
            for uid in (first.replica.database_uid, OTHER):
                assert shown_uid(uid) in link.error
        first.add(1)
        second.add(1)
        assert (first.replica.vv, second.replica.vv) == ({R1: 1}, {R2: 1})


@pytest.mark.parametrize("count", [1, 5])
async def test_a_region_that_learns_of_own_effects_it_lacks_recovers(count: int) -> None:
    """Its folder seemed to be the one: a snapshot of the whole disk was put back."""
    where = addresses(2)
    first, second = (LiveRegion(number, where) for number in where)
    async with second.running():
        async with first.running():
            first.add(7)
            await converged([first, second])
            assert isinstance(first.log, MemoryLog)
            rows = await first.log.read_from(1, bytes_max=1 << 20)
        snapshot = MemoryLog()
        await snapshot.append([row.record for row in rows][:1])
        restored = LiveRegion(1, where, log=snapshot)
        async with restored.running():
            await until(lambda: restored.replica.issued == 7)
            await until(lambda: restored.obstacle is None)
            restored.add(count)
            await converged([restored, second])
