"""The batch that a region is filling: columns that grow effect by effect."""

from array import array
from collections.abc import Sequence
from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import (
    AppendColumns,
    EffectBatch,
    IdempotentId,
    Numbered,
    NumberedRun,
    RareEffect,
    Remove,
    SetString,
)
from crdtstream.core.id_columns import IdColumns
from crdtstream.core.ids import SEQ_BITS, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.size import Size

# What an append takes beside its fields: key index, the halves of the ID, length.
COLUMN_BYTES: Final = 4 + 8 + 8 + 4
# IDs of a lane up to which a Remove takes in what comes behind it.
REMOVE_IDS_MAX: Final = Size(1024, least=1)


class OpenBatch:
    """Effects of this region since the last seal.

    Attributes:
        count: effects so far.
        value_bytes: what the appends take, without idempotent ids, and the values of strings.
        others: effects that are no appends, each with the number of effects before it.
    """

    __slots__ = (
        "_fields",
        "_growing",
        "_idempotent",
        "_key_index",
        "_keys",
        "_lengths",
        "_ms",
        "_numbered",
        "_seq",
        "count",
        "first_n",
        "others",
        "value_bytes",
    )

    def __init__(self, first_n: int) -> None:
        self.first_n = first_n
        self.count = 0
        self.value_bytes = 0
        self._keys: dict[bytes, int] = {}
        self._key_index = array("I")
        self._ms = array("Q")
        self._seq = array("Q")
        self._lengths = array("I")
        self._fields: list[bytes | memoryview] = []
        self.others: list[tuple[int, RareEffect]] = []
        # The IDs of the last effect, if it is a Remove that has taken in another one.
        self._growing: dict[RegionId, IdColumns] | None = None
        self._idempotent: dict[int, IdempotentId] = {}
        self._numbered: list[NumberedRun] = []

    def append(
        self, key: bytes, entry_id: StreamId, fields: bytes, idempotent: IdempotentId | None
    ) -> None:
        if idempotent is not None:
            self._idempotent[len(self._ms)] = idempotent
        self.append_halves(key, entry_id >> SEQ_BITS, entry_id & U64_MAX, fields)

    def append_halves(self, key: bytes, ms: int, seq: int, fields: bytes) -> None:
        """An append under the ID that has these halves."""
        keys = self._keys
        index = keys.get(key)
        if index is None:
            keys[key] = index = len(keys)
        self._key_index.append(index)
        self._ms.append(ms)
        self._seq.append(seq)
        self._lengths.append(len(fields))
        self._fields.append(fields)
        self.value_bytes += len(fields) + COLUMN_BYTES
        self.count += 1

    def _index_of(self, key: bytes) -> int:
        keys = self._keys
        index = keys.get(key)
        if index is None:
            keys[key] = index = len(keys)
        return index

    def append_run(self, key: bytes, run: EntryRun) -> None:
        """Appends to one key."""
        self._key_index += array("I", [self._index_of(key)]) * len(run.ms)
        self._add_columns(run)

    def append_mixed(self, keys: Sequence[bytes], run: EntryRun) -> None:
        """As ``append_run``, each to a key of its own."""
        assert len(keys) == len(run.ms)
        known = self._keys
        for key in keys:
            if key not in known:
                known[key] = len(known)
        self._key_index.extend([known[key] for key in keys])
        self._add_columns(run)

    def append_rows(self, key: bytes, run: EntryRun, first: Numbered) -> None:
        """As ``append_run``, of rows of a numbered producer."""
        self._numbered.append(NumberedRun(len(self._ms), len(run.ms), first))
        self.append_run(key, run)

    def _add_columns(self, run: EntryRun) -> None:
        assert len(run.ms) == len(run.seq) == len(run.lengths)
        self._ms += run.ms
        self._seq += run.seq
        self._lengths += run.lengths
        self._fields.append(run.fields)
        self.value_bytes += len(run.fields) + COLUMN_BYTES * len(run.ms)
        self.count += len(run.ms)

    def add(self, effect: RareEffect) -> None:
        if isinstance(effect, SetString):
            self.value_bytes += len(effect.key) + len(effect.value)
        assert not self.others or self.others[-1][0] < self.count, "offsets ascend"
        self._growing = None
        self.others.append((self.count, effect))
        self.count += 1

    def takes_in(self, effect: Remove) -> bool:
        """True if a Remove may become part of the last effect, as if one command had named all IDs.

        Both have observed the same, as nothing lies between them: the last effect is a plain Remove
        of the same key, and the new IDs follow its own.
        """
        if not self.others or effect.with_references or effect.trims:
            return False
        at, last = self.others[-1]
        if at != self.count - 1 or not isinstance(last, Remove) or last.key != effect.key:
            return False
        if last.with_references or last.trims:
            return False
        for lane, ids in effect.ids.items():
            before = last.ids.get(lane)
            if before is not None and (
                ids[0] <= before[-1] or len(before) + len(ids) > REMOVE_IDS_MAX.value
            ):
                return False
        return True

    def take_in(self, effect: Remove) -> None:
        """Make it part of the last effect, which ``takes_in`` it."""
        growing = self._growing
        if growing is None:
            at, last = self.others[-1]
            assert at == self.count - 1, "something was issued in between"
            assert isinstance(last, Remove)
            # Copies: they grow in place, and the maker of the effects has those IDs too.
            growing = self._growing = {lane: IdColumns.of(ids) for lane, ids in last.ids.items()}
            self.others[-1] = at, Remove(last.key, growing)
        for lane, ids in effect.ids.items():
            columns = growing.get(lane)
            if columns is None:
                growing[lane] = IdColumns.of(ids)
            else:
                columns.ms.extend([entry_id >> SEQ_BITS for entry_id in ids])
                columns.seq.extend([entry_id & U64_MAX for entry_id in ids])

    def close(
        self, origin: RegionId, context: VersionVector, now: Millis, *, follows: int = 0
    ) -> EffectBatch:
        """The batch, under the context of other origins that all its effects share."""
        assert self.count == len(self._ms) + len(self.others)
        assert len(self._key_index) == len(self._lengths) == len(self._ms)
        return EffectBatch(
            origin=origin,
            first_n=self.first_n,
            count=self.count,
            context={region: n for region, n in context.items() if region != origin},
            issued_ms=now,
            appends=AppendColumns(
                list(self._keys),
                self._key_index,
                self._ms,
                self._seq,
                self._lengths,
                b"".join(self._fields),
                self._idempotent,
                self._numbered,
            ),
            others=self.others,
            follows=follows,
        )
