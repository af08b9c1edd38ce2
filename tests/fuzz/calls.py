"""Calls of all methods but the links', with any message.

The services run as in a node, on a region in memory; the call itself is a fake that notes what is
answered.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from crdtstream.access.peer_calls import PLAIN_CALLS
from crdtstream.admin.service import AdminService, NodeParts
from crdtstream.admin.tunables import Tunables
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.uid import shown_uid
from crdtstream.engine.repairer import Repairer
from crdtstream.query.service import QueryService
from crdtstream.region.links.errors import PeerError
from crdtstream.replication.bootstrap_server import BootstrapService
from crdtstream.replication.bootstrap_wire import CopyAsked, Resume, encode_asked
from crdtstream.replication.membership_server import MembershipService
from crdtstream.store.checkpoints import MemoryCheckpoints
from crdtstream.store.staging import CUT_ID_BYTES, MemoryStaging, Staging
from crdtstream.v1 import admin_pb2 as admin
from crdtstream.v1 import bootstrap_pb2 as bootstrap
from crdtstream.v1 import effects_pb2 as effects
from crdtstream.v1 import membership_pb2 as membership
from crdtstream.v1 import query_pb2 as query
from tests.fuzz import served
from tests.fuzz.damage import damaged_bytes, damaging, pieces_of, story
from tests.fuzz.histories import PEER
from tests.fuzz.surface import Surface
from tests.harness.driven import UID
from tests.resp.node import request

# Turns of the event loop that a call gets before its program hangs up.
TURNS: Final = 40
DATABASE: Final = "crdb"
FIELDS: Final = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
# Commands before the first call.
BEFORE: Final = (
    *("XADD x 10-1 f v", "XADD x 11-1 f v", "XADD x 12-1 f v", "SET s value", "XADD y 5 f v"),
    *("XGROUP CREATE x g 0", "XREADGROUP GROUP g c COUNT 2 STREAMS x >", "XACK x g 10-1"),
)
# Those that need what is not here: a folder.
NOT_CALLED: Final = frozenset({"Admin.Backup", "Replication.Sync"})


class Method(NamedTuple):
    """A method, by its service and its name, and what it takes."""

    name: str
    kind: type[Message]


def _methods() -> dict[str, Method]:
    found = {}
    for module in (admin, bootstrap, membership, query):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                name = f"{service.name}.{method.name}"
                if name not in NOT_CALLED:
                    found[name] = Method(name, GetMessageClass(method.input_type))
    return found


METHODS: Final[Mapping[str, Method]] = _methods()


def target(data: bytes) -> object:
    """A story of names of methods, each before its message."""
    pieces = pieces_of(data)
    calls = []
    for name, message in zip(pieces[::2], pieces[1::2], strict=False):
        method = METHODS.get(name.decode("ascii", "replace"))
        if method is not None:
            try:
                calls.append((method, method.kind.FromString(message)))
            except DecodeError:
                # gRPC refuses it by itself.
                continue
    served.run(_call_all(calls))
    return None


async def _call_all(calls: Sequence[tuple[Method, Message]]) -> None:
    async with served.running() as node:
        for line in BEFORE:
            node.clients[0][0].data_received(request(*(word.encode() for word in line.split())))
        await served.turns()
        services = _services(node)
        for method, message in calls:
            service, _, name = method.name.partition(".")
            await _call(getattr(services[service], name), message)


def _services(node: served.FuzzedNode) -> dict[str, Any]:
    region, log, engine, settings = node.region, node.log, node.engine, node.settings
    staged = MemoryStaging()

    async def copy(source: RegionId, staging: Staging, key: bytes | None = None) -> None:
        raise PeerError(source, f"it does not send {key!r}")

    parts = NodeParts(
        settings=settings,
        engine=engine,
        tunables=Tunables(region, log, settings),
        version="0",
        started_ms=Millis(0),
        clients=lambda: 2,
        log_bytes=lambda: 0,
        backup=_no_backup,
        repairer=Repairer(region, staged, engine, copy, now=engine.now),
        calls=PLAIN_CALLS,
        users=node.server.acl,
    )
    checkpoints = MemoryCheckpoints(log, staging=staged)
    return {
        "Admin": AdminService(parts),
        "Query": QueryService(engine, settings),
        "Membership": MembershipService(engine, settings),
        "Bootstrap": BootstrapService(
            engine, checkpoints, database_id=DATABASE, image_bytes_max=1 << 20
        ),
    }


async def _no_backup() -> AsyncGenerator[admin.BackupPiece, None]:
    return
    yield


async def _call(method: Any, message: Message) -> None:
    """Call a method; a program that has to wait hangs up."""
    calling = asyncio.create_task(_answered(method, message))
    for _ in range(TURNS):
        await asyncio.sleep(0)
        if calling.done():
            break
    else:
        calling.cancel()
    try:
        await calling
    except (asyncio.CancelledError, served.AbortedError):
        return


async def _answered(method: Any, message: Message) -> None:
    answer = method(message, served.Context())
    if isinstance(answer, AsyncIterator):
        async for reply in answer:
            reply.SerializeToString()
    elif (reply := await answer) is not None:
        reply.SerializeToString()


# --- Seeds ----------------------------------------------------------------------------------------


@cache
def seeds() -> list[bytes]:
    messages = [(name, method.kind()) for name, method in METHODS.items()]
    messages += _examples()
    singles = [_story((name, message)) for name, message in messages]
    return [*singles, _story(*_examples())]


def _story(*calls: tuple[str, Message]) -> bytes:
    pieces = []
    for name, message in calls:
        pieces += [name.encode(), message.SerializeToString(deterministic=True)]
    return story(*pieces)


def _vv(**counts: int) -> effects.VersionVector:
    regions = [int(name.removeprefix("r")) for name in counts]
    return effects.VersionVector(regions=regions, counts=list(counts.values()))


def _examples() -> list[tuple[str, Message]]:
    token = f"{shown_uid(UID)}/1:3"
    add = admin.AddRegion(name="eu", grpc_address="eu:7", token_sha256=bytes(32))
    asked = CopyAsked(
        PEER, DATABASE, UID, 7, {PEER: 1}, Resume(bytes(CUT_ID_BYTES), 3), 100, key=b"x"
    )
    about: dict[str, Any] = {"database_id": DATABASE, "database_uid": UID, "sender": 2, "to": 1}
    return [
        ("Admin.Status", admin.StatusRequest(with_digest=True, with_streams=True)),
        ("Admin.SetLinks", admin.SetLinksRequest(peers=[2], paused=True)),
        ("Admin.Tune", admin.TuneRequest(parameter="maxmemory", value="1gb")),
        ("Admin.Digest", admin.DigestRequest(key=b"x")),
        ("Admin.Digests", admin.DigestsRequest(buckets=admin.BucketsOf(), at_least=_vv(r1=2))),
        ("Admin.Digests", admin.DigestsRequest(keys=admin.KeysOf(first=0, last=255))),
        ("Admin.Digests", admin.DigestsRequest(parts=admin.PartsOf(key=b"x"))),
        ("Admin.Digests", admin.DigestsRequest(parts=admin.PartsOf())),
        (
            "Admin.Digests",
            admin.DigestsRequest(stretches=admin.StretchesOf(key=b"x", origin=1, count=4, bits=12)),
        ),
        ("Admin.Digests", admin.DigestsRequest(entries=admin.EntriesOf(key=b"x", origin=1))),
        ("Admin.ChangeMembers", admin.ChangeMembersRequest(dry_run=True, add=add)),
        ("Admin.ChangeMembers", admin.ChangeMembersRequest(add=add)),
        (
            "Admin.ChangeMembers",
            admin.ChangeMembersRequest(
                remove=admin.RemoveRegion(region=2, heir=1, force=True, survivors=[1, 3])
            ),
        ),
        ("Admin.RemoveSealed", admin.RemoveSealedRequest(region=2, heir=1, seconds=1.0)),
        ("Admin.RepairKey", admin.RepairKeyRequest(key=b"x", source=2, seconds=1.0)),
        ("Admin.Flush", admin.FlushRequest(dry_run=True, seconds=1.0)),
        ("Query.GetPosition", query.PositionRequest(token=token)),
        (
            "Query.ListStreams",
            query.ListStreamsRequest(patterns=[b"x*"], with_groups=True, with_undelivered=True),
        ),
        (
            "Query.Plan",
            query.PlanRequest(patterns=[b"*"], above=_vv(r1=1), origins=[1], range_entries=2),
        ),
        (
            "Query.Plan",
            query.PlanRequest(patterns=[b"*"], upto_token=token, entries_max=2, only_end=True),
        ),
        (
            "Query.Scan",
            query.ScanRequest(key=b"x", origin=1, above_n=1, end=effects.Id(ms=12, seq=9)),
        ),
        ("Query.ScanPending", query.ScanPendingRequest(patterns=[b"x"])),
        (
            "Query.Append",
            query.AppendRequest(
                key=b"x",
                producer=b"q",
                batch=1,
                lengths=len(FIELDS).to_bytes(4, "little") * 2,
                fields=FIELDS * 2,
            ),
        ),
        ("Query.PlanTrim", query.TrimReadRequest(key=b"x", read=_vv(r1=2), before_ms=5_000)),
        ("Query.TrimRead", query.TrimReadRequest(key=b"x", read_token=token, before_ms=5_000)),
        ("Membership.Deliver", membership.MembershipLetter(**about, members=b"?")),
        (
            "Membership.Introduce",
            membership.IntroduceRequest(database_id=DATABASE, region=2),
        ),
        ("Membership.Join", membership.JoinRequest(secret=bytes(16), instance=bytes(16))),
        (
            "Membership.Seal",
            membership.SealRequest(**about, step=membership.SealRequest.SEAL, heir=2, epoch=1),
        ),
        ("Bootstrap.Copy", encode_asked(asked)),
    ]


def damage(data: bytes, draw: Random) -> bytes:
    pieces = pieces_of(data)
    if len(pieces) < 2 or draw.random() < 0.02:
        return damaged_bytes(data, draw)
    at = draw.randrange(len(pieces) // 2) * 2
    method = METHODS.get(pieces[at].decode("ascii", "replace"))
    match draw.randrange(8):
        case 0:
            other = draw.choice(list(METHODS))
            pieces[at:at] = [other.encode(), b""]
        case 1 if len(pieces) > 2:
            del pieces[at : at + 2]
        case _:
            within = damaged_bytes if method is None else damaging(method.kind)
            pieces[at + 1] = within(pieces[at + 1], draw)
    return story(*pieces)


CALLS: Final = Surface(
    "calls",
    target,
    seeds,
    damage,
    "calls of Admin, Query, Membership and Bootstrap, with any message",
)
