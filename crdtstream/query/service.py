"""The ``Query`` service of a node: bulk reads and writes that never hold up the event loop.

Everything here reads the replica directly, in steps of a fraction of a millisecond.  Between two
steps other tasks run, so a lane is looked up again in each step.  Sending waits for the reader:
gRPC's flow control is the back-pressure, and nothing is prepared ahead of it.

Reads return dots, and only durable ones (``rules`` 18).  So a reader that returns with these dots
finds their entries in every region that has come as far.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar

import grpc

from crdtstream.access.admitting import address_in
from crdtstream.access.rights import CALLER_RIGHTS
from crdtstream.commands.beyond_redis.version_vectors import (
    Named,
    encode_named,
    parse_version_vector,
)
from crdtstream.commands.groups.delivery import undelivered_count
from crdtstream.commands.lookup import WRONG_TYPE
from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, format_vv
from crdtstream.core.effects import Numbered
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Nack
from crdtstream.core.histories import Point
from crdtstream.core.ids import ID_MAX, ID_MIN, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.bulk_reading import Columns, dot_range
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.slices import Within
from crdtstream.core.membership.lost import existing, told_lost
from crdtstream.core.producers.numbered import StaleBatchError
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size
from crdtstream.core.uid import shown_uid
from crdtstream.core.wire.codec import (
    BatchError,
    decode_id,
    decode_vv,
    encode_id,
    encode_vv,
    unpack,
)
from crdtstream.engine.engine import Engine
from crdtstream.engine.programs import OutcomeUnknownError
from crdtstream.query import planning
from crdtstream.query.append_rows import append_numbered, checked_rows
from crdtstream.query.arrow_extra import NO_ARROW, is_arrow_installed
from crdtstream.query.planning import Bounds, LaneCount, Steps
from crdtstream.query.trim_read import trim_read, trimmable
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc

# Metadata: the identity of the database that a call speaks of.
DATABASE_KEY: Final = "crdtstream-database"
# One record batch: some eighty macro nodes, well below a millisecond.
SCAN_ENTRIES: Final = Size(8_192, least=1)
SCAN_NODES: Final = Size(1_000, least=1)
SCAN_BYTES: Final = Size(512 << 10, least=1)
# Below gRPC's default limit for a message, whatever an entry's size is.
PIECE_BYTES: Final = Size(1 << 20, least=64)
PENDING_ROWS: Final = Size(1_000, least=1)
TRIM_NODES: Final = Size(500, least=1)
STEP_KEYS: Final = Size(200, least=1)
PATTERNS_MAX: Final = Size(100, least=1, scope=Scope.CLIENTS)

# The command whose rights a read of entries needs, with what follows the key.
READS: Final = (b"xrange", b"-", b"+")

T = TypeVar("T")
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class QueryService(rpc.QueryServicer):
    """Answers for one node."""

    def __init__(self, engine: Engine, settings: NodeSettings) -> None:
        self._engine = engine
        self._region = engine.region
        self._database_id = settings.database_id
        self._arrow: ModuleType | None = None

    async def _admit(self, context: Context) -> None:
        """End a call that means another database."""
        given = dict(context.invocation_metadata() or ()).get(DATABASE_KEY)
        own = shown_uid(self._region.replica.database_uid)
        if given is not None and given != own:
            meant = given if isinstance(given, str) else given.decode("ascii", "backslashreplace")
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"database: the call speaks of {meant}, this node holds {own or 'none yet'}; what "
                "was kept of one database says nothing about another: begin again, or name nodes "
                "of that database",
            )

    # --- What there is ------------------------------------------------------------------------

    async def GetPosition(  # noqa: N802 - gRPC's name
        self, request: pb.PositionRequest, context: Context
    ) -> pb.Position:
        await self._admit(context)
        position, replica = self._position(), self._region.replica
        if request.token:
            read = await self._vector(effects_pb2.VersionVector(), request.token, "token", context)
            numbers = read.numbers or {}
            position.lost.extend(
                pb.EndOfRegion(region=one.region, last_n=one.end.last_n, why=one.end.why)
                for one in replica.lost_of(read.vv, numbers, read.points)
            )
            position.unheard.extend(sorted(replica.unheard_of(read.vv, numbers)))
        return position

    @property
    def _durable(self) -> VersionVector:
        """Version vector of the durable effects here, without lost effects of removed regions."""
        region = self._region
        return existing(region.outstanding.durable_vv, region.replica.ends)

    def _position(self) -> pb.Position:
        region, durable = self._region, self._durable
        return pb.Position(
            region=region.replica.region,
            database_id=self._database_id,
            durable_vv=encode_vv(durable),
            token=self._token(durable, region.replica.numbers_of(durable)),
            now_ms=self._engine.now(),
            fault=region.refuses_writes or "",
            database_uid=region.replica.database_uid,
            ends=[
                pb.EndOfRegion(region=origin, last_n=end.last_n, why=end.why)
                for origin, end in sorted(region.replica.ends.items())
            ],
        )

    def _token(self, vv: VersionVector, numbers: Mapping[RegionId, int]) -> str:
        # Without hashes: offsets and archives stay as short and as plain as they were.
        return encode_named(self._region.replica, Named(dict(vv), numbers, {})).decode()

    async def _must_be_allowed(
        self, keys: Iterable[bytes], context: Context, command: bytes, *more: bytes
    ) -> None:
        """End a call whose user may not run this command on one of the keys."""
        rights = CALLER_RIGHTS.get()
        if rights.is_unlimited:
            return
        asked = refused = 0
        for key in keys:
            asked += 1
            argv = [*command.split(), key, *more]
            if not rights.may_call(argv):
                # One of a call is kept: a program may ask for all keys at once.
                if not refused:
                    rights.note_refused(argv, address_in(context.peer()), over="grpc")
                refused += 1
            if asked % STEP_KEYS.value == 0:
                await asyncio.sleep(0)
        if refused:
            name = command.decode().upper()
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"rights: this user may not run {name} on {refused} of {asked} keys; ask for those "
                "on which it may, or give it the right",
            )

    async def ListStreams(  # noqa: N802
        self, request: pb.ListStreamsRequest, context: Context
    ) -> AsyncIterator[pb.StreamDescription]:
        await self._admit(context)
        position: pb.Position | None = self._position()
        keys = await self._keys(request.patterns, context)
        await self._must_be_allowed(keys, context, b"xinfo stream")
        for key in keys:
            stream = self._region.replica.keys.held_stream(key)
            if stream is not None:
                description = _described(key, stream)
                for name in sorted(stream.groups) if request.with_groups else ():
                    # One at a time: a group may have a long history.
                    await asyncio.sleep(0)
                    group = stream.groups.get(name)
                    if group is not None:
                        describe = partial(
                            _group,
                            self._region.replica.region,
                            name,
                            group,
                            stream,
                            with_undelivered=request.with_undelivered,
                        )
                        described = self._engine.read(describe)
                        description.groups.append(await self._unless_unreadable(described, context))
                if position is not None:
                    description.position.CopyFrom(position)
                    position = None
                yield description

    async def _keys(self, patterns: Iterable[bytes], context: Context) -> list[bytes]:
        patterns = list(patterns)
        if len(patterns) > PATTERNS_MAX.value:
            await _refuse(context, f"patterns: at most {PATTERNS_MAX.value}; use a wildcard")
        keys: list[bytes] = []
        await self._in_turns(planning.matching_keys(self._region.replica, patterns, keys), context)
        return keys

    # --- Planning -----------------------------------------------------------------------------

    async def Plan(self, request: pb.PlanRequest, context: Context) -> pb.PlanReply:  # noqa: N802
        await self._admit(context)
        if request.entries_max and not request.only_end:
            await _refuse(context, "entries_max: only with only_end; plan up to that end then")
        replica = self._region.replica
        bounds, numbers = await self._bounds(request, context)
        counts: list[LaneCount] = []
        if request.entries_max or not request.only_end:
            await self._in_turns(planning.count(replica, bounds, counts), context)
        reply = pb.PlanReply()
        end: MutableVersionVector = {}
        if request.only_end:
            most = request.entries_max or U64_MAX
            await self._in_turns(
                planning.end_after(replica, bounds, counts, entries_max=most, into=end), context
            )
        else:
            end = dict(bounds.upto)
            ranges: list[planning.Range] = []
            await self._in_turns(
                planning.cut(counts, bounds, range_entries=request.range_entries, into=ranges),
                context,
            )
            for one in ranges:
                reply.ranges.add(**one._asdict())
        reply.end.CopyFrom(encode_vv(end))
        reply.end_token = self._token(end, {one: numbers[one] for one in end if one in numbers})
        losses: list[planning.Loss] = []
        patterns = list(request.patterns)
        await self._in_turns(
            planning.collect_losses(replica, bounds, patterns, into=losses), context
        )
        await self._must_be_allowed({loss.key for loss in losses}, context, *READS)
        for loss in losses:
            reply.losses.add(**loss._asdict())
        return reply

    async def _bounds(
        self, request: pb.PlanRequest, context: Context
    ) -> tuple[Bounds, Mapping[RegionId, int]]:
        """The bounds of a call, and the incarnations in which their dots are named here."""
        # Before the keys: of a stream that begins between the two everything lies beyond.
        durable: VersionVector = dict(self._durable)
        upto = _Vector(durable, self._region.replica.numbers_of(durable))
        keys = await self._keys(request.patterns, context)
        await self._must_be_allowed(keys, context, *READS)
        above = await self._vector(request.above, request.above_token, "above", context)
        if request.HasField("upto") or request.upto_token:
            upto = await self._vector(request.upto, request.upto_token, "upto", context)
        await self._must_know(above, context)
        await self._must_have(upto, context)
        bounds = Bounds(
            keys,
            above.vv,
            upto.vv,
            frozenset(map(RegionId, request.origins)),
            *_id_bounds(request),
        )
        return bounds, self._region.replica.numbers_of(upto.vv)

    async def _vector(
        self, message: effects_pb2.VersionVector, token: str, what: str, context: Context
    ) -> "_Vector":
        """A version vector of a call: by its token, if there is one."""
        try:
            if token:
                uid = self._region.replica.database_uid
                named = parse_version_vector(token.encode(), uid, what=what)
                return _Vector(*named)
            return _Vector(decode_vv(message), None)
        except BatchError as error:
            await _refuse(context, str(error))
        except CommandError as error:
            await _refuse(context, str(error).removeprefix("ERR "))

    async def _must_have(self, vector: "_Vector", context: Context) -> None:
        """Refuse a call that names effects which are not durable here (yet)."""
        await self._must_know(vector, context)
        durable = self._durable
        if not covers(durable, vector.vv):
            await self._abort_behind(f"was asked for {format_vv(vector.vv)}", context)

    async def _must_know(self, vector: "_Vector", context: Context) -> None:
        """Refuse a call that names effects which exist in no region, and never will.

        And one that names an incarnation which is not known here yet: its dots mean nothing here.
        """
        replica = self._region.replica
        lost = replica.lost_of(*vector)
        if lost:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, told_lost(lost))
        unheard = replica.unheard_of(vector.vv, vector.numbers or {})
        if unheard:
            named = ", ".join(map(str, sorted(unheard)))
            await self._abort_behind(f"has yet to hear in which folder {named} goes on", context)

    async def _abort_behind(self, lacks: str, context: Context) -> None:
        here = f"region {self._region.replica.region} has {format_vv(self._durable) or 'nothing'}"
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"behind: {here} durably, and {lacks}; ask again, or another region",
        )

    # --- Reading ------------------------------------------------------------------------------

    async def Scan(  # noqa: N802
        self, request: pb.ScanRequest, context: Context
    ) -> AsyncIterator[pb.ScanPiece]:
        await self._admit(context)
        region, key, origin = self._region, request.key, RegionId(request.origin)
        await self._must_be_allowed([key], context, *READS)
        asked = encode_vv({origin: request.upto_n} if request.upto_n else {})
        upto = await self._vector(asked, request.upto_token, "upto_token", context)
        if upto.vv != ({origin: request.upto_n} if request.upto_n else {}):
            await _refuse(context, "upto_token: does not say what origin and upto_n do")
        await self._must_have(upto, context)
        upto_n = request.upto_n or self._durable.get(origin, 0)
        within = Within(request.above_n, upto_n, *_id_bounds(request))
        arrow = await self._load_arrow(context)
        yield pb.ScanPiece(
            data=arrow.schema_message(arrow.ENTRIES),
            lost_n=region.replica.keys.lost(key).get(origin, 0),
        )
        while True:
            read = partial(self._scan_step, key, origin, within, {})
            step = await self._unless_unreadable(self._engine.read(read), context)
            if step is None:
                break
            message, last_n = step
            within = replace(within, above_n=last_n)
            for piece in _pieces(message):
                yield piece
        # The loss while it was read.
        yield pb.ScanPiece(lost_n=region.replica.keys.lost(key).get(origin, 0))

    def _scan_step(
        self, key: bytes, origin: RegionId, within: Within, passed: dict[MacroNode, None]
    ) -> tuple[memoryview, int] | None:
        """The next entries as a record batch, and the last one's dot number; None: no more.

        Args:
            passed: the macro nodes that were warmed when it was tried before.
        """
        # Looked up in each step: while the reader was waited for, the lane may have changed, or
        # gone.
        stream = self._region.replica.keys.held_stream(key)
        lane = None if stream is None else stream.lanes.get(origin)
        if lane is None:
            return None
        assert self._arrow is not None
        with self._region.replica.residency.passing(passed):
            slices = lane.slices(
                within,
                entries_max=SCAN_ENTRIES.value,
                bytes_max=SCAN_BYTES.value,
                nodes_max=SCAN_NODES.value,
            )
            if not slices:
                return None
            return self._arrow.entries_message(slices), Columns(slices).last_n

    async def ScanPending(  # noqa: N802
        self, request: pb.ScanPendingRequest, context: Context
    ) -> AsyncIterator[pb.ScanPiece]:
        await self._admit(context)
        keys = await self._keys(request.patterns, context)
        await self._must_be_allowed(keys, context, b"xpending", b"group")
        arrow = await self._load_arrow(context)
        yield pb.ScanPiece(data=arrow.schema_message(arrow.PENDING))
        for at, key in enumerate(keys):
            if at % STEP_KEYS.value == STEP_KEYS.value - 1:
                await asyncio.sleep(0)
            for rows in self._pending_of(key, deliveries_min=request.deliveries_min):
                if rows:
                    for piece in _pieces(arrow.pending_message(rows)):
                        yield piece
                else:
                    await asyncio.sleep(0)

    def _pending_of(
        self, key: bytes, *, deliveries_min: int
    ) -> Iterator[list[tuple[bytes, bytes, Nack]]]:
        """Pending entries of a stream, a step at a time; a step may find none."""
        stream = self._region.replica.keys.held_stream(key)
        if stream is None:
            return
        for name, region in [(name, lane) for name in stream.groups for lane in stream.lanes]:
            above = ID_MIN
            while True:
                # The stream and the group may have gone since the last step.
                stream = self._region.replica.keys.held_stream(key)
                group = None if stream is None else stream.groups.get(name)
                if group is None:
                    break
                nacks = group.pending_in(region, above=above, count=PENDING_ROWS.value)
                if not nacks:
                    break
                above = nacks[-1].id
                yield [(key, name, nack) for nack in nacks if nack.delivery_count >= deliveries_min]

    async def _in_turns(self, steps: Steps, context: Context) -> None:
        """Do the steps, and let others have their turn between them."""
        for images in steps:
            if images:
                await self._unless_unreadable(self._engine.fetch(images), context)
            else:
                await asyncio.sleep(0)

    async def _unless_unreadable(self, reading: Awaitable[T], context: Context) -> T:
        """Await a read from disk; if it fails, end the call with an error."""
        try:
            return await reading
        except UnreadableError as error:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                f"entries cannot be read from disk: {error}; look after the disk, or ask another "
                "region",
            )
            raise AssertionError("abort raises") from error

    async def _load_arrow(self, context: Context) -> ModuleType:
        """The module that makes record batches, imported when the first program asks.

        It ends the call if pyarrow is not installed.
        """
        if self._arrow is None:
            if not is_arrow_installed():
                await context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"region {self._region.replica.region} cannot send entries: {NO_ARROW}, and"
                    " restart the node; or name a node that has it",
                )
            self._arrow = await asyncio.to_thread(import_module, "crdtstream.query.arrow")
        return self._arrow

    # --- Writing ------------------------------------------------------------------------------

    async def Append(  # noqa: N802
        self, request: pb.AppendRequest, context: Context
    ) -> pb.AppendReply:
        await self._admit(context)
        await self._must_be_allowed([request.key], context, b"xadd", b"*", b"field", b"value")
        first = Numbered(request.producer, request.batch, request.first_row)
        try:
            lengths = unpack("I", request.lengths, field="lengths")
            # In a thread, which lets others run every few milliseconds.
            rows = await asyncio.to_thread(checked_rows, first, lengths, request.fields)
        except BatchError as error:
            await _refuse(context, str(error))

        def append(replica: Replica, now: Millis) -> int:
            return append_numbered(replica, now, request.key, first, rows)

        try:
            appended = await self._change(append, context, writes=len(rows), adds=True)
        except StaleBatchError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"stale: {error}")
        return pb.AppendReply(appended=appended, known=len(rows) - appended)

    async def TrimRead(  # noqa: N802
        self, request: pb.TrimReadRequest, context: Context
    ) -> pb.TrimReadReply:
        await self._admit(context)
        await self._must_be_allowed([request.key], context, b"xtrim", b"maxlen", b"0")
        read = await self._read(request, context)

        def trim(replica: Replica, _now: Millis) -> int:
            return trim_read(
                replica,
                request.key,
                read=read,
                before_ms=Millis(request.before_ms),
                nodes_max=TRIM_NODES.value,
            )

        removed = 0
        while count := await self._change(trim, context):
            removed += count
        return pb.TrimReadReply(removed=removed)

    async def PlanTrim(  # noqa: N802
        self, request: pb.TrimReadRequest, context: Context
    ) -> pb.TrimPlan:
        await self._admit(context)
        await self._must_be_allowed([request.key], context, *READS)
        read = await self._read(request, context)
        plan = partial(
            trimmable,
            self._region.replica,
            request.key,
            read=read,
            before_ms=Millis(request.before_ms),
        )
        found = await self._unless_unreadable(self._engine.read(plan), context)
        return pb.TrimPlan() if found is None else pb.TrimPlan(**found._asdict())

    async def _read(self, request: pb.TrimReadRequest, context: Context) -> VersionVector:
        """The version vector that was read.

        A call is refused if these numbers mean other effects here: nothing else may be trimmed.
        """
        read = await self._vector(request.read, request.read_token, "read", context)
        if read.numbers is not None:
            await self._must_know(read, context)
        return read.vv

    async def _change(
        self,
        change: Callable[[Replica, Millis], int],
        context: Context,
        *,
        writes: int = 1,
        adds: bool = False,
    ) -> int:
        """Change the replica; answers once everything seen and done is in the log.

        Raises:
            StaleBatchError: as ``change`` does.
        """
        try:
            return await self._engine.change(change, writes=writes, adds=adds)
        except CommandError as error:
            if error.text == WRONG_TYPE:
                await _refuse(context, "the key holds a string, not a stream")
            # The disk refuses, this region must not issue, or too much of it lags: another one may
            # take it.
            reason = str(error)
        except UnreadableError as error:
            reason = f"entries cannot be read from disk: {error}; look after the disk"
        except OutcomeUnknownError:
            reason = "the disk refused; whether it is written is unknown: ask again, the same"
        await context.abort(grpc.StatusCode.UNAVAILABLE, reason)
        raise AssertionError("abort raises")


class _Vector(NamedTuple):
    """A version vector that a call names.

    Attributes:
        numbers: by region the incarnation in which it is named; None: its program does not know
            incarnations.
        points: by region the effects that it is about, if that is said.
    """

    vv: VersionVector
    numbers: Mapping[RegionId, int] | None
    points: Mapping[RegionId, Point] | None = None


async def _refuse(context: Context, reason: str) -> NoReturn:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
    raise AssertionError("abort raises")


def _pieces(message: memoryview) -> Iterator[pb.ScanPiece]:
    for start in range(0, len(message), PIECE_BYTES.value):
        yield pb.ScanPiece(data=bytes(message[start : start + PIECE_BYTES.value]))


def _id_bounds(request: pb.PlanRequest | pb.ScanRequest) -> tuple[StreamId, StreamId]:
    return (
        decode_id(request.start) if request.HasField("start") else ID_MIN,
        decode_id(request.end) if request.HasField("end") else ID_MAX,
    )


def _described(key: bytes, stream: Stream) -> pb.StreamDescription:
    return pb.StreamDescription(
        key=key,
        entries=stream.length,
        lanes=[
            _lane(lane, lost_n=stream.lost.get(origin, 0))
            for origin, lane in sorted(stream.lanes.items())
        ],
    )


def _lane(lane: Lane, *, lost_n: int) -> pb.LaneDescription:
    described = pb.LaneDescription(origin=lane.region, entries=lane.length, lost_n=lost_n)
    dots = dot_range(lane)
    if dots is not None:
        described.first.CopyFrom(encode_id(lane.first_id))
        described.last.CopyFrom(encode_id(lane.last_id))
        described.first_n, described.last_n = dots
    return described


def _group(
    region: RegionId, name: bytes, group: Group, stream: Stream, *, with_undelivered: bool
) -> pb.GroupDescription:
    return pb.GroupDescription(
        name=name,
        consumers=len(group.consumers),
        pending=group.pending_count,
        undelivered=undelivered_count(region, stream, group) if with_undelivered else 0,
        frontier=[
            effects_pb2.LanePosition(lane=region, id=encode_id(group.frontier(region)))
            for region in sorted(stream.lanes)
        ],
    )
