"""The checkpointer: writes what changed, in the background, and cuts the log behind it.

    due ─> compact ─> cut ─> take, put … ─> commit ─> verify ─> forget ─> cut the log
             a slice of the loop's time each ┘    └ once the log durably has what the cut has

Writers continue all the time: a cut costs nothing, and each turn here takes a fraction of a
millisecond of the event loop.  Compression, checksums and the disk are work of the store's thread.

A failure leaves the checkpoint before it, and the log behind that one, as they were: the parts are
written with the next checkpoint, which is tried with growing pauses.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final, Protocol, TypeVar

from crdtstream.core.checkpoint.parts import NO_IMAGE, Cut, Image
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.size import Seconds, Size
from crdtstream.engine.backoff import Backoff
from crdtstream.engine.log_cutting import CUT_RECORDS_MIN, cut_log
from crdtstream.engine.turns import Turn, next_beat
from crdtstream.region.checkpointing import LATE
from crdtstream.region.region import Region
from crdtstream.store.checkpoints import CheckpointRow, Checkpoints
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log

T = TypeVar("T")

# Size of one ``put``, before it is packed.  Each put begins pages that the next one writes again to
# fill them, so with small puts everything would be written several times.
PUT_BYTES: Final = Size(1 << 20, least=1)
# Pause after a put while others write, as a multiple of the time that the put took.
PAUSE_PER_PUT: Final = Size(2, least=0)
PAUSE_SECONDS_MAX: Final = Seconds(0.25, least=0)
RETRY_SECONDS_FIRST: Final = Seconds(1.0, least=0.001)
RETRY_SECONDS_MAX: Final = Seconds(60.0, least=0.001)

# Interval at which it looks whether a checkpoint is due, or the log may be cut.
LOOK_SECONDS: Final = Seconds(1.0, least=0.01)

_HEAD_OF: Final = attrgetter("head")


class Ticks(Protocol):
    """Operations of the engine that the checkpointer uses."""

    def end_tick(self) -> int:
        """End the open tick; return the position of the last record that exists then."""

    async def wait_logged(self, seq: int) -> None:
        """Return when the log has everything up to this position."""


@dataclass(slots=True)
class CheckpointerStats:
    """Counts of the checkpointer since it was made.

    Attributes:
        parts, bytes: written in all.
    """

    parts: int = 0
    bytes: int = 0


class Checkpointer:
    """See the module's text; ``region/checkpointing.py`` says when one is due.

    Attributes:
        backoff: time before the next attempt at one.
    """

    def __init__(
        self,
        region: Region,
        log: Log,
        checkpoints: Checkpoints,
        ticks: Ticks,
        *,
        now: Callable[[], Millis],
        timer_ns: Callable[[], int] = time.perf_counter_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Checkpoints of a region.

        Args:
            timer_ns: returns a time in nanoseconds, to measure turns.
            sleep: waits for some seconds.
        """
        self.stats = CheckpointerStats()
        self._region = region
        self._replica = region.replica
        self._log = log
        self._checkpoints = checkpoints
        self._ticks = ticks
        self._now = now
        self._timer_ns = timer_ns
        self._sleep = sleep
        # The generation that is committed, and not known to be readable.
        self._unsound: int | None = None
        self.backoff = Backoff(RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX)
        # Reason why the log could not be cut when that was tried last.
        self._uncut_reason = ""
        self._asked = asyncio.Event()
        region.checkpointing.on_wanted = self._asked.set
        region.checkpointing.is_supported = True

    # --- When ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Make checkpoints, and cut the log behind them, until it is cancelled."""
        while True:
            if self.is_due():
                await self.attempt()
                if self.backoff.seconds:
                    await asyncio.sleep(self.backoff.seconds)
                    continue
            await self.cut_log()
            # Work that is due by time, and members that leave or return, need no better clock.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_beat(LOOK_SECONDS.value)):
                    await self._asked.wait()
            self._asked.clear()

    async def attempt(self) -> None:
        """Write a checkpoint; if the disk refuses, another is due after a backoff."""
        try:
            await self.checkpoint()
        except StoreError as error:
            self.backoff.note_failed()
            self._region.checkpointing.note_failed(str(error))
        else:
            self.backoff.end()

    def is_due(self) -> bool:
        """True if a checkpoint is to begin now."""
        checkpointing = self._region.checkpointing
        return checkpointing.is_due(
            self._now(), seq=self._log.last_seq, grown_bytes=checkpointing.grown_bytes
        )

    # --- One checkpoint -----------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Write a checkpoint of the state as it is now, and forget the ones before it.

        Raises:
            StoreError: the disk refused; the checkpoint before it counts.
        """
        checkpoints, checkpointing = self._checkpoints, self._region.checkpointing
        checkpointing.note_begun(self._now())
        await self._discard_unsound()
        await self._compact()
        generation = await checkpoints.begin()
        seq = self._ticks.end_tick()
        grown_bytes, grown_us = checkpointing.grown_bytes, checkpointing.grown_us
        vv, made_ms = dict(self._replica.vv), self._now()
        cut = self._replica.cut()
        try:
            saved = await self._put(cut)
            await self._ticks.wait_logged(seq)
            row = CheckpointRow(generation, seq, vv, self._replica.images_made, made_ms)
            replaced = self._in_turns(cut.replaced())
            await checkpoints.commit(row, [one async for one in replaced if one != NO_IMAGE])
            self._unsound = generation
            await checkpoints.verify(generation)
        except BaseException:
            cut.abandon()
            raise
        self._unsound = None
        cut.finish()
        checkpointing.grown_bytes -= grown_bytes
        checkpointing.grown_us -= grown_us
        residency = self._replica.residency
        async for node, image in self._in_turns(iter(saved)):
            residency.note_saved(node, image)
        await checkpoints.forget_before(generation)
        self._region.retention.note_covered(seq)
        sizes = await checkpoints.sizes()
        checkpointing.note_written(seq, self._now(), size_bytes=sizes.images)

    async def _discard_unsound(self) -> None:
        """Take back a checkpoint that was committed and could not be read back.

        Its parts have still to be written, so the next one builds on the one before it.
        """
        if self._unsound is not None:
            await self._checkpoints.discard_after(self._unsound - 1)
            self._unsound = None

    async def _compact(self) -> None:
        """Join the macro nodes that are small by now, a slice at a time."""
        compaction = self._replica.compaction()
        while True:
            turn = Turn(self._timer_ns)
            is_done = compaction.go_on(turn.is_over)
            self._note_turn(turn)
            if is_done:
                return
            await asyncio.sleep(0)

    async def _put(self, cut: Cut) -> list[tuple[MacroNode, int]]:
        """Write the images of all that the cut has; return the macro nodes among them."""
        saved: list[tuple[MacroNode, int]] = []
        while True:
            began_ns, logged_seq = self._timer_ns(), self._log.last_seq
            images = await self._gather(cut, saved)
            if not images:
                return saved
            packed = await self._checkpoints.put(images)
            self._note_put(images, saved)
            if self._log.last_seq != logged_seq:
                # Something writes: it gets the disk and the processor for two thirds of the time.
                took_s = (self._timer_ns() - began_ns) / 1e9
                await self._sleep(
                    0
                    if self._hurries
                    else min(PAUSE_SECONDS_MAX.value, took_s * PAUSE_PER_PUT.value)
                )
            self.stats.parts += len(images)
            self.stats.bytes += sum(map(len, packed)) + sum(map(len, map(_HEAD_OF, images)))

    @property
    def _hurries(self) -> bool:
        """True if writers wait for the memory that this one frees, or the log outgrows it."""
        return self._region.checkpointing.is_late or self._region.memory.is_scarce

    async def _gather(self, cut: Cut, saved: list[tuple[MacroNode, int]]) -> list[Image]:
        """Images for one ``put``, gathered in turns; empty only when nothing is left."""
        images: list[Image] = []
        size = 0
        residency = self._replica.residency
        while size < PUT_BYTES.value:
            turn = Turn(self._timer_ns)
            # Staged bodies are read in place: they are small, and lie side by side.
            with residency.in_place():
                some, taken = cut.take_some(PUT_BYTES.value - size, turn.is_over)
            size += taken
            for part, image in some:
                images.append(image)
                if isinstance(part, MacroNode):
                    saved.append((part, image.number))
                    if image.is_packed:
                        residency.pin(image.number)
            self._note_turn(turn)
            if not some:
                break
            await asyncio.sleep(0)
        return images

    def _note_put(self, images: Sequence[Image], saved: Sequence[tuple[MacroNode, int]]) -> None:
        """Note that bodies which came from the staging can be read from their new place."""
        if not any(image.is_packed for image in images):
            return
        for node, number in saved[-len(images) :]:
            self._replica.residency.note_written(node, number)

    async def _in_turns(self, values: Iterator[T]) -> AsyncIterator[T]:
        """Iterate over all values, and return control to the event loop after each turn."""
        turn = Turn(self._timer_ns)
        for value in values:
            yield value
            if turn.is_over():
                self._note_turn(turn)
                await asyncio.sleep(0)
                turn = Turn(self._timer_ns)
        self._note_turn(turn)

    def _note_turn(self, turn: Turn) -> None:
        checkpointing = self._region.checkpointing
        checkpointing.longest_turn_us = max(checkpointing.longest_turn_us, turn.us)

    # --- The log ------------------------------------------------------------------------------

    async def cut_log(self, *, records_min: int = CUT_RECORDS_MIN) -> None:
        """Cut records off the log that are not needed any more.

        Args:
            records_min: a smaller number is not cut.
        """
        cut = partial(self._checkpoints.cut_log, spare_bytes=self._spare_bytes)
        try:
            await cut_log(self._region, self._log, cut, self._now(), records_min=records_min)
        except StoreError as error:
            # It is tried each second, and logged once.
            if str(error) != self._uncut_reason:
                self._uncut_reason = str(error)
                self._region.tick.notice(
                    "error", "the log cannot be cut; it is tried again", reason=str(error)
                )
        else:
            self._uncut_reason = ""

    @property
    def _spare_bytes(self) -> int:
        """Free space in the file that is worth keeping: what the log takes until the next cut.

        To free it, what stands behind it would be written once more, twice.
        """
        region = self._region
        return 0 if region.room.disk.maxdisk else LATE.value * region.checkpointing.log_bytes
