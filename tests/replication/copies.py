"""A region whose state is copied over a real connection, and one that gets it."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.region.bootstrap import CopyProgress
from crdtstream.region.tick import Tick
from crdtstream.replication.bootstrap_client import copy
from crdtstream.replication.bootstrap_server import BootstrapService
from crdtstream.replication.bootstrap_wire import CopyAsked
from crdtstream.store.checkpoints import CheckpointRow, Checkpoints
from crdtstream.store.log import Fsync, MemoryLog
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.sqlite_staging import SqliteStaging
from crdtstream.store.staging import StagedCut, StagedImage, Staging
from crdtstream.v1 import bootstrap_pb2_grpc as rpc
from tests.conftest import free_base_port
from tests.harness.driven import UID
from tests.replication.regions import LiveRegion
from tests.store import stagings

# The region that gets the state, and the one that sends it.
HERE, PEER = RegionId(1), stagings.SOURCE
IMAGE_BYTES_MAX = 1 << 20


class Sender:
    """A region that can be asked for its state.

    Attributes:
        log, checkpoints: of its folder.
        service: which it is asked by.
        region: in whose name; it has no links.
        address: where.
    """

    def __init__(self, folder: Path, address: str, *, peers: int = 1) -> None:
        self.folder = folder
        self.address = address
        where = dict.fromkeys((PEER, HERE, *range(3, 2 + peers)), address)
        self.region = LiveRegion(PEER, where, log=MemoryLog())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Sender"]:
        """Its folder is open, and it answers; at the end it is killed."""
        self.log = await SqliteLog.open(
            self.folder, region=PEER, database_id="crdb", fsync=Fsync.NO
        )
        try:
            self.checkpoints = await SqliteCheckpoints.open(self.log)
            await self.region.begin()
            self.service = BootstrapService(
                self.region.engine,
                self.checkpoints,
                database_id="crdb",
                image_bytes_max=IMAGE_BYTES_MAX,
            )
            async with served(self.service, self.address) as self.server:
                yield self
        finally:
            await self.log.abandon()

    async def write(self, numbers: Sequence[int], dropped: Sequence[int] = ()) -> int:
        """A verified checkpoint, the ones before it forgotten; returns its generation."""
        return await write(self.checkpoints, numbers, dropped)


async def write(checkpoints: Checkpoints, numbers: Sequence[int], dropped: Sequence[int]) -> int:
    generation = await checkpoints.begin()
    await checkpoints.put([stagings.image(number) for number in numbers])
    vv: VersionVector = {PEER: 40 + generation, RegionId(3): 7}
    await checkpoints.commit(CheckpointRow(generation, 0, vv, numbers[-1], 5), dropped)
    await checkpoints.verify(generation)
    await checkpoints.forget_before(generation)
    return generation


@contextlib.asynccontextmanager
async def served(service: rpc.BootstrapServicer, address: str) -> AsyncIterator[grpc.aio.Server]:
    server = grpc.aio.server(
        options=(
            ("grpc.so_reuseport", 0),
            ("grpc.max_send_message_length", 64 << 20),
        )
    )
    rpc.add_BootstrapServicer_to_server(service, server)
    server.add_insecure_port(address)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace=0)


def address() -> str:
    return f"127.0.0.1:{free_base_port(1) + 1}"


def asked(**differs: object) -> CopyAsked:
    fields: dict[str, object] = {
        "region": HERE,
        "database_id": "crdb",
        "uid": UID,
        "run_id": 7,
        "vv": {},
    }
    return CopyAsked(**(fields | differs))  # type: ignore[arg-type]


async def copied(
    where: str,
    staging: Staging,
    *,
    progress: CopyProgress | None = None,
    asks: CopyAsked | None = None,
) -> StagedCut:
    """Get the state."""
    return await copy(
        PEER,
        where,
        staging,
        asks or asked(),
        hear=lambda *_: None,
        progress=progress or CopyProgress(Tick()),
        image_bytes_max=IMAGE_BYTES_MAX,
        silence_ms_max=1_000,
    )


class Watched:
    """A staging that calls something before each ``put``; else as the one that it has."""

    def __init__(self, staging: Staging) -> None:
        self.staging = staging
        self.puts: list[list[int]] = []

    async def before_put(self) -> None:
        """For tests."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.staging, name)

    async def put(self, images: Sequence[StagedImage]) -> None:
        await self.before_put()
        await self.staging.put(images)
        self.puts.append([image.number for image in images])


@contextlib.asynccontextmanager
async def staging_in(folder: Path) -> AsyncIterator[SqliteStaging]:
    folder.mkdir(exist_ok=True)
    staging = await SqliteStaging.open(folder)
    try:
        yield staging
    finally:
        await staging.close()
