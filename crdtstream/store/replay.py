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
    """

    replica: Replica
    checkpoint: Checkpoint | None
    records: int
    bytes: int
    replay_us: int


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
        records, size, took_us = await _replay(log, replica, first_seq)
    # What was read back may still lie in the operating system's cache only.
    await log.sync()
    if found is not newest:
        await checkpoints.discard_after(0 if found is None else found.row.generation)
    return Recovered(replica, found, records, size, took_us)


async def replay_log(log: Log, replica: Replica) -> None:
    """Rebuild a replica from a log that was never cut.

    Raises:
        StoreError: a record is damaged, or does not follow the ones before it.
    """
    await _replay(log, replica, 1)
    await log.sync()


async def _restore(replica: Replica, checkpoints: Checkpoints, found: Checkpoint) -> None:
    images = [image async for some in checkpoints.heads(found.row.generation) for image in some]
    replica.restore(images)
    if replica.vv != found.row.vv:
        raise ContentError(f"its images are of {dict(replica.vv)}, its row of {found.row.vv}")


async def _replay(log: Log, replica: Replica, seq: int) -> tuple[int, int, int]:
    """Returns how many records there were, their bytes, and about how long they took."""
    first_seq, size, took_us = seq, 0, 0
    while found := await log.read_from(seq, bytes_max=REPLAY_BYTES.value):
        for logged in found:
            try:
                replica.replay(logged.record)
            except BatchError as error:
                raise StoreError(
                    f"row {logged.seq} of the log does not follow the rows before it: {error}. "
                    "Start this region again from a backup, or empty under a new region id"
                ) from error
            size += record_bytes(logged.record)
            took_us += replay_us(logged.record)
        seq = found[-1].seq + 1
    return seq - first_seq, size, took_us
