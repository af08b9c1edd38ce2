"""Reading a log back into a replica."""

from typing import Final

from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import BatchError
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log

REPLAY_BYTES: Final = 8 << 20


async def replay_log(log: Log, replica: Replica) -> None:
    """Rebuild a replica from its log.

    Raises:
        StoreError: a record is damaged, or does not follow the ones before it.
    """
    assert not replica.vv
    seq = 1
    while found := await log.read_from(seq, bytes_max=REPLAY_BYTES):
        for logged in found:
            try:
                replica.replay(logged.record)
            except BatchError as error:
                raise StoreError(
                    f"row {logged.seq} of the log does not follow the rows before it: {error}. "
                    "Start this region again from a backup, or empty under a new region id"
                ) from error
        seq = found[-1].seq + 1
    # What was read back may still lie in the operating system's cache only.
    await log.sync()
