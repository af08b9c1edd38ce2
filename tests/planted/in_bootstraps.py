"""Slips in taking over another region's state: in the copy, in the merge, in the staging."""

from collections.abc import Sequence
from typing import Any, Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.merge.keys import merge_tombstones
from crdtstream.core.merge.lanes import merge_lane, plan_lane
from crdtstream.core.merge.merging import Merging
from crdtstream.core.replica import Replica
from crdtstream.engine.bootstrapper import Bootstrapper
from crdtstream.sim.bootstraps import SimCopy, SimPeer
from crdtstream.store.checkpoints import CheckpointRow
from tests.planted.bug import Bug, Patch, everywhere


def _a_cut_is_named_as_it_is_now() -> Sequence[Patch]:
    """The sender claims for its checkpoint all that the region has by now."""

    def vv_of(_self: SimCopy, peer: SimPeer, _row: CheckpointRow) -> VersionVector:
        return dict(peer.region.outstanding.durable_vv)

    return [(SimCopy, "_vv_of", vv_of)]


def _own_entries_beyond_the_state_are_dropped() -> Sequence[Patch]:
    """Entries that the sender has not heard of count as removed there."""

    def wrong_plan(lane: Any, sent: Any, *, here_n: int, there_n: int, **rest: Any) -> Any:
        return plan(lane, sent, here_n=here_n, there_n=max(here_n, there_n), **rest)

    def merged(lane: Lane, sent: Any, *, here_n: int, there_n: int, **rest: Any) -> None:
        merge(lane, sent, here_n=here_n, there_n=max(here_n, there_n), **rest)

    plan, merge = plan_lane, merge_lane
    return [*everywhere(plan, wrong_plan), *everywhere(merge, merged)]


def _tombstones_are_not_merged() -> Sequence[Patch]:
    return everywhere(merge_tombstones, lambda _state, _sent: None)


def _numbering_does_not_go_on_behind_a_merge() -> Sequence[Patch]:
    """Own effects that are restored by a state do not count."""

    def wrong(self: Replica, merging: Merging, now: Millis) -> None:
        issued = self.issued
        merge(self, merging, now)
        self._section.begin(issued + 1)

    merge = Replica._merge
    return [(Replica, "_merge", wrong)]


def _a_staging_goes_before_a_checkpoint_has_it() -> Sequence[Patch]:
    """The staging is deleted as soon as its state is merged."""

    async def end(self: Bootstrapper) -> None:
        await self._staging.discard()
        self._region.bootstrap.note_saved()

    return [(Bootstrapper, "_end_if_saved", end)]


IN_BOOTSTRAPS: Final = (
    Bug(
        "a-cut-is-named-as-it-is-now",
        "a region that takes over a state lacks what the sender got since its checkpoint, for good",
        _a_cut_is_named_as_it_is_now,
        frozenset({"I1"}),
        seed=11,
    ),
    Bug(
        "own-entries-beyond-a-state-are-dropped",
        "a region that takes over a state loses what it acknowledged meanwhile",
        _own_entries_beyond_the_state_are_dropped,
        frozenset({"I1"}),
        seed=750,
    ),
    Bug(
        "tombstones-are-not-merged",
        "what was deleted lives on in a region that took over a state",
        _tombstones_are_not_merged,
        frozenset({"I1"}),
        seed=755,
    ),
    Bug(
        "numbering-does-not-go-on-behind-a-merge",
        "a region whose folder was lost gives its dots away a second time",
        _numbering_does_not_go_on_behind_a_merge,
        frozenset({"I3", "assertion"}),
        seed=160,
    ),
    Bug(
        "a-staging-goes-before-a-checkpoint-has-it",
        "a region that is killed after a bootstrap cannot start again",
        _a_staging_goes_before_a_checkpoint_has_it,
        frozenset({"error"}),
        seed=23,
    ),
)
