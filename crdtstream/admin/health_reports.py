"""Health reports of all regions and their links, in the form of Redis Enterprise's REST API.

Any node answers for all: it asks the others, as regions ask each other.  The page asks for no
password on a port of this machine, so it must cost little: one request at a time is sent to each
region, and its answer is used for a second.

Source: redis.io, operate/rs/references/rest-api, requests/crdbs/health_report.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import grpc

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.members import members_reply
from crdtstream.admin.region_reports import REMOVED, Report, report_of, silent_report
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.replication.puller import REFUSED
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc

# A region that takes longer does not answer.
ASK_SECONDS_MAX: Final = Seconds(2.0, least=0.01)
GOOD_SECONDS: Final = Seconds(1.0, least=0.0)


@dataclass(slots=True)
class _Other:
    """The last answer of another region, and until when it is good."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    report: Report = field(default_factory=dict)
    good_until: float = 0.0


class HealthReports:
    """The reports of one node."""

    def __init__(self, engine: Engine, settings: NodeSettings, calls: PeerCalls) -> None:
        self._engine = engine
        self._settings = settings
        self._calls = calls
        self._others: dict[RegionId, _Other] = {}

    async def of(self, instance: int | None = None) -> list[Report]:
        """A report of this region, if there is one, else of each; ascending."""
        members = members_reply(self._engine, self._settings)
        there = {RegionId(one.region): one for one in members.members if one.status != REMOVED}
        self._others = {one: its for one, its in self._others.items() if one in there}
        wanted = [one for one in there if one == instance] or sorted(there)
        return await asyncio.gather(*(self._of(there[one], members) for one in wanted))

    async def _of(self, member: pb.MemberStatus, members: pb.MembersReply) -> Report:
        if member.region == members.region:
            pulls = self._engine.region.links.pulls
            links = {peer: pull.link.is_up for peer, pull in pulls.items()}
            return report_of(members, links, encrypted=self._settings.tls_replication)
        other = self._others.setdefault(RegionId(member.region), _Other())
        loop = asyncio.get_running_loop()
        async with other.lock:
            if loop.time() >= other.good_until:
                other.report = await _asked(member, members, self._calls)
                other.good_until = loop.time() + GOOD_SECONDS.value
            return other.report


async def _asked(member: pb.MemberStatus, members: pb.MembersReply, calls: PeerCalls) -> Report:
    """Report of another region, or a report that says why it does not answer."""
    try:
        async with (
            asyncio.timeout(ASK_SECONDS_MAX.value),
            calls.channel(member.grpc_address, RegionId(member.region)) as channel,
        ):
            stub = rpc.AdminStub(channel)
            its = await stub.Members(pb.MembersRequest(), metadata=calls.metadata)
            status = await stub.Status(pb.StatusRequest(), metadata=calls.metadata)
    except TimeoutError:
        return silent_report(member, members, f"no answer within {ASK_SECONDS_MAX.value:g} s")
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return silent_report(member, members, REFUSED)
        return silent_report(member, members, error.details() or error.code().name)
    if (its.region, its.database_uid) != (member.region, members.database_uid):
        what = f"region {its.region} of database {its.database_uid or '(none yet)'} answers there"
        return silent_report(member, members, what)
    up = pb.LinkStatus.State.UP
    links = {RegionId(link.peer): link.state == up for link in status.links}
    # A region that speaks TLS is linked to no other one that does not.
    return report_of(its, links, encrypted=calls.certificates is not None)
