"""Keys: the IDs of a chunk of the PEL in 64 bits each.

    key     63            32 31             0
            ms - base_ms     sequence

A chunk has one ``base_ms`` for all its keys.  They reach 24 days back and 24 days on from the
chunk's first ID, and have no room for sequences of more than 32 bits.  Where that is not enough for
every ID of a chunk, its ``base_ms`` is None, and the keys are the IDs themselves, as Python's
integers.  Either way keys ascend as their IDs do.
"""

from array import array
from collections.abc import MutableSequence
from functools import reduce
from operator import or_
from sys import byteorder
from typing import Final

from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import SEQ_BITS, U64_MAX, StreamId

KEY_SEQ_BITS: Final = 32
KEY_SEQ_END: Final = 1 << KEY_SEQ_BITS
_KEY_SEQ_MASK: Final = KEY_SEQ_END - 1
# Of an ID: what of the sequence does not fit into a key.
_TOO_HIGH_SEQ: Final = U64_MAX - _KEY_SEQ_MASK
# How far keys reach in both directions from the first ID of a chunk: 24 days.
REACH_MS: Final = 1 << 31


def base_for(lowest: StreamId) -> int:
    """The ``base_ms`` of a chunk that begins with this ID."""
    return max(0, (lowest >> SEQ_BITS) - REACH_MS)


def fit(ids: Ids, base_ms: int | None) -> bool:
    """Whether there are keys for these IDs, which ascend."""
    if base_ms is None:
        return True
    if isinstance(ids, IdColumns):
        first_ms, last_ms = ids.ms[0], ids.ms[-1]
        return (
            base_ms <= first_ms and last_ms - base_ms < 2 * REACH_MS and max(ids.seq) < KEY_SEQ_END
        )
    lowest, highest = ids[0] >> SEQ_BITS, ids[-1] >> SEQ_BITS
    if lowest < base_ms or highest - base_ms >= 2 * REACH_MS:
        return False
    return not reduce(or_, ids) & _TOO_HIGH_SEQ


def id_of(key: int, base_ms: int | None) -> StreamId:
    """The ID that has this key; of a damaged image's key it may be above ID_MAX."""
    if base_ms is None:
        return StreamId(key)
    return StreamId((key >> KEY_SEQ_BITS) + base_ms << SEQ_BITS | key & _KEY_SEQ_MASK)


def key_of(entry_id: StreamId, base_ms: int | None) -> int:
    """Its key; what no key is, if it has none."""
    if base_ms is None:
        return entry_id
    seq = entry_id & U64_MAX
    if seq >= KEY_SEQ_END:
        return -1
    return (entry_id >> SEQ_BITS) - base_ms << KEY_SEQ_BITS | seq


def keys_of(ids: Ids, base_ms: int | None) -> MutableSequence[int]:
    """The keys of IDs that have some, as a column."""
    if base_ms is None:
        return list(ids)
    if isinstance(ids, IdColumns):
        return _keys_of_columns(ids, base_ms)
    return array(
        "Q",
        [(entry_id >> SEQ_BITS) - base_ms << KEY_SEQ_BITS | entry_id & U64_MAX for entry_id in ids],
    )


def _keys_of_columns(ids: IdColumns, base_ms: int) -> "array[int]":
    """The keys of IDs that have some, all in a few operations on whole columns.

    A column is taken as one long number, of 64 bits for each ID.  Subtracting and shifting such
    numbers does so with each of their parts, as no part borrows from another one or flows over
    into it: no time is below the base, and less than 32 bits remain of each.
    """
    ms = int.from_bytes(ids.ms, byteorder)
    base = int.from_bytes(array("Q", [base_ms]) * len(ids), byteorder)
    seq = int.from_bytes(ids.seq, byteorder)
    keys = array("Q")
    keys.frombytes(((ms - base << KEY_SEQ_BITS) + seq).to_bytes(8 * len(ids), byteorder))
    return keys
