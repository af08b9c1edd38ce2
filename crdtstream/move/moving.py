"""The order of the steps of a move.

    begin       survey both ends; refuse, or record the keys at the target
    copy        the entries of all streams, several streams at a time
    follow      the same again and again, while producers write to the source
    cut over    [fence] -> survey -> finish each stream -> strings -> check,
                and repair what differs, round by round

To finish a stream: copy the rest, delete what the source deleted meanwhile, then groups, then
counters, then the deadline.  Each step finds out what is left to do from the ends themselves.

Always so: nothing is deleted at the target but in keys of the record, and no entry above the
source's last-generated ID: this move cannot have added it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeVar

from crdtstream.core.ids import format_id
from crdtstream.move.checking import StreamCheck, check_rest, check_stream, compared_entries
from crdtstream.move.connection import TooLargeError, millis, together
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError, OvertakenError
from crdtstream.move.fence import Unfenced, lower_fence, raise_fence, unfenced
from crdtstream.move.gone import (
    ADVICE,
    Gone,
    check_gone,
    delete_gone,
    gone_at_source,
    has_restarted,
    may_have_lost_entries,
    run_id_of,
)
from crdtstream.move.groups import bring_groups
from crdtstream.move.pages import id_of, named, shown
from crdtstream.move.records import FENCE, RUN_ID, STREAM, STRING, Record
from crdtstream.move.streams import (
    LEVEL,
    Lag,
    StreamFacts,
    copy_entries,
    delete_entries,
    facts_of,
    lags_of,
    set_last_id,
    trim_to_source,
)
from crdtstream.move.strings import (
    bring_deadlines,
    bring_strings,
    differing_strings,
    expired_of,
    expiries_of,
    portions,
)
from crdtstream.move.survey import Selection, Survey, check_ends, check_may_begin, survey

Result = TypeVar("Result")

STREAMS_AT_ONCE: Final = 4
# A pipeline of a broken connection ends within moments.
OVERTAKEN_MAX: Final = 50
OVERTAKEN_SECONDS: Final = 0.1
# Between two passes in which nothing came.
IDLE_SECONDS: Final = 0.2
SAID_EVERY_SECONDS: Final = 5.0
# Streams that are created while a move follows.
SURVEYED_EVERY_SECONDS: Final = 30.0
# Close enough to cut over: a pass that brings no more, as does the last one then.  Not a time: a
# pass over many streams takes long, even if they have nothing new.
LEVEL_ENTRIES: Final = 5_000
# Streams whose facts are asked for in one pipeline; less if their entries are large.
LOOKED_AT_ONCE: Final = 50
# Entries of other regions arrive late, with lower IDs; while a move follows a region it waits for
# them.  One that is later still makes its stream be copied again at the cut-over.
SETTLED_MS: Final = 5_000
ENTRIES: Final = "entries"
CHECKED: Final = "entries compared"


class Watcher(Protocol):
    """The place to which a move reports."""

    def show(self, what: str, done: int, total: int) -> None:
        """So much of a piece of work is done."""

    def say(self, text: str) -> None:
        """A line for people."""


@dataclass(slots=True)
class Outcome:
    """Outcome of a cut-over.

    Attributes:
        streams: one check for each stream, by key.
        strings: how many were compared.
        differing_strings: their keys.
        written_meanwhile: streams that changed at the source during the cut-over; keys that came
            or went.
        expired: keys that came to their deadline during the cut-over; they are in no other number
            but that of the strings.
        deleted: entries that were deleted at the target, because the source has deleted them.
        deleted_keys: the same of keys.
        left: by type the keys that stay behind.
        fenced: the source refuses writes, and goes on to; what it had before.
        record_left: the record that could not be deleted at the target, and why; empty: it was.
    """

    streams: list[StreamCheck] = field(default_factory=list)
    strings: int = 0
    differing_strings: list[bytes] = field(default_factory=list)
    written_meanwhile: list[bytes] = field(default_factory=list)
    expired: int = 0
    deleted: int = 0
    deleted_keys: int = 0
    left: Counter[bytes] = field(default_factory=Counter)
    fenced: Unfenced | None = None
    record_left: str = ""

    @property
    def is_equal(self) -> bool:
        return not (
            any(one.differences for one in self.streams)
            or self.differing_strings
            or self.written_meanwhile
        )

    def forgive(self, expired: Collection[bytes]) -> None:
        """Leave out keys that came to their deadline during the cut-over: they are gone."""
        self.expired = len(expired)
        self.streams = [one for one in self.streams if one.key not in expired]
        self.differing_strings = [key for key in self.differing_strings if key not in expired]
        self.written_meanwhile = [key for key in self.written_meanwhile if key not in expired]


class Move:
    """One run of a move."""

    def __init__(self, ends: Ends, selection: Selection, watcher: Watcher) -> None:
        self._ends = ends
        self._selection = selection
        self._watcher = watcher
        self._record = Record(ends)
        self._found = Survey()
        self._done = 0
        self._total = 0
        self._deleted = 0
        self._deleted_keys = 0
        # By stream, how many entries the source had ever got when the target last had them all.
        self._added: dict[bytes, int] = {}
        self._looked_at_once = LOOKED_AT_ONCE

    # --- Begin and copy -------------------------------------------------------------------------

    async def begin(self) -> None:
        """
        Raises:
            MoveError: there is a reason not to begin; nothing has changed.
        """
        await self._ends.greet()
        await check_ends(self._ends)
        await self._record.read()
        await self._survey()

    async def _survey(self) -> None:
        """Find keys of the source that are new, and record them."""
        found = await survey(self._ends, self._selection)
        earlier = await check_may_begin(self._ends, found, self._selection, self._record)
        other = [
            key for key, kind in found.kinds.items() if self._record.kinds.get(key, kind) != kind
        ]
        if RUN_ID not in self._record.notes:
            run_id = await self._ends.work(lambda pair: run_id_of(pair.source))
            await self._record.note(RUN_ID, run_id)
        # It was a string and is a stream now, or the reverse.
        if other and not self._selection.delete_gone:
            await self._check_same_run(other)
        await self._in_portions(_delete, other)
        await self._record.add(found.kinds, earlier)
        self._found = found

    async def _check_same_run(self, keys: list[bytes]) -> None:
        """See that a source at which keys have another type has not lost the earlier ones.

        Raises:
            MoveError: it has been started again since the move began.
        """
        run_id = await self._ends.work(lambda pair: run_id_of(pair.source))
        if has_restarted(self._record.notes[RUN_ID], run_id):
            raise MoveError(
                f"{self._ends.source.name} has restarted since the move began, and has keys of"
                f" another type than the target: {named(keys)}. Restore the source; or, if those"
                f" at the target may go, {ADVICE}"
            )

    async def copy(self) -> None:
        """Bring the entries that the target lacks."""
        await self._count()
        await self._each(lambda key: self._copy_stream(key, b"+"), self._found.of(STREAM))

    async def _count(self) -> None:
        keys = self._found.of(STREAM)
        source, target = await self._ends.work(lambda pair: _lengths(pair, keys))
        self._done, self._total = min(source, target), source
        self._watcher.show(ENTRIES, self._done, self._total)

    def _brought(self, entries: int) -> None:
        self._ends.progressed()
        self._done += entries
        self._total = max(self._total, self._done)
        self._watcher.show(ENTRIES, self._done, self._total)

    async def _copy_stream(self, key: bytes, end: bytes) -> None:
        for _ in range(OVERTAKEN_MAX):
            try:
                await self._ends.work(
                    lambda pair: copy_entries(pair, key, brought=self._brought, end=end)
                )
            except OvertakenError:
                await asyncio.sleep(OVERTAKEN_SECONDS)
            else:
                return
        raise MoveError(
            f"{shown(key)} gets entries from another program at {self._ends.target.name}: until"
            " the cut-over only the move may write there"
        )

    # --- Follow ---------------------------------------------------------------------------------

    async def follow(self, *, until_level: bool) -> None:
        """Bring what producers add, for ever, or until a pass brings few entries."""
        surveyed = said = begun = time.monotonic()
        self._watcher.say("follows the source; the cut-over ends that, or Ctrl-C")
        while True:
            level, begun = begun, time.monotonic()
            before = self._done
            behind = await self.behind()
            if time.monotonic() - said >= SAID_EVERY_SECONDS:
                said = time.monotonic()
                entries = sum(one.entries for one in behind.values())
                self._watcher.say(f"{entries} entries and {said - level:.1f} s behind")
            await self._each(partial(self._follow_stream, behind=behind), behind)
            brought = self._done - before
            if until_level and brought <= LEVEL_ENTRIES:
                return
            if time.monotonic() - surveyed >= SURVEYED_EVERY_SECONDS:
                surveyed = time.monotonic()
                await self._survey()
            if not brought:
                await asyncio.sleep(IDLE_SECONDS)

    async def behind(self) -> dict[bytes, Lag]:
        """The streams of which the target lacks entries, or has some that were trimmed."""
        found: dict[bytes, Lag] = {}
        keys = self._found.of(STREAM)
        while keys:
            some = keys[: self._looked_at_once]
            try:
                lags = await self._ends.work(partial(lags_of, keys=some, added=self._added))
            except TooLargeError:
                if len(some) == 1:
                    raise
                self._looked_at_once = max(1, self._looked_at_once // 4)
                continue
            found.update((key, lag) for key, lag in lags.items() if lag != LEVEL)
            keys = keys[len(some) :]
        return found

    async def _follow_stream(self, key: bytes, behind: Mapping[bytes, Lag]) -> None:
        end = b"+"
        if self._ends.of_source.is_region:
            now_ms = millis(await self._ends.work(lambda pair: pair.source.call("TIME")))
            end = b"%d" % max(0, now_ms - SETTLED_MS)
        await self._copy_stream(key, end)
        if behind[key].is_trimmed:
            await self._trim(key)

    # --- Finish ---------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Bring everything as it is now: entries, deletions, groups, counters, strings."""
        await self._survey()
        await self._delete_gone()
        await self._count()
        await self._each(self._finish_stream, self._found.of(STREAM))
        await self._in_portions(bring_deadlines, self._found.of(STREAM))
        await self._in_portions(bring_strings, self._found.of(STRING), are_strings=True)

    async def _delete_gone(self) -> None:
        """Delete keys at the target that a move brought, and that the source has no more.

        Raises:
            MoveError: the source may have lost them.
        """
        missing = sorted(self._record.kinds.keys() - self._found.kinds.keys())
        found = await self._in_portions(gone_at_source, missing)
        keys = [key for one in found for key in one.keys]
        if not keys:
            return
        run_id = found[-1].run_id
        if not self._selection.delete_gone:
            recorded, of = self._record.notes[RUN_ID], len(self._record.kinds)
            earlier = not self._record.earlier.isdisjoint(keys)
            gone = Gone(run_id, keys)
            check_gone(self._ends, gone, recorded=recorded, of=of, are_earlier=earlier)
        deleted = await self._in_portions(partial(delete_gone, run_id=run_id), keys)
        self._deleted_keys += sum(deleted)
        self._watcher.say(f"{sum(deleted)} keys were deleted at the target: {named(keys)}")

    async def _finish_stream(self, key: bytes) -> None:
        await self._copy_stream(key, b"+")
        if not await self._has_same_length(key):
            await self._trim(key)
        if not await self._has_same_length(key):
            await self._repair_all(key)
        await self._bring_rest(key)

    async def _trim(self, key: bytes) -> None:
        """Delete what the source trimmed; of an earlier copy, the repair does, and asks first."""
        if key in self._record.earlier and not self._selection.delete_gone:
            return
        await self._check_not_lost(key)
        await self._ends.work(lambda pair: trim_to_source(pair, key))

    async def _check_not_lost(self, key: bytes) -> None:
        """See that entries which only the target has were deleted at the source, and not lost.

        Raises:
            MoveError: the source may have lost them.
        """
        if self._selection.delete_gone:
            return
        run_id = await self._ends.work(lambda pair: run_id_of(pair.source))
        if not has_restarted(self._record.notes[RUN_ID], run_id):
            return
        source, target = await self._ends.work(lambda pair: _facts(pair, key))
        if source is None or target is None or not may_have_lost_entries(source, target):
            return
        raise MoveError(
            f"{self._ends.source.name} has restarted since the move began, and {shown(key)} has"
            f" {source.length} entries there, {target.length} at the target. If the source lost"
            " some, the target has the only copy, so nothing was deleted. Restore the source; or,"
            f" if they may go, {ADVICE}"
        )

    async def _has_same_length(self, key: bytes) -> bool:
        source, target = await self._ends.work(lambda pair: _lengths(pair, [key]))
        return source == target

    async def _bring_rest(self, key: bytes) -> None:
        with_counters = self._ends.of_source.has_counters and self._ends.of_target.has_counters
        ahead = await self._ends.work(lambda pair: bring_groups(self._ends, pair, key))
        if ahead:
            self._watcher.say(
                f"{shown(key)}: groups have read at the target already ({named(ahead)}). They get"
                " the position of the source again, so their consumers get entries twice"
            )
        await self._ends.work(lambda pair: set_last_id(pair, key, with_counters=with_counters))

    async def _repair_all(self, key: bytes) -> None:
        """Repair in rounds: a check names so many entries only."""
        while True:
            check = await self._ends.work(lambda pair: compared_entries(pair, key))
            await self._repair(check)
            if check.only_at_target_count == len(check.only_at_target):
                return

    async def _repair(self, check: StreamCheck) -> None:
        """Make the target's entries those of the source.

        Raises:
            MoveError: the target has entries that no move can have added.
        """
        key = check.key
        source, target = await self._ends.work(lambda pair: _facts(pair, key))
        if source is None or target is None:
            return
        if check.only_at_target:
            await self._check_not_lost(key)
        # An entry that the source has got meanwhile is above; copying goes on there.
        lacks = check.first_changed is not None or (
            check.first_missing is not None and id_of(check.first_missing) < target.last_id
        )
        is_foreign = target.last_id > source.last_id
        may_delete = not (is_foreign or lacks or key in self._record.earlier)
        if check.only_at_target and not (may_delete or self._selection.delete_gone):
            raise MoveError(self._foreign(check, source))
        if lacks or (check.only_at_target and is_foreign):
            self._watcher.say(f"{shown(key)}: it is copied again, from its beginning")
            # Below the last ID nothing can be added.
            await self._ends.work(lambda pair: pair.target.call("DEL", key))
            self._done = max(0, self._done - target.length)
            self._deleted += check.only_at_target_count
            await self._copy_stream(key, b"+")
        elif check.only_at_target:
            ids = check.only_at_target
            await self._ends.work(lambda pair: delete_entries(pair.target, key, ids))
            self._deleted += len(ids)

    def _foreign(self, check: StreamCheck, source: StreamFacts) -> str:
        ids = named(check.only_at_target, total=check.only_at_target_count)
        return (
            f"{shown(check.key)} has entries at {self._ends.target.name} that the source (last:"
            f" {format_id(source.last_id).decode()}) does not have: {ids}. Another program may"
            " have written them, or the source deleted them or began the stream again; nothing was"
            f" deleted. Bring them to the source if they count; then {ADVICE}"
        )

    # --- Cut over -------------------------------------------------------------------------------

    async def cut_over(self, *, stop_writes: bool) -> Outcome:
        """Finish, and compare everything.  If it is equal, the record is deleted.

        Args:
            stop_writes: raise the fence first; it is lowered again unless everything is equal.
        """
        before = await self._remember_unfenced() if stop_writes else None
        is_done = False
        try:
            if before is not None:
                await raise_fence(self._ends, before)
            outcome = await self._cut_over(is_fenced=before is not None)
            if outcome.is_equal:
                await self._end_record(outcome)
            is_done = outcome.is_equal
        finally:
            if before is not None and not is_done:
                await self._lower_fence(before)
        if is_done:
            outcome.fenced = before
        return outcome

    async def _remember_unfenced(self) -> Unfenced:
        """The settings that the source had before the fence; they are in the record from now on."""
        before = await unfenced(self._ends, self._record.notes.get(FENCE))
        await self._record.note(FENCE, before.to_note())
        return before

    async def _lower_fence(self, before: Unfenced) -> None:
        try:
            await lower_fence(self._ends, before)
        except MoveError as error:
            # The reason for which the fence was to be lowered goes on.
            self._watcher.say(
                f"the fence could not be lowered: {error}. {self._ends.source.name} may refuse"
                f" writes; to take them again there: {before.commands}"
            )

    async def _end_record(self, outcome: Outcome) -> None:
        """Both ends are equal, which is true with a record that cannot be deleted, too."""
        try:
            await self._record.end()
        except MoveError as error:
            outcome.record_left = f"{self._record.name} ({error})"

    async def _cut_over(self, *, is_fenced: bool) -> Outcome:
        await self._survey()
        kinds, keys = dict(self._found.kinds), self._found.of(STREAM)
        expiries: dict[bytes, int] = {}
        for some in await self._in_portions(_expiries, sorted(kinds)):
            expiries.update(some)
        before = await self._each(self._fingerprint, keys)
        await self.finish()
        await self._count()
        self._done = 0
        outcome = Outcome(left=self._found.others)
        outcome.streams = await self._each(self._check_stream, keys)
        outcome.deleted = self._deleted
        outcome.deleted_keys = self._deleted_keys
        strings = self._found.of(STRING)
        outcome.strings = len(strings)
        for differing in await self._in_portions(differing_strings, strings, are_strings=True):
            outcome.differing_strings += differing
        changed = [] if is_fenced else await self._changed_since(outcome, strings)
        after = await self._each(self._fingerprint, keys)
        outcome.written_meanwhile = [
            key for key, one, other in zip(keys, before, after, strict=True) if one != other
        ]
        latest = await survey(self._ends, self._selection)
        outcome.written_meanwhile += sorted({*changed} - {*outcome.written_meanwhile})
        outcome.written_meanwhile += sorted(latest.kinds.keys() ^ kinds.keys())
        expired = await self._ends.work(lambda pair: expired_of(pair, expiries))
        outcome.forgive(frozenset(expired))
        return outcome

    async def _changed_since(self, outcome: Outcome, strings: list[bytes]) -> list[bytes]:
        """Keys that were equal and are not any more, in what a fingerprint does not show.

        That is all but the entries: pending entries, deadlines, strings.
        """
        equal = [one.key for one in outcome.streams if not one.differences]
        checks = await self._each(self._check_rest, equal)
        changed = [one.key for one in checks if one.differences]
        strings = sorted(set(strings) - set(outcome.differing_strings))
        for some in await self._in_portions(differing_strings, strings, are_strings=True):
            changed += some
        return changed

    async def _check_rest(self, key: bytes) -> StreamCheck:
        return await self._ends.work(lambda pair: check_rest(self._ends, pair, StreamCheck(key)))

    async def _check_stream(self, key: bytes) -> StreamCheck:
        check = await self._compare(key)
        if not check.has_same_entries:
            await self._repair_all(key)
            await self._bring_rest(key)
            check = await self._compare(key)
        self._done += check.source.entries
        self._watcher.show(CHECKED, self._done, self._total)
        return check

    async def _compare(self, key: bytes) -> StreamCheck:
        return await self._ends.work(lambda pair: check_stream(self._ends, pair, key))

    async def _fingerprint(self, key: bytes) -> object:
        """Something that changes whenever the stream at the source or one of its groups does."""

        async def look(pair: Pair) -> object:
            rows = await pair.source.call_or_none("XINFO", "GROUPS", key)
            return await facts_of(pair.source, key), rows

        return await self._ends.work(look)

    # --- Many at a time -------------------------------------------------------------------------

    async def _each(
        self, work: Callable[[bytes], Awaitable[Result]], keys: Iterable[bytes]
    ) -> list[Result]:
        """Work on keys, some at a time; results in the order of the keys."""
        places = asyncio.Semaphore(STREAMS_AT_ONCE)

        async def one(key: bytes) -> Result:
            async with places:
                return await work(key)

        return await together(*(one(key) for key in keys))

    async def _in_portions(
        self,
        work: Callable[[Pair, list[bytes]], Awaitable[Result]],
        keys: list[bytes],
        *,
        are_strings: bool = False,
    ) -> list[Result]:
        """Work on portions of keys, one after the other; strings are portioned by their size."""
        results: list[Result] = []

        async def some(pair: Pair) -> None:
            results.clear()
            async for portion in portions(pair.source, keys, are_strings=are_strings):
                results.append(await work(pair, portion))
                self._ends.progressed()

        await self._ends.work(some)
        return results


async def _lengths(pair: Pair, keys: list[bytes]) -> tuple[int, int]:
    """Entries of all the streams, at the source and at the target."""
    commands = [("XLEN", key) for key in keys]
    source, target = await together(pair.source.call_all(commands), pair.target.call_all(commands))
    return sum(source), sum(target)


async def _facts(pair: Pair, key: bytes) -> tuple[StreamFacts | None, StreamFacts | None]:
    return await facts_of(pair.source, key), await facts_of(pair.target, key)


async def _expiries(pair: Pair, keys: list[bytes]) -> dict[bytes, int]:
    return await expiries_of(pair.source, keys)


async def _delete(pair: Pair, keys: list[bytes]) -> None:
    await pair.target.call_all([("DEL", key) for key in keys])
