"""Health reports of a node about the database: about itself, and about the nodes that it asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from crdtstream.access.peer_calls import PLAIN_CALLS
from crdtstream.admin import health_reports
from crdtstream.admin.health_reports import HealthReports
from crdtstream.admin.region_reports import report_of
from crdtstream.core.ids import RegionId
from crdtstream.engine.engine import Engine
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import Peer
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc
from tests.harness.driven import UID, make_region

ACTIVE, REMOVED = pb.MemberStatus.Status.ACTIVE, pb.MemberStatus.Status.REMOVED


def members(**fields: Any) -> pb.MembersReply:
    """Regions 1 to 3 as region 1 knows them; region 3 was removed."""
    return pb.MembersReply(
        database_id="crdb",
        database_uid=UID.hex(),
        epoch=4,
        region=1,
        members=[
            pb.MemberStatus(region=1, name="eu", status=ACTIVE, http_address="h1:1"),
            pb.MemberStatus(region=2, status=ACTIVE),
            pb.MemberStatus(region=3, status=REMOVED),
        ],
        **fields,
    )


def test_a_report_has_the_regions_that_are_members() -> None:
    report = report_of(members(), {RegionId(2): False}, encrypted=False)
    (configuration,) = report["configurations"]
    assert configuration["instances"] == [
        {"id": 1, "db_uid": "1", "cluster": {"name": "eu", "url": "http://h1:1"}},
        {"id": 2, "db_uid": "", "cluster": {"name": "region-2", "url": ""}},
    ]
    assert report["connections"] == [
        {
            "name": "region-2",
            "replication_links": [{"link_uid": "1:2", "status": "down"}],
            "status": "error",
        }
    ]


@pytest.mark.parametrize(
    ("is_everywhere", "status"), [(False, "committed"), (True, "commit-completed")]
)
def test_a_configuration_is_complete_when_all_have_it(is_everywhere: bool, status: str) -> None:
    (configuration,) = report_of(members(is_everywhere=is_everywhere), {}, encrypted=True)[
        "configurations"
    ]
    assert configuration["encryption"]
    assert (configuration["status"], configuration["version"]) == (status, 4)


class Other(rpc.AdminServicer):
    """A region that is asked."""

    def __init__(self, region: int) -> None:
        self.region = region
        self.asked = 0

    async def Members(self, _request: Any, _context: Any) -> pb.MembersReply:  # noqa: N802
        self.asked += 1
        return pb.MembersReply(database_uid=UID.hex(), region=self.region)

    async def Status(self, _request: Any, _context: Any) -> pb.StatusReply:  # noqa: N802
        return pb.StatusReply(region=self.region)


@asynccontextmanager
async def reports(other: Other) -> AsyncIterator[HealthReports]:
    """Those of region 1, whose file names region 2 at the address where the other one answers."""
    server = grpc.aio.server()
    rpc.add_AdminServicer_to_server(other, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        settings = NodeSettings(
            region=1,
            dir=Path("data"),
            peers=(Peer(region=2, address=f"127.0.0.1:{port}"),),
        )
        yield HealthReports(
            Engine(make_region(peers={2: f"127.0.0.1:{port}"}), MemoryLog()), settings, PLAIN_CALLS
        )
    finally:
        await server.stop(None)


async def test_many_who_ask_at_once_cost_one_question() -> None:
    other = Other(2)
    async with reports(other) as asked:
        found = await asyncio.gather(*(asked.of() for _ in range(20)))
        assert {len(one) for one in found} == {2}
        assert other.asked == 1


async def test_a_report_of_another_region_is_not_taken() -> None:
    async with reports(Other(7)) as asked:
        (report,) = await asked.of(2)
    assert "region 7" in report["connection_error"]
    assert report["configurations"] == []


async def test_a_region_that_does_not_answer_in_time_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health_reports.ASK_SECONDS_MAX, "value", 0.05)

    class Slow(Other):
        async def Members(self, _request: Any, _context: Any) -> pb.MembersReply:  # noqa: N802
            await asyncio.sleep(60)
            raise AssertionError

    async with reports(Slow(2)) as asked:
        (report,) = await asked.of(2)
    assert "no answer within" in report["connection_error"]
