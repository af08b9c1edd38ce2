"""From a folder to an engine: the region is made of the last checkpoint and the log after it."""

import asyncio
import dataclasses
import gc
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.engine.assembling import assemble
from crdtstream.engine.engine import Engine
from crdtstream.engine.folder import begin_database, begin_joining, read_folder
from crdtstream.engine.turns import Turn
from crdtstream.machine.heap import give_back_memory
from crdtstream.machine.inputs import random_uid, uniform
from crdtstream.node.errors import NodeError
from crdtstream.node.joining import Joined, note_joined
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.opening import FolderState
from crdtstream.region.runtime import Runtime
from crdtstream.resp.commands.server.memory import resident_bytes
from crdtstream.resp.wire.encode import encode
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import Limits
from crdtstream.store.failpoints import Failpoints, parse_failpoint
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.sqlite_staging import SqliteStaging
from crdtstream.store.staging import staged_state

logger = structlog.get_logger(__name__)

# Entries are long-lived: a collection finds next to nothing, and takes as long as the objects that
# it looks at are many.  With these thresholds it looks at each new object once or twice: at 1,250
# new ones, and every other time at those before too.  So the longest looks at 2,500 objects, for a
# millisecond or two, and one in 50 million new ones looks at all there are.
GC_THRESHOLDS: Final = (1_250, 0, 20_000)


@dataclass(frozen=True, slots=True)
class Folder:
    """The open files of a node's folder."""

    log: SqliteLog
    checkpoints: SqliteCheckpoints
    staging: SqliteStaging

    @property
    def disk_bytes(self) -> int:
        """Size of the files."""
        return self.log.bytes_on_disk() + self.staging.bytes_on_disk()


class ProcessMemory:
    """Memory that the process has by itself, without what it keeps of streams.

    It is measured before the folder is read, after it, and when all is served.

    Attributes:
        base_bytes: of the process by itself.
    """

    __slots__ = ("_read_bytes", "base_bytes")

    def __init__(self) -> None:
        self.base_bytes = resident_bytes()
        self._read_bytes = 0

    def note_read(self) -> None:
        """The folder was read: the state is what came since the beginning."""
        self._read_bytes = resident_bytes() - self.base_bytes

    def note_serving(self) -> None:
        """All parts are there: what is not the state that was read belongs to the process."""
        self.base_bytes = max(self.base_bytes, resident_bytes() - self._read_bytes)


@dataclass(frozen=True, slots=True)
class Recovered:
    """An engine that has begun with what its folder held.

    Attributes:
        merged_seq: the record that says that the staged state was merged, if it was replayed; 0
            otherwise.
    """

    engine: Engine
    folder: Folder
    memory: ProcessMemory
    merged_seq: int


async def recover(
    settings: NodeSettings,
    folder: Folder,
    *,
    now: Callable[[], Millis],
    begins_database: bool,
    joined: Joined | None,
) -> Recovered:
    """Read the folder, and begin with what it holds.

    Args:
        now: milliseconds since 1970, by the node's clock.
        begins_database: the folder is empty, and a new database begins with it.
        joined: content for the folder of a node that joins; None: it joined before.

    Raises:
        StoreError: the folder cannot be used.
    """
    # Memory that only the imports needed would count as the node's own for good.
    await asyncio.to_thread(give_back_memory)
    memory, log = ProcessMemory(), folder.log
    assembled = await assemble(
        log,
        folder.checkpoints,
        await _state_of(settings, log, begins_database=begins_database, joined=joined),
        partial(_new_replica, settings, folder.staging),
        identity=Identity(RegionId(settings.region), settings.database_id, secrets.randbits(63)),
        configured=peers_of(settings),
        limits=_region_limits(settings.limits),
        runtime=Runtime(
            now=now,
            encode=encode,
            clock=time.perf_counter_ns,
            uniform=uniform,
            make_uid=random_uid,
        ),
    )
    region, recovered = assembled.region, assembled.recovered
    memory.note_read()
    residency = recovered.replica.residency
    region.room.memory.evict = lambda size: residency.evict(size, Turn().is_over)
    region.room.memory.has_more = lambda: residency.may_leave
    fsync = Fsync(settings.appendfsync)
    engine = Engine(region, log, fsync=fsync, now=now, images=folder.checkpoints)
    await engine.begin()
    # The state that was just read lives as long as the node: no collection should walk over it.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    logger.info(
        "log read",
        region=settings.region,
        rows=recovered.records,
        checkpoint=None if recovered.checkpoint is None else recovered.checkpoint.row.seq,
        keys=len(recovered.replica),
    )
    return Recovered(engine, folder, memory, recovered.merged_seq)


async def _state_of(
    settings: NodeSettings, log: SqliteLog, *, begins_database: bool, joined: Joined | None
) -> FolderState:
    if begins_database:
        return await begin_database(log, random_uid)
    if joined is not None:
        found = await begin_joining(log, joined.database_uid, joined.kept)
        note_joined(settings.dir)
        return found
    return await read_folder(log, is_proven=log.is_proven, is_same=log.is_same)


def _new_replica(
    settings: NodeSettings, staging: SqliteStaging, peers: Iterable[RegionId]
) -> Replica:
    replica = Replica(
        RegionId(settings.region),
        node_entries_max=settings.stream_node_max_entries,
        node_bytes_max=settings.stream_node_max_bytes,
        peers=peers,
    )
    replica.keys.idmp_duration_s = settings.stream_idmp_duration
    replica.keys.idmp_maxsize = settings.stream_idmp_maxsize
    replica.staged = partial(staged_state, staging)
    return replica


def peers_of(settings: NodeSettings) -> dict[RegionId, str]:
    """Addresses of the other regions that the settings name."""
    return {RegionId(peer.region): peer.address for peer in settings.peers}


def failpoints_of(settings: NodeSettings) -> Failpoints:
    """The failpoint of a drill, for one part of the node.

    Raises:
        NodeError: the settings name none that exists.
    """
    try:
        return parse_failpoint(settings.drill.failpoint)
    except ValueError as error:
        raise NodeError(f"drill.failpoint: {error}") from error


def _region_limits(limits: Limits) -> RegionLimits:
    names = [one.name for one in dataclasses.fields(RegionLimits)]
    return RegionLimits(**{name: getattr(limits, name) for name in names})
