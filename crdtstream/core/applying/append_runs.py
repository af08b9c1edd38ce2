"""The appends of a batch as runs: stretches of one key, with no other effect in between.

A run is applied at once; a batch, by its runs and the effects between them in turn.
"""

import operator
from collections import deque
from collections.abc import Callable
from itertools import compress, islice, pairwise
from typing import TypeAlias

from crdtstream.core.effects import AppendColumns, DeleteKey, EffectBatch, ExpireKey
from crdtstream.core.ids import ID_MIN, SEQ_BITS, RegionId, StreamId
from crdtstream.core.lanes.lane import ascends
from crdtstream.core.wire.codec import BatchError

# A key, and where its run begins and ends in the columns.
Run: TypeAlias = tuple[bytes, int, int]


def checked_runs(batch: EffectBatch, lane_end: Callable[[bytes, RegionId], StreamId]) -> list[Run]:
    """The batch's runs, in order.

    Args:
        lane_end: the last ID of a key's lane as it is, before the batch.

    Raises:
        BatchError: the IDs do not ascend in a lane.
    """
    columns = batch.appends
    if not columns.ms:
        return []
    runs = _runs(columns, [offset for offset, _ in batch.others])
    assert sum(stop - start for _, start, stop in runs) == len(columns.ms), "an append is left out"
    # A delete takes all that its own origin appended before: IDs may begin again behind it.
    deletes = deque(
        (offset - rank, effect.key)
        for rank, (offset, effect) in enumerate(batch.others)
        if isinstance(effect, DeleteKey | ExpireKey)
    )
    last_ids: dict[bytes, StreamId] = {}
    ms, seq, origin = columns.ms, columns.seq, batch.origin
    for key, start, stop in runs:
        while deletes and deletes[0][0] <= start:
            last_ids[deletes.popleft()[1]] = ID_MIN
        above = last_ids.get(key)
        if above is None:
            above = lane_end(key, origin)
        last_id = StreamId(ms[stop - 1] << SEQ_BITS | seq[stop - 1])
        # Of many streams most runs are one entry.
        if last_id <= above or (
            stop - start > 1 and not ascends(ms[start:stop], seq[start:stop], above=above)
        ):
            raise BatchError(
                f"appends: IDs of {key!r} do not ascend in lane {origin}, "
                f"batch {origin}:{batch.first_n}"
            )
        last_ids[key] = last_id
    return runs


def _runs(columns: AppendColumns, other_offsets: list[int]) -> list[Run]:
    """Stretches of the append columns that share a key and have no other effect between them."""
    # Where another effect stands, counted in appends: its offset less the effects before it.
    cuts = {offset - rank for rank, offset in enumerate(other_offsets)}
    keys, index = columns.keys, columns.key_index
    if len(keys) > 1:
        differ = map(operator.ne, index, islice(index, 1, None))
        cuts.update(compress(range(1, len(index)), differ))
    bounds = sorted(cuts | {0, len(index)})
    return [(keys[index[start]], start, stop) for start, stop in pairwise(bounds)]
