"""A merge in slices: clients read and write on, and see nothing of it before its last step.

    go_on   go_on   go_on  ...   finish
    ──┬───────┬───────┬────────────┬──────
      │       │       │            └ shows what was built, merges what is left, joins the vectors
      └───────┴───────┴ some keys each: built aside, found to be alike, or left for the end

A state that is half merged must not be seen: an effect issued on it would have observed what its
context does not cover.  So keys that nothing is kept of here are built aside, in a state that
nothing reads.  Keys that would not change are found out.  All others are merged in the last step;
the entries that are needed for that are read before.  The result is the same, however many slices
there are.

Always so:
  * Until ``finish`` the state is as without the merge, and no checkpoint has anything of it.
    ``give_up`` forgets what was built.
  * Between slices only effects are applied that the other region cannot have: own ones, beyond all
    that it has heard of this region.  If others were, ``finish`` begins again.  So a dot stays as
    new, here and there, as it was.  A key that was alike needs no merge, whatever happens to it:
    all that was sent of it is known here, and what is added is new there.  What is read of a lane
    holds as well.  Only what was built does not count if the key was made here since.
  * What was built aside is on disk only: no macro node of it is in memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum, auto
from typing import Final

from crdtstream.core.checkpoint.parts import Part
from crdtstream.core.clock import join
from crdtstream.core.effects import Merged
from crdtstream.core.histories import check_same
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.membership.members import joined
from crdtstream.core.merge.alike import is_unchanged
from crdtstream.core.merge.lanes import LanePlan, LanePlans, came_at, plan_lane
from crdtstream.core.merge.merge import merge_key
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import (
    NOTHING_OF_PRODUCERS,
    SentKey,
    SentState,
    check_covered,
    nothing_of,
)
from crdtstream.core.size import Size
from crdtstream.core.whole.state import State

# Keys that a slice looks at: about a millisecond.
SLICE_KEYS: Final = Size(16, least=1)


class Step(Enum):
    """Kinds of steps, and how much of a slice each of them is."""

    KEY = auto()  # a key was looked at: many to a slice
    READ = auto()  # macro nodes were read: that is a slice


class Merging:
    """Another region's state on its way into this region's; one at a time.

    Attributes:
        merged: which state it is.
    """

    def __init__(self, state: State, read: Callable[[Merged], SentState], merged: Merged) -> None:
        """A merge that has not looked at any key.

        Args:
            read: reads the other region's state, from its beginning.
        """
        self.merged = merged
        self._state = state
        self._read = read
        self._begin()

    def _begin(self) -> None:
        state = self._state
        self._sent = self._read(self.merged)
        self._steps = self._all_steps()
        self._both = Both(dict(state.vv), self.merged.vv)
        self._aside = state.aside()
        # The parts that were made aside.
        self._parts: dict[Part, None] = {}
        # Of them those that ``NodeLimits.small`` is to have.
        self._small: OrderedDict[MacroNode, None] = OrderedDict()
        # By key what the other region calls it.
        self._built: dict[bytes, int] = {}
        self._alike: set[bytes] = set()
        self._left: dict[bytes, tuple[SentKey, LanePlans]] = {}
        # Keys that only this region has something of, and that change.
        self._left_alone: set[bytes] = set()

    # --- Before the last step -----------------------------------------------------------------

    def go_on(self) -> bool:
        """Look at the next keys, or read on where the two sides of one differ.

        Returns:
            Whether there is more.

        Raises:
            ContentError: an image says what cannot be.
            StoreError: an image cannot be read.
            UnreadableError: an entry cannot be read.

        Cost: O(macro nodes) of SLICE_KEYS keys, and reading one of the other region's macro nodes
        with what this one has in its place.
        """
        with self._state.residency.in_place():
            for _ in range(SLICE_KEYS.value):
                step = next(self._steps, None)
                if step is None:
                    return False
                if step is Step.READ:
                    break
            return True

    def _all_steps(self) -> Iterator[Step]:
        for sent in self._sent.keys:
            yield from self._look_at(sent)
            yield Step.KEY
        # Also those that were looked at; nothing was sent of those that clients make in between.
        mine = self._state.parts.keys()
        for key in mine:
            if key not in self._alike and key not in self._left and key not in self._built:
                self._look_at_own(key)
            yield Step.KEY

    def _look_at(self, sent: SentKey) -> Iterable[Step]:
        """Look at a key; returns the steps that are left of it, mostly none."""
        check_covered(sent, self._both.there)
        if is_unchanged(self._state, sent, self._both):
            self._alike.add(sent.key)
        elif self._is_built(sent):
            self._built[sent.key] = sent.content.number
        else:
            return self._leave(sent)
        return ()

    def _leave(self, sent: SentKey) -> Iterator[Step]:
        plans: dict[RegionId, LanePlan] = {}
        for region in sent.lanes:
            plans[region] = yield from self._plan(sent, region)
        self._left[sent.key] = sent, plans

    def _plan(self, sent: SentKey, region: RegionId) -> Generator[Step, None, LanePlan]:
        """Read the entries of a lane that are needed where the two sides differ."""
        both, stream = self._both, self._state.keys.streams.get(sent.key)
        reading = plan_lane(
            None if stream is None else stream.lanes.get(region),
            sent.lanes[region],
            here_n=both.here.get(region, 0),
            there_n=both.there.get(region, 0),
            residency=self._state.residency,
        )
        while True:
            try:
                next(reading)
            except StopIteration as stopped:
                plan: LanePlan = stopped.value
                return plan
            yield Step.READ

    def _look_at_own(self, key: bytes) -> None:
        if not is_unchanged(self._state, nothing_of(key, self.merged.source), self._both):
            self._left_alone.add(key)

    def _can_be_built(self, sent: SentKey) -> bool:
        """True if it has only what can be built aside: nothing that is kept in the order of all
        keys, and no entries that must be read."""
        content, here = sent.content, self._both.here
        if content.floors or content.tombstones or content.gone or content.ended_shares:
            return False
        if sent.producers is not NOTHING_OF_PRODUCERS:
            return False
        if any(group.settings for group in sent.groups.values()):
            return False
        return not any(
            head.header.first_n <= here.get(region, 0) < head.header.last_n
            for region, nodes in sent.lanes.items()
            for _, head in nodes
        )

    def _is_built(self, sent: SentKey) -> bool:
        """Build a key aside, if it can be; its numbers are those of the state."""
        state, aside = self._state, self._aside
        if state.keeps(sent.key) or not self._can_be_built(sent):
            return False
        aside.parts.last_number, aside.groups_made = state.parts.last_number, state.groups_made
        limits = state.keys.node_limits
        shown, limits.small = limits.small, self._small
        try:
            with state.changes.aside(self._parts):
                merge_key(aside, sent, self._both)
        finally:
            limits.small = shown
        state.parts.last_number, state.groups_made = aside.parts.last_number, aside.groups_made
        if aside.keys.lost_of_gone(sent.key):
            # All of it is gone, and what it lost is kept in the order of all such keys.
            self._forget_built(sent.key)
            return False
        return True

    def give_up(self) -> None:
        """Forget what was built; nothing else is to be done with it."""
        for part in self._parts:
            if isinstance(part, MacroNode):
                self._state.residency.forget(part)
        self._parts = {}

    # --- The last step ------------------------------------------------------------------------

    def finish(self, arrived: Millis) -> None:
        """Merge all that another region has; slices that are missing are done here.

        Args:
            arrived: when it came here.

        Raises:
            ContentError: an image says what cannot be.
            ForkError, HistoryError: its members or its effects are of another history.  Nothing has
                changed then.
            UnreadableError: an entry that must be read cannot be.

        Cost: O(keys + macro nodes) of those that are left or changed since; of those that were
        built some microseconds each.
        """
        state = self._state
        before_n = state.issued
        if not self._holds():
            self.give_up()
            self._begin()
        while self.go_on():
            pass
        assert self._holds(), "what was found in the slices does not hold any more"
        members = joined(state.members, self._sent.members)
        check_same(state.histories, self._sent.histories)
        state.keys.arrival = max(state.keys.arrival, arrived)
        self._look_again()
        self._show()
        # Behind that: what was built has to follow new heirs, too.
        state.set_members(members)
        both = Both(dict(state.vv), self.merged.vv)
        for sent, plans in self._left.values():
            merge_key(state, sent, both, plans)
        for key in sorted(self._left_alone):
            merge_key(state, nothing_of(key, self.merged.source), both)
        state.tombstones.restore_order()
        state.ended_shares.restore_order()
        state.idempotency.restore_order()
        state.numbered.restore_order()
        state.settings.restore_order()
        state.histories.take_over(self._sent.histories, state.vv, self.merged.vv)
        assert state.issued == before_n, "a merge issues nothing"
        join(state.vv, self.merged.vv)

    def _holds(self) -> bool:
        """True if each dot is as new, here and there, as it was in the slices."""
        now, here, own = self._state.vv, self._both.here, self._state.region
        others = {*now, *here} - {own}
        if any(now.get(region, 0) != here.get(region, 0) for region in others):
            return False
        n = here.get(own, 0)
        return now.get(own, 0) == n or self.merged.vv.get(own, 0) <= n

    def _look_again(self) -> None:
        """Look again at built keys that clients have made since; drop what was built of them."""
        for key in sorted(self._aside.parts.shared_with(self._state.parts)):
            self._forget_built(key)
            for _ in self._look_at(self._sent.again(self._built.pop(key))):
                pass

    def _forget_built(self, key: bytes) -> None:
        aside = self._aside
        stream = aside.keys.streams.get(key)
        if stream is not None:
            for lane in stream.lanes.values():
                for node in lane.macro_nodes():
                    self._state.residency.forget(node)
                    self._small.pop(node, None)
                    del self._parts[node]
            for group in stream.groups.values():
                del self._parts[group]
        aside.keys.forget(key)
        part = aside.parts.forget(key)
        if part is not None:
            del self._parts[part]

    def _show(self) -> None:
        """Make what was built part of the state; it counts as arrived now."""
        arrived = self._state.keys.arrival
        for part in self._parts:
            if isinstance(part, MacroNode):
                assert part.cold is not None, "what is built aside is on disk only"
                assert part.here is None
                part.cold = came_at(part.cold, arrived)
        self._state.take_in(self._aside)
        self._state.changes.take_in(self._parts)
        self._state.keys.node_limits.small.update(self._small)
