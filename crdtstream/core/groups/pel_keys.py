"""Keys: the IDs of a chunk of the PEL in 64 bits each.

    key     63            32 31             0
            ms - base_ms     sequence

A chunk has one ``base_ms`` for all its keys.  They reach 24 days back and 24 days on from the
chunk's first ID, and have no room for sequences of more than 32 bits.  Where that is not enough for
every ID of a chunk, its ``base_ms`` is None, and the keys are the IDs themselves, as Python's
integers.  Either way keys ascend as their IDs do.
"""

from array import array
from collections.abc import MutableSequence, Sequence
from functools import reduce
from operator import or_
from typing import Final

from crdtstream.core.id_columns import FEW, LOW_HALF, IdColumns, Ids
from crdtstream.core.ids import SEQ_BITS, U64_MAX, StreamId, format_id

KEY_SEQ_BITS: Final = 32
KEY_SEQ_END: Final = 1 << KEY_SEQ_BITS
_KEY_SEQ_MASK: Final = KEY_SEQ_END - 1
_ID_TEXT: Final = b"%d-%d"
# Of an ID: what of the sequence does not fit into a key.
_TOO_HIGH_SEQ: Final = U64_MAX - _KEY_SEQ_MASK
# How far keys reach in both directions from the first ID of a chunk: 24 days.
REACH_MS: Final = 1 << 31


def base_for(lowest: StreamId) -> int:
    """The ``base_ms`` of a chunk that begins with this ID."""
    return max(0, (lowest >> SEQ_BITS) - REACH_MS)


def fit(ids: Ids, base_ms: int | None) -> bool:
    """True if these IDs, which ascend, have keys."""
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
    """Key of an ID; -1, which is no key, if it has none."""
    if base_ms is None:
        return entry_id
    seq = entry_id & U64_MAX
    if seq >= KEY_SEQ_END:
        return -1
    return (entry_id >> SEQ_BITS) - base_ms << KEY_SEQ_BITS | seq


def texts_of(keys: Sequence[int], base_ms: int | None) -> list[bytes]:
    """The IDs of some keys, as clients see them."""
    if base_ms is None or len(keys) < FEW.value:
        return [format_id(id_of(key, base_ms)) for key in keys]
    halves = array("I", array("Q", keys).tobytes())
    ms = map(base_ms.__add__, halves[1 - LOW_HALF :: 2])
    # A step in C for each.
    return list(map(_ID_TEXT.__mod__, zip(ms, halves[LOW_HALF::2], strict=True)))


def keys_of(ids: Ids, base_ms: int | None) -> MutableSequence[int]:
    """The keys of IDs that have some, as a column."""
    if base_ms is None:
        return list(ids)
    # Below the base a key would borrow from the one before it; see ``IdColumns.joined``.
    assert ids[0] >> SEQ_BITS >= base_ms, "an ID is too old for this chunk"
    assert (ids[-1] >> SEQ_BITS) - base_ms < 2 * REACH_MS, "an ID is too new for this chunk"
    if isinstance(ids, IdColumns):
        return ids.joined(base_ms)
    return array(
        "Q",
        [(entry_id >> SEQ_BITS) - base_ms << KEY_SEQ_BITS | entry_id & U64_MAX for entry_id in ids],
    )
