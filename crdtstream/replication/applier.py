"""Applying what all links bring: one task, so that batches that free each other meet.

Each link has an inbox of its own (``rules`` 2).  The applier takes from all of them whatever can
be applied, a few milliseconds at a time, so that clients are served between.  It rests while the
disk refuses or cannot keep up: what is applied must be logged.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis, Region
from crdtstream.core.inbox import Inbox
from crdtstream.core.wire.codec import BatchError
from crdtstream.engine import Engine
from crdtstream.region.links.stats import PullStats

# How long clients wait at most for a run of remote batches; a single batch may take longer.
RUN_SECONDS: Final = 0.004


@dataclass(slots=True, eq=False)
class Arrivals:
    """What one link has brought.

    Attributes:
        progressed: set when a run leaves the inbox with room.
        acknowledge: called when something that came by this link has become durable.
        reject: called with what is wrong with a batch that cannot be applied.
        waits_since: since when its first batch cannot be applied; None while nothing waits.
    """

    peer: Region
    inbox: Inbox
    stats: PullStats
    acknowledge: Callable[[], None]
    reject: Callable[[str], None]
    progressed: asyncio.Event = field(default_factory=asyncio.Event)
    waits_since: Millis | None = None


class Applier:
    """Takes from the inboxes of all links."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._arrivals: list[Arrivals] = []
        self._wake = asyncio.Event()
        self._logged = asyncio.Event()
        engine.on_logged.append(self._logged.set)

    def add(self, arrivals: Arrivals) -> None:
        self._arrivals.append(arrivals)

    def wake(self) -> None:
        """Something was put into an inbox."""
        self._wake.set()

    async def run(self) -> None:
        """Apply for as long as the node lives."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._apply_run():
                # Let others have the loop; the tick ends there too.
                await asyncio.sleep(0)
                await self._rest()

    async def _rest(self) -> None:
        """Wait until the disk takes more; a commit that succeeds is the sign."""
        while self._engine.fault is not None or self._engine.congested:
            self._logged.clear()
            await self._logged.wait()

    @property
    def waiting(self) -> tuple[int, int]:
        """How many batches wait in all inboxes, and their bytes."""
        inboxes = [arrivals.inbox for arrivals in self._arrivals]
        return sum(map(len, inboxes)), sum(inbox.bytes_waiting for inbox in inboxes)

    def _apply_run(self) -> bool:
        """Apply until time is up or nothing can be applied; returns whether there may be more."""
        deadline = time.perf_counter() + RUN_SECONDS
        applied: list[tuple[Arrivals, EffectBatch]] = []
        is_last = False
        while not is_last and time.perf_counter() < deadline:
            before = len(applied)
            for arrivals in self._arrivals:
                self._apply_ready(arrivals, applied)
            is_last = len(applied) == before
        if applied:
            self._engine.settle()
            self._engine.defer(lambda ok: self._note_durable(applied, ok=ok))
        now = self._engine.now()
        for arrivals in self._arrivals:
            if not arrivals.inbox.full:
                arrivals.progressed.set()
            if not len(arrivals.inbox):
                arrivals.waits_since = None
            elif arrivals.waits_since is None or any(one is arrivals for one, _ in applied):
                arrivals.waits_since = now
        return not is_last

    def _apply_ready(self, arrivals: Arrivals, applied: list[tuple[Arrivals, EffectBatch]]) -> None:
        for batch, encoded in arrivals.inbox.pop_ready():
            # Another link may have brought the same batch a moment ago.
            if not self._engine.replica.ready(batch):
                continue
            try:
                self._engine.apply(batch, encoded)
            except BatchError as error:
                arrivals.inbox.discard()
                arrivals.reject(f"batch {batch.origin}:{batch.first_n}: {error}")
                return
            applied.append((arrivals, batch))

    def _note_durable(self, applied: list[tuple[Arrivals, EffectBatch]], *, ok: bool) -> None:
        now = self._engine.now()
        links = set()
        for arrivals, batch in applied:
            arrivals.stats.lag.note(now - batch.issued_ms)
            links.add(arrivals)
        if ok:
            for arrivals in links:
                arrivals.acknowledge()
