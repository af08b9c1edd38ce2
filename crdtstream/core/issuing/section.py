"""The open section of a tick: what this region issued and noted since the last seal.

    effects   issue ──> batch    ┐
                                 ├── seal ──> Record: one row of the log
    changes   note  ──> changes  ┘

A local change is kept with the number of effects that had been issued before it, so replaying the
record applies it in its place.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import IdempotentId, LocalChange, Record, Remove
from crdtstream.core.histories import Histories, hash_of
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.issuing.open_batch import OpenBatch
from crdtstream.core.wire.codec import encode_batch
from crdtstream.core.wire.local_codec import Local, encode_local


class OpenSection:
    """See the module's text.

    Attributes:
        batch: the effects; another object after each seal.
        changes: the local changes, each with the number of effects issued before it.
    """

    __slots__ = ("_appended", "batch", "changes")

    def __init__(self, first_n: int) -> None:
        """A section whose first effect will have the number ``first_n``."""
        self.batch = OpenBatch(first_n)
        self.changes: list[tuple[int, LocalChange]] = []
        # When the idempotent appends of the batch were made, so that windows live through the same
        # when the record is replayed.
        self._appended: list[Millis] = []

    def append(
        self,
        key: bytes,
        entry_id: StreamId,
        fields: bytes,
        idempotent: IdempotentId,
        now: Millis,
    ) -> None:
        """Add an append with an idempotent id, made now."""
        self.batch.append(key, entry_id, fields, idempotent)
        self._appended.append(now)

    def note(self, change: LocalChange, *, after_n: int) -> None:
        """Add a local change, made when ``after_n`` effects had been issued."""
        assert after_n == self.batch.first_n + self.batch.count - 1, "replay puts it elsewhere"
        self.changes.append((after_n, change))

    def takes_in(self, effect: Remove) -> bool:
        """True if a Remove may become part of the last effect: ``OpenBatch`` allows it, and no
        local change stands between them.  On replay that change would come behind both."""
        batch = self.batch
        if not batch.takes_in(effect):
            return False
        return not self.changes or self.changes[-1][0] < batch.first_n + batch.count - 1

    def seal(
        self, region: RegionId, context: VersionVector, now: Millis, histories: Histories
    ) -> Record:
        """The record of what there is; the next section begins behind it."""
        first_n, count = self.batch.first_n, self.batch.count
        # I3: the record holds every effect that was issued since the last one.
        assert first_n + count - 1 == context.get(region, 0)
        batch = None
        if count:
            follows = histories.hash_at_end(region, first_n - 1)
            batch = encode_batch(self.batch.close(region, context, now, follows=follows))
            assert len(self._appended) <= count
            histories.note(region, first_n + count - 1, hash_of(batch))
        local = None
        if self.changes or self._appended:
            local = encode_local(Local(self.changes, appended=self._appended))
        self.begin(first_n + count)
        return Record(region, first_n, first_n + count - 1, batch, local)

    def begin(self, first_n: int) -> None:
        """Begin again, with nothing."""
        self.batch = OpenBatch(first_n)
        self.changes = []
        self._appended = []
