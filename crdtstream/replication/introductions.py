"""Introductions: checks, before the first epoch, that the files of all nodes agree on members."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import INSTANCE_BYTES, Adopted, Contact, MembersError
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.replication.membership_client import introduced
from crdtstream.settings.addresses import address_at, endpoint
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import membership_pb2 as pb

KEPT_SECONDS: Final = Seconds(0.01, least=0.001)


async def adoption_of(
    engine: Engine,
    settings: NodeSettings,
    calls: PeerCalls,
    *,
    absent: Collection[RegionId] = frozenset(),
) -> tuple[list[Adopted], list[RegionId]]:
    """The regions as all their files name them, and those of them that vote.

    Args:
        absent: those that are dead: they are not asked, and named as the others name them.

    Raises:
        MembersError: a region does not answer, or the files differ; the text has the difference.
    """
    own = RegionId(settings.region)
    unknown = sorted(set(absent) - {peer.region for peer in settings.peers})
    if unknown:
        raise MembersError(f"there is no region {unknown[0]} among the peers of region {own}")
    found = {own: await introduction_of(engine, settings)}
    asked = [
        (RegionId(peer.region), peer.address)
        for peer in settings.peers
        if peer.region not in absent
    ]
    answers = await asyncio.gather(
        *(introduced(settings.database_id, own, peer, address, calls) for peer, address in asked)
    )
    found |= {RegionId(one.region): one for one in answers}
    found |= {one: _unheard(one, found[own]) for one in absent}
    voters = [region for region, one in sorted(found.items()) if one.votes]
    if not asked and not voters:
        # It is alone for good, whatever votes its folder lost.
        voters = [own]
    return adopted_by_files(found), voters


def _unheard(region: RegionId, own: pb.Introduction) -> pb.Introduction:
    """A region that is dead, as if it named the same ones as this one."""
    named = {own.region, *(peer.region for peer in own.peers)}
    return pb.Introduction(
        region=region,
        # No folder has it, and no other region.
        instance=region.to_bytes(INSTANCE_BYTES, "big"),
        database_uid=own.database_uid,
        peers=[pb.ConfiguredPeer(region=one) for one in sorted(named - {region})],
    )


def adopted_by_files(found: Mapping[RegionId, pb.Introduction]) -> list[Adopted]:
    """The regions, if what each says of the others agrees.

    Raises:
        MembersError: it does not.
    """
    differences = [
        f"region {region} names {_listed({region, *(peer.region for peer in one.peers)})}"
        for region, one in sorted(found.items())
    ]
    if len({text.partition("names")[2] for text in differences}) > 1:
        raise MembersError(
            f"the files of the nodes differ: {'; '.join(differences)}. Make all of them name the"
            " same regions, restart those nodes, and try again"
        )
    uids = {one.database_uid for one in found.values()}
    if len(uids) > 1:
        raise MembersError(
            "the regions are not of one database; `crdtstream status` shows which database each"
            " is of"
        )
    return [_adopted(region, one, found) for region, one in sorted(found.items())]


def _adopted(
    region: RegionId, one: pb.Introduction, found: Mapping[RegionId, pb.Introduction]
) -> Adopted:
    """A region, at the address by which all others reach it."""
    addresses = {
        peer.address: other
        for other, its in sorted(found.items())
        for peer in its.peers
        if peer.region == region and peer.address
    }
    if len(addresses) > 1:
        named = " and ".join(f"{address} by region {by}" for address, by in addresses.items())
        raise MembersError(
            f"region {region} is named {named}: name it alike in all files, with a host name that"
            " each of them can resolve, restart those nodes, and try again"
        )
    grpc = next(iter(addresses), one.grpc_address)
    host = grpc.rpartition(":")[0]
    resp, http = address_at(host, one.resp_address), address_at(host, one.http_address)
    return Adopted(region, one.instance, Contact(f"region-{region}", grpc, resp, http))


async def introduction_of(engine: Engine, settings: NodeSettings) -> pb.Introduction:
    """Introduction of this node, which names itself and its peers.

    Waits until the folder has kept its uid.
    """
    membership = engine.region.membership
    membership.want_kept()
    while not membership.is_kept:  # noqa: ASYNC110 - no event reports its end
        await asyncio.sleep(KEPT_SECONDS.value)
    host, http_host = settings.host, settings.http_host
    if settings.announce_hosts:
        host = http_host = settings.announce_hosts[0]
    return pb.Introduction(
        region=settings.region,
        instance=membership.instance,
        database_uid=engine.region.replica.database_uid,
        grpc_address=settings.grpc_address,
        resp_address=endpoint(host, settings.announce_port or settings.client_port),
        http_address=endpoint(http_host, settings.http_port),
        peers=[
            pb.ConfiguredPeer(region=peer.region, address=peer.address) for peer in settings.peers
        ],
        votes=membership.part.may_vote,
    )


def _listed(regions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(regions)))
