"""Members as a node reports them, and changes of them without any other node."""

from pathlib import Path

import pytest

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.members import change_members, members_reply
from crdtstream.admin.sealed_removal import SealedRemoval
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.member_changes import MembersError
from crdtstream.engine.engine import Engine
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import admin_pb2 as pb
from tests.harness.driven import make_region
from tests.replication.regions import LiveRegion, addresses

SETTINGS = NodeSettings(region=1, dir=Path("data"))


def test_regions_that_the_files_name_are_members() -> None:
    """Their addresses are those of this node's file, and of its own settings."""
    reply = members_reply(Engine(make_region(), MemoryLog()), SETTINGS)
    assert reply.epoch == 1
    assert [(one.region, one.grpc_address) for one in reply.members] == [
        (1, SETTINGS.grpc_address),
        (2, "region-2"),
        (3, "region-3"),
    ]
    assert [one.resp_address for one in reply.members] == [SETTINGS.resp_address, "", ""]
    assert reply.numbers_left == REGION_MAX - 3


@pytest.mark.parametrize("count", [2, 3])
async def test_the_last_one_left_removes_those_that_are_gone(count: int) -> None:
    """The files name regions that nobody will ever reach again."""
    async with LiveRegion(1, addresses(count)).running() as region:
        for gone in range(count, 1, -1):
            remove = pb.RemoveRegion(region=gone, force=True, survivors=[1])
            for dry_run in (True, False):
                request = pb.ChangeMembersRequest(remove=remove, dry_run=dry_run)
                changed = await change_members(
                    region.engine, SETTINGS, PeerCalls("crdb"), request, draw=0
                )
        statuses = {one.region: one.status for one in changed.members.members}
    member = pb.MemberStatus.Status
    assert statuses.pop(1) == member.ACTIVE
    assert set(statuses.values()) == {member.REMOVED}


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_region_with_an_empty_folder_changes_nothing(dry_run: bool) -> None:
    """It would begin another database, while a region that has the first one perhaps lives."""
    remove = pb.RemoveRegion(region=2, force=True, survivors=[1])
    async with LiveRegion(1, addresses(2), is_proven=False).running() as region:
        request = pb.ChangeMembersRequest(remove=remove, dry_run=dry_run)
        with pytest.raises(MembersError, match="region 1 has nothing of the database yet"):
            await change_members(region.engine, SETTINGS, PeerCalls("crdb"), request, draw=0)
        removal = SealedRemoval(
            region.engine, SETTINGS, PeerCalls("crdb"), RegionId(2), RegionId(1), seconds=1.0
        )
        with pytest.raises(MembersError, match="region 1 has nothing of the database yet"):
            await anext(removal.run(dry_run=dry_run))
        assert region.region.membership.known.epoch == 1


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_region_that_there_is_not_is_not_removed(dry_run: bool) -> None:
    remove = pb.RemoveRegion(region=9, force=True, survivors=[1])
    async with LiveRegion(1, addresses(2)).running() as region:
        request = pb.ChangeMembersRequest(remove=remove, dry_run=dry_run)
        with pytest.raises(MembersError, match="no region 9"):
            await change_members(region.engine, SETTINGS, PeerCalls("crdb"), request, draw=0)
        assert region.region.membership.known.epoch == 1


async def test_an_address_that_a_file_names_is_taken() -> None:
    where = addresses(2)
    async with LiveRegion(1, where).running() as region:
        add = pb.AddRegion(name="eu", grpc_address=where[2], token_sha256=bytes(32))
        moved = pb.UpdateRegion(region=1, grpc_address=where[2], force=True)
        for request in (pb.ChangeMembersRequest(add=add), pb.ChangeMembersRequest(update=moved)):
            with pytest.raises(MembersError, match=f"region 2 has the address {where[2]}"):
                await change_members(region.engine, SETTINGS, PeerCalls("crdb"), request, draw=0)
