"""The report on one region of a database, in the form of Redis Enterprise's REST API.

Source: redis.io, operate/rs/references/rest-api, requests/crdbs/health_report.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb

REMOVED: Final = pb.MemberStatus.Status.REMOVED
Report: TypeAlias = dict[str, Any]


def silent_report(member: pb.MemberStatus, members: pb.MembersReply, why: str) -> Report:
    """The report of a region that does not answer."""
    return {
        "cluster_name": _name(member),
        "configurations": [],
        "connection_error": f"{member.grpc_address}: {why}",
        "connections": [],
        "guid": members.database_uid,
        "name": members.database_id,
    }


def report_of(
    members: pb.MembersReply, links: Mapping[RegionId, bool], *, encrypted: bool
) -> Report:
    """The report of one region.

    Args:
        members: as that region knows them.
        links: by the region that it pulls from, whether that link is up.
        encrypted: the links speak TLS.
    """
    there = {one.region: one for one in members.members if one.status != REMOVED}
    own = there.get(members.region, pb.MemberStatus(region=members.region))
    return {
        "active_config_version": members.epoch,
        "cluster_name": _name(own),
        "configurations": [
            {
                # As on /v1/crdbs.
                "causal_consistency": True,
                "encryption": encrypted,
                "instances": _instances(there.values(), members),
                "name": members.database_id,
                "status": "commit-completed" if members.is_everywhere else "committed",
                "version": members.epoch,
            }
        ],
        "connections": [
            {
                "name": _name(there.get(peer, pb.MemberStatus(region=peer))),
                "replication_links": [
                    {"link_uid": f"1:{peer}", "status": "up" if is_up else "down"}
                ],
                "status": "ok" if is_up else "error",
            }
            for peer, is_up in sorted(links.items())
        ],
        "guid": members.database_uid,
        "name": members.database_id,
    }


def _instances(instances: Iterable[pb.MemberStatus], members: pb.MembersReply) -> list[Report]:
    scheme = "https" if members.http_tls else "http"
    return [
        {
            "id": one.region,
            "db_uid": "1" if one.region == members.region else "",
            "cluster": {
                "name": _name(one),
                "url": f"{scheme}://{one.http_address}" if one.http_address else "",
            },
        }
        for one in instances
    ]


def _name(member: pb.MemberStatus) -> str:
    return member.name or f"region-{member.region}"
