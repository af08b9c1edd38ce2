"""Members as a node reports them."""

from pathlib import Path

import pytest

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.members import change_members, members_reply
from crdtstream.core.ids import REGION_MAX
from crdtstream.core.member_changes import MembersError
from crdtstream.engine.engine import Engine
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import Peer
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import admin_pb2 as pb
from tests.harness.driven import make_region
from tests.replication.regions import LiveRegion, addresses


def test_regions_that_the_settings_name_have_their_numbers() -> None:
    """Before the first change of members no epoch says so."""
    peers = [Peer(region=one, address=f"127.0.0.1:738{one}") for one in (2, 3)]
    settings = NodeSettings(region=1, dir=Path("data"), peers=peers)
    reply = members_reply(Engine(make_region(), MemoryLog()), settings)
    assert reply.epoch == 0
    assert [one.region for one in reply.members] == [1, 2, 3]
    assert reply.numbers_left == REGION_MAX - 3


@pytest.mark.parametrize("is_restored", [False, True], ids=["proven", "restored"])
@pytest.mark.parametrize("count", [2, 3])
async def test_the_last_one_left_asks_none_of_those_that_are_gone(
    count: int, is_restored: bool
) -> None:
    """Nothing was adopted before; the files name regions that nobody will ever reach again."""
    where = {number: f"127.0.0.1:{number}" for number in range(1, count + 1)}
    peers = [Peer(region=one, address=where[one]) for one in range(2, count + 1)]
    settings = NodeSettings(region=1, dir=Path("data"), peers=peers)
    async with LiveRegion(1, addresses(), is_proven=not is_restored).running() as region:
        for gone in range(count, 1, -1):
            remove = pb.RemoveRegion(region=gone, force=True, survivors=[1])
            for dry_run in (True, False):
                request = pb.ChangeMembersRequest(remove=remove, dry_run=dry_run)
                changed = await change_members(
                    region.engine, settings, PeerCalls("crdb"), request, draw=0
                )
        statuses = {one.region: one.status for one in changed.members.members}
    member = pb.MemberStatus.Status
    assert statuses.pop(1) == member.ACTIVE
    assert set(statuses.values()) == {member.REMOVED}
    assert len({one.instance for one in changed.members.members}) == count


async def test_of_several_that_are_left_each_is_asked() -> None:
    settings = NodeSettings(
        region=1,
        dir=Path("data"),
        peers=[Peer(region=one, address=f"127.0.0.1:{one}") for one in (2, 3)],
    )
    remove = pb.RemoveRegion(region=3, force=True, survivors=[1, 2])
    async with LiveRegion(1, addresses()).running() as region:
        with pytest.raises(MembersError, match="region 2"):
            await change_members(
                region.engine,
                settings,
                PeerCalls("crdb"),
                pb.ChangeMembersRequest(remove=remove),
                draw=0,
            )


async def test_nothing_is_adopted_for_the_removal_of_a_region_that_there_is_not() -> None:
    peers = [Peer(region=2, address="127.0.0.1:2")]
    settings = NodeSettings(region=1, dir=Path("data"), peers=peers)
    remove = pb.RemoveRegion(region=9, force=True, survivors=[1])
    async with LiveRegion(1, addresses()).running() as region:
        request = pb.ChangeMembersRequest(remove=remove)
        with pytest.raises(MembersError, match="no region 9"):
            await change_members(region.engine, settings, PeerCalls("crdb"), request, draw=0)
        assert region.region.membership.known.epoch == 0
