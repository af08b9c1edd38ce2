"""The inbox of a link: received batches that wait until their causal context is applied.

Bounded: when it is full the link stops reading, so a slow or gapped peer costs no memory here.
A batch may wait for an origin that the link does not carry.  It would block the batches behind it,
so the link asks for that origin too and begins again from its version vector (``rules`` 2).  That
is what ``waiting_for`` and ``discard`` are for.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica


class Inbox:
    """Batches of one link, per origin in order.

    Attributes:
        bytes_waiting: encoded size of what waits.
    """

    __slots__ = ("_batches_max", "_bytes_max", "_queues", "_replica", "bytes_waiting")

    def __init__(self, replica: Replica, *, batches_max: int, bytes_max: int) -> None:
        self._replica = replica
        self._batches_max = batches_max
        self._bytes_max = bytes_max
        self._queues: dict[RegionId, dict[int, tuple[EffectBatch, bytes]]] = {}
        self.bytes_waiting = 0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    @property
    def full(self) -> bool:
        return len(self) >= self._batches_max or self.bytes_waiting >= self._bytes_max

    def offer(self, batch: EffectBatch, encoded: bytes) -> None:
        """Take a batch; one that is applied or waiting already is dropped."""
        if self._replica.is_known(batch):
            return
        queue = self._queues.setdefault(batch.origin, {})
        if batch.first_n not in queue:
            queue[batch.first_n] = (batch, encoded)
            self.bytes_waiting += len(encoded)

    def pop_ready(self) -> list[tuple[EffectBatch, bytes]]:
        """The next batches that can be applied now, at most one per origin; none, then nothing can.

        Apply them, checking ``ready`` before each, and ask again: they may free others.
        """
        ready = []
        for region in sorted(self._queues):
            queue = self._queues[region]
            applied = self._replica.vv.get(region, 0)
            found = queue.get(applied + 1)
            if found is None:
                self._drop_known(queue, applied)
            elif self._replica.ready(found[0]):
                del queue[applied + 1]
                assert found[0].first_n == applied + 1, "it stands under another number"
                self.bytes_waiting -= len(found[1])
                ready.append(found)
        assert self.bytes_waiting >= 0
        return ready

    def _drop_known(self, queue: dict[int, tuple[EffectBatch, bytes]], applied: int) -> None:
        """Forget what another link has brought."""
        for first_n in [n for n, (batch, _) in queue.items() if batch.last_n <= applied]:
            self.bytes_waiting -= len(queue.pop(first_n)[1])
            assert self.bytes_waiting >= 0

    def waiting_for(self) -> set[RegionId]:
        """Origins whose effects must come before anything that waits here can be applied."""
        missing: set[RegionId] = set()
        for region, queue in self._queues.items():
            if not queue:
                continue
            first = queue[min(queue)][0]
            if first.first_n > self._replica.vv.get(region, 0) + 1:
                missing.add(region)
            missing |= _lacking(self._replica.vv, first.context)
        return missing

    def discard(self) -> None:
        """Forget everything that waits."""
        self._queues.clear()
        self.bytes_waiting = 0


def _lacking(vv: VersionVector, context: VersionVector) -> set[RegionId]:
    return {region for region, n in context.items() if n > vv.get(region, 0)}
