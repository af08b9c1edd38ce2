"""Flush: deletes all keys that a region has observed, in slices; the others get the deletes.

    walk over the keys ──> a slice of a turn ──> its deletes are in the log ──┐
          ^                                                                   │
          └───────────────────────────────────────────────────────────────────┘
    at the end: wait until every active region durably has them

Between two slices clients have their turn.  Each key is deleted as DEL does it: concurrent appends
of other regions stay, groups are deleted.  A key that clients write here during the flush is
deleted or stays.  A flush keeps no state: a second one deletes what is left.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

import structlog

from crdtstream.commands.keys.deleting import flush_key, read_for_deletes
from crdtstream.commands.reply import CommandError
from crdtstream.core.comparing import BUCKETS, keys_between
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.cold import ColdError, UnreadableError
from crdtstream.core.replica import Replica
from crdtstream.core.size import Seconds, Size
from crdtstream.engine.engine import Engine
from crdtstream.engine.programs import OutcomeUnknownError
from crdtstream.engine.turns import Turn
from crdtstream.v1 import admin_pb2 as pb

logger = structlog.get_logger(__name__)

# Of one slice, if its turn is not over before.
KEYS_MAX: Final = Size(1_024, least=1)
# As long as a client's turn: each slice waits for its commit, so short slices would take hours.
TURN_NS: Final = 5_000_000
# Time between two reports of progress, and two looks at what the others have.
TELLS_EVERY_SECONDS: Final = Seconds(0.2, least=0.001)
# Time until a slice that a bound on the replication lag refused is tried again.
REFUSED_SECONDS: Final = Seconds(0.05, least=0.001)
LAGGED: Final = "LAGGED "


def _turn() -> Turn:
    return Turn(ns=TURN_NS)


class FlushError(Exception):
    """Not all keys are deleted; the text says why, and what to do.

    Attributes:
        is_unknown: the last keys may be deleted or not.
    """

    def __init__(self, text: str, *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


class Flushing:
    """One flush, by one region."""

    def __init__(
        self,
        engine: Engine,
        *,
        seconds: float,
        make_turn: Callable[[], Turn] = _turn,
    ) -> None:
        """
        Args:
            seconds: how long the others may take, and a slice may be refused; 0: the others are
                not waited for.
        """
        self._engine = engine
        self._region = engine.region
        self._replica = engine.region.replica
        self._seconds = seconds
        self._make_turn = make_turn
        self._keys = self._entries = 0
        self._walk = _walk(self._replica)
        # A key of the walk that waits for entries that are on disk.
        self._cold_key: bytes | None = None
        self._is_at_end = False

    async def counted(self) -> pb.FlushReply:
        """The keys and entries to delete."""
        turn = self._make_turn()
        for key in self._walk:
            if key is not None:
                self._count(key)
            if turn.is_over():
                await asyncio.sleep(0)
                turn = self._make_turn()
        return pb.FlushReply(keys=self._keys, entries=self._entries, is_last=True)

    async def run(self) -> AsyncGenerator[pb.FlushReply, None]:
        """Delete the keys, and yield the progress; the last reply has the result.

        Raises:
            FlushError: not all keys are deleted.
        """
        loop = asyncio.get_running_loop()
        tells_at = loop.time()
        logger.warning("all keys are deleted: crdb flush", region=self._replica.region)
        while not self._is_at_end:
            await self._delete_slice()
            if loop.time() >= tells_at:
                tells_at = loop.time() + TELLS_EVERY_SECONDS.value
                yield self._reply()
        upto = self._replica.issued
        until = loop.time() + self._seconds
        lacks = self._lacks(upto)
        while lacks and loop.time() < until:
            yield self._reply(is_deleted=True, lacks=lacks)
            await asyncio.sleep(TELLS_EVERY_SECONDS.value)
            lacks = self._lacks(upto)
        logger.warning("all keys are deleted", keys=self._keys, entries=self._entries)
        yield self._reply(is_deleted=True, is_last=True, lacks=lacks)

    async def _delete_slice(self) -> None:
        """
        Raises:
            FlushError: writes are refused, or the outcome is unknown.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        # More at once than the bound on what lags would never be taken.
        bound = self._region.staleness.lag_effects_max or KEYS_MAX.value
        at_most = min(KEYS_MAX.value, bound)
        while True:
            try:
                await self._engine.change(self._slice(at_most), writes=at_most)
                return
            except CommandError as error:
                if error.text.startswith(LAGGED) and loop.time() < until:
                    await asyncio.sleep(REFUSED_SECONDS.value)
                    continue
                raise FlushError(self._so_far(error.text)) from error
            except UnreadableError as error:
                reason = f"entries cannot be read from disk: {error}; look after the disk"
                raise FlushError(self._so_far(reason)) from error
            except OutcomeUnknownError as error:
                reason = "the disk refused: whether the last ones are deleted is unknown"
                raise FlushError(self._so_far(reason), is_unknown=True) from error

    def _slice(self, at_most: int) -> Callable[[Replica, Millis], None]:
        """A change that deletes the next keys, as many as fit in a turn.

        It reads entries only to measure what was acknowledged: all of a key is observed where it
        is, and is deleted as a whole.
        """

        def delete(replica: Replica, _now: Millis) -> None:
            turn = self._make_turn()
            has_changed = False
            for _ in range(at_most):
                key, self._cold_key = self._cold_key, None
                if key is None:
                    try:
                        key = next(self._walk)
                    except StopIteration:
                        self._is_at_end = True
                        return
                if key is not None:
                    try:
                        read_for_deletes(replica, [key])
                    except ColdError:
                        # The next slice begins with it: only one that has changed nothing waits.
                        self._cold_key = key
                        if has_changed:
                            return
                        raise
                    has_changed = True
                    self._count(key)
                    flush_key(replica, key)
                if turn.is_over():
                    return

        return delete

    def _count(self, key: bytes) -> None:
        """Count a key if clients can see it."""
        stream = self._replica.stream(key)
        if stream is not None or self._replica.keys.string(key) is not None:
            self._keys += 1
        if stream is not None:
            self._entries += stream.length

    def _so_far(self, reason: str) -> str:
        return f"{reason}. {self._keys} keys are deleted, others are left: run this again"

    def _lacks(self, upto: int) -> list[pb.FlushLack]:
        """Regions that durably lack some of this region's first ``upto`` effects, and how many."""
        if not self._seconds:
            return []
        here = self._replica.region
        durable = self._region.outstanding.durable_vv
        has = {**self._region.knowledge.others_have(), here: durable.get(here, 0)}
        return [
            pb.FlushLack(region=region, effects=upto - count)
            for region, count in sorted(has.items())
            if count < upto
        ]

    def _reply(
        self,
        *,
        is_deleted: bool = False,
        is_last: bool = False,
        lacks: list[pb.FlushLack] | None = None,
    ) -> pb.FlushReply:
        return pb.FlushReply(
            keys=self._keys,
            entries=self._entries,
            is_deleted=is_deleted,
            is_last=is_last,
            lacks=lacks,
        )


def _walk(replica: Replica) -> Iterator[bytes | None]:
    """Every key of which something is kept, once or twice; None: none is found yet."""
    yield from keys_between(replica.keys, 0, BUCKETS - 1)
    # Of those that have expired only their floor may be left.
    yield from replica.floor_keys()
