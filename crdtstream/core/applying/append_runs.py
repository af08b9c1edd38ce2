"""The appends of a batch as runs: stretches of one key, with no other effect in between.

A run is applied at once; a batch, by its runs and the effects between them in turn.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby, pairwise
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
    runs = list(_runs(columns, [offset for offset, _ in batch.others]))
    assert sum(stop - start for _, start, stop in runs) == len(columns.ms), "an append is left out"
    # A delete takes all that its own origin appended before: IDs may begin again behind it.
    deletes = deque(
        (offset - rank, effect.key)
        for rank, (offset, effect) in enumerate(batch.others)
        if isinstance(effect, DeleteKey | ExpireKey)
    )
    last_ids: dict[bytes, StreamId] = {}
    for key, start, stop in runs:
        while deletes and deletes[0][0] <= start:
            last_ids[deletes.popleft()[1]] = ID_MIN
        ms, seq = columns.ms[start:stop], columns.seq[start:stop]
        above = last_ids.get(key)
        if above is None:
            above = lane_end(key, batch.origin)
        if not ascends(ms, seq, above=above):
            raise BatchError(
                f"appends: IDs of {key!r} do not ascend in lane {batch.origin}, "
                f"batch {batch.origin}:{batch.first_n}"
            )
        last_ids[key] = StreamId(ms[-1] << SEQ_BITS | seq[-1])
    return runs


def _runs(columns: AppendColumns, other_offsets: list[int]) -> Iterable[Run]:
    """Stretches of the append columns that share a key and have no other effect between them."""
    # Where another effect stands, counted in appends: its offset less the effects before it.
    cuts = [offset - rank for rank, offset in enumerate(other_offsets)]
    bounds = sorted({0, *cuts, len(columns.ms)})
    if len(columns.keys) == 1:
        (key,) = columns.keys
        for start, stop in pairwise(bounds):
            yield key, start, stop
        return
    for start, stop in pairwise(bounds):
        at = start
        for index, group in groupby(columns.key_index[start:stop]):
            length = sum(1 for _ in group)
            yield columns.keys[index], at, at + length
            at += length
