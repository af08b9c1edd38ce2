"""One checkpoint of a replica that nobody writes to meanwhile."""

from crdtstream.core.ids import Millis
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.replica import Replica
from crdtstream.store.checkpoints import CheckpointRow
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints


async def write_checkpoint(
    replica: Replica, log: SqliteLog, checkpoints: SqliteCheckpoints, now: Millis
) -> int:
    """Write one that has all rows of the log; returns its generation."""
    generation = await checkpoints.begin()
    cut = replica.cut()
    nodes: list[tuple[MacroNode, int]] = []
    while (taken := cut.take()) is not None:
        part, image = taken
        await checkpoints.put([image])
        if isinstance(part, MacroNode):
            nodes.append((part, image.number))
    row = CheckpointRow(generation, log.last_seq, dict(replica.vv), replica.images_made, now)
    await checkpoints.commit(row, list(filter(None, cut.replaced())))
    await checkpoints.verify(generation)
    cut.finish()
    for node, number in nodes:
        replica.residency.note_saved(node, number)
    await checkpoints.forget_before(generation)
    return generation
