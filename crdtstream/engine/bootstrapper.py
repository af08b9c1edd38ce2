"""The bootstrapper: takes over another region's state when this one cannot catch up by logs.

    wanted ─> copy ─> check ─> the log says what it lacks ─> merge ─> a checkpoint ─> discard
              │ into the staging                             └ one record of the log

The region decides when and from which peer (``region/bootstrap.py``), and changes in one step.  The
record says that the staged state was merged, and a restart replays it with what is staged.  So
before its commit the folder is as it was, and after it the merge is done.  Once a checkpoint has
what came of the merge, the staging is removed.

A failure leaves what was there.  A copy goes on where it ended, as long as its sender keeps the
cut; otherwise it begins again.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Merged
from crdtstream.core.histories import HistoryError, check_same
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.member_changes import MembersError
from crdtstream.core.membership.members import joined
from crdtstream.core.merge.merging import Merging
from crdtstream.core.merge.sent import sent_histories, sent_members
from crdtstream.core.size import Seconds
from crdtstream.engine.checkpointer import Ticks
from crdtstream.engine.turns import Turn, until_beat
from crdtstream.region.bootstrap import Phase
from crdtstream.region.links.errors import PeerError
from crdtstream.region.region import Region
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints
from crdtstream.store.log import Log
from crdtstream.store.staging import StagedCut, Staging

logger = structlog.get_logger(__name__)

# Interval at which it looks whether a state is wanted, or a checkpoint has what was merged; and the
# same while nothing lacks here.
LOOK_SECONDS: Final = Seconds(0.25, least=0.001)
QUIET_SECONDS: Final = Seconds(1.0, least=0.001)


class Copy(Protocol):
    """Copies the state of a peer into the staging."""

    async def __call__(self, source: RegionId, staging: Staging) -> None:
        """Return when all is staged; what an earlier call staged is continued if possible.

        Raises:
            PeerError: the peer refuses, disconnects, or sends something that cannot be used.
            StoreError: this region's disk refuses.
        """


class Bootstrapper:
    """See the module's text."""

    def __init__(
        self,
        region: Region,
        log: Log,
        staging: Staging,
        ticks: Ticks,
        copy: Copy,
        *,
        now: Callable[[], Millis],
        timer_ns: Callable[[], int] = time.perf_counter_ns,
        pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
        failpoints: Failpoints = NO_FAILPOINTS,
    ) -> None:
        """A bootstrapper of a region.

        Args:
            timer_ns: returns a time in nanoseconds, to measure turns.
            pause: returns control to the event loop between two turns.
        """
        self._region = region
        self._log = log
        self._staging = staging
        self._ticks = ticks
        self._copy = copy
        self._now = now
        self._timer_ns = timer_ns
        self._pause = pause
        self._failpoints = failpoints

    async def run(self) -> None:
        """Look at intervals, until it is cancelled."""
        while True:
            await self.look()
            is_quiet = self._region.is_level
            await until_beat(QUIET_SECONDS.value if is_quiet else LOOK_SECONDS.value)

    async def begin(self, merged_seq: int) -> None:
        """Continue with what the process before this one left.

        Args:
            merged_seq: the record that says that the staged state was merged, if it was replayed;
                else 0.

        Raises:
            StoreError: the disk refuses.
        """
        found = self._staging.staged()
        if merged_seq:
            self._region.bootstrap.note_merged(merged_seq)
            self._region.bootstrap.source = None if found is None else found[0].source
            self._region.checkpointing.want()
            return
        # A complete state may have what a peer has lost since: it is unknown which regions the
        # process before this one has answered.  For a copy that goes on, the sender is still what
        # it was.
        if self._staging.is_complete or (
            found is not None and not self._region.bootstrap.is_of_use(_merged(found[0]))
        ):
            await self._staging.discard()

    async def look(self) -> None:
        """Do what is due."""
        region = self._region
        bootstrap = region.bootstrap
        if bootstrap.phase is Phase.SAVING:
            await self._end_if_saved()
            return
        if bootstrap.phase is not Phase.IDLE or bootstrap.is_lent or region.fault is not None:
            return
        if self._staging.is_complete:
            await self._merge()
            return
        source = region.bootstrap_wanted(self._now())
        if source is not None:
            await self._take_over(source)

    async def _take_over(self, source: RegionId) -> None:
        bootstrap = self._region.bootstrap
        bootstrap.note_begun(source, self._now(), is_new=self._staging.staged() is None)
        try:
            await self._copy(source, self._staging)
        except (PeerError, StoreError) as error:
            bootstrap.note_failed(str(error), self._now())
            return
        except BaseException:
            bootstrap.note_failed("it was broken off", self._now())
            raise
        await self._merge()

    async def _merge(self) -> None:
        """Merge what is staged, all of it and durable."""
        found = self._staging.staged()
        assert found is not None
        region, cut = self._region, found[0]
        if cut.key is not None:
            # One key, of a repair that ended before it could drop the staging: not a region's
            # state.
            await self._staging.discard()
            return
        bootstrap = region.bootstrap
        bootstrap.note_staged(cut.source, cut.vv)
        self._failpoints.reach("bootstrap.staged")
        merging = await self._prepared(cut)
        if merging is None:
            return
        # From here on in one turn of the loop, to the end of the tick.
        region.merge(merging, self._now())
        seq = self._ticks.end_tick()
        bootstrap.note_merged(seq)
        self._failpoints.reach("bootstrap.merged")
        await self._ticks.wait_logged(seq)
        self._failpoints.reach("bootstrap.logged")
        region.checkpointing.want()

    async def _prepared(self, cut: StagedCut) -> Merging | None:
        """All of the merge that can be done before its result is visible; None: it failed."""
        region, merged = self._region, _merged(cut)
        bootstrap = region.bootstrap
        try:
            if not bootstrap.is_of_use(merged):
                await self._staging.discard()
                bootstrap.note_failed("all of it had come by links", self._now())
                return None
            check_same(region.replica.histories, sent_histories(self._staging.root()))
            merging = region.replica.merging(merged)
            with contextlib.ExitStack() as undoing:
                undoing.callback(merging.give_up)
                await self._go_through(merging)
                # Before the log says that it lacks them: if they are lost, their dots may be used
                # again, and then no other region has them.
                if await self._is_lost(merged):
                    return None
                await self._log.note_lacks(lacks_of_log(region.replica.vv, merged.vv))
                region.log.note_beginning(self._log.first_seq, self._log.begins)
                if not region.numbering.is_kept:
                    # An incarnation may be of effects that this state has; the state is merged
                    # later.
                    waits = "the folder has yet to have what was heard of incarnations"
                    bootstrap.note_failed(waits, self._now())
                    return None
                # A peer may have begun to recover in the meantime.
                if await self._is_lost(merged):
                    return None
                # Known members may be ahead of the members whose effects have come.
                joined(region.membership.members.newest, sent_members(self._staging.root()))
                self._failpoints.reach("bootstrap.merge")
                undoing.pop_all()
        except HistoryError as error:
            await self._staging.discard()
            reason = region.compared.note_apart(cut.source, error.difference)
            bootstrap.note_failed(reason, self._now())
            return None
        except (ContentError, MembersError, StoreError, UnreadableError) as error:
            await self._discard_if_bad(error)
            bootstrap.note_failed(str(error), self._now())
            return None
        return merging

    async def _is_lost(self, merged: Merged) -> bool:
        """True if a region may have lost effects of the state, or numbered them in a folder that
        does not count: then the state is dropped."""
        region = self._region
        issuing = None if region.opening.is_recovering else region.replica.region
        lost_by = region.bootstrap.lost_by(merged, issuing)
        reason = region.numbering.wrong_state(merged.vv)
        if lost_by is not None:
            reason = f"region {lost_by} may have lost effects that this state has"
        if reason is None:
            return False
        await self._staging.discard()
        region.bootstrap.note_failed(reason, self._now())
        return True

    async def _go_through(self, merging: Merging) -> None:
        """Read all images, in turns; clients are served between them.

        Raises:
            ContentError: an image has impossible content; the text names it.
            StoreError: the staging cannot be read.
            UnreadableError: an entry that is on disk cannot be read, here or in the staging.
        """
        turn = Turn(self._timer_ns)
        while merging.go_on():
            if turn.is_over():
                await self._pause()
                turn = Turn(self._timer_ns)

    async def _discard_if_bad(self, error: Exception) -> None:
        """Discard a state that cannot be merged: more tries would change nothing."""
        if not isinstance(error, StoreError | UnreadableError):
            await self._staging.discard()

    async def _end_if_saved(self) -> None:
        region = self._region
        if region.checkpointing.seq < region.bootstrap.saved_seq:
            region.checkpointing.want_an_end()
            return
        self._failpoints.reach("bootstrap.saved")
        try:
            await self._staging.discard()
        except StoreError as error:
            logger.error("what was staged cannot be deleted; it is tried again", reason=str(error))
            return
        region.bootstrap.note_saved()


def lacks_of_log(here: VersionVector, there: VersionVector) -> VersionVector:
    """Ends of the effects that the log will lack once a state is merged, by origin.

    They are of the origins of which the state has more; what this region has more is in its log.
    """
    return {origin: n for origin, n in there.items() if n > here.get(origin, 0)}


def _merged(cut: StagedCut) -> Merged:
    return Merged(cut.id, cut.source, cut.vv)
