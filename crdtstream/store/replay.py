"""Reading a folder back into a replica: its newest checkpoint, and the log behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.effects import record_bytes, replay_us
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.core.wire.codec import BatchError
from crdtstream.store.checkpoints import Checkpoint, Checkpoints
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log

logger = structlog.get_logger(__name__)

REPLAY_BYTES: Final = Size(8 << 20, least=1)


@dataclass(frozen=True, slots=True)
class Recovered:
    """A replica as the folder had it.

    Attributes:
        checkpoint: where it began; None: with the first record of the log.
        records, bytes: of the log that were lived through again.
        replay_us: how long that takes, about.
        merged_seq: the last of them that says that a staged state was merged; 0: none does.
    """

    replica: Replica
    checkpoint: Checkpoint | None
    records: int
    bytes: int
    replay_us: int
    merged_seq: int


@dataclass(slots=True)
class _Replayed:
    """Amount that was replayed."""

    records: int = 0
    bytes: int = 0
    us: int = 0
    merged_seq: int = 0


async def recover(log: Log, checkpoints: Checkpoints, make: Callable[[], Replica]) -> Recovered:
    """Make a replica of what the folder has.

    A checkpoint that is damaged is passed over for the one before it, as long as that one and the
    log behind it are there; then the damaged one is deleted.

    Args:
        make: an empty replica.

    Raises:
        StoreError: a record is damaged, or does not follow the ones before it; or no checkpoint can
            be read, and the log does not begin with its first record any more.
    """
    found = await checkpoints.newest()
    newest = found
    while True:
        replica = make()
        if found is None:
            break
        try:
            if not found.is_verified:
                # The node ended before it had read back what it wrote.
                await checkpoints.verify(found.row.generation)
            await _restore(replica, checkpoints, found)
            break
        except (StoreError, ContentError) as error:
            logger.error(
                "a checkpoint is damaged; the one before it and the log are read",
                generation=found.row.generation,
                reason=str(error),
            )
            found = await checkpoints.newest(before=found.row.generation)
    replica.residency.loader = checkpoints.load
    with replica.residency.in_place():
        first_seq = 1 if found is None else found.row.seq + 1
        replayed = await _replay(log, replica, first_seq)
    # The bytes that were read may still be in the operating system's cache only.
    await log.sync()
    if found is not newest:
        await checkpoints.discard_after(0 if found is None else found.row.generation)
    return Recovered(
        replica, found, replayed.records, replayed.bytes, replayed.us, replayed.merged_seq
    )


async def _restore(replica: Replica, checkpoints: Checkpoints, found: Checkpoint) -> None:
    images = [image async for some in checkpoints.heads(found.row.generation) for image in some]
    replica.restore(images)
    if replica.vv != found.row.vv:
        raise ContentError(f"its images are of {dict(replica.vv)}, its row of {found.row.vv}")


async def _replay(log: Log, replica: Replica, seq: int) -> _Replayed:
    replayed = _Replayed()
    while found := await log.read_from(seq, bytes_max=REPLAY_BYTES.value):
        for logged in found:
            merged_before = replica.merged_count
            try:
                replica.replay(logged.record)
            except ContentError as error:
                raise StoreError(
                    f"row {logged.seq} of the log says that another region's state was merged, and "
                    f"what is staged of it is damaged: {error}. Start this region again from a "
                    "backup, or with an empty folder; the other regions have its effects"
                ) from error
            except BatchError as error:
                raise StoreError(
                    f"row {logged.seq} of the log does not follow the rows before it: {error}. "
                    "Start this region again from a backup, or empty under a new region id"
                ) from error
            replayed.records += 1
            replayed.bytes += record_bytes(logged.record)
            replayed.us += replay_us(logged.record)
            if replica.merged_count != merged_before:
                replayed.merged_seq = logged.seq
        seq = found[-1].seq + 1
    return replayed
